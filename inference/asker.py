"""How the search talks to a model: a prompt template filled in, in one of two styles, under one seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from trailforge.inference import ChatTurn, Client, Meter, Reply, Request, Sampling, ask_json, ask_matching
from trailforge.schemas.text import escape_chat_tokens

Style = Literal["chat", "completion"]
"""`chat`: the prompt is one user turn. `completion`: the prompt is raw text that the model goes on with."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """A client with all that stays the same within one question."""

    client: Client
    model: str
    style: Style
    seed: int
    meter: Meter
    priority: int = 0
    """Of this question's calls when calls wait for a slot."""

    async def text(
        self, prompt: str, *, purpose: str, sampling: Sampling, sample: int = 0, grammar: str | None = None
    ) -> Reply:
        """The model's reply to a prompt, as it comes; within a grammar (GBNF) where one is given."""
        return await self.client.complete(self._request(prompt, purpose, sampling, sample, grammar), self.meter)

    async def matching(self, prompt: str, parse: Callable[[str], T | None], *, purpose: str, sampling: Sampling) -> T:
        """The parsed reply. Raises `MalformedReply` when it does not parse, nor its repair."""
        return await ask_matching(self.client, self._request(prompt, purpose, sampling, 0), parse, self.meter)

    async def json(
        self,
        prompt: str,
        schema: dict[str, Any],
        *,
        purpose: str,
        sampling: Sampling,
        held_against: dict[str, Any] | None = None,
    ) -> Any:
        """A reply that follows a JSON schema. Raises `MalformedReply` when it does not, nor its repair.

        `held_against`: see `ask_json`.
        """
        request = self._request(prompt, purpose, sampling, 0)
        return await ask_json(self.client, request, schema, self.meter, held_against=held_against)

    def _request(
        self, prompt: str, purpose: str, sampling: Sampling, sample: int, grammar: str | None = None
    ) -> Request:
        return Request(
            model=self.model,
            prompt=prompt if self.style == "completion" else (ChatTurn(role="user", content=prompt),),
            sampling=sampling,
            grammar=grammar,
            sample=sample,
            seed=self.seed,
            purpose=purpose,
            priority=self.priority,
        )


def fill(template: str, **values: str) -> str:
    """Put values in the place of `{{name}}`.

    A value may be retrieved text: it is not searched for placeholders, and a chat template's tokens in it are escaped.
    """
    parts = []
    rest = template
    while (start := rest.find("{{")) >= 0 and (end := rest.find("}}", start)) >= 0:
        name = rest[start + 2 : end]
        parts += [rest[:start], escape_chat_tokens(values[name])]
        rest = rest[end + 2 :]
    return "".join([*parts, rest])
