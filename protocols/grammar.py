"""What the protocols of turn-taking agents have in common: think, then search and read the result, or answer.

    system      the rules
    user        the question, with a suffix
    assistant   <think>…</think><search>…</search>      } any number of times
    tool        <result>…</result>                      }
    assistant   <think>…</think><answer>…</answer>

A `Grammar` says how one protocol writes this: its tags, and what stands in them. Reading, mending, writing and checking
of turns follow from it and are here, once for all.

An agent's slips are mended where its meaning is plain, so that an episode is not lost for a comma; each mend is named
in `Turn.repairs`. The format reward pays only for turns that needed none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from trailforge.protocols.base import contents_of, one_line, tag_pattern, tags_in, unescape
from trailforge.protocols.repair import Repair
from trailforge.rewards.graph_r1 import per_turn_format_reward
from trailforge.schemas import MalformedReply, Message, Passage, Role

NOTHING_FOUND = "Nothing was found."
_PASSAGE_LINE = re.compile(r"\d+\. \(")


class Triple(Protocol):
    """A fact of a knowledge graph, by its labels."""

    @property
    def head(self) -> str:
        """Whom it is about."""
        ...

    @property
    def relation(self) -> str:
        """What is said."""
        ...

    @property
    def tail(self) -> str:
        """The other entity, or a value."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What an agent asks its tools. Only a KG agent names entities and relations."""

    query: str
    entities: tuple[str, ...] = ()
    """To look up in the knowledge graph."""
    relations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the tools found."""

    passages: tuple[Passage, ...] = ()
    """Best first."""
    triples: tuple[Triple, ...] = ()
    """Best first."""
    message: str = ""
    """What a tool has to say besides, as that it failed: one line, which the agent reads first."""
    detail: object = None
    """Whatever the caller wants to find again with the step; the agent does not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An assistant turn taken apart, white space around each part trimmed: one of `search` and `answer` is None."""

    thought: str
    """Empty where a repair says that it is missing."""
    search: Search | None = None
    answer: str | None = None
    repairs: tuple[Repair, ...] = ()
    """What had to be mended to read it, each kind once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """How one protocol writes turns."""

    name: str
    """As it stands in a row's `protocol`."""
    system_prompt: str
    user_suffix: str
    search_tag: str
    result_tag: str
    read_search: Callable[[str], tuple[Search, Sequence[Repair]]]
    """What stands between the search tags, trimmed and never empty. Raises `MalformedReply`."""
    write_search: Callable[[Search], str]
    """The reverse."""
    read_answer: Callable[[str], tuple[str, Sequence[Repair]]]
    """The same for the answer tags."""
    write_answer: Callable[[str], str]
    write_result: Callable[[Observation], str]
    """What stands between the result tags. Retrieved text has passed `protocols.base.one_line`."""
    format_rule: Literal["whole", "per_turn"] = "whole"
    """`whole`: the format reward is 1 for a flawless conversation, else 0. `per_turn`: 0.5 for each flawless turn."""

    @property
    def stop(self) -> tuple[str, str]:
        """Where generation of an assistant turn ends."""
        return f"</{self.search_tag}>", "</answer>"

    # Assistant turns

    def render_turn(self, turn: Turn) -> str:
        """An assistant turn as text. `parse_turn` makes the same parts of it, mending nothing but a missing thought."""
        if turn.search is not None:
            action = f"<{self.search_tag}>{self.write_search(turn.search)}</{self.search_tag}>"
        else:
            action = f"<answer>{self.write_answer(turn.answer or '')}</answer>"
        return f"<think>{turn.thought}</think>\n{action}"

    def parse_turn(self, text: str) -> Turn:
        """Take an assistant turn apart, mending what can be. Raises `MalformedReply`, saying what is wrong."""
        text, repairs = self._mended_tags(text)
        tags = tags_in(text)
        if tags[-2:] not in ([f"<{tag}>", f"</{tag}>"] for tag in self._actions):
            raise self._unexpected(tags)
        name = tags[-1][2:-1]
        head, _, rest = text.partition(f"<{name}>")
        body, _, tail = (part.strip() for part in rest.partition(f"</{name}>"))
        if tail:
            raise MalformedReply(f"text after </{name}>")
        if not body:
            raise MalformedReply(f"empty {name}")
        thought, mended = self._thought(head, tags[:-2])
        repairs += mended
        search = answer = None
        if name == "answer":
            answer, mended = self.read_answer(body)
        else:
            search, mended = self.read_search(body)
        return Turn(thought=thought, search=search, answer=answer, repairs=tuple(dict.fromkeys([*repairs, *mended])))

    def missing_end(self, text: str) -> str:
        """The closing tag of the search or answer that the text ends in; empty when it does not end in one.

        Servers cut the stop string off, so this is what a model wrote last when it stopped there.
        """
        last = (tags_in(text) or [""])[-1]
        return next((f"</{tag}>" for tag in self._actions if last == f"<{tag}>"), "")

    def final_answer(self, text: str) -> str:
        """What the last closed answer of a text says, in whatever else it may stand; empty when there is none."""
        found = contents_of("answer", text)
        try:
            return self.read_answer(found[-1])[0] if found else ""
        except MalformedReply:
            return ""

    @property
    def _actions(self) -> tuple[str, str]:
        return self.search_tag, "answer"

    def _mended_tags(self, text: str) -> tuple[str, list[Repair]]:
        """The text with its own tags written plainly and its last one closed."""
        plain = tag_pattern(("think", *self._actions)).sub(lambda m: f"<{m[1]}{m[2].lower()}>", text)
        repairs: list[Repair] = []
        if plain != text:
            repairs.append("tag_spelling")
        end = self.missing_end(plain)
        return plain + end, [*repairs, "closing_tag"] if end else repairs

    def _thought(self, head: str, tags: list[str]) -> tuple[str, list[Repair]]:
        """The thought in what stands before the search or answer, by the tags that stand there."""
        repairs: list[Repair] = []
        before = after = ""
        if tags == ["<think>", "</think>"]:
            before, _, rest = head.partition("<think>")
            thought, _, after = rest.partition("</think>")
        elif tags == ["<think>"]:
            before, _, thought = head.partition("<think>")
            repairs.append("closing_think")
        elif tags == ["</think>"]:
            thought, _, after = head.partition("</think>")
            repairs.append("opening_think")
        elif not tags:
            thought = head
            if thought.strip():
                repairs.append("untagged_thought")
        else:
            raise self._unexpected(tags)
        if before.strip() or after.strip():
            repairs.append("loose_text")
        if not thought.strip():
            repairs.append("missing_thought")
        return thought.strip(), repairs

    def _unexpected(self, tags: list[str]) -> MalformedReply:
        found = " ".join(tags) or "no tags"
        return MalformedReply(f"expected a thought, then one {self.search_tag} or one answer; found {found}")

    # Other turns

    def opening(self, question: str) -> tuple[Message, Message]:
        """The conversation before the agent's first turn."""
        return (
            Message(role="system", content=self.system_prompt, train=False),
            Message(role="user", content=question + self.user_suffix, train=False),
        )

    def render_result(self, observation: Observation) -> str:
        """A tool turn; nothing in it can pose as a tag."""
        lines = [one_line(observation.message)] if observation.message.strip() else []
        if observation.passages or observation.triples or not lines:
            lines.append(self.write_result(observation))
        return "\n".join([f"<{self.result_tag}>", *lines, f"</{self.result_tag}>"])

    def refusal(self, problem: str) -> Observation:
        """What an agent is told whose turn was malformed."""
        return Observation(message=f"That turn could not be used: {problem}. Try again in the form that was asked for.")

    # Rules and reward

    def validate(self, messages: Sequence[Message], *, strict: bool = False) -> list[str]:
        """Every rule that a finished conversation breaks, one line each, as `message 2: …`; empty when well-formed.

        A turn that can be mended breaks none, unless `strict`.
        """
        last = len(messages) - 1
        problems = [
            f"message {number}: {problem}"
            for number, message in enumerate(messages)
            for problem in self._message_problems(message, number, last, strict)
        ]
        if len(messages) < 3 or _role_at(last) != "assistant":
            problems.append(f"{len(messages)} messages; expected system, user, (assistant, tool)*, assistant")
        return problems

    def format_reward(self, messages: Sequence[Message]) -> float:
        """Is the conversation as the system prompt asks, without any mending? In [0, 1], by `format_rule`."""
        if self.format_rule == "whole":
            return float(not self.validate(messages, strict=True))
        return per_turn_format_reward(self.well_formed_turns(messages))

    def well_formed_turns(self, messages: Sequence[Message]) -> list[bool]:
        """For each assistant turn: is it flawless, and in its place?"""
        last = len(messages) - 1
        return [
            not list(self._message_problems(message, number, last, strict=True))
            for number, message in enumerate(messages)
            if message.role == "assistant"
        ]

    def repairs(self, messages: Sequence[Message]) -> Counter[Repair]:
        """In how many assistant turns each repair is needed; turns that cannot be read have none."""
        found: Counter[Repair] = Counter()
        for message in messages:
            if message.role == "assistant":
                turn = self._turn_or_problem(message.content)
                found.update(turn.repairs if isinstance(turn, Turn) else ())
        return found

    def _message_problems(self, message: Message, number: int, last: int, strict: bool) -> Iterator[str]:
        if message.role != (expected := _role_at(number)):
            yield f"role {message.role}, expected {expected}"
        if message.train != (message.role == "assistant"):
            yield f"train is {message.train} on a turn of {message.role}"
        if message.role == "assistant":
            yield from self._assistant_problems(message.content, number == last, strict)
        elif message.role == "tool":
            yield from self._tool_problems(message.content)

    def _assistant_problems(self, content: str, is_last: bool, strict: bool) -> Iterator[str]:
        turn = self._turn_or_problem(content)
        if isinstance(turn, str):
            yield turn
            return
        if strict and turn.repairs:
            yield f"needs repair: {', '.join(turn.repairs)}"
        if is_last and turn.answer is None:
            yield "the conversation ends without an answer"
        elif not is_last and turn.search is None:
            yield "answers before the last turn"

    def _tool_problems(self, content: str) -> Iterator[str]:
        tags, expected = tags_in(content), [f"<{self.result_tag}>", f"</{self.result_tag}>"]
        if tags != expected:
            yield f"expected {' '.join(expected)}; found {' '.join(tags) or 'no tags'}"
        elif not (content.strip().startswith(expected[0]) and content.strip().endswith(expected[1])):
            yield "text outside the result, or a tag that is not written plainly"

    def _turn_or_problem(self, content: str) -> Turn | str:
        try:
            return self.parse_turn(content)
        except MalformedReply as error:
            return str(error)


def passage_lines(passages: Sequence[Passage]) -> list[str]:
    """A line `1. (Title) text` for each passage."""
    return [f"{n}. ({one_line(p.title)}) {one_line(p.text)}" for n, p in enumerate(passages, start=1)]


def passage_titles(result: str) -> list[str]:
    """The titles that `passage_lines` wrote into a result."""
    return titles_of_lines(result, _PASSAGE_LINE)


def titles_of_lines(result: str, start: re.Pattern[str]) -> list[str]:
    """The titles of a result whose lines begin with `start`, then title, then `)`: brackets in a title have to match.

    As in the text that the agent read: white space is collapsed, tags are plain again.
    """
    rests = (line[match.end() :] for line in result.split("\n") if (match := start.match(line)))
    return [unescape(rest[: _closing_bracket(rest)]) for rest in rests]


def _closing_bracket(text: str) -> int:
    """Where the bracket stands that was opened before the text; the text's end without one."""
    depth = 1
    for match in re.finditer(r"[()]", text):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return match.start()
    return len(text)


def read_plain_answer(body: str) -> tuple[str, Sequence[Repair]]:
    """An answer that stands bare between its tags."""
    return body, ()


def _role_at(number: int) -> Role:
    if number < 2:
        return "user" if number else "system"
    return "tool" if number % 2 else "assistant"
