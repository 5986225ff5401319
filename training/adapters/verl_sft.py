"""Rows of tokens for verl's supervised trainer, as `trailforge export --to verl --base-model MODEL` writes them.

    data.custom_cls.path=pkg://trailforge.training.adapters.verl_sft data.custom_cls.name=TokenDataset

verl's own data set puts each turn into the chat template by itself; these rows are what a server reads of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from trailforge.schemas import InvalidInput


class TokenDataset(torch.utils.data.Dataset[dict[str, Any]]):
    """A data set of rows with `input_ids` and `loss_mask`, which replaces verl's `MultiTurnSFTDataset`."""

    def __init__(
        self,
        parquet_files: str | Sequence[str],
        tokenizer: Any,
        config: Mapping[str, Any],
        processor: Any = None,
        max_samples: int = -1,
    ) -> None:
        """As verl calls it. Raises `InvalidInput` where rows are to be padded."""
        if config.get("pad_mode", "no_padding") != "no_padding":
            raise InvalidInput("rows of tokens are never padded; set it to no_padding", field="data.pad_mode")
        files = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        rows = pa.concat_tables(pq.read_table(file, columns=["input_ids", "loss_mask"]) for file in files)
        self._rows = rows.slice(0, max_samples) if max_samples > 0 else rows
        self._longest, self._cuts = int(config.get("max_length", 1024)), config.get("truncation", "error") != "error"

    def __len__(self) -> int:
        return self._rows.num_rows

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Return a row. Raises `InvalidInput` for one that is too long, unless it is to be cut at its end."""
        ids, mask = (torch.tensor(self._rows[name][number].as_py()) for name in ("input_ids", "loss_mask"))
        if len(ids) > self._longest and not self._cuts:
            raise InvalidInput(
                f"row {number} has {len(ids)} tokens, and {self._longest} fit; raise it", field="data.max_length"
            )
        end = min(len(ids), self._longest)
        return {"input_ids": ids[:end], "position_ids": torch.arange(end), "loss_mask": mask[:end]}
