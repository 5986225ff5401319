"""README.md's commands and its Python, as they stand there: what the demo's fixtures do not run is run here on what
they made."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.commands.test_docs_commands import taken
from tests.end_to_end.support import ROOT, Made, put_replies, readme_command, readme_commands, trailforge

pytestmark = pytest.mark.slow

BY_FIXTURES = ("mcts-trajectories", "document-bundles", "kg build", "kg-trajectories", "kg-questions")
"""See `conftest`, the first of each name; `inspect` is tried in a browser by `test_inspect`."""


@pytest.mark.parametrize("words", readme_commands(), ids=" ".join)
def test_a_command_is_taken(words: list[str]) -> None:
    assert taken(words).params or words[0] == "preview"


@pytest.mark.real_model
def test_what_is_done_with_runs(demo_trajectories: Made, demo_episodes: Made, tmp_path: Path) -> None:
    """Looked at, verified, made a training set and exported; a dry run, which needs no run."""
    places = {
        "out/mcts": demo_trajectories.out,
        "out/kg": demo_episodes.out,
        "out/set": tmp_path / "set",
        "out/verl": tmp_path / "verl",
    }
    wanted = [words for words in readme_commands() if words[0] in ("show", "verify", "training-set", "export")]
    wanted += [words for words in readme_commands() if "--dry-run" in words]
    assert len(wanted) == 6
    for words in wanted:
        ended = trailforge(*(places.get(word, word) for word in words))
        assert ended.code == 0 and ended.out.strip(), (words, ended.err)
    assert (tmp_path / "verl" / "README.md").exists()


def test_a_world_is_made_of_a_graph(sample_graph: Path, tmp_path: Path) -> None:
    ended = trailforge(*readme_command("world", kg=sample_graph, out=tmp_path / "world"))
    assert ended.code == 0, ended.err
    assert len((tmp_path / "world" / "questions.jsonl").read_text().splitlines()) == 100
    assert json.loads((tmp_path / "world" / "world.json").read_text())


@pytest.mark.real_model
def test_an_agent_is_evaluated(tmp_path: Path) -> None:
    """With recorded replies: the model's own take a quarter of a minute."""
    put_replies(tmp_path / "evaluation", "evaluate")
    ended = trailforge(*readme_command("evaluate", out=tmp_path / "evaluation"), timeout_s=300)
    assert ended.code == 0, ended.err
    assert "episodes 4/4" in ended.err and "calls 0 (+4 from ledger)" in ended.err
    assert "| react | bm25 |" in (tmp_path / "evaluation" / "report.md").read_text()


@pytest.mark.real_model
def test_its_python_runs_and_gives_what_it_says(
    demo_trajectories: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the commands before it have run."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mcts").symlink_to(demo_trajectories.out)
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    given = []
    for node in ast.parse(block).body:
        if isinstance(node, ast.Expr):
            given.append(eval(compile(ast.Expression(node.value), "README.md", "eval"), names))
        else:
            exec(compile(ast.Module([node], []), "README.md", "exec"), names)
    said = re.findall(r"^\w.*  # (.*)$", block, re.MULTILINE)
    assert said and [f"{each:.2f}" if isinstance(each, float) else str(each) for each in given] == said


@pytest.mark.real_model
def test_a_preview_keeps_its_replies_for_the_run(demo_trajectories: Made, tmp_path: Path) -> None:
    """Three rows are shown; nothing but the ledger is left, and the run of the same options begins with it."""
    out = tmp_path / "out"
    shown = trailforge(*readme_command("preview mcts-trajectories"), "--limit", 1, "--out", out, timeout_s=300)
    assert shown.code == 0 and "<answer>" in shown.out, shown.err
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*")) == ["ledger", "ledger/calls.sqlite"]
    run = trailforge(*readme_command("mcts-trajectories", out=out), "--limit", 1, timeout_s=300)
    assert run.code == 0, run.err
    assert "calls 0 (+" in run.err, run.err
