"""Who continues episodes, token by token: the trained model itself, or vLLM through TRL's hooks.

One `Generator` call continues many token sequences at once. A continuation ends with an end-of-turn token, with the
token that completes a stop string (kept whole), or where its room ends. Nothing is ever decoded and tokenised again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trailforge.schemas import InvalidInput

_STOP_WINDOW = 32
"""Tokens in which a stop string is looked for: each has at least one of its bytes."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """A continuation."""

    ids: list[int]
    logprobs: list[float] | None = None
    """Of each token, as the sampler saw it; None where nobody asks for them."""


class Generator(Protocol):
    """Continues token sequences."""

    @property
    def end_ids(self) -> Collection[int]:
        """Tokens that end a turn when they are sampled."""
        ...

    def goes_on(self, wanted: bool) -> bool:
        """Is there still something to generate, in any process? `generate` is then called in all of them."""
        ...

    def generate(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], stop: Sequence[str]
    ) -> list[Continuation]:
        """Continue each prompt by at most its `room` tokens, up to the first of the stop strings."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """How tokens are drawn. Temperature 0 is greedy."""

    temperature: float = 1.0
    top_p: float = 1.0


class TransformersGenerator:
    """`generate` of a transformers model, batched with padding on the left. Works everywhere, and slowly."""

    def __init__(self, model: Any, tokenizer: Any, draw: Draw, *, batch: int = 64) -> None:
        """`batch`: sequences at a time. The model is whole in every process, which so waits for no other."""
        self._model, self._tokenizer, self._draw, self._batch = model, tokenizer, draw, batch
        self.end_ids = _end_ids(tokenizer, model)

    def goes_on(self, wanted: bool) -> bool:
        """As `Generator`."""
        return wanted

    def generate(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], stop: Sequence[str]
    ) -> list[Continuation]:
        """As `Generator`; the room of a batch is its largest, and what is longer than a sequence's own is cut."""
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
        sampled = self._draw.temperature > 0
        config = GenerationConfig(
            max_new_tokens=max(rooms),
            do_sample=sampled,
            temperature=self._draw.temperature if sampled else None,
            top_p=self._draw.top_p if sampled else None,
            top_k=0 if sampled else None,  # the default of 50 would not be what the loss takes the policy for
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
    """The engines that TRL runs beside the trainer, one on each of its devices."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.end_ids = frozenset(trainer.eos_token_ids)

    def goes_on(self, wanted: bool) -> bool:
        """As `Generator`: each process has an engine of its own and waits for no other."""
        return wanted

    def generate(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], stop: Sequence[str]
    ) -> list[Continuation]:
        """As `Generator`."""
        vllm = self._trainer.vllm_generation
        vllm.max_completion_length = max(rooms)
        vllm.generation_kwargs = _stops(stop)
        _, ids, logprobs, _ = vllm.generate([list(p) for p in prompts], None, 1)
        return _cut(ids, logprobs, rooms)


class VllmServerGenerator:
    """A server of `trl vllm-serve`: the main process asks for all, and hands each process its own."""

    def __init__(self, trainer: Any, any_process: Callable[[bool], bool]) -> None:
        self._trainer, self._any_process = trainer, any_process
        self.end_ids = frozenset(trainer.eos_token_ids)

    def goes_on(self, wanted: bool) -> bool:
        """As `Generator`."""
        return self._any_process(wanted)

    def generate(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], stop: Sequence[str]
    ) -> list[Continuation]:
        """As `Generator`. `vllm_generation.generate` wants as many prompts of every process; here they may differ."""
        from accelerate.utils import broadcast_object_list, gather_object

        accelerator, vllm = self._trainer.accelerator, self._trainer.vllm_generation
        everyones = gather_object([[list(p) for p in prompts]])
        longest = max(gather_object([max(rooms, default=1)]))
        answer: list[Any] = [None]
        if accelerator.is_main_process:
            made = vllm.vllm_client.generate(
                prompts=[ids for one in everyones for ids in one],
                temperature=vllm.temperature,
                top_p=vllm.top_p,
                top_k=vllm.top_k,
                max_tokens=longest,
                generation_kwargs=_stops(stop),
            )
            answer = [(made["completion_ids"], made["logprobs"])]
        broadcast_object_list(answer, from_process=0)
        ids, logprobs = answer[0]
        start = sum(map(len, everyones[: accelerator.process_index]))
        own = slice(start, start + len(prompts))
        return _cut(ids[own], logprobs[own], rooms)


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
        raise InvalidInput("the tokenizer names no end-of-sequence token")
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
    """A row up to its end, whatever was sampled or padded behind that. None of its tokens becomes another one."""
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
