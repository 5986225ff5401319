"""Our agent loop inside verl's own worker, up to the batch and the reward. verl pins another transformers, so it has to
be installed in an environment of its own: `make test-engine ENGINE=verl`."""

# verl is not installed beside the project; see above.
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.support import finished_runs as made
from tests.support.truths import score_messages
from tests.training.framework_servers import LOGPROB, FakeSampler, FakeServerManager, expected, searched
from tests.training.tiny import rl_rows
from trailforge.evaluation.folder import read_trained
from trailforge.protocols import PROTOCOLS
from trailforge.schemas import InvalidInput, RlRow
from trailforge.training.adapters import search_episodes
from trailforge.training.adapters.verl import compute_score
from trailforge.training.exports import export
from trailforge.training.exports.verl import AGENT, rl_row
from trailforge.training.masks import prompt_ids
from trailforge.training.scoring import read_messages
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig

pytest.importorskip("verl")
agent_loop: Any = pytest.importorskip("verl.experimental.agent_loop.agent_loop")
pytestmark = pytest.mark.slow
LIMITS = {"prompt_length": 300, "response_length": 2000}


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export's file with the agent loop's entry, filled in."""
    home = tmp_path_factory.mktemp("exported")
    asked = [made.question(number) for number in range(2)]
    run = made.mcts_run(home / "mcts", asked, [row for each in asked for row in made.mcts_rows(each)])
    make_training_set([run], home / "set", ViewConfig(validation_share=0.0))
    export(home / "set", "verl", home / "verl")
    path = home / "verl" / "agent_loop.yaml"
    (loop,) = yaml.safe_load(path.read_text())
    section = searched(home)
    assert loop["search"].keys() >= section.keys() and loop["search"]["documents"] == []
    path.write_text(yaml.safe_dump([loop | {"search": loop["search"] | section}]))
    return path


class Worker:
    """verl's `AgentLoopWorker` without Ray: its own methods, over a server that follows a script."""

    _run_agent_loop: Any
    _postprocess: Any

    def __init__(self, entry: Path, tokenizer: Any, server: Any, *, engine: str = "vllm") -> None:
        from omegaconf import OmegaConf

        theirs = agent_loop.AgentLoopWorker
        for each in OmegaConf.load(entry):  # as its __init__ does
            agent_loop._agent_loop_registry[each.name] = each
        rollout = LIMITS | {"name": engine, "skip_tokenizer_init": True}
        self.config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}, "reward": {}})
        self.rollout_config = self.config.actor_rollout_ref.rollout
        self.tokenizer, self.llm_client, self.processor, self.tools = tokenizer, server, None, []
        self.hf_model_type, self.dataset_cls = "qwen2", None
        self.distillation_enabled, self.mm_processor_kwargs = False, {}
        self.reward_loop_worker_handles = [SimpleNamespace(compute_score=SimpleNamespace(remote=self._pay))]
        for name in (
            "_run_agent_loop", "_agent_loop_postprocess", "_pad_token_ids", "_compute_multi_modal_inputs",
            "_compute_position_ids", "_compute_score", "_compute_teacher_logprobs", "_get_mm_processor_kwargs",
            "_postprocess",
        ):  # fmt: skip
            setattr(self, name, MethodType(getattr(theirs, name), self))

    async def _pay(self, data: Any) -> Any:
        from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager

        return await NaiveRewardManager(self.config, self.tokenizer, compute_score).run_single(data)

    async def batch(self, rows: list[RlRow], *, logprobs: bool) -> Any:
        """As `generate_sequences` makes it of rows."""
        trajectory = {"step": 1, "sample_index": 0, "rollout_n": 0, "validate": False}
        params = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "logprobs": logprobs}
        runs: list[Any] = []
        for number, row in enumerate(rows):
            columns = rl_row(row, "train", number)
            columns["raw_prompt"] = columns.pop("prompt")
            runs.append(self._run_agent_loop(dict(params), trajectory, trace=False, **columns))
        return self._postprocess(list(await asyncio.gather(*runs)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_verl_gets_tokens_mask_and_reward(protocol: str, entry: Path, tokenizer: Any) -> None:
    """Two episodes, the second made when verl has imported the class: padded, masked, and paid by the naive manager."""
    server = FakeServerManager(FakeSampler(tokenizer, protocol))
    rows = rl_rows(protocol)[-2:]
    assert {rl_row(row, "train", 0)["agent_name"] for row in rows} == {AGENT}
    data = await Worker(entry, tokenizer, server).batch(rows, logprobs=True)
    for number, row in enumerate(rows):
        known = {name: values[number] for name, values in data.non_tensor_batch.items()}
        messages = read_messages(known["transcript"])
        ids, mask = expected(tokenizer, messages)
        room = LIMITS["response_length"] - len(ids)
        assert data.batch["responses"][number].tolist()[: len(ids)] == ids
        assert data.batch["response_mask"][number].tolist() == mask + [0] * room
        logprobs = [LOGPROB * value for value in mask] + [0.0] * room
        assert data.batch["rollout_log_probs"][number].tolist() == logprobs
        prompt = data.batch["prompts"][number][data.batch["attention_mask"][number, : LIMITS["prompt_length"]] == 1]
        assert prompt.tolist() == prompt_ids(tokenizer, row.prompt)
        paid = score_messages(messages, row.reward_model.ground_truth, tokens=len(ids)).total
        assert data.batch["rm_scores"][number].sum().item() == pytest.approx(paid, abs=1e-6)
        assert known["score"] == pytest.approx(paid) and known["num_searches"] == 1
        assert known["__num_turns__"] == 4 and known["min_global_steps"] <= known["max_global_steps"]
    assert len({request["request_id"] for request in server.requests}) == 2 and len(server.requests) == 4
    sampling = server.requests[0]["sampling_params"]
    assert sampling["include_stop_str_in_output"] and sampling["max_tokens"] == LIMITS["response_length"] - 1
    assert sampling["stop"] == list(PROTOCOLS[protocol].stop) and tokenizer.eos_token_id in sampling["stop_token_ids"]


async def test_episodes_of_verl_are_kept_by_the_step_of_the_weights(
    entry: Path, tokenizer: Any, tmp_path: Path
) -> None:
    (loop,) = yaml.safe_load(entry.read_text())
    keeping = tmp_path / "agent_loop.yaml"
    keeping.write_text(yaml.safe_dump([loop | {"search": loop["search"] | {"keep_in": str(tmp_path / "out")}}]))
    rows = rl_rows("react")[-2:]
    await Worker(keeping, tokenizer, FakeServerManager(FakeSampler(tokenizer, "react"))).batch(rows, logprobs=False)
    search_episodes._writer_to(str(tmp_path / "out")).close()
    kept = list(read_trained(tmp_path / "out"))
    assert sorted(each.question for each in kept) == sorted(row.question for row in rows)
    assert {each.dataset for each in kept} == {row.data_source for row in rows}
    assert {each.training.step for each in kept if each.training} <= {4, 5}  # the weights' version grows by the turn
    assert all(len(each.searches) == 1 and each.stop == "answered" for each in kept)


async def test_without_log_probabilities_none_are_made_up(entry: Path, tokenizer: Any) -> None:
    """verl computes its own."""
    worker = Worker(entry, tokenizer, FakeServerManager(FakeSampler(tokenizer, "react")))
    assert "rollout_log_probs" not in set((await worker.batch(rl_rows()[:1], logprobs=False)).batch.keys())


async def test_what_verl_cannot_do_is_refused(entry: Path, tokenizer: Any) -> None:
    """SGLang without a tokenizer; a prompt that is too long."""
    server = FakeServerManager(FakeSampler(tokenizer, "react"))
    with pytest.raises(Exception, match="skip_tokenizer_init"):
        await Worker(entry, tokenizer, server, engine="sglang").batch(rl_rows()[:1], logprobs=False)
    worker = Worker(entry, tokenizer, server)
    worker.rollout_config.prompt_length = 10
    with pytest.raises(InvalidInput, match=r"data\.max_prompt_length"):
        await worker.batch(rl_rows()[:1], logprobs=False)
