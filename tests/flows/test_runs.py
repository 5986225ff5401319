"""What a run does to a folder: a stopped run goes on, people's files stay, strangers' folders are refused.

The runs are made as commands do, without Prefect, and stopped ones end in their flows: they are the same runs.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.kg_support import questions_file, searched_graph
from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_documents
from tests.support.files import contents
from tests.support.kg_agent import paths_store
from tests.support.model_server import running, stats
from tests.support.world import write_questions
from trailforge.flows.data_sets import flow_of
from trailforge.flows.execute import RunRequest, execute
from trailforge.pipelines.datasets import dataset_of
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.engine.shards import read_receipt, receipt_path
from trailforge.pipelines.runs.finish import CARD, MANIFEST, finished_run, read_manifest
from trailforge.pipelines.runs.intake import SETTINGS
from trailforge.pipelines.runs.stages import planned_stages
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import Manifest, OutputError

pytestmark = pytest.mark.slow

MODEL = "model: {name: scripted, max_in_flight: 8}\n"
PRESETS = {
    "mcts_trajectories": "retrieval: {kind: bm25}\noutput: {shard_size: 3}\n",
    "document_bundles": """
encoder: {name: "ENCODER#words"}
content: {min_words: 20, min_characters: 100}
bundles: {method: greedy, min_cosine: 0.25}
episodes: {plan: sampled, samples: 3}
selection: {most_alike: 0.99}
tools: {kind: bm25}
output: {documents_per_shard: 3, bundles_per_shard: 1, questions_per_shard: 2}
""",
    "kg_trajectories": "generator: {episodes: 3, top_k: 2}\nretrieval: {kind: bm25}\noutput: {shard_size: 2}\n",
    "kg_questions": """
count: 12
paths:
  {max_degree: 9, max_fan_out: 4, min_functionality: 0.0, min_triples: 1, max_guess: 1.0, max_per_found: 99,
    max_shared: 1.0, many_tails: [], closed_lists: &all [likes, helps, follows, fears], closed_heads: *all,
    one_head: *all, symmetric: [], max_attempts: 40}
output: {shard_size: 4}
""",
    "agent_trajectories": """
generator: {agent: search_r1, draws: 3, top_k: 2}
retrieval: {kind: bm25, scope: question}
output: {shard_size: 3}
""",
}
DATASETS = tuple(PRESETS)
NOTES = {
    "notes.md": "ours is better",
    "exports/set.parquet": "rows for a friend",
    "mcts_trajectories/mine.parquet": "a person's",
    "plots/mine.png": "a drawing",
    "shards/list.json": "[]",
    ".draft.tmp-mine": "a draft",
    "exports/.draft.tmp-0a1b2c3d": "another",
}
"""People's, by path in a run's folder."""


@dataclass(frozen=True)
class Lab:
    """A finished run of every data set, which no test changes, and how it is made."""

    folder: Path
    requests: dict[str, RunRequest]
    urls: dict[str, str]

    def copy(self, name: str, out: Path) -> Path:
        """The run of a data set, to do with it what one likes."""
        shutil.copytree(self.folder / name, out)
        return out

    def run(self, name: str, out: Path, **changes: Any) -> Manifest:
        """Make it again."""
        return execute(replace(self.requests[name], out=out, **changes))

    def run_flow(self, name: str, out: Path) -> None:
        """Make it again, in its flow."""
        asked = self.requests[name]
        named = {"document_bundles": {"documents": list(asked.files)}, "kg_questions": {}}
        inputs = named[name] if name in named else {"questions": asked.files[0]}
        flow_of(name)(**inputs, out=out, preset=asked.preset, model=asked.model, **asked.options)

    def calls(self, name: str) -> int:
        """That the model server has answered so far."""
        return stats(self.urls[name])["calls"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("runs")
    write_questions(folder / "questions.jsonl", 8)
    documents = sample_documents()
    write_documents(folder / "documents.jsonl", [*documents[:4], *documents[16:20]])
    questions_file(folder / "kg.jsonl", count=6, broken_row=None)
    searched_graph(folder / "searched", 6)
    paths_store(folder / "paths")
    files = {
        "mcts_trajectories": (folder / "questions.jsonl",),
        "document_bundles": (folder / "documents.jsonl",),
        "kg_trajectories": (folder / "kg.jsonl",),
        "agent_trajectories": (folder / "questions.jsonl",),
    }
    options = {"kg_trajectories": {"kg": folder / "searched"}, "kg_questions": {"kg": folder / "paths"}}
    with ExitStack() as servers:
        of_kg = servers.enter_context(running(kg=1))
        urls = {
            "mcts_trajectories": servers.enter_context(running()),
            "document_bundles": servers.enter_context(running(bundles=1)),
            "kg_trajectories": of_kg,
            "kg_questions": of_kg,
            "agent_trajectories": servers.enter_context(running(agents=1)),
        }
        requests = {
            name: RunRequest(
                dataset=name, out=folder / name, preset=str(folder / f"{name}.yaml"), model=url,
                files=files.get(name, ()), options=options.get(name, {}),
            )
            for name, url in urls.items()
        }  # fmt: skip
        for name, request in requests.items():
            (folder / f"{name}.yaml").write_text(MODEL + PRESETS[name].replace("ENCODER", request.model or ""))
            execute(request)
        yield Lab(folder, requests, urls)


def stop(out: Path) -> list[Path]:
    """Make a finished run one that was killed while the last shard of its first stage ran.

    Gives the receipts and the files of all shards that were finished.
    """
    _, settings = finished_run(out)
    stages = planned_stages(dataset_of(settings), out, settings)
    last = list(stages[0].shards or ())[-1]
    for entry in read_receipt(out, last).files:
        (out / entry.path).unlink()
    for name in (MANIFEST, CARD, f"shards/{last.name}.json"):
        (out / name).unlink()
    shards = [shard for stage in stages for shard in stage.shards or () if receipt_path(out, shard).exists()]
    files = {out / entry.path for shard in shards for entry in read_receipt(out, shard).files}
    assert len(shards) > 1 and all(path.exists() for path in files)
    return sorted({*files, *(receipt_path(out, shard) for shard in shards)})


def marks(paths: list[Path]) -> dict[Path, tuple[int, int]]:
    """Inode and time of change of each: a file that was written anew has others."""
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def put_notes(out: Path) -> None:
    """Files of people in a run's folder."""
    for name, text in NOTES.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(text)


def notes(out: Path) -> dict[str, str]:
    """Those of `NOTES` that are still as they were put."""
    return {name: (out / name).read_text() for name in NOTES if (out / name).exists()}


@pytest.mark.parametrize("name", DATASETS)
def test_a_run_that_was_stopped_runs_no_finished_shard_again(lab: Lab, tmp_path: Path, name: str) -> None:
    out = lab.copy(name, tmp_path / "out")
    put_notes(out)
    leftover = out / "inputs" / ".part-00000-0123456789ab.parquet.tmp-0a1b2c3d"
    leftover.write_text("half")
    before, calls = marks(stop(out)), lab.calls(name)
    lab.run_flow(name, out)
    assert marks(list(before)) == before, "a finished shard was made again"
    assert lab.calls(name) == calls and not leftover.exists() and notes(out) == NOTES
    whole = {path: text for path, text in contents(lab.folder / name).items() if path.endswith((".parquet", ".json"))}
    rows = {path for path in whole if path.split("/")[0] not in ("progress", MANIFEST)}
    assert {path.split("/")[0] for path in rows} >= {name, "inputs", "shards"} - {"document_bundles"}
    assert {path: contents(out)[path] for path in rows} == {path: whole[path] for path in rows}


@pytest.mark.parametrize("is_finished", [True, False])
def test_another_limit_is_refused_and_leaves_the_run_alone(lab: Lab, tmp_path: Path, is_finished: bool) -> None:
    out = lab.copy("mcts_trajectories", tmp_path / "out")
    if not is_finished:
        stop(out)
    before = contents(out)
    with pytest.raises(OutputError, match=r"other input \(limit: None -> 3\); give another --out, or --replace"):
        lab.run("mcts_trajectories", out, limit=3)
    assert contents(out) == before
    with pytest.raises(OutputError, match="redo: 0 -> 1"):
        lab.run("mcts_trajectories", out, limit=3, redo_truncated=True)
    assert contents(out) == before


def test_replace_drops_what_the_run_wrote_and_nothing_else(lab: Lab, tmp_path: Path) -> None:
    out = lab.copy("mcts_trajectories", tmp_path / "out")
    put_notes(out)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "part-00000-0123456789ab.parquet").write_text("a person's")
    (out / "links").symlink_to(tmp_path / "elsewhere")
    manifest = lab.run("mcts_trajectories", out, limit=3, replace_run=True)
    assert notes(out) == NOTES and (out / "links").is_symlink()
    assert contents(tmp_path / "elsewhere").keys() == {"part-00000-0123456789ab.parquet"}
    assert [line.inputs for line in manifest.stages if line.name == "read"] == [3]
    strays = [problem for problem in verify_run(out).problems if "mine.parquet" not in problem]
    assert strays == [], "rows of the earlier run are left"


def test_replace_goes_on_with_a_run_that_has_these_settings(lab: Lab, tmp_path: Path) -> None:
    out = lab.copy("mcts_trajectories", tmp_path / "out")
    before = marks(stop(out))
    lab.run("mcts_trajectories", out, replace_run=True)
    assert marks(list(before)) == before


def test_a_replacement_that_was_killed_goes_on(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the removal of the rows and the new `run.json`, beside files of people."""
    out = lab.copy("mcts_trajectories", tmp_path / "out")
    put_notes(out)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("trailforge.flows.execute.write_settings", killed)
        lab.run("mcts_trajectories", out, limit=3, replace_run=True)
    assert not list(out.glob("trees/*")) and (out / SETTINGS).exists()
    lab.run("mcts_trajectories", out, limit=3, replace_run=True)
    assert notes(out) == NOTES and read_manifest(out) is not None


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize(
    "path", ["deep/.draft.tmp-mine", "inputs/people.parquet", ".intake/plan.txt", "errors/mine.json"]
)
def test_a_folder_that_holds_other_things_is_refused_and_left_alone(
    lab: Lab, tmp_path: Path, name: str, path: str
) -> None:
    out = tmp_path / "out"
    (out / path).parent.mkdir(parents=True)
    (out / path).write_text("a person's")
    with pytest.raises(OutputError, match=rf"holds no run \(no run.json\) but other things, such as {path}"):
        lab.run(name, out)
    assert contents(out).keys() == {path}


def test_a_table_that_is_a_link_is_refused_and_what_it_points_to_stays(lab: Lab, tmp_path: Path) -> None:
    out = lab.copy("mcts_trajectories", tmp_path / "out")
    elsewhere = tmp_path / "elsewhere"
    (out / "inputs").rename(elsewhere)
    (out / "inputs").symlink_to(elsewhere)
    before = contents(elsewhere)
    for more in ({}, {"limit": 3, "replace_run": True}):
        with pytest.raises(OutputError, match="inputs is a link"):
            lab.run("mcts_trajectories", out, **more)
        assert contents(elsewhere) == before


def test_a_folder_with_the_name_of_a_temporary_file_is_nothing_to_stumble_over(lab: Lab, tmp_path: Path) -> None:
    out = lab.copy("mcts_trajectories", tmp_path / "out")
    stop(out)
    odd = out / ".kgs.tmp-12ab34cd"
    odd.mkdir()
    (out / "trees" / ".part-00000-0123456789ab.parquet.tmp-0a1b2c3d").mkdir()
    (odd / "triples.txt").write_text("a build's")
    lab.run("mcts_trajectories", out)
    assert (odd / "triples.txt").exists()


def test_a_ledger_alone_is_a_folder_to_begin_in(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(lab.folder / "mcts_trajectories" / "ledger", out / "ledger")
    calls = lab.calls("mcts_trajectories")
    lab.run("mcts_trajectories", out)
    assert lab.calls("mcts_trajectories") == calls


def damage(path: Path, how: str) -> None:
    """Do to a file what disks and people do."""
    if how == "missing":
        path.unlink()
        return
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content[: len(content) // 2] if how == "cut" else content)


def rows(folder: Path) -> dict[str, str]:
    """Digests of the tables, figures and lists of a run."""
    made = {path: text for path, text in contents(folder).items() if path.endswith((".parquet", ".png", ".jsonl"))}
    return {path: text for path, text in made.items() if not path.startswith("progress/")}


@pytest.mark.parametrize(
    ("name", "table", "how"),
    [
        ("mcts_trajectories", "trees", "flipped"),
        ("mcts_trajectories", "shards", "cut"),
        ("mcts_trajectories", "inputs", "flipped"),
        ("mcts_trajectories", "plots", "missing"),
        ("document_bundles", "documents", "flipped"),
        ("document_bundles", "bundles", "missing"),
        ("document_bundles", "candidates", "cut"),
        ("document_bundles", "bundle_questions", "flipped"),
        ("kg_trajectories", "kg_trajectories", "flipped"),
        ("kg_questions", "inputs", "flipped"),
        ("kg_questions", "candidates", "flipped"),
        ("kg_questions", "kg_questions", "missing"),
    ],
)
def test_a_finished_run_with_a_damaged_file_is_mended_and_says_so(
    lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, table: str, how: str
) -> None:
    out = lab.copy(name, tmp_path / "out")
    path = sorted((out / table).iterdir())[0]
    whole, calls = rows(out), lab.calls(name)
    others = marks([each for each in out.glob("*/*.parquet") if each.stem != path.stem])
    damage(path, how)
    lab.run(name, out)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if str(path) in line and "made again" in line]
    assert rows(out) == whole and verify_run(out).problems == []
    assert lab.calls(name) == calls, "an answered call was paid again"
    kept = {path: mark for path, mark in marks(list(others)).items() if mark == others[path]}
    assert kept, f"all files were made again after: {line}"


def test_a_stopped_run_makes_only_its_damaged_shard_again(
    lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = lab.copy("mcts_trajectories", tmp_path / "out")
    before = marks(stop(out))
    tree = next(path for path in before if path.parent.name == "trees")
    damage(tree, "flipped")
    lab.run("mcts_trajectories", out)
    assert f"{tree}: not as it was written (its sha256 differs); it is made again" in capfd.readouterr().err
    made = {path for path, mark in marks(list(before)).items() if mark != before[path]}
    assert {path.stem for path in made} == {tree.stem} and verify_run(out).problems == []


def test_a_finished_run_whose_manifest_is_cut_is_finished_anew(lab: Lab, tmp_path: Path) -> None:
    out = lab.copy("mcts_trajectories", tmp_path / "out")
    before = marks(list(out.glob("*/*.parquet")))
    damage(out / MANIFEST, "cut")
    lab.run("mcts_trajectories", out)
    assert verify_run(out).problems == [] and {p: m for p, m in marks(list(before)).items() if m != before[p]} == {}


def test_a_card_that_somebody_changed_stays_and_is_spoken_of(
    lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = lab.copy("mcts_trajectories", tmp_path / "out")
    (out / CARD).write_text("ours is better")
    lab.run("mcts_trajectories", out)
    assert (out / CARD).read_text() == "ours is better"
    assert "README.md: not as it was written" in capfd.readouterr().err
    (out / CARD).unlink()
    lab.run("mcts_trajectories", out)
    assert contents(out)[CARD] == contents(lab.folder / "mcts_trajectories")[CARD]


def test_a_whole_finished_run_is_read_once_and_stays_as_it_is(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    out = lab.copy("document_bundles", tmp_path / "out")
    before, read = contents(out), Counter[Path]()

    def counted(path: Path) -> str:
        read[path] += 1
        return sha256_of(path)

    monkeypatch.setattr("trailforge.pipelines.engine.files.sha256_of", counted)
    lab.run("document_bundles", out)
    assert contents(out) == before and "made again" not in capfd.readouterr().err
    assert {path for path in out.glob("*/*.parquet")} <= read.keys()
    assert {path for path, times in read.items() if times > 1 and path.parent.name != "inputs"} == set()
