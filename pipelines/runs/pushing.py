"""Push a finished run to a data set repository of the Hugging Face Hub: verified, in one commit, and in files of a
suitable size.

What goes: the files of the manifest, the card with its figures, and `manifest.json`, `run.json` and the receipts, by
which a copy can be verified. What stays: ledger, progress, curators' logs. Files of an earlier run, which the
card's patterns would take for this one's, are removed by the same commit. What is there already is not sent again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trailforge.inference.provider import find_key_in_text
from trailforge.pipelines.datasets import all_lists, all_tables
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.engine.shards import RECEIPTS, receipts_in
from trailforge.pipelines.runs.compacting import compact_run
from trailforge.pipelines.runs.finish import CARD, MANIFEST, read_manifest
from trailforge.pipelines.runs.intake import SETTINGS
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import CountMismatch, HubError, InvalidInput

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

TOKEN = "HF_TOKEN"
XET = "HF_HUB_DISABLE_XET"
"""Environment variable that says whether large files go by the Hub's own storage. Where it is not set, they do to
the public Hub alone."""
_TOKENS = "https://huggingface.co/settings/tokens"
_MANY_FILES = 200
"""Files of rows from which on a run is sent as a compact copy: readers over a network open each by itself."""
_TYPE = "dataset"
_MAIN = "main"
_SECRET_NAMES = ("_KEY", "_TOKEN", "_PASSWORD", "_SECRET")
_SHORTEST_SECRET = 8
_IN_ADDRESS = re.compile(r"://[^/\s:@\"]*:[^/\s@\"]+@")
"""A password in a URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file of the data set on this machine."""

    name: str
    """Path of the file, the same in the run's folder and in the repository."""
    path: Path
    sha256: str
    size: int
    """Size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """The result of a push."""

    url: str
    """URL of the commit, or of the data set where there was nothing to commit."""
    sent: int
    removed: int


def checked_files(folder: Path, repo: str) -> list[LocalFile]:
    """List the files of a finished run that make up the data set, after checking them against the manifest and for
    secrets.

    Raises `CountMismatch` when a file is not as the manifest says, and `InvalidInput` for a folder that holds no
    finished run, for a secret in a text, and when `repo` is no name of a repository.
    """
    _check_name(repo)
    manifest = read_manifest(folder)
    hashes = {entry.path: entry.sha256 for entry in manifest.files} if manifest else {}
    receipts = [f"{RECEIPTS}/{path.name}" for path in receipts_in(folder)]
    texts = [CARD, MANIFEST, SETTINGS, *receipts]
    _check_secrets(folder, [*(name for name in texts if (folder / name).is_file()), *(hashes.keys() & all_lists())])
    report = verify_run(folder)
    if manifest is None or not report.is_clean:
        first = report.problems[0]
        raise CountMismatch(f"{folder} is not as it should be, so nothing was sent; trailforge verify tells: {first}")
    shown = [entry.path for entry in manifest.card]  # manifests of before 1.2 do not know them
    plots = shown or [f"plots/{path.name}" for path in sorted((folder / "plots").glob("*.png"))]
    return [
        LocalFile(
            name=name,
            path=folder / name,
            sha256=hashes.get(name) or sha256_of(folder / name),
            size=(folder / name).stat().st_size,
        )
        for name in dict.fromkeys((*texts, *plots, *hashes))
    ]


def list_push(folder: Path, repo: str, *, tell: Callable[[str], None]) -> list[str]:
    """Return lines that describe what a push would send: one for each folder, one for each file outside of folders, and
    a total. `tell` receives a line where the run is sent in other files than its own. Raises what `checked_files`
    raises.
    """
    groups: dict[str, list[LocalFile]] = defaultdict(list)
    with _files_to_send(folder, repo, tell) as files:
        for file in files:
            table, slash, _ = file.name.partition("/")
            groups[table + slash].append(file)
    lines = [f"{name:<24} {len(each):>5} {sum(f.size for f in each):>14,} bytes" for name, each in groups.items()]
    return [*lines, f"{len(files)} files, {megabytes(files)}, verified; nothing was sent to {repo}"]


@contextmanager
def _files_to_send(folder: Path, repo: str, tell: Callable[[str], None]) -> Iterator[list[LocalFile]]:
    """The files of a run, or, where those with rows are many, of a compact copy, which is there until the block
    ends."""
    files = checked_files(folder, repo)  # of the run itself: a copy would have other hashes for what was changed in it
    count = sum(file.name.endswith(".parquet") for file in files)
    if count <= _MANY_FILES:
        yield files
        return
    copy = folder.absolute().parent / f".{folder.absolute().name}.pushed"
    try:
        shutil.rmtree(copy, ignore_errors=True)
        try:
            made = compact_run(folder, copy)
        except InvalidInput as error:
            tell(f"{count:,} files of rows, which go as they are: {error.problem}")
        else:
            tell(f"{folder}: {made.before:,} files, which are sent as {made.after:,} large ones (trailforge compact)")
            files = checked_files(copy, repo)
        yield files
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def push(
    folder: Path, repo: str, *, private: bool = False, revision: str | None = None, tell: Callable[[str], None]
) -> Pushed:
    """Bring a repository `OWNER/NAME` up to a finished run by one commit; repository and branch are created if missing.

    `revision` is the name of the branch; `tell` receives lines on progress. Raises what `checked_files` raises,
    `InvalidInput` without a token or when the Hub is switched off, and `HubError` when it refuses or cannot be reached.
    """
    api = _api()
    branch = revision or _MAIN
    with _files_to_send(folder, repo, tell) as files, _hub_errors(repo, branch):
        tell(f"{folder}: {len(files)} files, {megabytes(files)}, verified")
        head = _prepare_branch(api, repo, branch, private)
        there = _tree(api, repo, branch)
        changed = [file for file in files if not _is_same(file, there.get(file.name))]
        stale = _of_earlier_run(there.keys() - {file.name for file in files}, there)
        if not changed and not stale:
            return Pushed(url=f"{api.endpoint}/datasets/{repo}", sent=0, removed=0)
        tell(f"{repo}: {len(changed)} files to send ({megabytes(changed)}), {len(stale)} of an earlier run to remove")
        url = _commit(api, repo, branch, head, changed, stale, folder.name)
        _check_arrived(files, _tree(api, repo, branch), repo)
    return Pushed(url=url, sent=len(changed), removed=len(stale))


def megabytes(files: Sequence[LocalFile]) -> str:
    """Return the size of some files, in words for people."""
    return f"{sum(file.size for file in files) / 1e6:.1f} MB"


def _api() -> HfApi:
    """A client with the token of the environment. Raises `InvalidInput` without one, or with the Hub switched off."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.utils import disable_progress_bars

    if constants.is_offline_mode():
        raise InvalidInput("the Hub is switched off by it; unset it to push", field="HF_HUB_OFFLINE")
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise InvalidInput(f"not set; make a token with write access at {_TOKENS} and export it", field=TOKEN)
    if not sys.stderr.isatty():
        disable_progress_bars()
    endpoint = os.environ.get("HF_ENDPOINT") or None
    if endpoint and not _has_xet(endpoint) and XET not in os.environ:
        constants.HF_HUB_DISABLE_XET = True  # the client would wait for a storage that such a server has not
    return HfApi(endpoint=endpoint, token=token)


def _has_xet(endpoint: str) -> bool:
    """Whether a server is the public Hub, whose storage (Xet) speaks a protocol of its own."""
    host = urlsplit(endpoint).hostname or ""
    return host == "huggingface.co" or host.endswith(".huggingface.co")


def _prepare_branch(api: HfApi, repo: str, branch: str, private: bool) -> str | None:
    """Make repository and branch where they are not there; the commit that the branch is at."""
    api.create_repo(repo, repo_type=_TYPE, private=private or None, exist_ok=True)
    if private and api.dataset_info(repo).private is False:
        raise InvalidInput(f"{repo} is there already and public; make it private on its page", field="--private")
    if branch != _MAIN:
        api.create_branch(repo, repo_type=_TYPE, branch=branch, exist_ok=True)
    return api.dataset_info(repo, revision=branch).sha


def _tree(api: HfApi, repo: str, branch: str) -> dict[str, RepoFile]:
    from huggingface_hub.hf_api import RepoFile

    entries = api.list_repo_tree(repo, recursive=True, repo_type=_TYPE, revision=branch)
    return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}


def _commit(
    api: HfApi, repo: str, branch: str, head: str | None, files: Sequence[LocalFile], stale: Sequence[str], name: str
) -> str:
    """Its URL. Nobody else may have committed to the branch since `head`."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    made = api.create_commit(
        repo,
        [
            *(CommitOperationAdd(path_in_repo=file.name, path_or_fileobj=file.path) for file in files),
            *(CommitOperationDelete(path_in_repo=each) for each in stale),
        ],
        commit_message=f"{name}: {len(files)} files by trailforge push",
        repo_type=_TYPE,
        revision=branch,
        parent_commit=head,
    )
    return made.commit_url


def _is_same(file: LocalFile, remote: RepoFile | None) -> bool:
    """Whether the repository has these bytes: large files are known by their SHA-256, others by git's hash."""
    if remote is None:
        return False
    if remote.lfs is not None:
        return remote.lfs.sha256 == file.sha256
    content = file.path.read_bytes() if remote.size == file.size else b""
    return remote.blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _of_earlier_run(left: Iterable[str], there: Mapping[str, RepoFile]) -> list[str]:
    """Files that were pushed with an earlier run and would be in the way: all others are none of our business."""
    if not {MANIFEST, SETTINGS} <= there.keys():
        return []
    rows = (f"{table}/part-*.parquet" for table in all_tables())
    patterns = [f"/{each}" for each in (*rows, "plots/*.png", f"{RECEIPTS}/*.json", *all_lists())]
    return sorted(name for name in left if any(map(PurePosixPath("/", name).match, patterns)))


def _check_arrived(files: Sequence[LocalFile], there: Mapping[str, RepoFile], repo: str) -> None:
    """A repository may have rules by which it leaves files out."""
    lost = [file.name for file in files if not _is_same(file, there.get(file.name))]
    if lost:
        raise HubError(f"{repo} lacks {len(lost)} of the files, first {lost[0]}; see whether its .gitignore names them")


def _check_name(repo: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo)
        if repo.count("/") != 1:
            raise InvalidInput(f"{repo!r}: expected OWNER/NAME", field="--repo")
    except HFValidationError as error:
        raise InvalidInput(f"{error}", field="--repo") from error


def _check_secrets(folder: Path, names: Sequence[str]) -> None:
    """Raises `InvalidInput` when a text has a password in an address, or the value of a secret of the environment."""
    secrets = {
        value: name
        for name, value in os.environ.items()
        if name.upper().endswith(_SECRET_NAMES) and len(value) >= _SHORTEST_SECRET
    }
    for name in names:
        text = (folder / name).read_text(encoding="utf-8")
        found = next((secrets[value] for value in secrets if value in text), None)
        if found is None and _IN_ADDRESS.search(text):
            found = "a password in an address"
        if found is None and name not in all_lists() and (where := find_key_in_text(text)):
            found = f"the URL of a server, {where}"
        if found is not None:
            raise InvalidInput(
                f"holds a secret ({found}), so nothing was sent; take it out, then push again", file=folder / name
            )


@contextmanager
def _hub_errors(repo: str, branch: str) -> Iterator[None]:
    """What the client raises becomes `HubError`: one line with the mend."""
    from httpx2 import HTTPError
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        yield
    except (HTTPError, OfflineModeIsEnabled, OSError, RuntimeError, ValueError) as error:
        raise HubError(_describe(error, repo, branch)) from error


def _describe(error: BaseException, repo: str, branch: str) -> str:
    from httpx2 import TransportError
    from huggingface_hub.errors import HfHubHTTPError

    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    refused = next((each for each in chain if isinstance(each, HfHubHTTPError)), None)
    if refused is not None:
        status = refused.response.status_code
        problem = (
            _STATUS.get(status) or f"the Hub answered {status} ({refused.server_message or 'no reason'}); try again"
        )
        return " ".join(f"{repo}: {problem.format(repo=repo, branch=branch)}".split())
    if any(isinstance(each, TransportError) for each in chain):
        return f"the Hub cannot be reached ({error}); look to the network and HF_ENDPOINT, then push again"
    return f"{repo}: {' '.join(str(error).split())}"


_STATUS: Mapping[int, str] = {
    401: f"the Hub does not know the token in {TOKEN} (401); make one at {_TOKENS}",
    403: f"the token in {TOKEN} may not write there (403); it needs write access to {{repo}}",
    404: "there is no such data set or branch {branch} (404), or the token may not see it",
    412: "somebody else committed meanwhile (412); push again",
}
