"""Write the files of a world: its rows, its graph, and how runs search it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from trailforge.schemas import KgTriple

NAME = "world"
"""The value of `Question.dataset` in a world's questions."""
_KIND = "instance of"
Item = TypeVar("Item")


def watched(items: Iterable[Item], what: str, total: int, shows_progress: bool) -> Iterator[Item]:
    """Yield the items, with a progress bar on standard error that is labelled `what` and counts to `total`, if
    `shows_progress`.
    """
    if not shows_progress:
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=f"{what}:", total=total, console=Console(stderr=True))


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as JSON Lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_graph(folder: Path, stated: Sequence[KgTriple], kinds_of: Mapping[str, str]) -> None:
    """Write the triples that the documents state as tables which `trailforge kg build` reads."""
    folder.mkdir()
    kinds = {f"kind {kind}": kind for kind in sorted(set(kinds_of.values()))}
    triples = [(each.head, each.relation, each.tail) for each in stated]
    triples += [(entity, _KIND, f"kind {kind}") for entity, kind in sorted(kinds_of.items())]
    entities, relations = dict(kinds), {_KIND: _KIND}
    for each in stated:
        entities |= {each.head: each.head_label, each.tail: each.tail_label}
        relations[each.relation] = each.relation_label
    for name, rows in (("triples", triples), ("entities", entities.items()), ("relations", relations.items())):
        text = "".join("\t".join(row) + "\n" for row in rows)
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")


def retrieval_lines(out: Path) -> str:
    """Return the lines of a preset with which runs search this world."""
    corpus = json.dumps(str(out.absolute() / "corpus.jsonl"))
    return (
        "# For a preset: searches the world's documents.\n"
        f"retrieval: {{kind: bm25, scope: corpus, corpus_index: {corpus}}}\n"
    )
