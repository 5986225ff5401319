"""What all protocols have in common: think, then search and read the result, or answer.

    system      the rules
    user        the question, with a suffix
    assistant   <think>…</think><search>…</search>      } any number of times, or once
    tool        <result>…</result>                      }
    assistant   <think>…</think><answer>…</answer>

A `Grammar` says how one protocol writes this: its tags, and what stands in them. Reading, mending, writing and checking
of turns follow from it and are here, once for data, training, evaluation and rewards.

An agent's slips are mended where its meaning is plain, so that an episode is not lost for a comma; each mend is named
in `Turn.repairs`. A mended turn is executed and its search is counted; the format reward reads the turn as it was
written and pays only where nothing was mended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trailforge.protocols.base import contents_of, one_line, tag_pattern, tags_in
from trailforge.protocols.repair import Repair
from trailforge.protocols.turns import Observation, Search, Turn
from trailforge.rewards import per_turn_format_reward
from trailforge.rewards.r_search import TOOLS, format_reward
from trailforge.schemas import MalformedReply, Message, Role

Searched = Literal["documents", "graph", "plan"]
"""What a search asks: documents; documents and a knowledge graph; or, by a plan, documents of several kinds."""
FormatRule = Literal["whole", "per_turn", "sections"]
"""What the format reward pays. `whole`: 1 for a flawless conversation, else 0. `per_turn`: 0.5 for each flawless turn.
`sections`: 1 where think, search, result and answer each stand exactly once, in order (R-Search, eq. 1)."""


_SURPLUS: list[Repair] = ["surplus_thought"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The grammar of one protocol: how its turns are written, read, repaired and checked."""

    name: str
    """Name of the protocol, as a row's `protocol` gives it."""
    system_prompt: str
    user_suffix: str
    searches: Searched
    reward: str
    """Name of the reward preset by which its episodes are paid, unless another is asked for."""
    training: str
    """Name of the training preset that trains agents of it."""
    search_tag: str
    result_tag: str
    read_search: Callable[[str], tuple[Search, Sequence[Repair]]]
    """Reads the search that stands between the search tags, trimmed and never empty. Raises `MalformedReply`."""
    write_search: Callable[[Search], str]
    """Writes a search as text, from which `read_search` reads it again."""
    read_answer: Callable[[str], tuple[str, Sequence[Repair]]]
    """Reads the answer that stands between the answer tags. Raises `MalformedReply`."""
    write_answer: Callable[[str], str]
    write_result: Callable[[Observation], str]
    """Writes what stands between the result tags. Retrieved text has passed `protocols.base.one_line`."""
    read_passages: Callable[[str], list[tuple[str, str]]]
    """Reads the title and text of each passage that `write_result` wrote."""
    format_rule: FormatRule = "whole"
    joint: str = "\n"
    """The text between a thought and the search or answer after it."""
    answer_has_thought: bool = True
    num_searches: int | None = None
    """Number of searches that a whole episode has; None: any number."""
    suffix_own_line: bool = False
    """Whether the suffix stands on its own line after a question of several lines, such as one with options."""
    plan_problems: Callable[[str, Collection[str]], Sequence[str]] | None = None
    """Says what is wrong with a search plan, given the tools that it may name; None where searches are no plans."""

    @property
    def stop(self) -> tuple[str, str]:
        """Return the strings at which generation of an assistant turn stops."""
        return f"</{self.search_tag}>", "</answer>"

    # Assistant turns

    def render_turn(self, turn: Turn) -> str:
        """Return an assistant turn as text. `parse_turn` reads the same parts from it, repairing nothing but a missing
        thought.
        """
        if turn.search is not None:
            action = f"<{self.search_tag}>{self.write_search(turn.search)}</{self.search_tag}>"
        else:
            action = f"<answer>{self.write_answer(turn.answer or '')}</answer>"
            if not self.answer_has_thought:
                return action
        return f"<think>{turn.thought}</think>{self.joint}{action}"

    def parse_turn(self, text: str, *, strict: bool = False) -> Turn:
        """Parse an assistant turn, repairing small errors unless `strict`. Raises `MalformedReply`, saying what is
        wrong.
        """
        turn = self._mended_turn(text)
        if strict and turn.repairs:
            raise MalformedReply(_needed(turn))
        return turn

    def _mended_turn(self, text: str) -> Turn:
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
        if name == "answer" and not self.answer_has_thought:
            mended = _SURPLUS if head.strip() else []
        repairs += mended
        search = answer = None
        if name == "answer":
            answer, mended = self.read_answer(body)
        else:
            search, mended = self.read_search(body)
        return Turn(thought=thought, search=search, answer=answer, repairs=tuple(dict.fromkeys([*repairs, *mended])))

    def missing_end(self, text: str) -> str:
        """Return the closing tag of the search or answer whose content ends the text; empty when there is none.

        Servers cut the stop string off, so a model that stopped there wrote this tag last.
        """
        last = (tags_in(text) or [""])[-1]
        return next((f"</{tag}>" for tag in self._actions if last == f"<{tag}>"), "")

    def up_to_end(self, text: str) -> str | None:
        """Return the first turn of a text: up to its first closing tag of a search or answer outside of its thought.
        None when there is no such tag: then the whole text is the turn, complete or not.
        """
        tags = list(tag_pattern(("think", *self._actions)).finditer(text))
        thoughts = [tag for tag in tags if tag[2].lower() == "think"]
        thinks = bool(thoughts) and bool(thoughts[0][1])  # its beginning stood in the prompt
        for tag in tags:
            if tag[2].lower() == "think":
                thinks = not tag[1]
            elif tag[1] and not thinks:
                return text[: tag.end()]
        return None

    def final_answer(self, text: str) -> str:
        """Return the last closed answer of a text; empty when there is none."""
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
        """Return the conversation before the agent's first turn: the rules and the question."""
        return (
            Message(role="system", content=self.system_prompt, train=False),
            Message(role="user", content=self.user_turn(question), train=False),
        )

    def user_turn(self, question: str) -> str:
        """Return the turn with the question and how to answer it."""
        if self.suffix_own_line and self.user_suffix and "\n" in question:
            return f"{question}\n{self.user_suffix.lstrip()}"
        return question + self.user_suffix

    def question_of(self, user: str) -> str:
        """Return the question of a `user_turn`. Other text is returned as it is."""
        suffix = self.user_suffix.strip()
        return user.removesuffix(suffix).rstrip() if suffix else user

    def render_result(self, observation: Observation) -> str:
        """Return search results as a tool turn. Nothing in it can pose as a tag."""
        lines = [one_line(observation.message)] if observation.message.strip() else []
        if observation.passages or observation.triples or observation.nodes or not lines:
            lines.append(self.write_result(observation))
        return "\n".join([f"<{self.result_tag}>", *lines, f"</{self.result_tag}>"])

    def result_segment(self, result: str) -> str:
        """Return the text that stands for a search's result between two turns of the agent, where an episode is one
        text.
        """
        return f"\n{result}\n"

    def refusal(self, problem: str) -> Observation:
        """Return the message that answers an agent's malformed turn."""
        return Observation(message=f"That turn could not be used: {problem}. Try again in the form that was asked for.")

    # Rules and reward

    def validate(self, messages: Sequence[Message], *, strict: bool = False) -> list[str]:
        """Return every rule that a finished conversation breaks, one line each, as `message 2: …`; empty when
        well-formed.

        A turn that can be mended breaks none, unless `strict`.
        """
        last = len(messages) - 1
        problems = [
            f"message {number}: {problem}"
            for number, message in enumerate(messages)
            for problem in self._message_problems(message, number, last, strict)
        ]
        if self.num_searches is None:
            is_whole, expected = len(messages) >= 3 and _role_at(last) == "assistant", "(assistant, tool)*, assistant"
        else:
            is_whole = len(messages) == 3 + 2 * self.num_searches
            expected = "assistant, tool, " * self.num_searches + "assistant"
        if not is_whole:
            problems.append(f"{len(messages)} messages; expected system, user, {expected}")
        return problems

    def read_turn(self, message: Message) -> Turn | None:
        """Read the agent's turn in a conversation, with small errors repaired; None where it cannot be read or was cut.
        The tag at which generation stopped must be part of the turn.
        """
        if message.role != "assistant" or self.missing_end(message.content):
            return None
        turn = self._turn_or_problem(message.content)
        return turn if isinstance(turn, Turn) else None

    def answer_of(self, messages: Sequence[Message]) -> str:
        """Return the agent's final answer; empty where there is none, or the loop could not read it. For a reward that
        pays sections separately it is the last answer section, wherever it is.
        """
        if self.format_rule == "sections":
            return self.final_answer(_agent_and_tools(messages))
        turn = self.read_turn(messages[-1]) if messages else None
        return (turn.answer if turn else None) or ""

    def is_well_formed(self, messages: Sequence[Message]) -> bool:
        """Tell whether the conversation has the form that the reward asks for, without any repair."""
        if self.format_rule == "sections":
            return format_reward(tags_in(_agent_and_tools(messages))) == 1.0
        return not self.validate(messages, strict=True)

    def format_reward(self, messages: Sequence[Message]) -> float:
        """Return a score in [0, 1] for how far the conversation has the form that the system prompt asks for, by
        `format_rule`.
        """
        if self.format_rule == "per_turn":
            return per_turn_format_reward(self.well_formed_turns(messages))
        return float(self.is_well_formed(messages))

    def plan_reward(
        self, messages: Sequence[Message], tools: Collection[str] = TOOLS, *, strict: bool = False
    ) -> float | None:
        """Return 1.0 if the first search plan, which is the one that is run, breaks no rule, else 0.0. None in
        protocols without plans. `tools` are the names that a plan may use.

        The rest of the turn does not matter, since the format has a reward of its own. With `strict` a plan that needs
        repair scores 0.0, too.
        """
        if self.plan_problems is None:
            return None
        plans = contents_of(self.search_tag, _agent_and_tools(messages))
        is_sound = bool(plans) and not self.plan_problems(plans[0], tools)
        return float(is_sound and not (strict and self.read_search(plans[0])[1]))

    def well_formed_turns(self, messages: Sequence[Message]) -> list[bool]:
        """Return for each assistant turn whether it has no error and is in its place."""
        last = len(messages) - 1
        return [
            not list(self._message_problems(message, number, last, strict=True))
            for number, message in enumerate(messages)
            if message.role == "assistant"
        ]

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
            yield _needed(turn)
        if strict and turn.search is not None and self.plan_problems is not None:
            yield from self.plan_problems(turn.search.query, TOOLS)
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


def _needed(turn: Turn) -> str:
    return f"needs repair: {', '.join(turn.repairs)}"


def _agent_and_tools(messages: Sequence[Message]) -> str:
    """A conversation from the first assistant turn on, as the one text that it is to a model."""
    return "\n".join(message.content for message in messages if message.role in ("assistant", "tool"))


def _role_at(number: int) -> Role:
    if number < 2:
        return "user" if number else "system"
    return "tool" if number % 2 else "assistant"
