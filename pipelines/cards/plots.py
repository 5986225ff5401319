"""Draw the plot that all cards have, and provide the functions with which other plots are drawn.

Each figure is a PNG file's bytes: the same for the same input, since nothing in it tells date or version.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trailforge.pipelines.engine.files import write_atomically
from trailforge.schemas import StageCount

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY, DARK, GOOD, BAD, BROKEN = "#c4c4c4", "#333333", "#3b75af", "#e8963e", "#b5433a"
COLOURS = ("#3b75af", "#e8963e", "#509e3d", "#b5433a", "#8d69b8", "#84584e", "#d57dbe", "#3fa7b5")
"""Colours of the kinds of rows, used in turn."""
FUNNEL = "plots/funnel.png"
_DOTS_PER_INCH = 130
_LONGEST = 250
"""Characters of a line in a figure."""


def funnel(stages: Sequence[StageCount]) -> bytes:
    """Draw a bar for each stage: which share of its items was accepted, rejected or failed, and the reasons.

    Bars show shares, since one stage counts documents and another bundles or questions.
    """
    figure = figure_of(9, 0.8 + 0.75 * max(len(stages), 1))
    axes = figure.subplots()
    for line, stage in enumerate(stages):
        start, inputs = 0.0, max(stage.inputs, 1)
        counts = (stage.accepted, sum(c.count for c in stage.rejected), sum(c.count for c in stage.failed))
        for count, colour in zip(counts, (GOOD, BAD, BROKEN), strict=True):
            axes.barh(line, count / inputs, left=start, height=0.45, color=colour)
            start += count / inputs
        axes.text(1.02, line, f"{stage.accepted:,} of {stage.inputs:,}", va="center", fontsize=9, color=DARK)
        axes.text(0, line + 0.42, _reasons(stage), va="center", fontsize=8, color=DARK, parse_math=False)
    axes.set_yticks(range(len(stages)), [stage.name.replace("_", " ") for stage in stages])
    axes.set(xticks=[], xlim=(0, 1.25), ylim=(len(stages) - 0.3, -0.4))
    axes.set_title("accepted (blue), rejected (orange), failed (red)", fontsize=11, loc="left")
    remove_frame(axes)
    return png_of(figure)


def write_figure(path: Path, png: bytes) -> None:
    """Write a figure beside the card."""
    write_atomically(path, lambda temporary: temporary.write_bytes(png))


def bars(axes: Axes, counts: Mapping[str, int], colour: str) -> None:
    """Draw a bar for each name, with its number."""
    drawn = axes.bar(list(counts), list(counts.values()), color=colour, width=0.6)
    axes.bar_label(drawn, [f"{count:,}" for count in counts.values()], fontsize=9)
    axes.set(yticks=[], xlim=(-0.6, max(len(counts), 3) - 0.4))
    axes.margins(y=0.15)
    if not counts:
        axes.set_xticks([])  # numbers along an axis without bars mean nothing
    remove_frame(axes)


def remove_frame(axes: Axes) -> None:
    """Remove the frame and ticks' lines from a plot's axes."""
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def figure_of(width: float, height: float, *, fits: bool = True) -> Figure:
    """Return a figure of this size in inches, made without pyplot, which keeps figures and settings for the whole
    process. `fits`: room is made for what stands beside the plots, which takes as long as to draw them.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=_DOTS_PER_INCH, layout="constrained" if fits else None)


def png_of(figure: Figure) -> bytes:
    """Return a figure as the bytes of a PNG file, as `savefig` would, which draws the figure twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    file = io.BytesIO()
    FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
    return file.getvalue()


def _reasons(stage: StageCount) -> str:
    each = sorted((*stage.rejected, *stage.failed), key=lambda count: (-count.count, count.reason))
    label = "   ".join(f"{count.reason.replace('_', ' ')} {count.count:,}" for count in each if count.count)
    return label if len(label) <= _LONGEST else label[:_LONGEST] + " …"  # people give theirs in their own words
