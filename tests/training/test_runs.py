"""Runs that training may not read, each with the line a person gets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import finished_runs as made
from trailforge.schemas import CountMismatch, InvalidInput, RlRow, SftRow
from trailforge.schemas.versions import migration, version_of
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.files import held_out_questions, rows_of
from trailforge.training.sets.runs import open_run, open_runs

ASKED = [made.question(number) for number in range(3)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run."""
    return made.mcts_run(tmp_path / "run", ASKED, [row for asked in ASKED for row in made.mcts_rows(asked)])


def edit(run: Path, **changes: object) -> None:
    """Change the manifest."""
    path = run / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def with_version(run: Path, version: str, names: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Write the SFT shard anew as of another schema version, hash included; `names`: columns called otherwise."""
    import hashlib

    path = run / "sft" / "part-00000.parquet"
    table = pq.read_table(path)
    metadata = table.schema.metadata | {b"trailforge.version": version.encode()}
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    pq.write_table(table.replace_schema_metadata(metadata), path)
    files = json.loads((run / "manifest.json").read_text())["files"]
    for file in files:
        if file["path"].startswith("sft/"):
            file["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    edit(run, files=files)
    return path


def test_rows_come_in_order_group_by_group(run: Path) -> None:
    """The rows of the table."""
    opened = open_run(run)
    assert [row.question_id for row in opened.rows("sft", SftRow)] == ["q0", "q1", "q2"]
    assert opened.row_count("inputs") == 3 and opened.dataset == "mcts_trajectories"


@pytest.mark.parametrize("version", ["0.9", "2.0"])
def test_a_shard_of_another_version_is_named(tmp_path: Path, run: Path, version: str) -> None:
    """With its file, and nothing is written."""
    path = with_version(run, version)
    with pytest.raises(InvalidInput, match=f"SftRow of schema version {version}") as caught:
        make_training_set([run], tmp_path / "out", ViewConfig())
    assert caught.value.file == path
    assert not [each for each in tmp_path.iterdir() if "out" in each.name]


def test_a_run_of_the_version_before_gives_the_same_training_set(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table had another column's name, as its files and its manifest say."""
    make_training_set([run], tmp_path / "now", ViewConfig())
    path = with_version(run, "0.9", {"messages": "turns"})
    edit(run, schema_versions=[{"table": "sft", "record": "SftRow", "version": "0.9"}])
    monkeypatch.setattr(SftRow, "EARLIER", {"0.9": migration(renamed={"turns": "messages"})}, raising=False)
    make_training_set([run], tmp_path / "before", ViewConfig())
    assert "turns" in pq.read_schema(path).names
    rows = [rows_of(tmp_path / name, "sft", "train", SftRow) for name in ("now", "before")]
    assert rows[0] == rows[1]


def test_a_manifest_that_names_another_version_is_refused_before_anything_is_read(run: Path) -> None:
    """Table, what it holds, what is wanted."""
    versions = [{"table": "sft", "record": "SftRow", "version": "0.9"}]
    edit(run, schema_versions=versions)
    problem = f"table sft holds SftRow 0.9; this trailforge reads SftRow {version_of(SftRow)}"
    with pytest.raises(InvalidInput, match=re.escape(problem)):
        open_run(run)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schema_version": "9.0"}, "Manifest of schema version 9.0"),
        ({"dataset": "films"}, "a run of 'films'"),
        ({"calls": "many"}, "expected int"),
    ],
)
def test_a_manifest_of_another_kind_is_refused(run: Path, changes: dict[str, object], problem: str) -> None:
    """The file is named."""
    edit(run, **changes)
    with pytest.raises(InvalidInput, match=problem) as caught:
        open_run(run)
    assert caught.value.file == run / "manifest.json"


def test_an_unfinished_run_is_refused_with_the_mend(run: Path, tmp_path: Path) -> None:
    """A begun one is finished by its own command; an empty folder is none."""
    (run / "manifest.json").unlink()
    with pytest.raises(InvalidInput, match="the command that began it, given again, finishes it"):
        open_run(run)
    (run / "run.json").unlink()
    with pytest.raises(InvalidInput, match=r"no finished run.*give the folder of a run"):
        open_run(run)
    with pytest.raises(InvalidInput, match="no such folder"):
        open_run(tmp_path / "nowhere")
    (run / "manifest.json").write_text("{")
    with pytest.raises(InvalidInput, match="not valid JSON"):
        open_run(run)


def test_a_file_that_changed_or_went_is_noticed(run: Path) -> None:
    """Against the manifest's hashes."""
    path = run / "sft" / "part-00000.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(CountMismatch, match=r"not the file that manifest\.json describes"):
        list(open_run(run).rows("sft", SftRow))
    path.unlink()
    with pytest.raises(InvalidInput, match="cannot be read"):
        list(open_run(run).rows("sft", SftRow))


def test_a_run_given_twice_is_refused(run: Path) -> None:
    """By either path."""
    with pytest.raises(InvalidInput, match="the same run as"):
        open_runs([run, run])
    with pytest.raises(InvalidInput, match="no run given"):
        open_runs([])


def test_questions_of_two_runs_that_have_one_id_are_all_kept_and_told_apart(tmp_path: Path) -> None:
    """Two people's files number their questions alike."""
    mine = [replace(each, dataset="") for each in ASKED]
    others = [replace(each, question=f"And {each.question[0].lower()}{each.question[1:]}") for each in mine]
    runs = [
        made.mcts_run(tmp_path / name, asked, [row for each in asked for row in made.mcts_rows(each)])
        for name, asked in (("a", mine), ("b", others))
    ]
    make_training_set(runs, tmp_path / "set", ViewConfig(validation_share=0.99))
    found = held_out_questions(tmp_path / "set")
    texts = {row.question for row in rows_of(tmp_path / "set", "rl", "validation", RlRow)}
    assert {each.question for each in found} == texts and len(found) == len(texts)
    assert len({each.id for each in found}) == len(found) > len({each.id.split(" ")[0] for each in found})


def test_held_out_questions_are_compared_with_the_golds_of_their_source(tmp_path: Path) -> None:
    """Names by rule, and those of a graph, are for rewards."""
    asked = [replace(each, answer="French", answer_aliases=("Gallic",)) for each in ASKED[:2]]
    rows = [replace(row, answer_aliases=("Gallic", "of France")) for each in asked for row in made.mcts_rows(each)]
    said = [tuple(replace(m, content=m.content.replace("Vienna", "French")) for m in row.messages) for row in rows]
    rows = [replace(row, messages=messages) for row, messages in zip(rows, said, strict=True)]
    run = made.mcts_run(tmp_path / "run", asked, rows)
    config = ViewConfig(validation_share=0.5, unstated="mark")
    make_training_set([run], tmp_path / "set", replace(config, protocol="kg_search"))
    truths = [row.reward_model.ground_truth for row in rows_of(tmp_path / "set", "rl", "validation", RlRow)]
    assert all({"French", "Gallic", "of France", "France"} <= {*each.target} for each in truths)
    assert [each.golds for each in truths] == [("French", "Gallic", "of France")]
    assert [each.golds for each in held_out_questions(tmp_path / "set")] == [("French", "Gallic")]
