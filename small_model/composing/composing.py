"""Turn plain clauses into one-fact questions and descriptions of a name, and these into a question with two hops.

`GAP` is the placeholder for the name that two documents share. A question has it once; with a description from the
other document in its place, the question needs both documents. Possible answers are the dates, figures or names of the
sentences nearest to it: the reader must choose among these, so it guesses as well as possible when a document is
missing, and questions that can be guessed are detected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from trailforge.retrieval.english import PARTICIPLES, PREPOSITIONS, inverted, is_finite
from trailforge.small_model.composing.clauses import Clause
from trailforge.small_model.composing.mentions import (
    PERSON,
    Mention,
    MentionKind,
    is_person_noun,
    looks_like_person,
    mentions_of,
    noun_before,
)

GAP = "ꙮ"
_TIME = re.compile(
    r"(?:^| )(?P<word>on|in|since|until) (?:(?:about|late|early) )?(?P<when>{})(?! (?:to|and|or)\b)(?=$| )"
)
_ABOUT = r"(?:about |some |nearly |almost |around |roughly |approximately |more than |over )?"
_COUNTED = re.compile(
    r"(?:(?!(?:{stop})\b)[a-z-]+)(?: (?!(?:{stop})\b)[a-z-]+){{0,2}}(?: of (?!(?:{stop})\b)[a-z-]+)?".format(
        stop="|".join(
            [*PREPOSITIONS, "and", "or", "that", "which", "who", "per", "a", "an", "the", *sorted(PARTICIPLES)]
        )
    )
)
_EXTENT = re.compile(r"(?:long|wide|high|deep|tall|across|apart|thick|old)\b")
_NOT_EXACT = re.compile(r"(?:less than|at most|at least|up to|fewer than|between|to|and|or|by|minus|times) $")
_ADVERBIAL = re.compile(
    r"(?:^| )(?:in|on|at|near|from|by|with|during|before|after|since|until)"
    rf"(?: (?!(?:{'|'.join(PREPOSITIONS)}) )[\w-]+){{0,3}} $"
)
_BEFORE_PERSON = frozenset(["", "by", "after", "against", *PARTICIPLES])


@dataclass(frozen=True, slots=True)
class GapQuestion:
    """A question with the placeholder `GAP` for a name, and its answer."""

    question: str
    answer: str

    def about(self, thing: str) -> str:
        """Return the question with these words in place of the placeholder."""
        return _capital(self.question.replace(GAP, thing))


def questions_of(clause: Clause, noun_of_names: dict[str, str]) -> Iterator[GapQuestion]:
    """Yield one-fact questions from a clause that contains `GAP`. `noun_of_names` says what names are, as far as it is
    known.
    """
    if not _has_place_for_one(clause):
        return
    yield from _when(clause)
    yield from _how_many(clause)
    yield from _who_did(clause, noun_of_names)
    yield from _which(clause, noun_of_names)
    yield from _where(clause, noun_of_names)


def descriptions_of(clause: Clause, noun: str) -> Iterator[str]:
    """Yield descriptions of `GAP` made from a clause about it: `the NOUN that …`."""
    who, whom = ("who", "whom") if is_person_noun(noun) else ("that", "which")
    if not _has_place_for_one(clause):
        return
    when = f" {_small(clause.lead)}" if clause.lead else ""
    if clause.subject == GAP:
        yield f"the {noun} {who} {clause.verb} {clause.rest}{when}"
    elif clause.subject.endswith(f" of {GAP}"):
        head = clause.subject.removesuffix(f" of {GAP}")
        link = f"whose {head[4:]}" if head.startswith("the ") else f"of {whom} {head}"
        yield f"the {noun} {link} {clause.verb} {clause.rest}{when}"
    elif GAP in clause.rest:
        before, _, after = (part.strip() for part in clause.rest.partition(GAP))
        *words, last = before.split() or [""]
        link = f"{last} {whom}" if last in PREPOSITIONS else "that" if who == "that" else "whom"
        kept = " ".join(words) if last in PREPOSITIONS else before
        parts = (clause.subject, clause.verb, kept, after)
        if after.startswith("of "):
            return
        yield f"the {noun} {link} {' '.join(part for part in parts if part)}{when}"


# Kinds of questions


def _when(clause: Clause) -> Iterator[GapQuestion]:
    lead = re.fullmatch(r"(?P<word>On|In|Since) (?P<when>.+)", clause.lead)
    if lead and any(m.text == lead["when"] and m.kind in ("date", "year") for m in mentions_of(lead["when"])):
        yield GapQuestion(_asked(_wh(lead["word"].lower(), lead["when"]), clause, clause.rest), lead["when"])
    if clause.lead:
        return
    for mention in _mentions(clause.rest, "date", "year"):
        for match in re.finditer(_TIME.pattern.format(re.escape(mention.text)), clause.rest):
            rest = f"{clause.rest[: match.start()]}{clause.rest[match.end() :]}".strip()
            yield GapQuestion(_asked(_wh(match["word"], mention.text), clause, rest), mention.text)


def _wh(word: str, when: str) -> str:
    is_year = bool(re.fullmatch(r"\d{4}", when))
    start = {"on": "", "in": "In", "since": "Since", "until": "Until"}[word]
    return f"{start} which year" if is_year and start else f"{start} when" if start in ("Since", "Until") else "When"


def _how_many(clause: Clause) -> Iterator[GapQuestion]:
    subject = re.match(rf"(?i:{_ABOUT})", clause.subject)
    start = subject.end() if subject else 0
    for mention in _mentions(clause.subject, "figure"):
        if mention.start == start and GAP in clause.rest:
            rest = clause.subject[mention.end :].strip()
            yield GapQuestion(
                f"How many {rest} {clause.verb} {without_names(clause.rest)}{_end(clause)}?", mention.text
            )
    if GAP not in clause.subject:
        return
    for mention in _mentions(clause.rest, "figure"):
        before = re.sub(rf"{_ABOUT}$", "", clause.rest[: mention.start])
        counted = _COUNTED.match(clause.rest, mention.end + 1)
        if counted is None or _NOT_EXACT.search(clause.rest[: mention.start]) or not _is_light(before):
            continue
        after = re.split(r"\b(?:that|which|who)\b", clause.rest[counted.end() :])[0].strip()
        if clause.verb in ("is", "are", "was", "were") and not before:
            extent = _EXTENT.match(clause.rest, mention.end + 1 + len(counted[0].split()[0]) + 1)
            if extent is None:
                continue
        yield GapQuestion(_asked(f"How many {counted[0]}", clause, f"{before} {after}".strip()), mention.text)


def _is_light(before: str) -> bool:
    """At most a participle and a preposition stand between the verb and the figure."""
    words = before.split()
    return len(words) <= 2 and all(word in PARTICIPLES or word in PREPOSITIONS for word in words)


def _who_did(clause: Clause, nouns: dict[str, str]) -> Iterator[GapQuestion]:
    if GAP not in clause.rest:
        return
    for mention in _mentions(clause.subject, "name"):
        if mention.end == len(clause.subject) and _phrase_start(clause.subject, mention) == 0:
            noun = _noun(clause.subject, mention, nouns)
            wh = "Who" if noun and is_person_noun(noun) else f"Which {noun}" if noun else None
            if wh:
                yield GapQuestion(f"{wh} {clause.verb} {without_names(clause.rest)}{_end(clause)}?", mention.text)


def _which(clause: Clause, nouns: dict[str, str]) -> Iterator[GapQuestion]:
    """Objects, and names after prepositions, of which the noun is known: `At which asteroid did …`, `By whom was …`."""
    for mention in _mentions(clause.rest, "name"):
        start = _phrase_start(clause.rest, mention)
        *words, last = clause.rest[:start].split() or [""]
        noun = _noun(clause.rest, mention, nouns, may_be_person=last in _BEFORE_PERSON)
        if not noun or not _ends_phrase(clause.rest[mention.end :]):
            continue
        preposition = last if last in PREPOSITIONS else ""
        if (last and not preposition and last not in PARTICIPLES) or preposition in ("of", "as", "from", "to"):
            continue
        person = is_person_noun(noun)
        wh = f"{preposition} whom" if person and preposition else "Whom" if person else f"{preposition} which {noun}"
        kept = words if preposition else [*words, last]
        rest = f"{' '.join(kept)} {clause.rest[mention.end :].strip()}".strip()
        yield GapQuestion(_asked(_capital(wh.strip()), clause, rest), mention.text)


def _where(clause: Clause, nouns: dict[str, str]) -> Iterator[GapQuestion]:
    for mention in _mentions(clause.rest, "name"):
        before = re.search(r"(?:^| )(?:in|at|near)(?: the)? $", clause.rest[: mention.start])
        if (
            before is None
            or _noun(clause.rest, mention, nouns, may_be_person=False)
            or (clause.verb in ("is", "are") and before.start() == 0)
        ):
            continue
        if re.search(r"(?:^|\W)[^\W\d_a-z][\w-]*$", clause.rest[: before.start()]):
            continue  # the wider of two places
        places = re.match(r"(?: in (?:the )?[^\W\d_a-z]\w+(?: [^\W\d_a-z]\w+)*)*", clause.rest[mention.end :])
        after = clause.rest[mention.end + (places.end() if places else 0) :]
        if _ends_phrase(after):
            rest = f"{clause.rest[: before.start()]} {after.strip()}".strip()
            yield GapQuestion(_asked("Where", clause, rest), mention.text)


# Parts


def _has_place_for_one(clause: Clause) -> bool:
    """Whether the gap is there once, and not the subject of a clause inside (`he predicts NAME wins`)."""
    after = re.search(rf"{GAP} (\w+)", clause.rest)
    return clause.text.count(GAP) == 1 and not (after and is_finite(after[1]))


def _asked(wh: str, clause: Clause, rest: str) -> str:
    auxiliary, base = inverted(clause.verb)
    rest = without_names(rest)
    end = "" if wh.endswith(("When", "year", "when")) and clause.lead else _end(clause)
    return f"{wh} {auxiliary} {' '.join(part for part in (clause.subject, base, rest) if part)}{end}?"


def _end(clause: Clause) -> str:
    return f" {_small(clause.lead)}" if clause.lead else ""


def without_names(rest: str) -> str:
    """Cut a text at the first adverbial that contains a name or a figure; a text without one is unchanged.

    Such an adverbial identifies the second document by itself and makes the first one needless. Prepositions that a
    verb may require (`heard of the prize`) are not cut off.
    """
    head, gap, tail = rest.partition(GAP) if GAP in rest else ("", "", rest)
    for mention in mentions_of(f". {tail}"):
        before = _ADVERBIAL.search(tail[: mention.start - 2])
        if before:
            return f"{head}{gap}{tail[: before.start()]}".strip()
    return rest


def _mentions(text: str, *kinds: str) -> list[Mention]:
    return [mention for mention in mentions_of(text) if mention.kind in kinds and GAP not in mention.text]


def _noun(text: str, mention: Mention, nouns: dict[str, str], *, may_be_person: bool = True) -> str | None:
    """What a name is: by the noun before it, by what is known, or a person by its looks."""
    noun = noun_before(text, mention.start) or nouns.get(mention.text)
    return noun or (PERSON if may_be_person and looks_like_person(mention.text) else None)


def _phrase_start(text: str, mention: Mention) -> int:
    """Where the noun phrase begins that ends with a name: at its article, if it has one."""
    match = re.search(r"(?:the|a|an) (?:[\w-]+ ){0,3}$", text[: mention.start])
    return match.start() if match and noun_before(text, mention.start) else mention.start


def _ends_phrase(after: str) -> bool:
    """Whether a name before this is not the first part of something else."""
    word = re.match(r" (\S+)", after)
    return not after or (after[0] == " " and word is not None and word[1] in PREPOSITIONS and word[1] != "of")


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _small(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


_ANSWERS: dict[str, tuple[MentionKind, ...]] = {
    r"How many ": ("figure",),
    r"(?:(?:In|Since|Until) (?:which|what) year|When|Since when|Until when) ": ("date", "day", "year"),
}
"""Start of a question -> kinds of mentions that answer it; all others are answered with names."""
_AFTER_HOW_MANY = re.compile(r"[a-z]{4,}")
"""Words near the start of `How many …` that a figure has after it when it answers."""
_WORD = re.compile(r"\w+")


def candidates(question: str, sentence: str, names: Collection[str]) -> list[str]:
    """Return the possible answers in a sentence, in reading order, without what the question itself mentions. `names`
    are known names.
    """
    kinds = next((kinds for start, kinds in _ANSWERS.items() if re.match(start, question)), ("name",))
    mentions = [m for m in mentions_of(sentence) if m.kind in kinds and (m.kind != "name" or m.text in names)]
    asked = set(_AFTER_HOW_MANY.findall(question.removeprefix("How many")[:40]))
    counting = [m for m in mentions if m.kind == "figure" and asked & set(_WORD.findall(sentence, m.end)[:3])]
    return [t for t in dict.fromkeys(m.text for m in counting or mentions) if not _stands_in(t, question)]


def choice_of(texts: Iterable[str]) -> str:
    """Return a grammar (GBNF) for one of these texts and the line's end."""
    return f'root ::= " " ({" | ".join(json.dumps(text, ensure_ascii=False) for text in dict.fromkeys(texts))}) "\\n"'


def _stands_in(text: str, question: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", question))
