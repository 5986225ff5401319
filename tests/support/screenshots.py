"""The pictures of the page in `docs/`, in Chromium.

    python -m tests.support.screenshots TRAJECTORIES BUNDLES EPISODES GRAPH_QUESTIONS --out docs/inspector

The four folders are runs of the demo. Decisions of two made-up people are added to a copy of the first.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from tests.support.browser import Visit, browsing, inspecting
from trailforge.curation.decisions import append, now
from trailforge.pipelines.runs.table_index import TableIndex
from trailforge.schemas import BundleQuestion, ContrastivePair, Decision, RejectedRow, Trajectory, read_rows


class Shot(NamedTuple):
    """A picture."""

    name: str
    path: str
    """Of the page's address."""
    tab: str = ""
    """Chosen before the picture is taken."""
    act: Callable[[Visit], None] | None = None
    """Done before it is taken."""
    height: int = 1000
    """Of the window, in pixels."""


def main() -> None:
    """All of them, anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs=4)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    trajectories, bundles, episodes, questions = options.runs
    options.out.mkdir(parents=True, exist_ok=True)
    with _scratch() as scratch, browsing() as browser:
        decided = scratch / "demo"
        shutil.copytree(trajectories, decided)
        _decide(decided)
        for folder, shots in (
            (decided, _of_trajectories(trajectories)),
            (bundles, _of_bundles(bundles)),
            (episodes, _of_episodes(episodes)),
            (questions, (Shot("graph_questions", "kg"),)),
        ):
            with inspecting(folder, "--who", "ann") as url:
                for shot in shots:
                    _take(browser, url, shot, options.out)


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder whose path, which pictures show, is the same each time."""
    folder = Path(tempfile.gettempdir(), "datasets_out")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _of_trajectories(folder: Path) -> tuple[Shot, ...]:
    rows = _rows(folder, "mcts_trajectories", Trajectory)
    reflective = next(row for row in rows if row.reflection_error == "retrieval")
    undecided = rows[-1]
    rejected = next(row for row in _rows(folder, "rejected", RejectedRow) if row.stage == "filter")
    address = f"trajectories?row={reflective.uid}"
    return (
        Shot("overview", ""),
        Shot("trajectories", address, "Conversation"),
        Shot("mended", address, "Wrong and mended"),
        Shot("tree", address, "Search tree"),
        Shot("training_rows", "trajectories?table=sft"),
        Shot("rejected", f"decide?table=rejected&row={rejected.uid}"),
        Shot("decide", "decide"),
        Shot(
            "fix",
            f"decide?table=mcts_trajectories&row={undecided.uid}",
            act=lambda visit: _type_a_fix(visit, undecided),
        ),
        Shot("agreement", "decide", "Progress and agreement"),
    )


def _of_bundles(folder: Path) -> tuple[Shot, ...]:
    kept = _rows(folder, "bundle_questions", BundleQuestion)[0].bundle_id
    return Shot("bundles", f"bundles?row={kept}", height=1700), Shot("episodes", "bundles?table=episodes")


def _of_episodes(folder: Path) -> tuple[Shot, ...]:
    good = _rows(folder, "pairs", ContrastivePair)[0].good_uid
    return Shot("kg", "kg"), Shot("pair", f"kg?row={good}", "Contrast with a bad episode")


def _take(browser: Any, url: str, shot: Shot, out: Path) -> None:
    visit = Visit(browser, url)
    visit.page.set_viewport_size({"width": 1400, "height": shot.height})
    visit.go(shot.path)
    visit.page.wait_for_timeout(1500)
    if shot.tab:
        visit.page.get_by_role("tab", name=shot.tab).click()
    if shot.act:
        shot.act(visit)
    visit.settle()
    visit.page.wait_for_timeout(1500)
    visit.page.screenshot(path=out / f"{shot.name}.png")
    visit.page.close()
    _shrink(out / f"{shot.name}.png")


def _shrink(path: Path) -> None:
    """Leave a picture 256 colours: the 128 most frequent ones as they are, and 128 that come near all others. The file
    is less than half as large."""
    with Image.open(path) as picture:
        full = picture.convert("RGB")
    others = full.quantize(128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).getpalette()
    found, which, counts = np.unique(
        np.asarray(full, dtype=np.int64).reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    palette = np.concatenate([found[np.argsort(-counts)[:128]], np.reshape(others or [], (-1, 3))])
    nearest = ((found[:, None] - palette) ** 2).sum(axis=2).argmin(axis=1).astype(np.uint8)
    small = Image.fromarray(nearest[which].reshape(full.height, full.width), "P")
    small.putpalette(palette.ravel().tolist())
    small.save(path, optimize=True)


def _type_a_fix(visit: Visit, row: Trajectory) -> None:
    """Another wording of the question, which is not saved."""
    visit.page.get_by_text("Fix fields").click()
    visit.page.get_by_role("textbox", name="Value").fill(f"Please tell me: {row.question}")
    visit.page.locator(".st-key-decide_row").click(position={"x": 5, "y": 5})
    visit.page.get_by_text("What the fix changes").wait_for()
    visit.page.get_by_text("What the fix changes").scroll_into_view_if_needed()


def _rows(folder: Path, table: str, record: type) -> list[Any]:
    return list(read_rows(sorted((folder / table).glob("*.parquet")), record))


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
