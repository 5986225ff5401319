"""Public questions with supporting facts: what an episode on them is paid, in data, training and evaluation."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import pytest

from tests.support.kg_episodes import agent, context, store, turn
from tests.support.truths import score_messages
from trailforge.generators.kg_trajectories.config import KgGeneratorConfig
from trailforge.generators.kg_trajectories.work import generate
from trailforge.pipelines.sources import read_questions
from trailforge.protocols import KG_SEARCH
from trailforge.rewards.dynasearcher import PAPER
from trailforge.rewards.episode import reward_preset
from trailforge.schemas import KgTrajectory, Question
from trailforge.training.sets.runs import ground_truth

FILES = {
    "hotpotqa/hotpotqa.jsonl.gz": {"bridge", "comparison"},
    "2wikimultihopqa/2wiki_context.jsonl.gz": {"comparison", "bridge_comparison"},
}
CONFIG = KgGeneratorConfig(episodes=1, top_k=3, kg_filter="none", self_check="off", reward="paper")


def questions(path: Path, kinds: set[str], most: int) -> list[Question]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        wanted = [json.loads(line)["type"] in kinds for line in lines]
    found = zip(read_questions(path), wanted, strict=True)
    return list(islice((row for row, is_wanted in found if is_wanted and isinstance(row, Question)), most))


@pytest.mark.parametrize("name", FILES)
async def test_no_part_of_the_reward_is_unknown(data_dir: Path, tmp_path: Path, name: str) -> None:
    """100 questions each, whose scripted agent searches once, with the question's own words."""
    graph = store(tmp_path)
    rows: list[KgTrajectory] = []
    for question in questions(data_dir / name, FILES[name], 100):
        ask = turn("I look it up.", query=question.question, entity=question.question, relation="is")
        script = agent((ask, turn("So.", answer=question.answer)))
        rows += (made := (await generate(question, context(graph, script, CONFIG))).rows)
        truth = ground_truth(question.asked(), KG_SEARCH.name)
        paid = score_messages(made[0].messages, truth, reward_preset("dynasearcher"))
        assert {"total": paid.total, **paid.parts} == pytest.approx(asdict(made[0].reward)), "in training as in data"
    assert len(rows) == 100
    assert all(None not in asdict(row.reward).values() for row in rows)
    assert {row.num_hops for row in rows} == ({2} if "hotpot" in name else {2, 4})
    assert all(len(row.supporting) == row.num_hops for row in rows)
    assert len({row.reward.r_recall for row in rows}) >= 3, "what is found differs"
    penalties = {2: 1 - 1 / PAPER.penalty_decay, 4: PAPER.penalty_floor}
    assert all(row.reward.r_penalty == pytest.approx(penalties[row.num_hops]) for row in rows)
