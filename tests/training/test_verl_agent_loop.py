"""Our agent loop inside verl's own worker and queue, up to the reward and the advantages of its trainer. verl pins
another transformers, so it has to be installed in an environment of its own: `make test-engine ENGINE=verl`. Ray and
the queue take some twenty seconds to start, once."""

# verl is not installed beside the project; see above.
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.support import finished_runs as made
from tests.support.truths import score_messages
from tests.training.exports.commands import verl_config
from tests.training.framework_servers import LOGPROB, FakeSampler, FakeServerManager, expected, searched
from tests.training.tiny import retriever, rl_rows
from trailforge.evaluation.folder import read_trained
from trailforge.protocols import PROTOCOLS, REACT
from trailforge.protocols.environment import Environment
from trailforge.retrieval.base import SearchPatience
from trailforge.schemas import InvalidInput, Passage, RlRow
from trailforge.training.adapters import search_episodes
from trailforge.training.adapters.verl import compute_score
from trailforge.training.config import load_train_preset
from trailforge.training.exports import export
from trailforge.training.exports.verl import AGENT, VerlOptions, rl_arguments, rl_row
from trailforge.training.masks import prompt_ids
from trailforge.training.scoring import read_messages
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig

pytest.importorskip("verl")
torch: Any = pytest.importorskip("torch")
tq: Any = pytest.importorskip("transfer_queue")
ray: Any = pytest.importorskip("ray")
agent_loop: Any = pytest.importorskip("verl.experimental.agent_loop.agent_loop")
pytestmark = pytest.mark.slow
LIMITS = {"prompt_length": 300, "response_length": 2000}
MINI_BATCH, CAP = 8, 1.5


@pytest.fixture(scope="module")
def config() -> Any:
    """verl's whole configuration, by the numbers of a recipe."""
    recipe = load_train_preset("msearcher")
    numbers = replace(recipe.rl, prompts_per_step=2, samples=MINI_BATCH, mini_batch=MINI_BATCH, importance_cap=CAP)
    arguments = rl_arguments(numbers, VerlOptions(), 512, "rl/train.parquet")
    queue = ["transfer_queue.enable=True", "transfer_queue.backend.SimpleStorage.num_data_storage_units=1"]
    found = verl_config([*(word.replace("$MODEL", "model") for word in arguments), *queue], "ppo_trainer")
    for name, room in LIMITS.items():
        setattr(found.actor_rollout_ref.rollout, name, room)
    return found


@pytest.fixture(scope="module", autouse=True)
def queue(config: Any) -> Iterator[None]:
    """verl's queue, in a Ray of this machine alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        tq.init(config.transfer_queue)
        yield
        tq.close()
        ray.shutdown()


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
    """verl's `AgentLoopWorkerTQ` outside of Ray: its own methods, over a server that follows a script."""

    _run_agent_loop: Any
    _run_prompt: Any

    def __init__(self, config: Any, entry: Path, tokenizer: Any, server: Any) -> None:
        from omegaconf import OmegaConf
        from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

        theirs = AgentLoopWorkerTQ.__ray_metadata__.modified_class
        for each in OmegaConf.load(entry):  # as its __init__ does
            agent_loop._agent_loop_registry[each.name] = each
        self.config = config.copy()
        self.rollout_config = self.config.actor_rollout_ref.rollout
        self.tokenizer, self.llm_client, self.processor, self.tools = tokenizer, server, None, []
        self.hf_model_type, self.dataset_cls = "qwen2", None
        self.distillation_enabled, self.mm_processor_kwargs = False, {}
        self.reward_loop_worker_handles = [SimpleNamespace(compute_score=SimpleNamespace(remote=self._pay))]
        for name in (
            "_run_prompt", "_run_agent_loop", "_agent_loop_postprocess", "_compute_multi_modal_inputs",
            "_compute_position_ids", "_compute_score", "_compute_teacher_logprobs", "_get_mm_processor_kwargs",
        ):  # fmt: skip
            setattr(self, name, MethodType(getattr(theirs, name), self))

    def _pay(self, data: Any) -> Any:
        """Of a copy, as Ray hands it over: the manager writes into what episodes of a question share."""
        from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager

        return NaiveRewardManager(self.config, self.tokenizer, compute_score).run_single(deepcopy(data))

    def columns(self, row: RlRow, number: int) -> dict[str, Any]:
        """As its data set makes them of a row."""
        columns = rl_row(row, "train", number)
        return columns | {"raw_prompt": columns.pop("prompt"), "uid": f"q{number}", "global_steps": 1}

    async def batch(self, rows: Sequence[RlRow], *, samples: int = 1, logprobs: bool = True) -> Any:
        """What its replay buffer has of episodes on rows, in the order of their keys."""
        from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

        self.rollout_config.n = samples
        params = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "logprobs": logprobs}
        prompts = [self.columns(row, number) for number, row in enumerate(rows)]
        tags = [{"is_prompt": True, "status": "pending", "global_steps": 1} for _ in prompts]
        tq.kv_batch_put(keys=[prompt["uid"] for prompt in prompts], partition_id="train", tags=tags)
        await asyncio.gather(*(self._run_prompt(prompt, dict(params), TRAJECTORY, trace=False) for prompt in prompts))
        buffer = ReplayBuffer("sync", self.config.trainer, None, "drop", None)
        found, _ = await asyncio.to_thread(buffer.sample, 1, "train", len(rows))
        found.reorder(sorted(range(len(found.keys)), key=lambda at: found.keys[at]))
        return found


TRAJECTORY = {"step": 1, "sample_index": 0, "rollout_n": 0, "validate": False}


def columns_of(batch: Any, *names: str) -> dict[str, list[Any]]:
    """Columns of a batch, by row; those that are not there are left out."""
    found = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=list(names))
    return {
        name: [each.tolist() if hasattr(each, "tolist") else each for each in found[name]]
        for name in names
        if found.get(name, None) is not None
    }


@pytest.fixture
def worker(config: Any, entry: Path, tokenizer: Any) -> Iterator[Any]:
    """Makes workers of a protocol; what they put into the queue is removed."""

    def make(protocol: str = "react", file: Path = entry, sampler: Any = None) -> Worker:
        return Worker(config, file, tokenizer, FakeServerManager(sampler or FakeSampler(tokenizer, protocol)))

    yield make
    for partition, keys in (tq.kv_list() or {}).items():
        if keys:
            tq.kv_clear(partition_id=partition, keys=list(keys))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_verl_gets_tokens_mask_and_reward(protocol: str, worker: Any, tokenizer: Any) -> None:
    """Two episodes, the second made when verl has imported the class: queued, and paid by the naive manager."""
    its = worker(protocol)
    rows = rl_rows(protocol)[-2:]
    assert {rl_row(row, "train", 0)["agent_name"] for row in rows} == {AGENT}
    names = ("prompts", "responses", "response_mask", "rollout_log_probs", "rm_scores", "extra_fields", "num_turns")
    found = columns_of(await its.batch(rows), *names)
    for number, row in enumerate(rows):
        known = found["extra_fields"][number]
        messages = read_messages(known["transcript"])
        ids, mask = expected(tokenizer, messages)
        assert found["responses"][number] == ids and found["response_mask"][number] == mask
        assert found["rollout_log_probs"][number] == [LOGPROB * value for value in mask]
        assert found["prompts"][number] == prompt_ids(tokenizer, row.prompt)
        paid = score_messages(messages, row.reward_model.ground_truth, tokens=len(ids)).total
        assert sum(found["rm_scores"][number]) == pytest.approx(paid, abs=1e-6)
        assert known["reward_extra_info"]["score"] == pytest.approx(paid) and known["num_searches"] == 1
        assert found["num_turns"][number] == 4 and known["min_global_steps"] <= known["max_global_steps"]
    requests = its.llm_client.requests
    assert len({request["request_id"] for request in requests}) == 2 and len(requests) == 4
    sampling = requests[0]["sampling_params"]
    assert sampling["include_stop_str_in_output"] and sampling["max_tokens"] == LIMITS["response_length"] - 1
    assert sampling["stop"] == list(PROTOCOLS[protocol].stop) and tokenizer.eos_token_id in sampling["stop_token_ids"]


async def test_episodes_of_verl_are_kept_by_the_step_of_the_weights(entry: Path, worker: Any, tmp_path: Path) -> None:
    keeping = changed(entry, tmp_path, keep_in=str(tmp_path / "out"))
    rows = rl_rows("react")[-2:]
    await worker(file=keeping).batch(rows)
    search_episodes._writer_to(str(tmp_path / "out")).close()
    kept = list(read_trained(tmp_path / "out"))
    assert sorted(each.question for each in kept) == sorted(row.question for row in rows)
    assert {each.dataset for each in kept} == {row.data_source for row in rows}
    assert {each.training.step for each in kept if each.training} <= {4, 5}  # the weights' version grows by the turn
    assert all(len(each.searches) == 1 and each.stop == "answered" for each in kept)


async def test_without_log_probabilities_none_are_made_up(worker: Any) -> None:
    """verl computes its own."""
    found = columns_of(await worker().batch(rl_rows()[:1], logprobs=False), "responses", "rollout_log_probs")
    assert list(found) == ["responses"]


async def test_what_verl_cannot_do_is_refused(worker: Any) -> None:
    """SGLang without a tokenizer; a prompt that is too long."""
    its = worker()
    columns, params = its.columns(rl_rows()[0], 0), {"logprobs": True}
    its.rollout_config.prompt_length = 10
    with pytest.raises(InvalidInput, match=r"data\.max_prompt_length"):
        await its._run_agent_loop(params, TRAJECTORY, trace=False, session_id=0, **columns)
    its.rollout_config.name, its.rollout_config.skip_tokenizer_init = "sglang", True
    with pytest.raises(Exception, match="skip_tokenizer_init"):
        await its._run_agent_loop(params, TRAJECTORY, trace=False, session_id=0, **columns)


def changed(entry: Path, folder: Path, **search: Any) -> Path:
    """The agent loop's entry with other settings of the search."""
    (loop,) = yaml.safe_load(entry.read_text())
    path = folder / "agent_loop.yaml"
    path.write_text(yaml.safe_dump([loop | {"search": loop["search"] | search}]))
    return path


# An episode whose search failed, and the weights of all others


class Shaky:
    """Fails in the third search and hangs in the eleventh."""

    def __init__(self) -> None:
        self.asked = 0

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        self.asked += 1
        if self.asked == 3:
            raise ConnectionError("the line is down")
        if self.asked == 11:
            await asyncio.Event().wait()
        return await retriever().retrieve(query, k)


@dataclass
class Varied(FakeSampler):
    """Every third answer is cut before its end, so that not all of a group are paid the same."""

    made: int = 0

    def sample(self, ids: Sequence[int]) -> list[int]:
        """The continuation."""
        found = super().sample(ids)
        answers = f"</{REACT.result_tag}><|im_end|>" in self.tokenizer.decode(list(ids), skip_special_tokens=False)
        self.made += answers
        return found[: len(found) // 2] if answers and self.made % 3 == 0 else found


@pytest.fixture
def shaky(entry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An entry whose searches are `Shaky`."""
    patience = SearchPatience(timeout_s=1.0, attempts=1)
    environment = Environment(documents=Shaky(), top_k=1, patience=patience)
    monkeypatch.setattr(search_episodes, "open_training_environment", lambda *args, **options: environment)
    return changed(entry, tmp_path, documents=[str(tmp_path)])


async def test_verl_trains_fourteen_of_sixteen_when_one_search_fails_and_one_hangs(
    shaky: Path, worker: Any, tokenizer: Any
) -> None:
    """verl's trainer fills the batch up, and takes means over those that are there. Each token is weighed by the
    trainer's probability over the sampler's, cut at the recipe's cap."""
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    its = worker(file=shaky, sampler=Varied(tokenizer, "react"))
    batch = await its.batch([rl_rows()[-1]] * 2, samples=MINI_BATCH)
    real = list(batch.keys)
    assert len(real) == 14
    trainer: Any = SimpleNamespace(
        config=its.config, tokenizer=tokenizer, use_critic=False, global_steps=1, kl_ctrl_in_reward=None,
        actor_rollout_wg=SimpleNamespace(_dispatch_info={"actor": [0, 1]}),
    )  # fmt: skip
    trainer._get_required_batch_multiple = MethodType(PPOTrainer._get_required_batch_multiple, trainer)
    batch = PPOTrainer._balance_batch(trainer, batch, {})
    assert len(batch.keys) == 2 * MINI_BATCH and set(real) < set(batch.keys)
    drift = give_old_log_probs(batch)
    batch = PPOTrainer._compute_advantage(trainer, batch, {})

    names = ("uid", "response_mask", "rm_scores", "advantages", "rollout_is_weights")
    found = columns_of(batch, *names)
    groups: dict[str, list[float]] = {}
    for key, uid, scores in zip(batch.keys, found["uid"], found["rm_scores"], strict=True):
        if key in real:
            groups.setdefault(uid, []).append(sum(scores))
    assert sum(map(len, groups.values())) == 14 and all(len(set(each)) > 1 for each in groups.values())
    for at, key in enumerate(batch.keys):
        mask = found["response_mask"][at]
        if key not in real:
            assert not any(mask)
            continue
        rewards = torch.tensor(groups[found["uid"][at]])
        advantage = float((sum(found["rm_scores"][at]) - rewards.mean()) / (rewards.std() + 1e-6))
        assert found["advantages"][at] == pytest.approx([advantage * own for own in mask], abs=1e-5)
        weights = torch.tensor(drift[key]).exp().clamp(max=CAP) * torch.tensor(mask)
        assert found["rollout_is_weights"][at] == pytest.approx(weights.tolist(), rel=1e-5)
    check_loss(its.config, found)


def give_old_log_probs(batch: Any) -> dict[str, list[float]]:
    """As the trainer's model gives them: drawn around the sampler's. By how much they differ, by key."""
    from tensordict import TensorDict

    draw = torch.Generator().manual_seed(7)
    sampled = columns_of(batch, "rollout_log_probs")["rollout_log_probs"]
    drift = [torch.randn(len(each), generator=draw) for each in sampled]
    old = [torch.tensor(each) + by for each, by in zip(sampled, drift, strict=True)]
    fields = {"old_log_probs": torch.nested.as_nested_tensor(old, layout=torch.jagged)}
    tq.kv_batch_put(
        keys=batch.keys, partition_id="train", fields=TensorDict(fields, batch_size=len(old)), tags=batch.tags
    )
    return {key: by.tolist() for key, by in zip(batch.keys, drift, strict=True)}


def check_loss(config: Any, found: dict[str, list[Any]]) -> None:
    """verl's loss is the clipped one of each token times its weight, averaged over all that are trained. Unlike TRL's,
    it grows no further where a token of a bad episode is three times as likely as before."""
    from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
    from verl.utils.config import omega_conf_to_dataclass

    names = ("response_mask", "advantages", "rollout_is_weights")
    mask, advantages, weights = (
        torch.nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=torch.float32) for row in found[name]], True)
        for name in names
    )
    changed_by = 0.4 * torch.randn(mask.shape, generator=torch.Generator().manual_seed(8))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    theirs, _ = compute_policy_loss_vanilla(
        torch.zeros_like(mask), changed_by, advantages, mask, "token-mean", actor, weights
    )
    numbers = load_train_preset("msearcher").rl
    ratio = changed_by.exp()
    clipped = ratio.clamp(1 - numbers.clip_low, 1 + numbers.clip_high)
    loss = -torch.minimum(ratio * advantages, clipped * advantages)
    bounded = torch.minimum(loss, -actor.clip_ratio_c * advantages)
    assert bool((bounded < loss)[(advantages < 0) & mask.bool()].any())
    loss = torch.where(advantages < 0, bounded, loss) * weights
    assert float(theirs) == pytest.approx(float((loss * mask).sum() / mask.sum()), rel=1e-4)


async def test_verls_trainers_without_a_queue_get_a_failed_episode_without_loss(
    shaky: Path, worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take one of every agent loop."""
    its = worker(file=shaky)
    its.config.transfer_queue.enable = False
    batch = await its.batch(rl_rows()[:1], samples=3)
    masks = columns_of(batch, "response_mask")["response_mask"]
    assert sorted(any(mask) for mask in masks) == [False, True, True]


async def test_an_episode_that_ran_out_of_room_is_not_trained_where_the_recipe_says_so(
    entry: Path, worker: Any, tokenizer: Any, tmp_path: Path
) -> None:
    """All that it is paid counts."""
    for says in (False, True):
        its = worker(file=changed(entry, tmp_path, mask_truncated=says))
        its.rollout_config.response_length = 60
        found = columns_of(await its.batch(rl_rows()[:1]), "response_mask", "extra_fields", "rm_scores")
        (mask,), (known,) = found["response_mask"], found["extra_fields"]
        assert known["stop"] == "too_long" and any(mask) is not says and found["rm_scores"]
