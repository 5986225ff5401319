"""The tutorials' commands, in their order, as they stand there. The packaged model's replies are recorded ones; what is
trained is a tiny model in its place. `make docs-run` runs the one on training whole, with the packaged model itself."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.commands.test_docs_commands import taken
from tests.end_to_end.support import DOCUMENTS, ROOT, put_replies, trailforge
from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_documents
from tests.training.tiny import save_tiny_model
from trailforge.presets import load_training_preset

pytestmark = [pytest.mark.slow, pytest.mark.real_model]

TUTORIALS = ROOT / "docs" / "tutorials"
OWN_SERVER = "http://127.0.0.1:8000/v1"
"""Commands with it are only parsed: they want a model server of the reader's. All others run."""
WHOLE = os.environ.get("TRAILFORGE_DOCS_RUN") == "1"


def commands(name: str) -> list[list[str]]:
    """The words after `trailforge` of each command of a tutorial, in order."""
    text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    found = [shlex.split(line, comments=True) for line in lines]
    assert all(words[:1] == ["trailforge"] for words in found)
    return [words[1:] for words in found]


def run_all(name: str, places: Mapping[str, str | Path], **more: list[object]) -> dict[str, str]:
    """Run all commands but those that want a server of one's own, and return what each printed.

    `places`: what stands for a word, or for the beginning of a path. `more`: further words for a command.
    """
    printed = {}
    for words in commands(name):
        if OWN_SERVER in words:
            assert words[0] == "preview" or taken(words).params
            continue
        given: list[object] = [places.get(word, word) for word in words]
        for start, place in places.items():
            given = [f"{place}{word[len(start) :]}" if str(word).startswith(f"{start}/") else word for word in given]  # type: ignore[index]
        given += more.get(words[0] if words[0] != "train" else words[1], [])
        ended = trailforge(*given, timeout_s=3000 if WHOLE else 300)
        assert ended.code == 0, (words, ended.out, ended.err)
        printed[" ".join(words)] = ended.out
    return printed


def test_most_commands_run() -> None:
    """Those of README all do (`test_readme`)."""
    found = [words for page in TUTORIALS.glob("*.md") for words in commands(page.stem)]
    assert sum(OWN_SERVER in words for words in found) <= 0.15 * len(found)


def test_own_questions(tmp_path: Path) -> None:
    """The file as the page shows it."""
    page = (TUTORIALS / "questions.md").read_text(encoding="utf-8")
    (content,) = re.findall(r"```jsonl questions.jsonl\n(.*?)```", page, re.DOTALL)
    (tmp_path / "questions.jsonl").write_text(content)
    put_replies(tmp_path / "out/tried", "tutorial-questions")
    said = run_all("questions", {"questions.jsonl": tmp_path / "questions.jsonl", "out": tmp_path / "out"})
    assert "2  100.0%" in said["audit questions.jsonl --paragraphs --out out/audit"]
    assert "<answer>" in said["show out/tried"]


def test_own_documents(tmp_path: Path) -> None:
    """Of few of the sample's documents."""
    documents = sample_documents()
    write_documents(tmp_path / "documents.jsonl", [*documents[16:20], *documents[28:32], *documents[44:48]])
    put_replies(tmp_path / "out/bundles", "document-bundles")
    places = {str(DOCUMENTS.relative_to(ROOT)): tmp_path / "documents.jsonl", "out": tmp_path / "out"}
    said = run_all("documents", places)
    assert "sft/train.parquet" in said["export out/set --to trl --out out/trl"]


@pytest.mark.timeout(7200)
def test_training(tmp_path: Path) -> None:
    """From rows to two evaluations that are compared."""
    places: dict[str, str | Path] = {"out": tmp_path / "out", "sample_data": ROOT / "sample_data"}
    more: dict[str, list[object]] = {}
    if not WHOLE:
        put_replies(tmp_path / "out/mcts", "mcts-trajectories")
        model = save_tiny_model(tmp_path / "tiny", window=8192)
        preset = load_training_preset("demo")
        changed = {**preset, "sft": {**preset["sft"], "max_tokens": 8192, "batch_size": 2, "logging": "none"}}
        (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(changed))
        tiny = ["--preset", tmp_path / "tiny.yaml", "--base-model", model]
        more = {"check": [*tiny, "--evaluation", "demo"], "sft": tiny}
    said = run_all("training", places, **more)
    (checked,) = [text for words, text in said.items() if words.startswith("train check")]
    assert "McNemar" in checked and (tmp_path / "out/check/after/report.md").exists()
    assert (tmp_path / "out/openai/sft/train.jsonl").exists()
    print(checked, file=sys.stderr)
