"""Kept rows of runs through the rewards of their exports, as every trainer calls them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from trailforge.pipelines.datasets import load_dataset
from trailforge.schemas import SftRow
from trailforge.training.adapters import slime, trl, verl
from trailforge.training.exports import export
from trailforge.training.scoring import ToScore, read_truth, scorer_of
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.runs import open_runs

SAME_PARTS = {
    ("react", "correct"): "f1",
    ("graph_r1", "answer"): "f1",
    ("search_r1", "exact_match"): "exact_match",
    ("kg_search", "total"): "total",
    ("r_search", "total"): "total",
}
"""By protocol and the part of its reward, the part of an SFT row that says the same."""


@dataclass
class Compared:
    """What came of it."""

    equal: list[str] = field(default_factory=list)
    """Rows that are paid what their filters found, by every trainer."""
    listed: dict[str, str] = field(default_factory=dict)
    """Rows whose answer their reward does not pay in full, by what finds it right."""


def compare_rewards(runs: Sequence[Path], folder: Path) -> Compared:
    """Hold every kept row against every export's reward; asserts that what both have is equal.

    A row that the reward does not find right must say so, and its question is in no export; R-Search's stays, whose
    reward asks a judge.
    """
    config = ViewConfig(validation_share=0.0, unstated="mark", max_known_share=1.0)
    make_training_set(runs, folder / "set", config)
    truths = {name: dict(_truths(folder, name)) for name in ("verl", "slime", "trl", "openrlhf")}
    assert len({tuple(sorted(found.items())) for found in truths.values()}) == 1
    compared = Compared()
    for row, product in _kept(runs):
        where = (row.protocol, row.question)
        if row.right_by == "target":
            assert where in truths["verl"], (row.uid, "is paid in full, but no export asks its question")
            _check_row(row, product, truths["verl"][where])
            compared.equal.append(row.uid)
        else:
            assert row.right_by is not None
            assert row.protocol == "r_search" or where not in truths["verl"], (row.uid, row.right_by)
            compared.listed[row.uid] = row.right_by
    return compared


def pay_by(reward: str, runs: Sequence[Path], folder: Path) -> list[float]:
    """What kept rows are paid where questions name another reward, by their export for verl."""
    make_training_set(runs, folder / "set", ViewConfig(validation_share=0.0, unstated="mark", reward=reward))
    truths = dict(_truths(folder, "verl"))
    rows = [row for row, _ in _kept(runs) if (row.protocol, row.question) in truths]
    return [
        verl.compute_score("run", "", truths[row.protocol, row.question], {"transcript": _chat(row)})["score"]
        for row in rows
    ]


def _chat(row: SftRow) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in row.messages]


def _truths(folder: Path, trainer: str) -> Iterator[tuple[tuple[str, str], str]]:
    """By protocol and question the ground truth of an export, as text."""
    asked = {row["uid"]: row["question"] for row in pq.read_table(folder / "set" / "rl" / "train").to_pylist()}
    export(folder / "set", trainer, folder / trainer)
    for row in pq.read_table(folder / trainer / "rl" / "train.parquet").to_pylist():
        truth = row.get("ground_truth") or row.get("label") or row["reward_model"]["ground_truth"]
        uid = row.get("uid") or row["extra_info"]["uid"]
        yield (json.loads(truth)["protocol"], asked[uid]), truth


def _kept(runs: Sequence[Path]) -> Iterator[tuple[SftRow, Any]]:
    """SFT rows with the rows that they were made of."""
    for run in open_runs(runs):
        dataset = load_dataset(run.dataset)
        name = dataset.conversations
        record = dataset.all_tables[name].record if name else None
        products = {row.uid: row for row in run.rows(name, record)} if record and run.files(name) else {}
        for row in run.rows("sft", SftRow):
            yield row, products.get(row.trajectory_uid)


def _check_row(row: SftRow, product: Any, truth: str) -> None:
    """What filters found and what each trainer pays."""
    transcript = _chat(row)
    scored = ToScore(messages=row.messages, truth=read_truth(truth))
    paid = scorer_of(None).begin(scored).reward()
    parts: Mapping[str, float | None] = {**paid.parts, "total": paid.total}
    found = {part: getattr(row.reward, own) for (protocol, part), own in SAME_PARTS.items() if protocol == row.protocol}
    own = getattr(product, "reward", None)
    found |= {name: getattr(own, name) for name in parts if hasattr(own, name) and row.protocol != "react"}
    assert found, row.protocol
    for name, value in found.items():
        assert parts[name] == pytest.approx(value, abs=1e-9), (row.uid, name)
    by_verl = verl.compute_score("run", "", truth, {"transcript": transcript})["score"]
    sample = SimpleNamespace(
        response="", response_length=None, label={"ground_truth": truth}, metadata={"transcript": transcript}
    )
    by_slime = asyncio.run(slime.reward(SimpleNamespace(), sample))
    (by_trl,) = trl.reward(prompts=[""], completions=[transcript], ground_truth=[truth])
    as_text = "\n".join(message.content for message in row.messages if message.role in ("assistant", "tool"))
    by_text = verl.compute_score("run", as_text, truth)["score"]
    # OpenRLHF and verifiers, which are not installed here, name the protocol and count tokens.
    named = replace(scored, question=row.question, tokens=row.token_estimate)
    by_others = scorer_of(None, row.protocol).begin(named).reward().total
    ways = {"verl": by_verl, "slime": by_slime, "trl": by_trl, "text": by_text, "others": by_others}
    assert ways == pytest.approx(dict.fromkeys(ways, paid.total), abs=1e-9), row.uid
