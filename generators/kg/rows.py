"""From an episode to its row, and from a row to its reward again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace

from generators.kg.config import KgContext
from protocols import kg_search
from protocols.base import estimate_tokens
from protocols.episodes import EpisodeRun
from rewards import DynaSearcherConstants, dynasearcher_reward, r_recall, score_answer
from schemas import (
    KgConflict,
    KgReward,
    KgStep,
    KgTrajectory,
    Message,
    Provenance,
    Question,
    SupportingDocument,
)


def row_of(
    question: Question,
    run: EpisodeRun,
    context: KgContext,
    *,
    sample: int,
    call_keys: Sequence[str],
    conflicts: Sequence[KgConflict] = (),
) -> KgTrajectory:
    """The row of an episode, as it came; `steps_of(run)` are its searches."""
    config = context.config
    is_guided = config.style == "guided"
    steps = steps_of(run)
    said = "\0".join([question.id, str(sample), *(message.content for message in run.messages)])
    row = KgTrajectory(
        uid=hashlib.sha256(said.encode()).hexdigest()[:16],
        question_id=question.id,
        question=question.question,
        answer=question.answer,
        answer_aliases=question.answer_aliases,
        kind="bad",
        origin="oracle" if is_guided else "policy",
        plan=tuple(hop.question for hop in question.decomposition) if is_guided else (),
        sample=sample,
        steps=steps,
        messages=run.messages,
        stop=run.stop,
        final_answer=run.answer,
        num_tool_calls=run.num_searches,
        num_hops=len(question.decomposition),
        token_estimate=sum(estimate_tokens(message.content) for message in run.messages),
        gold_hops=question.decomposition,
        supporting=supporting_documents(question),
        reward=KgReward(total=0.0, r_acc=0.0, r_ans=0.0, r_recall=None, r_penalty=None, r_gain=0.0),
        flags=("stale_or_conflicting",) if conflicts else (),
        conflicts=tuple(conflicts),
        provenance=Provenance(
            run_id=context.run_id,
            source_id=f"{question.dataset}:{question.id}",
            model=context.model,
            prompt_version=config.prompts.version,
            seed=context.seed,
            call_keys=tuple(call_keys),
        ),
    )
    is_right = score_answer(run.answer, question.golds).total > 0
    kind = "good" if is_right and holds_format(run.messages) else "bad"
    return replace(row, kind=kind, reward=reward_of(row, config.constants))


def reward_of(row: KgTrajectory, constants: DynaSearcherConstants) -> KgReward:
    """The reward from the row alone: the same as `protocols.kg_search.score` of the episode it was made from."""
    parts = dynasearcher_reward(
        prediction=row.final_answer,
        golds=row.golds,
        format_holds=holds_format(row.messages),
        recall=r_recall(row.supporting, [document for step in row.steps for document in step.documents]),
        searches=row.num_tool_calls,
        hops=row.num_hops or None,
        constants=constants,
    )
    return KgReward(**asdict(parts))


def holds_format(messages: Sequence[Message]) -> bool:
    """Is the conversation as the protocol asks, without any mending?"""
    return kg_search.GRAMMAR.format_reward(messages) == 1.0


def steps_of(run: EpisodeRun) -> tuple[KgStep, ...]:
    """The executed searches with what the tool noted of them."""
    noted = (step.observation.detail for step in run.steps if step.observation)
    steps = [detail for detail in noted if isinstance(detail, KgStep)]  # a refusal notes nothing
    return tuple(replace(step, index=index) for index, step in enumerate(steps))


def supporting_documents(question: Question) -> tuple[SupportingDocument, ...]:
    """Of the gold hops, as far as the question has the paragraphs."""
    titles = {document.id: document.title for document in question.paragraphs}
    ids = dict.fromkeys(hop.support_id for hop in question.decomposition if hop.support_id in titles)
    return tuple(SupportingDocument(id=key, title=titles[key]) for key in ids if key is not None)
