"""What holds of a finished run of every data set alike: it verifies, what is changed or gone is found, it is curated.

That a killed run of each goes on to the same bytes is held by `tests/end_to_end/test_killed.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from tests.pipelines.agents_support import finished_agents
from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.forging import flip_bytes
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import FinishedRun, forge
from tests.support.files import contents
from trailforge.curation.apply import apply_rulings
from trailforge.pipelines.datasets import dataset_names, load_dataset
from trailforge.pipelines.runs import verify
from trailforge.pipelines.runs.finish import CARD, read_manifest
from trailforge.schemas import FileEntry, PreferenceRow, RlRow, Ruling, SftRow, read_rows
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.files import open_set

Runs = Mapping[str, Path]
LOG = FileEntry(path="curation/decisions.jsonl", rows=2, sha256="0" * 64)
every_data_set = pytest.mark.parametrize("name", dataset_names())


@pytest.fixture(scope="session")
def runs(
    original_run: FinishedRun,
    original_bundles: FinishedBundles,
    original_kg: Mapping[str, FinishedKg],
    tmp_path_factory: pytest.TempPathFactory,
) -> Runs:
    """A finished run of each data set. To be read only."""
    return {
        "mcts_trajectories": original_run.folder,
        "document_bundles": original_bundles.folder,
        "kg_trajectories": original_kg["free"].folder,
        "kg_questions": original_kg["written"].folder,
        "agent_trajectories": finished_agents(tmp_path_factory),
    }


def rows_of(name: str, folder: Path) -> list[Any]:
    """The rows that a data set is named by, in the order of their files."""
    dataset = load_dataset(name)
    return list(read_rows(sorted((folder / dataset.rows).glob("*.parquet")), dataset.records[dataset.rows]))


@every_data_set
def test_a_finished_run_has_rows_and_a_card_and_verifies_elsewhere_without_a_change(
    runs: Runs, name: str, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(runs[name], tmp_path / "elsewhere"))
    manifest, report = read_manifest(run), verify.verify_run(run)
    assert report.problems == [] and report.is_clean
    assert manifest is not None and manifest.dataset == name
    assert (report.files, report.rows) == (len(manifest.files), sum(each.rows for each in manifest.files))
    assert len(rows_of(name, run)) > 1 and manifest.run_id in (run / CARD).read_text()
    assert contents(run) == contents(runs[name])


@every_data_set
def test_one_flipped_byte_of_any_table_is_found(runs: Runs, name: str, tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs[name], tmp_path / "run"))
    tables = ("inputs", *load_dataset(name).tables)
    said = flip_bytes(sorted((run / table).glob("part-*.parquet"))[0] for table in tables)
    report = verify.verify_run(run)
    assert sorted(report.problems) == said and not report.is_clean


COUNTED = "stage {stage}: {{{stage}}} accepted, {{less_{stage}}} rows found"
REJECTED = {"rejected": "rows in rejected/"}
FOLLOWING = {"sft": "this row of sft is missing", "pairs": "this row of pairs is missing"}


def counted(**stages: str) -> dict[str, str]:
    """What the books say of tables, by the stages that count their rows."""
    return {table: COUNTED.format(stage=stage) for table, stage in stages.items()}


DROPPED: dict[str, list[dict[str, str]]] = {
    "mcts_trajectories": [
        {**counted(inputs="read", mcts_trajectories="filter", trees="search"), **REJECTED, "sft": FOLLOWING["sft"]}
    ],
    "document_bundles": [
        {
            **counted(inputs="read", documents="near_duplicates", embeddings="embed", candidates="filter"),
            **counted(bundle_questions="select", episodes="episode"),
            **REJECTED,
            "bundles": "stage bundle: {bundle} accepted, ",
        },
        {"bundle_inputs": "its documents are not what questions were made of"},
        {"sft": "this SFT row of an episode is missing"},
    ],
    "kg_trajectories": [
        {"inputs": "is not among the inputs", **counted(kg_trajectories="filter"), **REJECTED, **FOLLOWING}
    ],
    "kg_questions": [
        {"inputs": "its facts are not those of path"},
        {**counted(candidates="filter", kg_questions="select"), **REJECTED},
    ],
    "agent_trajectories": [
        {**counted(inputs="read", agent_trajectories="filter"), **REJECTED},
        FOLLOWING,
    ],
}
"""By data set, the tables of which a row is dropped at a time, and what is found then."""


@pytest.mark.parametrize(("name", "dropped"), [(name, each) for name in dataset_names() for each in DROPPED[name]])
def test_rows_dropped_with_hashes_and_counts_made_to_fit_are_found(
    runs: Runs, name: str, dropped: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last row of a table's first file; the first of a table that is made of another, whose row is there."""
    monkeypatch.setattr(verify, "_MOST_SHOWN", 1000)
    run, dataset = Path(shutil.copytree(runs[name], tmp_path / "run")), load_dataset(name)
    for table in dropped:
        record = {**dataset.records, "inputs": dataset.inputs.record}[table]
        gone = 0 if table in FOLLOWING else -1
        forge(run, table, lambda rows, gone=gone: [row for row in rows if row is not rows[gone]], record=record)
    manifest = read_manifest(run)
    assert manifest is not None
    books = {line.name: line.accepted for line in manifest.stages}
    books |= {f"less_{stage}": accepted - 1 for stage, accepted in books.items()}
    said = "\n".join(verify.verify_run(run).problems)
    assert [found for each in dropped.values() if (found := each.format(**books)) not in said] == []


def test_every_table_of_every_data_set_has_a_row_dropped() -> None:
    for name in dataset_names():
        assert {table for each in DROPPED[name] for table in each} == {"inputs", *load_dataset(name).tables}


def names_in(folder: Path) -> Iterator[str]:
    """By what the rows of a training set name the rows that they are made of."""
    made = open_set(folder)
    for table, record in (("sft", SftRow), ("rl", RlRow), ("pairs", PreferenceRow)):
        for row in cast(Iterator[Any], made.rows(table, "train", record)):
            yield from (row.question_id, getattr(row, "trajectory_uid", ""), row.uid)


@every_data_set
def test_a_rejected_row_is_in_no_training_set_and_the_others_are(runs: Runs, name: str, tmp_path: Path) -> None:
    table, view = load_dataset(name).rows, ViewConfig(validation_share=0.0)
    make_training_set([runs[name]], tmp_path / "before", view)
    before = set(names_in(tmp_path / "before"))
    rows = rows_of(name, runs[name])
    refused, fine, *_ = (row.uid for row in rows if row.uid in before)
    rulings = [
        Ruling(table=table, uid=refused, action="reject", reason="dull", detail="ann: dull", who=("ann",)),
        Ruling(table=table, uid=fine, action="accept", who=("ben",)),
    ]
    apply_rulings(runs[name], tmp_path / "curated", rulings, LOG)
    assert verify.verify_run(tmp_path / "curated").problems == []
    assert rows_of(name, tmp_path / "curated") == [row for row in rows if row.uid != refused]
    make_training_set([tmp_path / "curated"], tmp_path / "after", view)
    after = set(names_in(tmp_path / "after"))
    kept = {row.uid for row in rows} & before
    assert refused not in after and kept - {refused} <= after
