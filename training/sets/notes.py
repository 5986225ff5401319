"""Collect what runs show of their questions: how kept rows answer them, how well models know them, which texts state
their answers.

A question is worth a rollout where its reward and the filters mean the same by "right", where the model has to search
for the answer, and where some text gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from trailforge.pipelines import load_dataset
from trailforge.pipelines.runs import FinishedRun
from trailforge.protocols import PROTOCOLS, read_transcript
from trailforge.rewards import state_gold
from trailforge.rewards.episode import measure_answer, reward_preset
from trailforge.rewards.r_search import RSearchConstants
from trailforge.schemas import AskedQuestion, GroundTruth, Question, RejectedRow, RlRow, SftRow, parse_json
from trailforge.training.sets.order import Identity, identity_of
from trailforge.training.sets.runs import table_of

_KNOWN = "known_from_memory"
"""Name of the filter whose score is the share of right answers from memory."""


@dataclass(slots=True, kw_only=True)
class QuestionNotes:
    """What is known of one question, from all runs that asked it."""

    golds: dict[str, None] = field(default_factory=dict)
    """The gold answer, its aliases, and what rows say it is called in a graph."""
    answers: set[str] = field(default_factory=set)
    """The final answers of kept rows."""
    known_share: float | None = None
    """The largest share of right answers from memory that a run has found; None: none was measured."""
    is_quoted: bool = False
    """Whether some text has to say the answer. None need to where a question has options, or asks for an
    explanation.
    """
    has_text: bool = False
    """Whether a text came with the question, or an episode read any."""
    is_stated: bool = False
    """Whether such a text states a gold answer."""

    @property
    def gold_stated(self) -> bool | None:
        """Return whether a text states the gold answer; None where there is no text, or none has to state it."""
        return self.is_stated if self.has_text and self.is_quoted else None

    def read(self, texts: Iterable[str]) -> None:
        """Check whether one of the texts states a gold answer; `golds` must be complete before."""
        given = () if self.is_stated else tuple(texts)
        found = state_gold(given, tuple(self.golds)) if given else None
        if found is not None:
            self.has_text, self.is_stated = True, found

    def weigh(self, share: float) -> None:
        """Record the share of answers from memory with which some model knows the question."""
        self.known_share = max(share, self.known_share or 0.0)


Notes = Mapping[Identity, QuestionNotes]


def note_of(notes: Notes, row: RlRow) -> QuestionNotes:
    """Return what is known of a question; an empty record where no run asked it."""
    return notes.get(identity_of(row.question, row.reward_model.ground_truth.target[0])) or QuestionNotes()


def names_in(notes: Notes) -> Callable[[AskedQuestion], Iterable[str]]:
    """Return a function, for `rl_rows`, that returns further names of a question's gold answer."""
    return lambda asked: notes[identity_of(asked.text, asked.golds[0])].golds


def read_notes(runs: Sequence[FinishedRun]) -> Notes:
    """Collect the notes on all questions that runs asked. Raises what `FinishedRun.rows` raises."""
    notes: dict[Identity, QuestionNotes] = {}
    for run in runs:
        _read_golds(run, notes)
    for run in runs:
        _read_run(run, notes)
    return notes


def _read_golds(run: FinishedRun, notes: dict[Identity, QuestionNotes]) -> None:
    """All names of the answers, before a text is looked at for them."""
    for asked, _, is_quoted in _questions(run):
        note = notes.setdefault(identity_of(asked.text, asked.golds[0]), QuestionNotes())
        note.is_quoted |= is_quoted
        note.golds |= dict.fromkeys(asked.golds)
    for row in _conversations(run):
        note = notes.setdefault(identity_of(row.question, row.answer), QuestionNotes())
        note.golds |= dict.fromkeys((row.answer, *row.answer_aliases))


def _read_run(run: FinishedRun, notes: Mapping[Identity, QuestionNotes]) -> None:
    keys: dict[str, Identity] = {}
    for asked, texts, _ in _questions(run):
        keys[asked.id] = identity_of(asked.text, asked.golds[0])
        notes[keys[asked.id]].read(texts)
    for row in _conversations(run):
        note = notes[identity_of(row.question, row.answer)]
        note.read(message.content for message in row.messages if message.role == "tool")
        if row.protocol in PROTOCOLS:
            note.answers |= {read_transcript(row.messages, row.protocol).answer} - {""}
    for question_id, share in _known_of_rows(run):
        if question_id in keys:
            notes[keys[question_id]].weigh(share)
    for row in run.rows("rejected", RejectedRow) if run.files("rejected") else ():
        payload = _payload(row)
        question_id = payload.get("question_id", "")
        if question_id not in keys:
            continue
        note = notes[keys[question_id]]
        if row.reason == _KNOWN and payload.get("answers"):
            note.weigh(row.score)
        for scored in _mappings(payload.get("filters")):
            if scored.get("name") == _KNOWN:
                note.weigh(scored["score"])
        note.read(_tool_texts(payload))


def _conversations(run: FinishedRun) -> Iterator[SftRow]:
    """The whole ones."""
    rows = run.rows("sft", SftRow) if run.files("sft") else ()
    return (row for row in rows if row.segment_index == row.segment_count - 1)


def _questions(run: FinishedRun) -> Iterator[tuple[AskedQuestion, Iterable[str], bool]]:
    """As training asks them, with the texts that come with each, and whether some text has to say the answer."""
    if (declared := table_of(run.dataset, "questions")) is None:
        return
    name, table = declared
    for row in run.rows(name, table.record):
        paragraphs = row.paragraphs if isinstance(row, Question) else ()
        yield row.asked(), (f"{each.title}. {each.text}" for each in paragraphs), isinstance(row, Question)


def _known_of_rows(run: FinishedRun) -> Iterator[tuple[str, float]]:
    """Question and share of rows that were kept though a model knows it in part."""
    dataset = load_dataset(run.dataset)
    record = dataset.all_tables[dataset.rows].record
    if not {"filters", "question_id"} <= {each.name for each in fields(record)}:
        return
    for row in run.rows(dataset.rows, record):
        yield from ((row.question_id, each.score) for each in row.filters if each.name == _KNOWN)


def _payload(row: RejectedRow) -> Mapping[str, Any]:
    try:
        payload = parse_json(row.payload)
    except ValueError:
        return {}
    return payload if isinstance(payload, dict) else {}


def _tool_texts(payload: Mapping[str, Any]) -> Iterator[str]:
    """Of a rejected episode, which may lie within its row."""
    held = payload.get("episode")
    for message in _mappings((held if isinstance(held, dict) else payload).get("messages")):
        if message.get("role") == "tool":
            yield str(message.get("content", ""))


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def find_unpaid(note: QuestionNotes, truth: GroundTruth) -> str | None:
    """Return a kept row's answer that the question's reward does not call wholly right; None where there is none. With
    R-Search's reward a judge is asked, which found such answers right.
    """
    constants = reward_preset(truth.reward_preset).constants
    if isinstance(constants, RSearchConstants):
        return None
    return next((each for each in sorted(note.answers) if measure_answer(each, truth, constants) < 1.0), None)
