"""The stage of selection: no question twice, none of a benchmark, and an order from easy to hard."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.pipelines.support import stage_run
from tests.support.bundle_questions import question
from tests.support.files import contents
from trailforge.generators.document_bundles.config import BundleOutputConfig, BundleRunConfig, SelectionConfig
from trailforge.generators.document_bundles.stages import selection
from trailforge.generators.document_bundles.stages.selection import order_rows, select, select_distinct
from trailforge.generators.select_stage import only_shard
from trailforge.pipelines.engine.shards import Shard, read_receipt
from trailforge.pipelines.runs.accounting import check_balance
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import (
    BundleHop,
    BundleQuestion,
    InvalidInput,
    RejectedRow,
    from_dict,
    read_parquet,
    read_rows,
    write_parquet,
)

QUESTIONS = (
    "Which engineer drew the crane that lifted the bells of Lund?",
    "Who planted the orchard behind the paper mill of Ystad?",
    "In which year did the ferry to Borgholm carry the printing press?",
    "Why was the tower clock of Kalmar taken to Riga?",
)
ASKED_AGAIN = "Who was it that drew the crane which lifted the bells of Lund?"


class WordEncoder:
    """A text is the sum of directions of its words: the more words two texts share, the nearer they are."""

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of length 1."""
        rows = [sum(self._direction(word) for word in text.casefold().strip("?").split()) for text in texts]
        return np.stack([row / np.linalg.norm(row) for row in rows]).astype(np.float32)

    def _direction(self, word: str) -> Any:
        return np.random.default_rng(list(word.encode())).normal(size=64)


ENCODER: Any = WordEncoder()


def asked(*texts: str, **changes: Any) -> list[BundleQuestion]:
    """Each with an answer and evidence of its own; `ASKED_AGAIN` has the answer of the first."""
    return [_asked(n, text, curriculum_stage=0, **changes) for n, text in enumerate(texts)]


def _asked(number: int, text: str, **changes: Any) -> BundleQuestion:
    answer = QUESTIONS[0] if text == ASKED_AGAIN else text
    hops = (BundleHop(document_id="arxiv:2", evidence=text, reasoning=""),)
    return question(uid=f"q{number}", question=text, answer=answer, hops=hops, **changes)


def sifted(rows: list[BundleQuestion], **config: Any) -> tuple[list[str], list[tuple[str, str]]]:
    encoder: Encoder = ENCODER
    kept, rejected = select_distinct(rows, encoder, SelectionConfig(**config))
    return [row.uid for row in kept], [(row.uid, verdict.reason) for row, verdict in rejected]


def benchmark(folder: Path, *texts: str, name: str = "bench.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps({"question": text}) + "\n" for text in texts))
    return str(path)


def test_different_questions_stay_with_two_more_scores() -> None:
    rows = asked(*QUESTIONS)
    kept, rejected = select_distinct(rows, ENCODER, SelectionConfig())
    assert rejected == [] and [row.uid for row in kept] == ["q0", "q1", "q2", "q3"]
    for row in kept:
        assert [(s.name, s.passed) for s in row.filters] == [("duplicate_question", True), ("contaminated", True)]
    assert kept[0].filters[0].score == 0.0 < kept[1].filters[0].score < 0.9


def test_of_two_that_ask_the_same_the_first_stays() -> None:
    same_words = QUESTIONS[0].upper().replace("?", " ?!")
    kept, rejected = sifted(asked(*QUESTIONS[:2], ASKED_AGAIN, same_words), most_alike=0.7)
    assert kept == ["q0", "q1"]
    assert rejected == [("q2", "duplicate_question"), ("q3", "duplicate_question")]
    assert sifted(asked(*QUESTIONS[:2], ASKED_AGAIN), most_alike=0.99)[1] == []


def test_a_copy_of_a_rejected_question_is_no_copy(tmp_path: Path) -> None:
    """A question of a benchmark takes no other down with it."""
    file = benchmark(tmp_path, QUESTIONS[0])
    rows = asked(QUESTIONS[0], ASKED_AGAIN)
    kept, rejected = sifted(rows, benchmarks=(file,), most_alike=0.5, benchmark_words=20, most_alike_benchmark=0.95)
    assert (kept, rejected) == (["q1"], [("q0", "contaminated")])


def test_a_run_of_words_shared_with_a_benchmark_rejects_and_names_its_file(tmp_path: Path) -> None:
    files = (
        benchmark(tmp_path, "Say it: who planted the orchard behind the paper mill?"),
        benchmark(tmp_path, *QUESTIONS[3:], name="b.jsonl"),
    )
    encoder: Encoder = ENCODER
    kept, rejected = select_distinct(
        asked(*QUESTIONS), encoder, SelectionConfig(benchmarks=files, most_alike_benchmark=1.1)
    )
    assert [row.uid for row in kept] == ["q0", "q2"]
    assert [(row.uid, verdict.score, verdict.detail.split(" ")[0]) for row, verdict in rejected] == [
        ("q1", 1.0, "bench.jsonl"),
        ("q3", 1.0, "b.jsonl"),
    ]
    assert sifted(asked(*QUESTIONS), benchmarks=files[:1], benchmark_words=9)[1] == []


def test_the_meaning_of_a_benchmark_rejects_without_a_shared_run_of_words(tmp_path: Path) -> None:
    file = benchmark(tmp_path, ASKED_AGAIN)
    first, second = ENCODER.encode_documents([ASKED_AGAIN, QUESTIONS[0]])
    near = float(first @ second)
    assert sifted(asked(*QUESTIONS), benchmarks=(file,), most_alike_benchmark=near - 0.01)[1] == [
        ("q0", "contaminated")
    ]
    assert sifted(asked(*QUESTIONS), benchmarks=(file,), most_alike_benchmark=near + 0.01)[1] == []


def test_a_benchmark_that_is_half_read_stops_the_run(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    path.write_text('{"question": "Who?"}\n{"answer": "nobody"}\n')
    with pytest.raises(InvalidInput, match=r"bench\.jsonl, row 2: no question"):
        sifted(asked(*QUESTIONS), benchmarks=(str(path),))


COMPLEXITIES = st.lists(st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.5, 0.8]) | st.floats(0, 1), max_size=40)


@given(COMPLEXITIES, st.integers(1, 6), st.randoms(use_true_random=False))
@example([0.5] * 7, 3, random.Random(0))
def test_a_curriculum_goes_from_easy_to_hard(complexities: list[float], stages: int, rng: random.Random) -> None:
    rows = [question(uid=f"{n:03d}", complexity=value) for n, value in enumerate(complexities)]
    ordered = order_rows(rows, stages)
    assert [row.complexity for row in ordered] == sorted(complexities)
    numbers = [row.curriculum_stage for row in ordered]
    assert numbers == sorted(numbers) and set(numbers) <= set(range(1, stages + 1))
    assert len({(row.complexity, row.curriculum_stage) for row in ordered}) == len(set(complexities))
    rng.shuffle(rows)
    assert order_rows(rows, stages) == order_rows(ordered, stages) == ordered


@given(st.integers(1, 60), st.integers(1, 6))
def test_stages_of_questions_that_are_all_differently_hard_are_as_large_as_they_can_be(count: int, stages: int) -> None:
    ordered = order_rows([question(uid=f"{n:03d}", complexity=n / 100) for n in range(count)], stages)
    sizes = Counter(row.curriculum_stage for row in ordered)
    assert set(sizes.values()) <= {count // stages, -(-count // stages)}
    assert ordered[0].curriculum_stage == 1 and len(sizes) == min(count, stages)


def candidates(folder: Path, *shards: list[BundleQuestion]) -> list[Shard]:
    """As the stage before leaves them; a bundle without any has no file."""
    (folder / "candidates").mkdir(parents=True)
    for number, rows in enumerate(shards):
        if rows:
            write_parquet(folder / "candidates" / f"part-{number}.parquet", BundleQuestion, rows)
    return [
        Shard(name=f"part-{n}", input=f"bundle_inputs/part-{n}.parquet", first=n, rows=1) for n in range(len(shards))
    ]


@pytest.fixture
def _by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "encoder_of", lambda config: ENCODER)


@pytest.mark.usefixtures("_by_words")
def test_rows_are_written_in_order_with_a_shard_for_each_file(tmp_path: Path) -> None:
    rows = [
        _asked(n, text, complexity=c)
        for n, (text, c) in enumerate(zip((*QUESTIONS, QUESTIONS[0]), (0.9, 0.2, 0.5, 0.1, 0.3), strict=True))
    ]
    shards = candidates(tmp_path, rows[:2], [], rows[2:])
    config = BundleRunConfig(selection=SelectionConfig(stages=2), output=BundleOutputConfig(questions_per_shard=3))
    select(stage_run(tmp_path, config, [only_shard(shards)], shards))
    receipt = read_receipt(tmp_path, only_shard(shards))
    assert [(shard.first, shard.rows) for shard in receipt.shards] == [(0, 3), (3, 1)]
    found = [row for shard in receipt.shards for row in read_parquet(tmp_path / shard.input, BundleQuestion)]
    assert [(row.uid, row.curriculum_stage) for row in found] == [("q3", 1), ("q1", 1), ("q2", 2), ("q0", 2)]
    (left,) = read_rows(sorted(tmp_path.glob("rejected/*.parquet")), RejectedRow)
    assert (left.uid, left.stage, left.reason) == ("q4", "select", "duplicate_question") and "q0" in left.detail
    assert from_dict(BundleQuestion, json.loads(left.payload)) == rows[4]
    check_balance(receipt.stages)
    assert [(line.inputs, line.accepted) for line in receipt.stages] == [(5, 4)]
    before = contents(tmp_path)
    select(stage_run(tmp_path, config, [only_shard(shards)], shards))
    assert contents(tmp_path) == before
    (tmp_path / "shards" / "selection.json").unlink()
    select(stage_run(tmp_path, config, [only_shard(shards)], shards))
    assert contents(tmp_path) == before


@pytest.mark.usefixtures("_by_words")
def test_without_any_candidate_there_are_no_rows_and_the_books_say_so(tmp_path: Path) -> None:
    shards = candidates(tmp_path, [], [])
    select(stage_run(tmp_path, BundleRunConfig(), [only_shard(shards)], shards))
    receipt = read_receipt(tmp_path, only_shard(shards))
    assert receipt.shards == () and [(line.inputs, line.accepted) for line in receipt.stages] == [(0, 0)]
    assert not (tmp_path / "bundle_questions").exists() and not (tmp_path / "rejected").exists()
