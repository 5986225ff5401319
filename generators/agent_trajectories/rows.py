"""Derive the fields of a row from an agent's episode, and make the training rows from it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from trailforge.evaluation.agents import (
    AGAIN,
    FOUND,
    LOST,
    NO_MORE_SEARCHES,
    READING,
    SEARCH_R1_INVALID,
    SEARCHED_BEFORE,
    AgentRun,
    build_exchange,
)
from trailforge.evaluation.results import gold_pages, score_run, tag_failures
from trailforge.filters import is_title_of_gold
from trailforge.generators.agent_trajectories.evidence import admission_of, read_by
from trailforge.generators.agent_trajectories.long_episodes import is_like_messages
from trailforge.inference.judge import JudgeOptions
from trailforge.protocols import PROTOCOLS, REACT, find_right_by, make_truth
from trailforge.protocols.browse import window_rows, with_gold
from trailforge.rewards import (
    cover_exact_match,
    is_near_miss,
    mcts_reward,
    mentions,
    normalize_answer,
    score_by_target,
)
from trailforge.rewards.reading import date_of, fold
from trailforge.schemas import (
    AgentCall,
    AgentTrajectory,
    ChatMessage,
    MalformedReply,
    Message,
    Question,
    SftRow,
    count_conversation,
)

_SMALL = frozenset("of in on at to for and by from".split())
_LONG, _ALIKE = 5, 0.7
"""Fewest letters of a word that may be spelt in two ways, and least similarity of two spellings ("Adolf", "Adolph")."""


def weigh_known(answer: str, golds: Sequence[str]) -> float:
    """Return how far an answer from memory agrees with a gold one: 1.0, 0.5 or 0.0.

    It is lenient, since a model that may know the answer needs no search: 1.0 where it says a gold answer and maybe
    more, has all of its words, or names its place or person ("Saginaw" for "Saginaw, Michigan"); 0.5 for a date's year,
    for the region of such a place, and for near misses: a part of the name ("Stevens" for "George Stevens") and another
    spelling of it ("Anna Amalie").
    """
    if mcts_reward(answer, golds) or cover_exact_match(answer, golds, word_boundary=True):
        return 1.0
    return max((_weigh_part(answer, gold) for gold in golds), default=0.0)


def _weigh_part(answer: str, gold: str) -> float:
    said, wanted = normalize_answer(answer).split(), normalize_answer(gold).split()
    date = date_of(fold(gold))
    if date is not None:
        return 0.5 * (str(date[0]) in said)
    named, (name, *around) = normalize_answer(answer.partition(", ")[0]), map(normalize_answer, gold.split(", "))
    if wanted and (set(wanted) - _SMALL <= set(said) or (around and named == name)):
        return 1.0
    is_part = mentions(gold, answer) and is_near_miss(answer, (gold,))
    return 0.5 * (is_part or (bool(named) and named in around) or is_spelt_otherwise(said, wanted))


def is_spelt_otherwise(first: Sequence[str], second: Sequence[str]) -> bool:
    """Tell whether two names differ only in the spelling of one long word: "Anna Amalie", "Anna Amalia". Numbers do not
    count."""
    if len(first) != len(second):
        return False
    differing = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    if len(differing) != 1 or len(first) < 2 or min(map(len, differing[0])) < _LONG:
        return False
    one, other = differing[0]
    is_word = one.isalpha() and other.isalpha() and one[0] == other[0]
    return is_word and SequenceMatcher(None, one, other).ratio() >= _ALIKE


def derive_fields(row: AgentTrajectory, question: Question, judge: JudgeOptions | None = None) -> dict[str, Any]:
    """Return the fields of a row that follow from its question, its transcript and the judge's score. An answer is also
    right when it is the title of a passage it read about the gold answer, or when the judge accepts it.
    """
    old = row.episode
    browse = None if old.browse is None else with_gold(old.browse, gold_pages(question))
    run = AgentRun(
        answer=old.answer,
        stop=old.stop,
        messages=old.messages,
        searches=old.searches,
        calls=old.calls,
        browse=browse,
    )
    asked = {"question_id": question.id, "dataset": question.dataset, "question": question.question}
    episode = replace(old, **asked, golds=question.golds, scores=score_run(question, run), browse=browse)
    is_titled = is_title_of_gold(old.answer, read_by(replace(row, episode=episode)), question.golds)
    if is_titled or (judge is not None and judge.accepts(old.scores.judge)):
        episode = replace(episode, scores=replace(episode.scores, right=1.0))
    episode = replace(episode, failures=tag_failures(episode))
    # By `right` alone: an answer that half satisfies a judge is none of ours.
    episode = replace(episode, scores=replace(episode.scores, judge=old.scores.judge))
    return {
        "uid": hashlib.sha256(f"{old.uid}\0{row.sample}".encode()).hexdigest()[:16],
        "question_id": question.id,
        "agent": old.agent,
        "episode": episode,
        "gold_hops": question.decomposition,
        "num_hops": question.hop_count or 0,
        "token_estimate": count_conversation(old.messages),
    }


def with_shares(rows: Sequence[AgentTrajectory]) -> list[AgentTrajectory]:
    """Return all draws on a question with the number of draws and of right ones filled in; admitted guesses do not
    count as right.
    """
    right = sum(row.episode.scores.right >= 1.0 and not admission_of(row) for row in rows)
    return [replace(row, draws=len(rows), right_draws=right) for row in rows]


def with_verdict(row: AgentTrajectory, score: float | None, keys: Sequence[str]) -> AgentTrajectory:
    """Return the row with a judge's score of its answer, and the ledger keys of the calls behind the score; with score
    None, the row as it is.
    """
    if score is None:
        return row
    scores = replace(row.episode.scores, judge=score)
    calls = tuple(dict.fromkeys((*row.provenance.call_keys, *keys)))
    episode, provenance = replace(row.episode, scores=scores), replace(row.provenance, call_keys=calls)
    return replace(row, episode=episode, provenance=provenance)


def searches_match(row: AgentTrajectory) -> bool:
    """Tell whether the row's answer and searches agree with its conversation; True for a conversation that follows no
    protocol.
    """
    if not row.sft_protocol:
        return True
    if row.episode.browse is not None:
        return is_like_messages(row)
    grammar, episode = PROTOCOLS[row.sft_protocol], row.episode
    turns = [message.content for message in episode.messages if message.role == "assistant"]
    try:
        read = [grammar.parse_turn(turn) for turn in turns]
    except MalformedReply:
        return False
    queries = [turn.search.query for turn in read if turn.search is not None]
    is_asked = any(episode.question in message.content for message in episode.messages if message.role == "user")
    return (
        is_asked and bool(read) and queries == [s.query for s in episode.searches] and read[-1].answer == episode.answer
    )


def sft_rows(row: AgentTrajectory, *, data_source: str) -> list[SftRow]:
    """Return the training rows of an episode.

    That is the whole conversation as one row where it follows a protocol that our trainers know; for an agent whose
    calls are kept as sent, one row for its conversation and one for each call whose reply was used, unless that call
    was corrected; for an agent that opens pages, one row for each context window.
    """
    if (record := row.episode.browse) is not None:
        return window_rows(_sft_row(row, (), row.uid, data_source), record)
    told_off = (NO_MORE_SEARCHES, SEARCHED_BEFORE, SEARCH_R1_INVALID)
    if row.sft_protocol:
        return [_sft_row(row, row.episode.messages, row.uid, data_source)]
    messages = row.episode.messages
    if not row.sft_calls or any(each in message.content for each in told_off for message in messages):
        return []
    calls = enumerate(build_exchange(call.prompt, call.reply) for call in used_calls(row.episode.calls))
    made = (_sft_row(row, exchange, f"{row.uid}-call-{number}", data_source) for number, exchange in calls)
    return [_sft_row(row, messages, row.uid, data_source), *made]


def used_calls(calls: Sequence[AgentCall]) -> list[AgentCall]:
    """Return the calls whose replies were complete and readable, without those of a step that was repeated or lost."""
    later = [*(call.purpose for call in calls[1:]), ""]
    return [
        call
        for call, then in zip(calls, later, strict=False)
        if call.reply.strip()
        and not call.is_cut
        and not call.purpose.endswith(LOST)
        and then not in (f"{call.purpose}{AGAIN}", f"{call.purpose}{LOST}")
        and (call.purpose != READING or FOUND in call.reply)
    ]


def _sft_row(row: AgentTrajectory, messages: Sequence[Message], uid: str, data_source: str) -> SftRow:
    """A row of turns of it: of those that the agent wrote all are learnt."""
    episode, said = row.episode, tuple(ChatMessage(role=m.role, content=m.content) for m in messages)
    truth = make_truth(row.golds, protocol=row.sft_protocol if row.sft_protocol in PROTOCOLS else REACT.name)
    is_titled = is_title_of_gold(episode.answer, read_by(row), row.golds)
    return SftRow(
        uid=uid,
        trajectory_uid=row.uid,
        data_source=data_source,
        messages=said,
        train=tuple(m.train for m in messages),
        protocol=row.sft_protocol,
        question_id=row.question_id,
        question=episode.question,
        answer=row.golds[0],
        answer_aliases=row.golds[1:],
        trajectory_kind="correct",
        reflection_error=None,
        origin="policy",
        segment_index=0,
        segment_count=1,
        num_tool_calls=len(episode.browse.calls if episode.browse else episode.searches) if uid == row.uid else 0,
        num_hops=row.num_hops,
        token_estimate=row.token_estimate if uid == row.uid else count_conversation(said),
        reward=score_by_target(episode.answer, row.golds),
        provenance=row.provenance,
        right_by=find_right_by(episode.answer, truth, "title" if is_titled else "judge"),
    )


def without_time(run: AgentRun) -> AgentRun:
    """Return a run as a row stores it: without times, and without texts that its messages already contain."""
    searches = tuple(replace(search, seconds=0.0) for search in run.searches)
    browse = run.browse
    if browse is not None:
        browse = replace(browse, calls=tuple(replace(call, seconds=0.0) for call in browse.calls))
    return replace(run, searches=searches, browse=browse, shown=())
