"""What both trainers are told alike: batches, precision, learning rate, checkpoints, logs and seeds."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from trailforge.schemas import InvalidInput
from trailforge.training.config import TrainerConfig
from trailforge.training.processes import is_main_process
from trailforge.training.trl.checkpoints import checkpoints_of, seal

KEPT_CHECKPOINTS = 3
"""Older ones are removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """How one optimizer step is made of what the processes train at a time."""

    per_device: int
    processes: int
    accumulated: int


def batches(sequences: int, per_device: int, processes: int, *, field: str) -> Batches:
    """Part an optimizer step of so many sequences. Raises `InvalidInput` with the numbers when it cannot be parted."""
    at_a_time = per_device * processes
    if sequences % at_a_time:
        raise InvalidInput(
            f"{sequences} sequences in an optimizer step cannot be parted into {processes} processes x {per_device} "
            f"per device: lower per_device, or take another number of processes",
            field=field,
        )
    return Batches(per_device=per_device, processes=processes, accumulated=sequences // at_a_time)


def trainer_arguments(config: TrainerConfig, out: Path, parts: Batches, *, max_steps: int | None) -> dict[str, Any]:
    """Keyword arguments of a trainer's configuration. Raises `InvalidInput` for a log without its package."""
    import torch

    if config.liger and importlib.util.find_spec("liger_kernel") is None:
        raise InvalidInput("the package liger-kernel is not installed; install it, or leave liger out", field="liger")
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(out / "logs")  # the trainer has no argument for it
    has_gpu = torch.cuda.is_available()
    return {
        "output_dir": str(checkpoints_of(out)),
        "per_device_train_batch_size": parts.per_device,
        "gradient_accumulation_steps": parts.accumulated,
        "num_train_epochs": config.epochs,
        "max_steps": max_steps or -1,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.transformers_scheduler,
        "warmup_steps": config.warmup_ratio,  # below 1 it is a share of all steps
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
        "bf16": config.precision == "bfloat16" and has_gpu and torch.cuda.is_bf16_supported(),
        "use_cpu": not has_gpu,
        "gradient_checkpointing": config.gradient_checkpointing,
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


def deciding(config: TrainerConfig) -> dict[str, Any]:
    """The fields that decide the weights: a training goes on with the same ones only."""
    free = ("logging", "save_steps", "keep_episodes", "keep_every")
    return {name: value for name, value in asdict(config).items() if name not in free}


def peft_config(config: TrainerConfig) -> Any:
    """Low-rank adapters as peft takes them; None when all weights are trained."""
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


def make_seal_callback() -> Any:
    """A callback that marks each checkpoint as whole when its last file is written."""
    from transformers import TrainerCallback

    class Sealing(TrainerCallback):
        """Called after the trainer has written a checkpoint."""

        def on_save(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if args.world_size > 1:
                import torch.distributed

                torch.distributed.barrier()  # every process writes its own random state
            if state.is_world_process_zero:
                seal(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    return Sealing()


def _reports(logging: Literal["tensorboard", "wandb", "none"]) -> list[str]:
    if logging == "none":
        return []
    if importlib.util.find_spec(logging) is None:
        raise InvalidInput(f"the package {logging} is not installed; install it, or log elsewhere", field="logging")
    return [logging]
