"""SFT rows and pairs of finished runs: what is against one, segments, and where the loss is taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trailforge.schemas import ChatMessage, InvalidInput, PreferenceRow, SftRow, TextSpan, Verdict
from trailforge.schemas.text import chat_token_in, count_conversation
from trailforge.training.frames import END, START
from trailforge.training.masks import pieces
from trailforge.training.sets.benchmarks import QuestionNgrams
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.lengths import Lengths

SPLIT = "split_into_segments"
"""Why a row is left out whose segments are taken in its place."""


def mistaken_claims(row: SftRow) -> tuple[TextSpan, ...]:
    """The parts of a row in which an answer is claimed that is taken back later."""
    return tuple(span for span in row.spans if span.kind == "mistake")


def segments(row: SftRow) -> Iterator[SftRow]:
    """A row for each of the agent's turns, with all before it; the loss is taken on that turn alone.

    "Split the dialogue into smaller segments" (MSearcher, section 3.2.1), which gives no rule.
    """
    turns = [index for index, train in enumerate(row.train) if train]
    for number, index in enumerate(turns):
        messages = row.messages[: index + 1]
        yield replace(
            row,
            uid=f"{row.uid}-{number}",
            messages=messages,
            train=(*(False,) * index, True),
            spans=tuple(span for span in row.spans if span.message <= index),
            segment_index=number,
            segment_count=len(turns),
            num_tool_calls=sum(message.role == "tool" for message in messages),
            token_estimate=count_conversation(messages),
        )


class SftJudge:
    """Says what is against a row. Remembers the rows it has seen, for the second of two that are the same."""

    def __init__(self, config: ViewConfig, lengths: Lengths, benchmarks: QuestionNgrams) -> None:
        self._config, self._lengths, self._benchmarks = config, lengths, benchmarks
        self._seen: set[str] = set()

    def judge(self, row: SftRow) -> tuple[Verdict | None, int]:
        """The first verdict against a whole conversation, and its length in tokens. Score: the length, 1 otherwise."""
        if row.segment_count != 1:
            return _against("per_turn_row", "segments are made of the whole conversation, which is a row too"), 0
        if row.uid in self._seen:
            return _against("duplicate_row", "the same row is in an earlier run"), 0
        self._seen.add(row.uid)
        if row.trajectory_kind == "reflective" and not self._takes(row):
            return _against("reflective", f"mends an error of {row.reflection_error}"), 0
        if problem := _malformed(row):
            return _against("malformed_row", problem), 0
        if asked := self._benchmarks.asking(row.question):
            return _against("contaminated", asked), 0
        return self._measured(row)

    def judge_segment(self, row: SftRow) -> tuple[Verdict | None, int]:
        """The same for a segment of a row that is sound."""
        verdict, tokens = self._measured(row)
        return (replace(verdict, reason="too_long") if verdict is not None else None), tokens

    def _takes(self, row: SftRow) -> bool:
        return self._config.with_reflective and row.reflection_error not in self._config.leave_out

    def _measured(self, row: SftRow) -> tuple[Verdict | None, int]:
        try:
            tokens = self._lengths.of(row.messages)
        except InvalidInput as error:
            return _against("control_token", error.problem), 0
        is_whole = row.segment_count == 1
        if is_whole and self._config.segments and sum(row.train) > 1:
            return _against(SPLIT, "segments were asked for", score=float(tokens)), tokens
        if tokens <= self._config.max_tokens:
            return None, tokens
        splits = self._config.long_rows == "segments" and is_whole and sum(row.train) > 1
        detail = f"{tokens} tokens by {self._lengths.measured_by}; at most {self._config.max_tokens}"
        return _against(SPLIT if splits else "too_long", detail, score=float(tokens)), tokens


def judge_pair(
    row: PreferenceRow, config: ViewConfig, lengths: Lengths, benchmarks: QuestionNgrams
) -> tuple[Verdict | None, int]:
    """The first verdict against a pair, and the length of both conversations in tokens."""
    both = [(*row.prompt, *end) for end in (row.chosen, row.rejected)]
    if not all(end and end[0].role == "assistant" for end in (row.chosen, row.rejected)):
        return _against("malformed_row", "an end does not begin with a turn of the agent"), 0
    if row.chosen == row.rejected:
        return _against("malformed_row", "both ends are the same"), 0
    if held := control_token(both[0]) or control_token(both[1]):
        return _against("control_token", held), 0
    if asked := benchmarks.asking(row.question):
        return _against("contaminated", asked), 0
    try:
        tokens = [lengths.of(messages) for messages in both]
    except InvalidInput as error:
        return _against("control_token", error.problem), 0
    if max(tokens) > config.max_tokens:
        detail = f"{max(tokens)} tokens by {lengths.measured_by}; at most {config.max_tokens}"
        return _against("too_long", detail, score=float(max(tokens))), sum(tokens)
    return None, sum(tokens)


def control_token(messages: tuple[ChatMessage, ...]) -> str | None:
    """Text of others that is a special token of some model: its template would take it for one. None without such text.

    What an agent wrote may hold marks of its protocol, but not those of our own template.
    """
    for number, message in enumerate(messages):
        if message.role == "assistant":
            found = next((token for token in (START, END) if token in message.content), None)
        else:
            found = chat_token_in(message.content)
        if found:
            return f"message {number} holds {found}"
    return None


def _malformed(row: SftRow) -> str:
    try:
        trained = any(piece.train for piece in pieces(row.messages, row.train))
    except InvalidInput as error:
        return error.problem
    if not trained:
        return "the loss is taken on nothing"
    return control_token(row.messages) or ""


def _against(reason: str, detail: str, *, score: float = 1.0) -> Verdict:
    return Verdict(keep=False, reason=reason, score=score, detail=detail)
