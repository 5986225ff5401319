"""Train on conversations as they are: supervised (SFT), or on pairs of which one is better (DPO).

The masks are ours (`training.masks`); TRL's trainers get tokens and labels and make neither. The supervised loss is the
mean over all trained tokens of an optimizer step, over all processes: eq. 10 of MSearcher, pooled over the batch. That
of a pair is taken on the agent's turns from where the two part: what they have in common is context alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trailforge.schemas import ChatMessage, InvalidInput, PreferenceRow, SftRow
from trailforge.training.config import DpoConfig, SftConfig, TrainPreset
from trailforge.training.masks import MaskedTokens, masked_tokens
from trailforge.training.native import conversation_of, native_tokens
from trailforge.training.processes import log, processes
from trailforge.training.sets.files import open_set, rows_of
from trailforge.training.trl.fit import (
    begin,
    count_accumulated,
    finish,
    fit,
    peft_config,
    trainer_arguments,
    weight_settings,
)
from trailforge.training.trl.memory import check_memory
from trailforge.training.trl.work import describe_dpo, describe_sft
from trailforge.training.weights import Base, load_base, load_model, load_tokenizer
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
    """Train on the rows in `training_set`/sft/train, and return the folder of the trained model.

    Run by `accelerate launch` or torchrun, all processes call it. Raises `InvalidInput` for a training set, a base
    model or a batch that does not fit, `OutputError` for a folder that holds something else; then nothing is written.
    """
    from trl.trainer.sft_config import SFTConfig as TrlConfig

    config = preset.sft
    rows = rows_of(training_set, "sft", "train", SftRow)
    accumulated = count_accumulated(config.batch_size, config.per_device, processes(), field="sft.batch_size")
    source = resolved(base_model or config.base_model)
    # Before the model: this makes the processes one group, without which each would load all of its weights.
    arguments = TrlConfig(
        **trainer_arguments(config, out, accumulated, max_steps=max_steps),
        max_length=config.max_tokens,
        packing=config.packing,
    )
    check_memory(source, config, config.max_tokens)
    base = load_base(source, attention=config.attention)
    base.check_learns(config)
    masks_mistakes = open_set(training_set).masks_mistakes
    template = choose_template(base, rows, training_set)
    examples, left_out = tokenise(
        base.tokenizer, rows, config.max_tokens, masks_mistakes=masks_mistakes, template=template
    )
    if template is not None:
        base.tokenizer.chat_template = template  # with which the model is saved, as it is served with it
    if not examples:
        raise InvalidInput(
            f"no conversation has a token to train within {config.max_tokens}; raise sft.max_tokens", file=training_set
        )
    decided = {"config": weight_settings(config)}
    checkpoint = begin("sft", source, training_set, out, decided, max_steps=max_steps, resume=resume)
    trainer = _trainer(base, examples, arguments, config)
    lengths, trained = [len(each.input_ids) for each in examples], sum(sum(each.mask) for each in examples)
    log(describe_sft(base.model, config, lengths, trained=trained, max_steps=max_steps))
    done = fit(trainer, out, checkpoint)
    figures = {
        "rows": len(examples),
        "left_out": left_out,
        "trained_tokens_per_epoch": trained,
        "loss": done.training_loss,
        "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
    }
    return finish("sft", trainer, base.tokenizer, out, figures, done.metrics["train_runtime"])


def choose_template(base: Base, rows: Sequence[SftRow], training_set: Path) -> str | None:
    """Return the model's own chat template where a row has native calls, since servers write calls and tools with it
    and the whole set is trained in it; else None. Raises `InvalidInput` for a model without one.
    """
    if all(row.native is None for row in rows):
        return None
    if base.own_template is None:
        raise InvalidInput(
            f"the set has native tool calls, which are trained in a model's own chat template, and {base.name} has "
            "none; take another model, or `training-set --writings tags`",
            file=training_set,
        )
    return base.own_template


def tokenise(
    tokenizer: Any,
    rows: Sequence[SftRow],
    max_tokens: int,
    *,
    masks_mistakes: bool = False,
    template: str | None = None,
) -> tuple[list[MaskedTokens], dict[str, int]]:
    """Return rows as tokens and labels, and how many are left out: `too_long`, and `untrained` for those without a
    token to learn. `masks_mistakes`: whether mistaken claims have no loss. `template` is the model's own chat template,
    for sets with native calls (`training.native`); None means ours. Raises `InvalidInput`, naming the row whose text
    could be mistaken for a turn's marks.
    """
    examples, left_out = [], {"too_long": 0, "untrained": 0}
    for number, row in enumerate(rows, start=1):
        try:
            unlearnt = [span for span in row.spans if span.kind == "mistake"] if masks_mistakes else ()
            if template is None:
                made = [masked_tokens(tokenizer, row.messages, row.train, unlearnt)]
            elif unlearnt:
                raise InvalidInput(
                    "mistakes are masked in our own template alone; make the set with `--mistakes train`", field="spans"
                )
            else:
                made = native_tokens(tokenizer, conversation_of(row), row.train, template)
        except InvalidInput as error:
            raise InvalidInput(f"{row.uid}: {error.problem}", row=number, field=error.field) from error
        for example in made:
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


def train_dpo(
    training_set: Path,
    preset: TrainPreset,
    out: Path,
    *,
    base_model: str | None = None,
    resume: bool = False,
    max_steps: int | None = None,
) -> Path:
    """Train on the pairs in `training_set`/pairs/train in the preset's protocol, and return the trained model's folder.

    Run by `accelerate launch` or torchrun, all processes call it. Raises what `train_sft` raises; also `InvalidInput`
    for a preset without the section `dpo`, and for a model without the ChatML tokens, since the reference model is
    loaded from its original folder.
    """
    from trl.trainer.dpo_config import DPOConfig

    config = preset.dpo
    if config is None:
        raise InvalidInput(
            "the preset has no such section; add one with batch_size, max_tokens, learning_rate …", field="dpo"
        )
    rows = _pairs_of(training_set, preset.protocol)
    accumulated = count_accumulated(config.batch_size, config.per_device, processes(), field="dpo.batch_size")
    source = resolved(base_model or config.base_model)
    arguments = DPOConfig(
        **trainer_arguments(config, out, accumulated, max_steps=max_steps),
        beta=config.beta,
        max_length=None,
        remove_unused_columns=False,
    )
    tokenizer = load_tokenizer(source)
    examples, too_long = tokenise_pairs(tokenizer, rows, config.max_tokens)
    if not examples:
        raise InvalidInput(f"no pair fits into {config.max_tokens} tokens; raise dpo.max_tokens", file=training_set)
    check_memory(source, config, 2 * config.max_tokens, with_reference=True)  # both conversations at once
    model = load_model(source, attention=config.attention)
    decided = {"config": weight_settings(config)}
    checkpoint = begin("dpo", source, training_set, out, decided, max_steps=max_steps, resume=resume)
    trainer = _pair_trainer(model, tokenizer, examples, arguments, config)
    lengths = [len(each["chosen_ids"]) + len(each["rejected_ids"]) for each in examples]
    trained = sum(sum(each["chosen_mask"]) + sum(each["rejected_mask"]) for each in examples)
    log(describe_dpo(model, config, lengths, trained=trained, max_steps=max_steps))
    done = fit(trainer, out, checkpoint)
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    figures = {
        "rows": len(examples),
        "left_out": {"too_long": too_long},
        "losses": [entry["loss"] for entry in history],
        "accuracies": [entry["rewards/accuracies"] for entry in history],
    }
    return finish("dpo", trainer, tokenizer, out, figures, done.metrics["train_runtime"])


def tokenise_pairs(
    tokenizer: Any, rows: Sequence[PreferenceRow], max_tokens: int
) -> tuple[list[dict[str, list[int]]], int]:
    """Return pairs as tokens and masks of both conversations, and how many are left out because one of the two is too
    long. Raises `InvalidInput`, naming the pair whose text could be mistaken for a turn's marks.
    """
    examples, too_long = [], 0
    for number, row in enumerate(rows, start=1):
        try:
            chosen, rejected = (_end(tokenizer, row.prompt, end) for end in (row.chosen, row.rejected))
        except InvalidInput as error:
            raise InvalidInput(f"{row.uid}: {error.problem}", row=number, field=error.field) from error
        if max(len(chosen.input_ids), len(rejected.input_ids)) > max_tokens:
            too_long += 1
            continue
        examples.append(
            {
                "chosen_ids": chosen.input_ids,
                "chosen_mask": chosen.mask,
                "rejected_ids": rejected.input_ids,
                "rejected_mask": rejected.mask,
            }
        )
    if too_long:
        log(f"of {len(rows)} pairs {too_long} have a conversation of more than {max_tokens} tokens and are left out")
    return examples, too_long


def _end(tokenizer: Any, prompt: Sequence[ChatMessage], end: Sequence[ChatMessage]) -> MaskedTokens:
    train = (*(False for _ in prompt), *(message.role == "assistant" for message in end))
    return masked_tokens(tokenizer, (*prompt, *end), train)


def _pairs_of(training_set: Path, protocol: str) -> list[PreferenceRow]:
    rows = rows_of(training_set, "pairs", "train", PreferenceRow)
    own = [row for row in rows if row.protocol == protocol]
    if not own:
        others = ", ".join(sorted({row.protocol for row in rows}))
        raise InvalidInput(
            f"pairs/train has no pair in the protocol {protocol}; take a preset with one of {others}",
            file=training_set,
            field="protocol",
        )
    if len(own) < len(rows):
        log(f"pairs/train: {len(own)} of {len(rows)} pairs are in {protocol}; the others are left out")
    return own


def _pair_trainer(
    model: Any, tokenizer: Any, examples: list[dict[str, list[int]]], arguments: Any, config: DpoConfig
) -> Any:
    from datasets import Dataset
    from trl.trainer.dpo_trainer import DPOTrainer

    class Trainer(DPOTrainer):
        """TRL's, which takes tokens and masks as they are."""

        def _prepare_dataset(self, dataset: Any, *others: Any, **options: Any) -> Any:
            return dataset

    return Trainer(
        model=model,
        args=arguments,
        data_collator=_make_collator(tokenizer.pad_token_id),
        train_dataset=Dataset.from_list(examples),
        processing_class=tokenizer,
        peft_config=peft_config(config),
    )


def _make_collator(pad_token_id: int) -> Any:
    """Examples as TRL's loss wants them: the better halves, then the worse ones, padded on the right."""
    import torch

    def padded(rows: Sequence[Sequence[int]], value: int) -> Any:
        width = max(map(len, rows))
        return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])

    def collate(examples: Sequence[dict[str, list[int]]]) -> dict[str, Any]:
        ids = [each[f"{half}_ids"] for half in ("chosen", "rejected") for each in examples]
        masks = [each[f"{half}_mask"] for half in ("chosen", "rejected") for each in examples]
        return {
            "input_ids": padded(ids, pad_token_id),
            "attention_mask": padded([[1] * len(row) for row in ids], 0),
            "completion_mask": padded(masks, 0),
        }

    return collate
