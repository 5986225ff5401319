"""The pictures of the page in `docs/`, in Chromium.

    python -m tests.support.screenshots TRAJECTORIES BUNDLES EPISODES --out docs/inspector

The three folders are runs of the demo. Decisions of two made-up people are added to a copy of the first.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from inspector.decisions import append, now
from inspector.table_index import TableIndex
from schemas import Decision, Trajectory, read_rows
from tests.support.browser import Visit, browsing, inspecting


def main() -> None:
    """All of them, anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    trajectories, bundles, episodes = options.runs
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, browsing() as browser:
        decided = Path(scratch) / "demo"
        shutil.copytree(trajectories, decided)
        _decide(decided)
        reflective = next(row for row in _trajectories(trajectories) if row.reflection_error == "retrieval")
        address = f"trajectories?row={reflective.uid}"
        for folder, name, path, tab in (
            (decided, "overview", "", None),
            (decided, "trajectories", address, None),
            (decided, "mended", address, "Wrong and mended"),
            (decided, "tree", address, "Search tree"),
            (decided, "decide", "decide", None),
            (decided, "agreement", "decide", "Progress and agreement"),
            (bundles, "bundles", "bundles", None),
            (episodes, "kg", "kg", None),
        ):
            _take(browser, folder, options.out / f"{name}.png", path, tab)


def _take(browser: Any, folder: Path, out: Path, path: str, tab: str | None) -> None:
    with inspecting(folder, "--who", "ann") as url:
        visit = Visit(browser, url)
        visit.go(path)
        visit.page.wait_for_timeout(1500)
        if tab:
            visit.page.get_by_role("tab", name=tab).click()
            visit.settle()
            visit.page.wait_for_timeout(1500)
        visit.page.screenshot(path=out)
        visit.page.close()


def _trajectories(folder: Path) -> list[Trajectory]:
    return list(read_rows(sorted((folder / "mcts_trajectories").glob("*.parquet")), Trajectory))


def _decide(folder: Path) -> None:
    """Two people on the first rows, who differ on one."""
    index = TableIndex(folder, "mcts_trajectories")
    run_id = index.row(0)["provenance"]["run_id"]
    for who, choices in (("ann", "aaraaraa"), ("ben", "aaraaaaa")):
        for number, choice in enumerate(choices):
            word = {"action": "accept"} if choice == "a" else {"action": "reject", "reason": "badly written"}
            uid = index.row(number)["uid"]
            append(
                folder,
                [Decision(run_id=run_id, table="mcts_trajectories", uid=uid, who=who, when=now(), **word)],  # type: ignore[arg-type]
            )


if __name__ == "__main__":
    main()
