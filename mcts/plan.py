"""The algebra of plans: references, validity, order, and the split that refines one (MSearcher, section 3.1.1)."""

from __future__ import annotations

import re
import string
from typing import Literal

import networkx as nx

from trailforge.mcts.relations import as_question
from trailforge.schemas import Hop, Plan, Split

ENTITY = "[E]"
"""Placeholder in the second half of a split for the answer of the first half."""

DropReason = Literal["malformed", "identical", "no_progress", "invalid"]

_REFERENCE = re.compile(r"#(\d{1,9})")
"""Nine digits suffice to be out of range, and keep `int` from refusing a longer number."""
_NAMED = re.compile(r"#\d+|(?<!^)\b(?:[A-Z][\w'’-]*|\d[\w.,-]*)")
_EMPTY_WORDS = set(
    "a an the who whom whose what which is are was were be been do does did has have had of in on at from "
    "to for by with as it its that this there".split()
)
_PUNCTUATION = str.maketrans("", "", string.punctuation.replace("#", ""))


def references(sub_question: str) -> tuple[int, ...]:
    """The 1-based positions that a sub-question refers to, in order of appearance, repeats kept."""
    return tuple(int(number) for number in _REFERENCE.findall(sub_question))


def dependency_graph(plan: Plan) -> nx.DiGraph:
    """Edge (k, i): sub-question i needs the answer of k. Nodes are 1-based positions, also those out of range."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(1, len(plan) + 1))
    for position, sub_question in enumerate(plan.sub_questions, start=1):
        graph.add_edges_from((target, position) for target in references(sub_question))
    return graph


def plan_problem(plan: Plan) -> str | None:
    """Why the plan must not be rolled out, in one line; None when it is valid."""
    if not plan.sub_questions:
        return "the plan has no sub-question"
    for position, sub_question in enumerate(plan.sub_questions, start=1):
        if not _REFERENCE.sub("", sub_question).strip(" ?"):
            return f"sub-question {position} is empty"
        for target in references(sub_question):
            if not 1 <= target <= len(plan):
                return f"sub-question {position} refers to #{target}, which does not exist"
            if target >= position:
                return f"sub-question {position} refers to #{target}, which is not asked before it"
    if not nx.is_directed_acyclic_graph(dependency_graph(plan)):
        return "references form a cycle"
    return None


def execution_levels(plan: Plan) -> list[list[int]]:
    """0-based positions by topological generation: a level needs only the answers of the levels before it."""
    generations = nx.topological_generations(dependency_graph(plan))
    return [sorted(position - 1 for position in level) for level in generations]


def sink(plan: Plan) -> int:
    """0-based position of the sub-question whose answer is the plan's answer: the last that nothing refers to."""
    graph = dependency_graph(plan)
    return max(position for position in graph if graph.out_degree(position) == 0) - 1


def resolve(sub_question: str, answers: dict[int, str]) -> str:
    """Put known answers (by 1-based position) in the place of `#k`; unknown ones stay."""
    return _REFERENCE.sub(lambda match: answers.get(int(match[1]), match[0]), sub_question)


def renumbered(sub_question: str) -> str:
    """The same sub-question with its references numbered by their first appearance: what it asks, in whatever plan."""
    numbers = {target: position for position, target in enumerate(dict.fromkeys(references(sub_question)), start=1)}
    return _REFERENCE.sub(lambda match: f"#{numbers[int(match[1])]}", sub_question)


def apply_split(plan: Plan, split: Split) -> Plan:
    """Replace one sub-question by two and renumber (MSearcher, Eq. 6).

    With i the 1-based position: the first half takes i, the second i + 1, `[E]` becomes `#i`; in what follows
    `#k` with k > i becomes `#k+1` and `#i` becomes `#i+1`, for the second half answers the old sub-question.
    """
    position = split.index + 1
    before = plan.sub_questions[: split.index]
    after = plan.sub_questions[position:]
    second = split.second.replace(ENTITY, f"#{position}")
    shifted = tuple(_shift(sub_question, position) for sub_question in after)
    return Plan(sub_questions=(*before, split.first, second, *shifted))


def split_problem(sub_question: str, split: Split) -> DropReason | None:
    """Why a proposed split cannot be used; None when it can. `identical` is for the tree to say."""
    first, second = split.first.strip(), split.second.strip()
    if not first or not second or ENTITY in first or ENTITY not in second:
        return "malformed"
    if set(references(first) + references(second)) != set(references(sub_question)):
        return "invalid"
    whole = normalized(sub_question)
    rest = normalized(second.replace(ENTITY, " "))
    if normalized(first) == whole or normalized(second) == whole or len(rest.split()) < 2:
        return "no_progress"
    return None


def normalized(text: str) -> str:
    """Case, punctuation and spacing removed: two sub-questions that differ in these alone are the same."""
    return " ".join(text.casefold().translate(_PUNCTUATION).split())


def plan_key(plan: Plan | tuple[str, ...]) -> tuple[str, ...]:
    """What makes two plans the same plan."""
    sub_questions = plan.sub_questions if isinstance(plan, Plan) else plan
    return tuple(normalized(sub_question) for sub_question in sub_questions)


def asked_for(sub_question: str) -> frozenset[str]:
    """The words that say what is asked: all but articles, prepositions, who and which, to be and to do."""
    words = normalized(sub_question).split()
    return frozenset(word for word in words if word not in _EMPTY_WORDS) or frozenset(words)


def named(sub_question: str) -> frozenset[str]:
    """What a sub-question is about: `#k`, numbers and capitalised words but the first."""
    return frozenset(_NAMED.findall(sub_question))


def shared_width(width: int, decomposable: tuple[bool, ...]) -> dict[int, int]:
    """Share an expansion width evenly over the decomposable sub-questions; the first ones take the remainder.

    Returns {0-based position: number of splits}, with sum = width, unless nothing can be split (then empty).
    """
    positions = [position for position, splittable in enumerate(decomposable) if splittable]
    if not positions:
        return {}
    share, remainder = divmod(width, len(positions))
    shares = {p: share + (rank < remainder) for rank, p in enumerate(positions)}
    return {position: count for position, count in shares.items() if count}


def gold_plan(hops: tuple[Hop, ...]) -> Plan:
    """The gold decomposition as a plan, with MuSiQue's `subject >> relation` hops put as questions."""
    return Plan(sub_questions=tuple(_as_question(hop.question) for hop in hops))


def _as_question(hop: str) -> str:
    subject, _, relation = (part.strip() for part in hop.partition(">>"))
    relation = relation.removesuffix("?").rstrip()
    text = as_question(subject, relation) if subject and relation else hop
    text = text.strip().rstrip("? ").strip()
    return f"{text[:1].upper()}{text[1:]}?"


def _shift(sub_question: str, position: int) -> str:
    def renumber(match: re.Match[str]) -> str:
        target = int(match[1])
        return f"#{target + 1}" if target >= position else match[0]

    return _REFERENCE.sub(renumber, sub_question)
