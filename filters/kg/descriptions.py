"""Reasons to reject a question that describes an intermediate answer: others may fit the description, since a graph in
which only one thing fits knows only some of what is true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trailforge.filters.base import count_faults
from trailforge.filters.readings import is_called
from trailforge.rewards import is_abstention, normalize_answer
from trailforge.schemas import KgNode, KgQuestion, Verdict

NAMED = ("ambiguous_description", "unknown_description")
"""Names of the filters that rest on what a model names for a description."""


def descriptions_in(row: KgQuestion) -> list[tuple[str, KgNode]]:
    """Return a pair for each intermediate answer that several facts lead to: the sub-question that describes it, and
    the answer itself.

    A reference to an earlier answer is replaced by that answer's name: what is in doubt is the description, not the way
    to it.
    """
    found = row.chain.found
    described: list[tuple[str, KgNode]] = []
    for hop, node in zip(row.decomposition, row.chain.bridges, strict=False):
        if len(row.chain.leading_to(node)) > 1:
            asked = re.sub(r"#(\d+)", lambda number: found[int(number[1]) - 1].label, hop.question)
            described.append((asked, node))
    return described


def judge_descriptions(named: Sequence[tuple[Sequence[str], KgNode]]) -> list[Verdict]:
    """Return the verdicts `ambiguous_description` and `unknown_description`.

    `named`: what a model that was not told what is meant named for each description, and what is meant.
    Scores: how many other things it named; how many descriptions it named nothing for, or not what is meant, so that
    nobody has looked for others.
    """
    others: list[tuple[str, KgNode]] = []
    unknown: list[KgNode] = []
    for names, node in named:
        told = [name for name in names if normalize_answer(name) and not is_abstention(name)]
        meant = [is_called(name, (node.label, *node.aliases)) for name in told]
        others += [(name, node) for name, is_meant in zip(told, meant, strict=True) if not is_meant]
        if not any(meant):
            unknown.append(node)
    return [
        count_faults(NAMED[0], others, lambda other: f"{other[0]!r} fits what is said of {other[1].label!r}"),
        count_faults(NAMED[1], unknown, lambda node: f"nothing that it named is {node.label!r}"),
    ]
