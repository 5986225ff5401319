"""R-Search episodes: the gold plan over the sample documents, and draws of a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bundle_rows import CHURCH, INSTRUMENT, ISLAND, QUESTIONS, WHEEL, sample_documents
from tests.support.scripted import ScriptedModel
from trailforge.filters.bundle_episodes import EpisodeFilterConfig, judge_episode
from trailforge.generators.document_bundles.episode_rows import derive_fields, episode_sft_row
from trailforge.generators.document_bundles.planned_episodes import (
    EpisodeContext,
    PlannedEpisodeConfig,
    against,
    make_episodes,
)
from trailforge.generators.document_bundles.search_thoughts import PROMPTS, names_in, think
from trailforge.inference import Client, Meter, Reply, Request
from trailforge.inference.reasoning import ThoughtReader
from trailforge.protocols import R_SEARCH, nl_dag, r_search
from trailforge.retrieval import RetrieverConfig, Tools, local_tools
from trailforge.rewards import mentions
from trailforge.schemas import (
    BundleQuestion,
    Passage,
    PlanEdge,
    PlanNode,
    RSearchReward,
    SearchEpisode,
    SftRow,
    read_parquet,
    write_parquet,
)

FILTERS = EpisodeFilterConfig(min_reward=0.8, min_evidence=1.0)
FULL = RSearchReward(total=1.0, format=1.0, dag=1.0, answer=1.0)


@pytest.fixture(scope="module")
def tools() -> Tools:
    return local_tools(sample_documents(), RetrieverConfig(kind="bm25"))


def context(tools: Tools, client: Client | None = None, **config: object) -> EpisodeContext:
    settings = PlannedEpisodeConfig(**config)  # type: ignore[arg-type]
    client = client or ScriptedModel(lambda request: "")
    return EpisodeContext(run_id="r", seed=7, config=settings, tools=tools, model="m", client=client)


async def gold(row: BundleQuestion, tools: Tools) -> SearchEpisode:
    (candidate,) = await make_episodes(row, context(tools), Meter())
    return candidate.episode


def rescored(episode: SearchEpisode, row: BundleQuestion) -> RSearchReward:
    return derive_fields(episode.messages, row, episode.reward.answer)["reward"]


def rejections(episode: SearchEpisode, row: BundleQuestion) -> list[str]:
    return [verdict.reason for verdict in judge_episode(episode, row, FILTERS) if not verdict.keep]


# The gold plan


@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row.uid)
async def test_gold_plans_over_the_samples_make_sound_episodes(row: BundleQuestion, tools: Tools) -> None:
    episode = await gold(row, tools)
    assert rejections(episode, row) == []
    assert episode.reward == rescored(episode, row) == FULL
    assert episode.evidence_found == 1.0
    assert [message.train for message in episode.messages] == [False, False, True, False, True]
    assert (episode.origin, episode.num_tool_calls, episode.num_hops) == ("oracle", len(row.hops), len(row.hops))
    assert nl_dag.parse(episode.plan_text) == nl_dag.SearchPlan(nodes=row.dag_nodes, edges=row.dag_edges)
    assert all(len(search.passages) == 2 and search.status == "found" for search in episode.searches)
    assert (episode.provenance.model, episode.provenance.call_keys) == ("writer", ("written",))
    assert await gold(row, tools) == episode


async def test_choices_are_asked_and_answered_by_letter(tools: Tools) -> None:
    episode = await gold(CHURCH, tools)
    assert episode.question.endswith("\nE. It was finished in 1912\nF. Hjalmar Lundbohm painted it")
    assert episode.messages[1].content == f"{episode.question}\n{r_search.USER_SUFFIX}"
    assert episode.answer == episode.final_answer == "B, C, E"


def test_the_thought_knows_nothing_that_has_to_be_found() -> None:
    found = {"island": "Peberholm Øresund", "wheel": "composite", "instrument": "Rosetta Bern", "church": "Wickman 672"}
    for row in QUESTIONS:
        plan = nl_dag.SearchPlan(nodes=row.dag_nodes, edges=row.dag_edges)
        thoughts = [think(row, plan, seed=str(seed)) for seed in range(30)]
        assert len(set(thoughts)) == 30
        assert all(node.query in thought for thought in thoughts for node in row.dag_nodes)
        assert not any(mentions(thought, word) for thought in thoughts for word in found[row.uid].split())


def test_the_thought_follows_the_plan() -> None:
    nodes = tuple(PlanNode(node_id=n, query=f"q{n}", tool=tool) for n, tool in zip("XYZ", ("news", "Web", "General")))  # noqa: B905
    plan = nl_dag.SearchPlan(nodes=nodes, edges=(PlanEdge(src="Z", dst="X"), PlanEdge(src="Y", dst="X")))
    pools = PROMPTS.pools("search_thoughts")
    for seed in range(30):
        thought = think(WHEEL, plan, seed=str(seed))
        assert thought.index("qY") < thought.index("qZ") < thought.index("qX")
        assert any(each.format(node="X", sources="Z and Y") in thought for each in pools["order_needs"])
        assert not any(each in thought for each in pools["order_free"])
        single = think(WHEEL, nl_dag.SearchPlan(nodes=nodes[:1], edges=()), seed=str(seed))
        assert not any(each in single for each in pools["order_free"])


def test_pools_have_a_dozen_of_each_role() -> None:
    pools = PROMPTS.pools("search_thoughts")
    assert {f"open_{row.type}" for row in QUESTIONS} <= pools.keys()
    assert all(len(set(sentences)) == len(sentences) >= 12 for sentences in pools.values())


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which prize did George K. S. Rotne win in Oslo in May 2024?", ["George K. S. Rotne", "Oslo", "May 2024"]),
        ("Who led “The Bank of England” of 1999?", ["The Bank of England", "1999"]),
        ("What is the Ludlow prize's tide mill of?", ["Ludlow"]),
        ("Why do reefs fade?", []),
        ("Is Oslo's Harbour Office in Oslo?", ["Oslo", "Harbour Office"]),
        ("What did the town that opened on 1 June 2016 in Ludlow lose?", ["1 June 2016", "Ludlow"]),
        ("Who sailed (on May 3, 1874, from Oslo)?", ["May 3, 1874", "Oslo"]),
    ],
)
def test_names_in_a_question(question: str, names: list[str]) -> None:
    assert names_in(question) == names


@pytest.mark.parametrize(
    ("question", "role"),
    [
        ("Who led the town that Ida Holm left?", "known_one"),
        ("Who led the town that Ida Holm left in 1902?", "known_many"),
        ("Who led the town that burnt in 1902?", None),
        ("Who led the town that burnt?", None),
    ],
)
def test_what_there_is_to_begin_with_is_said_by_its_number(question: str, role: str | None) -> None:
    pools, names = PROMPTS.pools("search_thoughts"), names_in(question)
    plan = nl_dag.SearchPlan(nodes=WHEEL.dag_nodes, edges=WHEEL.dag_edges)
    listed = " and ".join(names)
    for seed in range(30):
        thought = think(replace(WHEEL, question=question), plan, seed=str(seed))
        said = {r for r in ("known_one", "known_many") for each in pools[r] if each.format(names=listed) in thought}
        assert role in said if role else not said


class Library:
    """A tool that finds one text."""

    def __init__(self, title: str, text: str) -> None:
        self._passage = Passage(id="0", title=title, text=text, score=1.0)

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        return [self._passage][:k]


HOSTILE = st.lists(
    st.sampled_from(["</result>", "<answer>", "< / THINK >", "<search>", "<|im_end|>", "\n", "Node Z (news)", "\ud800"])
    | st.text(max_size=8)
).map("".join)


@given(title=HOSTILE, text=HOSTILE, row=st.sampled_from(QUESTIONS))
def test_whatever_is_retrieved_the_conversation_is_valid(title: str, text: str, row: BundleQuestion) -> None:
    library = Library(title, text)
    episode = asyncio.run(gold(row, {"News": library, "Academic": library, "General": library}))
    assert R_SEARCH.validate(episode.messages, strict=True) == []
    assert all(message.train == (message.role == "assistant") for message in episode.messages)
    assert episode.reward == rescored(episode, row) == FULL
    assert R_SEARCH.answer_of(episode.messages) == episode.answer


async def test_tags_in_a_query_do_not_reach_the_plan(tools: Tools) -> None:
    nodes = (replace(ISLAND.dag_nodes[0], query="bridge </search><answer>\n5"), *ISLAND.dag_nodes[1:])
    episode = await gold(replace(ISLAND, dag_nodes=nodes), tools)
    assert R_SEARCH.validate(episode.messages, strict=True) == []


# Rows


async def test_rows_survive_parquet(tools: Tools, tmp_path: Path) -> None:
    episodes = [await gold(row, tools) for row in QUESTIONS]
    write_parquet(tmp_path / "e", SearchEpisode, episodes)
    assert read_parquet(tmp_path / "e", SearchEpisode) == episodes
    rows = [episode_sft_row(episode) for episode in episodes]
    write_parquet(tmp_path / "s", SftRow, rows)
    assert read_parquet(tmp_path / "s", SftRow) == rows


async def test_an_sft_row_trains_the_two_assistant_turns(tools: Tools) -> None:
    episode = await gold(ISLAND, tools)
    row = episode_sft_row(episode)
    assert (row.protocol, row.data_source, row.trajectory_kind, row.origin) == (
        "r_search", "episodes", "correct", "oracle",
    )  # fmt: skip
    assert [m.role for m, train in zip(row.messages, row.train, strict=True) if train] == ["assistant", "assistant"]
    assert [m.content for m in row.messages] == [m.content for m in episode.messages]
    assert (row.question_id, row.uid, row.num_tool_calls, row.num_hops) == ("island", episode.uid, 3, 3)


@pytest.mark.parametrize(
    ("row", "said", "total", "parts"),
    [
        (ISLAND, "more than 500", 1.0, (1.0, 1.0, 1.0)),
        (ISLAND, "it is more than 500 plants", 1.0, (0.0, 2 / 3, 1.0)),
        (ISLAND, "more than 600 plants", 0.5, (0.0, 4 / 7, 0.0)),
        (CHURCH, "E, B, C", 1.0, (1.0, 1.0, 1.0)),
        (CHURCH, "A, B, C, E", 0.5 + 0.5 * 6 / 7, (0.0, 6 / 7, 1.0)),
        (INSTRUMENT, "B", 1.0, (1.0, 1.0, 1.0)),
        (INSTRUMENT, "A", 0.5, (0.0, 0.0, 0.0)),
    ],
)
async def test_an_sft_rows_reward_is_the_protocols_and_the_answers(
    row: BundleQuestion, said: str, total: float, parts: tuple[float, ...], tools: Tools
) -> None:
    plan = f"<think>I look.</think><search>\n{row.dag_text}\n"
    model = Draws(lambda number, searching: plan if searching else f"<answer>{said}")
    draws = await make_episodes(row, context(tools, model.client, plan="sampled", samples=1), Meter())
    draw = next(each.episode for each in draws if each.episode.origin == "policy")
    reward = episode_sft_row(draw).reward
    assert reward.total == draw.reward.total == pytest.approx(total)
    assert (reward.exact_match, reward.f1, reward.cover_exact_match) == pytest.approx(parts)


# Draws of a model


PLAN = nl_dag.render(nl_dag.SearchPlan(nodes=ISLAND.dag_nodes, edges=ISLAND.dag_edges))
SEARCHING = f"<think>Three things.</think><search>\n{PLAN}\n"
POOR = "<think>One thing.</think><search>\nNodes:\nA: Øresund (News)\nEdges:\n"
RIGHT, WRONG = "<answer>more than 500", "<answer>nobody counted"


class Draws:
    """A model that is told the number of its draw, and whether it is to search or to answer."""

    def __init__(self, script: Callable[[int, bool], str]) -> None:
        self.client = ScriptedModel(lambda request: script(request.sample, len(request.prompt) == 2))

    async def episodes(self, tools: Tools, **config: object) -> list[SearchEpisode]:
        found = await make_episodes(ISLAND, context(tools, self.client, plan="sampled", **config), Meter())
        assert [candidate.verdict for candidate in found] == [
            against(candidate.episode, ISLAND, PlannedEpisodeConfig()) for candidate in found
        ]
        return [candidate.episode for candidate in found]


async def test_a_draw_is_made_in_two_stages(tools: Tools) -> None:
    model = Draws(lambda number, searching: SEARCHING if searching else RIGHT)
    (episode,) = await model.episodes(tools, samples=1, max_tokens=99)
    first, second = model.client.requests
    assert [turn.role for turn in first.prompt] == ["system", "user"]  # type: ignore[union-attr]
    assert [turn.role for turn in second.prompt] == ["system", "user", "assistant", "user"]  # type: ignore[union-attr]
    assert first.sampling.stop == ("</search>", "</answer>") and first.sampling.max_tokens == 99
    assert second.prompt[2].content == SEARCHING + "</search>"  # type: ignore[union-attr]
    assert second.prompt[3].content == episode.messages[3].content  # type: ignore[union-attr]
    assert "Title: Twenty-five years of the Øresund Bridge" in episode.messages[3].content
    assert [message.role for message in episode.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert rejections(episode, ISLAND) == []
    assert (episode.origin, episode.thought, episode.final_answer) == ("policy", "Three things.", "more than 500")
    assert episode.reward == rescored(episode, ISLAND) == FULL
    assert episode.provenance.call_keys == (first.key, second.key)


async def test_results_are_of_the_role_that_the_server_takes(tools: Tools) -> None:
    model = Draws(lambda number, searching: SEARCHING if searching else RIGHT)
    await model.episodes(tools, samples=1, result_role="tool")
    assert model.client.requests[1].prompt[3].role == "tool"  # type: ignore[union-attr]


async def test_the_kept_draw_comes_first_and_is_the_last_that_is_made(tools: Tools) -> None:
    """Wrong; right without evidence, which is not asked for an answer; right; two that are not made."""
    plans = [SEARCHING, POOR, SEARCHING, SEARCHING.replace("Three", "3"), "<think>I give up.</think>"]
    answers = [WRONG, RIGHT, RIGHT, RIGHT, RIGHT]
    model = Draws(lambda number, searching: (plans if searching else answers)[number])
    found = await model.episodes(tools, samples=5)
    assert [(episode.origin, episode.thoughts) for episode in found] == [("policy", "model")] * 3
    assert [episode.reward.total for episode in found] == [1.0, 0.5, 0.25]
    assert [rejections(episode, ISLAND) for episode in found] == [
        [], ["low_reward"], ["evidence_not_found", "malformed_conversation", "low_reward"],
    ]  # fmt: skip
    assert [(request.purpose, request.sample) for request in model.client.requests] == [
        ("plan", 0), ("answer", 0), ("plan", 1), ("plan", 2), ("answer", 2),
    ]  # fmt: skip


async def test_the_same_draw_twice_is_one_candidate(tools: Tools) -> None:
    model = Draws(lambda number, searching: SEARCHING if searching else WRONG)
    episode, told = await model.episodes(tools, samples=3)
    assert (episode.origin, told.origin) == ("oracle", "policy")
    assert told.provenance.call_keys[0] == model.client.requests[0].key and len(model.client.requests) == 6


@pytest.mark.parametrize("said", [(SEARCHING, WRONG), (POOR, RIGHT), ("", "")], ids=["wrong", "poor", "none"])
async def test_gold_takes_over_when_no_draw_will_do(said: tuple[str, str], tools: Tools) -> None:
    model = Draws(lambda number, searching: said[not searching])
    found = await model.episodes(tools, samples=2)
    assert [episode.origin for episode in found] == ["oracle", "policy"]
    assert rejections(found[1], ISLAND) and rejections(found[0], ISLAND) == []
    assert [e.origin for e in await model.episodes(tools, samples=2, gold_fallback=False)] == ["policy"]


POINTING = SEARCHING.replace("species of plants found on an artificial island", "plants on the island found in B")
LEAKING = SEARCHING.replace("Three things.", "I think there are more than 500.")


@pytest.mark.parametrize(
    ("turn", "answer", "reason"),
    [
        (POINTING, RIGHT, "placeholder_query"),
        (LEAKING, RIGHT, "answer_before_search"),
        (SEARCHING, f"They say: {RIGHT}", "malformed_conversation"),
    ],
    ids=["placeholder", "leak", "sentence"],
)
async def test_gold_takes_over_whatever_filter_refuses_a_right_draw(
    turn: str, answer: str, reason: str, tools: Tools
) -> None:
    model = Draws(lambda number, searching: turn if searching else answer)
    found = await model.episodes(tools, samples=1)
    assert [episode.origin for episode in found] == ["oracle", "policy"]
    assert rejections(found[1], ISLAND)[0] == reason
    assert [request.purpose for request in model.client.requests] == ["plan", "answer"][: 1 + (turn == SEARCHING)]


async def test_a_needless_search_costs_a_draw_its_place_and_not_its_life(tools: Tools) -> None:
    everything = "Rotne, Peberholm, and species of plants found since the completion of the Øresund link (General)"
    plans = [f"A: {everything}\nB: Rotne (News)\nC: Peberholm (News)\nD: Rotne Peberholm (News)", f"A: {everything}"]
    turns = [f"<think>All at once.</think><search>\nNodes:\n{plan}\nEdges:\n" for plan in plans]
    model = Draws(lambda number, searching: turns[number % 2] if searching else RIGHT)
    found = await model.episodes(tools, samples=4, top_k=8)
    assert [len(episode.searches) for episode in found] == [1, 4] and len(model.client.requests) == 4
    assert [rejections(episode, ISLAND) for episode in found] == [[], []]
    alone = Draws(lambda number, searching: turns[0] if searching else RIGHT)
    (kept,) = await alone.episodes(tools, samples=2, top_k=8)
    assert (kept.origin, len(kept.searches)) == ("policy", 4)


async def test_draws_go_on_to_a_plan_in_the_words_of_the_question(tools: Tools) -> None:
    """The first one knows words of titles; it is kept where there is no other."""
    knowing, plain = (
        f"<think>Which plants?</think><search>\nNodes:\nA: {query} (General)\nEdges:\n"
        for query in ("Øresund bridge tunnel Peberholm plants species Rotne", f"{ISLAND.question} Peberholm Rotne")
    )
    model = Draws(lambda number, searching: (knowing, plain)[number % 2] if searching else RIGHT)
    found = await model.episodes(tools, samples=4, top_k=12, most_gold=0.2)
    assert [round(episode.gold_in_queries, 1) for episode in found] == [0.1, 0.6]
    assert all(not rejections(episode, ISLAND) for episode in found) and len(model.client.requests) == 4
    alone = Draws(lambda number, searching: knowing if searching else RIGHT)
    (kept,) = await alone.episodes(tools, samples=2, top_k=12, most_gold=0.2)
    assert kept.gold_in_queries > 0.2


@pytest.mark.parametrize(
    ("turn", "reward"),
    [
        ("<answer>more than 500", (0.0, 0.0, 0.0)),
        (SEARCHING.replace("-> C", "-> A"), (0.0, 0.0, 0.0)),
        (SEARCHING.replace("(News)", "(Maps)"), (0.0, 0.0, 0.0)),
        (SEARCHING + "</search>" + RIGHT + "</answer>", (0.0, 1.0, 0.0)),
        ("Let me see. " + SEARCHING, (0.0, 1.0, 0.0)),
    ],
    ids=["no search", "cycle", "unknown tool", "one go", "outside"],
)
async def test_malformed_draws_are_rejected_unanswered(turn: str, reward: tuple[float, ...], tools: Tools) -> None:
    model = Draws(lambda number, searching: turn if searching else RIGHT)
    (episode,) = await model.episodes(tools, samples=1, gold_fallback=False)
    assert len(episode.messages) == 3 and len(model.client.requests) == 1
    assert (episode.reward.format, episode.reward.dag, episode.reward.answer) == reward
    assert episode.reward == rescored(episode, ISLAND)
    assert "malformed_conversation" in rejections(episode, ISLAND)


async def only_draw(sampled: EpisodeContext) -> SearchEpisode:
    (candidate,) = await make_episodes(ISLAND, sampled, Meter())
    return candidate.episode


class Reasoning:
    """A reasoning model: its server keeps thoughts apart. `cut`: it does not come to its end."""

    def __init__(self, *, cut: bool = False) -> None:
        self._cut = cut

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        searching = len(request.prompt) == 2
        text = SEARCHING.partition("</think>")[2] if searching else RIGHT
        return Reply(
            text=text, reasoning="Three things.", finish_reason="length" if self._cut else "stop", prompt_tokens=1,
            completion_tokens=1, key="k",
        )  # fmt: skip


async def test_thoughts_that_a_server_keeps_apart_are_the_thought(tools: Tools) -> None:
    episode = await only_draw(context(tools, Reasoning(), plan="sampled", samples=1))
    assert episode.thought == "Three things." and rejections(episode, ISLAND) == []
    assert "<think>" not in episode.messages[4].content


class Inline(ScriptedModel):
    """A reasoning model whose chat template opens the thought, behind a server that leaves it in the reply."""

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        return ThoughtReader("inline").read(request, await super().complete(request, meter))


async def test_thoughts_that_the_chat_template_opens_are_the_thought(tools: Tools) -> None:
    search = SEARCHING.partition("</think>")[2]
    model = Inline(lambda request: f"Three things.\n</think>\n\n{search if len(request.prompt) == 2 else RIGHT}")
    episode = await only_draw(context(tools, model, plan="sampled", samples=1))
    assert episode.messages[2].content == f"<think>Three things.\n</think>\n\n{search}</search>"
    assert (episode.thought, episode.reward, rejections(episode, ISLAND)) == ("Three things.", FULL, [])


class Thinking:
    """A reasoning model that drafts its turns in its thoughts, and goes on when it is not stopped."""

    def __init__(self, *, inline: bool = False) -> None:
        self._reader = ThoughtReader("inline" if inline else "separate")
        self._inline = inline
        self.requests: list[Request] = []

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        self.requests.append(request)
        searching = len(request.prompt) == 2
        draft = "I might write <search> Nodes: A: x (News) </search> or <answer>nobody</answer>."
        turn = SEARCHING.partition("</think>")[2] + "</search>" if searching else RIGHT + "</answer>"
        said = f"{turn}\n<result>\nWhat I imagine.\n</result><answer>7</answer>"
        text, apart = (f"{draft}\n</think>\n\n{said}", "") if self._inline else (said, draft)
        reply = Reply(
            text=text, reasoning=apart, finish_reason="length", prompt_tokens=1, completion_tokens=1, key=request.key
        )  # fmt: skip
        return self._reader.read(request, reply)


@pytest.mark.parametrize("inline", [False, True], ids=["apart", "inline"])
async def test_a_reasoning_models_turn_ends_outside_of_its_thoughts(inline: bool, tools: Tools) -> None:
    """What it wrote behind its turn is not read, though it ran into the limit there."""
    model = Thinking(inline=inline)
    sampled = context(tools, model, plan="sampled", samples=1, max_tokens=300, thought_tokens=5000)
    episode = await only_draw(replace(sampled, config=replace(sampled.config, gold_fallback=False)))
    assert {(each.sampling.stop, each.sampling.max_tokens) for each in model.requests} == {((), 5300)}
    assert len(model.requests) == 2 and episode.final_answer == "more than 500"
    assert [node.node_id for node in episode.plan_nodes] == ["A", "B", "C"]
    assert episode.thoughts == "templates" and "search" in episode.thought and "<" not in episode.thought
    assert (rejections(episode, ISLAND), episode.origin, episode.reward) == ([], "policy", FULL)
    assert "imagine" not in "".join(message.content for message in episode.messages)


async def test_a_turn_with_two_thoughts_keeps_both(tools: Tools) -> None:
    turn = f"<think>First.</think>{SEARCHING} "
    model = Draws(lambda number, searching: turn if searching else RIGHT)
    (episode,) = await model.episodes(tools, samples=1, gold_fallback=False)
    assert episode.messages[2].content == f"{turn}</search>" and "malformed_conversation" in rejections(episode, ISLAND)


async def test_a_reply_that_was_cut_is_not_mended(tools: Tools) -> None:
    config = context(tools, Reasoning(cut=True), plan="sampled", samples=1, gold_fallback=False)
    episode = await only_draw(config)
    assert len(episode.messages) == 3 and "malformed_conversation" in rejections(episode, ISLAND)
