"""Execute a plan once: search and answer every sub-question in topological order (MSearcher, section 3.1.3).

A plan is rolled out more than once, and must be able to come out differently. The search decides what varies
(`contrasts.Variation`): one step's query put in other words, one step's answer drawn again, or every answer. Steps of
the base rollout that do not rest on the varied one are kept; the others continue from its new answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trailforge.inference import Asker, Reply, Sampling, Style, fill
from trailforge.mcts.contrasts import Variation
from trailforge.mcts.inputs import Simulation
from trailforge.mcts.plan import execution_levels, normalized, question_of, references, resolve, sink
from trailforge.retrieval import Retriever
from trailforge.retrieval.english import WIDE_PREPOSITIONS
from trailforge.rewards import (
    is_abstention,
    is_near_miss,
    mcts_reward,
    mentions,
    read_first_line,
    read_memory_mark,
    read_short_answer,
    same_answer,
    spell_in_figures,
)
from trailforge.rewards.reading import fold
from trailforge.schemas import Passage, Plan, Rollout, Step, check_least

_SAMPLES_PER_TRY = 1000
"""More than a leaf plan has rollouts: keeps the draws of different rollouts apart."""

_PREPOSITION = f"(?:{'|'.join(WIDE_PREPOSITIONS)})"
_WH = r"(?i:what|which|who|whom|whose|where|when|why|how)\b"
_BEGINS_CUT = re.compile(rf"(?i:{_PREPOSITION}) (?!{_WH})")
_ENDS_CUT = re.compile(rf"(?!{_WH}).* {_PREPOSITION}$")
"""Search words that begin or end with a preposition; a question may: "In which city …", "Who was it built by"."""
_STATES = re.compile(rf"(?!{_WH})([A-Z][\w'’-]*)(?:,| (?:is|was|are|were)\b)")
"""A first word that may be an answer: "Paris, the capital of France", "Paris is …"."""
_REMARK = re.compile(r"([^()]*[^()\s]) +\([^()]*\)")
_ARTICLE = re.compile(r"(?:The|An?) ")

_ACRONYMS = frozenset({"TV", "US", "USA", "UK", "UN", "EU", "CEO", "DNA", "NATO", "GDP", "CD", "DVD", "AD", "BC"})
_COMMON = frozenset(
    "who what which where when why how whose name year date place city country state county river capital birthplace "
    "birth death birthday author writer director founder president king queen film movie novel book album song band "
    "group network channel university college school company located born died i".split()
)
"""Words that a query may write with a capital without naming anything."""

Reader = Callable[[str, Sequence[Passage]], Awaitable[str]]
"""A function from question and passages to the context that the model reads."""
AnswerJudge = Callable[[str], Awaitable[float | None]]
"""A function from a final answer to its score in [0, 1]; None when there is no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig:
    """Settings of how a step searches, reads and answers."""

    style: Style = "chat"
    top_k: int = 3
    """Number of passages that a search returns."""
    reader: Literal["passages", "sentences"] = "passages"
    """What the model sees of the passages: whole passages, or the sentences nearest to the question."""
    num_sentences: int = 3
    """Number of sentences that the model sees, for the reader `sentences`."""
    answer_max_tokens: int = 8192
    """Largest number of tokens of an answer, which leaves room for a reasoning model's thoughts."""
    rephrase_max_tokens: int = 4096
    wordings: int = 4
    """Number of rewordings of a query in one reply; the first that finds other passages is taken."""
    tries: int = 3
    """Largest number of replies with rewordings until one of them is usable, and of samples of an answer until one
    differs."""
    stop: tuple[str, ...] = ()
    plain_temperature: float = 0.6
    sample_temperature: float = 0.6
    """Sampling temperature of answers that are drawn again, and of reworded queries."""
    top_p: float = 0.95
    max_answer_words: int = 30
    """Number of words above which a reply is no short answer, and is cut."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a number of which there has to be one."""
        check_least(self, 1, "top_k", "num_sentences", "answer_max_tokens", "rephrase_max_tokens")
        check_least(self, 1, "wordings", "tries", "max_answer_words")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPrompts:
    """Texts of a step's prompts, with placeholders `{{question}}` and `{{context}}` where it is answered, `{{query}}`,
    `{{count}}` and `{{earlier}}` where its query is rephrased.
    """

    answer: str
    rephrase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRunner:
    """Executes the plans of one question: called with a plan and a variation it returns the rollout's steps, answer and
    reward (a `mcts.inputs.RollOut`).
    """

    golds: Sequence[str]
    asker: Asker
    retriever: Retriever
    reader: Reader
    prompts: RolloutPrompts
    config: RolloutConfig
    judge: AnswerJudge | None = None
    """Judge that scores near misses of the gold answers; None: none is asked."""
    judge_threshold: float = 1.0
    """Least score by which a judged answer is right."""

    async def __call__(self, plan: Plan, variation: Variation) -> Simulation | None:
        """Run the plan; None when an answer was cut. A level's sub-questions do not need each other and run at once."""
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
        reward = mcts_reward(answer, self.golds)
        if reward or self.judge is None or not is_near_miss(answer, self.golds):
            return reward, None
        score = await self.judge(answer)
        return float(score is not None and score >= self.judge_threshold), score

    async def _step(self, index: int, sub_question: str, answers: dict[int, str], variation: Variation) -> Step | None:
        """Search, then answer shortly from the passages (Eq. 8: dependencies enter by their answers); None when cut."""
        question = resolve(sub_question, answers)
        plain = Step(index=index, sub_question=sub_question, query=question, passages=(), answer="")
        if any(not answers[k] for k in references(sub_question)):
            return plain  # it needs an answer that was not found: nothing is asked
        before = _step_of(variation.base, index, question)
        if variation.step == index and variation.kind == "query":
            return await self._reworded(plain, before, question, variation)
        if variation.step == index and before is not None:
            return await self._drawn_again(before, question, variation)
        if before is not None:
            return before
        passages = tuple(await self.retriever.retrieve(question, self.config.top_k))
        return await self._drawn(replace(plain, passages=passages), question, variation)

    async def _drawn(self, step: Step, question: str, variation: Variation) -> Step | None:
        """The step of a rollout that keeps nothing answered by a draw of its own, unless it is settled what that would
        be; of one that keeps others' steps by the first draw."""
        sample = variation.sample if variation.base is None else 0
        known = variation.draws.settled(question, step.passages) if sample and variation.draws else None
        if known is None:
            return await self._answered(replace(step, answer_sample=sample), question)
        return replace(
            step,
            answer=known.answer,
            from_memory=known.from_memory,
            reasoning=known.reasoning,
            answer_sample=known.answer_sample,
            call_keys=(*step.call_keys, *known.call_keys[-1:]),
        )

    async def _reworded(self, plain: Step, before: Step | None, question: str, variation: Variation) -> Step | None:
        """The step searched in other words, of a rollout that keeps nothing in the first that come; else in words that
        find passages which nobody has read yet, or, of a right answer (`misses`), passages that lose it.

        When none of a reply does so, others are asked for; but where they should lose the answer, others will not
        either.
        """
        seen, keys, found = [question, *variation.seen], list[str](), None
        for attempt in range(self.config.tries):
            wordings, key = await self._rephrase(question, tuple(dict.fromkeys(seen)), variation, attempt)
            keys.append(key)
            for query in wordings:
                passages = tuple(await self.retriever.retrieve(query, self.config.top_k))
                if _is_wanted(passages, before, variation):
                    found = replace(plain, query=query, passages=passages, query_rephrased=True)
                    break
            if found is not None or (wordings and variation.misses):
                break
            seen += wordings
        if found is None and before is not None:
            return before
        if found is None:
            found = replace(plain, passages=tuple(await self.retriever.retrieve(question, self.config.top_k)))
        found = replace(found, call_keys=tuple(keys), is_provoked=variation.misses and found.query_rephrased)
        if before is None:
            return await self._drawn(found, question, variation)
        return await self._answered(replace(found, answer_sample=before.answer_sample), question)

    async def _drawn_again(self, before: Step, question: str, variation: Variation) -> Step | None:
        """The step's answer drawn until it differs, over the same passages, or is settled."""
        room = variation.draws.room(question, before.passages) if variation.draws else self.config.tries
        step = before
        for attempt in range(min(room, self.config.tries)):
            sample = variation.sample + attempt * _SAMPLES_PER_TRY
            drawn = await self._answered(replace(before, answer_sample=sample, call_keys=()), question)
            if drawn is None:
                return None
            keys = before.call_keys[:-1]
            step = replace(drawn, call_keys=(*keys, *drawn.call_keys))
            if not same_answer(step.answer, before.answer):
                return replace(step, is_provoked=True)
        return step

    async def _rephrase(
        self, query: str, seen: tuple[str, ...], variation: Variation, attempt: int
    ) -> tuple[list[str], str]:
        """Wordings of a reply that are usable and were not seen, and the call's key.

        The first reply to be looked at is the one that the step's first rewording came from: it has others left.
        """
        known = {normalized(wording) for wording in seen}
        prompt = fill(
            self.prompts.rephrase,
            query=query,
            count=str(self.config.wordings),
            earlier="\n".join(f"- {wording}" for wording in (seen if attempt else seen[:1])),
        )
        reply = await self.asker.text(
            prompt,
            purpose="rephrase",
            sampling=self._sampling(self.config.sample_temperature, self.config.rephrase_max_tokens),
            sample=variation.sample + attempt * _SAMPLES_PER_TRY if attempt else 0,
        )
        lines = [read_first_line(line) for line in (reply.answer or "").splitlines()[: 2 * self.config.wordings]]
        usable = [line for line in lines if normalized(line) not in known and is_usable_query(line, query)]
        return usable[: self.config.wordings], reply.key

    async def _answered(self, step: Step, question: str) -> Step | None:
        """The step with the model's answer to what it found; None when the reply was cut."""
        reply = await self._ask(question, step.passages, step.answer_sample)
        if reply.answer is None:
            return None
        answer, from_memory = read_memory_mark(read_short_answer(reply.answer, self.config.max_answer_words))
        if is_abstention(answer) and not mcts_reward(answer, self.golds):
            answer, from_memory = "", False
        return replace(
            step,
            answer=within_a_sentence(without_remark(answer, step.passages), step.passages),
            from_memory=from_memory,
            reasoning=reply.reasoning,
            call_keys=(*step.call_keys, reply.key),
        )

    async def _ask(self, question: str, passages: Sequence[Passage], sample: int) -> Reply:
        config = self.config
        prompt = fill(self.prompts.answer, question=question, context=await self.reader(question, passages))
        temperature = config.sample_temperature if sample else config.plain_temperature
        return await self.asker.text(
            prompt,
            purpose="answer",
            sampling=self._sampling(temperature, config.answer_max_tokens),
            sample=sample,
        )

    def _sampling(self, temperature: float, max_tokens: int) -> Sampling:
        config = self.config
        return Sampling(temperature=temperature, top_p=config.top_p, max_tokens=max_tokens, stop=config.stop)


async def read_passages(question: str, passages: Sequence[Passage]) -> str:
    """Write passages as the numbered context of a prompt, one a line with its title. The question makes no difference
    here.
    """
    return "\n".join(f"{n}. ({p.title}) {p.text}" for n, p in enumerate(passages, start=1))


def without_remark(answer: str, passages: Sequence[Passage]) -> str:
    """Return an answer without the brackets at its end: "Andy Murray (three times)" would go into the next query. They
    stay where a passage has them, as in "Metropolis (1927 film)".
    """
    remark = _REMARK.fullmatch(answer)
    if remark is None or any(answer.casefold() in f"{p.title}\n{p.text}".casefold() for p in passages):
        return answer
    return remark[1]


def within_a_sentence(answer: str, passages: Sequence[Passage]) -> str:
    """Return an answer as later sub-questions and thoughts write it: `The riel` becomes `the riel`. The article keeps
    its capital where it belongs to a name, as a passage writes it within a sentence or in its title.
    """
    if not _ARTICLE.match(answer):
        return answer
    inside = re.compile(rf"[^\s.!?] {re.escape(answer)}(?!\w)")
    if any(inside.search(p.text) or p.title.startswith(answer) for p in passages):
        return answer
    return answer[0].lower() + answer[1:]


def is_usable_query(rephrased: str, query: str) -> bool:
    """Tell whether a reworded query is usable: one line that is no mere piece of the query, complete, not much longer,
    and without immediate repetitions.

    It must have all names and numbers of the query, some of its words or only question words in their place, and no new
    name.
    """
    return (
        bool(rephrased)
        and f" {_words(rephrased)} " not in f" {_words(query)} "
        and not _is_cut_off(rephrased, query)
        and not _is_an_answer(rephrased, query)
        and not _stutters(rephrased, query)
        and len(rephrased) <= 2 * len(query) + 40
        and all(_words(name) in _words(rephrased) for name in _names(query))
        and all(_words(name) in _words(query) for name in _names(rephrased) if not _is_common(name))
        and _figures(rephrased) - _figures(query) <= {"1"}
        and bool(_names(query) or _long_words(rephrased) & _long_words(query))
        and "#" not in rephrased.replace(query, "")
    )


def _stutters(rephrased: str, query: str) -> bool:
    """Does it repeat words at once that the query does not: "Angkor Wat Angkor Wat", "the the"?"""
    words, known = _words(rephrased).split(), f" {_words(query)} "
    for size in range(1, len(words) // 2 + 1):
        for at in range(len(words) - 2 * size + 1):
            twice = words[at : at + 2 * size]
            if twice[:size] == twice[size:] and f" {' '.join(twice)} " not in known:
                return True
    return False


def _words(text: str) -> str:
    """Normalised, without possessives: "France's" and "France" are one name."""
    return normalized(re.sub(r"['’]s\b|(?<=s)['’](?!\w)", "", text))


def _is_common(name: str) -> bool:
    """A known acronym (TV, US), or a question word or noun that titles write with a capital: no new name."""
    return name in _ACRONYMS or name.casefold() in _COMMON


def _is_an_answer(rephrased: str, query: str) -> bool:
    """Does it begin with a word of its own that something is said of?"""
    stated = _STATES.match(rephrased)
    return stated is not None and _words(stated[1]) not in _words(query)


def _is_cut_off(rephrased: str, query: str) -> bool:
    """Does it begin or end with a preposition that belongs to no name ("On the Origin of Species author")?"""
    begins_name = " ".join(rephrased.split()[:2]) in query[1:]
    return bool(_BEGINS_CUT.match(rephrased) and not begins_name) or bool(_ENDS_CUT.match(rephrased.rstrip("?. ")))


def _names(text: str) -> list[str]:
    """Numbers, and capitalised words but the first, without possessives; the first counts where it has one."""
    first = re.findall(r"^[A-Z][\w-]*(?=['’]s\b)", text)
    found = re.findall(r"(?<!^)\b[A-Z][\w'’-]*|\b\d[\w.,-]*", text)
    return [re.sub(r"['’]s?$", "", name).rstrip(".,-") for name in (*first, *found)]


def _figures(text: str) -> set[str]:
    """Its numbers, be they figures or words."""
    return set(re.findall(r"\d+", spell_in_figures(fold(text))))


def _long_words(text: str) -> set[str]:
    return {word for word in _words(text).split() if len(word) > 3}


def _is_wanted(passages: Sequence[Passage], before: Step | None, variation: Variation) -> bool:
    """Is what a reworded query found to be read?"""
    if variation.base is None:
        return True  # a sampled query is searched whatever it finds
    ids = {passage.id for passage in passages}
    known = [set(read) for read in variation.read] + ([{p.id for p in before.passages}] if before else [])
    loses = before is None or not any(mentions(f"{p.title}. {p.text}", before.answer) for p in passages)
    return bool(ids) and ids not in known and (loses or not variation.misses)


def _step_of(base: Rollout | None, index: int, question: str) -> Step | None:
    """The base's step, where it was asked the same; it may be kept."""
    if base is None:
        return None
    step = next(step for step in base.steps if step.index == index)
    return step if question_of(base.steps, step) == question else None
