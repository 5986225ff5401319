"""Draws of scripted agents on questions of the world: every agent, what is kept, what is asked, what breaks off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.generators.agent_trajectories.made_rows import FOUND
from tests.generators.agent_trajectories.made_rows import QUESTION as MADE
from tests.pipelines.kg_support import searched_graph
from tests.support import kg_agent, world
from tests.support.scripted import ScriptedModel, prompt_text
from tests.support.search_agent import Model, is_by_heart
from trailforge.generators.agent_trajectories.card import describe_tables
from trailforge.generators.agent_trajectories.config import (
    AgentGeneratorConfig,
    AgentRunConfig,
    MemoryConfig,
    configure,
)
from trailforge.generators.agent_trajectories.estimate import calls_of, estimate
from trailforge.generators.agent_trajectories.rereading import READ_BRANCHES
from trailforge.generators.agent_trajectories.work import LIFE, AgentContext, open_context
from trailforge.generators.answer_reading import PURPOSE
from trailforge.inference import Request
from trailforge.inference.judge import JudgeOptions
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.protocols import KG_SEARCH, PROTOCOLS, R_SEARCH, REACT, SEARCH_R1
from trailforge.protocols.turns import Search, Turn
from trailforge.retrieval import RetrievalConfig
from trailforge.schemas import ContextOverflow, InvalidInput, Question, to_dict

BY_DOCUMENTS = [name for name, grammar in PROTOCOLS.items() if grammar.searches == "documents"]
QUESTION = next(each for each in (world.question(n, 2) for n in range(9)) if not is_by_heart(each))
KNOWN = next(each for each in (world.question(n, 2) for n in range(60)) if is_by_heart(each))


def config_of(agent: str = SEARCH_R1.name, *, draws: int = 4, **generator: Any) -> AgentRunConfig:
    return AgentRunConfig(
        model=ModelConfig(name="scripted"),
        generator=AgentGeneratorConfig(agent=agent, draws=draws, top_k=2, **generator),
        retrieval=RetrievalConfig(kind="bm25"),
    )


def draw(
    config: AgentRunConfig, question: Question = QUESTION, reply: Callable[[Request], str] | None = None
) -> tuple[ItemResult, ScriptedModel]:
    """The rows of one question."""
    model = Model([question], flaw_rate=0.0)
    client: Any = ScriptedModel(reply or (lambda request: model(prompt_text(request), request.sampling_seed)))
    work = ModelWork(stage=None, folder="", run_id="r", config=config)  # type: ignore[arg-type]

    async def run() -> ItemResult:
        context: AgentContext = open_context(work, client)
        return await LIFE.run_item(question, context, config)

    return asyncio.run(run()), client


@pytest.mark.parametrize("agent", [*BY_DOCUMENTS, R_SEARCH.name])
def test_an_agent_of_a_protocol_gives_an_sft_row_in_it(agent: str) -> None:
    result, _ = draw(config_of(agent))
    ((row,), (sft,)) = result.rows["agent_trajectories"], result.rows["sft"]
    assert (row.agent, row.sft_protocol, sft.protocol, sft.data_source) == (agent, agent, agent, "agent_trajectories")
    assert (row.draws, row.right_draws, row.memory_draws, len(row.memory_answers)) == (4, 4, 4, 4)
    assert row.episode.backend == "bm25" and row.open_branches == ()
    assert len(row.provenance.call_keys) == row.episode.costs.calls + 1, "it was read for open links"
    assert {each.seconds for each in row.episode.searches} == {0.0} == {row.episode.costs.seconds}
    assert PROTOCOLS[agent].validate(row.episode.messages, strict=True) == []


@pytest.mark.parametrize(("agent", "calls"), [("search_o1", 2), ("single_shot", 0)])
def test_an_agent_without_a_protocol_gives_a_row_of_its_conversation_and_of_each_call(agent: str, calls: int) -> None:
    asked = QUESTION if calls else replace(QUESTION, decomposition=(), question="Who?", paragraphs=QUESTION.paragraphs)
    if not calls:  # one search by the question itself has to bring the answer
        asked = replace(asked, question=QUESTION.paragraphs[2].title + "?", answer=QUESTION.answer)
    result, client = draw(config_of(agent), asked)
    (row,) = result.rows["agent_trajectories"]
    assert (row.sft_protocol, row.sft_calls, row.episode.protocol, len(row.episode.calls)) == ("", True, "", calls)
    conversation, *others = result.rows["sft"]
    assert [each.content for each in conversation.messages] == [each.content for each in row.episode.messages]
    assert conversation.train == tuple(each.role == "assistant" for each in row.episode.messages)
    prompts = [each.prompt for each in client.requests if not isinstance(each.prompt, str)]
    sent = {tuple((turn.role, turn.content) for turn in prompt) for prompt in prompts}
    for sft, call in zip(others, row.episode.calls, strict=True):
        said = [(each.role, each.content) for each in sft.messages]
        assert said == [("user", call.prompt), ("assistant", call.reply)]
        assert (sft.train, sft.protocol, sft.trajectory_uid) == ((False, True), "", row.uid)
        assert (("user", call.prompt),) in sent
    shown = tuple(("user" if each.role == "tool" else each.role, each.content) for each in conversation.messages)
    assert shown[:-1] in sent and len({each.uid for each in result.rows["sft"]}) == calls + 1


def test_one_text_that_a_model_goes_on_with_gives_no_sft_row() -> None:
    config = config_of("search_o1", style="completion")
    assert not config.generator.sft_calls
    result, _ = draw(config)
    assert result.rows["agent_trajectories"] and result.rows["sft"] == []


def test_a_workflow_of_many_calls_gives_a_row_of_each_that_was_used_and_no_pairs() -> None:
    """Its draws are sent different texts, so that none share a prompt. The triples were asked for twice, in vain."""

    def reply(request: Request) -> str:
        match request.purpose:
            case "graph_search_decompose":
                return '{"Sub-query 1": "Who directed Metropolis?", "Sub-query 2": "Where was Fritz Lang born?"}'
            case "graph_search_decompose_triples":
                return "{}"
            case "graph_search_verify":
                return "It holds. Yes"
            case "graph_search":
                return f"It is \\boxed{{{'Linz' if request.sample == 1 else 'Vienna'}}}"
            case "from_memory":
                return "Nobody"
        return f"Draw {request.sample} reads: Fritz Lang directed Metropolis and was born in Vienna."

    result, _ = draw(config_of("graph_search"), MADE, reply)
    rows = result.rows["agent_trajectories"]
    assert [row.sft_protocol for row in rows] == [""] and rows[0].episode.searches[0].query == MADE.question
    assert len({search.query for search in rows[0].episode.searches}) < len(rows[0].episode.searches)
    assert {row.reason for row in result.rows["rejected"]} == {"wrong_answer", "same_route"}
    assert result.rows["pairs"] == []
    first, *others = result.rows["sft"]
    assert "\\boxed{Vienna}" in first.messages[-1].content
    used = [call for call in rows[0].episode.calls if "decompose_triples" not in call.purpose]
    assert [each.messages[1].content for each in others] == [call.reply for call in used]
    assert len(used) == len(rows[0].episode.calls) - 2


def test_published_prompts_give_rows_in_no_protocol_where_they_are_turns_of_a_chat() -> None:
    config = config_of(settings={"prompt": "published", "chat": True})
    assert config.generator.sft_protocol == "" != config_of().generator.sft_protocol
    assert config.generator.sft_calls and not config_of().generator.sft_calls
    assert not config_of(settings={"prompt": "published"}).generator.sft_calls
    assert config.generator.agent_config != config_of().generator.agent_config


def test_an_agent_of_a_graph_searches_both(tmp_path: Path) -> None:
    graph = searched_graph(tmp_path / "graph", 4)
    config = config_of(KG_SEARCH.name, draws=6, kg_filter="first")
    inputs = RunInputs(dataset="agent_trajectories", options={"kg": graph})
    config = configure(config, inputs)
    asked = next(each for each in (world.question(n, 2 + n % 2) for n in range(4)) if not is_by_heart(each))
    plays = kg_agent.Model()
    result, _ = draw(config, asked, lambda request: plays(prompt_text(request), request.sampling_seed))
    rows = result.rows["agent_trajectories"]
    drawn = [json.loads(row.payload) for row in result.rows["rejected"] if row.stage == "filter"]
    assert len(rows) + len(drawn) == 6
    assert rows and rows[0].graph == config.kg_hash and rows[0].sft_protocol == KG_SEARCH.name
    assert any(search.triples for search in rows[0].episode.searches)


def test_no_episode_is_drawn_on_what_the_model_knows_by_heart() -> None:
    result, client = draw(config_of(), KNOWN)
    assert [*result.rows] == ["rejected"]
    (left,) = result.rows["rejected"]
    assert (left.uid, left.stage, left.reason) == (KNOWN.id, "draw", "known_from_memory")
    told = json.loads(left.payload)
    assert told["draws"] == 4 == len(told["answers"]) and told["golds"] == [*KNOWN.golds]
    assert [request.purpose for request in client.requests] == ["from_memory"] * 4
    assert all(line.balance == 0 for line in result.stages)


def test_nobody_is_asked_from_memory_where_that_is_off() -> None:
    reply = SEARCH_R1.render_turn(replace(SEARCH_R1.parse_turn("<think>So.</think>\n<answer>Nobody</answer>")))
    result, client = draw(config_of(memory=MemoryConfig(draws=0)), QUESTION, lambda _: reply)
    assert [row.reason for row in result.rows["rejected"]] == ["wrong_answer"] * 4
    assert all("from what you know" not in prompt_text(each) for each in client.requests)
    row = json.loads(result.rows["rejected"][0].payload)
    assert (row["right_draws"], row["draws"], row["memory_draws"]) == (0, 4, 0)


def test_a_draw_that_breaks_off_costs_the_others_nothing() -> None:
    model = Model([QUESTION], flaw_rate=0.0)

    def reply(request: Request) -> str:
        if request.sample == 1 and request.is_turn:
            raise ContextOverflow("the prompt is too long")
        return model(prompt_text(request), request.sampling_seed)

    result, _ = draw(config_of(), QUESTION, reply)
    assert len(result.rows["agent_trajectories"]) == 1 and result.rows["agent_trajectories"][0].draws == 3
    books = {line.name: line for line in result.stages}
    assert (books["episode"].inputs, books["episode"].accepted) == (4, 3)
    assert all(line.balance == 0 for line in result.stages)
    assert [row.uid for row in result.rows["rejected"] if row.stage == "episode"] == [f"{QUESTION.id}:1"]


def test_right_and_wrong_draws_make_a_pair() -> None:
    model = Model([QUESTION], flaw_rate=0.5)
    result, _ = draw(config_of(draws=16), QUESTION, lambda r: model(prompt_text(r), r.sampling_seed))
    pairs = result.rows["pairs"]
    assert 1 <= len(pairs) <= 2 and result.rows["agent_trajectories"]
    kept = {row.uid for row in result.rows["agent_trajectories"]}
    assert all(pair.good_uid in kept and pair.answer == QUESTION.answer != pair.bad_answer for pair in pairs)
    assert all(pair.agent_config == config_of(draws=16).generator.agent_config for pair in pairs)


# What the card says of it


@pytest.mark.parametrize(
    ("config", "has_rows", "said"),
    [
        (config_of(), True, "`sft` has them as conversations of the protocol `search_r1`"),
        (config_of("search_o1"), True, "each of its calls whose reply was used"),
        (config_of("search_o1"), False, ""),
        (config_of("search_o1", style="completion"), True, "There are no SFT rows: the agent is sent raw text"),
        (config_of("search_o1", style="completion"), False, "There are no SFT rows: the agent is sent raw text"),
        (config_of(), False, ""),
    ],
)
def test_a_card_says_of_sft_rows_what_there_is(config: AgentRunConfig, has_rows: bool, said: str) -> None:
    """A run of an agent in a chat that kept nothing has no rows for that reason alone."""
    lines = describe_tables(config.generator, has_rows=has_rows, has_pairs=False)
    assert (said in "\n".join(lines)) if said else lines == []


# Configuration


def test_draws_at_temperature_zero_are_refused() -> None:
    with pytest.raises(InvalidInput, match="are one draw") as caught:
        AgentGeneratorConfig(temperature=0.0)
    assert caught.value.field == "temperature"
    assert AgentGeneratorConfig(temperature=0.0, draws=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agent": "nobody"}, "no agent 'nobody'"),
        ({"settings": {"turns": 3}}, "settings of search_r1: prompt"),
        ({"settings": {"temperature": 1.0}}, "is a field of the generator itself"),
        ({"agent": R_SEARCH.name, "settings": {"prompt": "published"}}, "r_search"),
        ({"draws": 0}, "must be 1 or more"),
        ({"memory": MemoryConfig(draws=-1)}, "must be 0 or more"),
    ],
)
def test_an_agent_or_a_setting_that_there_is_not_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        AgentGeneratorConfig(**changes)


def test_the_sampling_of_the_generator_is_that_of_its_agent() -> None:
    for agent in ("graph_search", "search_o1", "single_shot", REACT.name):
        numbers = AgentGeneratorConfig(agent=agent, temperature=0.9, top_p=0.8).numbers
        assert (numbers.temperature, numbers.top_p) == (0.9, 0.8)
    assert AgentGeneratorConfig(agent="graph_search").numbers.boxed


def configured(config: AgentRunConfig, **options: Any) -> AgentRunConfig:
    return configure(config, RunInputs(dataset="agent_trajectories", options=options))


def test_another_agent_keeps_settings_that_are_its_own_too() -> None:
    config = config_of(settings={"max_searches": 3})
    assert configured(config, agent=REACT.name).generator.numbers.max_searches == 3
    assert configured(config, agent="search_o1").generator.settings == {}


@pytest.mark.parametrize(
    ("agent", "options", "message"),
    [
        (KG_SEARCH.name, {}, "kg_search searches a knowledge graph too; give one"),
        (SEARCH_R1.name, {"kg": Path("graph")}, "searches no knowledge graph; leave it out"),
        ("search_o1", {"kg": Path("graph")}, "searches no knowledge graph; leave it out"),
        (SEARCH_R1.name, {"scope": "moon"}, "expected question or corpus"),
        (SEARCH_R1.name, {"scope": "question", "documents": Path("c.jsonl")}, "leave --documents out"),
        (SEARCH_R1.name, {"retrieval": "web", "scope": "corpus"}, "leave them out"),
        (R_SEARCH.name, {"documents": Path("c.jsonl")}, "plans its searches"),
    ],
)
def test_what_an_agent_cannot_search_is_refused(agent: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        configured(config_of(agent), **options)


def test_the_bound_of_an_estimate_holds(tmp_path: Path) -> None:
    source = tmp_path / "questions.jsonl"
    source.write_text(f"{json.dumps(to_dict(QUESTION))}\n")
    for agent in (SEARCH_R1.name, R_SEARCH.name, "search_o1"):
        config = config_of(agent)
        _, client = draw(config)
        bound = estimate(RunInputs(dataset="agent_trajectories", files=(source,)), config)
        assert bound.is_bound and len(client.requests) <= bound.usage.calls
    assert calls_of(AgentGeneratorConfig(agent="single_shot")) == 1
    assert calls_of(AgentGeneratorConfig(agent=R_SEARCH.name)) == 2


# Right answers in other words


VIENNA = "the Vienna of the emperors and their long court"
"""That it is the gold answer, only a judge sees."""


def judged(answers: Sequence[str], score: float, **generator: Any) -> tuple[ItemResult, list[Request]]:
    """What becomes of draws on the made question that answer so, where the judge gives this score; and its calls."""
    turns = [SEARCH_R1.render_turn(Turn(thought="I look it up.", search=Search(query=query))) for query, _ in FOUND]

    def reply(request: Request) -> str:
        if request.purpose == "grade":
            return json.dumps({"score": score})
        if request.purpose == "from_memory":
            return "unknown"
        if request.purpose == READ_BRANCHES:
            return '{"open": []}'
        if request.purpose == PURPOSE:
            return answers[0]
        told = sum(chat.role == "assistant" for chat in request.prompt if not isinstance(chat, str))
        return [*turns, SEARCH_R1.render_turn(Turn(thought="So it is.", answer=answers[request.sample]))][told]

    paragraphs = (*MADE.paragraphs[:1], replace(MADE.paragraphs[1], text=f"Fritz Lang was born in {VIENNA}."))
    question = replace(MADE, paragraphs=paragraphs, answer="Vienna city", answer_aliases=())
    judge = JudgeOptions(near_misses=True)
    config = config_of(draws=len(answers), **{"judge": judge, **generator})
    result, client = draw(config, replace(question, decomposition=()), reply)
    return result, [request for request in client.requests if request.purpose == "grade"]


def test_a_right_answer_in_other_words_is_judged_once_and_its_row_says_so() -> None:
    result, calls = judged([VIENNA, VIENNA], 1.0)
    (row,), (sft,) = result.rows["agent_trajectories"], result.rows["sft"]
    assert (row.episode.scores.right, row.episode.scores.judge, row.right_draws) == (1.0, 1.0, 2)
    assert (sft.right_by, sft.reward.total, len(calls)) == ("judge", 0.0, 1)
    assert calls[0].key in row.provenance.call_keys


@pytest.mark.parametrize(
    ("answers", "score", "generator", "asked"),
    [
        ([VIENNA, VIENNA], 0.7, {}, 1),  # a detail is missing
        ([VIENNA, VIENNA], 1.0, {"judge": JudgeOptions()}, 0),
        (["Graz", "Linz"], 1.0, {}, 0),  # nothing in common
        ([f"Vienna and {each}" for each in ("Graz", "Linz", "Rust")], 0.0, {}, 2),
        ([f"Vienna and {each}" for each in ("Graz", "Linz", "Rust")], 0.0, {"max_judged": 1}, 1),
    ],
)
def test_a_judge_is_asked_of_near_misses_alone_and_no_more_than_the_cap(
    answers: list[str], score: float, generator: dict[str, Any], asked: int
) -> None:
    result, calls = judged(answers, score, **generator)
    assert len(calls) == asked and not result.rows["agent_trajectories"]
    assert {row.reason for row in result.rows["rejected"]} <= {"wrong_answer", "near_miss"}
