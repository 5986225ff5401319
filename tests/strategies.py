"""Hypothesis strategies: plans, splits and records, one home for all tests."""

from __future__ import annotations

from hypothesis import strategies as st

from schemas import Plan, Split

WORDS = ("river", "capital", "founder", "film", "year", "mother", "city", "book", "prize", "bridge")


@st.composite
def plans(draw: st.DrawFn, max_size: int = 5) -> Plan:
    """Valid plans: every reference points at an earlier sub-question."""
    size = draw(st.integers(1, max_size))
    sub_questions = []
    for position in range(1, size + 1):
        words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
        targets = draw(st.lists(st.integers(1, position - 1), max_size=2)) if position > 1 else []
        marks = [f"#{target}" for target in targets]
        sub_questions.append(f"q{position} " + " ".join(words + marks) + "?")
    return Plan(sub_questions=tuple(sub_questions))


@st.composite
def plans_with_split(draw: st.DrawFn) -> tuple[Plan, Split]:
    """A valid plan and a valid split of one of its sub-questions."""
    plan = draw(plans())
    index = draw(st.integers(0, len(plan) - 1))
    marks = [word.strip("?") for word in plan.sub_questions[index].split() if word.startswith("#")]
    cut = draw(st.integers(0, len(marks)))
    first = " ".join(["which", "part", *marks[:cut]]) + "?"
    second = " ".join(["what", "of", "[E]", "and", *marks[cut:]]) + "?"
    return plan, Split(index=index, first=first, second=second)
