"""Decide which of an episode's messages the model is shown at each turn, by a stated rule, and the windows that follow
from it.

`all` shows everything. `newest:5` shows the newest five results, and a mark in place of each older one. `summary:N`
lets the model write a summary once N tokens stand after the opening, and continues from that summary alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trailforge.schemas import BrowseRecord, BrowseView, InvalidInput, NativeMessage, Writing

OPENING = 2
"""Number of messages in the opening: every prompt begins with the system turn and the question."""
SUMMARY_HEAD = "What you did and found so far, in your own summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRule:
    """The rule that says which messages the model is shown."""

    kind: Literal["all", "newest", "summary"] = "all"
    number: int = 0
    """The number of the rule: for `newest`, how many results stay; for `summary`, how many tokens after the opening
    call for a summary.
    """
    at_once: int = 1
    """How many results `newest` replaces together. A larger number keeps a server's prefix cache, and makes longer
    windows.
    """

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a rule that leaves nothing."""
        if (self.kind != "all" and self.number < 1) or self.at_once < 1:
            raise InvalidInput(
                "expected all, newest:RESULTS, newest:RESULTS:AT_ONCE or summary:TOKENS", field="context"
            )

    def __str__(self) -> str:
        more = f":{self.at_once}" if self.at_once > 1 else ""
        return self.kind if self.kind == "all" else f"{self.kind}:{self.number}{more}"


def read_rule(text: str) -> ContextRule:
    """Read a rule as presets write it. Raises `InvalidInput` for text that is none."""
    kind, *numbers = text.strip().split(":")
    most = {"all": 0, "newest": 2, "summary": 1}
    if (
        kind not in most
        or len(numbers) > most[kind]
        or not all(each.isdecimal() and len(each) < 10 for each in numbers)
    ):
        ContextRule(kind="newest")  # which says what is expected
    return ContextRule(kind=kind, **dict(zip(("number", "at_once"), map(int, numbers), strict=False)))  # type: ignore[arg-type]


class Windows:
    """The messages of an episode in progress, and which of them the model is shown."""

    def __init__(self, rule: ContextRule, opening: Sequence[NativeMessage], mark: str, *, sends_thoughts: bool) -> None:
        """`mark`: what a replaced result says, as the writing writes it."""
        self.messages: list[NativeMessage] = list(opening)
        self.views: list[BrowseView] = []
        """Those that are closed."""
        self._rule, self._mark, self._sends_thoughts = rule, mark, sends_thoughts
        self._view = BrowseView(first=OPENING, end=OPENING, start=OPENING, marked_before=OPENING)

    @property
    def prompt(self) -> list[NativeMessage]:
        """Return the messages that the model is shown next."""
        return seen(self.messages, self._view, len(self.messages), self._mark, sends_thoughts=self._sends_thoughts)

    def begin_turn(self) -> None:
        """Apply the context rule before the next turn is asked for: from here on, old results may be replaced, and
        earlier thoughts removed.
        """
        if not self._sends_thoughts:
            self._turn_over()
        if self._rule.kind == "newest":
            results = [at for at, message in enumerate(self.messages) if message.role == "tool"]
            shown = [at for at in results if at >= self._view.marked_before]
            if len(shown) >= self._rule.number + self._rule.at_once:
                self._turn_over(marked_before=shown[-self._rule.number])

    def wants_summary(self, tokens: int) -> bool:
        """Tell whether a summary is due, now that the prompt has so many tokens."""
        has_more = any(message.role == "assistant" for message in self.messages[self._view.start :])
        return self._rule.kind == "summary" and tokens >= self._rule.number and has_more

    def ask_summary(self, words: str) -> None:
        """Append the request for a summary. It is a window of its own, since a template may render the turns before a
        new question differently.
        """
        self._turn_over()
        self.messages.append(NativeMessage(role="user", content=words))

    def end_summary(self) -> None:
        """Continue from the summary, which is the last message."""
        end = len(self.messages)
        self._turn_over(start=end, marked_before=end, summary=end - 1)

    def close(self) -> tuple[BrowseView, ...]:
        """Close the last window, and return all of them."""
        self._turn_over()
        return tuple(self.views)

    def _turn_over(self, **changed: int) -> None:
        turns = [at for at in range(self._view.first, len(self.messages)) if self.messages[at].role == "assistant"]
        if turns:
            self.views.append(replace(self._view, end=turns[-1] + 1))
            self._view = replace(self._view, first=turns[-1] + 1)
        self._view = replace(self._view, **changed)


def seen(
    messages: Sequence[NativeMessage], view: BrowseView, end: int, mark: str, *, sends_thoughts: bool
) -> list[NativeMessage]:
    """Return the messages up to the position `end` as the model was shown them in the window `view`. `mark` is the text
    in place of each result that the window leaves out. Unless `sends_thoughts`, thoughts from before the window are
    removed.
    """
    system, user = messages[:OPENING]
    if view.summary is not None:
        user = replace(user, content=f"{user.content}\n\n{SUMMARY_HEAD}:\n{messages[view.summary].content}")
    shown = [system, user] if system.content else [user]
    before = len(shown) - view.start
    shown += messages[view.start : end]
    for at in range(view.start, min(end, max(view.marked_before, 0 if sends_thoughts else view.first))):
        message = messages[at]
        if message.role == "tool" and at < view.marked_before:
            message = replace(message, content=mark)
        if message.reasoning and not sends_thoughts and at < view.first:
            message = replace(message, reasoning="")
        shown[before + at] = message
    return shown


def windows_of(record: BrowseRecord, mark: str) -> list[tuple[list[NativeMessage], list[bool]]]:
    """Return, for each window, the messages that the model was sent and wrote, and for each whether the loss is taken
    on it. `mark` is the text in place of each result that a window leaves out. Each turn of the agent is trained in one
    window only.
    """
    found = []
    for view in record.views:
        shown = seen(record.messages, view, view.end, mark, sends_thoughts=record.sends_thoughts)
        sent = as_sent(shown, record.writing)
        new = sum(message.role == "assistant" for message in record.messages[view.first : view.end])
        turns = [at for at, message in enumerate(sent) if message.role == "assistant"][-new:]
        found.append((sent, [at in turns for at in range(len(sent))]))
    return found


def merge_for_tags(messages: Sequence[NativeMessage]) -> list[NativeMessage]:
    """Convert messages to a plain chat, in which results are turns of the user and no role speaks twice in a row."""
    merged: list[NativeMessage] = []
    for message in messages:
        role = "user" if message.role == "tool" else message.role
        if merged and merged[-1].role == role == "user":
            merged[-1] = replace(merged[-1], content=f"{merged[-1].content}\n{message.content}")
        else:
            merged.append(NativeMessage(role=role, content=message.content))
    return merged


def as_sent(messages: Sequence[NativeMessage], writing: Writing) -> list[NativeMessage]:
    """Return the messages in the form in which a server is sent them."""
    return merge_for_tags(messages) if writing == "tags" else list(messages)
