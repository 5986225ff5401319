"""The settings that all trainers share, and one run of a trainer that survives SIGTERM.

A run goes from a checkpoint or the first step to the last step, or to a SIGTERM.

Clusters send SIGTERM before they take a machine away: the step is ended, a checkpoint written, and the process ends.
torchrun and `accelerate launch` pass the signal on and kill what still runs after 30 seconds. What has not written its
checkpoint by then continues from the one before, as after any other end.
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
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from trailforge.pipelines.engine import write_text
from trailforge.schemas import InvalidInput
from trailforge.training.config import Logging, TrainerConfig
from trailforge.training.processes import is_anywhere, is_main_process, log
from trailforge.training.sets.files import set_hash
from trailforge.training.trl.checkpoints import checkpoints_of, mark_whole, open_on_all_ranks, save_model, write_result

EXIT_CODE = 128 + signal.SIGTERM
KEPT_CHECKPOINTS = 3
"""Number of checkpoints that are kept; older ones are removed."""


def count_accumulated(sequences: int, per_device: int, processes: int, *, field: str) -> int:
    """Return how many batches of `per_device` sequences each process accumulates for an optimizer step of `sequences`.
    Raises `InvalidInput`, with the numbers, when they do not divide evenly.
    """
    at_a_time = per_device * processes
    if sequences % at_a_time:
        raise InvalidInput(
            f"{sequences} sequences in an optimizer step cannot be parted into {processes} processes x {per_device} "
            f"per device: lower per_device, or take another number of processes",
            field=field,
        )
    return sequences // at_a_time


def trainer_arguments(config: TrainerConfig, out: Path, accumulated: int, *, max_steps: int | None) -> dict[str, Any]:
    """Return the keyword arguments of a trainer's configuration. Raises `InvalidInput` for a kind of log whose package
    is not installed.
    """
    import torch

    silence_trl()
    if config.liger and importlib.util.find_spec("liger_kernel") is None:
        raise InvalidInput("the package liger-kernel is not installed; install it, or leave liger out", field="liger")
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(out / "logs")  # the trainer has no argument for it
    has_gpu = torch.cuda.is_available()
    return {
        "output_dir": str(checkpoints_of(out)),
        "per_device_train_batch_size": config.per_device,
        "gradient_accumulation_steps": accumulated,
        "num_train_epochs": config.epochs,
        "max_steps": max_steps or -1,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.transformers_scheduler,
        "warmup_steps": config.warmup_ratio,  # below 1 it is a share of all steps
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
        "bf16": config.precision == "bfloat16" and has_gpu and torch.cuda.is_bf16_supported(),
        "use_cpu": not has_gpu,
        _checkpointing(): config.gradient_checkpointing,
        "use_liger_kernel": config.liger,
        "ddp_find_unused_parameters": False,  # every weight takes part in every step
        "seed": config.seed,
        "train_sampling_strategy": "sequential",  # a training set stands in the order of learning
        "save_strategy": "steps",
        "save_steps": config.save_steps,
        "save_total_limit": KEPT_CHECKPOINTS,
        "logging_steps": 1,
        "report_to": _reports(config.logging),
        "disable_tqdm": not is_main_process(),
    }


def silence_trl() -> None:
    """Silence warnings about deprecated names that TRL uses in transformers, since users cannot change either."""
    of_trl = r"`(is_)?gradient_checkpointing(_enable|_disable|_kwargs)?` is deprecated|`use_liger_kernel=True` is depre"
    warnings.filterwarnings("ignore", of_trl, FutureWarning)


def _checkpointing() -> str:
    """What transformers calls it: the new name where it has one, for it warns of the old one."""
    from transformers import TrainingArguments

    known = {each.name for each in fields(TrainingArguments)}
    return "activation_checkpointing" if "activation_checkpointing" in known else "gradient_checkpointing"


def weight_settings(config: TrainerConfig) -> dict[str, Any]:
    """Return the fields that decide the weights, which must be the same for a training to be resumed."""
    free = ("logging", "save_steps", "keep_episodes", "keep_every")
    return {name: value for name, value in asdict(config).items() if name not in free}


def peft_config(config: TrainerConfig) -> Any:
    """Return low-rank adapters in the form that peft takes; None when all weights are trained."""
    if config.lora is None:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=config.lora.rank,
        lora_alpha=config.lora.alpha,
        lora_dropout=config.lora.dropout,
        target_modules=list(config.lora.target_modules) or "all-linear",
        task_type="CAUSAL_LM",
    )


def _reports(logging: Logging) -> list[str]:
    if logging == "none":
        return []
    if importlib.util.find_spec(logging) is None:
        raise InvalidInput(f"the package {logging} is not installed; install it, or log elsewhere", field="logging")
    return [logging]


# One run


def begin(
    stage: str,
    source: str,
    training_set: Path,
    out: Path,
    decided: Mapping[str, Any],
    *,
    max_steps: int | None,
    resume: bool,
) -> Path | None:
    """Begin a training's folder, or resume it, and return the checkpoint to resume from; None to begin with the first
    step. Raises what `open_on_all_ranks` raises.

    `stage` is the kind of training: `sft`, `dpo` or `rl`. `source` is the model with which it begins; `decided` is what
    else decides the weights.
    """
    settings = {"stage": stage, "base_model": source, "training_set": set_hash(training_set), "max_steps": max_steps}
    return open_on_all_ranks(out, {**settings, **decided}, resume=resume)


def make_stop_callback(every: int = 1) -> Any:
    """Return a callback whose `is_asked` says whether the training was ended by a signal, in any of its processes. It
    ends after a step that `every` divides.
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
    """End the process after `step` of `steps`, with the exit code of one that was ended by a signal, and say how to go
    on."""
    log(f"stopped after step {step} of {steps}; the same command with --resume goes on from here")
    raise SystemExit(EXIT_CODE)


def fit(trainer: Any, out: Path, checkpoint: Path | None, *, every: int = 1) -> Any:
    """Train, with whole checkpoints and figures in `out`, and return what `train` of transformers returns.

    Told to stop by SIGTERM, it writes a checkpoint and ends the process, after a step that `every` divides.
    """
    stopped = make_stop_callback(every)
    for callback in (make_folder_callback(out), stopped):
        trainer.add_callback(callback)
    done = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if stopped.is_asked and trainer.state.global_step < trainer.state.max_steps:
        leave(trainer.state.global_step, trainer.state.max_steps)
    return done


def finish(stage: str, trainer: Any, tokenizer: Any, out: Path, figures: Mapping[str, Any], seconds: float) -> Path:
    """Write the model and the figures of the finished training, which took `seconds`, and return the model's folder."""
    folder = save_model(trainer, tokenizer, out)
    if is_main_process():
        steps = trainer.state.global_step
        write_result(out, {"stage": stage, "steps": steps, **figures, "seconds": round(seconds, 1)})
    return folder


FIGURES = "curves.csv"
_EVERY_S = 60.0
"""The table is written anew with checkpoints, but not with each of a training whose steps are fast."""


def figures_by_step(history: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Return the trainer's log with a row for each step, in order; of what is logged twice the last entry counts."""
    rows: dict[int, dict[str, float]] = {}
    for entry in history:
        known = {name: float(value) for name, value in entry.items() if isinstance(value, int | float)}
        rows.setdefault(int(entry["step"]), {}).update(known)
    return [rows[step] | {"step": step} for step in sorted(rows)]


def write_figures(history: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write all figures of each step as a table."""
    rows = figures_by_step([entry for entry in history if "train_runtime" not in entry])
    if not rows:
        return
    table = io.StringIO()
    names = ["step", *sorted({name for row in rows for name in row} - {"step"})]
    writer = csv.DictWriter(table, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(out / FIGURES, table.getvalue())


def make_folder_callback(out: Path) -> Any:
    """Return a callback that marks each checkpoint as whole after its last file is written. It writes the figures then
    and at the end.
    """
    from transformers import TrainerCallback

    class Keeping(TrainerCallback):
        """Called by the trainer; `on_save` after it has written a checkpoint."""

        def __init__(self) -> None:
            self._written_at = -math.inf

        def on_save(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if args.world_size > 1:
                import torch.distributed

                torch.distributed.barrier()  # every process writes its own random state
            if not state.is_world_process_zero:
                return
            mark_whole(Path(args.output_dir) / f"checkpoint-{state.global_step}")
            if time.monotonic() - self._written_at > _EVERY_S:
                write_figures(state.log_history, out)
                self._written_at = time.monotonic()

        def on_train_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if state.is_world_process_zero:
                write_figures(state.log_history, out)

    return Keeping()
