"""Find the licences that apply to the rows of a run: those of the model that wrote them, and of its inputs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow.parquet as pq

from trailforge.inference.packaged import packaged_licence
from trailforge.pipelines.runs.config import CardConfig
from trailforge.pipelines.runs.intake import INPUTS
from trailforge.retrieval import WEB, RetrievalConfig

_PUBLISHED: Mapping[str, str] = MappingProxyType(
    {"musique": "CC BY 4.0", "hotpotqa": "CC BY-SA 4.0", "2wikimultihopqa": "Apache-2.0"}
    | {"morehopqa": "CC BY 4.0", "bamboogle": "MIT", "frames": "Apache-2.0"}
)
"""Of benchmarks, as their authors publish them. A file is known by its form alone, so it may be another's."""
_HUB_IDS = frozenset(
    "apache-2.0 mit cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-4.0 "
    "cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-nc-nd-4.0 odc-by odbl pddl gfdl".split()
)
"""Licences as hubs name them."""
_MARKUP = re.compile(r"\A#|[\\`*\[\]<>~]|(?<![^\W_])_|_(?![^\W_])")
"""Within a word `_` is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of a run's rows, with its licence."""

    name: str
    rows: int | None = None
    """Number of rows that an input gave; None for what is searched."""
    licence: str = ""
    """Name of the licence; empty when it is not told."""
    note: str = ""

    @property
    def hub_id(self) -> str | None:
        """Return the licence's name on the Hub; None for one that is not stated, or not known there."""
        name = "-".join(self.licence.casefold().split())
        return name if name in _HUB_IDS else None


def of_questions(folder: Path, config: CardConfig) -> list[Source]:
    """Return the benchmarks that a run's questions come from, recognised by the form of their ids."""
    counts = Counter(name for (name,) in _columns(folder, "dataset"))
    return [
        Source(
            name=f"questions ({name or 'of our own form'})",
            rows=count,
            licence=config.questions_licence,
            note="" if config.questions_licence else _note(name),
        )
        for name, count in sorted(counts.items())
    ]


def of_documents(folder: Path) -> list[Source]:
    """Return the publishers of a run's documents, once for each licence."""
    counts = Counter(_columns(folder, "source", "licence"))
    return [Source(name=name, rows=count, licence=licence) for (name, licence), count in sorted(counts.items())]


def front(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the licence fields of a card's front matter: what all sources state, or that the sources have to be
    consulted.
    """
    known = {source.hub_id for source in sources}
    if known and None not in known:
        ids = sorted(each for each in known if each)
        return {"license": ids[0] if len(ids) == 1 else ids}
    return {"license": "other", "license_name": "those-of-the-sources"}


def section(model: str, sources: Iterable[Source], config: CardConfig) -> str:
    """Write the card's section on licences."""
    of_model = plain(config.model_licence) or packaged_licence(model) or "not known here; its own card tells it"
    lines = [
        "## Licences\n",
        "| what | rows | licence |",
        "|---|---:|---|",
        f"| model {plain(model)} |  | {of_model} |",
    ]
    lines += map(_line, sources)
    return "\n".join(lines) + "\n"


def over_corpus(retrieval: RetrievalConfig, config: CardConfig) -> list[Source]:
    """Return the corpus, server or web that passages come from, as a source; none where passages come with the
    inputs.
    """
    if retrieval.kind == WEB:
        return [Source(name="pages of the web", licence=config.corpus_licence)]
    if retrieval.server:
        known = f" ({retrieval.corpus_hash[:12]})" if retrieval.corpus_hash else ""
        return [Source(name=f"passages of a search server{known}", licence=config.corpus_licence)]
    if not retrieval.corpus_index:
        return []
    return [Source(name=f"passages of {shorten_path(retrieval.corpus_index)}", licence=config.corpus_licence)]


def of_graph(digest: str, config: CardConfig) -> list[Source]:
    """Return the knowledge graph whose manifest has this hash, as a source."""
    return [Source(name=f"facts of the graph {digest[:12]}", licence=config.graph_licence)]


def shorten_path(path: str, parts: int = 2) -> str:
    """Shorten a path to its last parts, since those above differ from machine to machine."""
    return "/".join(Path(path).parts[-parts:]) if Path(path).is_absolute() else path


def plain(text: str) -> str:
    """Make any text safe for a card: on one line, with nothing that is read as Markdown or HTML, or that ends a table's
    cell.
    """
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()).replace("|", "/"))


def _line(source: Source) -> str:
    rows = "" if source.rows is None else f"{source.rows}"
    return f"| {plain(source.name)} | {rows} | {plain(source.licence) or 'not told'}{source.note} |"


def _note(dataset: str) -> str:
    return f" by the file; {_PUBLISHED[dataset]} if it is the published one" if dataset in _PUBLISHED else ""


def _columns(folder: Path, *names: str) -> Iterable[tuple[str, ...]]:
    """These columns of the run's inputs, row by row."""
    for path in sorted((folder / INPUTS).glob("part-*.parquet")):
        table = pq.read_table(path, columns=list(names))
        yield from zip(*(table[name].to_pylist() for name in names), strict=True)
