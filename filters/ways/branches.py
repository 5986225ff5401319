"""What else a way could have meant at a step, and whether its thoughts say why that does not fit.

Passages show several of a kind: two sons of one person, a list of friends, several whose hobby is chess. Who follows
one and passes over the others in silence teaches to stop at the first that fits, be the answer right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trailforge.filters.answers import content_stems
from trailforge.filters.facts import names_asked
from trailforge.filters.ways.relations import names_relation
from trailforge.filters.ways.way import Way
from trailforge.retrieval import COMMON_WORDS, split_sentences
from trailforge.rewards import mentions
from trailforge.schemas import Passage

_PAIRS = (("brother", "sister"), ("father", "mother"), ("son", "daughter"), ("husband", "wife"))
"""Of a question for an uncle or a cousin both are branches; not of one that says which it means."""
_HEADING = re.compile(r"(?:^|\s)#+ (?:[^#]*?\s(?=[A-Z]))?")
"""The mark and the words of a heading, which may run into the sentence below it."""
_CLAUSE = re.compile(r"[.;!?\n]+(?:\s|$)|\b(?:while|whereas|but|although|though|because|so|hence|therefore)\b")
_DENIES = re.compile(
    r"\b(?:not?|none|neither|nor|never|nobody|nothing|without|cannot|rather than|instead of|other than|unlike|lacks?"
    r"|(?:rul|leav|exclud|eliminat|drop)\w*)\b|n['’]t\b",
    re.IGNORECASE,
)
_UNSEEN = re.compile(
    r"\bnothing (?:is|was|has been) (?:shown|found)\b"
    r"|\b(?:(?:could|can|was|were|is|has|have)(?: not|n['’]t)|cannot)(?: been| be)?"
    r" (?:shown|looked|searched|checked)\b",
    re.IGNORECASE,
)
"""A denial that leaves open what was not looked at: "for Lucia nothing was shown"."""
_SAID_OF_IT = re.compile(
    r"['’]s?\s|\s*[(:=]|\s+[–—-]|, (?:an?|the|whose|who|which)\s"
    r"|\s+(?:is|was|are|were|has|had|have|does|did|do|[a-z]{2,}s)\s"
)
"""Behind a name, where something is said of what it names."""
_LISTED = re.compile(r", (?:and |or )?| and | or ")
_MOST_TOLD = 4
"""Words of a sentence that is nothing but a statement, beside its title and those of whom it is said. One of many words
tells a story, in which names stand side by side for other reasons."""
_LEAST = 3
"""Letters of a first name by which alone somebody is called."""


@dataclass(slots=True)
class _Group:
    """Those of whom passages say the same, each with the search that first showed it."""

    told: frozenset[str]
    """Stems of what is said of each, without names."""
    of_whom: str = ""
    """The title under which it is said; empty where it is said of each under its own."""
    members: dict[str, int] = field(default_factory=dict)


def find_passed_over(way: Way) -> list[str]:
    """Return the names that passages show beside one that the agent follows, as other things that could be meant, and
    of which no later thought says anything.

    To list a name is to say nothing of it: "her brothers are Olin and Egil". A thought says something of a name when it
    says what it lacks ("Olin has no son"), is or has. Left out are the answer, the name that is followed, and names
    that stand beside one that the question has.
    """
    asked = [f"{each.query} {' '.join(each.entities)}" for each in way.searches]
    whole = " ".join([*_thoughts_of(way), *asked, way.answer])
    choices = [group for group in _groups_of(way) if _is_choice(group, way.question, whole)]
    return list(dict.fromkeys(name for group in choices for name in _silent_of(group, way, " ; ".join(asked))))


def _silent_of(group: _Group, way: Way, asked: str) -> Iterator[str]:
    """Those of a group of which nothing is said, without the one that the way follows: who is left where all others are
    ruled out, or who alone is asked about."""
    thoughts, pages = _thoughts_of(way), {title: "" for title in group.members}
    pages |= {each.title: each.text for search in way.searches for each in search.passages}
    told, out = set[str](), set[str]()
    for name, place in group.members.items():
        clauses = [clause for text in thoughts[place + 1 :] for clause in _clauses_of(text)]
        if any(_denies(clause, name, tuple(group.members)) for clause in clauses):
            out.add(name)
        elif mentions(way.answer, name) or any(_tells_of(clause, name, group, pages) for clause in clauses):
            told.add(name)
    sought = [name for name in group.members if mentions(asked, name)]
    for name in group.members:
        if name not in told | out and sought != [name] and len(out) < len(group.members) - 1:
            yield name


def rules_out(way: Way, name: str) -> bool:
    """Tell whether a clause of a thought names somebody or something by this name and denies something of it."""
    clauses = [clause for thought in _thoughts_of(way) for clause in _clauses_of(thought)]
    return any(_denies(clause, name, ()) and not _UNSEEN.search(clause) for clause in clauses)


def is_left_open(way: Way, name: str) -> bool:
    """Tell whether a name that a model reports as passed over really is: a passage or a thought has it, neither the
    answer nor the question does, and no clause of a thought denies anything of it.
    """
    shown = [f"{each.title}. {each.text}" for search in way.searches for each in search.passages]
    has_it = any(mentions(text, name) for text in (*shown, *_thoughts_of(way)))
    return has_it and not any(mentions(text, name) for text in (way.answer, way.question)) and not rules_out(way, name)


def _thoughts_of(way: Way) -> list[str]:
    return [*(search.thought for search in way.searches), way.last_thought]


def _is_choice(group: _Group, question: str, whole: str) -> bool:
    """Are they several, of which the question names none and the way follows one, in a relation of which it speaks?"""
    names = group.members
    if len(names) < 2 or any(mentions(question, name) for name in names):
        return False
    spoken = names_relation(f"{question} {whole}", " ".join(sorted(group.told)))
    return spoken and any(mentions(whole, name) for name in names)


def _groups_of(way: Way) -> list[_Group]:
    groups: dict[tuple[str, frozenset[str]], _Group] = {}
    for place, search in enumerate(way.searches):
        for passage in search.passages:
            for title, told, names in _told_by(passage, way.question):
                group = groups.setdefault((title, told), _Group(told, title))
                for name in names:
                    group.members.setdefault(name, place)
    return list(groups.values())


def _told_by(passage: Passage, question: str) -> Iterator[tuple[str, frozenset[str], list[str]]]:
    """What a passage says: under which title, in which words, and of whom.

    That is what it says of others beside its title, of one or of a list of them; and of its title what the question
    asks for in all its words, as that its hobby is chess.
    """
    title, asked = passage.title, content_stems(question)
    parts = _HEADING.split(passage.text)
    for sentence in (each for part in parts for each in split_sentences(part)):
        plain = _merge_pairs(sentence, question)
        rest = plain.replace(title, " ") if title else plain
        if title and rest != plain and (stems := content_stems(rest)) and stems <= asked:
            yield "", frozenset(stems), [title]
        named = (each for part in _LISTED.split(plain) for each in names_asked(part))
        names = {each.rstrip(".") for each in named if not each[0].isdigit()} - {title}
        one = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        for run in re.finditer(rf"(?:{one})(?:(?:{_LISTED.pattern})(?:{one}))*", rest) if names else ():
            told = content_stems(f"{rest[: run.start()]} {rest[run.end() :]}")
            if len(told) <= _MOST_TOLD:
                yield title, frozenset(told), re.findall(one, run[0])


def _merge_pairs(sentence: str, question: str) -> str:
    asked = set(re.findall(r"[\w-]+", question.casefold()))
    for one, other in _PAIRS:
        if asked.isdisjoint((one, other)):
            sentence = re.sub(rf"\b(?:{one}|{other})s?\b", one, sentence)
    return sentence


def _clauses_of(text: str) -> list[str]:
    return [clause for clause in _CLAUSE.split(text) if clause.strip()]


def _denies(clause: str, name: str, beside: Sequence[str]) -> bool:
    return bool(_DENIES.search(clause)) and bool(_called(name, beside).search(clause))


def _tells_of(clause: str, name: str, group: _Group, pages: Mapping[str, str]) -> bool:
    """Does a clause say something behind the name, or name it and say what its own passage has and those of the others
    have not?"""
    calls = list(_called(name, tuple(group.members)).finditer(clause))
    known = group.told | content_stems(" ".join([group.of_whom, *group.members]))
    said = (clause[call.end() :] for call in calls if _SAID_OF_IT.match(clause, call.end()))
    if any(not content_stems(each) <= known for each in said):
        return True
    own, others = pages[name], " ".join(pages[each] for each in group.members if each != name)
    return bool(calls) and not content_stems(clause).isdisjoint(content_stems(own) - content_stems(others) - known)


def _called(name: str, beside: Sequence[str]) -> re.Pattern[str]:
    """By its name, or by the first word of it, where that is of none beside it."""
    first = name.split()[0]
    is_alone = not any(other.split()[0] == first for other in beside if other != name)
    is_call = is_alone and len(first) >= _LEAST and first.casefold() not in COMMON_WORDS
    return re.compile(rf"(?<!\w)(?:{re.escape(name)}{f'|{re.escape(first)}' if is_call else ''})(?!\w)")
