"""RL rows of finished runs: every question that was put in, whether or not a trajectory of it was accepted.

A row's prompt, `protocol` and `reward_preset` go together: the protocol of the data set, or the one that is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import cast

from trailforge.protocols import graph_r1, kg_search, r_search, react, search_r1
from trailforge.rewards.r_search import TOOLS
from trailforge.schemas import (
    BundleQuestion,
    ChatMessage,
    GroundTruth,
    InvalidInput,
    KgQuestion,
    Question,
    RewardModel,
    RlRow,
    SourceDocument,
)
from trailforge.training.agents import GRAMMARS
from trailforge.training.sets.config import TextProtocol
from trailforge.training.sets.runs import RECORDS, FinishedRun

ABILITY = "search_qa"
PRESETS = {
    react.NAME: "msearcher",
    r_search.NAME: "r-search",
    kg_search.NAME: "dynasearcher",
    graph_r1.NAME: "ragsearch",
    search_r1.NAME: "search-r1",
}
"""By what the episodes of each protocol are paid."""


def rl_rows(run: FinishedRun, protocol: TextProtocol | None = None) -> Iterator[RlRow]:
    """The questions of a run, in its order. `protocol`: that of all but those with options; None: the data set's."""
    asked = run.questions
    if asked is None:
        return
    speaks = protocol or cast(TextProtocol, asked.protocol)
    titles: dict[str, str] = {}
    if corpus := run.table("corpus"):
        titles = {row.id: row.title for row in run.rows(corpus, SourceDocument)}
    for question in run.rows(asked.table, RECORDS[asked.record]):
        match question:
            case BundleQuestion():
                yield _of_bundle(question, titles, run, protocol)
            case KgQuestion():
                yield _of_question(question.as_question, run, question.provenance.source_id, speaks)
            case Question():
                yield _of_question(question, run, f"{question.dataset}:{question.id}", speaks)
            case _:
                raise InvalidInput(f"{asked.record} rows are no questions", file=run.folder, field=asked.table)


def difficulties(run: FinishedRun) -> dict[str, tuple[int, float]]:
    """Stage and difficulty by question id, where the run has a curriculum of its own."""
    asked = run.questions
    if asked is None or RECORDS[asked.record] is not BundleQuestion:
        return {}
    rows = run.rows(asked.table, BundleQuestion)
    return {row.uid: (row.curriculum_stage, row.complexity) for row in rows}


def stage_of(hops: int) -> int:
    """The curriculum of questions that have none of their own, by hops: 1 for up to two, 2 for three, …"""
    return max(1, hops - 1)


def _of_question(question: Question, run: FinishedRun, source_id: str, speaks: TextProtocol) -> RlRow:
    hops = question.decomposition
    titles = {paragraph.id: paragraph.title for paragraph in question.paragraphs}
    supporting = (titles[hop.support_id] for hop in hops if hop.support_id in titles)
    truth = GroundTruth(
        target=question.golds,
        answer_kind="text",
        options=(),
        correct_options=(),
        num_hops=len(hops) or None,
        hops=hops,
        support_titles=tuple(dict.fromkeys(supporting)),
        dag_text="",
        allowed_tools=(),
        reward_preset=PRESETS[speaks],
        protocol=speaks,
    )
    return _row(
        run.dataset,
        truth,
        question_id=question.id,
        question=question.question,
        corpus_id=run.manifest.run_id,
        curriculum=(stage_of(len(hops)), float(len(hops))),
        provenance_id=source_id,
    )


def _of_bundle(row: BundleQuestion, titles: dict[str, str], run: FinishedRun, protocol: TextProtocol | None) -> RlRow:
    asked = "\n".join([row.question, *(f"{chr(ord('A') + n)}. {option}" for n, option in enumerate(row.options))])
    documents = dict.fromkeys(hop.document_id for hop in row.hops)
    letters = ", ".join(sorted(row.correct_options))
    speaks = r_search.NAME if row.options or protocol is None else protocol  # other rewards compare no letters
    truth = GroundTruth(
        target=(letters if row.options else row.answer,),
        answer_kind="options" if row.options else "text",
        options=row.options,
        correct_options=row.correct_options,
        num_hops=len(row.hops),
        hops=(),  # a bundle's hops are quotations, not questions
        support_titles=tuple(titles[each] for each in documents if each in titles),
        dag_text=row.dag_text,
        allowed_tools=tuple(TOOLS) if speaks == r_search.NAME else (),
        reward_preset=PRESETS[speaks],
        protocol=speaks,
    )
    return _row(
        run.dataset,
        truth,
        question_id=row.uid,
        question=asked,
        corpus_id=run.manifest.run_id,
        curriculum=(row.curriculum_stage, row.complexity),
        provenance_id=row.provenance.source_id,
    )


def _row(
    data_source: str,
    truth: GroundTruth,
    *,
    question_id: str,
    question: str,
    corpus_id: str,
    curriculum: tuple[int, float],
    provenance_id: str,
) -> RlRow:
    grammar = GRAMMARS[truth.protocol]
    user = r_search.user_turn(question) if grammar.name == r_search.NAME else question + grammar.user_suffix
    known = "\0".join([truth.protocol, question, *truth.target])
    return RlRow(
        uid=hashlib.sha256(known.encode()).hexdigest()[:16],
        data_source=data_source,
        prompt=(ChatMessage(role="system", content=grammar.system_prompt), ChatMessage(role="user", content=user)),
        ability=ABILITY,
        question_id=question_id,
        question=question,
        reward_model=RewardModel(style="rule", ground_truth=truth),
        corpus_id=corpus_id,
        curriculum_stage=curriculum[0],
        difficulty=curriculum[1],
        provenance_id=provenance_id,
    )
