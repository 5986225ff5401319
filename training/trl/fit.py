"""One run of a trainer, from a checkpoint or the first step to the last, or to a SIGTERM, and its curves.

Clusters send SIGTERM before they take a machine away: the step is ended, a checkpoint written, and the process ends.
torchrun and `accelerate launch` pass the signal on and kill what still runs after 30 seconds. What has not written its
checkpoint by then goes on from the one before, as after any other end.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import math
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import FrameType
from typing import Any, NoReturn

from trailforge.training.processes import is_anywhere, log
from trailforge.training.trl.arguments import make_seal_callback

EXIT_CODE = 128 + signal.SIGTERM


def make_stop_callback(every: int = 1) -> Any:
    """A callback; `is_asked` says whether the training has ended for a signal, in whichever of its processes.

    `every`: it ends after a step that this divides.
    """
    from transformers import TrainerCallback

    class Stopping(TrainerCallback):
        """Called by the trainer."""

        def __init__(self) -> None:
            self.is_asked = False
            self._earlier: Any = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if threading.current_thread() is threading.main_thread():
                self._earlier = signal.signal(signal.SIGTERM, self._ask)

        def on_step_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            self.is_asked = is_anywhere(self.is_asked, args.device)
            if self.is_asked and state.global_step % every == 0:
                control.should_save = control.should_training_stop = True

        def on_train_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if self._earlier is not None:
                signal.signal(signal.SIGTERM, self._earlier)

        def _ask(self, number: int, frame: FrameType | None) -> None:
            self.is_asked = True

    return Stopping()


def leave(step: int, steps: int) -> NoReturn:
    """End the process as one that was told to."""
    log(f"stopped after step {step} of {steps}; the same command with --resume goes on from here")
    raise SystemExit(EXIT_CODE)


def fit(trainer: Any, out: Path, checkpoint: Path | None, *, every: int = 1) -> Any:
    """Train, with whole checkpoints and curves in `out`; what `train` of transformers returns.

    Told to stop by SIGTERM, it writes a checkpoint and ends the process, after a step that `every` divides.
    """
    stopped = make_stop_callback(every)
    for callback in (make_seal_callback(), make_chart_callback(out), stopped):
        trainer.add_callback(callback)
    done = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if stopped.is_asked and trainer.state.global_step < trainer.state.max_steps:
        leave(trainer.state.global_step, trainer.state.max_steps)
    return done


CURVES, FIGURES = "curves.png", "curves.csv"
PANELS = {
    "loss": "loss",
    "reward": "reward, mean of a step",
    "episodes/well_formed": "well-formed episodes, share",
    "episodes/answered": "answered episodes, share",
    "episodes/searches": "searches of an episode",
    "episodes/tokens": "tokens of an episode, results included",
    "mean_token_accuracy": "trained tokens foreseen, share",
    "entropy": "entropy of a token, nats",
    "kl": "KL to the reference, nats a token",
    "frac_reward_zero_std": "groups without advantage, share",
    "clip_ratio/region_mean": "tokens clipped, share",
    "grad_norm": "norm of the gradient",
    "learning_rate": "learning rate",
}
"""What is drawn, where the trainer tells it: its name in the log, and what stands above the curve."""
_RAW, _MEAN = "#c4c4c4", "#3b75af"
_COLUMNS = 3
_EVERY_S = 60.0
"""Drawing takes most of a second: not with every checkpoint of a training whose steps are fast."""
_SMOOTHED_FROM = 50
"""With so many points the running mean over a tenth of them is drawn on top."""


def figures_by_step(history: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """The trainer's log with a row for each step, in their order; what is told once more counts the last time."""
    rows: dict[int, dict[str, float]] = {}
    for entry in history:
        known = {name: float(value) for name, value in entry.items() if isinstance(value, int | float)}
        rows.setdefault(int(entry["step"]), {}).update(known)
    return [rows[step] | {"step": step} for step in sorted(rows)]


def write_curves(history: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write the figures, and draw them where matplotlib is installed."""
    rows = figures_by_step([entry for entry in history if "train_runtime" not in entry])
    if not rows:
        return
    table = io.StringIO()
    names = ["step", *sorted({name for row in rows for name in row} - {"step"})]
    writer = csv.DictWriter(table, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _replace(out / FIGURES, table.getvalue().encode())
    if importlib.util.find_spec("matplotlib") is not None:
        _replace(out / CURVES, draw_curves(rows))


def draw_curves(rows: Sequence[Mapping[str, float]]) -> bytes:
    """A PNG file: a curve for each of `PANELS` that the rows have."""
    from matplotlib.figure import Figure

    panels = [name for name in PANELS if any(name in row for row in rows)]
    lines = max(1, math.ceil(len(panels) / _COLUMNS))
    figure = Figure(figsize=(10, 0.3 + 2.1 * lines), dpi=110, layout="constrained")
    each = figure.subplots(lines, _COLUMNS, squeeze=False).ravel()
    for axes in each[len(panels) :]:
        axes.set_axis_off()
    for axes, name in zip(each, panels, strict=False):
        points = [(row["step"], row[name]) for row in rows if name in row and math.isfinite(row[name])]
        steps, values = [step for step, _ in points], [value for _, value in points]
        is_smoothed = len(values) >= _SMOOTHED_FROM
        axes.plot(
            steps, values, color=_RAW if is_smoothed else _MEAN, linewidth=1, marker="." if len(values) < 2 else ""
        )
        if is_smoothed:
            axes.plot(steps, running_mean(values, len(values) // 10), color=_MEAN, linewidth=1.5)
        axes.set_title(PANELS[name], fontsize=9, loc="left")
        axes.tick_params(labelsize=8, length=0)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in each[max(0, len(panels) - _COLUMNS) : len(panels)]:
        axes.set_xlabel("optimizer step", fontsize=8)
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def running_mean(values: Sequence[float], width: int) -> list[float]:
    """At each place the mean of the `width` values around it, of fewer at the ends."""
    half = width // 2
    around = (values[max(0, place - half) : place + half + 1] for place in range(len(values)))
    return [fmean(window) for window in around]


def make_chart_callback(out: Path) -> Any:
    """A callback that writes the curves with checkpoints, and at the end."""
    from transformers import TrainerCallback

    class Charting(TrainerCallback):
        """Called by the trainer."""

        def __init__(self) -> None:
            self._written_at = -math.inf

        def on_save(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if state.is_world_process_zero and time.monotonic() - self._written_at > _EVERY_S:
                write_curves(state.log_history, out)
                self._written_at = time.monotonic()

        def on_train_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if state.is_world_process_zero:
                write_curves(state.log_history, out)

    return Charting()


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)
