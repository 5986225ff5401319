"""Filters of long episodes, by what their calls did. They judge the episodes of an agent that opens pages alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trailforge.evaluation.results import MOST_REPEATED
from trailforge.filters import count_faults, names_of_answer
from trailforge.generators.agent_trajectories.evidence import is_stated
from trailforge.protocols.browse import (
    LONGEST_DEAD_END,
    barren_calls,
    cited_in,
    cited_results,
    is_like_calls,
    is_put_off,
    longest_dead_end,
    needless_repeats,
    slips_of,
    turns_of,
    unshown_pages,
)
from trailforge.rewards import is_never_quoted
from trailforge.schemas import AgentTrajectory, BrowseRecord, InvalidInput, Verdict, check_least


@dataclass(frozen=True, slots=True, kw_only=True)
class LongEpisodeLimits:
    """Limits on the calls of an episode of an agent that opens pages."""

    min_calls: int = 1
    """Fewest calls of an episode; fewer teach no research."""
    max_calls: int | None = None
    """Most calls of an episode; None: as many as its agent may make."""
    max_slips: int = 2
    """Most turns that could not be read, or were mended. No loss is taken on a turn that could not be read."""
    max_repeated: int = MOST_REPEATED
    """Most calls that were made again while what they had found before was still shown."""
    max_dead_end: int = LONGEST_DEAD_END
    """Most turns in a row of which every call led nowhere (`protocols.browse.records.barren_turns`), before another
    way was taken. Turns are counted, not calls: one turn may look into many candidates before it sees a result.
    """
    max_unshown: int = 0
    """Most calls that open, or look for words in, a page whose id the agent had not been shown."""
    max_unused_share: float = 0.5
    """Largest share of the opened pages that no later turn names."""
    min_cited_read: float = 0.15
    """Smallest share of the cited pages that were opened, or in which words were found; at least one page has to be
    opened. It is small, as a search shows whole passages: that a cited part was shown is asked of every citation.
    """
    min_gold_cited: float = 0.5
    """Smallest share of the known pages behind the answer that it cites."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for shares outside 0 to 1, and for negative numbers."""
        for name in ("max_unused_share", "min_cited_read", "min_gold_cited"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidInput("expected 0 to 1", field=name)
        check_least(self, 0, "min_calls", "max_slips", "max_repeated", "max_dead_end", "max_unshown", must="must be")
        if self.max_calls is not None and self.max_calls < self.min_calls:
            raise InvalidInput("must be min_calls or more", field="max_calls")


def judge_calls(row: AgentTrajectory, limits: LongEpisodeLimits) -> list[Verdict]:
    """Return the verdicts on the calls of an episode, the gravest first; an empty list where its agent opens no
    pages.
    """
    if row.episode.browse is None:
        return []
    return [
        unshown_page(row, most=limits.max_unshown),
        unread_pages(row, least=limits.min_cited_read),
        uncited_answer(row, least=limits.min_gold_cited),
        too_few_calls(row, least=limits.min_calls),
        too_many_calls(row, most=limits.max_calls),
        repeated_calls(row, most=limits.max_repeated),
        dead_end(row, most=limits.max_dead_end),
        unused_pages(row, most=limits.max_unused_share),
    ]


def malformed_turns(row: AgentTrajectory, *, most: int) -> Verdict:
    """Reject an episode with more than `most` turns that could not be read, or were repaired. Score: their number."""
    slips = slips_of(_record(row))
    verdict = count_faults("malformed_turns", slips, str)
    return verdict if len(slips) > most else replace(verdict, keep=True, detail="")


def unshown_page(row: AgentTrajectory, *, most: int) -> Verdict:
    """Reject an episode that opens, or looks for words in, a page whose id neither the question nor a result of an
    earlier turn has shown: it knows the page from memory. Score: the number of such calls.
    """
    record = _record(row)
    pages = [record.calls[number].page for number in unshown_pages(record)]
    keep = len(pages) <= most
    detail = "" if keep else f"nothing had shown the id of page {', '.join(map(repr, dict.fromkeys(pages)))}"
    return Verdict(keep=keep, reason="unshown_page", score=float(len(pages)), detail=detail)


def unread_pages(row: AgentTrajectory, *, least: float) -> Verdict:
    """Reject an episode that opens no page at all, and one that read less than the share `least` of the pages that it
    cites, knowing the others only by the passages that searches show. A page is read when it was opened, or when words
    were found in it: a find that finds nothing shows nothing. Score: the share of the cited pages that it read; 1 where
    it cites none.
    """
    record = _record(row)
    cited = {each.page for each in cited_in(record)}
    done = [call for call in record.calls if call.tool in ("open", "find") and not call.problem]
    read = {page for call in done for page in call.pages}
    share = len(cited & read) / len(cited) if cited else 1.0
    detail = ""
    if not any(call.tool == "open" for call in done):
        detail = "no page was opened"
    elif share < least:
        detail = f"{len(cited & read)} of {len(cited)} cited pages opened, or words found in them"
    return Verdict(keep=not detail, reason="unread_pages", score=round(share, 6), detail=detail)


def uncited_answer(row: AgentTrajectory, *, least: float) -> Verdict:
    """Reject an answer when no cited part states it, when a cited part was never shown, or when less than the share
    `least` of the pages behind it is cited. Yes and no need any part that was shown. Score: how many of the cited
    results state the answer.
    """
    record, names = _record(row), names_of_answer(row.episode.answer, row.golds)
    figures, cited = record.figures, cited_results(record)
    is_exempt = is_never_quoted(row.episode.answer)
    stating = sum(is_exempt or is_stated([text], names) for _, text in cited)
    share = (figures.gold_cited or 0) / figures.gold_pages if figures.gold_pages else 1.0
    detail = ""
    if figures.made_up_citations:
        detail = f"{figures.made_up_citations} citations name what was never shown"
    elif not stating:
        detail = "no cited part says the answer" if cited else "it cites nothing that was shown"
    elif share < least:
        detail = f"{figures.gold_cited} of {figures.gold_pages} pages behind the answer cited"
    return Verdict(keep=not detail, reason="uncited_answer", score=float(stating), detail=detail)


def too_few_calls(row: AgentTrajectory, *, least: int) -> Verdict:
    """Reject an episode with fewer than `least` calls of tools: too few to teach research. Score: the number of its
    calls, without those that were put off.
    """
    calls = sum(not is_put_off(call) for call in _record(row).calls)
    detail = "" if calls >= least else f"{calls} calls (at least {least})"
    return Verdict(keep=calls >= least, reason="too_few_calls", score=float(calls), detail=detail)


def too_many_calls(row: AgentTrajectory, *, most: int | None) -> Verdict:
    """Reject an episode with more than `most` calls of tools; None sets no limit. Score: the number of its calls."""
    calls = len(_record(row).calls)
    keep = most is None or calls <= most
    detail = "" if keep else f"{calls} calls (at most {most})"
    return Verdict(keep=keep, reason="too_many_calls", score=float(calls), detail=detail)


def repeated_calls(row: AgentTrajectory, *, most: int) -> Verdict:
    """Reject an episode that repeats more than `most` calls whose results it still had in its context. Score: their
    number. A result that was removed from the context may be asked for again.
    """
    record = _record(row)
    again = [record.calls[number] for number in needless_repeats(record)]
    keep = len(again) <= most
    asked = next((call.query or call.page for call in again), "")
    detail = "" if keep else f"{len(again)} calls were made again in vain, as that for {asked!r}"
    return Verdict(keep=keep, reason="repeated_calls", score=float(len(again)), detail=detail)


def dead_end(row: AgentTrajectory, *, most: int) -> Verdict:
    """Reject an episode with more than `most` turns in a row that found nothing new of use. Score: the longest such run
    of turns.
    """
    length = longest_dead_end(_record(row))
    detail = "" if length <= most else f"{length} turns in a row led nowhere (at most {most})"
    return Verdict(keep=length <= most, reason="dead_end", score=float(length), detail=detail)


def unused_pages(row: AgentTrajectory, *, most: float) -> Verdict:
    """Reject an episode that never names again more than the share `most` of the pages that it opened. Score: that
    share.
    """
    figures = _record(row).figures
    share = figures.pages_unused / figures.pages_opened if figures.pages_opened else 0.0
    said = f"{figures.pages_unused} of {figures.pages_opened} opened pages are named by no later turn"
    detail = "" if share <= most else said
    return Verdict(keep=share <= most, reason="unused_pages", score=round(share, 6), detail=detail)


def rank_calls(row: AgentTrajectory) -> tuple[float, ...]:
    """Return a sort key by which the best episode comes first: repeated calls, the longest dead end, calls that led
    nowhere, unused pages, uncited pages behind the answer, the number of calls, and last the number of its draw. A find
    without a hit counts as a call that led nowhere, though it may rule a page out.
    """
    record = _record(row)
    figures = record.figures
    return (
        len(needless_repeats(record)),
        longest_dead_end(record),
        sum(barren_calls(record)),
        figures.pages_unused,
        -(figures.gold_cited or 0),
        figures.calls,
        row.sample,
    )


def share_calls(one: AgentTrajectory, other: AgentTrajectory) -> float:
    """Return the share of the shorter episode's calls that the other episode makes, too."""
    made = [
        {(call.tool, call.query.casefold(), call.page, call.part) for call in _record(row).calls}
        for row in (one, other)
    ]
    return len(made[0] & made[1]) / max(1, min(map(len, made)))


def is_like_messages(row: AgentTrajectory) -> bool:
    """Tell whether the row's calls, question and answer agree with its conversation."""
    record, episode = _record(row), row.episode
    last = turns_of(record).get(len(record.messages) - 1)
    answer = last.answer.text if last is not None and last.answer is not None else ""
    is_asked = any(message.role == "user" and episode.question in message.content for message in record.messages)
    return is_asked and answer == episode.answer and is_like_calls(record)


def _record(row: AgentTrajectory) -> BrowseRecord:
    assert row.episode.browse is not None
    return row.episode.browse
