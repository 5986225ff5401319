"""A tiny model learns on the CPU: first to talk, then by its rewards alone to give the answers that are right."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from tests.support.sft_rows import sft_row
from tests.support.turns import result_turn
from tests.training.tiny import FACTS, conversation, preset, rl_rows, training_set
from tests.training.worth import worth_of
from trailforge.protocols import REACT
from trailforge.protocols.environment import Environment
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.schemas import Document, Passage, SftRow
from trailforge.training.trl.offline import train_sft
from trailforge.training.trl.rl import train_rl

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

KNOWN = 2
"""So many of the facts: more take longer and show nothing else."""
DOCUMENTS = [
    Document(id=str(number), title=query, text=f"{answer} it was.")
    for number, (_, answer, query) in enumerate(FACTS[:KNOWN])
]
WRONG = "Mars"
LEARNING_RATE = 2e-4
"""Of the reinforcement."""


def found(query: str) -> str:
    """What the search says, as the agent reads it."""
    document = next(each for each in DOCUMENTS if each.title == query)
    return result_turn(REACT, [Passage(id=document.id, title=document.title, text=document.text, score=1.0)])


def half_right() -> list[SftRow]:
    """Of each question one conversation that ends rightly, and one that does not."""
    rows = []
    for number, (question, answer, query) in enumerate(FACTS[:KNOWN]):
        for said in (answer, WRONG):
            messages = conversation(question, said, query, found(query))
            rows.append(sft_row(f"{number}-{said}", messages, protocol="react", question=question, answer=said))
    return rows


@pytest.mark.slow
def test_a_tiny_model_learns_what_it_is_paid_for(tiny_model: Path, tmp_path: Path) -> None:
    """A random one learns to search, and right and wrong answers alike; then, in 10 steps of GRPO on episodes of its
    own sampled tokens, which go on from what its searches find, to leave the wrong ones."""
    questions = rl_rows()[:KNOWN]
    rows = training_set(tmp_path / "set", sft=half_right(), rl=questions)
    environment = Environment(documents=Bm25Retriever(DOCUMENTS), top_k=1)
    recipe = preset(
        sft={"epochs": 130, "batch_size": 4, "per_device": 4, "learning_rate": 5e-3, "scheduler": "cosine"}
        | {"save_steps": 1000},
        rl={"prompts_per_step": 2, "samples": 8, "mini_batch": 16, "per_device": 16, "epochs": 10, "save_steps": 1000}
        | {"learning_rate": LEARNING_RATE, "temperature": 0.7, "max_tokens": 200, "max_searches": 2},
    )
    random = worth_of(str(tiny_model), questions, recipe, environment)
    assert random.well_formed == random.searches == random.right == 0.0
    assert random.stops == {"too_long": KNOWN} and random.reward < -1.0
    supervised = train_sft(rows, recipe, tmp_path / "sft", base_model=str(tiny_model))
    before = worth_of(str(supervised), questions, recipe, environment)
    assert before.well_formed == before.searches == 1.0 and before.reward < 0.5
    reinforced = train_rl(rows, recipe, tmp_path / "rl", environment=environment, base_model=str(supervised))
    figures = json.loads((tmp_path / "rl" / "training.json").read_text())
    rewards, searches = figures["rewards"], figures["searches"]
    assert figures["steps"] == len(rewards) == 10 and min(searches) > 0.5
    assert rewards[0] < 0.7
    assert fmean(rewards[-6:]) > 0.8
    after = worth_of(str(reinforced), questions, recipe, environment)
    assert after.well_formed == after.searches == after.right == after.reward == 1.0
