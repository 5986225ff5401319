"""A grid of cells: what fails is a row, what is finished is not run again, what ends it all writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.scripted import ScriptedModel
from tests.support.world import question
from trailforge.evaluation.folder import (
    AgentChoice,
    BackendChoice,
    Evaluation,
    check_same,
    choose_agent,
    choose_agents,
    claim_folder,
    read_episodes,
    read_evaluation,
    write_evaluation,
)
from trailforge.evaluation.grid import Cell, EvaluationConfig, EvaluationGrid, GridModel
from trailforge.evaluation.prices import ModelPrice
from trailforge.inference import Meter, Reply, Request
from trailforge.inference.usage import count_reply
from trailforge.protocols.environment import Environment
from trailforge.retrieval.backends.declaration import BackendRetriever, FoundPassage
from trailforge.schemas import (
    BudgetExceeded,
    Document,
    InvalidInput,
    OutputError,
    Passage,
    ProviderError,
    ServerUnavailable,
)
from trailforge.schemas.agent_episode import ModelUsage

QUESTIONS = [question(number, 2) for number in range(6)]
DOCUMENTS = [replace(each, id=f"{q.id} {each.id}") for q in QUESTIONS for each in q.paragraphs]


class FindsAll:
    """An index whose first passage is a summary of everything."""

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        documents = [FoundPassage(passage=_passage(each), why="", sources=(each.id,)) for each in DOCUMENTS[: k - 1]]
        summary = Passage(id="summary", title="All of it", text="A summary.", score=1.0)
        return [FoundPassage(passage=summary, why="", sources=tuple(d.id for d in DOCUMENTS)), *documents]

    def save(self, folder: Path) -> None:
        raise AssertionError("nobody saves it")


def _passage(document: Document) -> Passage:
    return Passage(id=document.id, title=document.title, text=document.text, score=0.5)


def answers(request: Request) -> str:
    return "It is \\boxed{Rome}"


def grid(folder: Path, *, agents: tuple[str, ...] = ("single_shot",), seeds: tuple[int, ...] = (0,)) -> EvaluationGrid:
    backend = BackendChoice(name="all", index="i")
    return EvaluationGrid(
        folder=folder,
        questions=QUESTIONS,
        cells=[
            Cell(agent=choose_agent(name, {}), backend=backend, model="m", seed=seed)
            for seed in seeds
            for name in agents
        ],
        open=lambda _: Environment(documents=BackendRetriever(FindsAll(), DOCUMENTS), top_k=3),
        shard_size=4,
        episodes_in_flight=3,
    )


def run(work: EvaluationGrid, script: Callable[[Request], str] = answers, latency_s: float = 0.0) -> ScriptedModel:
    model = ScriptedModel(script, latency_s=latency_s)
    asyncio.run(work.run(GridModel(name="m", client=model, figures=lambda: model.figures)))
    return model


def test_an_episode_that_fails_is_a_row_with_the_error_and_the_others_go_on(tmp_path: Path) -> None:
    def breaks(request: Request) -> str:
        if QUESTIONS[1].question in str(request.prompt):
            raise ProviderError("the server refuses this one")
        return answers(request)

    work = grid(tmp_path)
    run(work, breaks)
    found = {row.question_id: row for row in read_episodes(tmp_path)}
    assert len(found) == 6 and not work.missing
    failed = found[QUESTIONS[1].id]
    assert (failed.stop, failed.error, failed.failures) == ("failed", "the server refuses this one", ("failed",))
    assert {row.stop for row in found.values() if row is not failed} == {"answered"}


def test_an_episode_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    run(grid(tmp_path))
    slow = replace(grid(tmp_path, seeds=(1,)), episode_s=0.05)
    with pytest.raises(ProviderError, match=r"all 4 episodes .* not done within 0\.05 s; mend that") as error:
        run(replace(slow, cells=slow.cells, folder=tmp_path / "other"), latency_s=5.0)
    assert "seed1" in str(error.value)


def test_a_finished_shard_is_not_run_again(tmp_path: Path) -> None:
    assert len(run(grid(tmp_path)).requests) == 6
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("episodes/*/*")}
    assert run(grid(tmp_path)).requests == []
    (receipt,) = list((tmp_path / "shards").glob("part-00001-*"))
    receipt.unlink()
    assert len(run(grid(tmp_path)).requests) == 2
    changed = [path for path, at in files.items() if path.stat().st_mtime_ns != at]
    assert [path.stem for path in changed] == [receipt.stem]


def test_cells_that_are_added_leave_the_others_alone(tmp_path: Path) -> None:
    run(grid(tmp_path))
    assert len(run(grid(tmp_path, seeds=(0, 1))).requests) == 6
    assert len(run(grid(tmp_path, agents=("single_shot", "search_o1"))).requests) == 6
    cells = {(row.agent, row.seed) for row in read_episodes(tmp_path)}
    assert cells == {("single_shot", 0), ("single_shot", 1), ("search_o1", 0)}


@pytest.mark.parametrize("error", [ServerUnavailable("nothing answers"), BudgetExceeded("the cap is reached")])
def test_what_is_no_matter_of_one_episode_ends_the_grid_and_writes_no_shard(tmp_path: Path, error: Exception) -> None:
    def ends(request: Request) -> str:
        raise error

    with pytest.raises(type(error), match=str(error)):
        run(grid(tmp_path), ends)
    assert not list(tmp_path.glob("shards/*")) and len(grid(tmp_path).missing) == 2
    assert len(run(grid(tmp_path)).requests) == 6


def test_a_time_is_not_known_where_the_ledger_had_replies(tmp_path: Path) -> None:
    run(grid(tmp_path))
    assert all(row.costs.seconds is not None for row in read_episodes(tmp_path))
    reply = Reply(text="", finish_reason="stop", prompt_tokens=1, completion_tokens=1, key="k")
    meter = Meter()
    meter.add(reply)
    meter.add(replace(reply, from_ledger=True))
    assert not meter.is_from_ledger, "the same call again"
    meter.add(replace(reply, key="other", from_ledger=True))
    assert meter.is_from_ledger


def test_a_summary_counts_for_the_passages_that_it_is_of(tmp_path: Path) -> None:
    run(grid(tmp_path))
    rows = list(read_episodes(tmp_path))
    assert all(row.scores.supporting_recall == 1.0 and row.scores.found_at == (0, 0) for row in rows)
    (search,) = rows[0].searches
    assert search.document_ids == ("summary", *(each.id for each in DOCUMENTS[:2]))
    assert search.source_ids == tuple(each.id for each in DOCUMENTS)
    assert search.source_titles == tuple(each.title for each in DOCUMENTS)


def test_calls_of_searches_are_said_apart_where_another_model_is_asked(tmp_path: Path) -> None:
    class Asks(FindsAll):
        async def find(self, query: str, k: int) -> list[FoundPassage]:
            for model, key in (("m", f"own {query}"), ("small", f"other {query}")):
                reply = Reply(text="", finish_reason="stop", prompt_tokens=7, completion_tokens=3, key=key)
                count_reply(reply, None, "filter_facts", model)
            return await super().find(query, k)

    environment = Environment(documents=BackendRetriever(Asks(), DOCUMENTS), top_k=3)
    run(replace(grid(tmp_path), open=lambda _: environment))
    for row in read_episodes(tmp_path):
        assert row.costs.others == (ModelUsage(model="small", calls=1, prompt_tokens=7, completion_tokens=3),)
        assert row.costs.calls == 3


# The folder


def held(**changes: object) -> Evaluation:
    usual = Evaluation(
        questions="q.jsonl",
        questions_sha256="a",
        dataset="made",
        num_questions=6,
        agents=(AgentChoice(name="react", config={"max_searches": 5}, hash="h"),),
        backends=(BackendChoice(name="bm25", index="i"),),
        models=("m",),
        seeds=(0,),
        top_k=5,
        versions={"prompts": "old"},
    )
    return replace(usual, **changes)


def test_agents_back_ends_models_and_seeds_may_be_added(tmp_path: Path) -> None:
    claim_folder(tmp_path, held(prices=(priced := ModelPrice(model="m", prompt=1.0, completion=2.0),)))
    more = held(
        agents=(AgentChoice(name="search_o1", config={}, hash="g"),),
        backends=(BackendChoice(name="dense", index="j"),),
        models=("n",),
        seeds=(1, 0),
        shard_size=7,
    )
    claim_folder(tmp_path, more)
    found = read_evaluation(tmp_path)
    assert [each.name for each in found.agents] == ["react", "search_o1"]
    assert [each.name for each in found.backends] == ["bm25", "dense"]
    assert (found.models, found.seeds, found.shard_size, found.prices) == (("m", "n"), (0, 1), 20, (priced,))
    assert [path.name for path in tmp_path.iterdir()] == ["evaluation.json"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"questions_sha256": "b"}, "questions_sha256"),
        ({"num_questions": 7}, "num_questions"),
        ({"top_k": 3}, "top_k"),
        ({"documents": "d"}, "documents"),
        ({"kg": "d"}, "kg"),
        ({"judge": "gpt"}, "judge"),
        ({"versions": {"prompts": "new"}}, "versions.prompts"),
        ({"agents": (AgentChoice(name="react", config={"max_searches": 2}, hash="g"),)}, "react.max_searches"),
        ({"backends": (BackendChoice(name="bm25", index="k"),)}, "backends.bm25.index"),
    ],
)
def test_a_folder_goes_on_with_the_same_only(tmp_path: Path, changes: dict[str, object], named: str) -> None:
    claim_folder(tmp_path, held())
    before = (tmp_path / "evaluation.json").read_bytes()
    with pytest.raises(InvalidInput, match="give another --out") as error:
        claim_folder(tmp_path, held(**changes))
    assert error.value.field == named and "\n" not in str(error.value)
    assert (tmp_path / "evaluation.json").read_bytes() == before


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    write_evaluation(tmp_path, held())
    path = tmp_path / "evaluation.json"
    path.write_text(path.read_text().replace('"top_k": 5', '"top_k": 6'))
    with pytest.raises(InvalidInput, match="is damaged"):
        claim_folder(tmp_path, held())


@pytest.mark.parametrize("name", ["report.md", "table.parquet", "plots", ".notes"])
def test_a_folder_with_other_things_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / "ledger").mkdir()
    (tmp_path / ".evaluation.json.tmp-0123abcd").touch()
    check_same(tmp_path, held())  # what a kill may leave
    (tmp_path / name).write_text("a stranger's")
    with pytest.raises(OutputError, match=rf"holds no evaluation \(no evaluation.json\) .* such as {name}; give ano"):
        claim_folder(tmp_path, held())
    assert not (tmp_path / "evaluation.json").exists()


# What is chosen


def test_numbers_and_words_that_an_agent_does_not_have_are_refused() -> None:
    assert choose_agent("react", {"max_searches": 2}).config["max_searches"] == 2
    assert choose_agent("react", {}).hash != choose_agent("react", {"max_searches": 2}).hash
    with pytest.raises(InvalidInput, match="max_turns, max_tokens") as error:
        choose_agent("search_o1", {"turns": 2})
    assert error.value.field == "agents.search_o1.turns"
    with pytest.raises(InvalidInput, match="no published prompt of r_search"):
        choose_agent("r_search", {}, "published")
    assert choose_agent("react", {}, "published").config["prompt"] == "published"
    for name in ("search_o1", "graph_search"):
        assert choose_agent(name, {}, "published").config["prompt"] == "published"
    assert choose_agent("single_shot", {}, "published") == choose_agent("single_shot", {})
    with pytest.raises(InvalidInput, match="knowledge graph"):
        choose_agents(["react", "kg_search"], {}, has_graph=False)
    with pytest.raises(InvalidInput, match="1 or more"):
        EvaluationConfig(top_k=0)
