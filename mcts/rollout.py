"""One execution of a plan: search and answer every sub-question in topological order (MSearcher, section 3.1.3).

A plan is rolled out more than once, and must be able to come out differently. Repeat 0 is plain. After that two
sources of variation take turns and are never mixed, since the kind of an error is read from which one differed:
odd repeats draw every answer anew (`answer`), even ones rephrase the query of one step, each in its turn (`query`).
Where the plain rollout was cut, even ones cannot rest on its answers: they draw theirs anew, too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from trailforge.inference import Sampling
from trailforge.inference.asker import Asker, Style, fill
from trailforge.mcts.plan import execution_levels, normalized, references, resolve, sink
from trailforge.mcts.search import Simulation
from trailforge.retrieval import Retriever
from trailforge.retrieval.english import WIDE_PREPOSITIONS
from trailforge.rewards.answers import is_abstention, read_first_line, read_short_answer
from trailforge.rewards.matching import is_near_miss, mcts_reward
from trailforge.schemas import Passage, Plan, Step, VariationKind

_SAMPLES_PER_TRY = 1000
"""More than a leaf plan has repeats: keeps the draws of different repeats apart."""

_PREPOSITION = f"(?:{'|'.join(WIDE_PREPOSITIONS)})"
_WH = r"(?i:what|which|who|whom|whose|where|when|why|how)\b"
_BEGINS_CUT = re.compile(rf"(?i:{_PREPOSITION}) (?!{_WH})")
_ENDS_CUT = re.compile(rf"(?!{_WH}).* {_PREPOSITION}$")
"""Search words that begin or end with a preposition; a question may: "In which city …", "Who was it built by"."""
_ARTICLE = re.compile(r"(?:The|An?) ")

Reader = Callable[[str, Sequence[Passage]], Awaitable[str]]
"""(question, passages) -> the context that the model reads."""
AnswerJudge = Callable[[str], Awaitable[float | None]]
"""A final answer -> its score in [0, 1]; None when there is no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig:
    """How a step is searched, read and answered."""

    style: Style = "chat"
    top_k: int = 3
    """Passages per search."""
    reader: Literal["passages", "sentences"] = "passages"
    """What the model sees of the passages: all, or the sentences nearest to the question."""
    num_sentences: int = 3
    """For `sentences`: how many."""
    answer_max_tokens: int = 8192
    """Room for a reasoning model's thoughts."""
    rephrase_max_tokens: int = 4096
    rephrase_tries: int = 3
    """Replies asked for until one is usable as a query."""
    stop: tuple[str, ...] = ()
    plain_temperature: float = 0.6
    sample_temperature: float = 0.6
    """Of answers drawn again, and of rephrased queries."""
    top_p: float = 0.95
    max_answer_words: int = 30
    """A longer reply is no short answer, and is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPrompts:
    """Templates: `{{question}}` and `{{context}}` (answer), `{{query}}` (rephrase)."""

    answer: str
    rephrase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """What makes a repeat differ from the plain rollout."""

    kind: VariationKind
    step: int | None
    """0-based step whose query is rephrased; None for the other kinds."""
    sample: int
    """Number of the draw: distinguishes its calls from those of other repeats."""
    draws_anew: bool
    """Are its answers drawn under that number, or are they the plain rollout's wherever they are asked alike?"""


def variation_of(repeat: int, num_steps: int, anew: bool = False) -> Variation:
    """0: plain; 1, 3, 5 …: answers anew; 2, 4, 6 …: query of step 0, 1, 2 … rephrased, round and round, and with `anew`
    answers drawn anew, too."""
    if repeat == 0:
        return Variation(kind="none", step=None, sample=0, draws_anew=False)
    if repeat % 2:
        return Variation(kind="answer", step=None, sample=repeat, draws_anew=True)
    return Variation(kind="query", step=(repeat // 2 - 1) % num_steps, sample=repeat, draws_anew=anew)


class PlanRunner:
    """Rolls out plans for one question. Calling it is a `mcts.search.RollOut`."""

    def __init__(
        self,
        *,
        golds: Sequence[str],
        asker: Asker,
        retriever: Retriever,
        reader: Reader,
        prompts: RolloutPrompts,
        config: RolloutConfig,
        judge: AnswerJudge | None = None,
        judge_threshold: float = 1.0,
    ) -> None:
        """`judge`: scores near misses of the gold answers; right are those of at least `judge_threshold`."""
        self._golds, self._asker, self._retriever = golds, asker, retriever
        self._judge, self._judge_threshold = judge, judge_threshold
        self._reader, self._prompts, self._config = reader, prompts, config

    async def __call__(self, plan: Plan, repeat: int, anew: bool = False) -> Simulation | None:
        """Run the plan; None when an answer was cut. A level's sub-questions do not need each other and run at once."""
        variation = variation_of(repeat, len(plan), anew)
        steps: dict[int, Step] = {}
        for level in execution_levels(plan):
            answers = {position + 1: step.answer for position, step in steps.items()}
            done = await asyncio.gather(*(self._step(i, plan.sub_questions[i], answers, variation) for i in level))
            if None in done:
                return None
            steps.update((step.index, step) for step in done if step is not None)
        answer = steps[sink(plan)].answer
        reward, judge_score = await self._reward(answer)
        return Simulation(
            steps=tuple(steps[position] for position in sorted(steps)),
            answer=answer,
            reward=reward,
            variation=variation.kind,
            varied_step=variation.step,
            judge_score=judge_score,
        )

    async def _reward(self, answer: str) -> tuple[float, float | None]:
        """What a final answer is paid, and the judge's score if it was asked."""
        reward = mcts_reward(answer, self._golds)
        if reward or self._judge is None or not is_near_miss(answer, self._golds):
            return reward, None
        score = await self._judge(answer)
        return float(score is not None and score >= self._judge_threshold), score

    async def _step(self, index: int, sub_question: str, answers: dict[int, str], variation: Variation) -> Step | None:
        """Search, then answer shortly from the passages (Eq. 8: dependencies enter by their answers); None when cut."""
        question = resolve(sub_question, answers)
        if any(not answers[k] for k in references(sub_question)):
            return _unanswerable(index, sub_question, question)
        query, keys = question, list[str]()
        if variation.kind == "query" and variation.step == index:
            query, keys = await self._rephrase(question, variation.sample)
        passages = tuple(await self._retriever.retrieve(query, self._config.top_k))
        sample = variation.sample if variation.draws_anew else 0
        answer, key = await self._answer(question, passages, sample)
        if answer is None:
            return None
        return Step(
            index=index,
            sub_question=sub_question,
            query=query,
            passages=passages,
            answer=answer,
            query_rephrased=query != question,
            answer_sample=sample,
            call_keys=(*keys, key),
        )

    async def _rephrase(self, query: str, sample: int) -> tuple[str, list[str]]:
        """Another wording of the query, and the calls it took; the same one when no reply is of use."""
        keys = []
        for attempt in range(self._config.rephrase_tries):
            reply = await self._asker.text(
                fill(self._prompts.rephrase, query=query),
                purpose="rephrase",
                sampling=self._sampling(self._config.sample_temperature, self._config.rephrase_max_tokens),
                sample=sample + attempt * _SAMPLES_PER_TRY,
            )
            keys.append(reply.key)
            rephrased = read_first_line(reply.answer or "")
            if is_usable_query(rephrased, query):
                return rephrased, keys
        return query, keys

    async def _answer(self, question: str, passages: Sequence[Passage], sample: int) -> tuple[str | None, str]:
        """The answer, empty when the reply says that there is none, None when it was cut, and its call."""
        config = self._config
        prompt = fill(self._prompts.answer, question=question, context=await self._reader(question, passages))
        temperature = config.sample_temperature if sample else config.plain_temperature
        reply = await self._asker.text(
            prompt,
            purpose="answer",
            sampling=self._sampling(temperature, config.answer_max_tokens),
            sample=sample,
        )
        if reply.answer is None:
            return None, reply.key
        answer = read_short_answer(reply.answer, config.max_answer_words)
        if is_abstention(answer) and not mcts_reward(answer, self._golds):
            return "", reply.key
        return within_a_sentence(answer, passages), reply.key

    def _sampling(self, temperature: float, max_tokens: int) -> Sampling:
        config = self._config
        return Sampling(temperature=temperature, top_p=config.top_p, max_tokens=max_tokens, stop=config.stop)


async def read_passages(question: str, passages: Sequence[Passage]) -> str:
    """Context of whole passages, numbered."""
    return "\n".join(f"{n}. ({p.title}) {p.text}" for n, p in enumerate(passages, start=1))


def within_a_sentence(answer: str, passages: Sequence[Passage]) -> str:
    """An answer as further sub-questions and thoughts write it: `The riel` becomes `the riel`.

    The article keeps its capital where it belongs to a name: a passage writes it so within a sentence, or is titled so.
    """
    if not _ARTICLE.match(answer):
        return answer
    inside = re.compile(rf"[^\s.!?] {re.escape(answer)}(?!\w)")
    if any(inside.search(p.text) or p.title.startswith(answer) for p in passages):
        return answer
    return answer[0].lower() + answer[1:]


def is_usable_query(rephrased: str, query: str) -> bool:
    """One line that is no mere piece of the query, not cut off, and not much longer.

    It has all names and numbers of the query, some of its words, and no name of its own.
    """
    return (
        bool(rephrased)
        and f" {normalized(rephrased)} " not in f" {normalized(query)} "
        and not _is_cut_off(rephrased, query)
        and len(rephrased) <= 2 * len(query) + 40
        and all(normalized(name) in normalized(rephrased) for name in _names(query))
        and all(normalized(name) in normalized(query) for name in _names(rephrased))
        and bool(_long_words(rephrased) & _long_words(query))
        and "#" not in rephrased.replace(query, "")
    )


def _is_cut_off(rephrased: str, query: str) -> bool:
    """Does it begin or end with a preposition that belongs to no name ("On the Origin of Species author")?"""
    begins_name = " ".join(rephrased.split()[:2]) in query[1:]
    return bool(_BEGINS_CUT.match(rephrased) and not begins_name) or bool(_ENDS_CUT.match(rephrased.rstrip("?. ")))


def _names(text: str) -> list[str]:
    """Numbers, and capitalised words but the first."""
    return re.findall(r"(?<!^)\b[A-Z][\w'’-]*|\b\d[\w.,-]*", text)


def _long_words(text: str) -> set[str]:
    """Words that are more than grammar, by their length."""
    return {word for word in normalized(text).split() if len(word) > 3}


def _unanswerable(index: int, sub_question: str, question: str) -> Step:
    """A step that needs an answer which was not found: nothing is asked, the answer is empty."""
    return Step(index=index, sub_question=sub_question, query=question, passages=(), answer="")
