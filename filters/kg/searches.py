"""Rules on the searches of an episode: what each asks and shows, which ones its answer uses, and how they lead to
it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from trailforge.filters.base import mentions_any
from trailforge.filters.ways.way import AskedSearch, Way
from trailforge.mcts import resolve
from trailforge.protocols import KG_SEARCH
from trailforge.rewards import is_never_quoted, mentions, normalize_answer, other_names, states
from trailforge.schemas import KgStep, KgTrajectory, Passage

_TELLING = re.compile(r"(?<=[a-z,] )[A-Z][^\W_]+|\b\d(?:[\d,.]*\d)?\b")
"""What a turn names: a capital within a sentence, or a number."""


def redundant_steps(row: KgTrajectory) -> list[tuple[KgStep, str]]:
    """Return the redundant searches, each with the reason why it is redundant."""
    redundant: list[tuple[KgStep, str]] = []
    asked: set[object] = set()
    shown: set[object] = set()
    brought = [bool(used) for used in first_used(row)]
    last = max((number for number, is_used in enumerate(brought) if is_used), default=len(brought))
    for number, step in enumerate(row.steps):
        request, results = request_of(step), results_of(step)
        if request in asked:
            redundant.append((step, "was asked before"))
        elif results and results <= shown:
            redundant.append((step, "shows nothing new"))
        elif results and number > last:
            redundant.append((step, "shows nothing that is used; all that is was read before"))
        asked.add(request)
        shown |= results
    return redundant


@lru_cache(maxsize=32)  # several rules read the same episode one after the other
def first_used(row: KgTrajectory) -> list[frozenset[tuple[str, str]]]:
    """Return for each search the useful things that it is the first to show.

    Useful are gold documents; the answers of gold hops and the final answer, and each of them in a text about its
    subject; the entities that later searches ask for; and what later turns name. What stands in the question is known.
    """
    answers = {number: hop.answer for number, hop in enumerate(row.gold_hops, start=1)}
    # Nobody is told yes or no by the word that stands somewhere.
    hops = [(resolve(hop.question, answers), hop.answer) for hop in row.gold_hops if not is_never_quoted(hop.answer)]
    golds = [name for name in (*row.golds, row.final_answer) if not is_never_quoted(name)]
    seen: set[tuple[str, str]] = set()
    turns = [message.content for message in row.messages if message.role == "assistant"]
    found = []
    for step in row.steps:
        texts = texts_of(step)
        later = {name for other in row.steps[step.index + 1 :] for name in other.mentions}
        told = {word for turn in turns[step.index + 1 :] for word in named_in(turn)}
        named = {*(answer for _, answer in hops), *golds, *later, *told}
        used = {("named", name) for name in named if any(mentions(text, name) for text in texts)}
        used = {(kind, name) for kind, name in used if not mentions(row.question, name)}
        used |= {("borne out", name) for name in golds if bears_out(step, (name,))}
        # Of two films from one country each has to be looked up: an answer counts where it is said of its own hop.
        used |= {(asked, name) for asked, name in hops if bears_out(step, (name, *other_names(name)), asked)}
        used |= {("document", title) for title in gold_titles(step, row)}
        found.append(frozenset(used - seen))
        seen |= used
    return found


@lru_cache(maxsize=32)
def way_of(row: KgTrajectory) -> Way:
    """Return the episode in the form `Way`, in which rules for all data sets read it. A turn that cannot be read has no
    thought.
    """
    turns = [KG_SEARCH.read_turn(message) for message in row.messages if message.role == "assistant"]
    asking = [turn for turn in turns if turn is not None and turn.search is not None]
    thoughts = [turn.thought for turn in asking]
    thoughts += [""] * (len(row.steps) - len(thoughts))
    last = turns[-1] if turns else None
    searches = (
        AskedSearch(
            thought=thought,
            query=step.query,
            entities=step.mentions,
            relations=step.phrases,
            passages=tuple(passages_of(step)),
            unused=count_unused(step),
            is_needless=not used,
        )
        for step, thought, used in zip(row.steps, thoughts, first_used(row), strict=False)
    )
    return Way(
        question=row.question,
        answer=row.final_answer,
        hops=row.gold_hops,
        searches=tuple(searches),
        last_thought=last.thought if last is not None else "",
        told=KG_SEARCH.system_prompt,
    )


def count_unused(step: KgStep) -> int:
    """Count the relations that a search requested from the graph and that no kept triple has."""
    kept = {triple.relation for triple in step.triples_kept}
    return sum(link.relation_id not in kept for link in step.relations)


def passages_of(step: KgStep) -> list[Passage]:
    """Return what a search shows as passages; a triple becomes a passage whose title is its subject."""
    triples = (Passage(id="", title=each.head_label, text=each.text, score=0.0) for each in step.triples_kept)
    return [*step.documents, *triples]


def texts_of(step: KgStep) -> list[str]:
    """Return what a search shows as texts: documents with their titles, and kept triples."""
    return [f"{d.title}. {d.text}" for d in step.documents] + [triple.text for triple in step.triples_kept]


def named_in(turn: str) -> list[str]:
    """Return the names, word by word, and the numbers in a turn."""
    return _TELLING.findall(turn)


def gold_titles(step: KgStep, row: KgTrajectory) -> set[str]:
    """Return the titles of the gold documents that the search found."""
    gold = {document.title.casefold() for document in row.supporting}
    return {document.title for document in step.documents if document.title.casefold() in gold}


def request_of(step: KgStep) -> tuple[str, frozenset[str], frozenset[str]]:
    """Return a search as (query, entities, relations), without words that make no difference, so that equal searches
    compare equal.
    """
    names, phrases = (frozenset(map(normalize_answer, texts)) for texts in (step.mentions, step.phrases))
    return normalize_answer(step.query), names, phrases


def results_of(step: KgStep) -> frozenset[object]:
    """Return the results of a search as keys: documents by id, triples by subject and object."""
    triples = {(triple.head, triple.relation, triple.tail) for triple in step.triples_kept}
    return frozenset({document.id for document in step.documents} | triples)


def bears_out(step: KgStep, names: Sequence[str], about: str = "") -> bool:
    """Tell whether a search shows an answer in a text about an entity that the search named. With `about` the text must
    name that entity too, perhaps without what tells it from its namesakes.
    """
    asked = {*step.mentions, *(link.label or "" for link in step.entities if link.is_searched)}
    asked = {name for each in asked for name in (each, *other_names(each)) if name}
    asked = {each for each in asked if not any(mentions(name, each) for name in names)}
    asked = {each for each in asked if not about or mentions(about, each)}
    return any(any(states(text, name) for name in names) and mentions_any(text, asked) for text in texts_of(step))
