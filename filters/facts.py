"""The facts that an answer rests on, and whether what was read states one plainly: of whom, which relation, what.

A word of an answer stands in most passages about its subject, so that words cannot tell a reading from a guess: "born
Gustav Gründgens, was artistic director of theatres in Düsseldorf" does not say where he was born. Where a clause or a
triple names the subject, the relation and the answer together, nobody has to be asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trailforge.filters.answers import content_stems
from trailforge.filters.base import count_faults, is_never_quoted
from trailforge.filters.grounding import CHOICE
from trailforge.mcts.plan import gold_plan, references, resolve
from trailforge.retrieval.sentences import split_sentences
from trailforge.rewards import mentions, other_names, states
from trailforge.schemas import FactReading, Hop, KgTriple, Passage, Verdict

_FORMS = [
    frozenset(line.split())
    for line in (
        "born birth birthplace native",
        "die died dies death deceased",
        "buried burial interred entombed grave",
        "spouse wife husband married wed",
        "directed director directs",
        "wrote written writer author authored",
        "composed composer",
        "performed performer sang sung singer",
        "produced producer",
        "founded founder established inception formed",
        "released release publication published premiered premiere come came",
        "citizen citizenship nationality",
        "educated studied graduated alma education",
        "situated located location lies",
        "employer employed worked works",
        "owned owner owns",
        "starring starred stars cast",
    )
]
"""Forms in which questions, passages and graphs name one relation."""
_ASKING = content_stems("who whom whose what which where when why how did do does name please") | {
    "place",
    "date",
    "year",
}
_NAME = re.compile(r"\b[A-Z\d][\w'’.&-]*")
_WORD = re.compile(r"[^\W_]+")
_MOST_BETWEEN = 8
"""Words between a relation's word and the answer."""
_OTHER_CLAUSE = frozenset(
    "is was were are be been being has had have who which whose that while where when and but then he she it they "
    "not never nor".split()
)
"""Words between them that begin to say something else, or deny it."""
_COPULAS = frozenset("is was are were".split())
_DENIED = frozenset("not never n".split())


@dataclass(frozen=True, slots=True)
class SoughtFact:
    """Something that was to be looked up."""

    question: str
    """Asks for it by itself: the answers that it rests on are filled in."""
    names: tuple[str, ...]
    """The answer, by each of its names."""
    given: tuple[str, ...] = ()
    """Those answers."""


def answering_facts(question: str, names: Sequence[str], hops: Sequence[Hop]) -> tuple[SoughtFact, ...]:
    """What the answer of a question is read from, by these names: the last hop that is looked up.

    Of a comparison those are the ones that it compares. Without hops it is the question itself.
    """
    if not hops:
        return (SoughtFact(question, tuple(names)),)
    plan, answers = gold_plan(tuple(hops)).sub_questions, {n: hop.answer for n, hop in enumerate(hops, start=1)}

    def fact(number: int, names: Sequence[str]) -> SoughtFact:
        asked = plan[number - 1]
        given = tuple(answers[each] for each in references(asked) if each in answers)
        return SoughtFact(resolve(asked, answers), tuple(names), given)

    last, compared = len(hops), [each for each in references(plan[-1]) if each in answers]
    if not compared or not (is_never_quoted(hops[-1].answer) or CHOICE.search(plan[-1])):
        return (fact(last, names),)
    used = {each for number in compared for each in references(plan[number - 1])}
    ends = [number for number in dict.fromkeys(compared) if number not in used]
    return tuple(fact(number, (answers[number], *other_names(answers[number]))) for number in ends)


def unsettled_facts(
    question: str,
    names: Sequence[str],
    hops: Sequence[Hop],
    passages: Sequence[Passage],
    triples: Sequence[KgTriple] = (),
) -> tuple[SoughtFact, ...]:
    """Those of `answering_facts` that nothing which was read states plainly; a whole question always is one."""
    facts = answering_facts(question, names, hops)
    return tuple(fact for fact in facts if not hops or not is_plainly_stated(fact, passages, triples))


def count_unstated(readings: Sequence[FactReading]) -> Verdict:
    """`unstated_answer`: a fact that a model did not find when it was asked for it rejects. Score: how many."""
    unstated = [reading.question for reading in readings if not reading.answer]
    return count_faults("unstated_answer", unstated, lambda asked: f"{asked!r} is not stated by what it read")


def is_plainly_stated(fact: SoughtFact, passages: Sequence[Passage], triples: Sequence[KgTriple] = ()) -> bool:
    """Does a clause, or a triple, name what is asked about, in which relation, and the answer?"""
    relation = _relation_words(fact)
    return any(_is_triple_of(fact, triple, relation) for triple in triples) or any(
        _clause_states(fact, passage.title, sentence, relation)
        for passage in passages
        for sentence in split_sentences(passage.text)
    )


def _is_triple_of(fact: SoughtFact, triple: KgTriple, relation: Collection[str]) -> bool:
    if not _stems(triple.relation_label) & set(relation):
        return False
    ends = (triple.head_label, triple.tail_label), (triple.tail_label, triple.head_label)
    return any(
        mentions(fact.question, known) and any(mentions(said, name) or mentions(name, said) for name in fact.names)
        for known, said in ends
    )


def _clause_states(fact: SoughtFact, title: str, sentence: str, relation: Collection[str]) -> bool:
    if not any(states(sentence, name) for name in fact.names) or not _names_subject(fact, title, sentence):
        return False
    tokens = [(match.group(), match.start()) for match in _WORD.finditer(sentence)]
    for name in fact.names:
        first = next(iter(_WORD.findall(name)), "").casefold()
        places = [n for n, (word, _) in enumerate(tokens) if word.casefold() == first]
        for place, (word, _) in enumerate(tokens):
            if not _stems(word) & set(relation):
                continue
            before = {each.casefold() for each, _ in tokens[max(0, place - 3) : place]}
            if not before & _DENIED and any(_belong(tokens, place, end) for end in places):
                return True
    return False


def _belong(tokens: Sequence[tuple[str, int]], place: int, end: int) -> bool:
    """Do a relation's word and the answer stand in one clause, or the answer behind "the mayor of Graz is"?"""
    between = [each.casefold() for each, _ in tokens[min(place, end) + 1 : max(place, end)]]
    if between and place < end and between[-1] in _COPULAS:
        between.pop()
    return len(between) <= _MOST_BETWEEN and _OTHER_CLAUSE.isdisjoint(between)


def _names_subject(fact: SoughtFact, title: str, sentence: str) -> bool:
    subjects = fact.given or tuple(_NAME.findall(fact.question)[1:])
    named = f"{title}. {sentence}"
    return bool(subjects) and all(mentions(named, subject) for subject in subjects)


def _relation_words(fact: SoughtFact) -> set[str]:
    """The stems of the words that ask for it, but for names, and of their other forms."""
    text = fact.question
    for known in fact.given:
        text = text.replace(known, " ")
    words = {word for word in _WORD.findall(text) if word == word.lower()}
    return {stem for word in words for stem in _stems(word)} - _ASKING


def _stems(text: str) -> set[str]:
    """Those of its words, and of all words of the same form."""
    words = {word.casefold() for word in _WORD.findall(text)}
    alike = {each for form in _FORMS if form & words for each in form}
    return content_stems(" ".join(words | alike))
