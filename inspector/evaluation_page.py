"""Show an evaluation on a page: its table and plots, its episodes, two runs side by side; or a training's episodes.

`trailforge inspect` has Streamlit run this module as `evaluation_page.py FOLDER [OTHER]`, anew for each thing a
person does; runs of the other folder are there to compare with.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from trailforge.evaluation.results import Comparison, compare_episodes, draw_plots
from trailforge.inspector.charts import draw_stacked
from trailforge.inspector.evaluation_parts import (
    describe_beside,
    describe_comparison,
    describe_episode,
    describe_results,
    describe_steps,
    episode_cells,
)
from trailforge.inspector.evaluations import (
    FACETS,
    SIDES,
    VERDICTS,
    OpenEpisodes,
    OpenEvaluation,
    RunOfAgent,
    Side,
    is_training,
    open_evaluation,
    open_training,
    split_questions,
    stamp_evaluation,
    stamp_training,
)
from trailforge.inspector.views.drawing import Canvas, draw
from trailforge.inspector.views.frame import guard, leave_own_folder, open_page, page_of
from trailforge.inspector.views.picking import pick_among, to_top
from trailforge.inspector.visible_text import escape_text, visible
from trailforge.schemas import AgentEpisode

_EPISODES, _COMPARED = "episodes", "compared"
"""Names of the lists' rows in the names of widgets: episodes, and questions of two runs."""
_COLUMNS = ("question", "gold", "answer", "verdict", "agent", "back end", "seed", "searches", "tags")
_TRAINED_COLUMNS = ("question", "gold", "answer", "verdict", "step", "reward", "searches", "stop", "tags")
_COLOURS = ("#d1453b", "#e8963e", "#8d69b8", "#3fa7b5", "#84584e", "#d57dbe", "#3b75af", "#9aa0a6", "#509e3d")
_RESAMPLES = 2_000
"""Of the intervals of a comparison, for which a person waits."""


Sides = Mapping[Side, Sequence[tuple[str, AgentEpisode, AgentEpisode]]]
"""The questions that two runs share, with an episode of each run."""


@st.cache_resource(max_entries=2, show_spinner="Opening the evaluation …")
def open_cached(folder: Path, stamp: Any) -> OpenEvaluation:
    """Open the evaluation of a folder, or take it from the cache, as long as `stamp` (`stamp_evaluation`) is the
    same.
    """
    return open_evaluation(folder)


@st.cache_resource(max_entries=2, show_spinner="Opening the training …")
def open_trained(folder: Path, stamp: Any) -> OpenEpisodes:
    """Open the episodes of a training's folder, or take them from the cache, as long as `stamp` (`stamp_training`)
    is the same.
    """
    return open_training(folder)


@st.cache_resource(max_entries=4, show_spinner="Drawing …")
def draw_cached(folder: Path, stamp: Any, is_dark: bool, _opened: OpenEvaluation) -> Mapping[str, bytes]:
    """Draw an evaluation's plots (PNG by file name), or take them from the cache, as long as `stamp` is the same."""
    return draw_plots(_opened.table, is_dark=is_dark)


@st.cache_resource(max_entries=8, show_spinner="Comparing …")
def compare_cached(
    first: RunOfAgent, second: RunOfAgent, stamps: Any, _runs: Mapping[RunOfAgent, Sequence[AgentEpisode]]
) -> tuple[Comparison, Sides]:
    """Compare two runs, or take the comparison from the cache, as long as `stamps` is the same. `_runs` has the
    episodes of both.
    """
    pair = _runs[first], _runs[second]
    return compare_episodes(*pair, resamples=_RESAMPLES), split_questions(*pair)


def show_page(folder: Path, other: Path | None = None) -> None:
    """Show the whole page of an evaluation. `other` is the folder of another one to compare with."""
    opened = open_cached(folder, stamp_evaluation(folder))
    beside = None if other is None else open_cached(other, stamp_evaluation(other))
    pages = [
        page_of("results", "Results", ":material/table_chart:", partial(show_results, opened)),
        page_of("episodes", "Episodes", ":material/forum:", partial(show_episodes, opened)),
        page_of("compare", "Compare", ":material/compare:", partial(show_two, opened, beside)),
    ]
    st.navigation(pages, position="top").run()


def show_training(folder: Path) -> None:
    """Show the whole page of a training."""
    opened = open_trained(folder, stamp_training(folder))
    pages = [
        page_of("steps", "Steps", ":material/table_chart:", partial(show_steps, opened)),
        page_of("episodes", "Episodes", ":material/forum:", partial(show_episodes, opened)),
    ]
    st.navigation(pages, position="top").run()


def show_steps(opened: OpenEpisodes) -> None:
    """Show a line of figures for each step of a training."""
    st.html(f'<div class="runhead"><b>{escape_text(opened.folder.name)}</b></div>')
    draw(describe_steps(opened.episodes), _canvas(opened, "steps"))


def show_results(opened: OpenEvaluation) -> None:
    """Show the table of results, what went wrong in each run, and the plots."""
    given = opened.evaluation
    names = f"<b>{escape_text(given.questions)}</b><span>{escape_text(str(opened.folder))}</span>"
    st.html(f'<div class="runhead">{names}</div>')
    draw(describe_results(opened.table), _canvas(opened, "results"))
    if not opened.table.rows:
        st.info("No episodes yet.")
        return
    st.subheader("What went wrong", help="Episodes by tag; one may have several, and one without any is right.")
    st.plotly_chart(draw_stacked(_count_tags(opened)), config={"displayModeBar": False}, key="tags")
    st.subheader("Plots", help="Lines are 95 % intervals: the questions drawn anew.")
    is_dark = st.context.theme.type == "dark"
    for name, png in draw_cached(opened.folder, stamp_evaluation(opened.folder), is_dark, opened).items():
        st.image(png, caption=Path(name).stem.replace("_", " "))


def _count_tags(opened: OpenEvaluation) -> dict[str, tuple[str, dict[str, int]]]:
    """By tag its colour and its episodes by run."""
    counts: dict[str, dict[str, int]] = {}
    for run, numbers in opened.runs().items():
        for number in numbers:
            for tag in opened.episodes[number].failures:
                of = counts.setdefault(tag.replace("_", " "), {})
                of[_name(run)] = of.get(_name(run), 0) + 1
    return {tag: (_COLOURS[place % len(_COLOURS)], counts[tag]) for place, tag in enumerate(sorted(counts))}


def show_episodes(opened: OpenEpisodes) -> None:
    """Let a person choose an episode, and show it."""
    line = st.container(horizontal=True, vertical_alignment="bottom")
    everything = opened.episodes
    wanted = {name: _offer(name, everything, line) for name in FACETS}
    again = {"on_change": to_top, "args": (_EPISODES,)}
    words = line.text_input("Search in question and answers", value="", key="episodes.words", **again)
    numbers = opened.select(wanted, words or "")
    columns = _TRAINED_COLUMNS if everything and everything[0].training else _COLUMNS
    number = pick_among(
        _EPISODES, numbers, lambda number: episode_cells(opened.episodes[number]), columns, line, find=opened.find
    )
    if number is not None:
        draw(describe_episode(opened.whole(number)), _canvas(opened, opened.episodes[number].uid))


def _offer(name: str, episodes: Sequence[AgentEpisode], line: Any) -> Any:
    """A filter, where there is more than one value to choose from."""
    known = VERDICTS if name == "verdict" else sorted({value for each in episodes for value in FACETS[name](each)})
    if len(known) < 2 and name != "failure tag":
        return ""
    return line.selectbox(
        name, ["", *known], key=f"episodes.{name}", format_func=_or_all, on_change=to_top, args=(_EPISODES,)
    )


def _or_all(value: Any) -> str:
    return "all" if value == "" else visible(str(value).replace("_", " "))


def show_two(opened: OpenEvaluation, other: OpenEvaluation | None) -> None:
    """Let a person choose two runs, and show how they differ, and a question that both have."""
    sources = [opened, *([other] if other else [])]
    runs = {run: (source, numbers) for source in sources for run, numbers in source.runs().items()}
    if len(runs) < 2:
        st.info("There is but one run here. Compare with another folder: trailforge inspect DIR --beside DIR")
        return
    names = list(runs)
    left, right = st.columns(2)

    def name(run: RunOfAgent) -> str:
        return _name(run) + (f" · {run.model}" if len({each.model for each in names}) > 1 else "") + (
            f" · {run.folder.name}" if other else ""
        )  # fmt: skip

    again = {"format_func": lambda run: visible(name(run)), "on_change": to_top, "args": (_COMPARED,)}
    first = left.selectbox("First", names, key="compare.first", **again)
    second = right.selectbox("Second", names, index=_counterpart(names), key="compare.second", **again)
    light = {run: [source.episodes[number] for number in numbers] for run, (source, numbers) in runs.items()}
    stamps = tuple(stamp_evaluation(source.folder) for source in sources)
    comparison, sides = compare_cached(first, second, stamps, light)
    with st.expander("What they differ by", expanded=True):
        draw(describe_comparison(comparison), _canvas(opened, "comparison"))
    _show_questions(runs[first][0], runs[second][0], sides)


def _counterpart(runs: Sequence[RunOfAgent]) -> int:
    """Place of what stands beside the first run at first: its like in the other folder, else the next best."""
    first, *rest = runs
    alike = (place for place, each in enumerate(rest, start=1) if each[1:3] == first[1:3] and each[0] != first[0])
    return next(alike, 1)


def _show_questions(first: OpenEvaluation, second: OpenEvaluation, sides: Sides) -> None:
    first_known: Any = next((side for side in SIDES if sides[side]), SIDES[0])
    side: Any = st.segmented_control(
        "Questions", SIDES, default=first_known, required=True, key="compare.side", label_visibility="collapsed",
        format_func=lambda side: f"{side} ({len(sides[side]):,})", on_change=to_top, args=(_COMPARED,),
    )  # fmt: skip
    questions = sides[side or first_known]
    rows = [
        {"uid": name, "question": one.question, "gold": one.golds[0], "first": one.answer, "second": two.answer}
        for name, one, two in questions
    ]
    line = st.container(horizontal=True, vertical_alignment="bottom")
    numbers = {row["uid"]: number for number, row in enumerate(rows)}
    columns = ("question", "gold", "first", "second")
    number = pick_among(_COMPARED, range(len(rows)), rows.__getitem__, columns, line, find=numbers.get, height=200)
    if number is None:
        return
    name, one, two = questions[number]
    places = first.find(one.uid), second.find(two.uid)
    assert places[0] is not None and places[1] is not None, "both were found there"
    draw(describe_beside(first.whole(places[0]), second.whole(places[1])), _canvas(first, f"beside.{name}"))


def _name(run: RunOfAgent) -> str:
    return f"{run.agent} over {run.backend}"


def _canvas(opened: OpenEpisodes, key: str) -> Canvas:
    return Canvas(opened.run, "episodes", key)


def main(folder: Path, other: Path | None = None) -> None:
    """Run the page's script once."""
    leave_own_folder()
    if open_page(folder.name):
        guard(partial(show_training, folder) if is_training(folder) else partial(show_page, folder, other))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
