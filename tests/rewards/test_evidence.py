"""How much of the evidence was found, and what a choice of letters is worth."""

from __future__ import annotations

import pytest

from trailforge.rewards import evidence_recall, score_choice
from trailforge.schemas import Passage


def passage(title: str, text: str) -> Passage:
    return Passage(id=title, title=title, text=text, score=1.0)


MILL = passage("A prize for tides", "The Ludlow prize went to\nthe tide mill. It is old.")
BLADES = passage("Blades", "Mara Lind's blades turn.")


@pytest.mark.parametrize(
    ("evidence", "share"),
    [
        (["The Ludlow prize went to the tide mill."], 1.0),
        (["a prize for TIDES", "Mara Lind’s blades"], 1.0),
        (["tide mill. Mara Lind"], 0.0),
        (["old", "new"], 0.5),
        (["went to the tide mil"], 0.0),
        (["…", "old"], 0.5),
        ([], 0.0),
    ],
)
def test_evidence_stands_in_one_passage(evidence: list[str], share: float) -> None:
    assert evidence_recall(evidence, [MILL, BLADES]) == share
    assert evidence_recall(evidence, []) == 0.0


@pytest.mark.parametrize(
    ("said", "correct", "scores"),
    [
        ("A", ["A"], (1.0, 1.0, 1.0, 1.0)),
        ("C, A", ["A", "C"], (1.0, 1.0, 1.0, 1.0)),
        ("A, B", ["A"], (0.0, 0.0, 2 / 3, 1.0)),
        ("A", ["A", "C"], (0.0, 0.0, 2 / 3, 0.0)),
        ("none of them", ["A"], (0.0, 0.0, 0.0, 0.0)),
        ("", [], (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_choices_are_compared_as_sets(said: str, correct: list[str], scores: tuple[float, ...]) -> None:
    found = score_choice(said, correct)
    assert (found.total, found.exact_match, found.f1, found.cover_exact_match) == pytest.approx(scores)
