"""`trailforge evaluate --agent browse` over pages in process and served, shown, and exported to train on."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_evaluate import run
from tests.support.browse_agent import ANSWER, QUESTION, Road
from tests.support.model_server import running, stats
from tests.support.warm import Running
from trailforge.evaluation.folder import read_episodes
from trailforge.schemas import InvalidInput

STOPS = 8
PRESET = {
    "model": {"name": "scripted", "url": "http://127.0.0.1:9/v1"},
    "top_k": 2,
    "agents": {"browse": {"turn_tokens": 256, "context": "newest:3", "max_calls": 60}},
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(browse=2) as address:
        yield address


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents, an index of their pages, a question and a preset."""
    folder, road = tmp_path_factory.mktemp("road"), Road(STOPS)
    road.write(folder / "documents.jsonl")
    asked = {"id": "q1", "question": QUESTION, "answer": ANSWER}
    (folder / "questions.jsonl").write_text(json.dumps(asked) + "\n")
    (folder / "preset.yaml").write_text(json.dumps(PRESET))
    run("index", "build", folder / "documents.jsonl", "--backend", "bm25", "--pages", "--out", folder / "index")
    return folder


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[str]:
    """`serve-search` over that index."""
    out = place / "served.txt"
    process = Running(["serve-search", str(place / "index"), "--port", "0"], os.environ, out, out)
    try:
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", out.read_text() if out.exists() else "")):
            assert process.poll() is None, out.read_text()
            time.sleep(0.02)
        yield found[0]
    finally:
        process.end_group()


def evaluate(place: Path, url: str, out: Path, *backends: str, **numbers: Any) -> str:
    agents = {"browse": PRESET["agents"]["browse"] | numbers}  # type: ignore[index, operator]
    (place / "preset.yaml").write_text(json.dumps(PRESET | {"agents": agents}))
    asked = ("evaluate", place / "questions.jsonl", "--preset", place / "preset.yaml", "--agent", "browse")
    named = (part for backend in backends for part in ("--backend", backend))
    return run(*asked, *named, "--model", url, "--model-name", "scripted", "--out", out)


@pytest.mark.parametrize("writing", ["native", "tags"])
def test_over_an_index_and_over_a_server_the_same_episode(
    place: Path, url: str, served: str, tmp_path: Path, writing: str
) -> None:
    out = tmp_path / "out"
    evaluate(place, url, out, f"here={place / 'index'}", f"there={served}", writing=writing)
    here, there = read_episodes(out)
    for row in (here, there):
        assert (row.answer, row.stop, row.failures) == (ANSWER, "answered", ())
        assert row.browse is not None and (row.browse.writing, row.browse.context) == (writing, "newest:3")
        assert row.browse.figures.pages_opened >= STOPS - 2 and row.browse.figures.pages_cited == 1
    assert here.browse is not None and there.browse is not None
    assert here.browse.messages == there.browse.messages and here.browse.views == there.browse.views
    asked = stats(url)["calls"]
    evaluate(place, url, out, f"here={place / 'index'}", f"there={served}", writing=writing)
    assert stats(url)["calls"] == asked  # what is finished is not asked again

    shown = run("show", out, "--kind", "right")
    assert all(each in shown for each in ("newest:3", "p002", "repeated calls", "pages unused"))
    run("export", out, "--to", "openai", "--out", tmp_path / "openai")
    rows = [json.loads(line) for line in (tmp_path / "openai" / "sft" / "train.jsonl").read_text().splitlines()]
    assert len(rows) == len(here.browse.views) + len(there.browse.views)
    assert all(("tools" in row) is (writing == "native") for row in rows)


def test_what_cannot_be_is_said_in_a_line_before_anything_is_asked(place: Path, url: str, tmp_path: Path) -> None:
    asked = stats(url)["calls"]
    with pytest.raises(InvalidInput, match="expected all, newest"):
        evaluate(place, url, tmp_path / "out", f"here={place / 'index'}", context="none")
    assert stats(url)["calls"] == asked and not (tmp_path / "out").exists()
