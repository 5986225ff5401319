"""The R-Search episode (eq. 1): one thought, one plan of searches, their results, one answer.

    system      the rules
    user        the question, then USER_SUFFIX (`user_turn`)
    assistant   <think>…</think><search>plan</search>
    tool        <result>what the plan's searches found</result>
    assistant   <answer>…</answer>

To the model it is one text that stops at `</search>` and goes on after `</result>`; as messages, what it did not
write is a turn of its own, on which no loss is taken (section 3.4). Plans are written as `protocols.nl_dag` says.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trailforge.protocols.base import contents_of, one_line, tags_in
from trailforge.protocols.nl_dag import (
    TOP_K,
    NodeResult,
    SearchPlan,
    execute,
    find_problems,
    parse,
    render,
    render_results,
)
from trailforge.retrieval.base import Retriever
from trailforge.rewards.r_search import (
    MAX_NODES,
    SECTIONS,
    TOOLS,
    answer_reward,
    dag_reward,
    format_reward,
    r_search_reward,
)
from trailforge.schemas import MalformedReply, Message, Role, RSearchReward

NAME = "r_search"
"""As it stands in a row's `protocol`."""

STOP = ("</search>", "</answer>")
"""Where generation of an assistant turn ends."""

USER_SUFFIX = "Put the final answer between <answer> and </answer>."

_SEARCHING = ("think", "search")
_RESULT = ("result",)
_ANSWERING = ("answer",)
_TURNS: tuple[tuple[Role, tuple[str, ...]], ...] = (
    ("system", ()),
    ("user", ()),
    ("assistant", _SEARCHING),
    ("tool", _RESULT),
    ("assistant", _ANSWERING),
)
"""Roles of a conversation, and the sections that each turn is made of; none where the text is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An assistant turn taken apart: a thought with a plan, or an answer; the others are None."""

    thought: str | None = None
    plan: SearchPlan | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What answers a turn that searches."""

    text: str
    """The tool turn."""
    results: tuple[NodeResult, ...]
    """None when the plan was not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """All four sections."""

    thought: str
    plan: SearchPlan
    result: str
    """As the model read it: `protocols.nl_dag.render_results`."""
    answer: str


def system_prompt(tools: Collection[str] = TOOLS, max_nodes: int = MAX_NODES) -> str:
    """The rules, for an agent that has these tools."""
    return (
        "You answer questions with one round of searches that you plan yourself. "
        "First reason between <think> and </think> about what you know and what is missing. "
        "Then write a search plan between <search> and </search>: a line `Nodes:`, below it a line `A: query (Tool)` "
        f"for each search, at most {max_nodes}; then a line `Edges:`, below it which search comes before which, as "
        "`A -> B; C -> B`, or nothing when their order does not matter. "
        f"The tools are {', '.join(tools)}. "
        "What the searches find comes back between <result> and </result>. "
        "Then give the answer between <answer> and </answer>; "
        "to a question with options, answer with the letters of all correct ones, as `A, C`."
    )


SYSTEM_PROMPT = system_prompt()


# Text of turns


def user_turn(question: str) -> str:
    """The question and how to answer; on a line of its own below options."""
    return question + ("\n" if "\n" in question else " ") + USER_SUFFIX


def question_of(user: str) -> str:
    """The question of a `user_turn`; other text as it stands."""
    return user.removesuffix(USER_SUFFIX).rstrip()


def render_search(thought: str, plan: SearchPlan) -> str:
    """The assistant turn that searches."""
    return f"<think>{thought}</think><search>\n{render(plan)}\n</search>"


def render_result(results: Sequence[NodeResult]) -> str:
    """The tool turn."""
    return _result_turn(render_results(results))


def render_answer(answer: str) -> str:
    """The assistant turn that ends the conversation."""
    return f"<answer>{answer}</answer>"


def render_episode(
    question: str, episode: Episode, *, tools: Collection[str] = TOOLS, max_nodes: int = MAX_NODES
) -> tuple[Message, ...]:
    """The conversation; the loss is taken on what the model wrote."""
    contents = (
        system_prompt(tools, max_nodes),
        user_turn(question),
        render_search(episode.thought, episode.plan),
        _result_turn(episode.result),
        render_answer(episode.answer),
    )
    return tuple(
        Message(role=role, content=content, train=role == "assistant")
        for (role, _), content in zip(_TURNS, contents, strict=True)
    )


async def respond(
    turn: str, tools: Mapping[str, Retriever], top_k: int = TOP_K, *, max_nodes: int = MAX_NODES
) -> Response:
    """The tool turn for what a model wrote up to `</search>`: what was found, or why the plan was not run.

    As in `score`, a plan counts though the turn be malformed around it: the format has a reward of its own.
    """
    try:
        plan = parse(_first_plan(turn))
        results = await execute(plan, tools, top_k, max_nodes=max_nodes)
    except MalformedReply as error:
        return Response(text=_result_turn(f"The plan was not run: {one_line(str(error))}"), results=())
    return Response(text=render_result(results), results=tuple(results))


def close_turn(text: str) -> str:
    """A reply that ended at one of `STOP`, with that tag, which servers cut off; nothing else of it changes."""
    last = (tags_in(text) or [""])[-1]
    return text + next((tag for tag in STOP if last == tag.replace("/", "")), "")


def parse_turn(text: str) -> Turn:
    """Take an assistant turn apart. Raises `MalformedReply`, saying what is wrong, when it breaks the grammar."""
    if tags_in(text)[:1] == ["<answer>"]:
        return Turn(answer=_sections(text, _ANSWERING)["answer"])
    parts = _sections(text, _SEARCHING)
    return Turn(thought=parts["think"], plan=parse(parts["search"]))


def readable_turn(text: str) -> Turn | None:
    """As `parse_turn`; None when the turn breaks the grammar."""
    try:
        return parse_turn(text)
    except MalformedReply:
        return None


def parse_episode(text: str) -> Episode:
    """Take a whole episode apart; the plan has to be readable, not valid. Raises `MalformedReply` as `parse_turn`."""
    parts = _sections(text, SECTIONS)
    return Episode(thought=parts["think"], plan=parse(parts["search"]), result=parts["result"], answer=parts["answer"])


def episode_text(messages: Sequence[Message]) -> str:
    """A conversation from the first assistant turn on, as the one text that `parse_episode` and `score` read."""
    return "\n".join(message.content for message in messages if message.role in ("assistant", "tool"))


def final_answer(text: str) -> str:
    """What the last answer section of a text holds, well-formed or not otherwise; empty when there is none."""
    return (contents_of("answer", text) or [""])[-1]


# Rules and reward


def validate(messages: Sequence[Message], *, tools: Collection[str] = TOOLS, max_nodes: int = MAX_NODES) -> list[str]:
    """Every rule that a finished conversation breaks, its plan's too, one line each, as `message 2: …`.

    Stricter than the format reward, which counts sections: here none is empty and nothing stands between them.
    """
    problems = [
        f"message {number}: {problem}"
        for number, (message, (role, sections)) in enumerate(zip(messages, _TURNS, strict=False))
        for problem in _message_problems(message, role, sections, tools, max_nodes)
    ]
    if len(messages) != len(_TURNS):
        problems.append(f"{len(messages)} messages; expected {', '.join(role for role, _ in _TURNS)}")
    return problems


def score(
    text: str,
    *,
    correct_options: Sequence[str] = (),
    golds: Sequence[str] = (),
    judge_score: float | None = None,
    tools: Collection[str] = TOOLS,
    max_nodes: int = MAX_NODES,
) -> RSearchReward:
    """The reward of an episode, however malformed; what the answer is held against: `rewards.answer_reward`.

    Of several plans the first counts, which is the one that is run; of several answers the last.
    """
    try:
        plan = parse(_first_plan(text))
        dag = dag_reward(plan.nodes, plan.edges, tools=tools, max_nodes=max_nodes)
    except MalformedReply:
        dag = 0.0
    answer = answer_reward(final_answer(text), correct_options=correct_options, golds=golds, judge_score=judge_score)
    return r_search_reward(format=format_reward(tags_in(text)), dag=dag, answer=answer)


def _message_problems(
    message: Message, role: Role, sections: Sequence[str], tools: Collection[str], max_nodes: int
) -> Iterator[str]:
    if message.role != role:
        yield f"role {message.role}, expected {role}"
    if message.train != (message.role == "assistant"):
        yield f"train is {message.train} on a turn of {message.role}"
    if not sections:
        return
    parts = _sections_or_problem(message.content, sections)
    if isinstance(parts, str):
        yield parts
    elif "search" in parts:
        yield from (each.message for each in find_problems(parts["search"], tools=tools, max_nodes=max_nodes))


def _sections(text: str, names: Sequence[str]) -> dict[str, str]:
    parts = _sections_or_problem(text, names)
    if isinstance(parts, str):
        raise MalformedReply(parts)
    return parts


def _sections_or_problem(text: str, names: Sequence[str]) -> dict[str, str] | str:
    """The sections by name, or what is wrong in one line. None may be empty, or hold a tag of any protocol."""
    tags, expected = tags_in(text), [tag for name in names for tag in (f"<{name}>", f"</{name}>")]
    if tags != expected:
        return f"expected {' '.join(expected)}; found {' '.join(tags) or 'no tags'}"
    match = re.fullmatch(r"\s*".join(["", *(f"<{n}>(?P<{n}>.*)</{n}>" for n in names), ""]), text, re.DOTALL)
    if not match:
        return "text outside the tags, or a tag that is not written plainly"
    parts = {name: part.strip() for name, part in match.groupdict().items()}
    empty = [name for name, part in parts.items() if not part]
    return f"empty {empty[0]}" if empty else parts


def _first_plan(text: str) -> str:
    """What stands in the first search section; empty when there is none."""
    return (contents_of("search", text) or [""])[0]


def _result_turn(text: str) -> str:
    return f"<result>\n{text}\n</result>"
