"""What is shown of a whole paper, and what looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.retrieval.papers import CUT, cut_paper, cut_text, is_paper_heading, looks_like_paper


def filled(word: str, sentences: int) -> str:
    """Sentences of 20 characters that say where they stand."""
    return " ".join(f"{word.title():9} no {n:03} ends." for n in range(sentences))


PAPER = "\n\n".join(
    [
        "Abstract", filled("abstract", 5),
        "1 Introduction", filled("begin", 40),
        "2 Related Work", filled("related", 40),
        "3 The Mill Model", filled("model", 40), "Table 1: Mills by size.",
        "4 Experiments", filled("setup", 20), "4.1 Turbines", filled("measured", 20),
        "5 Conclusions and Future Work", filled("concluded", 5),
        "References", filled("cited", 40),
    ]
)  # fmt: skip


def test_of_a_paper_each_part_that_a_reader_needs_is_shown_in_its_order() -> None:
    shown = cut_paper(PAPER, 1500)
    places = [shown.index(word) for word in ("Abstract ", "Begin", "Table 1", "Setup", "Measured", "Concluded")]
    assert places == sorted(places) and len(shown) <= 1500 + 10 * shown.count(CUT)
    assert "Concluded no 004 ends." in shown and "Abstract  no 004 ends." in shown
    assert not any(word in shown for word in ("Related  ", "Model  ", "Cited"))
    assert shown.endswith(CUT) and shown.count(CUT) == 4  # behind the introduction, the model, parts of 4 and the end
    for line in shown.splitlines():
        assert line == CUT or line in PAPER


def test_what_no_part_needs_goes_to_the_rest_of_the_paper() -> None:
    shown = cut_paper(PAPER, len(PAPER) - 100)
    assert "Model     no 039 ends." in shown and "Related   no 039 ends." in shown and "Cited" not in shown
    assert cut_paper(PAPER, len(PAPER)) == PAPER


def test_headings_without_numbers_end_a_part_too() -> None:
    paper = "\n".join(
        ["Abstract", "Short.", "Introduction", filled("begin", 30), "Mill Model", filled("model", 30), "Results",
         filled("found", 5), "Turbine Study", filled("study", 5), "Conclusion", "Done."]
    )  # fmt: skip
    shown = cut_paper(paper, 1000)
    assert (
        "Model" not in shown.replace("Mill Model", "") and "Found     no 004" in shown and "Study     no 004" in shown
    )


def test_a_text_without_such_parts_is_cut_as_any_other() -> None:
    text = filled("told", 100)
    assert cut_paper(text, 300) == cut_text(text, 300)


@given(st.text("Aab .\n1[…]", max_size=300), st.integers(1, 200))
def test_any_text_is_cut_to_about_what_is_asked_for(text: str, longest: int) -> None:
    for made in (text, f"Abstract\n{text}\n1 Introduction\n{text}\n2 Results\n{text}"):
        shown = cut_paper(made, longest)
        assert len(shown) <= longest + 2 * len(CUT) * (shown.count(CUT) + 1)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        *((line, True) for line in ("Abstract", "1 Introduction", "IV. RESULTS", "5 Conclusions and Future Work")),
        *((line, True) for line in ("4.2 Results and Discussion", "Experiments", "References")),
        *((line, False) for line in ("2 The Mill Model", "Results were good.", "Read more", "")),
    ],
)
def test_headings_that_all_papers_have(line: str, told: bool) -> None:
    assert is_paper_heading(line) is told


def test_a_paper_is_told_from_a_report() -> None:
    assert looks_like_paper(PAPER)
    assert not looks_like_paper(f"Introduction\n\n{filled('told', 9)}\n\nConclusion\n\nDone.")
    assert not looks_like_paper("In the abstract, results of the introduction are no conclusion.")
