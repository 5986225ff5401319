"""Supervised training: conversations in, a model out, the loss on the agent's turns alone.

The masks are ours (`training.masks`); TRL's `SFTTrainer` gets tokens and labels and makes neither. Its loss is the mean
over all trained tokens of an optimizer step, over all processes: eq. 10 of MSearcher, pooled over the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trailforge.schemas import InvalidInput, SftRow
from trailforge.training.config import SftConfig, TrainPreset
from trailforge.training.masks import MaskedTokens, masked_tokens
from trailforge.training.processes import is_main_process, log, processes
from trailforge.training.sets.files import open_set, rows_of, set_hash
from trailforge.training.sets.sft_rows import mistaken_claims
from trailforge.training.trl.arguments import batches, deciding, peft_config, trainer_arguments
from trailforge.training.trl.checkpoints import open_together, save_model, write_result
from trailforge.training.trl.fit import fit
from trailforge.training.trl.memory import check_memory
from trailforge.training.weights import Base, load_base
from trailforge.training.weights import base_model as resolved


def train_sft(
    training_set: Path,
    preset: TrainPreset,
    out: Path,
    *,
    base_model: str | None = None,
    resume: bool = False,
    max_steps: int | None = None,
) -> Path:
    """Train on the rows in `training_set`/sft/train; the folder of the trained model.

    Run by `accelerate launch` or torchrun, all processes call it. Raises `InvalidInput` for a training set, a base
    model or a batch that does not fit, `OutputError` for a folder that holds something else; nothing is written then.
    """
    from trl.trainer.sft_config import SFTConfig as TrlConfig

    config = preset.sft
    rows = rows_of(training_set, "sft", "train", SftRow)
    parts = batches(config.batch_size, config.per_device, processes(), field="sft.batch_size")
    source = resolved(base_model or config.base_model)
    # Before the model: this makes the processes one group, without which each would load all of its weights.
    arguments = TrlConfig(
        **trainer_arguments(config, out, parts, max_steps=max_steps),
        max_length=config.max_tokens,
        packing=config.packing,
    )
    check_memory(source, config, config.max_tokens)
    base = load_base(source, attention=config.attention)
    base.check_learns(config)
    masks_mistakes = open_set(training_set).masks_mistakes
    examples, left_out = tokenise(base.tokenizer, rows, config.max_tokens, masks_mistakes=masks_mistakes)
    if not examples:
        raise InvalidInput(f"no conversation has a token to train within {config.max_tokens}", file=training_set)
    settings = {"stage": "sft", "base_model": source, "training_set": set_hash(training_set), "max_steps": max_steps}
    checkpoint = open_together(out, settings | {"config": deciding(config)}, resume=resume)
    trainer = _trainer(base, examples, arguments, config)
    done = fit(trainer, out, checkpoint)
    model = save_model(trainer, base.tokenizer, out)
    if is_main_process():
        write_result(
            out,
            {
                "stage": "sft",
                "steps": trainer.state.global_step,
                "rows": len(examples),
                "left_out": left_out,
                "trained_tokens_per_epoch": sum(sum(example.mask) for example in examples),
                "loss": done.training_loss,
                "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
                "seconds": round(done.metrics["train_runtime"], 1),
            },
        )
    return model


def tokenise(
    tokenizer: Any, rows: Sequence[SftRow], max_tokens: int, *, masks_mistakes: bool = False
) -> tuple[list[MaskedTokens], dict[str, int]]:
    """Rows as tokens and labels, and how many are left out: `too_long`, and `untrained` without a token to learn.

    Raises `InvalidInput` naming the row whose text cannot be told from a turn's marks.
    """
    examples, left_out = [], {"too_long": 0, "untrained": 0}
    for number, row in enumerate(rows, start=1):
        try:
            unlearnt = mistaken_claims(row) if masks_mistakes else ()
            example = masked_tokens(tokenizer, row.messages, row.train, unlearnt)
        except InvalidInput as error:
            raise InvalidInput(f"{row.uid}: {error.problem}", row=number, field=error.field) from error
        if len(example.input_ids) > max_tokens:
            left_out["too_long"] += 1
        elif not any(example.mask):
            left_out["untrained"] += 1
        else:
            examples.append(example)
    if any(left_out.values()):
        log(
            f"of {len(rows)} conversations {left_out['too_long']} are longer than {max_tokens} tokens and left out "
            f"(`training-set --long-rows segments` keeps parts of them), {left_out['untrained']} have nothing to train"
        )
    return examples, left_out


def _trainer(base: Base, examples: Sequence[MaskedTokens], arguments: Any, config: SftConfig) -> Any:
    from datasets import Dataset
    from trl.trainer.sft_trainer import SFTTrainer

    dataset = Dataset.from_dict(
        {"input_ids": [each.input_ids for each in examples], "labels": [each.labels for each in examples]}
    )
    return SFTTrainer(
        model=base.model,
        args=arguments,
        train_dataset=dataset,
        processing_class=base.tokenizer,
        peft_config=peft_config(config),
    )
