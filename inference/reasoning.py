"""Separate a reasoning model's thoughts from its reply."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from trailforge.inference.provider.endings import TOOL_CALLS
from trailforge.inference.request import Reply, Request
from trailforge.schemas import MalformedReply, ProviderError

Reasoning = Literal["separate", "inline"]
"""Where a model's thoughts are. `separate`: the server sends them beside the reply, or there are none. `inline`: in the
reply itself, before `</think>`; the `<think>` before them may be in the prompt, put there by the chat template."""

MEND = "set `model.reasoning: inline`, or start the server with a reasoning parser (`server.reasoning_parser`)"
"""How to mend replies with thoughts that the configuration does not declare."""

_OPENS_THOUGHT = re.compile(r"\s*<think>")
_ENDS_A_LINE = re.compile(r"[ \t]*(?:\n|\Z)")
_IS_A_LINE = re.compile(r"^[ \t]*</think>[ \t]*$", re.MULTILINE)
_FEWEST_UNDECLARED = 3
"""Replies: one or two that seem to hold thoughts may quote the tags of thoughts."""


_CALLS = (TOOL_CALLS, "function_call", "tool_use", "tool_call")
_IN_REASONING = "and all that the model wrote in its reasoning (`reasoning_content`)"
_WITHOUT_PARSER = (
    "the server takes answers for thoughts: start it without its reasoning parser (`server.reasoning_parser`) where "
    "the model does not think, else with the parser of its family"
)
_IN_TOOLS = "beside tool calls"
_WITHOUT_TOOLS = "no tools are offered: start the server without its tool parser (vLLM: no --enable-auto-tool-choice)"


class ThoughtReader:
    """Reads the replies of one model, and counts those that seem to hold undeclared thoughts and those that hold
    nothing beside their thoughts or tool calls."""

    def __init__(self, reasoning: Reasoning) -> None:
        self._reasoning = reasoning
        self._silent: dict[str, Reply] = {}
        self._has_spoken = False
        self._undeclared: set[str] = set()
        self._plain = 0

    def read(self, request: Request, reply: Reply) -> Reply:
        """Return the reply with its answer as `text` and its thoughts as `reasoning`.

        For a model whose thoughts should come in a field of their own, a complete reply that seems to contain thoughts
        raises `MalformedReply`, since they would be taken for its answer; after several of these, more than ordinary
        replies, it raises `ProviderError`. It also does so after several replies without text when no other has any.
        For inline thoughts, an agent's turn gets its thought in `reasoning`, as a server that separates them would send
        it.
        """
        if isinstance(request.prompt, str):
            return reply
        self._note_text(request, reply)
        if self._reasoning == "inline":
            return split_turn(reply) if request.is_turn else drop_thoughts(reply)
        return reply if request.is_turn else self._checked(request, reply)

    def check(self) -> None:
        """Raise `ProviderError` when every reply so far, even a single one, is empty beside its thoughts or tool
        calls."""
        if self._has_spoken or not self._silent:
            return
        calls_tools = any(reply.finish_reason in _CALLS for reply in self._silent.values())
        where, mend = (_IN_TOOLS, _WITHOUT_TOOLS) if calls_tools else (_IN_REASONING, _WITHOUT_PARSER)
        raise ProviderError(
            f"every reply so far ({len(self._silent)}) has an empty text {where}; {mend}, then run the same command "
            "again with --redo truncated, or into another folder: this one keeps the replies that it has"
        )

    def _note_text(self, request: Request, reply: Reply) -> None:
        if reply.text.strip() or (request.tools and reply.tool_calls):
            self._has_spoken = True
        elif not reply.is_cut and (reply.reasoning.strip() or reply.finish_reason in _CALLS):
            self._silent[request.key] = reply
            if len(self._silent) >= _FEWEST_UNDECLARED:
                self.check()

    def _checked(self, request: Request, reply: Reply) -> Reply:
        if reply.reasoning or not seems_thoughtful(reply.text):
            is_free = request.json_schema is None and request.grammar is None
            self._plain += is_free and not reply.is_cut  # others have no room for thoughts, or did not end them
            return reply
        self._undeclared.add(request.key)
        found = (
            f"the model writes its thoughts (`<think>`) into its replies, where they would be taken for answers; {MEND}"
            ". A run that has begun keeps its replies: there it takes the first, and --replace (no call is paid twice)"
        )
        if len(self._undeclared) >= max(_FEWEST_UNDECLARED, self._plain + 1):
            raise ProviderError(found)
        if reply.is_cut:
            return reply
        raise MalformedReply(f"it seems to hold thoughts: {reply.text.strip()[:80]!r}. If most replies do so, {found}")


def drop_thoughts(reply: Reply) -> Reply:
    """Split a reply with inline thoughts: its answer becomes `text`, its thoughts become `reasoning`.

    Thoughts end at the first `</think>`; where no tag opened them, only if that ends its line, since the tag may be
    quoted. A thought that does not end leaves no answer.
    """
    thoughts, end, answer = reply.text.partition("</think>")
    if not _OPENS_THOUGHT.match(reply.text) and not (end and _ENDS_A_LINE.match(answer)):
        return reply
    inline = _OPENS_THOUGHT.sub("", thoughts, count=1).strip()
    return replace(reply, text=answer.strip(), reasoning=reply.reasoning or inline)


def split_turn(reply: Reply) -> Reply:
    """Move the thought at the beginning of an agent's turn to `reasoning`, and leave everything else unchanged. A turn
    that is only a thought, or has an empty one, stays whole.
    """
    thought, end, text = reply.text.partition("</think>")
    opened = _OPENS_THOUGHT.match(thought)
    begins = opened is not None or "<think>" not in thought
    thought = thought[opened.end() :] if opened else thought
    if reply.reasoning or not (begins and end and text.strip() and thought.strip()):
        return reply
    return replace(reply, text=text, reasoning=thought)


def seems_thoughtful(text: str) -> bool:
    """Tell whether a text begins with a thought, or has a line that ends one, as reasoning models write it."""
    return bool(_OPENS_THOUGHT.match(text) or _IS_A_LINE.search(text))
