"""The report of an evaluation: `report.md` for people, `table.parquet` for programs, and plots.

It is made again from what the folder holds, finished or not; the same episodes give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trailforge.evaluation.builds import describe_build
from trailforge.evaluation.folder import Evaluation
from trailforge.evaluation.prices import ModelPrice
from trailforge.evaluation.results.failures import TAGS
from trailforge.evaluation.results.table import (
    LEGEND,
    CellEstimate,
    EvaluationTable,
    TableRow,
    TagShare,
    describe_malformed,
    measure_stability,
    read_table,
)
from trailforge.pipelines.cards import COLOURS, DARK, GREY, figure_of, plain, png_of, write_figure
from trailforge.pipelines.engine import write_atomically, write_text
from trailforge.schemas import write_parquet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REPORT, TABLE = "report.md", "table.parquet"
_NONE = "–"
_COLOURS = (*COLOURS, "#a8a432", "#555555")
_LIGHT = "#d8dade"
"""Ink on a dark page."""
_MARKERS = "osD^vP*X<>ph8d"
_MOST_MISSING = 20
"""Lines of what the grid lacks; of the rest their number is said."""


def write_report(folder: Path) -> list[Path]:
    """Write report, table and plots into an evaluation's folder and return their paths. Raises what `read_table`
    raises, and `OutputError`.
    """
    table = read_table(folder)
    plots = draw_plots(table)
    write_atomically(folder / TABLE, lambda temporary: write_parquet(temporary, TableRow, table.rows))
    for name, png in plots.items():
        write_figure(folder / name, png)
    write_text(folder / REPORT, describe_table(table, tuple(plots)))
    return [folder / REPORT, folder / TABLE, *(folder / name for name in plots)]


# For people

Column = tuple[str, str, Callable[[TableRow], str]]
"""A column of the report: its head, the key under which `LEGEND` explains it (empty: none), and its content."""


def describe_table(table: EvaluationTable, plots: Sequence[str] = ()) -> str:
    """Return the report as Markdown. `plots` are paths of the plots beside it."""
    rows, given = table.rows, table.evaluation
    sections = [
        f"# Evaluation on {plain(given.questions)}\n",
        f"{_origin(table)}\n",
        *_missing_lines(table.missing),
        *(f"\n**{plain(line)}**\n" for line in describe_malformed(table.rows)),
    ]
    if not rows:
        return "\n".join([*sections, "There are no episodes yet.\n"])
    sections += [
        "## Accuracy\n\nBest first, by contain-EM. In brackets the 95 % interval, for which the questions are drawn "
        "anew; after ± the standard deviation over seeds.\n",
        _table(rows, _accuracy(rows)),
        *([_OPTIONS, _options(rows)] if any(row.options for row in rows) else []),
        "## What an episode takes\n",
        _table(rows, _online(rows)),
        "## Back ends\n\nOver all agents and models, best rank first.\n",
        _back_ends(table),
        "## What went wrong\n\nShares of the episodes, in %. An episode may have several tags; one whose answer is "
        "right and borne out by its searches has none.\n",
        _table(rows, _shares_of(rows, lambda row: row.failures))
        + _legend({tag.replace("_", " "): meaning for tag, meaning in TAGS.items()}),
        "How episodes ended:\n",
        _table(rows, _shares_of(rows, lambda row: row.stops)),
    ]
    sections += ["## Plots\n", *(f"![{_alt(path)}]({path})\n" for path in plots)] if plots else []
    return "\n".join(sections)


def _origin(table: EvaluationTable) -> str:
    given = table.evaluation
    seeds = ", ".join(map(str, given.seeds))
    asked = ", ".join(
        filter(None, (plain(given.dataset), f"`{plain(given.questions)}`"))
    )  # own files are of no data set
    lines = [
        f"- Questions: {given.num_questions:,} of {asked} (SHA-256 {given.questions_sha256[:12]})",
        f"- Grid: {_count(given.agents, 'agent')}, {_count(given.backends, 'back end')},"
        f" {_count(given.models, 'model')} ({', '.join(map(plain, given.models))}), seeds {seeds}",
        f"- Passages of a search: {_shown(given)}",
        f"- Tokens of what was read: {(given.tokenizer and f'by {plain(given.tokenizer)}') or 'estimated'}",
        f"- Judge: {plain(given.judge) or 'none'}",
        f"- Prices of a million tokens: {_prices(given.prices)}",
    ]
    if given.versions:
        lines.append("- Made with: " + ", ".join(f"{plain(k)} {plain(v)}" for k, v in sorted(given.versions.items())))
    return "\n".join(lines)


def _shown(given: Evaluation) -> str:
    if given.context_tokens is None:
        return str(given.top_k)
    return f"as many as fit into {given.context_tokens:,} tokens"


def _prices(known: Sequence[ModelPrice]) -> str:
    if not known:
        return "not known, so no cost is"
    return "; ".join(f"{plain(each.model)}: prompt {each.prompt:g}, completion {each.completion:g}" for each in known)


def _count(names: Sequence[object], what: str) -> str:
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'}"


def _missing_lines(missing: Sequence[str]) -> list[str]:
    if not missing:
        return ["The grid is finished and nothing failed in it.\n"]
    more = len(missing) - _MOST_MISSING
    lines = [f"- {plain(line)}" for line in missing[:_MOST_MISSING]] + ([f"- {more} more"] if more > 0 else [])
    return ["**Not all is there.** Figures are of what is, and ranks of cells that are finished.\n", *lines, ""]


def _accuracy(rows: Sequence[TableRow]) -> list[Column]:
    most = max(len(row.pass_at) for row in rows)
    columns: list[Column] = [
        ("contain-EM", "contain_em", lambda row: show_estimate(row.contain_em)),
        ("F1", "f1", lambda row: show_estimate(row.f1)),
        ("EM", "exact_match", lambda row: show_estimate(row.exact_match)),
        ("right", "right", lambda row: show_estimate(row.right)),
    ]
    if any(row.judge for row in rows):
        columns.append(("judge", "judge", lambda row: show_estimate(row.judge)))
    columns.append(("recall", "supporting_recall", lambda row: show_estimate(row.supporting_recall)))
    if any(row.answer_in_text for row in rows):
        columns.append(("answer in text", "answer_in_text", lambda row: show_estimate(row.answer_in_text)))
    columns += [(f"pass@{k}", "pass_at" if k == most else "", _pass_at(k)) for k in sorted({1, most})]
    return [
        *columns,
        ("answer words", "answer_words", lambda row: _number(row.answer_words)),
        ("rank of agent", "agent_rank", lambda row: _number(row.agent_rank, 2)),
        (
            "episodes",
            "episodes",
            lambda row: f"{row.episodes:,}" + ("" if row.is_finished else f" of {row.expected:,}"),
        ),
        ("failed", "failed", lambda row: f"{row.failed:,}"),
    ]


_OPTIONS = (
    "## Questions with options\n\nEM: exactly the correct options were chosen. F1: of the sets of chosen and correct "
    "ones. By chance: what a guess pays, at one of the options where one is correct, else at any set of them.\n"
)


def _options(rows: Sequence[TableRow]) -> str:
    head = ("agent", "back end", "choice", "questions", "EM", "by chance", "F1", "by chance")
    lines = [f"| {' | '.join(head)} |", "|---|---|---" + "|---:" * (len(head) - 3) + "|"]
    for row in rows:
        for each in row.options:
            cells = [plain(row.agent), plain(row.backend), each.choice, f"{each.questions:,}"]
            cells += [show_estimate(each.exact_match), _percent(each.exact_match_chance)]
            cells += [show_estimate(each.f1), _percent(each.f1_chance)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _pass_at(k: int) -> Callable[[TableRow], str]:
    return lambda row: _percent(row.pass_at[k - 1]) if k <= len(row.pass_at) else _NONE


def _online(rows: Sequence[TableRow]) -> list[Column]:
    columns: list[Column] = [
        ("searches", "searches", lambda row: _number(row.searches)),
        ("turns", "turns", lambda row: _number(row.turns)),
        ("calls", "calls", lambda row: _number(row.calls)),
        ("context tokens", "context_tokens", lambda row: _number(row.context_tokens, 0)),
        ("prompt tokens", "prompt_tokens", lambda row: _number(row.prompt_tokens, 0)),
        ("completion tokens", "completion_tokens", lambda row: _number(row.completion_tokens, 0)),
        ("seconds p50", "seconds_p50", lambda row: _number(row.seconds_p50, 2)),
        ("seconds p90", "seconds_p90", lambda row: _number(row.seconds_p90, 2)),
        ("searching, seconds", "search_seconds", lambda row: _number(row.search_seconds, 2)),
    ]
    if any(row.cost is not None for row in rows):
        columns.append(("cost", "cost", lambda row: _number(row.cost, 5)))
    return columns


def _back_ends(table: EvaluationTable) -> str:
    """Rank and stability of each, and what its build took."""
    stable = {each.backend: each for each in measure_stability(table.rows)}
    order = [*stable, *(row.backend for row in table.rows if row.backend not in stable)]
    built = {row.backend: row for row in table.rows}
    as_built = {each.name: describe_build(each.config) or _NONE for each in table.evaluation.backends}
    head = ("back end", "built as", "rank", "contain-EM", "variance over seeds", "variance over agents", "build, hours")
    head += ("hours per million tokens", "build, cost", "cost per million tokens")
    lines = [f"| {' | '.join(head)} |", "|---|---" + "|---:" * (len(head) - 2) + "|"]
    for name in dict.fromkeys(order):
        row, found = built[name], stable.get(name)
        over = (found.over_seeds, found.over_agents) if found else (None, None)
        cells = [
            plain(name),
            plain(as_built.get(name, _NONE)),
            _number(row.backend_rank, 2),
            _percent(found.mean if found else None),
        ]
        cells += [_number(None if each is None else 1e4 * each, 2) for each in over]
        cells += [_number(each, 3) for each in (row.build_hours, row.hours_per_million)]
        cells += [_number(each, 3) for each in (row.build_cost, row.cost_per_million)]
        lines.append(f"| {' | '.join(cells)} |")
    meanings = {
        "built as": "The back end, and in brackets what is set otherwise than usual; a paper's name is the published "
        "build, which a model wrote, `_plain` the same method without one.",
        "rank": LEGEND["backend_rank"],
        "variance": "In points squared, a point being a hundredth of contain-EM. Over seeds: the mean over the agents. "
        "Over agents: of what they reach with the back end.",
        "build": "What making the index took, whole and per million tokens of the corpus.",
    }
    return "\n".join(lines) + "\n" + _legend(meanings)


def _shares_of(rows: Sequence[TableRow], shares: Callable[[TableRow], Sequence[TagShare]]) -> list[Column]:
    names = sorted({each.name for row in rows for each in shares(row)})

    def cell(name: str) -> Callable[[TableRow], str]:
        return lambda row: next((_percent(each.share) for each in shares(row) if each.name == name), "0.0")

    return [(name.replace("_", " "), "", cell(name)) for name in names]


def _table(rows: Sequence[TableRow], columns: Sequence[Column]) -> str:
    """A line for each row; below what the columns are."""
    several = len({row.model for row in rows}) > 1
    named: list[Column] = [
        ("agent", "", lambda row: plain(row.agent)),
        ("back end", "", lambda row: plain(row.backend)),
        *([("model", "", lambda row: plain(row.model))] if several else []),
    ]
    shown = [*named, *columns]
    lines = [f"| {' | '.join(head for head, _, _ in shown)} |", "|---" * len(named) + "|---:" * len(columns) + "|"]
    lines += [f"| {' | '.join(content(row) for _, _, content in shown)} |" for row in rows]
    return "\n".join(lines) + "\n" + _legend({head: LEGEND[key] for head, key, _ in columns if key})


def _legend(meanings: Mapping[str, str]) -> str:
    return "\n" + "".join(f"- {head}: {meaning}\n" for head, meaning in meanings.items()) if meanings else ""


def show_estimate(found: CellEstimate | None) -> str:
    """Write an estimate in percentage points, with its interval and the standard deviation over seeds: `41.2 [38.0,
    44.5] ±0.8`.
    """
    if found is None:
        return _NONE
    seeds = "" if found.variance is None else f" ±{100 * math.sqrt(found.variance):.1f}"
    return f"{100 * found.mean:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]{seeds}"


def _percent(share: float | None) -> str:
    return _NONE if share is None else f"{100 * share:.1f}"


def _number(value: float | None, digits: int = 1) -> str:
    return _NONE if value is None else f"{value:,.{digits}f}"


def _alt(path: str) -> str:
    return Path(path).stem.replace("_", " ")


# Plots

Axis = tuple[str, Callable[[TableRow], float | None]]
"""The x axis of a plot: its label and the value of a row."""


def draw_plots(table: EvaluationTable, *, is_dark: bool = False) -> dict[str, bytes]:
    """Draw the plots, returned as PNG files by their path in the folder; a plot without data is left out. `is_dark`
    draws light ink on a transparent ground, for a dark page.
    """
    online: list[Axis] = [
        ("context tokens of an episode", lambda row: row.context_tokens),
        ("all tokens of an episode, sent and written", lambda row: row.prompt_tokens + row.completion_tokens),
    ]
    offline: list[Axis] = [
        ("hours of the build per million tokens", lambda row: row.hours_per_million),
        ("cost of the build per million tokens", lambda row: row.cost_per_million),
    ]
    recall: list[Axis] = [
        ("supporting recall", lambda row: row.supporting_recall.mean if row.supporting_recall else None)
    ]
    plots: dict[str, Sequence[Axis]] = {
        "plots/accuracy_by_online_cost.png": online,
        "plots/accuracy_by_offline_cost.png": offline,
        "plots/accuracy_by_recall.png": recall,
    }
    drawn = {path: figure for path, axes in plots.items() if (figure := _scatter(table, axes)) is not None}
    if is_dark:
        for figure in drawn.values():
            _ink_lightly(figure)
    return {path: png_of(figure) for path, figure in drawn.items()}


def _ink_lightly(figure: Figure) -> None:
    from matplotlib.text import Text

    figure.patch.set_alpha(0)
    for panel in figure.axes:
        panel.set_facecolor("none")
        panel.tick_params(which="both", colors=_LIGHT)
        for spine in panel.spines.values():
            spine.set_color(_LIGHT)
    for text in figure.findobj(Text):
        text.set_color(_LIGHT)
    for legend in figure.legends:
        for entry in legend.get_lines():
            if entry.get_color() == DARK:
                entry.set_color(_LIGHT)


def _scatter(table: EvaluationTable, axes: Sequence[Axis]) -> Figure | None:
    """A panel for each axis and model: contain-EM of every cell with its interval.

    Back ends are told by colour and agents by shape, in a legend beside, so that no name covers another.
    """
    known = [axis for axis in axes if any(axis[1](row) is not None for row in table.rows)]
    if not known:
        return None
    models = list(dict.fromkeys(row.model for row in table.rows))
    names = sorted({row.backend for row in table.rows}), sorted({row.agent for row in table.rows})
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(names[0])}
    markers = {name: _MARKERS[place % len(_MARKERS)] for place, name in enumerate(names[1])}
    figure = figure_of(2.4 + 4.2 * len(known), 0.4 + max(3.6 * len(models), 0.26 * (sum(map(len, names)) + 3)))
    panels = figure.subplots(len(models), len(known), squeeze=False)
    for line, model in zip(panels, models, strict=True):
        rows = [row for row in table.rows if row.model == model]
        for panel, axis in zip(line, known, strict=True):
            _draw_panel(panel, rows, axis, colours, markers)
            if len(models) > 1:
                panel.set_title(model[-60:], fontsize=9, loc="left", parse_math=False)
    _add_legend(figure, colours, markers)
    return figure


def _draw_panel(
    panel: Axes, rows: Sequence[TableRow], axis: Axis, colours: Mapping[str, str], markers: Mapping[str, str]
) -> None:
    label, value = axis
    places = [(x, row) for row in rows if (x := value(row)) is not None]
    for x, row in places:
        found, colour = row.contain_em, colours[row.backend]
        panel.plot([x, x], [100 * found.low, 100 * found.high], color=colour, linewidth=1.2, alpha=0.45, zorder=1)
        look = {"color": colour, "marker": markers[row.agent], "edgecolors": "white", "linewidths": 0.6}
        panel.scatter([x], [100 * found.mean], s=46, zorder=2, **look)
    xs = [x for x, _ in places]
    above = [x for x in xs if x > 0]
    if above and max(above) > 20 * min(above):
        panel.set_xscale("symlog", linthresh=min(above)) if min(xs) <= 0 else panel.set_xscale("log")
    panel.set_ylim(-3, 103)
    panel.set_xlabel(label, fontsize=9)
    panel.set_ylabel("contain-EM, %", fontsize=9)
    panel.tick_params(labelsize=8)
    panel.grid(color=GREY, linewidth=0.4, alpha=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _add_legend(figure: Figure, colours: Mapping[str, str], markers: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D

    def entry(label: str, marker: str, colour: str) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, color=colour, label=label)

    entries = [entry("back ends", "", DARK), *(entry(name, "s", colour) for name, colour in colours.items())]
    entries += [entry("agents", "", DARK), *(entry(name, marker, DARK) for name, marker in markers.items())]
    figure.legend(handles=entries, loc="outside right upper", fontsize=8, frameon=False)
