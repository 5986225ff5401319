"""Read finished runs of any data set for training, by the roles that their tables declare.

RL rows are made here, of every question that was put into a run, whether or not a trajectory of it was accepted, and of
files of questions, which need no run. A row's prompt, `protocol` and `reward_preset` go together: the protocol of the
data set, or the one that is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from trailforge.pipelines import Table, dataset_names, load_dataset
from trailforge.pipelines.runs import MANIFEST, FinishedRun, read_finished
from trailforge.pipelines.sources import read_questions
from trailforge.protocols.browse import asking_of
from trailforge.rewards.episode import compares_letters, make_target, reward_preset
from trailforge.rewards.r_search import TOOLS
from trailforge.schemas import (
    AskedQuestion,
    ChatMessage,
    GroundTruth,
    InvalidInput,
    Question,
    RewardModel,
    RlRow,
    TableRole,
    is_read,
    stored_name,
    version_of,
)

TRAINED = ("sft", "questions", "corpus", "pairs")
"""The roles of the tables that training reads."""


def trained_tables(dataset: str) -> dict[str, Table]:
    """Return the tables of a data set's runs that training reads, by name."""
    return {name: table for name, table in load_dataset(dataset).all_tables.items() if table.role in TRAINED}


def table_of(dataset: str, role: TableRole) -> tuple[str, Table] | None:
    """Return the name and declaration of a data set's table with this role; None where it has none."""
    return next(((name, table) for name, table in trained_tables(dataset).items() if table.role == role), None)


def open_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Open several runs in the given order. Raises `InvalidInput` as `open_run` does, and for a run that is given
    twice.
    """
    if not folders:
        raise InvalidInput("no run given; name the folders of finished runs")
    runs = [open_run(folder) for folder in folders]
    folder_of: dict[str, Path] = {}
    for run in runs:
        if (first := folder_of.setdefault(run.manifest_sha256, run.folder)) != run.folder or runs.count(run) > 1:
            raise InvalidInput(f"the same run as {first}; give each run once", file=run.folder)
    return runs


def open_run(folder: Path) -> FinishedRun:
    """Open a finished run. Raises `InvalidInput` when there is none, it is not finished, or another version made it."""
    run = read_finished(folder)
    if run.dataset not in dataset_names():
        known = ", ".join(dataset_names())
        problem = f"a run of {run.dataset!r}; training takes runs of {known}"
        raise InvalidInput(problem, file=folder / MANIFEST, field="dataset")
    _check_versions(run)
    return run


def _check_versions(run: FinishedRun) -> None:
    """Before anything is read: the files of a table say their version too, but one file at a time."""
    stated = {version.table: version for version in run.manifest.schema_versions}
    for table, declared in trained_tables(run.dataset).items():
        found, record = stated.get(table), declared.record
        if found is not None and not is_read(record, found.record, found.version):
            raise InvalidInput(
                f"table {table} holds {found.record} {found.version}; this trailforge reads {stored_name(record)} "
                f"{version_of(record)}: make the run again with it",
                file=run.folder / MANIFEST,
                field="schema_versions",
            )


# RL rows


def rl_rows(
    run: FinishedRun,
    protocol: str | None = None,
    names_of: Callable[[AskedQuestion], Iterable[str]] = lambda question: (),
) -> Iterator[RlRow]:
    """Yield the questions of a run, in its order. `protocol` is that of questions without options, by default the data
    set's. `names_of` returns further names of a question's gold answer, as a graph has them.
    """
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
        yield _row(asked, run.dataset, run.manifest.run_id, speaks, found, tuple(names_of(asked)))


def read_asked(path: Path, column_map: Mapping[str, str] | None = None) -> list[Question]:
    """Read the questions of a file that `pipelines.sources.read_questions` can read. Raises `InvalidInput` as that
    does, for the first row that is no question, and for a file without any.
    """
    questions = []
    for row in read_questions(path, column_map=column_map):
        if not isinstance(row, Question):
            raise InvalidInput(row.problem, file=path, row=row.row, field=row.field)
        questions.append(row)
    if not questions:
        raise InvalidInput("holds no questions to train on; give a file of questions, one a row", file=path)
    return questions


def name_of(path: Path) -> str:
    """Return the name under which a file's questions are counted: the file's name without endings."""
    return path.name.partition(".")[0]


def asked_rows(path: Path, questions: Iterable[Question], protocol: str) -> Iterator[RlRow]:
    """Yield rows of a file's questions, with the titles and hops that it gives. They belong to no run whose documents
    could be searched.
    """
    for question in questions:
        yield _row(question.asked(), question.dataset or name_of(path), "", protocol)


def paid_by(row: RlRow, reward: str | None) -> RlRow:
    """Return the question with another reward, and with the gold names for that reward; with None unchanged."""
    if reward is None:
        return row
    truth = restate_truth(row.reward_model.ground_truth, row.reward_model.ground_truth.protocol, reward)
    return replace(row, reward_model=replace(row.reward_model, ground_truth=truth))


def restate_truth(truth: GroundTruth, protocol: str, reward: str | None) -> GroundTruth:
    """Return a ground truth for a protocol and a reward (by default the protocol's own), with the names that the reward
    takes. Options keep their protocol's reward where the other one compares words alone.
    """
    preset = reward_preset(reward or asking_of(protocol).reward)
    if truth.correct_options and not compares_letters(preset):
        preset = reward_preset(asking_of(protocol).reward)
    target = truth.target if truth.correct_options else make_target(truth.golds, preset)
    return replace(truth, target=target, protocol=protocol, reward_preset=preset.name)


def question_count(run: FinishedRun) -> int:
    """Return how many rows `rl_rows` yields."""
    questions = table_of(run.dataset, "questions")
    return run.row_count(questions[0]) if questions else 0


def difficulties(run: FinishedRun) -> dict[str, tuple[int, float]]:
    """Return the stage of the curriculum and the difficulty by question id, for a run that has a curriculum of its own;
    empty for others."""
    questions = table_of(run.dataset, "questions")
    if questions is None or "curriculum_stage" not in {each.name for each in fields(questions[1].record)}:
        return {}
    rows = (row.asked() for row in run.rows(questions[0], questions[1].record))
    return {asked.id: asked.curriculum for asked in rows if asked.curriculum is not None}


def stage_of(hops: int) -> int:
    """Return the stage of questions without a curriculum of their own, by hops: 1 for up to two, 2 for three, …"""
    return max(1, hops - 1)


def ground_truth(
    asked: AskedQuestion, protocol: str, titles: tuple[str, ...] = (), names: tuple[str, ...] = ()
) -> GroundTruth:
    """Return what rewards need to know of a question. `titles` are those of its supporting documents in the run's
    corpus, and `names` further names of its gold answer.
    """
    grammar = asking_of(protocol)
    golds = asked.golds if asked.options else tuple(dict.fromkeys((*asked.golds, *names)))
    return GroundTruth(
        target=golds if asked.options else make_target(golds, reward_preset(grammar.reward)),
        num_golds=len(golds),
        num_given=len(dict.fromkeys(asked.golds)),
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


def _row(
    asked: AskedQuestion,
    data_source: str,
    corpus_id: str,
    protocol: str,
    titles: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
) -> RlRow:
    hops, grammar = asked.num_hops or 0, asking_of(protocol)
    stage, difficulty = asked.curriculum or (stage_of(hops), float(hops))
    truth = ground_truth(asked, protocol, titles, names)
    known = "\0".join([protocol, asked.text, *asked.golds])
    return RlRow(
        uid=hashlib.sha256(known.encode()).hexdigest()[:16],
        data_source=data_source,
        prompt=tuple(ChatMessage(role=each.role, content=each.content) for each in grammar.opening(asked.text)),
        ability="search_qa",
        question_id=asked.id,
        question=asked.text,
        reward_model=RewardModel(style="rule", ground_truth=truth),
        corpus_id=corpus_id,
        curriculum_stage=stage,
        difficulty=difficulty,
        provenance_id=asked.source_id,
    )
