"""RL rows of finished runs: every question that was put in, whether or not a trajectory of it was accepted; and of
files of questions, which need no run.

A row's prompt, `protocol` and `reward_preset` go together: the protocol of the data set, or the one that is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from trailforge.pipelines.runs.finished import FinishedRun
from trailforge.pipelines.sources import read_questions
from trailforge.protocols import PROTOCOLS
from trailforge.rewards.r_search import TOOLS
from trailforge.schemas import AskedQuestion, ChatMessage, GroundTruth, InvalidInput, Question, RewardModel, RlRow
from trailforge.training.sets.runs import table_of

ABILITY = "search_qa"


def rl_rows(run: FinishedRun, protocol: str | None = None) -> Iterator[RlRow]:
    """The questions of a run, in its order. `protocol`: that of all but those with options; None: the data set's."""
    questions = table_of(run.dataset, "questions")
    if questions is None:
        return
    name, table = questions
    corpus = table_of(run.dataset, "corpus")
    titles = {row.id: row.title for row in run.rows(corpus[0], corpus[1].record)} if corpus else {}
    for row in run.rows(name, table.record):
        asked: AskedQuestion = row.asked()
        speaks = protocol if protocol and not asked.options else table.protocol  # other rewards compare no letters
        found = tuple(titles[each] for each in asked.support_ids if each in titles)
        yield _row(asked, run.dataset, run.manifest.run_id, speaks, found)


def read_asked(path: Path) -> list[Question]:
    """The questions of a file as `pipelines.sources.read_questions` takes it.

    Raises `InvalidInput` as it does, for the first row that is none, and for a file without any.
    """
    questions = []
    for row in read_questions(path):
        if not isinstance(row, Question):
            raise InvalidInput(row.problem, file=path, row=row.row, field=row.field)
        questions.append(row)
    if not questions:
        raise InvalidInput("holds no questions", file=path)
    return questions


def name_of(path: Path) -> str:
    """By which a file's questions go: its name without endings."""
    return path.name.partition(".")[0]


def asked_rows(path: Path, questions: Iterable[Question], protocol: str) -> Iterator[RlRow]:
    """Rows of a file's questions, with the titles and hops that it gives. No run holds what is searched for them."""
    for question in questions:
        yield _row(question.asked(), question.dataset or name_of(path), "", protocol, ())


def question_count(run: FinishedRun) -> int:
    """How many rows `rl_rows` gives."""
    questions = table_of(run.dataset, "questions")
    return run.row_count(questions[0]) if questions else 0


def difficulties(run: FinishedRun) -> dict[str, tuple[int, float]]:
    """Stage and difficulty by question id, where the run has a curriculum of its own."""
    questions = table_of(run.dataset, "questions")
    if questions is None or "curriculum_stage" not in {each.name for each in fields(questions[1].record)}:
        return {}
    rows = (row.asked() for row in run.rows(questions[0], questions[1].record))
    return {asked.id: asked.curriculum for asked in rows if asked.curriculum is not None}


def stage_of(hops: int) -> int:
    """The curriculum of questions that have none of their own, by hops: 1 for up to two, 2 for three, …"""
    return max(1, hops - 1)


def ground_truth(asked: AskedQuestion, protocol: str, titles: tuple[str, ...] = ()) -> GroundTruth:
    """What rewards know of a question. `titles`: of its supporting documents in the run's corpus."""
    grammar = PROTOCOLS[protocol]
    return GroundTruth(
        target=asked.golds,
        answer_kind="options" if asked.options else "text",
        options=asked.options,
        correct_options=asked.correct_options,
        num_hops=asked.num_hops,
        hops=asked.hops,
        support_titles=(*asked.support_titles, *titles),
        dag_text=asked.plan,
        allowed_tools=tuple(TOOLS) if grammar.searches == "plan" else (),
        reward_preset=grammar.reward,
        protocol=grammar.name,
        support_texts=(*asked.support_texts, *("" for _ in titles)),
    )


def _row(asked: AskedQuestion, data_source: str, corpus_id: str, protocol: str, titles: tuple[str, ...]) -> RlRow:
    hops, grammar = asked.num_hops or 0, PROTOCOLS[protocol]
    stage, difficulty = asked.curriculum or (stage_of(hops), float(hops))
    truth = ground_truth(asked, protocol, titles)
    known = "\0".join([protocol, asked.text, *truth.target])
    return RlRow(
        uid=hashlib.sha256(known.encode()).hexdigest()[:16],
        data_source=data_source,
        prompt=tuple(ChatMessage(role=each.role, content=each.content) for each in grammar.opening(asked.text)),
        ability=ABILITY,
        question_id=asked.id,
        question=asked.text,
        reward_model=RewardModel(style="rule", ground_truth=truth),
        corpus_id=corpus_id,
        curriculum_stage=stage,
        difficulty=difficulty,
        provenance_id=asked.source_id,
    )
