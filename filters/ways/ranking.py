"""Rank the paths (`Way`) by which several episodes came to one answer: which is better to learn from, as far as their
words tell.

Draws on one question often differ in nothing that a filter rejects. The better one asks a graph for what it has just
said that it needs, and for a hop only where it knows what the hop is about; it names nobody of whom it has not read; it
says of each that could be meant, too, why it is not; it asks for no relation and makes no search that comes to nothing;
it names what it rests on; and it says so in few words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trailforge.filters.answers import content_stems
from trailforge.filters.base import count_faults
from trailforge.filters.facts import SoughtFact, answering_facts, subjects_of
from trailforge.filters.thoughts import find_unseen_names
from trailforge.filters.ways.branches import find_passed_over
from trailforge.filters.ways.relations import names_relation
from trailforge.filters.ways.way import AskedSearch, Way
from trailforge.rewards import mentions
from trailforge.schemas import Verdict

_CITED = re.compile(
    r"\b(?:Doc(?:ument)?|Passage|Result|Triple)s?\b(?:\s+#?\d{1,2}(?:(?:\s*,|\s+and|\s+or)\s+\d{1,2})*)?", re.IGNORECASE
)
_BEGINNING = re.compile(r"(?:^|[.!?:;]\s+)[A-Z](?=[a-z]+\b(?!['’.]?\w? [A-Z]))")
"""Of a single word that begins a sentence: whether it is a name nobody can tell ("Siblings: …")."""
_HALF = 0.5
"""Of the words of a name: "Harry Pollard" is more of "Harry A. Pollard", two who are "of Salerno" share no more."""


class WayRank(NamedTuple):
    """What is wrong with a path to an answer, as counts, the gravest first; the path whose rank compares lowest is the
    best.
    """

    leaps: int
    """Number of requests for what no thought has named, or for a hop of something that is not known yet."""
    unseen: int
    """Number of names and numbers in thoughts that neither the question nor anything read before has."""
    passed_over: int
    """Number of names that could be meant as well as one that is followed, and of which no thought says anything."""
    unused: int
    """Number of relations asked for that no triple which was given has."""
    needless: int
    """Number of searches that brought nothing of use."""
    named: int
    """The number of passages that a thought names by title, with a minus: a way that names what bears its links, and
    what it leaves aside, shows how it knows."""
    words: int
    """Number of words of all thoughts and of the answer."""


def rank_way(way: Way) -> WayRank:
    """Count what is wrong with a path to an answer, for ranking."""
    thoughts = [*(search.thought for search in way.searches), way.last_thought]
    return WayRank(
        leaps=len(list(find_leaps(way))) + len(find_early_requests(way)),
        unseen=sum(1 for _ in find_unseen(way)),
        passed_over=len(find_passed_over(way)),
        unused=sum(search.unused for search in way.searches),
        needless=sum(search.is_needless for search in way.searches),
        named=-len(set(find_named(way))),
        words=sum(len(text.split()) for text in (*thoughts, way.answer)),
    )


def find_leaps(way: Way) -> Iterator[str]:
    """Yield relations and entities that a request to a graph uses although neither the question nor any thought so far
    has named them.
    """
    said = ""
    for search in way.searches:
        said = f"{said} {search.thought}"
        yield from (f"relation {each!r}" for each in search.relations if not names_relation(said, each))
        known = f"{way.question} {said}"
        yield from (f"entity {each!r}" for each in search.entities if _share_of(each, known) < _HALF)


def find_early_requests(way: Way) -> list[tuple[AskedSearch, str]]:
    """Return the searches that ask a graph for a later hop's relation while they name the subject of an earlier hop,
    each with the relation.

    "The False Step | place of birth" asks a film for what only its director has. Another entity in the request may be
    the one that has the relation; a relation that an earlier hop has, too ("the father of the father"), counts as that
    hop's.
    """
    facts = answering_facts(way.question, (way.answer,), way.hops) if way.hops else ()
    return [
        (search, phrase)
        for search in way.searches
        for phrase in (search.relations if search.entities else ())
        if _is_early(phrase, search.entities, facts)
    ]


def reject_early_requests(found: Sequence[tuple[AskedSearch, str]]) -> Verdict:
    """Reject as `early_relation` an episode with searches that `find_early_requests` returned. Score: the number of
    such relations.
    """
    return count_faults("early_relation", found, _describe_early)


def _describe_early(found: tuple[AskedSearch, str]) -> str:
    search, phrase = found
    return f"{search.query!r} asks {', '.join(search.entities)} for {phrase!r}, a relation of what it has yet to find"


def _is_early(phrase: str, entities: Sequence[str], facts: Sequence[SoughtFact]) -> bool:
    asking = [fact for fact in facts if names_relation(_without_subjects(fact), phrase)]
    # Of "the father of the mother", the hop that says "father" asks for one, though a mother is kin, too.
    asking = [fact for fact in asking if content_stems(phrase) <= content_stems(_without_subjects(fact))] or asking
    is_of_these = any(_name_one(entities, subjects_of(fact)) for fact in asking)
    return bool(asking) and not is_of_these and all(fact.given for fact in asking)


def _without_subjects(fact: SoughtFact) -> str:
    text = fact.question
    for subject in subjects_of(fact):
        text = text.replace(subject, " ")
    return text


def _name_one(entities: Sequence[str], subjects: Sequence[str]) -> bool:
    return any(max(_share_of(a, b), _share_of(b, a)) > _HALF for a in entities for b in subjects)


def find_unseen(way: Way) -> Iterator[str]:
    """Yield names and numbers in thoughts that occur neither in the question nor in anything read before. The final
    answer is judged by other filters; "Doc 2" is no name.
    """
    known = [way.question, way.told]
    for search in way.searches:
        yield from find_unseen_names(_plain(search.thought), known)
        known += [search.query, *search.entities]
        known += [f"{each.title}. {each.text}" for each in search.passages]
    yield from find_unseen_names(_plain(way.last_thought), [*known, way.answer])


def _plain(thought: str) -> str:
    return _BEGINNING.sub(lambda found: found[0].lower(), _CITED.sub(" ", thought))


def find_named(way: Way) -> Iterator[str]:
    """Yield the titles of passages that a thought names after they were shown and that the question does not name."""
    thoughts = [*(search.thought for search in way.searches[1:]), way.last_thought]
    for number, search in enumerate(way.searches):
        said = " ".join(thoughts[number:])
        titles = {each.title for each in search.passages if each.title and not mentions(way.question, each.title)}
        yield from (title for title in titles if mentions(said, title))


def _share_of(name: str, text: str) -> float:
    """How much of a name a text has, by its words: all of "Lang" for "Fritz Lang"."""
    words = content_stems(name)
    return len(words & content_stems(text)) / (len(words) or 1)
