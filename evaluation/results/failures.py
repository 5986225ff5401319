"""Tags that say what went wrong in an episode, given by code, each by its rule, from the stored row alone.

An episode has no tag when its answer is right and its searches bear it out; a wrong one has one at least. A right
answer that its searches do not support, a lucky one, is tagged by the same rules. `TAGS` says what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from trailforge.protocols.browse import LONGEST_DEAD_END, longest_dead_end, needless_repeats
from trailforge.rewards import choose_options, cover_exact_match, normalize_answer, states
from trailforge.schemas import AgentEpisode, AgentScores, BrowseRecord

if TYPE_CHECKING:
    from trailforge.evaluation.agents import AgentRun

MOST_REPEATED = 2
"""Most calls that are made again in vain without a tag."""
JUDGED_RIGHT = 0.5
"""Score of a judge from which on an answer counts as right."""
TAGS: Mapping[str, str] = MappingProxyType(
    {
        "failed": "A tool or the model failed, and nothing is known of the agent; it is then the only tag.",
        "no_search": "It never searched.",
        "miss_at_hop_K": "It searched in vain for the document of hop K, the first that no search brought.",
        "miss": "The same where the documents are not known: nothing that it read says the answer.",
        "misread": "It had what it needed, and answered something else.",
        "stopped_early": "It answered, and had not searched on for what was missing.",
        "stopped_late": "The limit of turns or of room stopped it.",
        "not_opened": "It found pages that the answer rests on, and did not open them.",
        "repeated_calls": "It made calls again whose results it still saw, more than two.",
        "dead_end": "All calls of more than eight turns in a row found nothing, or nothing new.",
        "format": "Its reply cannot be read, or the answer stands in more words than an answer has.",
    }
)
"""What each tag says, in the order in which an episode has them."""
_YES_OR_NO = frozenset(("yes", "no"))
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def tag_failures(episode: AgentEpisode) -> tuple[str, ...]:
    """Return the tags of what went wrong in an episode, in the order of `TAGS`."""
    if episode.stop == "failed":
        return ("failed",)
    if is_right(episode.scores) and is_borne_out(episode):
        return ()
    rules = {
        "no_search": not episode.searches,  # whatever the answer
        name_miss(episode): missed(episode),
        "misread": misread(episode),
        "stopped_early": stopped_early(episode),
        "stopped_late": episode.stop in ("too_many_turns", "too_long"),
        **_judge_calls(episode.browse),
        "format": broke_format(episode),
    }
    return tuple(tag for tag, holds in rules.items() if holds)


def _judge_calls(record: BrowseRecord | None) -> dict[str, bool]:
    """What the calls of an agent that opens pages did wrong; nothing of another agent."""
    if record is None:
        return {}
    figures = record.figures
    return {
        "not_opened": (figures.gold_found or 0) > (figures.gold_opened or 0),
        "repeated_calls": len(needless_repeats(record)) > MOST_REPEATED,
        "dead_end": longest_dead_end(record) > LONGEST_DEAD_END,
    }


def is_right(scores: AgentScores) -> bool:
    """Tell whether the answer is right, by our own matcher or by the judging model."""
    return scores.right >= 1.0 or (scores.judge is not None and scores.judge >= JUDGED_RIGHT)


def is_borne_out(episode: AgentEpisode) -> bool:
    """Tell whether the searches found everything that the answer rests on.

    That is all supporting documents. Where the data set does not name them, a text that the episode read must state a
    gold answer, and each answer of a set. For yes and no, and for options, which no text states, it only has to have
    read something.
    """
    if episode.scores.found_at:
        return None not in episode.scores.found_at
    texts = read_texts(episode, episode.question)
    if episode.options or any(normalize_answer(gold) in _YES_OR_NO for gold in episode.golds):
        return bool(texts)
    if episode.answer_set:
        return all(any(states(text, each) for text in texts) for each in episode.answer_set)
    return any(states(text, gold) for text in texts for gold in episode.golds)


def read_texts(transcript: AgentRun | AgentEpisode, question: str) -> list[str]:
    """Return what an agent read through its searches, without the question.

    These are triples, and every text sent to the model that shows the title of a passage that was found; where passages
    have no titles, every text sent. Instructions do not count.
    """
    titles = {title for search in transcript.searches for title in search.titles}
    if transcript.browse is not None:
        titles |= {title for call in transcript.browse.calls for title in call.titles}
    sent = [message.content for message in transcript.messages if message.role in ("user", "tool")]
    sent += [call.prompt for call in transcript.calls]
    texts = [text.replace(question, " ") for text in sent]
    shown = [text for text in texts if any(title in text for title in titles)]
    return [*shown, *(triple for search in transcript.searches for triple in search.triples)]


def asked_at(transcript: AgentRun | AgentEpisode) -> list[int | None]:
    """Return, for each search, the index of the message that asks for it in the agent's own words, or None. A turn that
    only thinks of the same words counts where no other asks for it.
    """
    turns = {place: each.content for place, each in enumerate(transcript.messages) if each.role == "assistant"}
    requests = {place: _THOUGHTS.sub("", content) for place, content in turns.items()}
    found: list[int | None] = []
    taken: set[tuple[int, str]] = set()
    last = -1
    for search in transcript.searches:
        asking = (
            turn
            for texts in (requests, turns)
            for turn, text in texts.items()
            if turn >= last and search.query in text and (turn, search.query) not in taken
        )
        place = next(asking, None)
        found.append(place)
        if place is not None:
            last = place
            taken.add((place, search.query))
    return found


# The rules


def missed(episode: AgentEpisode) -> bool:
    """Tell whether the episode is tagged `miss_at_hop_K` or `miss`: a supporting document is missing although the agent
    searched on after its last find.

    The last find is the search that found the last of the other supporting documents. Where these are not known, an
    episode is tagged that searched and is not supported.
    """
    if not episode.searches or is_borne_out(episode):
        return False
    return not episode.scores.found_at or len(episode.searches) > _last_find(episode.scores.found_at) + 1


def name_miss(episode: AgentEpisode) -> str:
    """Return the tag of a miss, with the hop (from 1) of the first supporting document that no search found."""
    found_at = episode.scores.found_at
    return f"miss_at_hop_{found_at.index(None) + 1}" if None in found_at else "miss"


def misread(episode: AgentEpisode) -> bool:
    """Tell whether the episode is tagged `misread`: it found everything, ended its search by itself, and its answer is
    neither right nor `format`.
    """
    if episode.stop != "answered" or is_right(episode.scores):
        return False
    return is_borne_out(episode) and not broke_format(episode)


def stopped_early(episode: AgentEpisode) -> bool:
    """Tell whether the episode is tagged `stopped_early`: it answered right after a search that found one supporting
    document, while another is missing. False where the supporting documents are not known.
    """
    found_at = episode.scores.found_at
    if not episode.searches or episode.stop != "answered" or None not in found_at:
        return False
    return not missed(episode)


def broke_format(episode: AgentEpisode) -> bool:
    """Tell whether the episode is tagged `format`: its last turn cannot be read (`malformed`), or its answer is empty
    or not short.

    An answer is not short when it is wrong although a gold answer stands in it in whole words. Yes and no, which stand
    in many texts, are not looked for. For options, an answer that chooses none is tagged.
    """
    if episode.stop == "malformed":
        return True
    if episode.stop != "answered" or is_right(episode.scores):
        return False
    if episode.options or episode.answer_set:
        return not (choose_options(episode.answer, episode.options) if episode.options else episode.answer.strip())
    golds = [gold for gold in episode.golds if normalize_answer(gold) not in _YES_OR_NO]
    return not episode.answer.strip() or bool(cover_exact_match(episode.answer, golds, word_boundary=True))


def _last_find(found_at: Sequence[int | None]) -> int:
    """The search that brought the last of the documents that were found; -1: none was."""
    return max((place for place in found_at if place is not None), default=-1)
