"""A preview shows rows and leaves the replies alone: those that were paid for, whatever became of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.model_server import running, stats
from tests.support.world import write_questions
from trailforge.flows.execute import RunRequest, execute
from trailforge.flows.preview import show_preview
from trailforge.schemas import InvalidInput, Manifest

PRESET = "model: {name: scripted}\nretrieval: {kind: bm25}\noutput: {shard_size: 2}\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as url:
        yield url


@pytest.fixture
def request_of_run(tmp_path: Path, url: str) -> RunRequest:
    write_questions(tmp_path / "questions.jsonl", 4)
    (tmp_path / "preset.yaml").write_text(PRESET)
    return RunRequest(
        dataset="mcts_trajectories",
        out=tmp_path / "out",
        preset=str(tmp_path / "preset.yaml"),
        files=(tmp_path / "questions.jsonl",),
        model=url,
        limit=2,
    )


def left_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_rows_are_shown_and_the_run_pays_for_no_reply_again(request_of_run: RunRequest, url: str) -> None:
    seen: list[int] = []

    def show(manifest: Manifest, folder: Path) -> None:
        seen.append(len(list((folder / "mcts_trajectories").glob("*.parquet"))))
        assert manifest.card == () and not (folder / "README.md").exists()  # nobody reads it: it is not made

    show_preview(request_of_run, execute, show)
    assert seen == [1] and left_in(request_of_run.out) == ["ledger", "ledger/calls.sqlite"]
    before = stats(url)
    made = execute(request_of_run)
    assert made.calls > 0 and [each.path for each in made.card if each.path.endswith(".md")] == ["README.md"]
    assert stats(url)["calls"] == before["calls"] > 0


@pytest.mark.parametrize("elsewhere", [{"cluster": "tls://127.0.0.1:1"}, {"runner": "PortableRunner"}])
def test_a_preview_is_made_here_whatever_the_run_works_on(
    request_of_run: RunRequest, elsewhere: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Workers on other machines do not see its temporary folder."""
    options = ("job_endpoint=127.0.0.1:1",) if "runner" in elsewhere else ()
    kept: list[int] = []
    request = replace(request_of_run, **elsewhere, runner_options=options)
    show_preview(request, execute, lambda manifest, _: kept.append(manifest.calls))
    assert kept and "a preview is made in this process" in capsys.readouterr().err


def test_a_preview_of_no_cluster_is_refused_as_the_run_is(request_of_run: RunRequest) -> None:
    with pytest.raises(InvalidInput, match="--cluster"):
        show_preview(replace(request_of_run, cluster="tcp://head:8786"), execute, lambda *_: None)


def test_a_preview_that_fails_keeps_what_was_paid(request_of_run: RunRequest) -> None:
    def fail(manifest: Manifest, folder: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        show_preview(request_of_run, execute, fail)
    assert left_in(request_of_run.out) == ["ledger", "ledger/calls.sqlite"]


def test_what_is_wrong_leaves_nothing(request_of_run: RunRequest) -> None:
    request_of_run.files[0].unlink()
    with pytest.raises(InvalidInput, match="no such file"):
        show_preview(request_of_run, execute, lambda manifest, folder: None)
    assert not request_of_run.out.exists()
