"""`trailforge push` with the real client against a Hub on loopback: what goes, what stays, and what each error says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from huggingface_hub import constants
from huggingface_hub.utils import _http
from typer.testing import CliRunner

from tests.pipelines.conftest import finished_run, original_run  # noqa: F401 - fixtures
from tests.pipelines.support import FinishedRun
from tests.support.fake_hub import TOKEN, Hub, Repo, running_hub
from trailforge.commands import operate
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.runs import pushing
from trailforge.pipelines.runs.pushing import TOKEN as VARIABLE
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import CountMismatch, HubError, InvalidInput, TrailforgeError

REPO = "ann/trails"
root = typer.Typer()
operate.register(root)


@root.command()
def other() -> None:
    """So that `operate` is one command of several."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub that knows the token of this process."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)  # as for a person: the command knows better
    monkeypatch.setenv(VARIABLE, TOKEN)
    with running_hub() as found:
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        yield found
    _http.close_session()


def run(*arguments: object) -> str:
    result = CliRunner().invoke(root, ["push", *map(str, arguments)])
    if isinstance(result.exception, TrailforgeError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def wanted(folder: Path) -> dict[str, bytes]:
    """What has to go."""
    files = [entry["path"] for entry in json.loads((folder / "manifest.json").read_text())["files"]]
    files += ["README.md", "manifest.json", "run.json"]
    files += ["plots/funnel.png", *(f"shards/{path.name}" for path in folder.glob("shards/*"))]
    return {name: (folder / name).read_bytes() for name in files}


def there(repo: Repo, branch: str = "main") -> dict[str, bytes]:
    return {name: content for name, content in repo.branches[branch].items() if name != ".gitattributes"}


def test_a_run_goes_in_one_commit_that_verifies_and_a_second_push_sends_nothing(
    finished_run: FinishedRun,  # noqa: F811
    hub: Hub,
    tmp_path: Path,
) -> None:
    folder = finished_run.folder
    SqliteLedger(folder / "ledger" / "calls.sqlite").entries()
    (folder / "curation").mkdir()
    (folder / "plots" / "mine.png").write_bytes(b"a drawing of my own")
    told = run(folder, "--repo", REPO, "--private")
    repo, files = hub.repos[REPO], wanted(folder)
    assert there(repo) == files and "plots/funnel.png" in files and len(files) > 10
    assert repo.private and len(repo.commits) == 1 and repo.commits[0]["lines"] == len(files)
    assert f"{len(files)} files sent, 0 removed: {hub.url}/datasets/{REPO}/commit/" in told and "verified" in told
    assert set(hub.uploads) == {sha256_of(folder / name) for name in files if name.endswith((".parquet", ".png"))}
    hub.requests.clear()
    sent = len(hub.uploads)
    assert f"{REPO} has all of it already: nothing was sent" in run(folder, "--repo", REPO)
    assert (len(repo.commits), len(hub.uploads)) == (1, sent)
    assert not [each for each in hub.requests if "commit" in each or "preupload" in each]
    for name, content in there(repo).items():
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(content)
    assert verify_run(tmp_path / "copy").problems == []


def test_a_run_of_many_files_goes_in_few_large_ones_and_nothing_is_left_beside_it(
    finished_run: FinishedRun,  # noqa: F811
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = finished_run.folder
    own = sorted(path.name for path in folder.glob("*/*.parquet"))
    monkeypatch.setattr(pushing, "_MANY_FILES", len(own) - 1)
    beside = sorted(folder.parent.iterdir())
    listed, told = run(folder, "--repo", REPO, "--dry-run"), run(folder, "--repo", REPO)
    assert "which are sent as" in listed and "which are sent as" in told
    sent = there(hub.repos[REPO])
    assert f"{len(sent)} files, " in listed and sum(name.endswith(".parquet") for name in sent) < len(own)
    for name, content in sent.items():
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(content)
    assert verify_run(tmp_path / "copy").problems == []
    assert "nothing was sent" in run(folder, "--repo", REPO) and {*folder.parent.iterdir()} == {
        *beside,
        tmp_path / "copy",
    }


def test_a_run_of_many_files_that_is_no_more_what_it_was_is_not_made_compact(
    finished_run: FinishedRun,  # noqa: F811
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pushing, "_MANY_FILES", 0)
    next(finished_run.folder.glob("sft/*.parquet")).unlink()
    with pytest.raises(CountMismatch, match="nothing was sent"):
        run(finished_run.folder, "--repo", REPO)
    assert REPO not in hub.repos


def test_what_people_put_beside_receipts_is_not_sent(finished_run: FinishedRun, hub: Hub) -> None:  # noqa: F811
    (finished_run.folder / "shards/list.json").write_text("[]")
    run(finished_run.folder, "--repo", REPO)
    sent = there(hub.repos[REPO])
    assert "shards/list.json" not in sent and any(name.startswith("shards/part-") for name in sent)


def test_only_what_changed_goes_and_files_of_an_earlier_run_are_removed(finished_run: FinishedRun, hub: Hub) -> None:  # noqa: F811
    run(finished_run.folder, "--repo", REPO)
    repo, sent = hub.repos[REPO], len(hub.uploads)
    files = repo.branches["main"]
    ours = ("trees/part-00009-old.parquet", "plots/old.png", "questions.jsonl", "shards/old.json")
    theirs = ("LICENSE", "data/part-0.parquet", "trees/notes.md", "figures/a.png")
    files |= dict.fromkeys([*ours, *theirs], b"old")
    files["run.json"] = b"{}"
    told = run(finished_run.folder, "--repo", REPO)
    assert "1 files sent, 4 removed" in told and len(hub.uploads) == sent and len(repo.commits) == 2
    assert set(there(repo)) - set(wanted(finished_run.folder)) == set(theirs)


def test_of_a_repository_that_held_no_run_nothing_is_removed(finished_run: FinishedRun, hub: Hub) -> None:  # noqa: F811
    hub.repos[REPO] = Repo(branches={"main": {"sft/part-0.parquet": b"theirs"}})
    assert ", 0 removed" in run(finished_run.folder, "--repo", REPO)
    assert there(hub.repos[REPO])["sft/part-0.parquet"] == b"theirs"


def test_a_branch_is_made_and_the_other_stays_as_it_is(finished_run: FinishedRun, hub: Hub) -> None:  # noqa: F811
    run(finished_run.folder, "--repo", REPO, "--revision", "v2/curated")
    repo = hub.repos[REPO]
    assert there(repo, "v2/curated") == wanted(finished_run.folder) and there(repo) == {}
    assert "nothing was sent" in run(finished_run.folder, "--repo", REPO, "--revision", "v2/curated")


def test_a_dry_run_lists_what_would_go_without_token_and_network(
    finished_run: FinishedRun,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    told = run(finished_run.folder, "--repo", REPO, "--dry-run")
    for name in (
        "README.md",
        "manifest.json",
        "run.json",
        "mcts_trajectories/",
        "sft/",
        "trees/",
        "rejected/",
        "plots/",
    ):
        assert f"\n{name} " in f"\n{told}"
    assert "ledger" not in told and f"{len(wanted(finished_run.folder))} files" in told and "nothing was sent" in told


def test_without_token_or_with_the_hub_switched_off_nothing_is_asked(
    finished_run: FinishedRun,  # noqa: F811
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InvalidInput, match=r"HF_HUB_OFFLINE.*unset it"):
        run(finished_run.folder, "--repo", REPO)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv(VARIABLE, " ")
    with pytest.raises(InvalidInput, match=r"HF_TOKEN.*not set; make a token with write access at https://"):
        run(finished_run.folder, "--repo", REPO)
    assert not hub.requests


@pytest.mark.parametrize("repo", ["trails", "a/b/c", "a b/c", "ann/--x", ""])
def test_a_name_that_is_none_is_refused(finished_run: FinishedRun, hub: Hub, repo: str) -> None:  # noqa: F811
    with pytest.raises(InvalidInput, match="--repo"):
        run(finished_run.folder, "--repo", repo)
    assert not hub.requests


@pytest.mark.parametrize(
    ("fail", "problem"),
    [
        ({"repos/create": 401}, r"does not know the token in HF_TOKEN \(401\); make one at"),
        ({"repos/create": 403}, r"ann/trails: the token in HF_TOKEN may not write there \(403\)"),
        ({"/tree/": 404}, r"no such data set or branch main \(404\)"),
        ({"/commit/": 403}, r"may not write there \(403\)"),
        ({"/commit/": 412}, "somebody else committed meanwhile"),
        ({"/large/": 403}, r"may not write there \(403\)"),
        ({"/preupload/": 400}, r"the Hub answered 400 \(made up\); try again"),
    ],
)
def test_what_the_hub_refuses_is_one_line_and_no_commit(
    finished_run: FinishedRun,  # noqa: F811
    hub: Hub,
    fail: dict[str, int],
    problem: str,
) -> None:
    hub.fail = fail
    with pytest.raises(HubError, match=problem) as refused:
        run(finished_run.folder, "--repo", REPO)
    assert "\n" not in str(refused.value) and TOKEN not in str(refused.value) and refused.value.exit_code == 13
    assert not any(repo.commits for repo in hub.repos.values())


def test_after_a_refused_commit_nothing_large_is_sent_twice(finished_run: FinishedRun, hub: Hub) -> None:  # noqa: F811
    hub.fail = {"/commit/": 412}
    with pytest.raises(HubError):
        run(finished_run.folder, "--repo", REPO)
    hub.fail, sent = {}, len(hub.uploads)
    run(finished_run.folder, "--repo", REPO)
    assert len(hub.uploads) == sent > 0 and there(hub.repos[REPO]) == wanted(finished_run.folder)


def test_no_network_is_one_line(
    finished_run: FinishedRun,  # noqa: F811
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match=r"the Hub cannot be reached .* look to the network and HF_ENDPOINT"):
        run(finished_run.folder, "--repo", REPO)


def test_a_damaged_run_and_an_unfinished_one_do_not_go(finished_run: FinishedRun, hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    next((finished_run.folder / "sft").glob("*.parquet")).write_bytes(b"PAR1")
    with pytest.raises(CountMismatch, match="nothing was sent; trailforge verify tells: sft/part"):
        run(finished_run.folder, "--repo", REPO)
    with pytest.raises(InvalidInput, match="holds no finished run"):
        run(tmp_path, "--repo", REPO)
    assert not hub.requests


def test_a_private_push_to_a_public_data_set_is_refused(finished_run: FinishedRun, hub: Hub) -> None:  # noqa: F811
    hub.repos[REPO] = Repo()
    with pytest.raises(InvalidInput, match="is there already and public"):
        run(finished_run.folder, "--repo", REPO, "--private")
    assert there(hub.repos[REPO]) == {}


def test_files_that_the_repository_leaves_out_are_missed(finished_run: FinishedRun, hub: Hub) -> None:  # noqa: F811
    hub.ignored = "sft/"
    with pytest.raises(HubError, match=r"lacks . of the files, first sft/part-.*gitignore"):
        run(finished_run.folder, "--repo", REPO)


def test_secrets_do_not_go(finished_run: FinishedRun, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    card = finished_run.folder / "README.md"
    text = card.read_text()
    card.write_text(f"{text}\nhttp://ann:hunter22@host/v1\n")
    with pytest.raises(InvalidInput, match=r"README\.md: holds a secret \(a password in an address\)"):
        run(finished_run.folder, "--repo", REPO)
    card.write_text(f"{text}\nhttp://host/v1?api_key=hunter22\n")
    with pytest.raises(InvalidInput, match=r"the URL of a server, in the parameter apikey\)"):
        run(finished_run.folder, "--repo", REPO)
    card.write_text(f"{text}\nsk-made-up-key\n")
    monkeypatch.setenv("SOME_API_KEY", "sk-made-up-key")
    with pytest.raises(InvalidInput, match=r"holds a secret \(SOME_API_KEY\)") as refused:
        run(finished_run.folder, "--repo", REPO)
    assert "sk-made-up" not in str(refused.value) and not hub.requests
