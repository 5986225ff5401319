"""Find by probing how a model's chat template writes a turn with native calls, in order to read what a model sampled.

A server reads thoughts and calls out of the sampled text by parsers that its start names. Here the template itself
tells: a turn with a known thought and a known call is written, and what stands around them is what the model was taught
to write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from trailforge.protocols.browse import TOOLS_JSON
from trailforge.schemas import InvalidInput, NativeConversation, NativeMessage, ToolCall, parse_json
from trailforge.training.masks import own_template, special_tokens
from trailforge.training.native.tokens import render

_THOUGHT, _SAID, _TOOL, _ARGUMENTS = "Ponder first.", "Aloud now.", "probe", {"key": "value"}
_OPENING = (NativeMessage(role="system", content="Rules."), NativeMessage(role="user", content="Question?"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnForm:
    """The marks around a turn's parts, as a chat template writes them."""

    end: str
    """The token that ends a turn of the agent."""
    thought: tuple[str, str] | None
    """The marks around a thought; None: the template knows none, and what is thought is said."""
    call: tuple[str, str]
    """The marks around a call; empty where a call is the whole turn."""
    arguments: str
    """The key of a call's arguments, beside `name`."""

    def read(self, text: str) -> NativeMessage:
        """Parse what a model sampled, without its end token, as a server does. What does not have the form of a call
        stays in the text.
        """
        thought = ""
        if self.thought is not None:
            opening, closing = self.thought
            before, is_closed, rest = text.partition(closing)
            if is_closed or (opening and text.lstrip().startswith(opening)):
                thought, text = before.strip().removeprefix(opening).strip(), rest
        opening, closing = self.call
        said, *bodies = text.split(opening) if opening else ("", text)
        calls = [self._call(body, closing) for body in bodies]
        if any(call is None for call in calls):
            said, calls = text, []
        return NativeMessage(
            role="assistant",
            content=said.strip(),
            reasoning=thought,
            tool_calls=tuple(call for call in calls if call is not None),
        )

    def _call(self, body: str, closing: str) -> ToolCall | None:
        body = body.partition(closing)[0] if closing else body
        try:
            found = parse_json(body.strip())
            given = found.get(self.arguments, {})
            arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            return ToolCall(id="", name=str(found["name"]), arguments=arguments)
        except (ValueError, AttributeError, LookupError):
            return None


def form_of(tokenizer: Any) -> TurnForm:
    """Find the form of the turns of a tokenizer's own chat template.

    Raises `InvalidInput` for a tokenizer without one, and for a template that writes no calls, or not as JSON.
    """
    template = own_template(tokenizer)
    if template is None:
        raise InvalidInput(
            "the model has no chat template, which writes calls; take a model that has one", field="chat_template"
        )
    return _probed(_Probe(tokenizer, template, (template, str(tokenizer.bos_token))))


def end_with_turns(tokenizer: Any) -> TurnForm:
    """Make the token that ends a turn a tokenizer's end of sequence; returns the form of its turns. Raises what
    `form_of` raises.
    """
    form = form_of(tokenizer)
    tokenizer.eos_token = form.end
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = form.end
    return form


@dataclass(frozen=True, slots=True, eq=False)
class _Probe:
    """A tokenizer to be probed, which is the same as any other with the same template."""

    tokenizer: Any
    template: str
    identity: tuple[str, str]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Probe) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def written(self, message: NativeMessage) -> str:
        """A turn as the template writes it behind what it begins every turn with."""
        conversation = NativeConversation(tools=TOOLS_JSON, messages=(*_OPENING, message))
        prompt = render(self.tokenizer, conversation, len(_OPENING), self.template, add_generation_prompt=True)
        whole = render(self.tokenizer, conversation, len(_OPENING) + 1, self.template)
        if not whole.startswith(prompt):
            raise InvalidInput(
                "the chat template begins a turn otherwise than it shows it later; take another model",
                field="chat_template",
            )
        return whole[len(prompt) :].rstrip()

    def check_keeps(self, turn: NativeMessage, *, thinks: bool) -> None:
        """Check that a turn is shown as it was written when results and further turns follow. Raises `InvalidInput`."""
        result = NativeMessage(role="tool", content="Found.", tool_call_id=turn.tool_calls[0].id)
        conversation = NativeConversation(tools=TOOLS_JSON, messages=(*_OPENING, turn, result, turn, result))
        before = render(self.tokenizer, conversation, 4, self.template)
        forgets = thinks and _THOUGHT not in before
        if forgets or not render(self.tokenizer, conversation, 6, self.template).startswith(before):
            raise InvalidInput(
                "the chat template shows a turn otherwise once results follow it, as without its thought, so that an "
                "episode is no one sequence to train; take another model",
                field="chat_template",
            )


@cache
def _probed(probe: _Probe) -> TurnForm:
    spoken = probe.written(NativeMessage(role="assistant", content=_SAID, reasoning=_THOUGHT))
    end = next((each for each in special_tokens(probe.tokenizer) if spoken.endswith(each)), "")
    if not end or _SAID not in spoken:
        raise InvalidInput(
            "the chat template ends a turn with no token of its own; take another model", field="chat_template"
        )
    thought = None
    if _THOUGHT in spoken:
        before, _, after = spoken.partition(_THOUGHT)
        thought = before.strip(), after.partition(_SAID)[0].strip()
        if not thought[1]:
            raise InvalidInput(
                "the chat template does not say where a thought ends; take another model", field="chat_template"
            )
    called = ToolCall(id="probe0000", name=_TOOL, arguments=json.dumps(_ARGUMENTS))
    given = NativeMessage(role="assistant", content="", reasoning=_THOUGHT, tool_calls=(called,))
    text = probe.written(given).removesuffix(end)
    if thought is not None:
        text = text.partition(_THOUGHT)[2].partition(thought[1])[2]
    start, stop, key = _find_call(text)
    probe.check_keeps(given, thinks=thought is not None)
    return TurnForm(end=end, thought=thought, call=(text[:start].strip(), text[stop:].strip()), arguments=key)


def _find_call(text: str) -> tuple[int, int, str]:
    """Where the call stands as a JSON object, and the key of its arguments."""
    start = text.rfind("{", 0, max(0, text.find(f'"{_TOOL}"')))
    try:
        found, length = json.JSONDecoder().raw_decode(text[max(0, start) :])
        key = next(name for name, value in found.items() if value == _ARGUMENTS)
    except (ValueError, AttributeError, StopIteration):
        found, length, key = {}, 0, ""
    if start < 0 or not key or found.get("name") != _TOOL:
        raise InvalidInput(
            "the chat template writes no calls as JSON objects with name and arguments, which is what is read here; "
            "take a model of Hermes', Qwen's or Llama's form",
            field="chat_template",
        )
    return start, start + length, key
