"""Turn conversations into rows for supervised fine-tuning (SFT)."""

from __future__ import annotations

from dataclasses import replace

from trailforge.schemas import ChatMessage, KgTrajectory, RightBy, SearchEpisode, SftRow, Trajectory, TrajectoryReward


def whole_conversation(
    row: Trajectory | SearchEpisode | KgTrajectory,
    *,
    data_source: str,
    protocol: str,
    reward: TrajectoryReward,
    right_by: RightBy,
) -> SftRow:
    """Return a row's whole conversation as an SFT row, with the loss on the turns that are marked for it (`train`).
    `right_by` says by what the answer counts as right.
    """
    return SftRow(
        uid=row.uid,
        trajectory_uid=row.uid,
        data_source=data_source,
        messages=tuple(ChatMessage(role=m.role, content=m.content) for m in row.messages),
        train=tuple(m.train for m in row.messages),
        protocol=protocol,
        question_id=row.question_id,
        question=row.question,
        answer=row.answer,
        answer_aliases=row.answer_aliases,
        trajectory_kind="correct",
        reflection_error=None,
        origin=row.origin,
        segment_index=0,
        segment_count=1,
        num_tool_calls=row.num_tool_calls,
        num_hops=row.num_hops,
        token_estimate=row.token_estimate,
        reward=reward,
        provenance=row.provenance,
        right_by=right_by,
    )


def without_answer(row: SftRow) -> SftRow:
    """Return an SFT row that teaches only the searches of a conversation with a wrong answer: there is no loss on its
    last turn.
    """
    return replace(row, train=(*row.train[:-1], False), right_by=None, is_wrong=True)
