"""What two processes, started as torchrun starts them, do together, SET MODEL OUT: a short training, then episodes.

Those share one engine of vLLM (tensor parallel), which is scripted here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from tests.support.rolled_out import rolled_out
from tests.training.tiny import FACTS, preset, retriever, rl_rows
from trailforge.protocols.environment import Environment
from trailforge.training.generation import VllmColocatedGenerator
from trailforge.training.token_episodes import RolloutLimits
from trailforge.training.trl.offline import train_sft
from trailforge.training.weights import load_tokenizer


def share_an_engine(model: str) -> None:
    """Process 0 has one episode without a search, process 1 three, with one to three; each gets its own."""
    rank, tokenizer = torch.distributed.get_rank(), load_tokenizer(model)

    def turn(ids: list[int]) -> list[int]:
        text = tokenizer.decode(ids)
        wanted = next((place for place, fact in enumerate(FACTS) if fact[0] in text), -1)
        done = text.count("<tool_response>\n1.") >= wanted
        action = f"<answer>{wanted}</answer>" if done else "<search>Webb</search>"
        return tokenizer.encode(f"<think>a</think>{action}", add_special_tokens=False)

    engine = SimpleNamespace(tensor_parallel_size=2, tp_group=None, max_completion_length=0, generation_kwargs={})

    def generate(prompts: list[list[int]], images: None, number: int) -> Any:
        """As TRL's: all prompts of all processes, of which each takes as many as it gave."""
        everyones: list[Any] = [None, None]
        torch.distributed.all_gather_object(everyones, (prompts, engine.max_completion_length))
        (first, room), (second, same) = everyones
        assert len(first) == len(second) and room == same
        turns = [turn(ids) for ids in [*first, *second]][rank * len(prompts) : (rank + 1) * len(prompts)]
        return prompts, turns, [[[-0.5]] * len(ids) for ids in turns], None

    engine.generate = generate
    trainer = SimpleNamespace(vllm_generation=engine, eos_token_ids=[tokenizer.eos_token_id])
    mine = slice(0, 1) if rank == 0 else slice(1, 4)
    for rows in (rl_rows()[mine], rl_rows()[mine] if rank else []):  # then nothing at all in one of them
        episodes = rolled_out(
            [row.prompt for row in rows],
            "react",
            Environment(documents=retriever(), top_k=1),
            generator=VllmColocatedGenerator(trainer),
            tokenizer=tokenizer,
            limits=RolloutLimits(max_tokens=1000, max_observation_tokens=80),
        )
        numbers = list(range(4))[mine] if rows else []
        assert [episode.run.num_searches for episode in episodes] == numbers
        assert [episode.run.answer for episode in episodes] == [str(number) for number in numbers]
    print(f"process {rank} got its episodes", flush=True)


if __name__ == "__main__":
    rows, model, out = sys.argv[1:]
    torch.set_num_threads(1)  # what torch reads of the environment it has read before the fork
    train_sft(Path(rows), preset(sft={"epochs": 4}), Path(out), base_model=model, max_steps=2)
    share_an_engine(model)  # in the process group that the training began
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
