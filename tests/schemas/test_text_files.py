"""Text files of others: whole lines, and a bound on what one takes."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.schemas import InvalidInput, files
from trailforge.schemas.files import is_too_long, json_lines, limited_lines, read_limited


@given(st.lists(st.sampled_from([b"", b"a", b"abcd", b"abcde", b"abcdefghijkl"]), max_size=8), st.booleans())
def test_each_line_comes_once_and_a_long_one_as_its_beginning(lines: list[bytes], is_ended: bool) -> None:
    content = b"\n".join(lines) + (b"\n" if is_ended else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "LONGEST_ROW", 5)
        found = list(limited_lines(io.BufferedReader(io.BytesIO(content))))  # type: ignore[arg-type]
        assert [line[:6] for line in content.splitlines(keepends=True)] == found
        assert [is_too_long(line) for line in found] == [len(line) > 5 for line in content.splitlines(keepends=True)]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'1\n\n"%s"\n' % (b"a" * 2000), "row 3: longer than"),
        (b"1\n[" * 1, "row 2: not JSON"),
        (b"1\n" + b"[" * 150 + b"]" * 150, "row 2: not JSON (it is nested more than 100 levels deep)"),
        (b"1\n\xff", "row 2: not UTF-8 text"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: type[bytes], content: bytes, problem: str
) -> None:
    monkeypatch.setattr(files, "LONGEST_ROW", 1000)
    (tmp_path / "a").write_bytes(pack(content))
    rows = json_lines(tmp_path / "a")
    assert next(rows) == (1, 1)
    with pytest.raises(InvalidInput) as raised:
        next(rows)
    assert f"{tmp_path / 'a'}, {problem}" in str(raised.value)


def test_a_file_that_holds_one_value_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_LONGEST_VALUE", 10)
    assert read_limited(io.BytesIO(b"a" * 10), "f") == b"a" * 10
    with pytest.raises(InvalidInput, match="f: more than"):
        read_limited(io.BytesIO(b"a" * 11), "f")
