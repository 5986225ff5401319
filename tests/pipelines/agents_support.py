"""A small finished run of research agents, made with the scripted model of `tests.support.search_agent`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted import ScriptedModel, prompt_text
from tests.support.search_agent import Model
from tests.support.shared import made_once
from tests.support.world import write_questions
from trailforge.flows import execute as execution
from trailforge.flows.execute import RunRequest, execute
from trailforge.generators.agent_trajectories import DATASET
from trailforge.inference import ModelClient
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.schemas import Manifest

QUESTIONS = 14
PRESET = """
dataset: agent_trajectories
model: {name: scripted, url: "http://127.0.0.1:1/v1", prompt_price_per_million: 1, completion_price_per_million: 2}
generator: {agent: search_r1, draws: 5, top_k: 2, max_pairs: 2}
retrieval: {kind: bm25, scope: question}
output: {shard_size: 5}
"""


async def scripted_client(work: ModelWork) -> ModelClient:
    """In place of `ModelWork.client`."""
    model = Model(flaw_rate=0.25)
    client: Any = ScriptedModel(lambda request: model(prompt_text(request), request.sampling_seed))
    return client


def make_agents(folder: Path, out: Path, *, questions: int = QUESTIONS, preset: str = PRESET) -> Manifest:
    """Make a run; its questions and its preset are written into `folder`."""
    source, settings = folder / "questions.jsonl", folder / "preset.yaml"
    write_questions(source, questions)
    settings.write_text(preset)
    return execute(RunRequest(dataset=DATASET.name, out=out, preset=str(settings), files=(source,)))


def finished_agents(factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run, made once for all tests. To be read only."""

    def make(folder: Path) -> Path:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ModelWork, "client", scripted_client)
            patched.setattr(execution, "check_reachable", lambda *given, **more: None)
            make_agents(folder, folder / "run")
        return folder / "run"

    return made_once(factory, "agents", make)
