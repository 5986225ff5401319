"""Small finished runs of every data set, written as runs are: Parquet tables and a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.bundle_rows import QUESTIONS, sample_documents
from tests.support.kg_worlds import chain_to, fact, node
from tests.support.rows import AGAIN, DIED, FIRST, QUESTION, SECOND, trajectory
from tests.support.sft_rows import sft_row
from tests.support.turns import answer_turn, plan_turn
from trailforge.generators.mcts_trajectories.telling import story
from trailforge.protocols import KG_SEARCH, R_SEARCH
from trailforge.protocols.nl_dag import parse
from trailforge.protocols.turns import Search, Turn
from trailforge.schemas import (
    BundleQuestion,
    ChatMessage,
    ContrastivePair,
    FileEntry,
    Hop,
    KgQuestion,
    Manifest,
    Message,
    Provenance,
    Question,
    SchemaVersion,
    SftRow,
    SourceDocument,
    stored_name,
    to_dict,
    version_of,
    write_parquet,
)
from trailforge.training.sets.judging import segments

Tables = Mapping[str, tuple[type, Sequence[Any]]]
FIRST_NAMES = ("Ada", "Bela", "Carl", "Dora", "Emil", "Frida", "Georg", "Hanna", "Ilse", "Jonas")


def write_run(folder: Path, dataset: str, tables: Tables, *, rows_per_file: int = 4) -> Path:
    """A finished run with these tables."""
    files: list[FileEntry] = []
    for table, (record, rows) in tables.items():
        (folder / table).mkdir(parents=True)
        for at in range(0, len(rows), rows_per_file):
            path = folder / table / f"part-{at // rows_per_file:05d}.parquet"
            batch = rows[at : at + rows_per_file]
            write_parquet(path, record, batch)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            files.append(FileEntry(path=f"{table}/{path.name}", rows=len(batch), sha256=digest))
    manifest = Manifest(
        run_id=f"{dataset}-{folder.name}",
        dataset=dataset,
        schema_versions=tuple(
            SchemaVersion(table=name, record=stored_name(record), version=version_of(record))
            for name, (record, _) in tables.items()
        ),
        config_hash="c",
        inputs=(),
        stages=(),
        files=tuple(files),
        model="scripted",
        calls=0,
        prompt_tokens=0,
        completion_tokens=0,
        cut_replies=0,
        cost=0.0,
        seconds=0.0,
        calls_per_accepted_row=None,
        cost_per_accepted_row=None,
        trailforge_version="0",
    )
    (folder / "run.json").write_text("{}")
    (folder / "manifest.json").write_text(json.dumps(to_dict(manifest)))
    return folder


def question(number: int, *, hops: int = 2) -> Question:
    """Questions that differ in a name; of two hops and more."""
    name = FIRST_NAMES[number % len(FIRST_NAMES)]
    decomposition = QUESTION.decomposition + tuple(
        Hop(question=f"Where is #{n}?", answer=f"Place {n}") for n in range(2, hops)
    )
    text = f"In which city was the director of {name}'s film number {number} born?"
    return replace(QUESTION, id=f"q{number}", question=text, decomposition=decomposition)


def mcts_rows(asked: Question, *, reflective: bool = False, per_turn: bool = False) -> list[SftRow]:
    """The SFT row of one accepted trajectory; with `per_turn` those of its turns, as earlier versions wrote them."""
    steps = (FIRST, DIED, AGAIN) if reflective else (FIRST, SECOND)
    error = "reasoning" if reflective else None
    row = trajectory(*steps, question=asked, error=error, uid=f"{asked.id}-{error}", num_hops=len(asked.decomposition))
    whole = story.sft_row(row)
    return [whole, *segments(whole)] if per_turn else [whole]


def mcts_run(folder: Path, questions: Sequence[Question], rows: Sequence[SftRow]) -> Path:
    """A run of MCTS trajectories."""
    return write_run(folder, "mcts_trajectories", {"sft": (SftRow, rows), "inputs": (Question, questions)})


def bundles_run(folder: Path, questions: Sequence[BundleQuestion] = QUESTIONS) -> Path:
    """A run of document bundles, with an episode for every question."""
    tables: Tables = {
        "sft": (SftRow, [_episode(each) for each in questions]),
        "bundle_questions": (BundleQuestion, questions),
        "documents": (SourceDocument, sample_documents()),
    }
    return write_run(folder, "document_bundles", tables)


def kg_run(folder: Path, questions: Sequence[Question], *, pairs: bool = False) -> Path:
    """A run of KG trajectories, with an episode for every question, maybe a pair for each too."""
    rows = [_kg_row(each) for each in questions]
    tables: dict[str, tuple[type, Sequence[Any]]] = {"sft": (SftRow, rows), "inputs": (Question, questions)}
    if pairs:
        made = [_kg_pair(asked, row) for asked, row in zip(questions, rows, strict=True)]
        tables["pairs"] = (ContrastivePair, made)
    return write_run(folder, "kg_trajectories", tables)


def _kg_pair(asked: Question, row: SftRow) -> ContrastivePair:
    """The episode, and one that answers otherwise at once."""
    good = tuple(Message(role=each.role, content=each.content, train=each.role == "assistant") for each in row.messages)
    guess = KG_SEARCH.render_turn(Turn(thought="I guess.", answer="Graz"))
    wrong = Message(role="assistant", content=guess, train=True)
    return ContrastivePair(
        uid=f"p-{asked.id}", question_id=asked.id, question=asked.question, answer=asked.answer, good_uid=row.uid,
        bad_uid="bad", good_messages=good, bad_messages=(*good[:2], wrong), diverges_at=2, reason="wrong_answer",
        detail="'Graz'", good_reward=1.5, bad_reward=0.6, origin="policy", parts_at_fault=True,
    )  # fmt: skip


def kg_questions_run(folder: Path) -> Path:
    """A run of questions made of a graph."""
    return write_run(folder, "kg_questions", {"kg_questions": (KgQuestion, [KG_QUESTION])})


KG_QUESTION = KgQuestion(
    uid="kq1",
    question="Where was the director of the film Metropolis born?",
    answer="Vienna",
    answer_aliases=("Wien",),
    decomposition=QUESTION.decomposition,
    chain=chain_to(
        node("Vienna"),
        fact("Metropolis", "director", "Fritz Lang"),
        fact("Fritz Lang", "place of birth", "Vienna"),
        starts=(node("Metropolis"),),
        bridges=(node("Fritz Lang"),),
    ),
    path=("Metropolis | director | Fritz Lang", "Fritz Lang | place of birth | Vienna"),
    entities=("Metropolis", "Fritz Lang", "Vienna"),
    relations=("director", "place of birth"),
    shape="chain",
    hops=2,
    num_answers=1,
    fewest_left=2,
    as_of="2019-07",
    writer="templates",
    filters=(),
    preset="test",
    provenance=Provenance(run_id="r", source_id="kg:1", model="m", prompt_version="0", seed=0, call_keys=()),
)


def _episode(row: BundleQuestion) -> SftRow:
    asked = "\n".join([row.question, *(f"{chr(65 + n)}. {option}" for n, option in enumerate(row.options))])
    answer = ", ".join(row.correct_options) if row.options else row.answer
    messages = (
        *R_SEARCH.opening(asked),
        Message(role="assistant", content=plan_turn("Two searches.", parse(row.dag_text)), train=True),
        Message(role="tool", content="<result>\nNothing.\n</result>", train=False),
        Message(role="assistant", content=answer_turn(R_SEARCH, "", answer), train=True),
    )
    chat = tuple(ChatMessage(role=m.role, content=m.content) for m in messages)
    return sft_row(
        f"e-{row.uid}",
        chat,
        protocol=R_SEARCH.name,
        question=asked,
        answer=answer,
        question_id=row.uid,
        data_source="episodes",
        hops=len(row.hops),
    )


def _kg_row(asked: Question) -> SftRow:
    grammar = KG_SEARCH
    search = Turn(thought="I search.", search=Search(query="Metropolis", entities=("Metropolis",)))
    messages = (
        ChatMessage(role="system", content=grammar.system_prompt),
        ChatMessage(role="user", content=asked.question + grammar.user_suffix),
        ChatMessage(role="assistant", content=grammar.render_turn(search)),
        ChatMessage(role="tool", content="<result>\nNothing was found.\n</result>"),
        ChatMessage(role="assistant", content=grammar.render_turn(Turn(thought="I know.", answer=asked.answer))),
    )
    return sft_row(
        f"k-{asked.id}",
        messages,
        protocol=KG_SEARCH.name,
        question=asked.question,
        answer=asked.answer,
        question_id=asked.id,
        data_source="kg_trajectories",
        hops=2,
    )
