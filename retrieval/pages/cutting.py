"""Cut documents into pages: into parts to open, and each part into passages to search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from trailforge.retrieval.indexes.corpus import Chunking, CountTokens, cut
from trailforge.retrieval.pages.text import PART_WORDS, part_starts
from trailforge.schemas import Document, InvalidInput, count_tokens

PASSAGE_TOKENS = 200
"""Of a passage where nobody says how many: encoders read 256 to 512 with the title."""
_PLACE = re.compile(r"(.+)#(\d+)\.\d+", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """How documents are divided into pages, and pages into parts."""

    words: int = PART_WORDS
    """Largest number of words of a part. Sentences stay whole, unless one alone is longer."""

    def __post_init__(self) -> None:
        if self.words < 1:
            raise InvalidInput("has to be 1 or more", field="page_words")


def cut_pages(
    documents: Iterable[Document], paging: Paging, chunking: Chunking, count: CountTokens
) -> Iterator[Document]:
    """Divide each document into parts, and each part into passages; yield the passages, none of which crosses the end
    of a part. Their ids are `PAGE#PART.N`, both numbers from 1. `count` counts the tokens that `chunking` limits.
    """
    for page in documents:
        starts = part_starts(page.text, paging.words)
        for part, (first, last) in enumerate(zip(starts, [*starts[1:], len(page.text)], strict=True), start=1):
            whole = replace(page, text=page.text[first:last])
            for number, passage in enumerate(cut([whole], chunking, count), start=1):
                yield replace(passage, id=f"{page.id}#{part}.{number}")


def passages_of(
    documents: Iterable[Document], chunking: Chunking | None, paging: Paging | None, count: CountTokens
) -> Iterable[Document]:
    """Return the texts of a corpus that a search finds: the passages of its pages' parts where `paging` is given, else
    with `chunking` the passages of its documents, and with neither the documents themselves. `count` counts the tokens
    that `chunking` limits.
    """
    if paging is not None:
        return cut_pages(documents, paging, chunking or Chunking(tokens=PASSAGE_TOKENS), count)
    return cut(documents, chunking, count) if chunking else documents


def count_all(texts: Sequence[str]) -> list[int]:
    """Return the estimated number of tokens of each text, where no encoder's tokenizer counts them."""
    return [count_tokens(text) for text in texts]


def place_of(passage: str) -> tuple[str, int] | None:
    """Return page and part from a passage's id; None for an id that `cut_pages` does not make."""
    found = _PLACE.fullmatch(passage)
    return (found[1], int(found[2])) if found else None
