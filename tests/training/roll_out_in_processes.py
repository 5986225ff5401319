"""Episodes of two processes over one vLLM server, which is scripted here; started by torchrun."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import torch

from tests.training.tiny import FACTS, retriever, rl_rows
from trailforge.protocols.environment import Environment
from trailforge.training.generation import VllmServerGenerator
from trailforge.training.rollouts import RolloutLimits, roll_out
from trailforge.training.weights import load_tokenizer


def main(model: str) -> None:
    """Process 0 has one episode without a search, process 1 three, with one to three; each gets its own."""
    from accelerate import Accelerator

    accelerator, tokenizer = Accelerator(cpu=True), load_tokenizer(model)

    def turn(ids: list[int]) -> list[int]:
        text = tokenizer.decode(ids)
        wanted = next(place for place, fact in enumerate(FACTS) if fact[0] in text)
        done = text.count("<tool_response>\n1.") >= wanted
        action = f"<answer>{wanted}</answer>" if done else "<search>Webb</search>"
        return tokenizer.encode(f"<think>a</think>{action}", add_special_tokens=False)

    def generate(prompts: list[list[int]], **sampling: Any) -> dict[str, Any]:
        assert accelerator.is_main_process
        turns = [turn(ids) for ids in prompts]
        return {"completion_ids": turns, "logprobs": [[[-0.5]] * len(ids) for ids in turns]}

    def any_process(here: bool) -> bool:
        told: Any = accelerator.gather(torch.tensor([int(here)]))
        return bool(told.any())

    client = SimpleNamespace(generate=generate)
    engine = SimpleNamespace(vllm_client=client, temperature=1.0, top_p=1.0, top_k=0)
    trainer = SimpleNamespace(vllm_generation=engine, accelerator=accelerator, eos_token_ids=[tokenizer.eos_token_id])
    mine = slice(0, 1) if accelerator.process_index == 0 else slice(1, 4)
    for rows in (rl_rows()[mine], []):  # then nothing, as where no group has to be replaced
        wanted = rows if accelerator.process_index == 0 or rows else rl_rows()[mine]
        episodes = asyncio.run(
            roll_out(
                [row.prompt for row in wanted],
                "react",
                Environment(documents=retriever(), top_k=1),
                generator=VllmServerGenerator(trainer, any_process),
                tokenizer=tokenizer,
                limits=RolloutLimits(max_tokens=1000, max_observation_tokens=80),
            )
        )
        numbers = list(range(4))[mine] if wanted else []
        assert [episode.run.num_searches for episode in episodes] == numbers
        assert [episode.run.answer for episode in episodes] == [str(number) for number in numbers]
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main(sys.argv[1])
