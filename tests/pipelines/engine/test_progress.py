"""Work that is shown in parts."""

from __future__ import annotations

import pytest

from trailforge.pipelines.engine.progress import show_parts


def test_where_no_terminal_is_a_part_says_when_it_begins_and_then_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with show_parts() as report:
        for done in range(1000):
            report("read_documents", done, 1200)
        report("embed", 0, 7)
    assert capsys.readouterr().err.splitlines() == ["read documents 0/1,200", "embed 0/7"]
