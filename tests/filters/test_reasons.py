"""Reasons of rejection: each name stands for one rule, whatever the data set, and earlier names for one of now."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import get_args

import pytest

from tests.test_architecture import ROOT
from trailforge.generators.document_bundles.bundling.config import LeftoverReason
from trailforge.generators.mcts_trajectories.telling.doubts import DoubtReason
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.show.common import with_earlier

ROOMS = ("filters", "generators")
"""Where rows of data sets are judged. Training sets leave rows out by rules, and under names, of their own."""
_TAKEN_OVER = {"replace", "failed_row", "rejected_row", "RejectedRow", "Count", "ContrastivePair"}
"""Calls that take a reason over from a verdict."""
LISTED = {
    "generators/document_bundles/stages/grouping.py": LeftoverReason,
    "generators/mcts_trajectories/telling/doubts.py": DoubtReason,
}
"""Files whose reasons stand in a list."""


def constants(tree: ast.Module) -> dict[str, str]:
    """Names that a module gives to texts, alone or side by side."""
    found: dict[str, str] = {}
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
            continue
        names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else [node.targets[0]]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for name, value in zip(names, values, strict=False):
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[name.id] = value.value
    return found


def reasons_in(source: str) -> Iterator[tuple[str, str]]:
    """Each reason for which a function of a file rejects, with that function."""
    tree = ast.parse(source)
    known = constants(tree)
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
        for call in [node for node in ast.walk(function) if isinstance(node, ast.Call)]:
            named = getattr(call.func, "id", getattr(call.func, "attr", ""))
            given = [word.value for word in call.keywords if word.arg == "reason" and named not in _TAKEN_OVER]
            given += call.args[:1] if named == "count_faults" else call.args[1:2] if named == "_verdict" else []
            for value in given:
                text = value.value if isinstance(value, ast.Constant) else known.get(getattr(value, "id", ""))
                if isinstance(text, str):
                    yield text, function.name


@cache
def rules() -> dict[str, set[str]]:
    """The functions that reject for each reason, as file and name."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in (file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py")) if file.name != "show.py"):
        name = file.relative_to(ROOT).as_posix()
        listed = [(reason, "") for reason in get_args(LISTED[name])] if name in LISTED else None
        for reason, function in listed or reasons_in(file.read_text(encoding="utf-8")):
            found[reason].add(f"{name}:{function}")
    return found


JUDGED_BY = {
    "agent_trajectories": (
        "generators/agent_trajectories/",
        "filters/base.py",
        "filters/guesses.py",
        "filters/questions.py",
    ),
    "document_bundles": ("generators/document_bundles/", "filters/bundle", "filters/bundle_episodes.py"),
    "kg_questions": ("generators/kg_questions/", "filters/kg/questions.py"),
    "kg_trajectories": (
        "generators/kg_trajectories/",
        "filters/kg/episodes.py",
        "filters/base.py",
        "filters/guesses.py",
    ),
    "mcts_trajectories": ("generators/mcts_trajectories/", "filters/trajectories.py", "filters/questions.py"),
}
"""Where the rows of each data set are judged, by the beginnings of files."""


def meant_in(dataset: str) -> set[str]:
    """The reasons for which rows of a data set are rejected now."""
    return {reason for reason, where in rules().items() if any(each.startswith(JUDGED_BY[dataset]) for each in where)}


def test_no_reason_stands_for_two_rules() -> None:
    found = rules()
    assert len(found) > 60 and {"wrong_answer", "surplus", "too_many_words", "another_is_kept"} <= found.keys()
    assert {reason: sorted(where) for reason, where in found.items() if len(where) > 1} == {}


def test_a_reason_that_two_functions_give_is_found() -> None:
    source = (
        'WRONG, ELSE = "wrong", "else"\n'
        "def one(row): return Verdict(keep=False, reason=WRONG, score=1.0)\n"
        'async def two(row): return count_faults("wrong", [], str)\n'
        'def three(row): return _verdict(True, "short", 1, "")\n'
        "def four(row): return replace(row, reason=ELSE)\n"
    )
    assert sorted(reasons_in(source)) == [("short", "three"), ("wrong", "one"), ("wrong", "two")]


@pytest.mark.parametrize("dataset", JUDGED_BY)
def test_earlier_names_of_a_data_set_are_those_of_one_reason_each(dataset: str) -> None:
    earlier = load_dataset(dataset).earlier_reasons
    assert len(earlier) > 1 and len(set(earlier.values())) == len(earlier)
    assert set(earlier.values()) <= rules().keys() and not earlier.keys() & meant_in(dataset)


def test_an_earlier_name_has_the_meaning_of_the_reason() -> None:
    meanings = with_earlier(
        {"same_facts": "facts", "shortcut": "spare"},
        {"duplicate_question": "same_facts", "malformed": "malformed_question"},
    )
    assert meanings == {"same_facts": "facts", "duplicate_question": "facts", "shortcut": "spare"}
