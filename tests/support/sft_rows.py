"""SFT rows of conversations that a test makes up."""

from __future__ import annotations

from collections.abc import Sequence

from trailforge.rewards import score_answer
from trailforge.schemas import ChatMessage, Provenance, SftRow, estimate_tokens


def sft_row(
    uid: str,
    messages: Sequence[ChatMessage],
    *,
    protocol: str,
    question: str,
    answer: str,
    question_id: str = "",
    data_source: str = "mcts_trajectories",
    hops: int = 1,
) -> SftRow:
    """A whole conversation with the right answer, every turn of the agent trained."""
    return SftRow(
        uid=uid,
        trajectory_uid=uid,
        data_source=data_source,
        messages=tuple(messages),
        train=tuple(message.role == "assistant" for message in messages),
        protocol=protocol,
        question_id=question_id or uid,
        question=question,
        answer=answer,
        answer_aliases=(),
        trajectory_kind="correct",
        reflection_error=None,
        origin="policy",
        segment_index=0,
        segment_count=1,
        num_tool_calls=1,
        num_hops=hops,
        token_estimate=sum(estimate_tokens(message.content) for message in messages),
        reward=score_answer(answer, [answer]),
        right_by="target",
        provenance=Provenance(
            run_id="r", source_id=question_id or uid, model="m", prompt_version="0", seed=0, call_keys=()
        ),
    )
