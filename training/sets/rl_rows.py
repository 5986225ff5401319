"""RL rows of finished runs: every question that was put in, whether or not a trajectory of it was accepted.

A row's prompt, `protocol` and `reward_preset` go together: the protocol of the data set, or the one that is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from trailforge.protocols import KG_SEARCH, PROTOCOLS, R_SEARCH, REACT
from trailforge.rewards.r_search import TOOLS
from trailforge.schemas import (
    BundleQuestion,
    ChatMessage,
    GroundTruth,
    KgQuestion,
    Question,
    RewardModel,
    RlRow,
    SourceDocument,
)
from trailforge.training.sets.runs import FinishedRun

ABILITY = "search_qa"
QUESTIONS = {
    "mcts_trajectories": "inputs",
    "document_bundles": "bundle_questions",
    "kg_trajectories": "inputs",
    "kg_questions": "kg_questions",
}
"""The table of each data set's runs that holds the questions."""
ASKED_IN = {
    "mcts_trajectories": REACT,
    "document_bundles": R_SEARCH,
    "kg_trajectories": KG_SEARCH,
    "kg_questions": KG_SEARCH,
}
"""The protocol in which each data set's questions are asked by default."""


def rl_rows(run: FinishedRun, protocol: str | None = None) -> Iterator[RlRow]:
    """The questions of a run, in its order. `protocol`: that of all but those with options; None: the data set's."""
    match run.dataset:
        case "document_bundles":
            titles = {row.id: row.title for row in run.rows("documents", SourceDocument)}
            for question in run.rows(QUESTIONS[run.dataset], BundleQuestion):
                yield _of_bundle(question, titles, run.manifest.run_id, protocol)
        case "kg_questions":
            for question in run.rows(QUESTIONS[run.dataset], KgQuestion):
                yield _of_question(question.as_question, run, question.provenance.source_id, protocol)
        case _:
            for question in run.rows(QUESTIONS[run.dataset], Question):
                yield _of_question(question, run, f"{question.dataset}:{question.id}", protocol)


def difficulties(run: FinishedRun) -> dict[str, tuple[int, float]]:
    """Stage and difficulty by question id, where the run has a curriculum of its own."""
    if run.dataset != "document_bundles":
        return {}
    rows = run.rows(QUESTIONS[run.dataset], BundleQuestion)
    return {row.uid: (row.curriculum_stage, row.complexity) for row in rows}


def stage_of(hops: int) -> int:
    """The curriculum of questions that have none of their own, by hops: 1 for up to two, 2 for three, …"""
    return max(1, hops - 1)


def _of_question(question: Question, run: FinishedRun, source_id: str, protocol: str | None) -> RlRow:
    hops = question.decomposition
    titles = {paragraph.id: paragraph.title for paragraph in question.paragraphs}
    supporting = (titles[hop.support_id] for hop in hops if hop.support_id in titles)
    speaks = PROTOCOLS[protocol] if protocol else ASKED_IN[run.dataset]
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
        reward_preset=speaks.reward,
        protocol=speaks.name,
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


def _of_bundle(row: BundleQuestion, titles: dict[str, str], run_id: str, protocol: str | None) -> RlRow:
    asked = "\n".join([row.question, *(f"{chr(ord('A') + n)}. {option}" for n, option in enumerate(row.options))])
    documents = dict.fromkeys(hop.document_id for hop in row.hops)
    letters = ", ".join(sorted(row.correct_options))
    # Other rewards compare no letters.
    speaks = R_SEARCH if row.options or protocol is None else PROTOCOLS[protocol]
    truth = GroundTruth(
        target=(letters if row.options else row.answer,),
        answer_kind="options" if row.options else "text",
        options=row.options,
        correct_options=row.correct_options,
        num_hops=len(row.hops),
        hops=(),  # a bundle's hops are quotations, not questions
        support_titles=tuple(titles[each] for each in documents if each in titles),
        dag_text=row.dag_text,
        allowed_tools=tuple(TOOLS) if speaks.searches == "plan" else (),
        reward_preset=speaks.reward,
        protocol=speaks.name,
    )
    return _row(
        "document_bundles",
        truth,
        question_id=row.uid,
        question=asked,
        corpus_id=run_id,
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
    grammar = PROTOCOLS[truth.protocol]
    known = "\0".join([truth.protocol, question, *truth.target])
    return RlRow(
        uid=hashlib.sha256(known.encode()).hexdigest()[:16],
        data_source=data_source,
        prompt=tuple(ChatMessage(role=each.role, content=each.content) for each in grammar.opening(question)),
        ability=ABILITY,
        question_id=question_id,
        question=question,
        reward_model=RewardModel(style="rule", ground_truth=truth),
        corpus_id=corpus_id,
        curriculum_stage=curriculum[0],
        difficulty=curriculum[1],
        provenance_id=provenance_id,
    )
