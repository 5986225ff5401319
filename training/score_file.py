"""The rewards of episodes in a file: transcripts as JSON Lines, or rows of our data sets as Parquet.

A line of JSON has `messages` (or the whole episode as `text`) and either `ground_truth`, as in RL rows, or `answer`
with, where they are known, `answer_aliases`, `options`, `correct_options`, `num_hops`, `support_titles`,
`support_texts` (as many), `allowed_tools`, and `protocol`. It may have `uid`, `question`, `tokens`, `retrieved_titles`
and `judge`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.inference.judge import JudgeConfig
from trailforge.protocols import KG_SEARCH, R_SEARCH
from trailforge.protocols.transcripts import Spoken
from trailforge.rewards.episode import Reward
from trailforge.rewards.presets import REWARD_PRESETS, RewardPreset
from trailforge.schemas import (
    ChatMessage,
    GroundTruth,
    InvalidInput,
    KgTrajectory,
    SearchEpisode,
    SftRow,
    estimate_tokens,
    iter_parquet,
    stored_name,
)
from trailforge.schemas.files import json_lines
from trailforge.training.scoring import Pending, Scorer, ToScore, read_messages, read_truth, split_text

_TRUTH_KEYS = (
    "answer", "answer_aliases", "options", "correct_options", "num_hops", "support_titles", "support_texts",
    "allowed_tools", "protocol",
)  # fmt: skip
_KEYS = {"uid", "question", "messages", "text", "ground_truth", "tokens", "retrieved_titles", "judge", *_TRUTH_KEYS}
_JUDGED_AT_ONCE = 256
"""Rows that are read before the first is paid."""
_LETTERS = re.compile(r"[A-Z](?:, [A-Z])*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """An episode and what it is paid."""

    row: int
    """1-based place in the file."""
    uid: str
    """Empty where the file has none."""
    reward: Reward
    recorded: float | None = None
    """The total that the row itself holds; None but for rows whose reward is of the kind that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """An episode as the file has it."""

    uid: str
    messages: Sequence[Spoken]
    truth: GroundTruth
    question: str | None = None
    tokens: int | None = None
    retrieved_titles: tuple[str, ...] | None = None
    judge: float | None = None
    nearest: tuple[float | None, ...] | None = None
    recorded: float | None = None
    recorded_kind: str = ""


def score_file(
    path: Path, preset: RewardPreset, *, protocol: str | None = None, judge: JudgeConfig | None = None
) -> Iterator[ScoredRow]:
    """Every episode of a file, in order.

    `protocol`: that of lines which name none. `judge`: asked for answers whose score the file does not give. Lengths
    that it does not give are estimated. Raises `InvalidInput` naming file, row and field, and what a judge raises.
    """
    scorer = Scorer(preset=preset, judge=judge)
    items = _parquet(path) if path.suffix == ".parquet" else _json_lines(path, protocol)
    while window := list(islice(items, _JUDGED_AT_ONCE)):
        begun: list[tuple[int, _Item, Pending]] = []
        for row, item in window:
            with _located(path, row):
                begun.append((row, item, scorer.begin(_to_score(item))))
        for row, item, pending in begun:
            with _located(path, row):
                reward = pending.reward()
            recorded = item.recorded if item.recorded_kind == preset.kind else None
            yield ScoredRow(row=row, uid=item.uid, reward=reward, recorded=recorded)


def _to_score(item: _Item) -> ToScore:
    return ToScore(
        messages=item.messages,
        truth=item.truth,
        question=item.question,
        tokens=_length(item.messages) if item.tokens is None else item.tokens,
        retrieved_titles=item.retrieved_titles,
        judge=item.judge,
        nearest=item.nearest,
    )


@contextmanager
def _located(path: Path, row: int) -> Iterator[None]:
    """Names file and row in what goes wrong inside."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(error.problem, file=path, row=row, field=error.field) from error
    except ValueError as error:
        raise InvalidInput(str(error), file=path, row=row) from error


def _length(messages: Sequence[Spoken]) -> int:
    """Of everything after the prompt, by the rule of `schemas.estimate_tokens`."""
    return sum(estimate_tokens(message.content) for message in messages if message.role in ("assistant", "tool"))


# JSON Lines


def _json_lines(path: Path, protocol: str | None) -> Iterator[tuple[int, _Item]]:
    for row, line in json_lines(path):
        with _located(path, row):
            item = _item(line, protocol)
        yield row, item


def _item(line: Any, protocol: str | None) -> _Item:
    if not isinstance(line, dict):
        raise InvalidInput(f"expected an object, got {type(line).__name__}")
    if unknown := sorted(line.keys() - _KEYS):
        raise InvalidInput(f"unknown; expected some of {', '.join(sorted(_KEYS))}", field=unknown[0])
    truth = _possible(read_truth(line["ground_truth"])) if "ground_truth" in line else _truth(line, protocol)
    return _Item(
        uid=str(line.get("uid", "")),
        messages=_conversation(line, truth.protocol),
        truth=truth,
        question=_text(line, "question"),
        tokens=_number(line, "tokens", int, least=0),
        retrieved_titles=_texts(line, "retrieved_titles") if line.get("retrieved_titles") is not None else None,
        judge=_number(line, "judge", float),
    )


def _conversation(line: Mapping[str, Any], protocol: str) -> tuple[ChatMessage, ...]:
    if "messages" in line:
        return read_messages(line["messages"])
    if not isinstance(line.get("text"), str):
        raise InvalidInput("expected messages, or the episode as text", field="messages")
    return split_text(line["text"], protocol)


def _truth(line: Mapping[str, Any], protocol: str | None) -> GroundTruth:
    if not isinstance(answer := line.get("answer"), str):
        raise InvalidInput("expected a text, or a ground_truth", field="answer")
    named = line.get("protocol") or protocol
    if not isinstance(named, str):
        raise InvalidInput("missing; name it in the line or with --protocol", field="protocol")
    aliases = _texts(line, "answer_aliases")
    if not answer.strip():
        raise InvalidInput("must not be blank", field="answer")
    if not all(alias.strip() for alias in aliases):
        raise InvalidInput("must not be blank", field="answer_aliases")
    truth = _make_truth(
        (answer, *aliases),
        protocol=named,
        options=_texts(line, "options"),
        correct_options=_texts(line, "correct_options"),
        num_hops=_number(line, "num_hops", int, least=1),
        support_titles=_texts(line, "support_titles"),
        support_texts=_texts(line, "support_texts"),
        allowed_tools=_texts(line, "allowed_tools"),
    )
    return _paired(truth)


def _texts(line: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = line.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InvalidInput("expected a list of texts", field=name)
    return tuple(values)


def _text(line: Mapping[str, Any], name: str) -> str | None:
    value = line.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"expected a text, got {value!r}", field=name)
    return value


def _possible(truth: GroundTruth) -> GroundTruth:
    """The same, of a question that can be asked."""
    if not truth.target or not all(text.strip() for text in truth.target):
        raise InvalidInput("expected texts that are not blank", field="target")
    if truth.num_hops is not None and truth.num_hops < 1:
        raise InvalidInput(f"expected at least 1, got {truth.num_hops}", field="num_hops")
    return _paired(truth)


def _paired(truth: GroundTruth) -> GroundTruth:
    """The same, whose supporting documents have a text each, or none has."""
    if len(truth.support_texts) not in (0, len(truth.support_titles)):
        problem = f"{len(truth.support_texts)} texts of {len(truth.support_titles)} titles"
        raise InvalidInput(problem, field="support_texts")
    return truth


def _number(line: Mapping[str, Any], name: str, kind: type, *, least: int | None = None) -> Any:
    value = line.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, kind))):
        raise InvalidInput(f"expected a number, got {value!r}", field=name)
    if value is not None and least is not None and value < least:
        raise InvalidInput(f"expected at least {least}, got {value}", field=name)
    return value


def _make_truth(
    target: tuple[str, ...],
    *,
    protocol: str,
    options: tuple[str, ...] = (),
    correct_options: tuple[str, ...] = (),
    num_hops: int | None = None,
    support_titles: tuple[str, ...] = (),
    support_texts: tuple[str, ...] = (),
    allowed_tools: tuple[str, ...] = (),
) -> GroundTruth:
    return GroundTruth(
        target=target,
        answer_kind="options" if correct_options else "text",
        options=options,
        correct_options=correct_options,
        num_hops=num_hops,
        hops=(),
        support_titles=support_titles,
        support_texts=support_texts,
        dag_text="",
        allowed_tools=allowed_tools,
        reward_preset="",
        protocol=protocol,
    )


# Rows of our data sets


def _parquet(path: Path) -> Iterator[tuple[int, _Item]]:
    try:
        metadata = pq.read_schema(path).metadata or {}
        name = metadata.get(b"trailforge.record", b"").decode()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidInput(f"not a readable Parquet file ({error})", file=path) from error
    if name not in _ROWS:
        expected = ", ".join(stored_name(record) for record, _ in _ROWS.values())
        raise InvalidInput(f"holds {name or 'no trailforge'} rows, expected one of {expected}", file=path)
    record, item_of = _ROWS[name]
    rows = (row for batch in iter_parquet(path, record) for row in batch)
    for number, row in enumerate(rows, 1):
        if (item := item_of(row)) is not None:
            yield number, item


def _sft(row: SftRow) -> _Item | None:
    """Of a conversation that is cut into segments, the last one, which holds it whole; None for the others."""
    if row.segment_index != row.segment_count - 1:
        return None
    # These rows do not say whether a question has options; the gold answer to one that has is its letters.
    is_choice = row.protocol == R_SEARCH.name and _LETTERS.fullmatch(row.answer)
    truth = _make_truth(
        (row.answer, *row.answer_aliases),
        protocol=row.protocol,
        correct_options=tuple(row.answer.split(", ")) if is_choice else (),
        num_hops=row.num_hops or None,
    )
    return _Item(uid=row.uid, messages=row.messages, truth=truth, question=row.question)


def _kg_trajectory(row: KgTrajectory) -> _Item:
    return _Item(
        uid=row.uid,
        messages=row.messages,
        question=row.question,
        truth=_make_truth(
            row.golds,
            protocol=KG_SEARCH.name,
            num_hops=row.num_hops or None,
            support_titles=tuple(document.title for document in row.supporting),
        ),
        retrieved_titles=tuple(document.title for step in row.steps for document in step.documents),
        nearest=tuple(document.similarity for document in row.supporting),
        recorded=row.reward.total,
        recorded_kind=REWARD_PRESETS[KG_SEARCH.reward].kind,
    )


def _episode(row: SearchEpisode) -> _Item:
    return _Item(
        uid=row.uid,
        messages=row.messages,
        question=row.question,
        truth=_make_truth(
            (row.answer, *row.answer_aliases),
            protocol=R_SEARCH.name,
            options=row.options,
            correct_options=row.correct_options,
            num_hops=row.num_hops or None,
        ),
        retrieved_titles=tuple(passage.title for search in row.searches for passage in search.passages),
        # A judge or key facts, which the row does not have, may have scored it.
        judge=None if row.scored_by in ("options", "words") else row.reward.answer,
        recorded=row.reward.total,
        recorded_kind=REWARD_PRESETS[R_SEARCH.reward].kind,
    )


_ROWS: dict[str, tuple[type, Any]] = {
    "SftRow": (SftRow, _sft),
    "KgTrajectory": (KgTrajectory, _kg_trajectory),
    "SearchEpisode": (SearchEpisode, _episode),
}
"""Which rows hold episodes, and how they are read."""
