"""The agent loop for verl 0.9, named in the file that `actor_rollout_ref.rollout.agent.agent_loop_config_path` gives:

    - name: trailforge_search
      _target_: trailforge.training.adapters.verl_agent_loop.SearchAgentLoop
      search: {documents: [/data/datasets_out/musique], …}      `SearchSettings`

verl makes an object of it for every episode. `trailforge.training.adapters.verl.compute_score` pays what it returns;
for that the reward manager has to be `naive`, verl's default, as `dapo` does not hand on what an agent loop knows.

The class is not decorated with verl's `register`: verl imports this file when it makes the first object, and the
decorator would then put an entry without settings in place of the file's.
"""

# verl is installed in an environment of its own: it wants another transformers.
# pyright: reportMissingImports=false

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from trailforge.schemas import InvalidInput
from trailforge.training.adapters.search_episodes import asked_of, known_of, logprobs_of, read_settings, search_episode
from trailforge.training.generation import Continuation
from trailforge.training.scoring import read_messages, read_truth


class SearchAgentLoop(AgentLoopBase):
    """The agent loop for verl: the agent searches, reads, continues and answers, in the protocol of each question."""

    def __init__(self, *args: Any, search: Mapping[str, Any], **kwargs: Any) -> None:
        """`search`: as `SearchSettings`. Raises `InvalidInput` for other keys, and for what verl cannot do."""
        super().__init__(*args, **kwargs)
        self._settings = read_settings(search)
        if self.rollout_config.name == "sglang" and self.rollout_config.skip_tokenizer_init:
            raise InvalidInput(
                "SGLang knows no stop strings without a tokenizer; set it to False",
                field="actor_rollout_ref.rollout.skip_tokenizer_init",
            )

    async def run(
        self, sampling_params: dict[str, Any], priority: int = 0, **kwargs: Any
    ) -> AgentLoopOutput | list[AgentLoopOutput]:
        """Run one episode on a row of the data set.

        Returns none where its search failed, so that no mean includes it; verl fills its batch up with rows without
        loss. Its trainers without a TransferQueue cannot do that: they get the episode without loss, and include its
        reward.
        """
        server = _Server(self.server_manager, sampling_params, self.rollout_config.name, int(priority))
        started = time.perf_counter()
        episode = await search_episode(
            read_messages(list(kwargs["raw_prompt"])),
            read_truth(kwargs["reward_model"]).protocol,
            self._settings,
            go_on=server.go_on,
            tokenizer=self.tokenizer,
            max_tokens=self.rollout_config.response_length,
            asked=asked_of(kwargs["reward_model"], kwargs.get("extra_info"), str(kwargs.get("data_source") or "")),
            step=server.step,
        )
        elapsed = time.perf_counter() - started
        room = self.rollout_config.prompt_length
        if len(episode.prompt_ids) > room:
            raise InvalidInput(
                f"a prompt of {len(episode.prompt_ids)} tokens, and the limit is {room}; raise it",
                field="data.max_prompt_length",
            )
        if episode.failed and self.config.transfer_queue.enable:
            return []
        return AgentLoopOutput(
            prompt_ids=episode.prompt_ids,
            response_ids=episode.ids,
            response_mask=episode.mask,
            response_logprobs=logprobs_of(episode) if sampling_params.get("logprobs") else None,
            num_turns=len(episode.messages) - 1,  # verl does not count the system's
            metrics=AgentLoopMetrics(generate_sequences=server.seconds, tool_calls=elapsed - server.seconds),
            extra_fields={**server.weights, **known_of(episode), "turn_scores": [], "tool_rewards": []},
        )


class _Server:
    """verl's server manager for one episode, whose turns it sends to the same server."""

    def __init__(self, manager: Any, sampling: Mapping[str, Any], engine: str, priority: int) -> None:
        self.seconds = 0.0
        """Spent generating."""
        self.weights: dict[str, Any] = {}
        """Steps of the weights that the first turn began with and the last one ended with, where verl says so."""
        self._manager, self._priority, self._id = manager, priority, uuid4().hex
        # Both engines by default take the string that they stopped at off their text. The tokens stay either way.
        keep = "no_stop_trim" if engine == "sglang" else "include_stop_str_in_output"
        self._sampling = {**sampling, keep: True}

    def step(self) -> int:
        """That trains what was sampled last, from 1; 0 where verl does not say."""
        steps = self.weights.get("max_global_steps")
        return 0 if steps is None else int(steps) + 1

    async def go_on(self, ids: list[int], room: int, stop: Sequence[str], end_ids: Collection[int]) -> Continuation:
        """As `search_episodes.GoOn`."""
        started = time.perf_counter()
        output = await self._manager.generate(
            request_id=self._id,
            prompt_ids=ids,
            sampling_params={
                **self._sampling, "max_tokens": room, "stop": list(stop), "stop_token_ids": list(end_ids)
            },
            priority=self._priority,
        )  # fmt: skip
        self.seconds += time.perf_counter() - started
        extra = output.extra_fields
        self.weights.setdefault("min_global_steps", extra.get("min_global_steps"))
        self.weights["max_global_steps"] = extra.get("max_global_steps")
        return Continuation(list(output.token_ids), list(output.log_probs) if output.log_probs else None)
