"""The whole grid of `trailforge evaluate` with a scripted model: all agents over all back ends, killed on the way."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from tests.support.kg_agent import searched_store
from tests.support.model_server import running
from tests.support.warm import Running
from tests.support.world import question, write_questions
from trailforge.evaluation.agents import AGENTS
from trailforge.evaluation.folder import read_episodes, read_evaluation
from trailforge.evaluation.results.metrics import summarize
from trailforge.pipelines.dataset import LEDGER
from trailforge.protocols import PROTOCOLS
from trailforge.protocols.browse import BROWSE
from trailforge.retrieval.backends import BACKENDS
from trailforge.schemas.agent_episode import AgentEpisode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

QUESTIONS, SHARD = 2, 1
ALL_AGENTS = (*(name for name in AGENTS if name != BROWSE), *PROTOCOLS)
"""All but the research agent, which `tests/commands/test_browse.py` lets go over pages."""
KILLED_AT = 3 * len(ALL_AGENTS) * QUESTIONS // SHARD // 2
"""Shards: half of those of the second back end."""
_PRESET = f"""
shard_size: {SHARD}
episodes_in_flight: 16
"""


@dataclass(frozen=True)
class Killed:
    """A grid that was killed once and went on by the same command, and one of its first back ends that was not."""

    folder: Path
    undisturbed: Path
    finished: dict[Path, int]
    """Files of finished shards at the kill, and when each was written."""
    received: int
    """Different calls that the server had received at the kill."""
    kept: int
    """Replies in the ledger then."""
    calls: list[str]
    """All that the server has received, by content."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    folder = tmp_path_factory.mktemp("grid")
    write_questions(folder / "questions.jsonl", QUESTIONS)
    searched_store(folder / "kg", [question(n, (2, 3)[n % 2]) for n in range(QUESTIONS)])
    (folder / "preset.yaml").write_text(_PRESET)
    log = folder / "calls.log"
    with running(evaluations=1, latency=0.005, log=log) as url:
        out = folder / "out"
        process = start(folder, url, out, BACKENDS)
        while len(list((out / "shards").glob("*.json"))) < KILLED_AT:
            assert process.poll() is None, f"the grid has ended by itself:\n{(folder / 'log').read_text()[-3000:]}"
            time.sleep(0.01)
        process.end_group()
        received, finished = len(set(asked_of(log))), written(out)
        with closing(sqlite3.connect(out / LEDGER)) as ledger:
            (kept,) = ledger.execute("SELECT count(*) FROM calls").fetchone()
        assert start(folder, url, out, BACKENDS).wait(300) == 0
        calls = asked_of(log)
        undisturbed = folder / "undisturbed"
        assert start(folder, url, undisturbed, BACKENDS[:2]).wait(300) == 0
    yield Killed(out, undisturbed, finished, received, kept, calls)


def start(folder: Path, url: str, out: Path, backends: tuple[str, ...]) -> Running:
    words = ["evaluate", str(folder / "questions.jsonl"), "--out", str(out)]
    words += ["--preset", str(folder / "preset.yaml"), "--kg", str(folder / "kg"), "--kg-filter", "first"]
    words += ["--encoder", f"{url}#words", "--model", url, "--model-name", "scripted"]
    words += [*(f"--agent={name}" for name in ALL_AGENTS), *(f"--backend={name}" for name in backends)]
    return Running(words, os.environ, folder / "log", folder / "log")


def asked_of(log: Path) -> list[str]:
    return [line.split()[1] for line in log.read_text().splitlines() if line.startswith("in ")]


def written(out: Path) -> dict[Path, int]:
    """Of the shards that have a receipt."""
    parts = {path.stem for path in (out / "shards").glob("*.json")}
    return {path: path.stat().st_mtime_ns for path in out.glob("episodes/*/*.parquet") if path.stem in parts}


@cache
def rows(folder: Path) -> dict[str, AgentEpisode]:
    """Of a grid that has ended, without what the clock says."""
    found = list(read_episodes(folder))
    assert len({each.uid for each in found}) == len(found)
    return {each.uid: without_seconds(each) for each in found}


def without_seconds(row: AgentEpisode) -> AgentEpisode:
    searches = tuple(replace(search, seconds=0.0) for search in row.searches)
    return replace(row, searches=searches, costs=replace(row.costs, seconds=None))


def test_every_agent_answers_every_question_over_every_back_end(killed: Killed) -> None:
    cells = Counter((row.agent, row.backend) for row in rows(killed.folder).values())
    assert cells == {(agent, backend): QUESTIONS for agent in ALL_AGENTS for backend in BACKENDS}
    stops = Counter(row.stop for row in rows(killed.folder).values())
    assert stops["answered"] > 0.7 * stops.total() and not stops["failed"]


def test_what_its_back_ends_took_is_said(killed: Killed) -> None:
    evaluation = read_evaluation(killed.folder)
    assert {each.name for each in evaluation.backends} == set(BACKENDS)
    assert all(each.index and each.bytes and each.build_hours for each in evaluation.backends)
    assert (evaluation.num_questions, evaluation.models, evaluation.seeds) == (QUESTIONS, ("scripted",), (0,))


def test_a_killed_grid_gives_what_an_undisturbed_one_gives(killed: Killed) -> None:
    """Every byte of its episodes but for the clock, those of shards that the kill hit too."""
    expected = rows(killed.undisturbed)
    assert len(expected) == len(ALL_AGENTS) * 2 * QUESTIONS
    found = {uid: row for uid, row in rows(killed.folder).items() if row.backend in BACKENDS[:2]}
    assert found == expected


def test_a_finished_shard_is_not_run_again(killed: Killed) -> None:
    now = written(killed.folder)
    assert KILLED_AT <= len(killed.finished) < len(now)
    assert {path: now[path] for path in killed.finished} == killed.finished


def test_no_call_is_paid_twice(killed: Killed) -> None:
    """But for those whose replies had not arrived at the kill."""
    assert 0 < killed.kept <= killed.received < len(set(killed.calls))
    assert len(killed.calls) - len(set(killed.calls)) <= killed.received - killed.kept


def test_agents_that_search_on_are_better_than_one_shot(killed: Killed) -> None:
    """So the figures are those of episodes, and not of a grid that only ran."""
    means = {
        agent: summarize([row for row in rows(killed.folder).values() if (row.agent, row.backend) == (agent, "bm25")])
        for agent in ("react", "single_shot")
    }
    recall = {agent: summary.measures["supporting_recall"] for agent, summary in means.items()}
    assert recall["react"] and recall["single_shot"]
    assert recall["react"].mean > recall["single_shot"].mean
    assert 0 < means["single_shot"].pass_at[1] < means["react"].pass_at[1]
