"""Why a question made of a knowledge graph is rejected: first for what costs nothing to see, then for what it costs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from trailforge.filters.base import count_faults, reject_known
from trailforge.rewards import cover_exact_match, exact_match, f1, mentions, normalize_answer
from trailforge.schemas import KgNode, KgQuestion, Verdict

_FEWEST_WORDS, _MOST_WORDS = 4, 80
_LEFT_OVER = re.compile(r"#\d|\bX\d\b|\bANSWER\b|[{}|]|\[\w+\]")
_WORD = re.compile(r"[^\W_]+")
_SHORT = 4
"""Letters: a shorter name counts only as it is written, or `US` would stand in "of us"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgQuestionFilterConfig:
    """What is asked of a question."""

    closed_book_samples: int = 4
    """Draws from memory; one right answer rejects. 0: nothing is asked."""


class MemoryReader(Protocol):
    """Answers a question from what a model knows."""

    async def answer(self, row: KgQuestion, sample: int) -> str | None:
        """`sample`: number of the draw. None when the reply was cut: it is no answer, right or wrong."""
        ...


async def judge_question(row: KgQuestion, reader: MemoryReader, config: KgQuestionFilterConfig) -> list[Verdict]:
    """Verdicts of all filters that ask no model, and that of `closed_book` when they keep the row.

    `duplicate_question` is for those who know the accepted rows.
    """
    verdicts = judge_unasked(row)
    if all(verdict.keep for verdict in verdicts) and config.closed_book_samples:
        verdicts.append(await closed_book(row, reader, samples=config.closed_book_samples))
    return verdicts


def judge_unasked(row: KgQuestion) -> list[Verdict]:
    """Verdicts of all filters that ask no model."""
    return [
        malformed(row),
        not_unique(row),
        shortcut(row),
        answer_in_question(row),
        bridge_named(row),
        start_missing(row),
        ungrounded_name(row),
    ]


def malformed(row: KgQuestion) -> Verdict:
    """It is no single question, or its sub-questions' references do not follow the facts. Score: broken rules."""
    return count_faults("malformed", list(_problems(row)), str)


def not_unique(row: KgQuestion) -> Verdict:
    """More than one entity of the graph answers it, or a bridge may be several.

    Score: the most entities that fit what leads to the answer, or to a bridge.
    """
    several = [node for node in row.chain.found if node.matches != 1]
    detail = f"{several[0].matches} entities may be {several[0].label!r}" if several else ""
    score = float(max(node.matches for node in row.chain.found))
    return Verdict(keep=not several, reason="not_unique", score=score, detail=detail)


def shortcut(row: KgQuestion) -> Verdict:
    """Fewer of its facts answer it as well.

    Score: the fewest entities that are left when one fact is left out, as far as they were counted.
    """
    spare = [fact for fact in row.chain.facts if fact.left_without < 2]
    detail = f"the answer is clear without {spare[0].triple.text!r}" if spare else ""
    return Verdict(keep=not spare, reason="shortcut", score=float(row.fewest_left), detail=detail)


def answer_in_question(row: KgQuestion) -> Verdict:
    """It gives its answer away, or a sub-question its own.

    Score: how many of the question and its sub-questions, with what is found before, name what they ask for. What a
    sub-question refers to is known when it is asked: who looks for the father of Alexandre Dumas has his name.
    """
    found = row.chain.found
    asked: list[tuple[tuple[str, ...], KgNode]] = [((row.question,), row.chain.answer)]
    for place, (hop, node) in enumerate(zip(row.decomposition, found, strict=False)):
        asked.append(((hop.question, *(earlier.label for earlier in found[:place])), node))
    named = ([(name, text) for text in texts for name in names_in(text, node)] for texts, node in asked)
    leaks = [each[0] for each in named if each]
    return count_faults("answer_in_question", leaks, lambda leak: "{!r} stands in {!r}".format(*leak))


def bridge_named(row: KgQuestion) -> Verdict:
    """It names what has to be found on the way. Score: share of the bridges that it names; 0 without bridges."""
    named = [names[0] for bridge in row.chain.bridges if (names := names_in(row.question, bridge))]
    detail = f"it names {named[0]!r}, which has to be found" if named else ""
    score = len(named) / len(row.chain.bridges) if named else 0.0
    return Verdict(keep=not named, reason="bridge_named", score=round(score, 6), detail=detail)


def start_missing(row: KgQuestion) -> Verdict:
    """It leaves out a start: then nothing can be searched for, and more entities are answers.

    Score: share of the starts that have a name in the question.
    """
    missing = [start.label for start in row.chain.starts if not names_in(row.question, start)]
    detail = f"{missing[0]!r} is not named" if missing else ""
    score = 1 - len(missing) / len(row.chain.starts)
    return Verdict(keep=not missing, reason="start_missing", score=round(score, 6), detail=detail)


def ungrounded_name(row: KgQuestion) -> Verdict:
    """It has names or numbers that the facts do not have: a model added what no graph has borne out.

    Score: how many capitalised words and numbers, the first word aside, neither facts nor kinds have. Names of bridges
    and answer, and placeholders, have reasons of their own.
    """
    chain = row.chain
    nodes, triples = (*chain.starts, *chain.found), [fact.triple for fact in chain.facts]
    texts = [text for node in nodes for text in (node.id, node.label, *node.aliases, node.kind, node.role)]
    texts += [text for triple in triples for text in (triple.relation, triple.relation_label)]
    texts += [alias for fact in chain.facts for alias in fact.relation_aliases]
    known = {word.casefold() for text in texts for word in _WORD.findall(text)} | {"s"}
    words = _WORD.findall(row.question)[1:]
    added = [w for w in words if (w[0].isupper() or w[0].isdigit()) and w.casefold() not in known]
    added = [w for w in added if not re.fullmatch(r"X\d+|ANSWER", w)]
    return count_faults("ungrounded_name", added, lambda word: f"{word!r} stands in no fact")


async def closed_book(row: KgQuestion, reader: MemoryReader, *, samples: int) -> Verdict:
    """The model answers from memory: the question would not need a search.

    Score: how near the best of so many draws comes, by F1 of the words; any right one rejects.
    """
    return await reject_known(
        lambda sample: reader.answer(row, sample),
        samples,
        is_right=lambda answer: is_right(answer, row),
        closeness=lambda answer: f1(answer, row.as_question.golds),
    )


@dataclass(slots=True)
class AcceptedQuestions:
    """The accepted questions so far, by words and by facts."""

    by_words: dict[str, str] = field(default_factory=dict)
    by_fact: defaultdict[tuple[str, str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: KgQuestion) -> None:
        """Take in an accepted question."""
        self.by_words.setdefault(normalize_answer(row.question), row.uid)
        for fact in _facts(row):
            self.by_fact[fact].append(row.uid)


def duplicate_question(row: KgQuestion, asked: AcceptedQuestions) -> Verdict:
    """It asks what an accepted one asks already: in the same words, or by facts that it has too.

    Score: the largest share of its facts that one accepted question has; all of them, or the same words, reject.
    """
    same = asked.by_words.get(normalize_answer(row.question))
    facts = _facts(row)
    shared = Counter(uid for fact in facts for uid in asked.by_fact.get(fact, ()))
    nearest, count = min(shared.items(), key=lambda each: (-each[1], each[0]), default=("", 0))
    score = 1.0 if same else count / len(facts)
    twin = same or (nearest if score == 1 else None)
    detail = f"{twin} asks it too" if twin else ""
    return Verdict(keep=twin is None, reason="duplicate_question", score=round(score, 6), detail=detail)


def is_right(answer: str, row: KgQuestion) -> bool:
    """Does it say the whole answer, or an alias (cover-EM), or all but the kind that was asked for: `Arctic` ocean?"""
    golds, kind = row.as_question.golds, row.chain.answer.kind
    if cover_exact_match(answer, golds, word_boundary=True):
        return True
    return any(exact_match(text, golds) for text in (f"{answer} {kind}", f"{kind} {answer}"))


def names_in(text: str, node: KgNode) -> list[str]:
    """The names of an entity that a text has."""
    return [name for name in (node.label, *node.aliases) if _is_named(text, name)]


def _is_named(text: str, name: str) -> bool:
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
