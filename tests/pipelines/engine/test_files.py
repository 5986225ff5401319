"""Files are whole or not there; a run's folder has one writer."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trailforge.pipelines.engine.files import (
    exclusive,
    output_errors,
    remove_file,
    remove_temporary_files,
    sha256_of,
    write_atomically,
    write_text,
    writing_by_leave,
)
from trailforge.schemas import OutputError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fails_halfway(temporary: Path) -> None:
    temporary.write_text("half")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_write_makes_its_folders_and_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "file.txt"
    write_text(path, "whole ü")
    assert path.read_bytes() == "whole ü".encode()
    assert names(path.parent) == ["file.txt"]


def test_a_failing_write_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")
    with pytest.raises(OutputError, match=r"cannot write .*file\.txt: the disk is full; free some space"):
        write_atomically(path, fails_halfway)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_any_exception_of_the_writer_passes_through_and_leaves_nothing(tmp_path: Path) -> None:
    def breaks(temporary: Path) -> None:
        temporary.write_text("half")
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        write_atomically(tmp_path / "file.txt", breaks)
    assert names(tmp_path) == []


def test_the_file_has_its_name_only_when_it_is_written_and_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.txt"
    synced: list[tuple[bool, int]] = []
    real = os.fsync

    def noting(descriptor: int) -> None:
        synced.append((path.exists(), os.fstat(descriptor).st_size if not path.exists() else -1))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    write_text(path, "whole")
    assert synced == [(False, 5), (True, -1)]


def test_a_write_killed_halfway_leaves_the_old_file_and_one_that_is_removed_later(tmp_path: Path) -> None:
    path = tmp_path / "rows" / "file.txt"
    write_text(path, "old")
    script = (
        "import os, sys, pathlib; from trailforge.pipelines.engine.files import write_atomically\n"
        "write_atomically(pathlib.Path(sys.argv[1]), lambda t: (t.write_text('half'), os.kill(os.getpid(), 9)))"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(path)], cwd=Path(__file__).parents[3])
    assert killed.returncode == -9
    assert path.read_text() == "old" and len(names(path.parent)) == 2
    remove_temporary_files(path.parent, lambda name: name == "file.txt")
    assert names(path.parent) == ["file.txt"] and path.read_text() == "old"


def test_only_temporary_files_of_our_names_are_removed(tmp_path: Path) -> None:
    people = (
        ".hidden",
        "a.tmp-1",
        ".rows.tmp-mine",
        ".rows.tmp-0a1b2c3d4",
        ".notes.tmp-0a1b2c3d",
        "in/.rows.tmp-0a1b2c3d",
    )
    for name in (*people, ".rows.tmp-0a1b2c3d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".rows.tmp-00000000").mkdir()
    (tmp_path / ".rows.tmp-11111111").symlink_to(tmp_path / ".hidden")
    remove_temporary_files(tmp_path, lambda name: name == "rows")
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert left == {*people, "in", ".rows.tmp-00000000", ".rows.tmp-11111111"}


def test_a_second_holder_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    with exclusive(folder):
        with pytest.raises(OutputError) as refused, exclusive(folder):
            pytest.fail("two holders")
        assert str(folder) in str(refused.value)
        assert "another" in str(refused.value) and "\n" not in str(refused.value)
    with exclusive(folder):
        pass


def test_a_killed_holder_lets_go_of_the_folder(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib; from trailforge.pipelines.engine.files import exclusive\n"
        "with exclusive(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(OutputError), exclusive(tmp_path):
            pytest.fail("two holders")
    finally:
        holder.kill()
        holder.communicate()
    with exclusive(tmp_path):
        pass


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(OutputError, match="run: a file of that name is in the way"), exclusive(tmp_path / "run"):
        pytest.fail("held a file")
    with pytest.raises(OutputError, match="part of the path is a file"), exclusive(tmp_path / "run" / "below"):
        pytest.fail("held a file")


@pytest.mark.parametrize(
    ("number", "mend"),
    [
        (errno.ENOSPC, "free some space and run the same command again"),
        (errno.EDQUOT, "free some space and run the same command again"),
        (errno.EROFS, "read-only; give another --out"),
        (errno.EACCES, "no permission to write there; give another --out"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_an_error_of_the_system_becomes_one_line_with_the_mend(number: int, mend: str) -> None:
    with pytest.raises(OutputError) as raised, output_errors(Path("out/run")):
        raise OSError(number, os.strerror(number))
    assert str(raised.value).startswith("cannot write out/run: ") and str(raised.value).endswith(mend)


def test_sha256_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(b"x" * 3_000_000).hexdigest()


def test_a_file_that_holds_the_same_bytes_stays_the_one_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "whole")
    before = path.stat()
    write_text(path, "whole")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    write_text(path, "other")
    assert path.read_text() == "other" and path.stat().st_ino != before.st_ino
    assert names(tmp_path) == ["file.txt"]


def test_without_leave_nothing_is_written_and_nothing_goes(tmp_path: Path) -> None:
    class Lost(Exception):
        pass

    def refuse() -> None:
        raise Lost

    write_text(tmp_path / "file.txt", "of another")
    with writing_by_leave(refuse):
        for work in (lambda: write_text(tmp_path / "file.txt", "mine"), lambda: remove_file(tmp_path / "file.txt")):
            with pytest.raises(Lost):
                work()
    assert names(tmp_path) == ["file.txt"] and (tmp_path / "file.txt").read_text() == "of another"
    with writing_by_leave(lambda: None):
        write_text(tmp_path / "file.txt", "mine")
        remove_file(tmp_path / "gone.txt")
    assert (tmp_path / "file.txt").read_text() == "mine"
