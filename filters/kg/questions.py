"""Reasons to reject a question made from a knowledge graph.

Filters that cost nothing are asked before those that ask a model.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trailforge.filters.base import count_faults
from trailforge.filters.kg.descriptions import NAMED, descriptions_in, judge_descriptions
from trailforge.filters.thoughts import country_stems
from trailforge.rewards import (
    cover_exact_match,
    exact_match,
    f1,
    is_abstention,
    mcts_reward,
    mentions,
    normalize_answer,
    same_answer,
)
from trailforge.schemas import InvalidInput, KgNode, KgQuestion, Verdict

_FEWEST_WORDS, _MOST_WORDS = 4, 80
_LEFT_OVER = re.compile(r"#\d|\bX\d\b|\bANSWER\b|[{}|]|\[\w+\]")
_WORD = re.compile(r"[^\W_]+")
_SHORT = 4
"""Letters: a shorter name counts only as it is written, or `US` would stand in "of us"."""
_CHECKED = ("ambiguous_question", "doubtful_fact", "unclear_question")
_NOTHING = frozenset(("", "no", "none", "na", "nothing", "null", "clear"))
"""How a model fills in what should stay empty."""
ASKED = frozenset(("right_from_memory", "agreed_otherwise", *NAMED, *_CHECKED))
"""Names of the filters that rest on what a model said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgQuestionFilterConfig:
    """Which filters a question must pass, with their limits."""

    closed_book_samples: int = 4
    """Most draws from memory; the first right one rejects. 0: none is made."""
    agreeing_draws: int = 2
    """So many draws from memory that give the same other answer reject: the graph may be wrong. 0: none do."""
    name_described: bool = False
    """Whether a model is asked to name all that fits a description of something on the way, before the check."""
    check: bool = False
    """Whether a model is asked, last of all, if other answers fit, a fact is doubtful, or the wording is unclear."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput`."""
        for name in ("closed_book_samples", "agreeing_draws"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"has to be 0 or more, got {getattr(self, name)}", field=name)
        if self.agreeing_draws == 1:
            raise InvalidInput("has to be 0, or 2 or more: one draw agrees with none", field="agreeing_draws")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objections:
    """A model's objections to a question, after it saw the question with its facts."""

    other_answers: tuple[str, ...] = ()
    doubtful: str = ""
    """A fact that is wrong or no longer true, and what is so instead; empty for none."""
    unclear: str = ""
    """What can be understood in two ways, or would not be asked so; empty for nothing."""


class QuestionReader(Protocol):
    """A model that answers a question from memory, and that checks whether the question is sound."""

    async def answer(self, row: KgQuestion, sample: int) -> str | None:
        """Answer a question from memory. `sample` is the number of the draw. Returns None when the reply was cut: then
        it is no answer, right or wrong.
        """
        ...

    async def name(self, question: str) -> tuple[str, ...]:
        """Name everything in the world that fits a description, which is given as the sub-question that asks for an
        intermediate answer. Returns the names, none where the model knows nothing that fits.
        """
        ...

    async def check(self, row: KgQuestion) -> Objections:
        """Return the model's objections to the question, by what it knows of the world."""
        ...


async def judge_question(row: KgQuestion, reader: QuestionReader, config: KgQuestionFilterConfig) -> list[Verdict]:
    """Return the verdicts of all filters that need no model and then, while none rejects, of those that do.
    `same_facts`, which needs the accepted rows, is not among them.
    """
    verdicts = judge_unasked(row)
    if config.closed_book_samples and all(verdict.keep for verdict in verdicts):
        verdicts += await judge_by_memory(row, reader, config)
    if config.name_described and all(verdict.keep for verdict in verdicts):
        described = descriptions_in(row)
        named = [(await reader.name(asked), node) for asked, node in described]
        verdicts += judge_descriptions(named) if named else []
    if config.check and all(verdict.keep for verdict in verdicts):
        verdicts += judge_by_check(row, await reader.check(row))
    return verdicts


def names_of(row: KgQuestion, config: KgQuestionFilterConfig) -> list[str]:
    """Return the names of the model-based filters that judged a row, as its scores tell, in their order."""
    passed = {score.name: score.passed for score in row.filters}
    names: list[str] = []
    kept = all(passed.get(name, True) for name in passed if name not in ASKED)
    if config.closed_book_samples and kept:
        names.append("right_from_memory")
        kept = passed.get("right_from_memory", False)
        if config.agreeing_draws and kept:
            names.append("agreed_otherwise")
            kept = passed.get("agreed_otherwise", False)
    if config.name_described and kept and descriptions_in(row):
        names += NAMED
        kept = all(passed.get(name, False) for name in NAMED)
    return [*names, *_CHECKED] if config.check and kept else names


def judge_unasked(row: KgQuestion) -> list[Verdict]:
    """Return the verdicts of all filters that need no model."""
    return [
        malformed_question(row),
        not_unique(row),
        shortcut(row),
        answer_named(row),
        bridge_named(row),
        start_missing(row),
        ungrounded_name(row),
    ]


def malformed_question(row: KgQuestion) -> Verdict:
    """Reject a text that is not a single question, or whose sub-questions refer to each other otherwise than the facts
    do. Score: the number of broken rules.
    """
    return count_faults("malformed_question", list(_problems(row)), str)


def not_unique(row: KgQuestion) -> Verdict:
    """Reject a question that several entities of the graph answer, or on whose way several entities fit. Score: the
    largest number of entities that fit.
    """
    several = [node for node in row.chain.found if node.matches != 1]
    detail = f"{several[0].matches} entities may be {several[0].label!r}" if several else ""
    score = float(max(node.matches for node in row.chain.found))
    return Verdict(keep=not several, reason="not_unique", score=score, detail=detail)


def shortcut(row: KgQuestion) -> Verdict:
    """Reject a question that can be answered without one of its facts. Score: the smallest number of entities left when
    one fact is left out, as far as they were counted.
    """
    spare = [fact for fact in row.chain.facts if fact.left_without < 2]
    detail = f"the answer is clear without {spare[0].triple.text!r}" if spare else ""
    return Verdict(keep=not spare, reason="shortcut", score=float(row.fewest_left), detail=detail)


def answer_named(row: KgQuestion) -> Verdict:
    """Reject a question that gives its answer away, or a sub-question of which gives its own away. Score: how many of
    these texts, with earlier answers filled in, name what they ask for.

    What a sub-question refers to is known when it is asked: a search for the father of Alexandre Dumas has the name.
    """
    found = row.chain.found
    asked: list[tuple[tuple[str, ...], KgNode]] = [((row.question,), row.chain.answer)]
    for place, (hop, node) in enumerate(zip(row.decomposition, found, strict=False)):
        asked.append(((hop.question, *(earlier.label for earlier in found[:place])), node))
    named = ([(name, text) for text in texts for name in names_in(text, node)] for texts, node in asked)
    leaks = [each[0] for each in named if each]
    return count_faults("answer_named", leaks, lambda leak: "{!r} stands in {!r}".format(*leak))


def bridge_named(row: KgQuestion) -> Verdict:
    """Reject a question that names an intermediate answer. Score: the share of intermediate answers that it names; 0
    when there are none.
    """
    named = [names[0] for bridge in row.chain.bridges if (names := names_in(row.question, bridge))]
    detail = f"it names {named[0]!r}, which has to be found" if named else ""
    score = len(named) / len(row.chain.bridges) if named else 0.0
    return Verdict(keep=not named, reason="bridge_named", score=round(score, 6), detail=detail)


def start_missing(row: KgQuestion) -> Verdict:
    """Reject a question that does not name an entity from which the search has to start: then nothing can be searched
    for, and more entities are answers. Score: the share of these entities that the question names.
    """
    missing = [start.label for start in row.chain.starts if not names_in(row.question, start)]
    detail = f"{missing[0]!r} is not named" if missing else ""
    score = 1 - len(missing) / len(row.chain.starts)
    return Verdict(keep=not missing, reason="start_missing", score=round(score, 6), detail=detail)


def ungrounded_name(row: KgQuestion) -> Verdict:
    """Reject a question with names or numbers that the facts do not have: a model added what no graph confirms.

    Score: how many capitalised words and numbers, the first word aside, neither facts nor kinds have; a "German state"
    is a state of Germany. Names of bridges and answer, and placeholders, have reasons of their own.
    """
    chain = row.chain
    nodes, triples = (*chain.starts, *chain.found), [fact.triple for fact in chain.facts]
    texts = [text for node in nodes for text in (node.id, node.label, *node.aliases, node.kind, node.role)]
    texts += [text for triple in triples for text in (triple.relation, triple.relation_label)]
    texts += [alias for fact in chain.facts for alias in fact.relation_aliases]
    known = {stem for text in texts for word in _WORD.findall(text) for stem in country_stems(word.casefold())} | {"s"}
    words = _WORD.findall(row.question)[1:]
    added = [w for w in words if (w[0].isupper() or w[0].isdigit()) and not country_stems(w.casefold()) & known]
    added = [w for w in added if not re.fullmatch(r"X\d+|ANSWER", w)]
    return count_faults("ungrounded_name", added, lambda word: f"{word!r} stands in no fact")


async def judge_by_memory(row: KgQuestion, reader: QuestionReader, config: KgQuestionFilterConfig) -> list[Verdict]:
    """Return the verdict `right_from_memory` and, where it keeps the row, `agreed_otherwise` (draws agree on another
    answer); the model answers from memory until both are decided.
    """
    answers: list[str] = []
    agreed: list[str] = []
    samples = config.closed_book_samples
    for sample in range(samples):
        answer = await reader.answer(row, sample)
        if answer is None:
            continue
        answers.append(answer)
        if is_right(answer, row):
            break
        agreed = _largest_agreement(answers)
        if 0 < config.agreeing_draws <= len(agreed):
            break
    verdict = right_from_memory(row, answers, samples)
    if not verdict.keep or not config.agreeing_draws:
        return [verdict]
    return [verdict, agreed_otherwise(agreed, len(answers), config.agreeing_draws)]


def right_from_memory(row: KgQuestion, answers: Sequence[str], samples: int) -> Verdict:
    """Reject a question that a model answers correctly from memory in any draw: it would not need a search. Score: the
    best draw's word F1.

    `answers` are the draws that were not cut, in order, of at most `samples`; drawing ends with a right one. A cut draw
    is neither right nor wrong; when all were cut, nothing is known, and the question is rejected.
    """
    if not answers:
        return Verdict(
            keep=False, reason="right_from_memory", score=0.0, detail=f"no verdict: all {samples} draws were cut"
        )
    is_known = is_right(answers[-1], row)  # no draw follows a right one
    detail = f"draw {len(answers)} of {samples} knows it, as {answers[-1]!r}" if is_known else ""
    score = max(f1(answer, row.golds) for answer in answers)
    return Verdict(keep=not is_known, reason="right_from_memory", score=round(score, 6), detail=detail)


def agreed_otherwise(agreed: Sequence[str], draws: int, least: int) -> Verdict:
    """Reject a question on which `least` or more draws from memory agree on another answer than the gold one: the graph
    may lack it, or be wrong. `agreed` are the largest group of such answers, out of `draws`. Score: their number.
    """
    keep = len(agreed) < least
    detail = "" if keep else f"{len(agreed)} of {draws} draws say {agreed[0]!r}"
    return Verdict(keep=keep, reason="agreed_otherwise", score=float(len(agreed)), detail=detail)


def judge_by_check(row: KgQuestion, found: Objections) -> list[Verdict]:
    """Return the verdicts that follow from a model's objections: `ambiguous_question` (scored by the number of other
    answers it named), `doubtful_fact` and `unclear_question` (each scored 1 for an objection, else 0).
    """
    others = [
        name for name in found.other_answers if normalize_answer(name) not in _NOTHING and not is_abstention(name)
    ]
    others = [name for name in others if not is_right(name, row)]
    doubtful, unclear = (
        [text] if normalize_answer(text) not in _NOTHING else [] for text in (found.doubtful, found.unclear)
    )
    return [
        count_faults("ambiguous_question", others, lambda _: f"also {', '.join(map(repr, others))}"),
        count_faults("doubtful_fact", doubtful, str),
        count_faults("unclear_question", unclear, str),
    ]


def _largest_agreement(answers: Sequence[str]) -> list[str]:
    """The most answers that say the same; abstentions agree on nothing."""
    groups: list[list[str]] = []
    for answer in answers:
        if is_abstention(answer) or not normalize_answer(answer):
            continue
        group = next((group for group in groups if same_answer(answer, group[0])), None)
        if group is None:
            groups.append([answer])
        else:
            group.append(answer)
    return max(groups, key=len, default=[])


@dataclass(slots=True)
class AcceptedQuestions:
    """The questions accepted so far, indexed by their words and by their facts."""

    by_words: dict[str, str] = field(default_factory=dict)
    by_fact: defaultdict[tuple[str, str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: KgQuestion) -> None:
        """Add an accepted question, so that later ones are compared with it."""
        self.by_words.setdefault(normalize_answer(row.question), row.uid)
        for fact in _facts(row):
            self.by_fact[fact].append(row.uid)


def same_facts(row: KgQuestion, asked: AcceptedQuestions) -> Verdict:
    """Reject a question that asks the same as an accepted one, in the same words or by the same facts. Score: the
    largest share of its facts that one accepted question has; 1 or the same words reject.
    """
    same = asked.by_words.get(normalize_answer(row.question))
    facts = _facts(row)
    shared = Counter(uid for fact in facts for uid in asked.by_fact.get(fact, ()))
    nearest, count = min(shared.items(), key=lambda each: (-each[1], each[0]), default=("", 0))
    score = 1.0 if same else count / len(facts)
    twin = same or (nearest if score == 1 else None)
    detail = f"{twin} asks it too" if twin else ""
    return Verdict(keep=twin is None, reason="same_facts", score=round(score, 6), detail=detail)


def is_right(answer: str, row: KgQuestion) -> bool:
    """Tell whether an answer says the gold answer, or an alias, or all but its kind (`Arctic` for an ocean). It may say
    more besides: a question whose answer a model may know is of no use.
    """
    golds, kind = row.golds, row.chain.answer.kind
    if mcts_reward(answer, golds) or cover_exact_match(answer, golds, word_boundary=True):
        return True
    return any(exact_match(text, golds) for text in (f"{answer} {kind}", f"{kind} {answer}"))


def names_in(text: str, node: KgNode) -> list[str]:
    """Return those names of an entity, its label and aliases, that occur in a text."""
    return [name for name in (node.label, *node.aliases) if is_named(text, name)]


def is_named(text: str, name: str) -> bool:
    """Tell whether a name occurs in a text."""
    if len(normalize_answer(name)) < _SHORT:
        return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
    return mentions(text, name)


def _problems(row: KgQuestion) -> Iterator[str]:
    question = row.question
    own = question
    for start in row.chain.starts:
        own = own.replace(start.label, "")  # a film may be called X2, or end with a question mark itself
    if not question.endswith("?") or question.endswith("??") or own.count("?") > 1:
        yield "it does not end with its one question mark"
    if not _FEWEST_WORDS <= len(question.split()) <= _MOST_WORDS:
        yield f"{len(question.split())} words"
    if left := _LEFT_OVER.search(own):
        yield f"{left[0]!r} is left over"
    yield from (f"the id {key} stands in it" for key in _ids(row) if re.search(rf"\b{re.escape(key)}\b", own))
    if len(row.decomposition) != len(row.chain.found):
        yield f"{len(row.decomposition)} sub-questions for {len(row.chain.found)} findings"
        return
    for hop, node in zip(row.decomposition, row.chain.found, strict=True):
        used = tuple(sorted({int(number) for number in re.findall(r"#(\d{1,9})", hop.question)}))
        if used != row.chain.needed_for(node):
            yield f"{hop.question!r} refers to {used or 'nothing'}, not to {row.chain.needed_for(node) or 'nothing'}"
        if not hop.question.endswith("?"):
            yield f"{hop.question!r} is no question"


def _ids(row: KgQuestion) -> Iterator[str]:
    """Ids that are not names as well, as they are in some graphs."""
    for node in (*row.chain.starts, *row.chain.found):
        if node.id not in (node.label, *node.aliases):
            yield node.id
    for fact in row.chain.facts:
        if fact.triple.relation not in (fact.triple.relation_label, *fact.relation_aliases):
            yield fact.triple.relation


def _facts(row: KgQuestion) -> list[tuple[str, str, str]]:
    return [(fact.triple.head, fact.triple.relation, fact.triple.tail) for fact in row.chain.facts]
