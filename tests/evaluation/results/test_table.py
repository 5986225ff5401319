"""A row of the table says of a cell what `metrics` does, and the table what the grid lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from tests.support.agent_episodes import COSTS, episode
from tests.support.evaluations import AGENTS, BACKENDS, evaluation, play_cell, whole_folder, write_folder
from trailforge.evaluation.folder import BackendChoice, lighten
from trailforge.evaluation.results.metrics import MEASURES, summarize
from trailforge.evaluation.results.table import (
    LEGEND,
    EvaluationTable,
    TableRow,
    TagShare,
    make_table,
    measure_stability,
    read_table,
)
from trailforge.schemas import arrow_schema
from trailforge.schemas.agent_episode import AgentEpisode


@pytest.fixture(scope="module")
def cells() -> dict[tuple[str, str], list[AgentEpisode]]:
    return {(agent, backend): play_cell(agent, backend) for agent in AGENTS for backend in BACKENDS}


@pytest.fixture(scope="module")
def table(cells: dict[tuple[str, str], list[AgentEpisode]]) -> EvaluationTable:
    return make_table(evaluation(), [each for cell in cells.values() for each in cell])


def row_of(table: EvaluationTable, agent: str, backend: str) -> TableRow:
    return next(row for row in table.rows if (row.agent, row.backend) == (agent, backend))


def test_a_row_has_what_metrics_say_of_its_episodes(
    table: EvaluationTable, cells: dict[tuple[str, str], list[AgentEpisode]]
) -> None:
    own = cells["search_o1", "dense"]
    row, summary = row_of(table, "search_o1", "dense"), summarize(own)
    for name, spread in summary.measures.items():
        shown = getattr(row, name, None)
        if shown is not None and not isinstance(shown, float):
            assert spread is not None and (shown.mean, shown.variance) == (spread.mean, spread.variance), name
            assert shown.low <= shown.mean <= shown.high and shown.low < shown.high, name
        elif shown is not None:
            assert spread is not None and shown == spread.mean, name
    assert (row.questions, row.seeds, row.episodes, row.expected, row.failed) == (20, 2, 40, 40, 0)
    assert row.pass_at == tuple(summary.pass_at.values()) and len(row.pass_at) == 2
    assert {each.name: round(40 * each.share) for each in row.failures} == summary.failures
    assert row.stops == (TagShare(name="answered", share=1.0),)
    times = sorted(each.costs.seconds or 0.0 for each in own)
    assert times[19] <= (row.seconds_p50 or 0) <= times[20] and times[35] <= (row.seconds_p90 or 0) <= times[36]
    tokens = fmean(each.costs.prompt_tokens for each in own), fmean(each.costs.completion_tokens for each in own)
    assert row.cost == pytest.approx((tokens[0] * 1.0 + tokens[1] * 4.0) / 1e6)


def test_seconds_that_are_not_known_are_not_counted() -> None:
    """A reply that the ledger had took no time to speak of."""

    def took(number: int, seconds: float | None) -> AgentEpisode:
        return episode(f"q{number}", costs=replace(COSTS, seconds=seconds), model="m")

    (row,) = make_table(evaluation(), [took(0, 1.0), took(1, 3.0), took(2, None)]).rows
    assert (row.seconds, row.seconds_p50) == (2.0, 2.0)
    (row,) = make_table(evaluation(), [took(0, None)]).rows
    assert (row.seconds, row.seconds_p50, row.seconds_p90) == (None, None, None)


def test_the_best_is_first_and_ranks_are_means_over_the_other_side(table: EvaluationTable) -> None:
    assert [row.contain_em.mean for row in table.rows] == sorted(
        (row.contain_em.mean for row in table.rows), reverse=True
    )
    assert {row.agent: row.agent_rank for row in table.rows} == {
        "graph_search": 1.0,
        "search_o1": 2.0,
        "single_shot": 3.0,
    }
    ranks = {row.backend: row.backend_rank for row in table.rows}
    assert ranks["linear_rag"] == 1.0 and sum(rank or 0 for rank in ranks.values()) == 6


def test_the_offline_costs_are_those_of_the_index_that_was_searched() -> None:
    built = [
        BackendChoice(name="dense", index=index, hours_per_million=hours) for index, hours in (("a", 1.0), ("b", 2.0))
    ]
    grid = evaluation(backends=tuple(built), num_questions=1, seeds=(0,))
    rows = make_table(grid, [episode("q", index=index, backend="dense") for index in "abc"]).rows
    assert {row.index: row.hours_per_million for row in rows} == {"a": 1.0, "b": 2.0, "c": None}


def test_what_is_missing_is_said_and_an_unfinished_cell_has_no_rank(tmp_path: Path) -> None:
    half = play_cell("single_shot", "raptor_plain")[:25]
    broken = [replace(each, stop="failed", failures=("failed",)) for each in play_cell("search_o1", "dense")[:3]]
    cells = {
        ("single_shot", "dense"): play_cell("single_shot", "dense"),
        ("single_shot", "raptor_plain"): half,
        ("search_o1", "dense"): broken + play_cell("search_o1", "dense")[3:],
    }
    agents, backends = evaluation().agents[:2], (evaluation().backends[0], evaluation().backends[2])
    grid = evaluation(agents=agents, backends=backends)
    table = read_table(write_folder(tmp_path, grid, cells))
    assert table.missing == (
        "search_o1 over raptor_plain with m: none of 40 episodes yet",
        "single_shot over raptor_plain with m: 25 of 40 episodes so far",
        "search_o1 over dense with m: 3 of 40 episodes failed and count as wrong",
    )
    assert {row.backend_rank for row in table.rows} == {None}
    assert {row.agent_rank for row in table.rows if row.backend == "dense"} == {1.0, 2.0}
    assert measure_stability(table.rows) == []


def test_the_table_of_a_folder_is_that_of_its_episodes(tmp_path: Path, table: EvaluationTable) -> None:
    found = read_table(whole_folder(tmp_path))
    assert found.rows == table.rows and found.missing == table.missing == ()


def test_a_light_episode_counts_as_the_whole_one(cells: dict[tuple[str, str], list[AgentEpisode]]) -> None:
    for each in cells["graph_search", "dense"]:
        light = lighten(each)
        assert {name: measure(light) for name, measure in MEASURES.items()} == {
            name: measure(each) for name, measure in MEASURES.items()
        }
        assert not any(message.content for message in light.messages)


def test_the_most_stable_back_end_is_the_one_that_agents_and_seeds_change_least() -> None:
    """`dense` gets 1 of 2 from one agent and 2 of 2 from the other; `raptor` 2 of 2 from both, with every seed."""

    def cell(agent: str, backend: str, right: dict[int, int]) -> list[AgentEpisode]:
        return [
            episode(f"q{number}", seed=seed, agent=agent, backend=backend, answer="Paris" if number < count else "Rome")
            for seed, count in right.items()
            for number in range(2)
        ]

    grid = evaluation(
        agents=evaluation().agents[:2], backends=(evaluation().backends[0], evaluation().backends[2]), num_questions=2
    )
    played = [
        *cell("single_shot", "dense", {0: 0, 1: 2}),
        *cell("search_o1", "dense", {0: 2, 1: 2}),
        *cell("single_shot", "raptor_plain", {0: 2, 1: 2}),
        *cell("search_o1", "raptor_plain", {0: 2, 1: 2}),
    ]
    first, second = measure_stability(make_table(grid, [replace(each, model="m") for each in played]).rows)
    assert (first.backend, first.mean, first.over_seeds, first.over_agents, first.rank) == (
        "raptor_plain",
        1.0,
        0,
        0,
        1.25,
    )
    assert (second.backend, second.mean, second.over_seeds, second.over_agents) == ("dense", 0.75, 0.25, 0.125)
    assert second.rank == 1.75


def test_every_column_is_in_the_legend() -> None:
    names = set(arrow_schema(TableRow).names)
    assert names - {"index", "expected", "schema_version"} == set(LEGEND)
