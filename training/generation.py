"""Generators that continue episodes, token by token: the trained model itself, or vLLM through TRL's hooks.

One `Generator` call continues many token sequences at once; a `TurnServer` batches what it is asked, and a
`CheckpointClient` answers requests in place of a server's client. A continuation ends with an end-of-turn token,
with the token that completes a stop string (kept whole), or where its room ends. Nothing is ever decoded and tokenised
again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable
from urllib.request import urlopen

import aiohttp

from trailforge.inference import Counters, Meter, Reply, Request, count_reply
from trailforge.inference.ledgers import Ledger
from trailforge.schemas import ContextOverflow, InvalidInput, RequestRefused, ServerUnavailable
from trailforge.training.masks import prompt_ids

T = TypeVar("T")

_STOP_WINDOW = 32
"""Tokens in which a stop string is looked for: each has at least one of its bytes."""
_ATTEMPTS, _FIRST_WAIT_S = 6, 1.0
"""Of a request to a model's server; the wait doubles."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The tokens with which a sequence was continued."""

    ids: list[int]
    logprobs: list[float] | None = None
    """Log-probability of each token, as the sampler saw it; None where they are not asked for."""


class Generator(Protocol):
    """The interface of a source of tokens that continues many sequences in one call."""

    @property
    def end_ids(self) -> Collection[int]:
        """Return the tokens that end a turn when they are sampled."""
        ...

    def goes_on(self, wanted: bool) -> bool:
        """Tell whether any of the processes that generate together with this one still has something to generate;
        `generate` is then called in all of them. `wanted`: whether this process has.
        """
        ...

    def generate(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], stop: Sequence[str]
    ) -> list[Continuation]:
        """Continue each prompt up to the first of the stop strings, by at most as many tokens as its number in `rooms`
        says."""
        ...


@runtime_checkable
class TurnServer(Protocol):
    """The interface of a source of tokens that continues sequences one by one, as many at once as are asked for."""

    @property
    def end_ids(self) -> Collection[int]:
        """Return the tokens that end a turn, as `Generator.end_ids` does."""
        ...

    async def go_on(self, ids: list[int], room: int, stop: Sequence[str]) -> Continuation:
        """Continue a sequence of tokens up to the first of the stop strings, by at most `room` tokens."""
        ...


class TransformersGenerator:
    """A generator by `generate` of a transformers model, padded on the left. It works everywhere, but slowly."""

    def __init__(
        self, model: Any, tokenizer: Any, *, temperature: float = 1.0, top_p: float = 1.0, batch: int = 64, **rare: Any
    ) -> None:
        """`temperature` 0 is greedy. `batch`: sequences at a time. `rare`: as `Sampling.rare`. The model is whole in
        every process, which so waits for no other."""
        self._model, self._tokenizer, self._batch = model, tokenizer, batch
        self._temperature, self._top_p, self._rare = temperature, top_p, rare
        self.end_ids = _end_ids(tokenizer, model)

    def goes_on(self, wanted: bool) -> bool:
        """Tell whether there is something to generate, as `Generator.goes_on` does."""
        return wanted

    def generate(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], stop: Sequence[str]
    ) -> list[Continuation]:
        """Continue prompts as `Generator.generate` does. All sequences of a batch get the largest room, and each is cut
        to its own.
        """
        size = self._batch
        found = [
            one
            for start in range(0, len(prompts), size)
            for one in self._batch_of(prompts[start : start + size], rooms[start : start + size], stop)
        ]
        return [Continuation(one.ids[:room]) for one, room in zip(found, rooms, strict=True)]

    def _batch_of(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], stop: Sequence[str]
    ) -> Iterable[Continuation]:
        import torch
        from transformers import GenerationConfig, StoppingCriteriaList

        model = self._model
        width = max(map(len, prompts))
        pad = self._tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (width - len(p)) + list(p) for p in prompts], device=model.device)
        attention = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
        sampled = self._temperature > 0
        config = GenerationConfig(
            max_new_tokens=max(rooms),
            do_sample=sampled,
            temperature=self._temperature if sampled else None,
            top_p=self._top_p if sampled else None,
            repetition_penalty=self._rare.get("repetition_penalty", 1.0),
            # The default of 50 would not be what the loss takes the policy for.
            top_k=self._rare.get("top_k", 0) if sampled else None,
            pad_token_id=pad,
            eos_token_id=sorted(self.end_ids),
            disable_compile=True,
        )
        stopping = StoppingCriteriaList([_stop_strings(self._tokenizer, stop, width)])
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                made = model.generate(
                    input_ids=ids, attention_mask=attention, generation_config=config, stopping_criteria=stopping
                )
        finally:
            model.train(was_training)
        for row in made[:, width:].tolist():
            yield Continuation(cut_at_end(row, self._tokenizer, stop, self.end_ids))


class VllmColocatedGenerator:
    """A generator that uses the vLLM engines which TRL runs beside the trainer: one on each device, or on several
    together. Processes that share an engine (tensor parallel) have to generate together, each for its own episodes.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.end_ids = frozenset(trainer.eos_token_ids)

    def goes_on(self, wanted: bool) -> bool:
        """Tell whether there is something to generate in the processes that share the engine."""
        return any(self._of_all(wanted))

    def generate(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], stop: Sequence[str]
    ) -> list[Continuation]:
        """Continue prompts as `Generator.generate` does."""
        vllm = self._trainer.vllm_generation
        wanted = self._of_all((len(prompts), max(rooms, default=1)))
        vllm.max_completion_length = max(room for _, room in wanted)
        vllm.generation_kwargs = _stops(stop)
        # TRL takes as many prompts of each device.
        spare = [[min(self.end_ids)]] * (max(number for number, _ in wanted) - len(prompts))
        _, ids, logprobs, _ = vllm.generate([*map(list, prompts), *spare], None, 1)
        return _cut(ids[: len(prompts)], logprobs[: len(prompts)], rooms)

    def _of_all(self, value: T) -> list[T]:
        """What each that shares the engine has."""
        vllm = self._trainer.vllm_generation
        if vllm.tensor_parallel_size == 1:
            return [value]
        import torch

        values: list[Any] = [None] * vllm.tensor_parallel_size
        torch.distributed.all_gather_object(values, value, group=vllm.tp_group)
        return values


class VllmServerGenerator:
    """A turn server that uses a vLLM server whose weights TRL keeps up to date. Every process calls it by itself."""

    def __init__(self, trainer: Any) -> None:
        """Raises `ServerUnavailable` when it does not answer."""
        vllm = trainer.vllm_generation
        self.end_ids = frozenset(trainer.eos_token_ids)
        self._url = trainer.args.vllm_server_base_url.rstrip("/")
        self._sampling = {"temperature": vllm.temperature, "top_p": vllm.top_p, "top_k": vllm.top_k}
        try:
            with urlopen(f"{self._url}/v1/models", timeout=30) as answer:
                self._model = json.load(answer)["data"][0]["id"]
        except OSError as error:
            raise ServerUnavailable(f"{self._url} does not answer ({error}); see whether the server runs") from None

    async def go_on(self, ids: list[int], room: int, stop: Sequence[str]) -> Continuation:
        """Continue a sequence. Raises `ServerUnavailable` or `RequestRefused` where the server does not answer."""
        asked = {
            **self._sampling, **_stops(stop), "model": self._model, "prompt": ids, "max_tokens": room, "logprobs": 0,
            "return_token_ids": True, "return_tokens_as_token_ids": True,
        }  # fmt: skip
        (choice,) = (await post_json(f"{self._url}/v1/completions", asked))["choices"]
        return Continuation(choice["token_ids"][:room], choice["logprobs"]["token_logprobs"][:room])


async def post_json(url: str, asked: Mapping[str, Any]) -> Any:
    """Return a model server's reply to a request, however long it takes, retrying when it does not answer or fails.
    Raises `RequestRefused` for a refusal, and `ServerUnavailable` after several attempts.
    """
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=30)) as session:
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_FIRST_WAIT_S * 2 ** (attempt - 1))
            try:
                async with session.post(url, json=asked) as answer:
                    if answer.status == 200:
                        return await answer.json()
                    why = f"HTTP {answer.status}: {(await answer.text())[:200]}"
                    if answer.status < 500:
                        raise RequestRefused(f"{url} refuses the request: {why}")
            except aiohttp.ClientError as error:
                why = str(error) or type(error).__name__
    raise ServerUnavailable(f"{url} does not answer ({why}); see whether the server runs")


def _stops(stop: Sequence[str]) -> dict[str, Any]:
    """vLLM then keeps the token that completes the stop string, and its log-probability."""
    return {"stop": list(stop), "include_stop_str_in_output": True}


def _cut(ids: Sequence[Sequence[int]], logprobs: Any, rooms: Sequence[int]) -> list[Continuation]:
    """vLLM's answers, each within its room. Of a token's log-probabilities the first is that of the sampled one."""
    return [
        Continuation(list(one)[:room], [each[0] for each in logs][:room])
        for one, logs, room in zip(ids, logprobs, rooms, strict=True)
    ]


def _end_ids(tokenizer: Any, model: Any) -> frozenset[int]:
    """The tokenizer's end of turn, and what else the model says ends its output."""
    others = model.generation_config.eos_token_id
    found = {tokenizer.eos_token_id, *([others] if isinstance(others, int) else others or ())}
    if None in found:
        raise InvalidInput("the tokenizer names no end-of-sequence token; take a model whose tokenizer does")
    return frozenset(found)


def _stop_strings(tokenizer: Any, stop: Sequence[str], start: int) -> Any:
    """A criterion that ends a row whose newest token completes a stop string. `start`: where the new tokens begin."""
    import torch
    from transformers import StoppingCriteria

    class StopStrings(StoppingCriteria):
        """Looks at what was generated alone: the results before it hold such strings too."""

        def __call__(self, input_ids: Any, scores: Any, **options: Any) -> Any:
            rows = input_ids[:, max(start, input_ids.shape[1] - _STOP_WINDOW) :].tolist()
            texts = tokenizer.batch_decode(rows, skip_special_tokens=False)
            return torch.tensor([any(s in text for s in stop) for text in texts], device=input_ids.device)

    return StopStrings()


def cut_at_end(row: list[int], tokenizer: Any, stop: Sequence[str], end_ids: Collection[int]) -> list[int]:
    """Cut a row of tokens at its end, dropping what was sampled or padded after it. The remaining tokens are
    unchanged.
    """
    before = tokenizer.decode(row[:-1], skip_special_tokens=False)
    if not any(token in end_ids for token in row[:-1]) and not any(s in before for s in stop):
        return row  # as servers answer, which stop by themselves
    for place, token in enumerate(row):
        if token in end_ids:
            return row[: place + 1]
        window = row[max(0, place + 1 - _STOP_WINDOW) : place + 1]
        if stop and any(s in tokenizer.decode(window, skip_special_tokens=False) for s in stop):
            return row[: place + 1]
    return row


# As who answers requests

_AT_ONCE = 64
"""Prompts of a `CheckpointClient` that are answered together."""
_Waiting = tuple[Request, list[int], int, asyncio.Future[Reply]]
"""With the tokens of its prompt, and the room for a reply."""


class CheckpointClient:
    """A model in this process as a `Client`, in which waiting requests are answered together. Use it on one event loop.

    A sampled reply depends on the requests that were answered with it, since the random number generator is shared; the
    ledger has the reply that was sampled.
    """

    def __init__(self, model: Any, tokenizer: Any, ledger: Ledger | None = None, *, window: int | None = None) -> None:
        """`window`: tokens of prompt and reply together; None: what the model's configuration says."""
        self._model, self._tokenizer, self._ledger = model, tokenizer, ledger
        self._window = window or getattr(model.config, "max_position_embeddings", None) or 1 << 20
        self._waiting: list[_Waiting] = []
        self._at_work: asyncio.Task[None] | None = None
        self._counters = Counters()

    @property
    def figures(self) -> dict[str, int]:
        """Return counters of the client, as `ModelClient.figures` does."""
        names = ("paid_calls", "ledger_hits", "in_flight")
        return {name: getattr(self._counters, name) for name in names}

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """Return the reply, from the ledger or the model, up to the stop string, as servers send it. Raises
        `ContextOverflow` for a prompt that leaves no room for a reply.
        """
        reply = None if self._ledger is None else await self._ledger.find(request.key)
        self._counters.ledger_hits += reply is not None
        if reply is None:
            ids = self._ids(request)
            room = min(request.sampling.max_tokens, self._window - len(ids))
            if room < 1:
                raise ContextOverflow(
                    f"a prompt of {len(ids)} tokens leaves no room within {self._window}, the model's window"
                )
            future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            self._waiting.append((request, ids, room, future))
            if self._at_work is None:
                self._at_work = asyncio.create_task(self._work())
            self._counters.in_flight += 1
            try:
                reply = await asyncio.shield(future)
            finally:
                self._counters.in_flight -= 1
            self._counters.paid_calls += 1
            if self._ledger is not None:
                reply = await self._ledger.put(request, reply)
        count_reply(reply, meter, request.purpose, request.model)
        return reply

    async def aclose(self) -> None:
        """Finish the requests under way, and close the ledger."""
        if self._at_work is not None:
            await self._at_work
        if self._ledger is not None:
            await self._ledger.aclose()

    def _ids(self, request: Request) -> list[int]:
        if isinstance(request.prompt, str):
            return self._tokenizer.encode(request.prompt)
        return prompt_ids(self._tokenizer, request.prompt)

    async def _work(self) -> None:
        """Answer all who wait, those who are drawn alike and stop alike at once."""
        while self._waiting:
            await asyncio.sleep(0)  # who is about to ask may join
            sampling = self._waiting[0][0].sampling
            alike = [each for each in self._waiting if _is_drawn_alike(each[0], sampling)][:_AT_ONCE]
            self._waiting = [each for each in self._waiting if each not in alike]
            try:
                replies = await asyncio.to_thread(self._answer, alike)
            except Exception as error:
                for _, _, _, future in alike:
                    future.set_exception(error)
                continue
            for (_, _, _, future), reply in zip(alike, replies, strict=True):
                future.set_result(reply)
        self._at_work = None

    def _answer(self, waiting: Sequence[_Waiting]) -> list[Reply]:
        import torch

        first = waiting[0][0]
        draw = {"temperature": first.sampling.temperature, "top_p": first.sampling.top_p, **first.sampling.rare}
        generator = TransformersGenerator(self._model, self._tokenizer, **draw, batch=_AT_ONCE)
        torch.manual_seed(first.sampling_seed)
        stop = first.sampling.stop
        made = generator.generate([ids for _, ids, _, _ in waiting], [room for _, _, room, _ in waiting], stop)
        return [
            self._reply(request, ids, one, generator.end_ids)
            for (request, ids, _, _), one in zip(waiting, made, strict=True)
        ]

    def _reply(self, request: Request, ids: list[int], made: Continuation, end_ids: Collection[int]) -> Reply:
        has_end = bool(made.ids) and made.ids[-1] in end_ids
        text = self._tokenizer.decode(made.ids[:-1] if has_end else made.ids, skip_special_tokens=False)
        ends = [text.find(each) for each in request.sampling.stop if each in text]
        return Reply(
            text=text[: min(ends)] if ends else text,
            finish_reason="stop" if has_end or ends else "length",
            prompt_tokens=len(ids),
            completion_tokens=len(made.ids),
            key=request.key,
        )


def _is_drawn_alike(request: Request, sampling: Any) -> bool:
    return all(
        getattr(request.sampling, name) == getattr(sampling, name) for name in ("temperature", "top_p", "rare", "stop")
    )
