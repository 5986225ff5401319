"""The lines by which the pages on figures say how to measure anew, in their order, as they stand, at a small size.

Public data sets are made-up files of a few questions here; those of graphs are the real ones, where they are. What
takes long runs in `make docs-run` alone.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.commands.test_docs_commands import blocks
from tests.end_to_end.guides import NOT_RUN, RUN_ELSEWHERE, Guide, How, small
from tests.end_to_end.measurements import PAGES, Line, pack, write_data
from tests.end_to_end.support import ROOT
from tests.end_to_end.test_tutorials import OWN_SERVER, WHOLE
from tests.support import finished_runs as made
from tests.support.bundle_rows import sample_documents
from tests.support.world import write_questions
from tests.training.tiny import save_tiny_model
from trailforge.presets import load_training_preset

pytestmark = [pytest.mark.slow, pytest.mark.real_model]

HOW = {
    "mcts-trajectories": small("mcts-trajectories", "--limit", "2", "--model", OWN_SERVER),
    "document-bundles": small("document-bundles"),
    "training-set": How(),
    "evaluate": How("evaluations", ("--limit", "1", "--seeds", "0", "--model", OWN_SERVER, "--model-name", "scripted")),
    "train": How(more=("--max-steps", "1", "--base-model", "tokenizer")),
}
GRAPHS = ("kg --real", "kg_names", "kg_paths")
"""Lines that want public graphs."""


def lines_of(block: str) -> list[str]:
    """Each whole, without what is said of it."""
    return [shlex.join(shlex.split(line, comments=True)) for line in block.replace("\\\n", "").splitlines()]


def parts() -> list[tuple[str, list[str]]]:
    """The blocks with what a test here runs, by a name for each."""
    wanted = [lines_of(block) for page in PAGES for block in blocks(page, "bash")]
    return [(lines[0], lines) for lines in wanted if any(is_run(line) for line in lines)]


def is_run(line: str) -> bool:
    """By a test here."""
    typed = " ".join(shlex.split(line))
    if typed.startswith((*NOT_RUN, *RUN_ELSEWHERE)):
        return False
    read = Line.read(line)
    return read is None or WHOLE or not read.is_long


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch, guide: Guide) -> Path | None:
    """The public graphs, if there are any."""
    given = os.environ.get("TRAILFORGE_DATA")
    graphs = Path(given, "kg") if given else None
    write_data(guide.folder / "data", graphs)
    monkeypatch.setenv("TRAILFORGE_DATA", str(guide.folder / "data"))
    return graphs


@pytest.mark.parametrize("lines", [pytest.param(lines, id=name) for name, lines in parts()])
def test_it_can_be_measured_anew(lines: list[str], guide: Guide, public: Path | None) -> None:
    _prepare(guide, " ".join(lines))
    for line in lines:
        words = shlex.split(line)
        if not is_run(line) or words[0] == "export":
            continue
        read = Line.read(line)
        if read is None:
            assert words[0] == "trailforge", line
            guide.put(words[1:], HOW[words[1]])
        elif public is None and str(read).startswith(GRAPHS):
            pytest.skip("TRAILFORGE_DATA is not set")
        else:
            assert len(read.run(guide.folder).strip()) > 20, line


def _prepare(guide: Guide, named: str) -> None:
    """What lines name: questions, articles of known events, a run, a tokenizer, and a preset for a tiny model."""
    for name in ("questions.jsonl", "musique100.jsonl"):
        write_questions(guide.folder / name, 4)
    documents = enumerate(sample_documents()[16:24])
    rows = [
        {"id": d.id, "title": d.title, "text": d.text, "source": d.source, "published": d.published, "event": n // 2}
        for n, d in documents
    ]
    pack(Path("articles.jsonl.gz"), rows)
    if "--tokenizer" in named or "train sft" in named:
        save_tiny_model(Path("tokenizer"), window=8192)
    if "train sft" in named:
        asked = [made.question(number) for number in range(8)]
        conversations = [row for each in asked for row in made.mcts_rows(each)]
        made.mcts_run(Path("datasets_out/demo").absolute(), asked, conversations)
        preset = load_training_preset("demo")
        little = {"batch_size": 2, "max_tokens": 8000, "logging": "none", "precision": "float32"}
        Path("mine.yaml").write_text(json.dumps({**preset, "sft": {**preset["sft"], **little}}))


def test_the_benchmarks_are_listed() -> None:
    """As `make bench` does; what it depends on is there."""
    told = subprocess.run(
        ["make", "-o", "install", "bench"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "make bench B=front_door" in told and "make bench B=_" not in told
