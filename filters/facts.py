"""Find the facts that an answer rests on, and tell whether a text that was read states one plainly: its subject,
relation and answer.

The words of an answer occur in most passages about its subject, so that words alone cannot tell reading from guessing:
"born Gustav Gründgens, was artistic director of theatres in Düsseldorf" does not say where he was born. Where a
sentence consists of subject, relation and answer in one of a few plain forms, no model has to be asked. All others are
read by a model: that costs a call, but a wrong "stated" would let a guess through.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trailforge.filters.answers import content_stems
from trailforge.filters.grounding import CHOICE
from trailforge.mcts import ask_relation, gold_plan, references, resolve
from trailforge.retrieval import COMMON_WORDS, split_sentences
from trailforge.rewards import is_never_quoted, mentions, normalize_answer, other_names, same_answer
from trailforge.rewards.reading import name_key, nations
from trailforge.schemas import Hop, KgTriple, Passage

_FORMS = [
    frozenset(word.replace("_", " ") for word in line.split())
    for line in (
        "born birth birthplace native",
        "die died dies death deceased",
        "buried burial interred entombed grave",
        "spouse wife husband married marry marries wed",
        "directed director directs",
        "wrote written writer author authored",
        "composed composer",
        "performed performer sang sung singer",
        "produced producer",
        "founded founder established inception formed",
        "released release publication published premiered premiere come_out came_out",
        "citizen citizenship nationality",
        "educated studied graduated alma education",
        "situated located location lies",
        "employer employed worked works",
        "owned owner owns",
        "starring starred stars cast",
    )
]
"""Forms in which questions, passages and graphs name one relation."""
_ASKING = content_stems("who whom whose what which where when why how did do does name please place date year")
_KIND_ASKED = re.compile(r"\b(which|what)\s+(?!(?:is|was|are|were|did|does|do|has|had)\b)(\w+)", re.IGNORECASE)
"""What is asked for, as "which city" says it: no word of the relation."""
_TIMES = frozenset("year date day month decade century".split())
_PARTICLES = frozenset("of the and in on a an for to at de la le du des del di da van von der den al el".split())
"""Small words within names."""
_WORD = re.compile(r"[^\W_]+(?:[.'’&-][^\W_]+)*\.?")
_TOLD_OTHERWISE = re.compile(
    r"\b(?:not?|never|nor|neither|none|without|cannot|(?-i:may)|might|could|would|should|must|if|whether|but|though|although"
    r"|however|or|unless|instead|rather|than|almost|nearly|sa(?:y|ys|id|ying)|claim\w*|alleg\w*|believ\w*|thought|assum\w*"
    r"|suppos\w*|presum\w*|perhaps|maybe|possibl\w*|probabl\w*|likely|report(?:s|ed|edly)|rumou?r\w*|according|legend\w*"
    r"|tradition\w*|fiction\w*|suggest\w*|argu\w*|disput\w*|uncertain|unclear|unknown|apparent\w*|purport\w*|mistak\w*|false\w*"
    r"|wrong\w*|den(?:y|ies|ied|ying)|plan(?:s|ned)|intend\w*)\b|n['’]t\b|\?",
    re.IGNORECASE,
)
"""A sentence with one of these denies, doubts or asks, or has it from somebody."""
_IS, _BEEN = r"(?:is|was|are|were)", r"(?:(?:is|was|are|were|has been|have been|had been)\s+)?"
_SMALL = "of|in|on|at|by|for|with|from|to|as|about|after|before|and|or|who|whom|whose|which|that|where|when|his|her|its"
_KIND_OF_THING = rf"(?:{_IS}\s+(?:an?|the)\s+(?:(?!(?:{_SMALL})\b)[\w-]+\s+){{0,8}}?)?"
""""is a 1927 German silent film" before "directed by": no clause begins there, and nobody else is named by one."""
_MONTHS = "(?:jan|febr|mar|apr|may|jun|jul|aug|sept|oct|nov|dec)\\w*"
_DAY = rf"(?:\d{{1,2}}\s+)?(?:{_MONTHS}\s+)?(?:\d{{1,2}},\s+)?"
_CAPITALS = r"(?-i:[A-Z])[\w'’-]*(?:,?\s+(?-i:[A-Z])[\w'’-]*)*"
_THERE = rf"(?:on\s+{_DAY}\d{{4}},?\s+)?(?:in|at|on)\s+(?:the\s+)?"
_THEN = rf"(?:(?:in|at)\s+{_CAPITALS},?\s+)?(?:in|on)\s+{_DAY}"
_TITLED = rf"{_CAPITALS}\s*,?\s*\(\s*"
"""The name that an article begins with, in full, and the bracket behind it."""
_ENDS = r"(?![\w-])(?!['’]s?\b)(?!\s+(?-i:[A-Z\d]))"
"""No name goes on here, nor is something else of it meant."""
_MARRIED = "spouse"
Side = Literal["of", "with", "at"]
"""Which side of its relation a question asks for.

`of`: what stands in the relation to something ("Who directed X?"). `with`: what somebody does ("Which film did X
direct?"). `at`: where or when it was ("Where was X born?").
"""


@dataclass(frozen=True, slots=True)
class SoughtFact:
    """A fact that an agent had to look up: its question, its answer, and the facts it refers to."""

    question: str
    """The question that asks for the fact by itself: the answers that it rests on are filled in."""
    names: tuple[str, ...]
    """The answer, by each of its names."""
    given: tuple[str, ...] = ()
    """The answers of other facts that the question rests on."""


def answering_facts(question: str, names: Sequence[str], hops: Sequence[Hop]) -> tuple[SoughtFact, ...]:
    """Return the facts that the answer of a question rests on: every hop that is looked up, in order.

    `names`: the answer's names, for the last fact. Facts on the way to the answer count as much as the answer, since
    one that is recalled wrongly leads astray. For a comparison, the things that it compares count, and what they rest
    on, but not the comparison itself. Without hops the question is the one fact.
    """
    if not hops:
        return (SoughtFact(question, tuple(names)),)
    plan, answers = gold_plan(tuple(hops)).sub_questions, {n: hop.answer for n, hop in enumerate(hops, start=1)}
    last, is_drawn = len(hops), bool(compared_hops(hops))

    def fact(number: int) -> SoughtFact:
        asked, answer = plan[number - 1], answers[number]
        given = tuple(answers[each] for each in references(asked) if each in answers)
        called = tuple(names) if number == last else (answer, *other_names(answer))
        return SoughtFact(resolve(asked, answers), called, given)

    return tuple(fact(number) for number in answers if not (is_drawn and number == last))


def subjects_of(fact: SoughtFact) -> list[str]:
    """Return the subjects of a fact: the answers of earlier facts that it refers to, or else the names in its question,
    bare numbers aside.
    """
    named = [each for each in names_in(fact.question) if any(map(str.isalpha, each))]
    return [each for each in fact.given if each.strip()] or named


def compared_hops(hops: Sequence[Hop]) -> tuple[int, ...]:
    """Return the numbers (from 1) of the hops whose answers the last hop compares; empty where the last hop is looked
    up.
    """
    if not hops:
        return ()
    plan = gold_plan(tuple(hops)).sub_questions
    compared = [each for each in dict.fromkeys(references(plan[-1])) if each <= len(hops)]
    if not (is_never_quoted(hops[-1].answer) or CHOICE.search(plan[-1])):
        return ()
    used = {each for number in compared for each in references(plan[number - 1])}
    return tuple(number for number in compared if number not in used)


def unsettled_facts(
    question: str,
    names: Sequence[str],
    hops: Sequence[Hop],
    passages: Sequence[Passage],
    triples: Sequence[KgTriple] = (),
) -> tuple[SoughtFact, ...]:
    """Return the facts of `answering_facts` that no passage and no triple among those read states plainly
    (`is_plainly_stated`).

    A question without hops is one fact, which is always among them, since only a model can tell whether the texts
    answer it.
    """
    facts = answering_facts(question, names, hops)
    return tuple(fact for fact in facts if not hops or not is_plainly_stated(fact, passages, triples))


def is_plainly_stated(fact: SoughtFact, passages: Sequence[Passage], triples: Sequence[KgTriple] = ()) -> bool:
    """Tell whether a sentence or a triple consists of this fact alone: its subject, its relation and its answer.

    No sentence states yes or no plainly. "He" and "it" stand for the title, unless two titles are namesakes, or
    somebody else was named before.
    """
    names = [name for name in fact.names if name.strip()]
    if any(map(is_never_quoted, names)):
        return False
    if any(_is_triple_of(fact, names, triple) for triple in triples):
        return True
    return any(
        asked is not None and _states(asked, names, passage, passages)
        for passage in passages
        for asked in [_read_question(fact, passage.title)]
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that asks for one relation of one subject, and nothing besides."""

    subject: str
    words: tuple[str, ...]
    """By which the relation goes; empty where the kind of thing that is asked for says it all."""
    side: Side
    kind: str
    """That kind, where it is told."""
    is_when: bool
    """Is it a time that is asked for?"""


def _read_question(fact: SoughtFact, known: str) -> _Asked | None:
    """None for any other question: a second name, a number or a word more makes another one of it.

    `known`: the title of a text, or the head of a triple; where that stands in the question, it is the subject.
    """
    subjects = [each for each in fact.given if each.strip()] or [known]
    if not fact.given and (not known or known not in fact.question):
        subjects = names_in(fact.question)
    if len(subjects) != 1 or subjects[0] not in fact.question:
        return None
    before, after = fact.question.split(subjects[0], 1)
    if any(names_in(part) for part in (before, f"x {after}")):
        return None
    kind = _KIND_ASKED.search(before)
    parts = [_relation_words(part) for part in (_KIND_ASKED.sub(r"\1", before), after)]
    words = parts[0] or parts[1] or (["origin"] if re.fullmatch(r"\s*from\W*", after) else [])
    if all(parts) or not (words or kind):
        return None
    is_owner = after.lstrip().startswith(("'", "’"))
    side: Side = "at" if _asks_where(before) else "of" if parts[0] or is_owner else "with"
    told = kind[2].casefold() if kind else ""
    is_when = told in _TIMES or bool(re.match(r"when\b|.*\b(?:date|year) of\b", before, re.IGNORECASE))
    return _Asked(subjects[0], _relation_of(words, fact.question), side, told, is_when)


def _asks_where(before: str) -> bool:
    return bool(
        re.match(r"(?:where|when)\b|.*\b(?:in|on|at) (?:which|what)\b|.*\b(?:place|date|year) of\b", before, re.I)
    )


def _relation_of(words: Sequence[str], question: str) -> tuple[str, ...]:
    """All forms of a relation; one of several words goes by them as they stand."""
    if not words:
        return ()
    phrase = re.search(rf"\b{words[0]}\b(?:.*\b{words[-1]}\b)?", question.casefold())
    said = phrase[0] if phrase else words[0]
    return next((tuple(sorted(form)) for form in _FORMS if form.issuperset(words) or said in form), (said,))


def forms_of(relation: str) -> frozenset[str]:
    """Return the words of a relation, and those by which a question or a thought may name it: "born" for "place of
    birth".
    """
    words = _relation_words(relation)
    said = [form for form in _FORMS if not form.isdisjoint(words)]
    return frozenset(words).union(*said)


def names_in(question: str) -> list[str]:
    """Return the names and numbers in a question after its first word, together with small words inside a name."""
    names: list[str] = []
    tokens = list(_WORD.finditer(question))
    begins = [n > 0 and (token[0][0].isupper() or token[0][0].isdigit()) for n, token in enumerate(tokens)]
    at = 0
    while at < len(tokens):
        if not begins[at]:
            at += 1
            continue
        end = last = at
        while end + 1 < len(tokens) and (begins[end + 1] or tokens[end + 1][0] in _PARTICLES):
            end += 1
            last = end if begins[end] else last
        names.append(question[tokens[at].start() : tokens[last].end()].removesuffix("'s").removesuffix("’s"))
        at = last + 1
    return names


def names_asked(query: str) -> list[str]:
    """Return the names and numbers in a query, which, unlike a question, may begin with one."""
    begins = query.split(maxsplit=1)[:1]
    return names_in(query if {word.casefold() for word in begins} <= COMMON_WORDS else f"x {query}")


def _relation_words(text: str) -> list[str]:
    words = [word.casefold() for word in re.findall(r"[^\W_]+", text)]
    return [word for word in words if len(word) > 1 and (stems := content_stems(word)) and not stems <= _ASKING]


def _is_triple_of(fact: SoughtFact, names: Sequence[str], triple: KgTriple) -> bool:
    """Of its head: who is whose child is no matter of taste."""
    if not any(same_answer(triple.tail_label, name) for name in names):
        return False
    if normalize_answer(fact.question) == normalize_answer(ask_relation(triple.head_label, triple.relation_label)):
        return True
    asked = _read_question(fact, triple.head_label)
    if asked is None:
        return False
    label = content_stems(triple.relation_label)
    kind, known = content_stems(asked.kind), {stem for word in asked.words for stem in content_stems(word)}
    is_same = bool(kind & label) and not asked.words if label == kind else label - kind - _ASKING <= known != set()
    # "What is X the capital of?": only what is told to be of the kind that is asked for is at the tail.
    is_at_tail = asked.side != "with" or bool(kind & label)
    heads = {normalize_answer(each) for each in (triple.head_label, *other_names(triple.head_label))}
    return is_same and is_at_tail and normalize_answer(asked.subject) in heads


def _states(asked: _Asked, names: Sequence[str], passage: Passage, passages: Sequence[Passage]) -> bool:
    is_titled = _is_title(asked.subject, passage.title, {each.title for each in passages})
    is_first = True
    """Has nothing else been named yet, which "he" or "it" could mean?"""
    for sentence in split_sentences(passage.text) if asked.words else ():
        folded = _fold(sentence)
        bare, begins = re.sub(r"\s*\([^()]*\)", "", folded), is_titled and passage.text.startswith(sentence)
        for name in map(_fold, names):
            if not mentions(folded, name) or _TOLD_OTHERWISE.search(_without(folded, name, _fold(asked.subject))):
                continue
            if asked.side == "at" and _is_date(name) is not asked.is_when:
                continue
            forms = _plain_forms(asked, name, is_titled=is_titled, is_first=is_first)
            if any(re.match(form, bare, re.IGNORECASE) for form in forms):
                return True
            if begins and any(re.match(form, folded, re.IGNORECASE) for form in _lifespans(asked, name)):
                return True
        is_first = is_first and _names_nobody_else(_without(bare, _fold(asked.subject)))
    return False


def _without(text: str, *names: str) -> str:
    return re.sub("|".join(map(re.escape, names)), " ", text, flags=re.IGNORECASE)


def _names_nobody_else(rest: str) -> bool:
    """Of a sentence without its subject: does it say what that is or was, and name nothing but countries?"""
    capitals = (word for word in re.findall(r"[^\W\d_]+", rest) if word[0].isupper())
    return bool(re.match(rf"\s*{_IS}\b", rest)) and all(name_key(word) in nations() for word in capitals)


def _is_title(subject: str, title: str, titles: set[str]) -> bool:
    """Is a passage about the subject, and no other one about a namesake?"""

    def names(text: str) -> set[str]:
        return {normalize_answer(each) for each in (text, *other_names(text), re.sub(r"\s*\([^()]*\)$", "", text))}

    alike = [each for each in titles if not names(each).isdisjoint(names(subject))]
    return alike == [title]


def _plain_forms(asked: _Asked, answer: str, *, is_titled: bool, is_first: bool) -> Iterator[str]:
    """What a sentence that states the fact plainly begins with, as regular expressions."""
    subject, said = rf"(?:the\s+)?{re.escape(_fold(asked.subject))}", rf"{re.escape(answer)}{_ENDS}"
    short = re.escape(_fold(asked.subject).split()[-1]) if " " in asked.subject else ""
    is_meant = is_titled and is_first
    own = [subject, *([short] if short and is_titled else []), *(["he|she|it|they"] if is_meant else [])]
    who = rf"(?:{'|'.join(own)})"
    whose = rf"(?:{subject}['’]s?{'|his|her|its|their' if is_meant else ''})"
    relation = "|".join(re.escape(_fold(word)) for word in asked.words)
    every = "|".join(sorted({word for form in _FORMS for word in form}))
    does = rf"(?:(?:{every})\s+and\s+)?(?:{relation})(?:\s+and\s+(?:{every}))?"
    begins = rf"{who}\s+{_BEEN}{_KIND_OF_THING}{does}\s+"
    if asked.side == "with":
        yield rf"{begins}(?:(?:in|of|to|with|for|by)\s+)?(?:the\s+)?{said}"
        return
    if asked.side == "at":
        yield rf"{begins}{_THEN if _is_date(answer) else _THERE}{said}"
    else:
        yield rf"{begins}by\s+{said}"
        yield rf"{re.escape(answer)}\s+(?:{relation})\s+(?:the\s+(?:[a-z]+\s+){{0,2}})?{subject}{_ENDS}"
    if _MARRIED in asked.words:
        yield rf"{begins}(?:to\s+)?{said}"
    yield rf"{re.escape(answer)},?\s+(?:{_IS}\s+)?(?:the|an?)\s+(?:{relation})\s+of\s+{subject}{_ENDS}"
    yield rf"(?:the\s+)?(?:{relation})\s+of\s+{subject}\s+{_IS}\s+(?:the\s+)?{said}"
    yield rf"{whose}\s+(?:{relation}),?\s+(?:{_IS}\s+)?(?:the\s+)?{said}"


def _lifespans(asked: _Asked, answer: str) -> Iterator[str]:
    """What an article begins with: "Ann Lee (born 4 May 1890 in Graz)", "Ann Lee (4 May 1890 – 1950)"."""
    said, to = re.escape(answer), r"\s*[–—-]\s*"
    if asked.side != "at":
        return
    relation = "|".join(re.escape(_fold(word)) for word in asked.words)
    if not _is_date(answer):
        yield rf"{_TITLED}(?:{relation})\s+(?:(?:on\s+)?{_DAY}\d{{4}},?\s+)?(?:in\s+)?{said}{_ENDS}"
        return
    yield rf"{_TITLED}(?:{relation})\s+(?:on\s+)?{_DAY}{said}{_ENDS}"
    if "born" in asked.words:
        yield rf"{_TITLED}{_DAY}{said}{to}{_DAY}\d{{4}}\s*\)"
    if "died" in asked.words:
        yield rf"{_TITLED}{_DAY}\d{{4}}{to}{_DAY}{said}\s*\)"


def _is_date(answer: str) -> bool:
    return re.match(rf"(?:{_MONTHS}\s+)?\d", answer, re.IGNORECASE) is not None


def _fold(text: str) -> str:
    """Without accents, in the same case, with single blanks."""
    marks = unicodedata.normalize("NFKD", text)
    return " ".join("".join(mark for mark in marks if not unicodedata.combining(mark)).split())
