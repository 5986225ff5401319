"""Ask a model with a filled-in prompt template, in one of two styles (chat or completion) and under one seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from trailforge.inference.request import ChatTurn, Reply, Request, Sampling
from trailforge.inference.structured import Client, ask_json, ask_matching
from trailforge.inference.usage import Meter
from trailforge.schemas import escape_chat_tokens

Style = Literal["chat", "completion"]
"""Form of a request. `chat`: the prompt is one user turn. `completion`: the prompt is raw text that the model
continues."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """A client together with the settings that all calls about one question share."""

    client: Client
    model: str
    style: Style
    seed: int
    meter: Meter
    priority: int = 0
    """Priority of this question's calls when calls wait for a slot."""

    async def text(
        self, prompt: str, *, purpose: str, sampling: Sampling, sample: int = 0, grammar: str | None = None
    ) -> Reply:
        """Return the model's reply to a prompt unchanged; it follows a grammar (GBNF) where one is given. `sample`
        tells apart several replies to one prompt; `purpose` is the name under which the call is counted."""
        return await self.client.complete(self._request(prompt, purpose, sampling, sample, grammar), self.meter)

    async def matching(self, prompt: str, parse: Callable[[str], T | None], *, purpose: str, sampling: Sampling) -> T:
        """Return the reply as `parse` reads it. Raises `MalformedReply` when neither the reply nor a second one can be
        parsed.
        """
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
        """Return a reply that follows a JSON schema. Raises `MalformedReply` when neither the reply nor its repair
        does.

        `held_against`: a wider schema by which the reply is checked; None: the schema itself (`ask_json`).
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
    """Replace each `{{name}}` of a template by its value.

    A value may be retrieved text: it is not searched for placeholders, and a chat template's tokens in it are escaped.
    """
    parts = []
    rest = template
    while (start := rest.find("{{")) >= 0 and (end := rest.find("}}", start)) >= 0:
        name = rest[start + 2 : end]
        parts += [rest[:start], escape_chat_tokens(values[name])]
        rest = rest[end + 2 :]
    return "".join([*parts, rest])
