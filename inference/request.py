"""A model call, its reply, and the key under which the ledger stores them."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from trailforge.inference.provider.endings import read_ending
from trailforge.inference.provider.messages import chat_message
from trailforge.schemas import ToolCall

CONTROL = "control"
"""Purpose of a call that only checks whether a server answers calls of a form."""
_PROMPT_ALONE = ("prompt", "sample", "seed", "redo")
_HARMLESS = {"assistant": "Yes.", "user": "Reply with the one word: yes."}
_HARMLESS_TURN, _HARMLESS_TEXT = "Be brief.", "The sun rises in the"
_BYTES_PER_TOKEN = 2
"""Fewer than in any running text: no text is longer than estimated."""
_TOKENS_PER_TEXT = 16
_FIRST = 1 << 30
"""A priority above all others."""


@dataclass(frozen=True, kw_only=True)
class ChatTurn:
    """A turn of a chat prompt. It caches its JSON, since a long conversation is sent again with each new turn."""

    role: str
    content: str
    reasoning: str = ""
    """The thought that an assistant's turn had beside its content, sent back to the model."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls of an assistant's turn."""
    tool_call_id: str = ""
    """Id of the call that the turn of a tool answers; empty for other turns."""

    @property
    def words(self) -> tuple[str, ...]:
        """Return all texts of the turn that the model reads."""
        called = (text for call in self.tool_calls for text in (call.name, call.arguments))
        return (self.content, *filter(None, (self.reasoning, *called)))

    @property
    def identity(self) -> list[Any]:
        """Return the parts of the turn that decide a reply; for a turn without tools its role and content, as in
        earlier keys.
        """
        more: dict[str, Any] = {"reasoning": self.reasoning} if self.reasoning else {}
        if self.tool_calls:
            more["tool_calls"] = [[call.id, call.name, call.arguments] for call in self.tool_calls]
        if self.tool_call_id:
            more["tool_call_id"] = self.tool_call_id
        return [self.role, self.content, more] if more else [self.role, self.content]

    @cached_property
    def identity_json(self) -> str:
        """Return its `identity` as JSON, as the ledger stores it."""
        return json.dumps(self.identity, ensure_ascii=False)

    @cached_property
    def key_json(self) -> str:
        """Return its `identity` as ASCII JSON, from which keys are made."""
        text = self.identity_json  # which mostly is the same, and then kept once
        is_same = text.isascii() and "\x7f" not in text and not (self.tool_calls and self.tool_call_id)  # else sorted
        return text if is_same else json.dumps(self.identity, sort_keys=True)

    @cached_property
    def sent_json(self) -> str:
        """Return the turn as JSON in the form in which servers take it."""
        return json.dumps(chat_message(self), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class PromptSums:
    """What a prompt adds up to."""

    size: int = 0
    """Bytes of all its texts."""
    tokens: int = 0
    """Estimated tokens of all its texts, rather too many than too few."""
    roles: frozenset[str] = frozenset()
    """The roles of its turns."""

    def add(self, turns: Sequence[ChatTurn]) -> PromptSums:
        """Return the sums with more turns."""
        sizes = [text_size(text) for turn in turns for text in turn.words]
        roles = self.roles.union(turn.role for turn in turns)
        return PromptSums(self.size + sum(sizes), self.tokens + tokens_of_sizes(sizes), roles)


class LongChat:
    """What each call of a long conversation can take over from the one before: how far its prompt was hashed, summed up
    and written, and which entry of the ledger has it. All of it is checked against the prompt, so that no key, no body
    and no entry depends on it.
    """

    def __init__(self) -> None:
        self._hashed: dict[str, tuple[tuple[ChatTurn, ...], Any]] = {}
        self._summed: tuple[tuple[ChatTurn, ...], PromptSums] = ((), PromptSums())
        self._written: tuple[tuple[ChatTurn, ...], str] = ((), "")
        self._kept: tuple[tuple[ChatTurn, ...], str] = ((), "")

    def hash_turns(self, head: str, turns: tuple[ChatTurn, ...]) -> Any:
        """Return a SHA-256 over a text and the turns' JSON after it, which the caller may update."""
        known, state = self._hashed.pop(head, ((), None))
        if state is None or not _begins(turns, known):
            known, state = (), hashlib.sha256(head.encode())
        for number, turn in enumerate(turns[len(known) :], start=len(known)):
            state.update(f"{', ' if number else ''}{turn.key_json}".encode())
        if len(self._hashed) >= _MOST_HEADS:
            self._hashed.clear()
        self._hashed[head] = turns, state
        return state.copy()

    def sum_up(self, turns: tuple[ChatTurn, ...]) -> PromptSums:
        """Return what the turns add up to."""
        known, sums = self._summed
        if not _begins(turns, known):
            known, sums = (), PromptSums()
        self._summed = turns, sums.add(turns[len(known) :])
        return self._summed[1]

    def write(self, turns: tuple[ChatTurn, ...]) -> str:
        """Return the turns as JSON in the form in which servers take them, joined by commas."""
        known, text = self._written
        if not _begins(turns, known):
            known, text = (), ""
        text = ", ".join([*([text] if known else []), *(turn.sent_json for turn in turns[len(known) :])])
        self._written = turns, text
        return text

    def keep(self, request: Request, key: str) -> None:
        """Remember that the ledger has this request's prompt under this key, so that later calls store only what is
        new.
        """
        if not isinstance(request.prompt, str):
            self._kept = request.prompt, key

    def kept_before(self, turns: tuple[ChatTurn, ...]) -> tuple[int, str]:
        """Return how many of these turns the conversation's last entry in the ledger has, and its key; 0 and an empty
        key where they do not begin with what it has.
        """
        known, key = self._kept
        return (len(known), key) if known and _begins(turns, known) else (0, "")


_MOST_HEADS = 8
"""What stands before the turns: one for a key, one for a family, and others once `max_tokens` changes."""


def _begins(turns: tuple[ChatTurn, ...], known: tuple[ChatTurn, ...]) -> bool:
    return turns[: len(known)] == known  # which does not look at what is the same object


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling parameters of a reply, such as temperature and `max_tokens`."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    """Number of likeliest tokens that are sampled from; 0: all."""
    repetition_penalty: float = 1.0
    """Repetition penalty as in vLLM and llama.cpp; 1: none."""
    max_tokens: int = 256
    stop: tuple[str, ...] = ()

    @property
    def rare(self) -> dict[str, Any]:
        """Return the parameters that are set and that few servers take."""
        said = {"top_k": (self.top_k, 0), "repetition_penalty": (float(self.repetition_penalty), 1.0)}
        return {name: value for name, (value, usual) in said.items() if value != usual}


@dataclass(frozen=True, kw_only=True)
class Request:
    """One model call. Two requests with the same key are the same call, which is made once."""

    model: str
    prompt: str | tuple[ChatTurn, ...]
    """The prompt: a text goes to the completions endpoint, turns go to the chat endpoint."""
    sampling: Sampling
    json_schema: str | None = None
    """JSON schema that the reply has to follow, as JSON text."""
    grammar: str | None = None
    """Grammar (GBNF) that the reply has to follow."""
    tools: str = ""
    """The tools that the model may call, as a JSON list; only a chat may have any."""
    sample: int = 0
    """Number of the sample, which distinguishes repeated samples of one prompt."""
    seed: int = 0
    """Seed of the run."""
    extra_body: str = ""
    """JSON object of server-specific parameters; the client fills it in."""
    omit: tuple[str, ...] = ()
    """Parameters that are not sent; the client fills it in."""
    redo: int = 0
    """Number of times that the run has asked for cut replies again."""
    purpose: str = ""
    """Purpose of the call, for figures and logs; not part of the key."""
    is_turn: bool = False
    """Whether the reply is an agent's turn, which is judged as the model wrote it: no thought is removed; not part of
    the key."""
    priority: int = 0
    """Priority of the call: of those that wait for a slot, the highest goes first; not part of the key."""
    conversation: LongChat | None = field(default=None, compare=False, repr=False)
    """What the calls of one long conversation share, so that each costs what is new in it; not part of the key."""

    @property
    def content(self) -> dict[str, Any]:
        """Return all fields of the request that decide its reply."""
        prompt = self.prompt
        return self.settings | {"prompt": prompt if isinstance(prompt, str) else [turn.identity for turn in prompt]}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return `content` with null in place of the turns of a chat."""
        redo = {"redo": self.redo} if self.redo else {}
        omit = {"omit": list(self.omit)} if self.omit else {}  # named when there are any: earlier keys stay
        tools = {"tools": self.tools} if self.tools else {}
        return (
            redo
            | omit
            | tools
            | self.sampling.rare
            | {
                "model": self.model,
                "prompt": self.prompt if isinstance(self.prompt, str) else None,
                "temperature": float(self.sampling.temperature),  # 0 is 0.0
                "top_p": float(self.sampling.top_p),
                "max_tokens": self.sampling.max_tokens,
                "stop": list(self.sampling.stop),
                "json_schema": self.json_schema,
                "grammar": self.grammar,
                "sample": self.sample,
                "seed": self.seed,
                "extra_body": self.extra_body,
            }
        )

    @cached_property
    def key(self) -> str:
        """Return the key of the request: the SHA-256 of `content`, in hex."""
        return self._hash(self.settings)

    @cached_property
    def family(self) -> str:
        """Return the key shared by all requests that differ from this one only in how long the reply may be."""
        return self._hash(_without_length(self.settings))

    @cached_property
    def form(self) -> str:
        """Return the key shared by all requests that differ from this one only in their words: with the same parameters
        and roles of turns, and all with a JSON schema or all without.
        """
        shared = {name: value for name, value in self.settings.items() if name not in _PROMPT_ALONE}
        roles = None if isinstance(self.prompt, str) else sorted(self.sums.roles)
        has = {name: getattr(self, name) is not None for name in ("json_schema", "grammar")}
        return _hash(shared | has | {"roles": roles})

    @property
    def sent_turns(self) -> str:
        """Return the turns of a chat as JSON in the form in which servers take them, joined by commas."""
        assert not isinstance(self.prompt, str)
        return (self.conversation or LongChat()).write(self.prompt)

    @cached_property
    def sums(self) -> PromptSums:
        """Return what the prompt adds up to."""
        if isinstance(self.prompt, str):
            return PromptSums(text_size(self.prompt), tokens_of_sizes([text_size(self.prompt)]))
        return PromptSums().add(self.prompt) if self.conversation is None else self.conversation.sum_up(self.prompt)

    def _hash(self, content: dict[str, Any]) -> str:
        if isinstance(self.prompt, str):
            return _hash(content)
        if self.conversation is None:
            return _hash(content, [turn.key_json for turn in self.prompt])
        head, null, tail = json.dumps(content, sort_keys=True).partition('"prompt": null')
        assert null  # as in `write_json`
        digest = self.conversation.hash_turns(f'{head}"prompt": [', self.prompt)
        digest.update(f"]{tail}".encode())
        return digest.hexdigest()

    def control(self, good: Request | None = None) -> Request:
        """Return a new request of the same form that a working server should answer, by which one tests whether the
        server or a prompt is at fault.

        It has the words of `good`, which the server has answered before, or harmless ones. It is not in the ledger, so
        it is paid for and counted.
        """
        number = secrets.randbits(48)
        if good is not None:
            return replace(good, sample=number, purpose=CONTROL, priority=_FIRST)
        turns = self.prompt if not isinstance(self.prompt, str) else ()
        harmless = tuple(  # with its calls: what answers a call has to follow it
            replace(turn, content=_HARMLESS.get(turn.role, _HARMLESS_TURN), reasoning="") for turn in turns
        )
        prompt = harmless or _HARMLESS_TEXT
        return replace(self, prompt=prompt, sample=number, purpose=CONTROL, priority=_FIRST)

    @property
    def sampling_seed(self) -> int:
        """Return the seed for the server: different for every sample of every prompt, always the same for the same
        one."""
        return int(self.key[:7], 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's reply as the server sent it. Replies in old ledgers may lack thoughts that were part of the text."""

    text: str
    reasoning: str = ""
    """A reasoning model's thoughts, where the server sends them separately."""
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    key: str
    from_ledger: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls of tools that the model made, in order, where the request offered any."""
    cached_tokens: int = 0
    """Number of the prompt's tokens that the server had in its prefix cache; 0 where it does not say."""

    @property
    def is_cut(self) -> bool:
        """Tell whether something other than the model ended the reply: `max_tokens`, the context window, a filter, a
        breakdown, or an unknown cause.
        """
        return read_ending(self.finish_reason) != "whole"

    @property
    def answer(self) -> str | None:
        """Return the text of the reply; None when it was cut, since the model's intended answer is then unknown."""
        return None if self.is_cut else self.text


def family_of(content: dict[str, Any]) -> str:
    """Return `Request.family` for a request's content."""
    return _hash(_without_length(content))


def write_json(content: dict[str, Any], written: Mapping[str, str], **options: Any) -> str:
    """Return the content as JSON in which the JSON texts of `written` replace the nulls under their names. They are in
    the order of the content.
    """
    rest, parts = json.dumps(content, **options), list[str]()
    for name, value in written.items():
        head, null, tail = rest.partition(f'"{name}": null')  # no string holds it, as quotes are escaped in it
        if null:
            parts += head, f'"{name}": ', value
            rest = tail
    return "".join((*parts, rest))


def join_json(items: Sequence[str]) -> str:
    """Return the JSON list of JSON texts."""
    return f"[{', '.join(items)}]"


def text_size(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def tokens_of_sizes(sizes: Iterable[int]) -> int:
    """Return the estimated tokens of texts of these sizes in bytes."""
    return sum(size // _BYTES_PER_TOKEN + _TOKENS_PER_TEXT for size in sizes)


def _without_length(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in ("max_tokens", "redo")}


def _hash(content: dict[str, Any], turns: Sequence[str] | None = None) -> str:
    written = {} if turns is None else {"prompt": join_json(turns)}
    return hashlib.sha256(write_json(content, written, sort_keys=True).encode()).hexdigest()
