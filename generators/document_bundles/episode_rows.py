"""Turn R-Search episodes into rows: the fields that follow from question and conversation, and the rows for
training."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trailforge.generators.sft_rows import whole_conversation
from trailforge.protocols import R_SEARCH, ToScore, find_right_by, make_truth, nl_dag, read_transcript
from trailforge.rewards import episode as rewards
from trailforge.rewards import evidence_recall, score_by_target, score_choice
from trailforge.schemas import (
    BundleQuestion,
    GroundTruth,
    Message,
    PlannedSearch,
    RSearchReward,
    SearchEpisode,
    SftRow,
    count_conversation,
)


def derive_fields(messages: Sequence[Message], row: BundleQuestion, score: float) -> Mapping[str, Any]:
    """Return the fields of an episode that follow from its question `row`, its conversation and `score`, the score of
    its answer from 0 to 1. Options are compared as the reward compares them, so that naming all of them earns nothing.
    """
    truth = make_truth((), protocol=R_SEARCH.name, options=row.options, correct_options=row.correct_options)
    paid = rewards.score(
        read_transcript(messages, R_SEARCH.name),
        truth,
        rewards.reward_preset(R_SEARCH.reward),
        judge=None if row.options else score,
    )
    parts: dict[str, Any] = {**paid.parts}
    return {
        "question_id": row.uid,
        "question": row.asked().text,
        "type": row.type,
        "answer": row.asked().golds[0],
        "answer_aliases": () if row.options else row.aliases,
        "options": row.options,
        "correct_options": row.correct_options,
        "final_answer": R_SEARCH.answer_of(messages),
        "num_hops": len(row.hops),
        "token_estimate": count_conversation(messages),
        "reward": RSearchReward(total=paid.total, **parts),
    }


def episode_sft_row(episode: SearchEpisode) -> SftRow:
    """Return the whole conversation as one row with the loss on its two assistant turns. `reward.total` is the
    episode's reward; its other parts compare the final answer with the gold answer.
    """
    if episode.options:
        reward = score_choice(episode.final_answer, episode.correct_options)
    else:
        reward = score_by_target(episode.final_answer, (episode.answer, *episode.answer_aliases))
    reward = replace(reward, total=episode.reward.total)
    otherwise = "key_facts" if episode.scored_by == "key_facts" else "judge"
    right_by = find_right_by(episode.final_answer, _truth_of(episode), otherwise)
    return whole_conversation(episode, data_source="episodes", protocol=R_SEARCH.name, reward=reward, right_by=right_by)


def uid_of(row: BundleQuestion, messages: Sequence[Message]) -> str:
    """Return the identifier of an episode: a hash of question and conversation."""
    content = "\0".join([row.uid, *(message.content for message in messages)])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def found_evidence(row: BundleQuestion, results: Sequence[nl_dag.NodeResult]) -> float:
    """Return the share of the hops whose evidence occurs in a passage that any search found."""
    found = [passage for result in results for passage in result.passages]
    return round(evidence_recall([hop.evidence for hop in row.hops], found), 6)


def search_of(result: nl_dag.NodeResult) -> PlannedSearch:
    """Return an executed node of a plan as a row stores it."""
    node = result.node
    return PlannedSearch(
        node_id=node.node_id, query=node.query, tool=node.tool, status=result.status, passages=result.passages
    )


def transcript_of(row: SearchEpisode) -> ToScore:
    """Return an episode in the form in which the reward scores it."""
    return ToScore(
        messages=row.messages,
        question=row.question,
        truth=_truth_of(row),
        retrieved_titles=tuple(passage.title for search in row.searches for passage in search.passages),
        # A judge or key facts, which the row does not have, may have scored it.
        judge=None if row.scored_by in ("options", "words") else row.reward.answer,
    )


def _truth_of(row: SearchEpisode) -> GroundTruth:
    return make_truth(
        (row.answer, *row.answer_aliases),
        protocol=R_SEARCH.name,
        options=row.options,
        correct_options=row.correct_options,
        num_hops=row.num_hops or None,
    )
