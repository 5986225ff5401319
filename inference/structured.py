"""Get replies of a prescribed form: constrained where the server can, always checked, with one more try. A reply that
was cut is malformed, whatever it contains.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from trailforge.inference.request import ChatTurn, Reply, Request
from trailforge.inference.usage import Meter
from trailforge.schemas import MalformedReply

T = TypeVar("T")
_REPAIR_SAMPLE = 1_000_000
"""Added to the draw's number when a call is made again that cannot be told what was wrong: a prompt without turns, or a
reply that says nothing, as one that was cut within its thoughts."""

_STRICT_KEYWORDS = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs")
) | {"title", "description"}
"""What strict mode takes of JSON schema everywhere; some providers and models take more."""


TEXT, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
"""JSON schemas of a text, a number and an integer."""


class Client(Protocol):
    """The interface of anything that answers requests."""

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """Return the reply to one request."""
        ...


def object_schema(
    properties: Mapping[str, Any] | None = None, /, *, optional: Collection[str] = (), **named: dict[str, Any]
) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these properties, in this order; all but the optional ones are
    required."""
    properties = {**(properties or {}), **named}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def list_schema(items: dict[str, Any], **limits: int) -> dict[str, Any]:
    """Return the JSON schema of a list of which each item follows the schema `items`. `limits` are `minItems` and
    `maxItems`."""
    return {"type": "array", "items": items, **limits}


async def ask_json(
    client: Client,
    request: Request,
    schema: dict[str, Any],
    meter: Meter | None = None,
    *,
    held_against: dict[str, Any] | None = None,
) -> Any:
    """Return the reply as parsed JSON that follows the schema; a reply that does not is asked for once more, and if
    that fails `MalformedReply` is raised.

    `held_against` is a wider schema for the check, since not every server follows the one that is sent; None: `schema`.
    A constrained model writes the fields in the order of the schema: put first what it has to think of first.
    """
    text, wide = json.dumps(schema), json.dumps(held_against or schema)
    return await _ask(client, replace(request, json_schema=text), lambda reply: _parse_json(reply, wide), meter)


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without the keywords that strict structured outputs refuse, at OpenAI's or another provider:
    limits of lengths, counts and numbers, patterns. Replies are still checked against the whole schema (`ask_json`)."""
    kept = {name: value for name, value in schema.items() if name in _STRICT_KEYWORDS}
    for name in ("properties", "$defs"):
        if name in kept:
            kept[name] = {key: strict_schema(value) for key, value in kept[name].items()}
    if "items" in kept:
        kept["items"] = strict_schema(kept["items"])
    if "anyOf" in kept:
        kept["anyOf"] = [strict_schema(each) for each in kept["anyOf"]]
    return kept


async def ask_matching(
    client: Client, request: Request, parse: Callable[[str], T | None], meter: Meter | None = None
) -> T:
    """Return the reply as `parse` reads it, where None means malformed. Raises `MalformedReply` as `ask_json` does."""

    def parsed(text: str) -> T:
        value = parse(text)
        if value is None:
            raise MalformedReply("it does not have the form that was asked for")
        return value

    return await _ask(client, request, parsed, meter)


async def _ask(client: Client, request: Request, parse: Callable[[str], T], meter: Meter | None) -> T:
    reply = await client.complete(request, meter)
    try:
        return _read(reply, parse)
    except MalformedReply as error:
        repaired = await client.complete(_repair(request, reply, str(error)), meter)
    try:
        return _read(repaired, parse)
    except MalformedReply as error:
        raise MalformedReply(f"{request.purpose or 'reply'}: {error}, twice; last: {repaired.text[:80]!r}") from error


def _read(reply: Reply, parse: Callable[[str], T]) -> T:
    if reply.answer is None:
        raise MalformedReply(f"it was cut at {reply.completion_tokens} tokens")
    return parse(reply.answer)


def _repair(request: Request, reply: Reply, problem: str) -> Request:
    if isinstance(request.prompt, str) or not reply.text.strip():
        return replace(request, sample=request.sample + _REPAIR_SAMPLE)
    turns = (
        *request.prompt,
        ChatTurn(role="assistant", content=reply.text),
        ChatTurn(
            role="user",
            content=f"That reply cannot be used: {problem}. Reply again, in the form asked for and with nothing else.",
        ),
    )
    return replace(request, prompt=turns)


def _parse_json(text: str, schema: str) -> Any:
    try:
        value = _loaded(text)
    except (ValueError, RecursionError) as error:  # a model that repeats itself nests without end
        raise MalformedReply(f"it is not valid JSON ({error})") from error
    problem = next(iter(_validator(schema).iter_errors(value)), None)
    if problem is not None:
        raise MalformedReply(f"it does not follow the schema ({problem.message[:120]})")
    return value


def _loaded(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        value = json.loads(_json_part(text), parse_constant=_refuse_constant)
    # An escape may be half of a surrogate pair, which no file takes.
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _refuse_constant(name: str) -> None:
    """NaN and Infinity are no JSON, and NaN passes every limit of a schema."""
    raise ValueError(f"{name} is no number")


def _json_part(text: str) -> str:
    """The object in a reply that may be wrapped in a code fence or in words."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


@lru_cache(64)
def _validator(schema: str) -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(schema))
