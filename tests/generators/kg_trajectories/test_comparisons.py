"""Comparisons led along their two branches, and supporting documents that corpora have under other titles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.support.kg_episodes import BORN, DIRECTOR, agent, context, store, turn
from tests.support.rows import QUESTION
from tests.support.scripted import prompt_text
from trailforge.generators.kg_trajectories.choice import choose_rows, contrastive_pairs
from trailforge.generators.kg_trajectories.config import KgGeneratorConfig, KgPromptNames, ReadingConfig
from trailforge.generators.kg_trajectories.rows import derive_fields, reward_of
from trailforge.generators.kg_trajectories.work import generate
from trailforge.inference import Request
from trailforge.protocols.episodes import EpisodeConfig
from trailforge.retrieval import Retrieval
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.kg import KgStore
from trailforge.rewards import mentions
from trailforge.schemas import Document, Hop, KgTrajectory, SupportingDocument, word_comparison

GUIDED = KgGeneratorConfig(
    style="guided",
    episodes=2,
    top_k=2,
    episode=EpisodeConfig(style="completion"),
    kg_filter="asked",
    self_check="off",
    reading=ReadingConfig(reader="sentences", max_tokens=16, stop=("\n",)),
    prompts=KgPromptNames(answer="embedded_answer"),
)
BOTH = "Were Fritz Lang and Peter Lorre born in the same city?"
CITIES = replace(
    QUESTION,
    question=BOTH,
    answer="no",
    answer_aliases=(),
    decomposition=(
        Hop(question="In which city was Fritz Lang born?", answer="Vienna", support_id="1"),
        Hop(question="In which city was Peter Lorre born?", answer="Rosenberg", support_id="2"),
        Hop(question=word_comparison(BOTH, {"Fritz Lang": [1], "Peter Lorre": [2]}), answer="no"),
    ),
    num_hops=2,
    supporting=(SupportingDocument(title="Fritz Lang", id="1"), SupportingDocument(title="M", id="2")),
)
WHICH = "Which film had an actor or a director who was born in Vienna, Metropolis or M?"
FILMS = replace(
    CITIES,
    question=WHICH,
    answer="Metropolis",
    decomposition=(
        Hop(question="Who directed Metropolis?", answer="Fritz Lang", support_id="0"),
        Hop(question="Who played in M?", answer="Peter Lorre", support_id="2"),
        Hop(question="In which city was #1 born?", answer="Vienna", support_id="1"),
        Hop(question="In which city was #2 born?", answer="Rosenberg", support_id="2"),
        Hop(question=word_comparison(WHICH, {"Metropolis": [1, 3], "M": [2, 4]}), answer="Metropolis"),
    ),
    num_hops=4,
    supporting=(),
)
READ = {"directed": "Fritz Lang", "played": "Peter Lorre", "Lang born": "Vienna", "Lorre born": "Rosenberg"}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> KgStore:
    return store(tmp_path_factory.mktemp("kg"))


def reader(*outcomes: str, asked: list[Request] | None = None) -> Callable[[Request], str]:
    """Reads every hop rightly, and concludes what draw n is told to. `asked` notes what comparisons were asked."""

    def script(request: Request) -> str:
        if request.purpose == "compare":
            if asked is not None:
                asked.append(request)
            return f" {outcomes[request.sample]}"
        if request.purpose.startswith("choose"):
            return " " + prompt_text(request).rsplit(": ", 1)[1].partition("\n")[0].split("; ")[0]
        question = prompt_text(request).rsplit("Question: ", 1)[1]
        return " " + next(answer for words, answer in READ.items() if words in question)

    return script


async def test_both_branches_are_searched_for_and_compared_without_another_search(graph: KgStore) -> None:
    asked: list[Request] = []
    right, wrong = (await generate(CITIES, context(graph, reader("no", "yes", asked=asked), GUIDED))).rows
    for row in (right, wrong):
        assert (row.num_tool_calls, row.num_hops, row.stop) == (2, 2, "answered")
        assert [step.answer for step in row.steps] == ["Vienna", "Rosenberg"]
        assert row.plan == tuple(hop.question for hop in CITIES.decomposition)
        assert (row.reward.r_recall, row.reward.r_penalty) == (1.0, 0.0)
    assert (right.final_answer, right.kind, right.reward.total) == ("no", "good", 1.5)
    assert (wrong.final_answer, wrong.kind) == ("yes", "bad")
    assert f"{BOTH} (Fritz Lang: Vienna; Peter Lorre: Rosenberg)" in prompt_text(asked[0])
    assert '"yes" | "no"' in (asked[0].grammar or "")
    first, second, last = [message.content for message in right.messages if message.role == "assistant"]
    assert not mentions(first, "Vienna") and mentions(second, "Vienna") and not mentions(second, "Rosenberg")
    assert mentions(last, "Vienna") and mentions(last, "Rosenberg")


async def test_a_wrong_conclusion_is_rejected_and_makes_a_pair_of_the_last_turn(graph: KgStore) -> None:
    one_passage = replace(GUIDED, top_k=1)  # two would bring both documents at once
    right, wrong = rows = (await generate(CITIES, context(graph, reader("no", "yes"), one_passage))).rows
    chosen = choose_rows(rows)
    assert chosen.kept == (right,)
    assert [(row.uid, verdict.reason) for row, verdict in chosen.rejected] == [(wrong.uid, "wrong_answer")]
    (pair,) = contrastive_pairs(chosen.kept, chosen.rejected, 4)
    assert pair.diverges_at == len(right.messages) - 1


async def test_a_bridge_comparison_is_led_by_what_its_branches_found(graph: KgStore) -> None:
    asked: list[Request] = []
    config = replace(GUIDED, episodes=1)
    (row,) = (await generate(FILMS, context(graph, reader("Metropolis", asked=asked), config))).rows
    assert [step.query for step in row.steps][2:] == [
        "In which city was Fritz Lang born?",
        "In which city was Peter Lorre born?",
    ]
    assert (row.num_tool_calls, row.num_hops, row.final_answer, row.reward.r_penalty) == (4, 4, "Metropolis", 0.0)
    assert '"Metropolis" | "M"' in (asked[0].grammar or "")
    assert "(Metropolis: Fritz Lang, Vienna; M: Peter Lorre, Rosenberg)" in prompt_text(asked[0])


async def test_a_comparison_without_a_conclusion_breaks_off(graph: KgStore) -> None:
    config = replace(GUIDED, episodes=1)
    (row,) = (await generate(CITIES, context(graph, reader("{}"), config))).rows
    assert (row.stop, row.final_answer, row.num_tool_calls, row.kind) == ("malformed", "", 2, "bad")


# Corpora with other titles

PAGES = (
    Document(id="a", title="Web page 1", text="He liked films. Metropolis is a film of 1927. Fritz Lang directed it."),
    Document(id="b", title="Chunk 12", text=f"{QUESTION.paragraphs[1].text} He was buried there in 1976."),
    Document(id="c", title="Dogs", text="Dogs are kept in Vienna and Beverly Hills."),
)


@dataclass
class Judge:
    """Stands in for an encoder: two texts about Metropolis are near each other."""

    asked: int = 0

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def similarity(self, one: str, other: str) -> float:
        self.asked += 1
        return 0.85 if "Metropolis" in one and "Metropolis" in other else 0.2


async def over_pages(graph: KgStore, threshold: float) -> tuple[KgTrajectory, Judge]:
    """One free episode over pages whose titles say nothing."""
    judge: Any = Judge()
    config = KgGeneratorConfig(episodes=1, top_k=2, self_check="off", kg_filter="none", recall_similarity=threshold)
    played = context(graph, agent((DIRECTOR, BORN, turn("Vienna it is.", answer="Vienna"))), config)
    played = replace(played, retrieval=Retrieval(judge, Bm25Retriever(PAGES)))
    (row,) = (await generate(QUESTION, played)).rows
    return row, judge


@pytest.mark.parametrize(
    ("threshold", "similarities", "recall"),
    [
        (1.0, (None, 1.0), 0.5),  # its own words, which takes no encoder
        (0.8, (0.85, 1.0), 1.0),
        (0.9, (0.85, 1.0), 0.5),
    ],
)
async def test_chunks_and_pages_of_other_titles_are_paid(
    graph: KgStore, threshold: float, similarities: Sequence[float | None], recall: float
) -> None:
    row, judge = await over_pages(graph, threshold)
    assert tuple(document.similarity for document in row.supporting) == similarities
    assert row.reward.r_recall == recall and bool(judge.asked) == (threshold < 1.0)


async def test_the_reward_follows_from_the_row_without_an_encoder(graph: KgStore) -> None:
    row, _ = await over_pages(graph, 0.8)
    config = KgGeneratorConfig(recall_similarity=0.8)
    assert reward_of(row, config.constants) == row.reward
    assert derive_fields(row, QUESTION, config)["reward"] == row.reward
    assert reward_of(row, KgGeneratorConfig().constants).r_recall == 0.5
