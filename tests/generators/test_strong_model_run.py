"""Eight questions of MuSiQue with a strong model's replies: the rows that the production prompts and filters make.

The replies were given by somebody who saw the prompts alone, with the preset that is `gold-first` now and a search that
drew in another order. They are kept by what was asked, not by the prompt's text: prompts are rendered anew.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.scripted import prompt_text
from tests.support.strong_model import StrongModel, read_recording
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import Context
from trailforge.generators.mcts_trajectories.telling.thoughts import ThoughtsConfig
from trailforge.generators.mcts_trajectories.work import LIFE
from trailforge.inference import Request
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.config import read_config
from trailforge.pipelines.sources import read_questions
from trailforge.presets import load_preset
from trailforge.retrieval import Retrieval, open_retrieval
from trailforge.schemas import Question

RECORDING = Path(__file__).parent / "strong_model_run.json.gz"
"""{question id: [[purpose, what was asked, number of the draw, reply], …]}"""

pytestmark = [pytest.mark.real_model, pytest.mark.slow]


def what_is_asked(request: Request) -> str:
    """What a prompt asks but for its fixed text: the question, the titles shown, the queries, the answer judged."""
    prompt = prompt_text(request)
    if request.purpose == "judge":
        return prompt.rpartition("Questions:\n")[2]
    if request.purpose == "rephrase":
        return prompt.rpartition("Query: ")[2]
    if request.purpose == "thoughts":
        return "\n".join(re.findall(r"^It (?:searches|answers): .*$", prompt, re.MULTILINE))
    if request.purpose == "grade":
        return "\n".join(re.findall(r"^(?:Question|Reference|Answer).*$", prompt, re.MULTILINE)[-3:])
    asked = prompt.rpartition("Question: ")[2]
    if request.purpose == "answer":
        question, _, passages = asked.partition("\nPassages:\n")
        return "\n".join([question, *re.findall(r"^\d+\. \(.*?\) ", passages, re.MULTILINE)])
    return asked


def production_config() -> MctsRunConfig:
    """The preset without thoughts by the model: they were recorded before it was asked what it doubts."""
    config = read_config(MctsRunConfig, load_preset("gold-first", "mcts_trajectories"), source="gold-first")
    return replace(config, generator=replace(config.generator, thoughts=ThoughtsConfig()))


def context_of(config: MctsRunConfig, client: StrongModel, retrieval: Retrieval) -> Context:
    return Context(
        run_id="r",
        model=config.model.name,
        seed=config.seed,
        prices=config.model.prices,
        config=config.generator,
        client=client,
        retrieval=retrieval,
    )


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[list]]:
    return read_recording(RECORDING)


@pytest.fixture(scope="module")
def questions(data_dir: Path, recorded: dict[str, list[list]]) -> dict[str, Question]:
    source = data_dir / "musique" / "musique_original20.jsonl.gz"
    return {q.id: q for q in read_questions(source) if isinstance(q, Question) and q.id in recorded}


async def test_the_rows_of_a_strong_model(questions: dict[str, Question], recorded: dict[str, list[list]]) -> None:
    config = production_config()
    retrieval = open_retrieval(config.retrieval)
    kinds, calls, results = Counter[str](), 0, list[ItemResult]()
    for uid, replies in recorded.items():
        model = StrongModel(replies, what_is_asked, is_steady=True)
        result = await LIFE.run_item(questions[uid], context_of(config, model, retrieval), config)
        calls += model.check_all_used().total()
        results.append(result)
        kinds.update(row.reflection_error or row.kind for row in result.rows["mcts_trajectories"])
    assert (calls, kinds) == (117, {"correct": 6})
    rejected = Counter(row.reason for result in results for row in result.rows["rejected"])
    assert rejected == {
        "ungrounded_step": 4,  # told from memory: a place of death, a college town, a team for its city
        "duplicate_trajectory": 3,
        "wrong_intermediate": 1,
        "no_correct_rollout": 1,
    }
