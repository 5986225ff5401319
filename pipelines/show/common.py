"""Make the parts by which several data sets show their rows: questions, documents, rows for training, provenance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.show.marks import Marked, spans, telling_first
from trailforge.pipelines.show.parts import (
    Chips,
    Columns,
    Conversation,
    DataTable,
    DocumentPanes,
    FieldList,
    Fold,
    Line,
    Mark,
    Meters,
    Note,
    Parts,
    Scores,
    ShownDocument,
    ShownTable,
    StyledText,
    Tabs,
    Title,
    tab,
)
from trailforge.schemas import (
    FilterScore,
    InvalidInput,
    Message,
    Passage,
    Provenance,
    Question,
    SftRow,
    SourceDocument,
    TrajectoryReward,
    from_payload,
    to_dict,
)

Record = TypeVar("Record")
ORIGINS = {
    "policy": "The plan was made by the policy, a model.",
    "rule": "The plan was made by rules, in code.",
    "oracle": "The plan is the gold one: the decomposition or search plan that came with the question.",
}
"""Meaning of each origin of a row or node."""
_REWARD = {
    "total": "the reward by which the row was kept",
    "exact_match": "the final answer is a gold answer, after normalisation",
    "f1": "words in common with the gold answer",
    "cover_exact_match": "a gold answer stands in the final answer",
}
_LONGEST = 4_000
"""Characters of a passage that are shown."""


def count_searches(searches: int, hops: int) -> StyledText:
    """Say how many searches an episode made, and for how many hops; 0 hops are unknown."""
    made = "1 search" if searches == 1 else f"{searches} searches"
    wanted = "1 hop" if hops == 1 else f"{hops or 'unknown'} hops"
    return StyledText(f"{made} for {wanted}")


def head(
    question: str, gold: str, aliases: Sequence[str], final: str | None, is_right: bool, chips: Iterable[StyledText]
) -> Parts:
    """Return parts that show a question, its gold answer and the given answer, where there is one (`final` is not
    None). `chips` are short facts on the row, drawn below.
    """
    return [Title(question), FieldList(answers(gold, aliases, final, is_right)), Chips([*chips])]


def answers(gold: str, aliases: Sequence[str], final: str | None, is_right: bool) -> dict[str, Line]:
    """Return by name the lines of the gold answer and, where there is one, of the given answer."""
    also = [StyledText(f" also: {'; '.join(aliases)[:300]}", "quiet")] if aliases else []
    known: dict[str, Line] = {"gold answer": (StyledText(gold, "gold"), *also)}
    if final is not None:
        kind, sign = ("gold", " ✓") if is_right else ("wrong", " ✗")
        known["final answer"] = (StyledText(final or "none", kind), sign)
    return known


def passages(found: Sequence[Passage], marks: Sequence[Marked], only: frozenset[str] = frozenset()) -> DocumentPanes:
    """Return parts that show passages, those with an answer first and unfolded. `marks` are the answers that are
    highlighted; `only` are the ids of passages that the other episode of a pair did not find.
    """
    return DocumentPanes([_passage(*each, marks, only) for each in telling_first(found, marks)], is_folded=True)


def _passage(
    rank: int, passage: Passage, is_telling: bool, marks: Sequence[Marked], only: frozenset[str]
) -> ShownDocument:
    alone = (StyledText(" only here", "strong"),) if passage.id in only else ()
    title, text = f"{rank} · {passage.title[:200]}", passage.text[:_LONGEST]
    first = len(title) + 1
    return ShownDocument(
        title=title, text=text, origin=(f"{passage.id[:60]} · score {passage.score:.3f}", *alone), is_open=is_telling,
        marks=[Mark(first + begin, first + end, kind) for begin, end, kind in spans(text, marks)],
    )  # fmt: skip


def provenance(found: Provenance, **more: object) -> FieldList:
    """Return parts that show where a row comes from."""
    fields = {**more, **to_dict(found)}
    keys = fields.pop("call_keys")
    return values(fields | {f"model calls ({len(keys)})": "\n".join(keys) or "none"})


def values(fields: Mapping[str, Any]) -> FieldList:
    """Return parts that show names and values; a value that is no text is shown as JSON."""
    return FieldList(
        {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1, default=str)
            for name, value in fields.items()
        }
    )


def contrast(row: Any, worse: str, heads: tuple[Parts, Parts], notes: Mapping[int, StyledText] | None = None) -> Parts:
    """Return parts that show a row of pairs side by side, from where the two sides differ. `worse` is the name of the
    second side; `heads` are drawn above each; `notes` belong to turns of the second.
    """
    start, (good, bad) = row.diverges_at, heads
    return [
        Note((f"The {worse} one was put aside by ", StyledText(row.reason, "strong"), f": {row.detail}"), "wrong"),
        Fold(f"The {start} turns that both begin with", [Conversation(row.good_messages[:start])]),
        Columns(
            [
                [*good, Conversation(row.good_messages[start:], first=start)],
                [*bad, Conversation(row.bad_messages[start:], notes or {}, first=start)],
            ]
        ),
    ]


def with_earlier(meanings: Mapping[str, str], earlier: Mapping[str, str]) -> dict[str, str]:
    """Return the meanings of filters' scores, including under the filters' earlier names
    (`DataSet.earlier_reasons`).
    """
    return {**meanings, **{old: meanings[now] for old, now in earlier.items() if now in meanings}}


def measured(filters: Sequence[FilterScore], meanings: Mapping[str, str]) -> Fold:
    """Return parts that show the scores of a row's filters. `meanings` explains each filter's score."""
    title = f"What the filters measured: {sum(score.passed for score in filters)} of {len(filters)} passed"
    return Fold(title, [Scores(filters, meanings)], is_open=True)


def reward(row: Any) -> Parts:
    """Return parts that show a `TrajectoryReward`, and where its row comes from."""
    found: TrajectoryReward = row.reward
    parts = {name: (getattr(found, name), meaning) for name, meaning in _REWARD.items()}
    return [Meters(parts), provenance(row.provenance, uid=row.uid, question_id=row.question_id)]


def kind_chips(row: Any) -> list[StyledText]:
    """Return labels for a trajectory or a training row: its kind, and which error it corrects."""
    kind = getattr(row, "trajectory_kind", None) or row.kind
    meaning = "Holds a wrong step, a reflection and the mended step." if kind == "reflective" else "No wrong step."
    error = [StyledText(f"{row.reflection_error} error", "wrong")] if row.reflection_error else []
    return [StyledText(kind, "mended" if kind == "reflective" else "right", meaning), *error]


def size_chips(row: Any) -> list[StyledText]:
    """Return labels for a trajectory or a training row: what planned it, how long it is, and how right."""
    return [
        StyledText(f"{row.origin} plan", "", ORIGINS[row.origin]),
        StyledText(f"{row.num_hops} hops", "", "Sub-questions of the plan that leads to the answer."),
        StyledText(f"{row.num_tool_calls} searches"),
        StyledText(
            f"{row.token_estimate:,} tokens", "", "By a rule of thumb; a trainer counts with its own tokenizer."
        ),
        StyledText(f"F1 {row.reward.f1:.2f}", "", "Of the final answer."),
    ]


def sft_row(run: OpenRun, row: SftRow, notes: Mapping[int, StyledText] | None = None) -> Parts:
    """Return parts that show what a trainer reads, with the turns on which the loss is taken. `notes` are remarks on
    turns, by the turn's number.
    """
    part = f"turn {row.segment_index + 1} of {row.segment_count}" if row.segment_count > 1 else "whole conversation"
    trained = StyledText(
        f"{sum(row.train)} of {len(row.messages)} turns trained", "", "Turns on which the loss is taken."
    )
    chips = [*kind_chips(row), StyledText(part), trained, *size_chips(row), StyledText(row.protocol)]
    is_right = max(row.reward.exact_match, row.reward.cover_exact_match) > 0
    messages = [
        Message(role=message.role, content=message.content, train=train)
        for message, train in zip(row.messages, row.train, strict=True)
    ]
    tabs = [
        tab("Conversation", lambda: [Conversation(messages, notes or {}, golds=(row.answer, *row.answer_aliases))]),
        tab("Reward and provenance", lambda: reward(row)),
    ]
    final = _final_answer(run, row.trajectory_uid)
    return [*head(row.question, row.answer, row.answer_aliases, final, is_right, chips), Tabs(tabs)]


def _final_answer(run: OpenRun, uid: str) -> str | None:
    """Of the row that a row for training was made of; None when the run keeps none."""
    for table in run.tables:
        names = run.table(table).schema.names
        if "uid" in names and "final_answer" in names and (number := run.find(table, uid)) is not None:
            return run.row(table, number)["final_answer"]
    return None


def question(run: OpenRun, row: Question) -> Parts:
    """Return parts that show a question with its decomposition and its paragraphs, the gold ones first."""
    supports = {hop.support_id for hop in row.decomposition} | {each.id for each in row.supporting_documents}
    hops = [
        {"hop": number, "question": hop.question, "answer": hop.answer, "paragraph": hop.support_id}
        for number, hop in enumerate(row.decomposition, start=1)
    ]
    paragraphs = sorted(row.paragraphs, key=lambda each: each.id not in supports)
    documents = [
        ShownDocument(
            title=each.title, text=each.text, origin=(each.id, " · gold paragraph" if each.id in supports else ""),
            is_open=each.id in supports, kind="gold" if each.id in supports else "",
        )
        for each in paragraphs
    ]  # fmt: skip
    known = {"id": row.id, "answer": row.answer, "also right": ", ".join(row.answer_aliases)}
    known |= {"hops": row.hop_count or "unknown"}
    known |= {"rests on": "; ".join(each.title for each in row.supporting_documents) or "unknown"}
    fields = values(known)
    return [Title(row.question), fields, *([DataTable(hops)] if hops else []), DocumentPanes(documents, is_folded=True)]


def document(run: OpenRun, row: SourceDocument) -> Parts:
    """Return parts that show a document with what is known of it."""
    fields = {"id": row.id, "source": row.source, "kind": row.kind, "published": row.published or "unknown"}
    fields |= {"url": row.url, "authors": ", ".join(row.authors), "licence": row.licence or "unknown"}
    shown = values({name: value for name, value in fields.items() if value})
    return [shown, DocumentPanes([ShownDocument(title=row.title, text=row.text)])]


SFT = ShownTable(
    name="sft", title="Rows for training", describe=sft_row, keys=("uid", "trajectory_uid", "question_id"),
    columns=("trajectory_kind", "question", "segment_index"), kinds=("trajectory_kind",), is_list_beside=True,
)  # fmt: skip
QUESTIONS = ShownTable(name="inputs", title="Questions", describe=question, keys=("id",))
DOCUMENTS = ShownTable(name="inputs", title="Documents", describe=document, keys=("id",))


def find_side(run: OpenRun, table: str, uid: str, record: type[Record]) -> Record | None:
    """Find one side of a pair by its uid: a row of the table, or one that was rejected; None where the run has
    neither.
    """
    if (number := run.find(table, uid)) is not None:
        return run.record(table, number)
    if (number := run.find("rejected", uid)) is None:
        return None
    try:
        return from_payload(record, json.loads(run.record("rejected", number).payload))
    except (ValueError, InvalidInput):
        return None
