"""Hold a finished run against itself: files, schemas, books, and every filter and reward recomputed from the rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from filters import first_rejection, judge_trajectory
from generators.textualize import sft_rows
from pipelines.accounting import check_balance
from pipelines.config import MctsRunConfig
from pipelines.files import sha256_of
from pipelines.finish import MANIFEST, configuration, manifest_of, read_manifest
from pipelines.intake import INPUTS, Settings, read_settings
from pipelines.mcts_trajectories import DATASET, TABLES
from rewards import mcts_reward, score_answer
from schemas import (
    CountMismatch,
    InvalidInput,
    Manifest,
    Question,
    RejectedRow,
    SearchTree,
    SftRow,
    Trajectory,
    check_row_count,
    iter_parquet,
    to_dict,
)

_MOST_SHOWN = 20
_OF_THE_PROCESS = {"seconds", "trailforge_version"}
"""What a manifest says of the process that wrote it; the rest follows from the receipts."""


@dataclass(slots=True)
class Report:
    """What a verification found."""

    files: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Nothing differs."""
        return not self.problems


def verify_run(folder: Path) -> Report:
    """Check a run; differences go into the report. Raises `InvalidInput` when the folder holds no finished run."""
    manifest, settings = read_manifest(folder), read_settings(folder)
    if manifest is None or settings is None:
        raise InvalidInput("holds no finished run (no manifest.json); run the command that made it again", file=folder)
    report = Report()
    sound = [path for path in _files(folder, manifest) if _check_file(path, folder, manifest, report)]
    _check_strays(folder, manifest, report)
    if len(sound) == len(manifest.files):
        _Rows(folder, manifest, configuration(settings), report).check()
    for problem in _manifest_problems(folder, manifest, settings):
        report.problems.append(f"{MANIFEST}: {problem}")
    return report


def _manifest_problems(folder: Path, manifest: Manifest, settings: Settings) -> Iterator[str]:
    """Books that do not balance, and whatever differs from what the receipts add up to."""
    try:
        check_balance(manifest.stages)
        expected = to_dict(manifest_of(folder, settings, TABLES, seconds=manifest.seconds))
    except (CountMismatch, InvalidInput, ValueError) as error:
        yield str(error)
        return
    for name, found in to_dict(manifest).items():
        if name not in _OF_THE_PROCESS and found != expected[name]:
            yield f"{name} is not what run.json and the receipts add up to"


def _files(folder: Path, manifest: Manifest) -> list[Path]:
    return [folder / entry.path for entry in manifest.files]


def _check_file(path: Path, folder: Path, manifest: Manifest, report: Report) -> bool:
    """Presence, hash, number of rows, schema."""
    entry = next(e for e in manifest.files if folder / e.path == path)
    report.files += 1
    report.rows += entry.rows
    if not path.is_file():
        report.problems.append(f"{entry.path}: missing")
        return False
    if sha256_of(path) != entry.sha256:
        report.problems.append(f"{entry.path}: its bytes are not those of the manifest (sha256 differs)")
        return False
    try:
        check_row_count(path, entry.rows)
        for _ in iter_parquet(path, _record(path)):
            break
    except (CountMismatch, InvalidInput) as error:
        report.problems.append(str(error))
        return False
    return True


def _check_strays(folder: Path, manifest: Manifest, report: Report) -> None:
    """Parquet files that the manifest does not know."""
    known = set(_files(folder, manifest))
    for table in (*TABLES, INPUTS):
        for path in sorted((folder / table).glob("*.parquet")):
            if path not in known:
                report.problems.append(f"{path.relative_to(folder)}: not in the manifest")


def _record(path: Path) -> type:
    return Question if path.parent.name == INPUTS else TABLES[path.parent.name]


class _Rows:
    """Recomputes what the rows say of themselves, shard by shard: memory holds one shard at a time."""

    def __init__(self, folder: Path, manifest: Manifest, config: MctsRunConfig, report: Report) -> None:
        self._folder, self._manifest, self._config, self._report = folder, manifest, config, report
        self._accepted: Counter[str] = Counter(read=0, search=0, filter=0)
        self._rejected: Counter[tuple[str, str]] = Counter()

    def check(self) -> None:
        for name in sorted({Path(e.path).name for e in self._manifest.files}):
            questions = {q.id: q for q in self._rows(INPUTS, name, Question)}
            self._accepted["read"] += len(questions)
            self._check_trajectories(name, questions)
            self._check_trees(name, questions)
            self._check_sft(name)
            for row in self._rows("rejected", name, RejectedRow):
                self._rejected[row.stage, row.reason] += 1
        self._check_books()

    def _check_trajectories(self, name: str, questions: Mapping[str, Question]) -> None:
        earlier: dict[str, list[Trajectory]] = defaultdict(list)
        for row in self._rows(DATASET, name, Trajectory):
            self._accepted["filter"] += 1
            question = questions.get(row.question_id)
            if question is None:
                self._problem(name, row.uid, f"its question {row.question_id!r} is not among the inputs")
                continue
            verdict = first_rejection(judge_trajectory(row, question, earlier[row.question_id], self._config.filters))
            if verdict is not None:
                self._problem(name, row.uid, f"filter {verdict.reason} rejects it: {verdict.detail}")
            if row.reward != score_answer(row.final_answer, question.golds):
                self._problem(name, row.uid, "its reward is not that of its final answer")
            earlier[row.question_id].append(row)

    def _check_trees(self, name: str, questions: Mapping[str, Question]) -> None:
        for tree in self._rows("trees", name, SearchTree):
            self._accepted["search"] += 1
            golds = questions[tree.question_id].golds if tree.question_id in questions else ()
            for rollout in tree.rollouts:
                if rollout.reward != mcts_reward(rollout.answer, golds):
                    self._problem(name, tree.question_id, f"reward of rollout {rollout.index} differs")
            for problem in tree_problems(tree):
                self._problem(name, tree.question_id, problem)

    def _check_sft(self, name: str) -> None:
        per_turn = self._config.output.per_turn_rows
        expected = {s.uid: s for t in self._rows(DATASET, name, Trajectory) for s in sft_rows(t, per_turn=per_turn)}
        for row in self._rows("sft", name, SftRow):
            if row != expected.pop(row.uid, None):
                self._problem(name, row.uid, "this SFT row is not what its trajectory gives")
        for uid in expected:
            self._problem(name, uid, "this SFT row of a trajectory is missing")

    def _check_books(self) -> None:
        for stage_name in self._accepted.keys() - {line.name for line in self._manifest.stages}:
            if self._accepted[stage_name]:
                self._report.problems.append(f"stage {stage_name}: {self._accepted[stage_name]} rows, not in the books")
        for line in self._manifest.stages:
            counted = self._accepted.get(line.name)
            if counted is not None and counted != line.accepted:
                self._report.problems.append(f"stage {line.name}: {line.accepted} accepted, {counted} rows found")
            for count in (*line.rejected, *line.failed):
                found = self._rejected.pop((line.name, count.reason), 0)
                if found != count.count:
                    self._report.problems.append(
                        f"stage {line.name}: {count.count} x {count.reason}, {found} rows in rejected/"
                    )
        for (stage_name, reason), found in self._rejected.items():
            self._report.problems.append(f"rejected/: {found} rows of {stage_name}/{reason} that no stage counts")

    def _rows(self, table: str, name: str, record: type) -> Iterator:
        path = self._folder / table / name
        if path.exists():
            for batch in iter_parquet(path, record):
                yield from batch

    def _problem(self, name: str, uid: str, text: str) -> None:
        if len(self._report.problems) < _MOST_SHOWN:
            self._report.problems.append(f"{name}, {uid}: {text}")


def tree_problems(tree: SearchTree) -> list[str]:
    """Visits that do not add up, values that are not the mean of their rollouts."""
    problems = []
    rewards: dict[int, list[float]] = defaultdict(list)
    for rollout in tree.rollouts:
        at: int | None = rollout.node
        while at is not None:
            rewards[at].append(rollout.reward)
            at = tree.nodes[at].parent
    for node in tree.nodes:
        below = rewards[node.id]
        mean = sum(below) / len(below) if below else 0.0
        if node.visits != len(below) or abs(node.value - mean) > 1e-9:
            problems.append(
                f"node {node.id}: {node.visits} visits of value {node.value}, its rollouts say {len(below)}, {mean}"
            )
    return problems
