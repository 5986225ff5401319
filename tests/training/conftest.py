"""A tiny model, made once for all tests of training."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.tiny import save_tiny_model
from trailforge.training.weights import load_tokenizer


@pytest.fixture(autouse=True)
def _libraries_are_no_garbage() -> Iterator[None]:
    """A trainer looks for garbage at its end, in all that was imported for the first one too."""
    before = len(sys.modules)
    yield
    if len(sys.modules) > before + 100:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random model with its tokenizer."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="session")
def tokenizer(tiny_model: Path) -> Any:
    """The tiny model's, made ready."""
    return load_tokenizer(str(tiny_model))
