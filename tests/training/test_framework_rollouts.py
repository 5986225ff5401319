"""Episodes whose turns a framework's server samples: our verl and slime adapters, over servers that follow a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from aiohttp import web

from protocols import nl_dag, r_search
from protocols.grammar import Search, Turn
from retrieval.kg import build_kg, open_source
from schemas import (
    Document, InvalidInput, PlanNode, Question, RequestRefused, RlRow, ServerUnavailable, SourceDocument, to_dict
)  # fmt: skip
from tests.training.tiny import FACTS, SAMPLE, documents, rl_rows, searching
from training.adapters import search_episodes, slime, verl
from training.adapters.search_episodes import SearchSettings, known_of, logprobs_of, read_settings, search_episode
from training.agents import GRAMMARS
from training.generation import Generated
from training.masks import masked_tokens, render
from training.rollouts import TokenEpisode
from training.scoring import score_messages

LOGPROB = -0.25
MAX_TOKENS = 1500


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> SearchSettings:
    """Over the sample's documents and its graph."""
    home = tmp_path_factory.mktemp("searched")
    build_kg(open_source(SAMPLE / "kg"), home / "kg")
    return SearchSettings(
        documents=(str(SAMPLE / "documents.jsonl"),), kg=str(home / "kg"), top_k=2, max_observation_tokens=300, max_searches=3
    )
