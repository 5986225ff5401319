"""How far it is from the command to the search: what a reader has to go through to see what happens to a question."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.support.model_server import running
from tests.support.world import write_questions
from trailforge import cli
from trailforge.mcts import search

ROOT = Path(__file__).parents[2]
MOST = 9
"""Functions of ours between the two; there were 16 with both before flows were one list."""
PRESET = "model: {name: scripted}\nretrieval: {kind: bm25}\nschedule: {tail_questions: 0}\n"


class Trace:
    """Who called the search of a question, through threads and tasks, by the product's functions."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self._started_by: dict[CodeType, list[str]] = {}
        """What had led to a coroutine when somebody handed it to a loop."""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """A profile function."""
        if event != "call" or self.path:
            return
        if frame.f_code.co_name in ("create_task", "run_coroutine_threadsafe"):
            coroutine = frame.f_locals["coro"]
            if hasattr(coroutine, "cr_code") and (path := self._path_to(frame)):
                self._started_by.setdefault(coroutine.cr_code, path)
        elif frame.f_code is search.search.__code__:
            self.path = self._path_to(frame)

    def _path_to(self, frame: FrameType | None) -> list[str]:
        """Names of the product's functions from the command to a frame."""
        names: list[str] = []
        root: CodeType | None = None
        while frame is not None:
            if _is_ours(frame.f_code):
                names.insert(0, frame.f_code.co_qualname)
                root = frame.f_code
            frame = frame.f_back
        if root in self._started_by:
            return [*self._started_by[root], *names]
        main = threading.main_thread().ident
        if threading.get_ident() == main or not names:
            return names
        return [*_names(sys._current_frames().get(main or 0)), *names]  # a worker's thread: main waits for it


def _names(frame: FrameType | None) -> list[str]:
    names: list[str] = []
    while frame is not None:
        if _is_ours(frame.f_code):
            names.insert(0, frame.f_code.co_qualname)
        frame = frame.f_back
    return names


def _is_ours(code: CodeType) -> bool:
    """A function of the product, and none that Python makes of an expression."""
    path = Path(code.co_filename)
    is_product = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] not in ("tests", ".venv")
    return is_product and not code.co_name.startswith("<")


@pytest.mark.slow
def test_a_question_is_searched_nine_functions_from_the_command(tmp_path: Path) -> None:
    write_questions(tmp_path / "questions.jsonl", 1)
    (tmp_path / "preset.yaml").write_text(PRESET)
    trace = Trace()
    with running() as url:
        arguments = ["mcts-trajectories", "--questions", tmp_path / "questions.jsonl", "--out", tmp_path / "out"]
        arguments += ["--preset", tmp_path / "preset.yaml", "--model", url]
        threading.setprofile(trace)
        sys.setprofile(trace)
        try:
            cli.app(args=list(map(str, arguments)), standalone_mode=False)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # pyright: ignore[reportArgumentType]
    assert trace.path[0].endswith("command") and trace.path[-1] == "search"
    between = trace.path[1:-1]
    assert len(between) <= MOST, between
    assert "execute" in between and "generate" in between, "the way was not followed through threads and tasks"
