"""Small records for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from trailforge.generators.mcts_trajectories.telling.story import ReasoningRows, Story, narrate
from trailforge.rewards import score_answer
from trailforge.schemas import (
    Document,
    Hop,
    Passage,
    Provenance,
    Question,
    Step,
    Trajectory,
    read_parquet,
    write_parquet,
)

Row = TypeVar("Row")

QUESTION = Question(
    id="q1",
    question="In which city was the director of Metropolis born?",
    answer="Vienna",
    answer_aliases=("Wien",),
    decomposition=(
        Hop(question="Who directed Metropolis?", answer="Fritz Lang", support_id="0"),
        Hop(question="In which city was #1 born?", answer="Vienna", support_id="1"),
    ),
    paragraphs=(
        Document(id="0", title="Metropolis", text="Metropolis is a film of 1927. Fritz Lang directed Metropolis."),
        Document(id="1", title="Fritz Lang", text="Fritz Lang was born in Vienna in 1890. He died in Beverly Hills."),
        Document(id="2", title="M", text="M is a film of 1931 with Peter Lorre. Peter Lorre was born in Rosenberg."),
    ),
    dataset="musique",
)
PLAN = ("Who directed Metropolis?", "In which city was #1 born?")


def passages(*ids: str) -> tuple[Passage, ...]:
    """Paragraphs of the question as passages."""
    found = [d for i in ids for d in QUESTION.paragraphs if d.id == i]
    return tuple(Passage(id=d.id, title=d.title, text=d.text, score=0.5) for d in found)


def step(index: int, query: str, answer: str, *ids: str, plan: tuple[str, ...] = PLAN, **more: Any) -> Step:
    """A step of the plan."""
    return Step(index=index, sub_question=plan[index], query=query, passages=passages(*ids), answer=answer, **more)


FIRST = step(0, "Who directed Metropolis?", "Fritz Lang", "0", "2")
SECOND = step(1, "In which city was Fritz Lang born?", "Vienna", "1", "2")
DIED = step(1, "In which city was Fritz Lang born?", "Beverly Hills", "1", "2", is_mistake=True)
MISLED = step(1, "In which city was Fritz Lang born?", "Rosenberg", "2", is_mistake=True)
AGAIN = step(1, "Fritz Lang's city of birth", "Vienna", "1", "2", query_rephrased=True)


def trajectory(
    *steps: Step,
    error: str | None = None,
    plan: tuple[str, ...] = PLAN,
    first_plan: tuple[str, ...] | None = None,
    question: Question = QUESTION,
    reasoning_rows: ReasoningRows = "search",
    **changes: object,
) -> Trajectory:
    """A whole trajectory of the steps, told with seed `t`."""
    steps = steps or (FIRST, SECOND)
    final = steps[-1].answer
    messages, spans = narrate(
        Story(
            question=question.question,
            plan=plan,
            first_plan=first_plan or plan,
            steps=steps,
            error=error,  # type: ignore[arg-type]
            answer=final,
            reasoning_rows=reasoning_rows,
        ),
        seed="t",
    )
    row = Trajectory(
        uid="u1",
        question_id=question.id,
        question=question.question,
        answer=question.answer,
        answer_aliases=question.answer_aliases,
        kind="reflective" if error else "correct",
        reflection_error=error,  # type: ignore[arg-type]
        origin="policy",
        plan=plan,
        wrong_plan=first_plan,
        steps=steps,
        messages=messages,
        final_answer=final,
        num_tool_calls=sum(m.role == "tool" for m in messages),
        num_hops=len(plan),
        token_estimate=200,
        reward=score_answer(final, question.golds),
        step_pair=None,
        wrong_rollout=None,
        right_rollout=0,
        diverges_at=None,
        spans=spans,
        provenance=Provenance(
            run_id="r", source_id="musique:q1", model="scripted", prompt_version="0", seed=0, call_keys=("k1",)
        ),
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def reread(record: type[Row], rows: Sequence[Row]) -> list[Row]:
    """The rows as a file of them is read."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, record, rows)
        return read_parquet(path, record)
