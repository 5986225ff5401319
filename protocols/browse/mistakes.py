"""Find by rule the mistakes of a long episode that its agent noticed and corrected: a wrong page, a dropped candidate,
a dead end that was left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace

from trailforge.protocols.browse.actions import BrowseTurn
from trailforge.protocols.browse.figures import Gold, count_figures, folded, unused_pages
from trailforge.protocols.browse.records import barren_turns, cited_in, turns_of
from trailforge.schemas import BrowseRecord, MendedMistake

LONGEST_DEAD_END = 8
"""Turns in a row that led nowhere, of an agent that still took another way in time."""
_SHORTEST_DEAD_END = 2
_SENTENCE = re.compile(r"[^\n<>.!?]+(?:[.!?]+(?![\s<])[^\n<>.!?]+)*[.!?]*")
_DENIES = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|wrong|different|another|other than|rather than|unlike|rules? out|ruled out|"
    r"mistaken|mistook|look-?alike|namesake)\b|n['’]t\b",
    re.IGNORECASE,
)


def with_gold(record: BrowseRecord, gold: Sequence[Gold] | None) -> BrowseRecord:
    """Return the record with its figures and its corrected mistakes computed again for these gold pages."""
    figures = count_figures(record.calls, record.messages, cited_in(record), gold)
    return replace(record, figures=figures, mended=find_mended(record, gold))


def find_mended(record: BrowseRecord, gold: Sequence[Gold] | None) -> tuple[MendedMistake, ...]:
    """Return the mistakes that an episode corrected, in the order of the calls that made them. `gold` are the pages
    that the answer rests on, of which none is a mistake; None when they are not known.
    """
    turns = turns_of(record)
    found = [*_dead_ends(record), *_dropped(record, turns, gold)]
    if gold is not None:
        found += _left(record, turns, gold, {each.page for each in found})
    return tuple(sorted(found, key=lambda each: (each.call, each.mended_in, each.kind)))


def sentences_on(text: str, names: Sequence[str], *, denying: bool = False) -> list[tuple[int, int]]:
    """Return begin and end of the sentences in a turn's thoughts that have one of these names; with `denying` only
    those that deny something.
    """
    end = text.find("</think>")
    return [
        match.span()
        for match in _SENTENCE.finditer(text[: end if end >= 0 else len(text)])
        if _names(match[0], names) and (not denying or _DENIES.search(match[0]))
    ]


def names_of(mistake: MendedMistake) -> tuple[str, ...]:
    """Return the names by which thoughts refer to the page of a mistake, for `sentences_on`."""
    return tuple(filter(None, map(folded, (mistake.page, mistake.title))))


def _names(text: str, names: Sequence[str]) -> bool:
    return _holds(_spaced(text), names)


def _spaced(text: str) -> str:
    return f" {folded(text)} "


def _holds(spaced: str, names: Sequence[str]) -> bool:
    return any(f" {name} " in spaced for name in names)


def _dead_ends(record: BrowseRecord) -> Iterator[MendedMistake]:
    """Turns in a row that led nowhere, before a turn that led on."""
    lost: list[int] = []
    for call, is_barren in barren_turns(record):
        if is_barren:
            lost.append(call)
            continue
        if _SHORTEST_DEAD_END <= len(lost) <= LONGEST_DEAD_END:
            yield MendedMistake(kind="dead_end", call=lost[0], mended_in=record.calls[call].turn)
        lost = []


def _dropped(
    record: BrowseRecord, turns: Mapping[int, BrowseTurn], gold: Sequence[Gold] | None
) -> Iterator[MendedMistake]:
    """Pages that were read, or searched for by name, until a turn denied them; later ones say nothing else of them."""
    words = {place: _spaced(f"{_thought(turn)}\n{_done(turn)}") for place, turn in turns.items()}
    for page, title, shown in _never_used(record, turns, gold):
        names = tuple(filter(None, map(folded, (page, title))))
        named = [place for place, said in words.items() if place > shown and _holds(said, names)]
        denied = len(named)
        while denied and _is_denied(turns[named[denied - 1]], names):
            denied -= 1
        if denied == len(named):
            continue
        mended_in = named[denied]
        before = [(at, call) for at, call in enumerate(record.calls) if shown < call.turn < mended_in]
        asked = next((at for at, call in before if call.tool == "search" and _names(call.query, names)), None)
        read = next((at for at, call in before if call.tool != "search" and page in call.pages), None)
        if asked is not None:
            yield MendedMistake(kind="wrong_candidate", call=asked, mended_in=mended_in, page=page, title=title)
        elif read is not None:
            yield MendedMistake(kind="wrong_page", call=read, mended_in=mended_in, page=page, title=title)


def _left(
    record: BrowseRecord, turns: Mapping[int, BrowseTurn], gold: Sequence[Gold], known: set[str]
) -> Iterator[MendedMistake]:
    """Pages that were opened, and no turn speaks of again; it is known that the answer does not rest on them."""
    unused = set(unused_pages(record.calls, record.messages)) - known
    for page, title, _ in _never_used(record, turns, gold):
        opened = next((at for at, call in enumerate(record.calls) if call.tool == "open" and page in call.pages), None)
        if page in unused and opened is not None:
            later = next((place for place in sorted(turns) if place > record.calls[opened].result), None)
            if later is not None:
                yield MendedMistake(kind="wrong_page", call=opened, mended_in=later, page=page, title=title)


def _never_used(
    record: BrowseRecord, turns: Mapping[int, BrowseTurn], gold: Sequence[Gold] | None
) -> Iterator[tuple[str, str, int]]:
    """Pages that were shown, with their title and where first: not those that the question names or the answer cites
    or rests on."""
    cited = {each.page for each in cited_in(record, turns)}
    asked = f" {folded(next((each.content for each in record.messages if each.role == 'user'), ''))} "
    seen = set[str]()
    for call in record.calls:
        for page, title in zip(call.pages, call.titles, strict=True):
            if page in seen:
                continue
            seen.add(page)
            is_gold = any(each.is_among({(page, title)}) for each in gold or ())
            if page not in cited and not is_gold and not (folded(title) and f" {folded(title)} " in asked):
                yield page, title, call.result


def _thought(turn: BrowseTurn) -> str:
    return "\n".join(filter(None, (turn.thought, turn.said)))


def _done(turn: BrowseTurn) -> str:
    """All words of a turn's calls, and its answer."""
    calls = (str(word) for call in turn.calls for word in astuple(call))
    return " ".join([*calls, turn.answer.text if turn.answer is not None else ""])


def _is_denied(turn: BrowseTurn, names: Sequence[str]) -> bool:
    """Does all that a turn says of something deny it, and none of its calls go on with it?"""
    said = sentences_on(_thought(turn), names)
    return bool(said) and said == sentences_on(_thought(turn), names, denying=True) and not _names(_done(turn), names)
