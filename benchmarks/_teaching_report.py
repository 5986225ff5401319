"""Report what each arm of the benchmark `teaching` achieved: tables and a plot, made from the stored episodes alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from _teaching_world import CLEAN, LATER, MISLED

from trailforge.evaluation.results.compare import bootstrap_mean, compare_episodes
from trailforge.evaluation.results.metrics import MEASURES, Measure
from trailforge.pipelines.cards.plots import GREY, figure_of, png_of, write_figure
from trailforge.schemas import read_rows
from trailforge.schemas.agent_episode import AgentEpisode

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "teaching"
FIGURES = DOCS / "figures.json"
PAGE = ROOT / "docs" / "teaching.md"
ARMS = {
    "A": "correct rows",
    "B": "correct and reflective rows",
    "C": "as B, mistaken claims left out of the loss",
    "D": "as B, observations dealt out anew",
    "E": "as B, without misreadings and wrong plans",
    "F": "as B, a fifth of the questions answered wrongly, without loss on that",
    "H": "as B, of questions in a band of difficulty alone",
    "I": "as B, of as many questions as H by lot",
}
"""G is what GRPO makes of an arm."""
PAIRS = (
    ("A", "B"), ("B", "C"), ("B", "D"), ("A", "C"), ("A", "E"), ("B", "E"), ("B", "F"), ("I", "H"), ("B", "H"),
)  # fmt: skip
_COLOURS = dict(zip(ARMS, (GREY, "C0", "C1", "C3", "C2", "C4", "C5", "C6"), strict=True))
_MARK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def episodes_file(world: str, arm: str) -> Path:
    """Return the file in which the episodes of an arm in a world are stored."""
    return DOCS / f"{world}-{arm}.parquet"


@cache
def read_figures() -> dict[str, Any]:
    """Read the stored figures: for each world what was trained and which questions mislead, and the rewards of GRPO."""
    return json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}


@cache
def _episodes(world: str, arm: str) -> tuple[AgentEpisode, ...]:
    return tuple(read_rows([episodes_file(world, arm)], AgentEpisode))


def _of_kind(world: str, arm: str, kind: str) -> list[AgentEpisode]:
    """Those on questions of a kind; all kinds where it is empty."""
    wanted = set(read_figures()[world]["questions"].get(kind, ()))
    return [each for each in _episodes(world, arm) if not kind or each.question_id in wanted]


def _met_wrong(episode: AgentEpisode) -> bool:
    """Was a look-alike first in its own first search, in whatever words that was made?"""
    first = episode.searches[0].titles[:1] if episode.searches else ()
    return bool(first) and first[0] not in _asked_names(episode.question) and _is_alike(first[0], episode.question)


def _asked_names(question: str) -> set[str]:
    return set(re.findall(r"[A-Z]\w+", question))


def _is_alike(title: str, question: str) -> bool:
    return bool(set(title.split()) & _asked_names(question))


def _after_wrong(world: str, arm: str) -> str:
    """Right answers of the episodes that met a look-alike at once."""
    met = [each for each in _episodes(world, arm) if _met_wrong(each)]
    return f"{_value(met, MEASURES['right'])} of {len(met)}"


_OWN = "right where its own first passage is wrong"
_SHOWN: Mapping[str, tuple[str, Measure]] = {
    "well-formed": ("", lambda each: float(each.stop not in ("malformed", "too_long"))),
    "answered": ("", MEASURES["answered"]),
    "cover-EM": ("", MEASURES["contain_em"]),
    "searches": ("", MEASURES["searches"]),
    "recovery": (MISLED, MEASURES["right"]),
    "clean, right": (CLEAN, MEASURES["right"]),
}
"""By column: the questions it is over (empty: all), and the measure."""


def _value(episodes: Sequence[AgentEpisode], measure: Measure) -> str:
    if not episodes:
        return "–"
    values = [value for each in episodes if (value := measure(each)) is not None]
    low, high = bootstrap_mean(episodes, measure)
    return f"{sum(values) / len(values):.3f} ({low:.3f} to {high:.3f})"


def _worlds() -> list[str]:
    return sorted(name for name in read_figures() if name.startswith("world-"))


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    marks = ["---", *("---:" for _ in head[1:])]
    return "".join("| " + " | ".join(row) + " |\n" for row in (head, marks, *rows))


def arms_table() -> str:
    """Return a Markdown table of every measure of every arm."""

    def rows() -> Iterator[Sequence[str]]:
        for world in _worlds():
            for arm in read_figures()[world]["arms"]:
                cells = (_value(_of_kind(world, arm, kind), measure) for kind, measure in _SHOWN.values())
                yield (f"{world}, {arm}", *cells, _after_wrong(world, arm))

    return _table(("arm", *_SHOWN, _OWN), rows())


def claims_table() -> str:
    """Return a Markdown table of the differences between arms, paired question by question."""
    wanted = {"recovery": MISLED, "clean": CLEAN, "later wrong": LATER, "all": ""}

    def rows() -> Iterator[Sequence[str]]:
        for world in _worlds():
            there = read_figures()[world]["arms"].keys()
            for one, other in (pair for pair in PAIRS if there >= set(pair)):
                for name, kind in wanted.items():
                    episodes = [_of_kind(world, arm, kind) for arm in (one, other)]
                    if not all(episodes):
                        continue
                    found = compare_episodes(*episodes, measures={"right": MEASURES["right"]})
                    each = found.differences["right"]
                    interval = f"{each.difference:+.3f} ({each.low:+.3f} to {each.high:+.3f})"
                    yield (
                        f"{world}, {other} − {one}", name, str(each.questions), f"{each.first:.3f}",
                        f"{each.second:.3f}", interval, f"{found.right.exact:.2g}",
                    )  # fmt: skip

    return _table(("arms", "questions", "n", "first", "second", "difference", "McNemar p"), rows())


def rows_table() -> str:
    """Return a Markdown table of the rows that each arm was trained on."""

    def rows() -> Iterator[Sequence[str]]:
        for world in _worlds():
            for arm, each in read_figures()[world]["arms"].items():
                kinds = ", ".join(f"{name} {count}" for name, count in sorted(each["kinds"].items()))
                yield (
                    f"{world}, {arm}", f"{each['rows']:,}", kinds, f"{each['tokens_per_epoch']:,}",
                    f"{each['steps']:,}", f"{each['trained_tokens']:,}", f"{each['seconds']['train']:,}",
                )  # fmt: skip

    return _table(("arm", "rows", "of kind", "trained tokens an epoch", "steps", "trained tokens", "seconds"), rows())


def stops_table() -> str:
    """Return a Markdown table of how episodes end, and what went wrong in those that were not answered correctly."""
    from collections import Counter

    def rows() -> Iterator[Sequence[str]]:
        for world in _worlds():
            for arm in read_figures()[world]["arms"]:
                episodes = _episodes(world, arm)
                stops = Counter(each.stop for each in episodes)
                tags = Counter(tag for each in episodes for tag in each.failures)
                yield (
                    f"{world}, {arm}",
                    ", ".join(f"{name} {count}" for name, count in stops.most_common()),
                    ", ".join(f"{name} {count}" for name, count in tags.most_common(5)),
                )

    return _table(("arm", "ends", "tags"), rows())


def grpo_table() -> str:
    """Return a Markdown table of GRPO's rewards, ten steps a line, and of recovery from misleading searches before and
    after.
    """
    found = read_figures().get("grpo")
    if not found:
        return "not run\n"
    rewards: list[float] = found["rewards"]
    text = "Mean reward of steps: " + ", ".join(
        f"{at + 1}–{at + len(part)}: {sum(part) / len(part):.3f}"
        for at in range(0, len(rewards), 10)
        if (part := rewards[at : at + 10])
    )

    def rows() -> Iterator[Sequence[str]]:
        for arm in (found["arm"], "G"):
            cells = (_value(_of_kind(found["world"], arm, kind), measure) for kind, measure in _SHOWN.values())
            yield ("before" if arm != "G" else "after", *cells, _after_wrong(found["world"], arm))

    return f"{text}.\n\n{_table(('', *_SHOWN, _OWN), rows())}"


TABLES: Mapping[str, Callable[[], str]] = {
    "arms": arms_table,
    "claims": claims_table,
    "rows": rows_table,
    "stops": stops_table,
    "grpo": grpo_table,
}


def write_report() -> None:
    """Write the tables into the page at its markers, and draw the plot."""
    read_figures.cache_clear()
    _episodes.cache_clear()
    if PAGE.exists():
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(_MARK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", page), encoding="utf-8")
        print(f"tables of {len(TABLES)} kinds written into {PAGE}")
    else:
        print("\n".join(f"{name}\n\n{table()}" for name, table in TABLES.items()))
    draw_plot()


def draw_plot() -> None:
    """Draw each arm's share of right answers in each world, by kind of question, with 95 % intervals."""
    wide = len(ARMS) + 1
    worlds = {arm: [each for each in _worlds() if arm in read_figures()[each]["arms"]] for arm in ARMS}
    figure = figure_of(7.5, 3.2)
    axes = figure.subplots()
    for place, kind in enumerate((MISLED, CLEAN)):
        for arm, there in worlds.items():
            for number, world in enumerate(there):
                episodes = _of_kind(world, arm, kind)
                mean = sum(each.scores.right for each in episodes) / len(episodes)
                low, high = bootstrap_mean(episodes, MEASURES["right"])
                at = place * wide + list(ARMS).index(arm) + 0.8 / len(there) * number
                axes.bar(at, mean, 0.76 / len(there), color=_COLOURS[arm], alpha=1 - 0.7 * number / len(there))
                axes.errorbar(at, mean, [[mean - low], [high - mean]], color="black", linewidth=1)
        axes.text(place * wide + len(ARMS) / 2 - 0.35, 0.57, kind, ha="center")
    axes.set_xticks([place * wide + n + 0.25 for place in (0, 1) for n in range(len(ARMS))], [*ARMS, *ARMS])
    axes.set_ylim(0, 0.62)
    axes.set_ylabel("right")
    write_figure(DOCS / "arms.png", png_of(figure))
