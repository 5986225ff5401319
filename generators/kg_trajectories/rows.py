"""Make a row of an episode, and compute a row's reward again from the row alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from trailforge.filters.kg import is_titled
from trailforge.generators.kg_trajectories.choice import truth_of
from trailforge.generators.kg_trajectories.config import KgContext, KgGeneratorConfig
from trailforge.generators.sft_rows import whole_conversation
from trailforge.protocols import KG_SEARCH, EpisodeRun, Observation, Search, ToScore, find_right_by
from trailforge.protocols.environment import labels
from trailforge.retrieval.kg import KgStore
from trailforge.rewards import is_never_quoted, mcts_reward, normalize_answer, score_by_target
from trailforge.rewards.dynasearcher import DynaSearcherConstants, dynasearcher_reward, r_recall
from trailforge.rewards.reading import date_of, fold, name_key, nations
from trailforge.schemas import (
    KgReward,
    KgStep,
    KgTrajectory,
    MalformedReply,
    Message,
    Question,
    SftRow,
    SoughtDocument,
    count_conversation,
)

_LETTERS = 3
"""The fewest of a graph's name that is taken for a right answer."""
_STEM = 5
"""Letters that the names of a country and of an older one share."""


def row_of(
    question: Question,
    run: EpisodeRun,
    context: KgContext,
    *,
    sample: int,
    call_keys: Sequence[str],
    nearest: Sequence[float | None] = (),
) -> KgTrajectory:
    """Return the row of an episode as it happened; `steps_of(run)` are its searches. `sample` is the number of the
    draw, `call_keys` are the ledger keys of its model calls, and `nearest` has for each supporting document of the
    question the similarity of the search results to it, where that was measured.
    """
    assert run.stop != "failed", run.error  # a tool that fails here raises
    row = KgTrajectory(
        uid="",
        question_id=question.id,
        question="",
        answer="",
        answer_aliases=(*question.answer_aliases, *graph_names(question, context.store)),
        kind="bad",
        origin="policy",
        plan=(),
        sample=sample,
        steps=steps_of(run),
        messages=run.messages,
        stop=run.stop,
        final_answer=run.answer,
        num_tool_calls=0,
        num_hops=0,
        token_estimate=0,
        gold_hops=(),
        supporting=_sought(question, nearest),
        reward=KgReward(total=0.0, r_acc=0.0, r_ans=0.0, r_recall=None, r_penalty=None, r_gain=0.0),
        flags=(),
        conflicts=(),
        provenance=context.provenance(
            f"{question.dataset}:{question.id}",
            context.config.prompts.version,
            call_keys,
            retriever=context.retrieval.name,
        ),
    )
    return replace(row, **derive_fields(row, question, context.config))


def derive_fields(row: KgTrajectory, question: Question, config: KgGeneratorConfig) -> dict[str, Any]:
    """Return the fields of a row that follow from its question, its conversation, its steps and what was measured."""
    is_guided, aliases = config.is_led, question.answer_aliases
    of_graph = row.answer_aliases[len(aliases) :]
    row = replace(row, answer=question.answer, answer_aliases=(*aliases, *of_graph))
    content = "\0".join([question.id, str(row.sample), *(message.content for message in row.messages)])
    is_right = mcts_reward(row.final_answer, row.golds) > 0 or config.judge.accepts(row.judge_score)
    is_right = is_right or is_titled(row)
    fields: dict[str, Any] = {
        "uid": hashlib.sha256(content.encode()).hexdigest()[:16],
        "question": question.question,
        "answer": row.answer,
        "answer_aliases": row.answer_aliases,
        "kind": "good" if is_right and holds_format(row.messages) else "bad",
        "origin": "oracle" if is_guided else "policy",
        "plan": tuple(hop.question for hop in question.decomposition) if is_guided else (),
        "num_tool_calls": len(row.steps),
        "num_hops": question.hop_count or 0,
        "token_estimate": count_conversation(row.messages),
        "gold_hops": question.decomposition,
        "supporting": _sought(question, [document.similarity for document in row.supporting]),
        "flags": ("stale_or_conflicting",) if row.conflicts else (),
    }
    return fields | {"reward": reward_of(replace(row, **fields), config.constants)}


def graph_names(question: Question, store: KgStore) -> tuple[str, ...]:
    """Return the graph's names of the answer's entity, which are right answers too, without those that the question
    contains.

    The entity is the one that the question gives by id, else the only one with the answer's name. Names of fewer than
    three letters are left out, since many answers contain them, and so are those of other countries and peoples: graphs
    that were made from questions call Canada "Russian". Dates, numbers, yes and no are no entities.
    """
    answer = question.answer
    if is_never_quoted(answer) or date_of(fold(answer)) or not any(map(str.isalpha, answer)):
        return ()
    row = store.find(question.answer_id) if question.answer_id else None
    if row is None:
        called_so = store.namesakes(answer)
        row = int(called_so[0]) if len(called_so) == 1 else None
    names = store.names_of(row) if row is not None else []
    known, found = set(map(normalize_answer, question.golds)), []
    for name in names:
        if _is_of_another_country(name, (answer, names[0])):
            continue
        if sum(map(str.isalpha, name)) >= _LETTERS and (key := normalize_answer(name)) not in known:
            found.append(name)
            known.add(key)
    return tuple(found)


def _is_of_another_country(name: str, called: Sequence[str]) -> bool:
    """Is a name that of a country or people, and what is `called` so none of them? Of a country that is no more, whose
    names nobody lists, those that begin like a word of its own may stand: the Russian Empire is Russia."""
    country = nations().get(name_key(name))
    if country is None:
        return False
    own = [each for each in (nations().get(name_key(other)) for other in called) if each]
    begins = name[:_STEM].casefold()
    is_akin = not own and any(word.startswith(begins) for other in called for word in other.casefold().split())
    return country not in own and not is_akin


def steps_match(row: KgTrajectory, opening: Sequence[Message]) -> bool:
    """Tell whether a row's searches, end and final answer agree with its conversation, which must begin with the
    messages `opening`; False for a conversation that cannot be read.
    """
    try:
        *searches, last = [KG_SEARCH.parse_turn(m.content) for m in row.messages if m.role == "assistant"]
    except (MalformedReply, ValueError):  # no turn at all
        return False
    asked = [_plain(turn.search) for turn in searches if turn.search]
    noted = [_plain(Search(query=s.query, entities=s.mentions, relations=s.phrases)) for s in row.steps]
    read = [message.content for message in row.messages if message.role == "tool"]
    shown = [Observation(passages=s.documents, triples=tuple(map(labels, s.triples_kept))) for s in row.steps]
    is_same = asked == noted and read == [KG_SEARCH.render_result(each) for each in shown]
    is_ended = (row.stop, row.final_answer) == ("answered", last.answer)
    return is_same and is_ended and row.messages[: len(opening)] == tuple(opening)


def _plain(search: Search) -> Search:
    """White space and repeated mentions aside, which a conversation or a step may leave out."""
    entities = dict.fromkeys(name.strip() for name in search.entities)
    phrases = (phrase.strip() for phrase in search.relations)
    return Search(
        query=search.query.strip(), entities=tuple(filter(None, entities)), relations=tuple(filter(None, phrases))
    )


def reward_of(row: KgTrajectory, constants: DynaSearcherConstants) -> KgReward:
    """Return the reward computed from the row alone: the same as that of the episode it was made from."""
    parts = dynasearcher_reward(
        prediction=row.final_answer,
        golds=truth_of(row).target,
        format_holds=holds_format(row.messages),
        recall=r_recall(
            row.supporting,
            [document for step in row.steps for document in step.documents],
            nearest=[document.similarity for document in row.supporting],
            threshold=constants.recall_similarity,
        ),
        searches=row.num_tool_calls,
        hops=row.num_hops or None,
        constants=constants,
    )
    return KgReward(**asdict(parts))


def holds_format(messages: Sequence[Message]) -> bool:
    """Tell whether the conversation follows the protocol's format without any repair."""
    return KG_SEARCH.format_reward(messages) == 1.0


def steps_of(run: EpisodeRun) -> tuple[KgStep, ...]:
    """Return the executed searches with what the tool stored about them."""
    noted = (step.observation.detail for step in run.steps if step.observation)
    steps = [detail for detail in noted if isinstance(detail, KgStep)]  # a refusal notes nothing
    return tuple(replace(step, index=index) for index, step in enumerate(steps))


def _sought(question: Question, nearest: Sequence[float | None]) -> tuple[SoughtDocument, ...]:
    """The question's supporting documents; `nearest` is not heeded when it is of other documents."""
    documents = question.supporting_documents
    measured = nearest if len(nearest) == len(documents) else [None] * len(documents)
    return tuple(
        SoughtDocument(id=document.id, title=document.title, similarity=near)
        for document, near in zip(documents, measured, strict=True)
    )


def kg_sft_row(row: KgTrajectory) -> SftRow:
    """Return the whole conversation as one row with the loss on every assistant turn. `reward.total` is the episode's
    reward; its other parts compare the final answer with the gold answers.
    """
    reward = replace(score_by_target(row.final_answer, row.golds), total=row.reward.total)
    right_by = find_right_by(row.final_answer, truth_of(row), "title" if is_titled(row) else "judge")
    return whole_conversation(
        row, data_source="kg_trajectories", protocol=KG_SEARCH.name, reward=reward, right_by=right_by
    )


def transcript_of(row: KgTrajectory) -> ToScore:
    """Return an episode in the form in which the reward scores it."""
    return ToScore(
        messages=row.messages,
        question=row.question,
        truth=truth_of(row),
        retrieved_titles=tuple(document.title for step in row.steps for document in step.documents),
        nearest=tuple(document.similarity for document in row.supporting),
    )
