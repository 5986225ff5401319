"""Choose which of a question's episodes become rows, best first, and pair better ones with worse ones for preference
training.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from trailforge.filters import DOUBTFUL, first_rejection, reject_surplus, scores_of
from trailforge.filters.guesses import count_remembering
from trailforge.filters.ways import ask_about_the_same, rank_way
from trailforge.generators.agent_trajectories.config import AgentRunConfig
from trailforge.generators.agent_trajectories.evidence import (
    facts_to_read,
    find_hops,
    find_unread,
    requests_of,
    unread_turns,
    way_of,
)
from trailforge.generators.agent_trajectories.filters import (
    CHANCE,
    KNOWN,
    LACKING,
    UNREAD,
    AgentFilterConfig,
    answer_before_read,
    judge_episode,
    known_from_memory,
)
from trailforge.generators.agent_trajectories.long_episodes import rank_calls, share_calls
from trailforge.generators.pairs import best_pair, common_prefix, distinct_pairs, make_pair
from trailforge.generators.search_options import unlike_named
from trailforge.pipelines import Chosen
from trailforge.protocols import PROTOCOLS, make_truth, read_transcript
from trailforge.rewards import is_near_miss, is_never_quoted
from trailforge.rewards.episode import is_stated, knows_that_unknown
from trailforge.schemas import (
    AgentTrajectory,
    ContrastivePair,
    FromMemory,
    GroundTruth,
    InvalidInput,
    Question,
    RejectedRow,
    Verdict,
    from_dict,
)

SAME_ROUTE, WRONG = "same_route", "wrong_answer"
_MOST_SHARED = 0.5
"""Largest share of the documents of the shorter of two routes that the other route may have read too."""
_OF_ANSWER = frozenset({WRONG, "ungrounded_answer", "unstated_answer", "other_answers", CHANCE})
"""The reasons for rejection that judge the answer alone, and not what was searched."""
_READ_AGAIN = frozenset({LACKING, CHANCE})
"""The reasons against which a reading of the whole question may speak."""
Rejected = tuple[AgentTrajectory, Verdict]
"""Rejected episodes, each with the first verdict against it."""


def choose_rows(rows: Sequence[AgentTrajectory], config: AgentFilterConfig) -> Chosen[AgentTrajectory]:
    """Choose among all draws on a question, each given once and with its filters' scores.

    Those that are kept come best first: first by how little they say or search for that they have not read; for agents
    that open pages as `long_episodes.rank_calls` says. The others follow in the order of their draws. A further one is
    kept only if it takes another route than those before it. The cap on their number comes last.
    """
    sound: list[AgentTrajectory] = []
    rejected: list[Rejected] = []
    for row in rows:
        verdicts = judge_episode(row, config)
        row, against = replace(row, filters=scores_of(verdicts)), first_rejection(verdicts)
        if against is None:
            sound.append(row)
        else:
            rejected.append((row, against))
    taken: list[AgentTrajectory] = []
    for row in sorted(sound, key=_rank):
        same = next((other for other in taken if is_same_route(row, other)), None)
        if same is not None:
            detail = f"it finds as {same.uid} does, which is taken"
            rejected.append((row, Verdict(keep=False, reason=SAME_ROUTE, score=1.0, detail=detail)))
        elif len(taken) == config.most:
            rejected.append((row, reject_surplus(config.most)))
        else:
            taken.append(row)
    return Chosen(taken, sorted(rejected, key=lambda each: each[0].sample))


def unread_rows(taken: Sequence[AgentTrajectory], rejected: Sequence[Rejected]) -> list[AgentTrajectory]:
    """Return the rows for which a model must still read whether their answer is stated, since nothing they read names
    it plainly.

    These are `taken`, the kept rows, and of the rejected ones those whose only faults are that what a hop needs was not
    found, or that no other draw on the question is right.
    """
    failed = ((row, {each.name for each in row.filters if not each.passed}) for row, _ in rejected)
    doubted = [row for row, names in failed if names and names <= _READ_AGAIN]
    return [row for row in (*taken, *doubted) if not row.readings and facts_to_read(row)]


def _rank(row: AgentTrajectory) -> tuple[float, ...]:
    """Best first: nothing unread in a query, nothing guessed or remembered in a thought, then what its way tells
    (`ways.ranking`). Behind what that finds grave count the gold answer's own form, and each hop found by a search of
    its own; its words count last. What was retrieved is no matter."""
    if row.episode.browse is not None:
        return rank_calls(row)
    scores, hops, way = row.episode.scores, find_hops(row), rank_way(way_of(row))
    shared = len(hops) - len(set(hops))
    own = [message.content for message in row.episode.messages if message.role == "assistant"]
    guesses = answer_before_read(row, bridges="read_first").score + count_remembering(own[:-1])
    form = -scores.exact_match, -scores.contain_em, shared
    return (
        len(find_unread(row)),
        guesses,
        way.leaps,
        way.unseen,
        way.passed_over,
        *form,
        way.unused,
        way.named,
        way.needless,
        way.words,
        row.sample,
    )


def is_same_route(one: AgentTrajectory, other: AgentTrajectory) -> bool:
    """Tell whether two episodes ask the same, ask about the same names in any words, or read mostly the same documents;
    for agents that open pages, whether they make mostly the same calls.
    """
    if one.episode.browse is not None and other.episode.browse is not None:
        return share_calls(one, other) > _MOST_SHARED
    if set(requests_of(one.episode.searches)) & set(requests_of(other.episode.searches)):
        return True
    if ask_about_the_same(way_of(one), way_of(other)):
        return True
    read = [{key for search in row.episode.searches for key in search.document_ids} for row in (one, other)]
    return len(read[0] & read[1]) > _MOST_SHARED * min(map(len, read))


def preference_pairs(good: Sequence[AgentTrajectory], rejected: Sequence[Rejected], most: int) -> list[ContrastivePair]:
    """Return at most `most` pairs of a better and a worse episode of one question: those with a wrong answer come
    first, then those that differ latest.

    The worse one gives an answer that is not nearly right, as a pair must not rest on the form of a name; or a right
    one, and searches for what it had not read where the two part. Both have the same prompt up to a turn of the
    agent's; where they differ before, as agents of several calls do in what they are sent, there is no pair. Each worse
    one is used once, and none that is the same from there on as one already used. No pair prefers what the reward of
    the protocol ranks lower.

    Episodes of agents that open pages make no pairs: a pair of a hundred calls does not tell which of them was bad.

    An episode that answers "unknown" is the better one beside a wrong answer where no episode is kept and neither has
    read an answer; it is never the worse one where what was read states none.
    """
    pairs: list[ContrastivePair] = []
    rejected = [each for each in rejected if each[0].episode.browse is None]
    wrong = {row.uid for row, _ in rejected if is_plainly_wrong(row)}
    unknown = [row for row, verdict in rejected if verdict.reason == WRONG and _is_unknown(row)]
    for row, verdict in rejected:
        is_wrong = row.uid in wrong
        if verdict.reason == DOUBTFUL or _is_unknown(row) or not (is_wrong or is_right_unread(row, verdict)):
            continue
        better = good or (unknown if verdict.reason == WRONG and _has_read_no_answer(row) else ())
        parted = [(one, place) for one in better if (place := parting(one, row)) is not None]
        made = [_pair(one, row, verdict, place) for one, place in parted if is_wrong or place in unread_turns(row)]
        best = best_pair(made, _truth_of(row) if row.sft_protocol else None)
        pairs += [best] if best else []
    ranked = sorted(distinct_pairs(pairs), key=lambda pair: (pair.bad_uid not in wrong, -pair.diverges_at, pair.uid))
    return ranked[:most]


def _truth_of(row: AgentTrajectory) -> GroundTruth:
    return make_truth(row.golds, protocol=row.sft_protocol)


def _is_unknown(row: AgentTrajectory) -> bool:
    """Does it say that it has no answer, in a form that can be learned, where nothing that it read states one?"""
    if not row.sft_protocol:
        return False
    return knows_that_unknown(read_transcript(row.episode.messages, row.sft_protocol), _truth_of(row))


def _has_read_no_answer(row: AgentTrajectory) -> bool:
    """Is it sure that nothing it read states one?"""
    if not row.sft_protocol:
        return False
    return is_stated(read_transcript(row.episode.messages, row.sft_protocol), _truth_of(row)) is False


def is_right_unread(row: AgentTrajectory, verdict: Verdict) -> bool:
    """Tell whether the answer is right and `verdict` rejects the episode only because a query names something that was
    not read before.
    """
    return verdict.reason == UNREAD and row.episode.scores.right >= 1.0


def is_plainly_wrong(row: AgentTrajectory) -> bool:
    """Tell whether the episode ends with a wrong answer that shares no name and no number with a gold answer."""
    episode = row.episode
    is_wrong = episode.stop == "answered" and bool(episode.answer.strip()) and episode.scores.right < 1.0
    return is_wrong and not is_near_miss(episode.answer, row.golds)


def is_well_searched(row: AgentTrajectory) -> bool:
    """Tell whether a rejected episode read what the right answer rests on, so that only its wrong answer speaks against
    it.

    It follows a protocol, its searches found what each hop needs, and what they found states the gold answer. Where no
    text has to state that, as with yes and no, the supporting documents must be known.
    """
    failed = {each.name for each in row.filters if not each.passed}
    if row.sft_protocol not in PROTOCOLS or WRONG not in failed or failed - _OF_ANSWER:
        return False
    if is_never_quoted(row.golds[0]):
        return bool(find_hops(row))
    return is_stated(read_transcript(row.episode.messages, row.sft_protocol), _truth_of(row)) is True


def parting(good: AgentTrajectory, bad: AgentTrajectory) -> int | None:
    """Return the index of the first message in which two episodes differ if the agent wrote it in both, else None."""
    both = [row.episode.messages for row in (good, bad)]
    place = common_prefix(*both)
    if any(len(messages) <= place or messages[place].role != "assistant" for messages in both):
        return None
    return place


def _pair(good: AgentTrajectory, bad: AgentTrajectory, verdict: Verdict, place: int) -> ContrastivePair:
    episode = good.episode
    return make_pair(
        good,
        bad,
        verdict,
        place,
        question=episode.question,
        answer=good.golds[0],
        agent=good.agent,
        agent_config=good.agent_config,
        protocol=good.sft_protocol,
        backend=episode.backend,
        index=episode.index,
        good_messages=episode.messages,
        bad_messages=bad.episode.messages,
        bad_answer=bad.episode.answer,
        parts_at_fault=place in unread_turns(bad) or len(bad.episode.messages) == place + 1,
    )


def unlike_memory(row: RejectedRow, question: Question, config: AgentRunConfig) -> str:
    """Return why a rejected question's row is wrong: its answers from memory are not those that this configuration asks
    for, or do not show that the model knows the answer. Empty where they do, or where an error dropped the question.
    """
    if row.reason != KNOWN:
        return unlike_named(row, question)
    try:
        memory = from_dict(FromMemory, json.loads(row.payload))
    except (ValueError, TypeError, InvalidInput) as error:
        return f"this rejected row holds no answers from memory ({error})"
    if (memory.question, memory.golds) != (question.question, question.golds):
        return "these answers from memory are to another question"
    verdict = known_from_memory(memory, most=config.filters.max_known_share)
    told = Verdict(keep=False, reason=row.reason, score=row.score, detail=row.detail)
    is_told = memory.draws == config.generator.memory.draws and verdict == told
    return "" if is_told else "it was left out for another reason than what the model knows"
