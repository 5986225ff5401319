"""Our agent as OpenRLHF loads and reads it, where a checkout of it can be imported (PYTHONPATH=/path/to/OpenRLHF).

It wants ray and pylatexenc beside it, which verl's environment has.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.support.truths import score_messages
from tests.training.framework_servers import LOGPROB, FakeSampler, expected, searched
from tests.training.tiny import rl_rows
from trailforge.evaluation.folder import read_trained
from trailforge.protocols import PROTOCOLS
from trailforge.schemas import RetrievalError, RlRow, to_dict
from trailforge.schemas.agent_episode import TrainingStep
from trailforge.training.adapters import search_episodes
from trailforge.training.masks import prepare_tokenizer, prompt_ids, render
from trailforge.training.scoring import read_messages

theirs: Any = pytest.importorskip("openrlhf.utils.agent")
AGENT = Path(search_episodes.__file__).with_name("openrlhf.py")
MAX_LENGTH = 4000


@dataclass
class FakeEngine:
    """As OpenRLHF's vLLM actor, of which `generate` alone is used."""

    sampler: FakeSampler
    asked: list[Any] = field(default_factory=list)

    async def generate(self, prompt_token_ids: list[int], sampling_params: Any) -> Any:
        """Tokens, and each one's log-probability where it is asked for."""
        self.asked.append(sampling_params)
        ids = self.sampler.sample(prompt_token_ids)
        logprobs = [{token: SimpleNamespace(logprob=LOGPROB)} for token in ids] if sampling_params.logprobs else None
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids, logprobs=logprobs)])


@pytest.fixture
def tokenizer() -> Any:
    """With our template."""
    found: Any = tiny_tokenizer()
    prepare_tokenizer(found)
    return found


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is searched; episodes are kept."""
    path = tmp_path / "search.yaml"
    path.write_text(yaml.safe_dump(searched(tmp_path) | {"keep_in": str(tmp_path / "kept")}))
    monkeypatch.setenv("TRAILFORGE_SEARCH", str(path))
    return path


def executor() -> Any:
    """Loaded by the file, as its vLLM actor does."""
    spec = importlib.util.spec_from_file_location("agent_module", AGENT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert issubclass(module.AgentExecutor, theirs.AgentExecutorBase)
    return module.AgentExecutor()


async def played(row: RlRow, tokenizer: Any, *, logprobs: int | None = 1) -> tuple[dict[str, Any], FakeEngine]:
    """What it makes of a question."""
    engine = FakeEngine(FakeSampler(tokenizer, row.reward_model.ground_truth.protocol))
    sampling = SimpleNamespace(logprobs=logprobs, max_tokens=None, stop=[], include_stop_str_in_output=False)
    text = render(row.prompt, add_generation_prompt=True)
    label = json.dumps(to_dict(row.reward_model.ground_truth))
    made = await executor().execute(text, label, sampling, MAX_LENGTH, tokenizer, engine)
    assert sampling.max_tokens is None  # all samples of a question share it
    return made, engine


@pytest.fixture
def read_answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], Any]:
    """Its own reading of what an agent returns. Two modules that need vLLM have to be there, and are not used."""
    for name in ("vllm", "openrlhf.trainer.ray.vllm_engine"):
        stand_in: Any = ModuleType(name)
        stand_in.SamplingParams = stand_in.batch_vllm_engine_call = None
        monkeypatch.setitem(sys.modules, name, stand_in)
    generator: Any = importlib.import_module("openrlhf.trainer.ppo_utils.samples_generator").SamplesGenerator
    return lambda made: generator._process_response_into_experience(None, made, max_len=MAX_LENGTH)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_openrlhf_gets_tokens_mask_and_reward(
    protocol: str, tokenizer: Any, settings: Path, tmp_path: Path, read_answer: Any
) -> None:
    row = rl_rows(protocol)[-1]
    made, engine = await played(row, tokenizer)
    search_episodes._writer_to(str(tmp_path / "kept")).close()
    (kept,) = read_trained(tmp_path / "kept")
    assert kept.training is not None
    messages = read_messages([to_dict(message) for message in kept.messages])
    ids, mask = expected(tokenizer, messages)
    prompt = prompt_ids(tokenizer, row.prompt)
    paid = score_messages(messages, row.reward_model.ground_truth, tokens=len(ids)).total
    assert kept.training == TrainingStep(step=0, reward=paid, parts=kept.training.parts) and kept.training.parts
    found = read_answer(made)
    assert found.sequences[0].tolist() == [*prompt, *ids]
    assert found.action_mask[0].tolist() == ([0] * len(prompt) + mask)[1:]
    assert found.rollout_log_probs[0].tolist() == ([0.0] * len(prompt) + [LOGPROB * own for own in mask])[1:]
    assert found.rewards.tolist() == pytest.approx([paid], abs=1e-6) and not found.truncated.item()
    assert found.info["searches"].item() == 1 and found.info["failed"].item() == 0
    assert engine.asked[0].stop == list(PROTOCOLS[protocol].stop) and engine.asked[0].include_stop_str_in_output
    assert engine.asked[0].max_tokens == MAX_LENGTH - len(prompt) - 1


class NothingFound:
    """Fails for good."""

    async def retrieve(self, query: str, k: int) -> Sequence[Any]:
        raise RetrievalError("the index is gone")


async def test_of_an_episode_whose_search_failed_no_token_is_trained(
    tokenizer: Any, settings: Path, monkeypatch: pytest.MonkeyPatch, read_answer: Any
) -> None:
    real = search_episodes.environment_of
    gone = NothingFound()
    monkeypatch.setattr(search_episodes, "environment_of", lambda *given: replace(real(*given), documents=gone))
    made, _ = await played(rl_rows()[-1], tokenizer, logprobs=None)
    found = read_answer(made)
    assert not found.action_mask.any() and found.info["failed"].item() == 1 and found.rollout_log_probs is None
