"""An evaluation on disk: who was asked what, its episodes, and what its back ends cost.

FOLDER/evaluation.json          an `Evaluation`, written first and sealed; a folder goes on with the same only
FOLDER/episodes/CELL/*.parquet  rows of `AgentEpisode`: a shard of questions each, with its receipt beside it
FOLDER/report.md, table.parquet, plots/*.png   made of them anew by `evaluation.report`
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trailforge.retrieval.seals import SEAL, is_as_sealed, seal
from trailforge.schemas import InvalidInput, from_dict, parse_json, read_rows, to_dict
from trailforge.schemas.agent_episode import AgentEpisode

MANIFEST = "evaluation.json"
EPISODES = "episodes"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoice:
    """One agent with its numbers."""

    name: str
    config: dict[str, Any]
    hash: str
    """Of name and numbers: the `agent_config` of its episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChoice:
    """One back end with what it searches, and what making that took: the offline side of the table."""

    name: str
    index: str = ""
    """Hash of what is searched, as in the episodes; empty: the question's own paragraphs, or the web."""
    config: dict[str, Any] = field(default_factory=dict)
    build_hours: float | None = None
    """None: not known, as of a server. So are the others."""
    hours_per_million: float | None = None
    """Per million tokens of the corpus."""
    cost: float | None = None
    """Of the model calls of its build, in the currency of the prices."""
    cost_per_million: float | None = None
    calls: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A grid: every agent over every back end with every model and seed, on the same questions."""

    format: int = FORMAT
    questions: str
    """Name of the file."""
    questions_sha256: str
    dataset: str
    num_questions: int
    agents: tuple[AgentChoice, ...]
    backends: tuple[BackendChoice, ...]
    models: tuple[str, ...]
    """As the episodes name them."""
    seeds: tuple[int, ...]
    top_k: int
    judge: str = ""
    """The judging model; empty: none."""
    price_prompt: float | None = None
    """Of a million tokens, for the online cost; None: not known. So is the next."""
    price_completion: float | None = None
    versions: dict[str, str] = field(default_factory=dict)
    seal: str = ""
    """See `retrieval.seals`."""


def write_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """Seal and write it. Raises `OSError`."""
    content = to_dict(evaluation)
    del content[SEAL]
    (folder / MANIFEST).write_text(json.dumps(seal(content), indent=1, ensure_ascii=False), encoding="utf-8")


def read_evaluation(folder: Path) -> Evaluation:
    """The grid of a folder. Raises `InvalidInput` when it holds none, or a damaged one."""
    path = folder / MANIFEST
    try:
        content = parse_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(
            f"{folder} holds no evaluation: make one with `trailforge evaluate`, and give the folder it wrote"
        ) from error
    except ValueError as error:
        raise InvalidInput(f"{path} is damaged: evaluate into a new folder") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidInput(f"{path} is not of evaluation format {FORMAT}: evaluate into a new folder")
    if SEAL not in content or not is_as_sealed(content):
        raise InvalidInput(f"{path} is damaged: evaluate into a new folder")
    return from_dict(Evaluation, content)


def read_episodes(folder: Path, cell: str = "*") -> Iterator[AgentEpisode]:
    """Its episodes, those of finished shards, in the order of cells and shards. `cell`: a pattern of folder names."""
    yield from read_rows(sorted((folder / EPISODES).glob(f"{cell}/*.parquet")), AgentEpisode)
