"""Who generates: the model itself, and vLLM as TRL hands it to us."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from trailforge.inference import ChatTurn, Meter, Request, Sampling
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.schemas import ContextOverflow, RequestRefused, ServerUnavailable
from trailforge.training.generation import (
    CheckpointClient,
    TransformersGenerator,
    TurnServer,
    VllmColocatedGenerator,
    VllmServerGenerator,
)
from trailforge.training.weights import load_model

PROMPTS = ["<|im_start|>user\nWho led NASA?<|im_end|>\n<|im_start|>assistant\n", "<|im_start|>assistant\n"]


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Any:
    """The random one."""
    return load_model(str(tiny_model))


def encoded(tokenizer: Any) -> list[list[int]]:
    """Prompts of two lengths."""
    return [tokenizer.encode(text, add_special_tokens=False) for text in PROMPTS]


def test_a_batch_is_what_each_would_be_alone(model: Any, tokenizer: Any) -> None:
    """Padding on the left changes nothing, nor do batches."""
    import torch

    prompts = encoded(tokenizer)
    greedy = TransformersGenerator(model, tokenizer, temperature=0.0)
    together = greedy.generate(prompts, [12, 7], [])
    assert [len(one.ids) for one in together] == [12, 7]
    alone = [greedy.generate([prompt], [room], [])[0].ids for prompt, room in zip(prompts, (12, 7), strict=True)]
    assert [one.ids for one in together] == alone
    one_by_one = TransformersGenerator(model, tokenizer, temperature=0.0, batch=1)
    assert [one.ids for one in one_by_one.generate(prompts, [12, 7], [])] == alone
    plain = model(torch.tensor([prompts[0]])).logits[0, -1].argmax()
    assert alone[0][0] == int(plain)


def test_it_stops_at_a_stop_string_and_at_an_end_of_turn(model: Any, tokenizer: Any) -> None:
    """Both are kept, nothing behind them is; a stop string in the prompt is none."""
    (prompt, _) = encoded(tokenizer)
    greedy = TransformersGenerator(model, tokenizer, temperature=0.0)
    free = greedy.generate([prompt], [20], [])[0].ids
    texts = [tokenizer.decode(free[: n + 1]) for n in range(20)]
    stop = texts[5][-3:]
    expected = next(n for n, text in enumerate(texts) if stop in text) + 1
    assert greedy.generate([prompt], [20], [stop])[0].ids == free[:expected]
    assert greedy.generate([prompt], [20], ["Who led NASA"])[0].ids == free
    greedy.end_ids = frozenset({free[3]})
    assert greedy.generate([prompt], [20], [])[0].ids == free[: free.index(free[3]) + 1]


def test_draws_differ_by_seed_and_not_otherwise(model: Any, tokenizer: Any) -> None:
    """And the model is left in the mode that it was in."""
    import torch

    sampling = TransformersGenerator(model, tokenizer, temperature=1.0)
    model.train()
    made = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        made.append(sampling.generate(encoded(tokenizer), [8, 8], [])[0].ids)
    assert made[0] == made[1] != made[2]
    assert model.training


def test_drawn_tokens_come_from_the_whole_distribution(model: Any, tokenizer: Any) -> None:
    """No hidden top-k: what is drawn is what the loss takes the policy for. A random model is nearly uniform."""
    import torch

    torch.manual_seed(0)
    sampling = TransformersGenerator(model, tokenizer, temperature=1.0)
    drawn = {one.ids[0] for one in sampling.generate(encoded(tokenizer)[:1] * 300, [1] * 300, [])}
    assert len(drawn) > 100


class Engine:
    """vLLM as TRL wraps it: continues every prompt with the ids 7, 8, 9."""

    temperature, top_p, top_k = 0.7, 0.9, 0
    max_completion_length, tensor_parallel_size = 0, 1

    def __init__(self) -> None:
        self.generation_kwargs: dict[str, Any] = {}
        self.asked: list[Any] = []

    def generate(self, prompts: list[list[int]], *rest: Any) -> Any:
        """TRL's signature."""
        self.asked.append((prompts, (self.max_completion_length, self.generation_kwargs)))
        return prompts, [[7, 8, 9] for _ in prompts], [[[-0.1], [-0.2], [-0.3]] for _ in prompts], None


def trainer_with(engine: Engine, url: str = "") -> Any:
    """As far as a generator looks at it."""
    return SimpleNamespace(
        vllm_generation=engine, eos_token_ids=[2], args=SimpleNamespace(vllm_server_base_url=f"{url}/")
    )


def test_vllm_beside_the_trainer() -> None:
    """Stops at our strings and keeps them; each answer is cut to its room, with its log-probabilities."""
    engine = Engine()
    generator = VllmColocatedGenerator(trainer_with(engine))
    made = generator.generate([[1], [1, 1]], [2, 5], ["</search>"])
    assert [(one.ids, one.logprobs) for one in made] == [([7, 8], [-0.1, -0.2]), ([7, 8, 9], [-0.1, -0.2, -0.3])]
    assert engine.asked == [([[1], [1, 1]], (5, {"stop": ["</search>"], "include_stop_str_in_output": True}))]
    assert generator.goes_on(True) and not generator.goes_on(False)


async def test_vllm_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn is asked for by itself, with the trainer's sampling and its own room; what fails is asked again."""
    monkeypatch.setattr("trailforge.training.generation._FIRST_WAIT_S", 0.001)
    asked: list[dict[str, Any]] = []
    states = [503, 200, 500, 200, 400]

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "policy"}]})

    async def complete(request: web.Request) -> web.Response:
        asked.append(await request.json())
        state = states.pop(0)
        choice = {"token_ids": [7, 8, 9], "logprobs": {"token_logprobs": [-0.1, -0.2, -0.3]}}
        return web.json_response({"choices": [choice]}, status=state) if state == 200 else web.Response(status=state)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/completions", complete)
    async with TestServer(app) as server:
        trainer = trainer_with(Engine(), str(server.make_url("")).rstrip("/"))
        generator = await asyncio.to_thread(VllmServerGenerator, trainer)
        assert isinstance(generator, TurnServer)
        made = [await generator.go_on(ids, room, ["</search>"]) for ids, room in (([1], 2), ([1, 1], 5))]
        assert [(one.ids, one.logprobs) for one in made] == [([7, 8], [-0.1, -0.2]), ([7, 8, 9], [-0.1, -0.2, -0.3])]
        assert [(body["prompt"], body["max_tokens"]) for body in asked[::2]] == [([1], 2), ([1, 1], 5)]
        assert asked[0] == asked[1] and asked[0] | {"prompt": 0, "max_tokens": 0} == {
            "model": "policy", "temperature": 0.7, "top_p": 0.9, "top_k": 0, "logprobs": 0, "stop": ["</search>"],
            "include_stop_str_in_output": True, "return_token_ids": True, "return_tokens_as_token_ids": True,
            "prompt": 0, "max_tokens": 0,
        }  # fmt: skip
        with pytest.raises(RequestRefused, match="HTTP 400"):
            await generator.go_on([1], 2, [])
    with pytest.raises(ServerUnavailable):
        await generator.go_on([1], 2, [])
    with pytest.raises(ServerUnavailable):
        await asyncio.to_thread(VllmServerGenerator, trainer)


# As who answers requests


def asked(text: str, **sampling: Any) -> Request:
    return Request(model="m", prompt=(ChatTurn(role="user", content=text),), sampling=Sampling(**sampling))


async def test_those_who_wait_are_answered_together_as_each_would_be_alone(model: Any, tokenizer: Any) -> None:
    rounds: list[int] = []
    client = CheckpointClient(model, tokenizer)
    answer = client._answer
    client._answer = lambda waiting: rounds.append(len(waiting)) or answer(waiting)  # pyright: ignore
    requests = [asked(f"Who led NASA in 196{n}?", max_tokens=9) for n in range(4)]
    alone = [(await client.complete(request)).text for request in requests]
    assert rounds == [1] * 4
    meter = Meter()
    together = await asyncio.gather(*(client.complete(request, meter) for request in requests))
    assert [reply.text for reply in together] == alone and sum(rounds[4:]) == 4 and len(rounds) < 8
    assert {reply.finish_reason for reply in together} <= {"length", "stop"}
    assert meter.calls == 4 and client.figures["paid_calls"] == 8


async def test_a_reply_ends_before_its_stop_string_and_the_ledger_keeps_it(
    model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    free = (await CheckpointClient(model, tokenizer).complete(asked("Who?", max_tokens=12))).text
    stop = free[4:6]
    request = asked("Who?", max_tokens=12, stop=(stop,))
    client = CheckpointClient(model, tokenizer, SqliteLedger(tmp_path / "calls.sqlite"))
    reply = await client.complete(request)
    assert (reply.text, reply.finish_reason) == (free[: free.index(stop)], "stop")
    again = await client.complete(request)
    assert again.from_ledger and again.text == reply.text
    assert client.figures == {"paid_calls": 1, "ledger_hits": 1, "in_flight": 0}
    await client.aclose()


async def test_a_prompt_without_room_for_a_reply_overflows(model: Any, tokenizer: Any) -> None:
    with pytest.raises(ContextOverflow, match="leaves no room within 10"):
        await CheckpointClient(model, tokenizer, window=10).complete(asked("word " * 20))
