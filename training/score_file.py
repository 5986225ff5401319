"""Compute the rewards of episodes in a file: transcripts as JSON Lines, or rows of our data sets as Parquet.

A line of JSON has `messages` (or the whole episode as `text`) and either `ground_truth`, as in RL rows, or `answer`
with, where they are known, `answer_aliases`, `options`, `correct_options`, `num_hops`, `support_titles`,
`support_texts` (as many), `allowed_tools`, and `protocol`. It may have `uid`, `question`, `tokens`, `retrieved_titles`
and `judge`. An `answer` is compared as it is, with its aliases; a `ground_truth` has its names by rule too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.inference.judge import JudgeConfig
from trailforge.pipelines import dataset_names, load_dataset, resolve
from trailforge.protocols import PROTOCOLS, R_SEARCH, ToScore, grammar_of, make_truth, split_text
from trailforge.rewards.episode import Reward, RewardPreset, reward_preset
from trailforge.schemas import (
    ChatMessage,
    GroundTruth,
    InvalidInput,
    SftRow,
    estimate_tokens,
    iter_parquet,
    json_lines,
    located,
    stored_name,
)
from trailforge.training.scoring import Pending, Scorer, read_messages, read_truth

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
    """An episode with its reward."""

    row: int
    """The episode's place in the file, from 1."""
    uid: str
    """The episode's `uid`; empty where the file has none."""
    reward: Reward
    recorded: float | None = None
    """The total that the row itself holds; None unless its reward is of the kind that was asked for."""


@dataclass(frozen=True, slots=True)
class _Item:
    """An episode as the file has it."""

    uid: str
    episode: ToScore
    recorded: float | None = None
    """The total that the row holds, by the reward of its protocol."""


def score_episodes(
    path: Path, preset: RewardPreset, *, protocol: str | None = None, judge: JudgeConfig | None = None
) -> Iterator[ScoredRow]:
    """Score every episode of a file, in order.

    `protocol` is that of lines that name none. `judge` is asked for answers whose score the file does not give. Missing
    lengths are estimated. Raises `InvalidInput` naming file, row and field, and what a judge raises.
    """
    scorer = Scorer(preset=preset, judge=judge)
    items = _parquet(path) if path.suffix == ".parquet" else _json_lines(path, protocol)
    while window := list(islice(items, _JUDGED_AT_ONCE)):
        begun: list[tuple[int, _Item, Pending]] = []
        for row, item in window:
            with _located(path, row):
                begun.append((row, item, scorer.begin(_measured(item.episode))))
        for row, item, pending in begun:
            with _located(path, row):
                reward = pending.reward()
            own = reward_preset(grammar_of(item.episode.truth.protocol).reward)
            yield ScoredRow(
                row=row, uid=item.uid, reward=reward, recorded=item.recorded if own.kind == preset.kind else None
            )


def _measured(episode: ToScore) -> ToScore:
    """The same with its length, by the rule of `schemas.estimate_tokens` where it is not known."""
    said = (message.content for message in episode.messages if message.role in ("assistant", "tool"))
    return episode if episode.tokens is not None else replace(episode, tokens=sum(map(estimate_tokens, said)))


@contextmanager
def _located(path: Path, row: int) -> Iterator[None]:
    """Names file and row in what goes wrong inside."""
    try:
        with located(file=path, row=row):
            yield
    except ValueError as error:
        raise InvalidInput(str(error), file=path, row=row) from error


# JSON Lines


def _json_lines(path: Path, protocol: str | None) -> Iterator[tuple[int, _Item]]:
    for row, line in json_lines(path):
        with _located(path, row):
            item = _item(line, protocol)
        yield row, item


def _item(line: Any, protocol: str | None) -> _Item:
    if not isinstance(line, dict):
        raise InvalidInput(f"expected an object as JSON in each line, got {type(line).__name__}")
    if unknown := sorted(line.keys() - _KEYS):
        raise InvalidInput(f"unknown; expected some of {', '.join(sorted(_KEYS))}", field=unknown[0])
    truth = _possible(read_truth(line["ground_truth"])) if "ground_truth" in line else _truth(line, protocol)
    episode = ToScore(
        messages=_conversation(line, truth.protocol),
        truth=truth,
        question=_text(line, "question"),
        tokens=_number(line, "tokens", int, least=0),
        retrieved_titles=_texts(line, "retrieved_titles") if line.get("retrieved_titles") is not None else None,
        judge=_number(line, "judge", float),
    )
    return _Item(str(line.get("uid", "")), episode)


def _conversation(line: Mapping[str, Any], protocol: str) -> tuple[ChatMessage, ...]:
    if "messages" in line:
        return read_messages(line["messages"])
    if not isinstance(line.get("text"), str):
        raise InvalidInput("expected a list of messages, or the whole episode as one text", field="messages")
    return split_text(line["text"], protocol)


def _truth(line: Mapping[str, Any], protocol: str | None) -> GroundTruth:
    if not isinstance(answer := line.get("answer"), str):
        raise InvalidInput("expected the right answer as text, or the field ground_truth", field="answer")
    named = line.get("protocol") or protocol
    if not isinstance(named, str):
        raise InvalidInput("missing; name it in the line or with --protocol", field="protocol")
    aliases = _texts(line, "answer_aliases")
    if not answer.strip():
        raise InvalidInput("must not be blank", field="answer")
    if not all(alias.strip() for alias in aliases):
        raise InvalidInput("must not be blank", field="answer_aliases")
    golds = tuple(dict.fromkeys((answer, *aliases)))
    truth = make_truth(
        golds,
        protocol=named,
        options=_texts(line, "options"),
        correct_options=_texts(line, "correct_options"),
        num_hops=_number(line, "num_hops", int, least=1),
        support_titles=_texts(line, "support_titles"),
        support_texts=_texts(line, "support_texts"),
        allowed_tools=_texts(line, "allowed_tools"),
    )
    return _paired(replace(truth, target=golds))  # as papers compare: other names by rule are for training


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


# Rows of our data sets


def _parquet(path: Path) -> Iterator[tuple[int, _Item]]:
    try:
        metadata = pq.read_schema(path).metadata or {}
        name = metadata.get(b"trailforge.record", b"").decode()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidInput(f"not a readable Parquet file ({error})", file=path) from error
    readers = _readers()
    if name not in readers:
        raise InvalidInput(f"holds {name or 'no trailforge'} rows, expected one of {', '.join(readers)}", file=path)
    record, read = readers[name]
    rows = (row for batch in iter_parquet(path, record) for row in batch)
    for number, row in enumerate(rows, 1):
        if (item := read(row)) is not None:
            yield number, item


def _readers() -> dict[str, tuple[type, Callable[[Any], _Item | None]]]:
    """How rows that hold episodes are read, by their record: SFT rows, and those whose table says how."""
    tables = (table for name in dataset_names() for table in load_dataset(name).tables.values())
    told = {
        stored_name(table.record): (table.record, partial(_stored, resolve(table.transcript)))
        for table in tables
        if table.transcript is not None
    }
    return {stored_name(SftRow): (SftRow, _sft), **dict(sorted(told.items()))}


def _stored(transcript: Callable[[Any], ToScore], row: Any) -> _Item:
    return _Item(row.uid, transcript(row), row.reward.total)


def _sft(row: SftRow) -> _Item | None:
    """Of a conversation that is cut into segments, the last one, which holds it whole; None for the others, and for
    what is in no protocol, which no reward reads."""
    if row.segment_index != row.segment_count - 1 or row.protocol not in PROTOCOLS:
        return None
    # These rows do not say whether a question has options; the gold answer to one that has is its letters.
    is_choice = row.protocol == R_SEARCH.name and _LETTERS.fullmatch(row.answer)
    truth = make_truth(
        (row.answer, *row.answer_aliases),
        protocol=row.protocol,
        correct_options=tuple(row.answer.split(", ")) if is_choice else (),
        num_hops=row.num_hops or None,
    )
    return _Item(row.uid, ToScore(messages=row.messages, truth=truth, question=row.question))
