"""Shared parts of back ends that build graphs: the names in passages and questions, personalised PageRank, and
files."""

from __future__ import annotations

import functools
import itertools
import json
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from trailforge.retrieval.backends.declaration import Index
from trailforge.retrieval.entities import CaseCounts, names_of
from trailforge.retrieval.sentences import split_sentences
from trailforge.retrieval.words import COMMON_WORDS, strip_accents, words_of, written_words
from trailforge.schemas import Document, InvalidInput, RetrievalError, parse_json

if TYPE_CHECKING:
    import networkx as nx
    from scipy.sparse import csr_array

Kept = TypeVar("Kept", dict[str, Any], list[Any])

_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")
"""What tells titles of one name apart: (1977 film)."""
_LONGEST_NAME = 10
"""Words of a name that is looked up in a text."""
_TOLERANCE = 1e-9
"""Change of all scores together at which PageRank ends; they add up to 1."""
_NAMES, _KEYS = "names.json", "keys.json"
_LEAST_SHARE = 0.499


def key_of(name: str) -> str:
    """Return a key that is equal for names written alike: their words, case-folded, without accents and a leading
    `the`."""
    return " ".join(words_of(strip_accents(name))).removeprefix("the ")


def title_key(title: str) -> str:
    """Return the key of what a title names: without the brackets that distinguish it from others of the same name."""
    return key_of(_QUALIFIER.sub("", title)) or key_of(title)


def min_max(scores: np.ndarray) -> np.ndarray:
    """Scale scores linearly to 0 … 1; all become 1 when they are all the same."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)


class NamedSentence(NamedTuple):
    """A sentence of a passage with the names in it."""

    passage: int
    """Row of the passage."""
    text: str
    names: list[str]
    """Keys of the names in the sentence, once for each occurrence."""


class NameFinder:
    """Finds names in texts: runs of capitalised words, titles, and in questions all names that the passages have.

    A title or known name is found where it is capitalised as a title is, or in a question without any capitals.
    """

    def __init__(self, titles: Iterable[str], counts: CaseCounts) -> None:
        """`titles`: keys of titles. `counts`: of texts like those that will be read."""
        self._counts = counts
        self._title_keys = {key for key in titles if key and not self._is_common(key)}

    @classmethod
    def of(cls, documents: Sequence[Document]) -> NameFinder:
        """Return a finder that has read these documents, which takes a second for 2,000 to 4,000 of them."""
        return cls({title_key(d.title) for d in documents}, CaseCounts.of(d.text for d in documents))

    @classmethod
    def open(cls, folder: Path) -> NameFinder:
        """Open the file that `save` wrote. Raises `RetrievalError` for other files."""
        kept = _read(folder / _NAMES, dict)
        return cls(kept["titles"], CaseCounts(Counter(dict.fromkeys(kept["ordinary"], 1)), Counter()))

    def save(self, folder: Path) -> None:
        """Write the finder's data for names in questions to a file; of word counts only those of ordinary words are
        kept.
        """
        words = {word for word in (*self._counts.plain, *self._counts.capital) if " " not in word and word[0] != "("}
        ordinary = sorted(word for word in words if self._counts.is_ordinary(word) and word not in COMMON_WORDS)
        kept = json.dumps({"titles": sorted(self._title_keys), "ordinary": ordinary}, ensure_ascii=False)
        (folder / _NAMES).write_text(kept, encoding="utf-8")

    def sentences(self, documents: Iterable[Document]) -> Iterator[NamedSentence]:
        """Return the sentences of documents with their names; the title of the passage is among the names of each
        sentence.

        A document without a sentence has one, its title.
        """
        for row, document in enumerate(documents):
            own = title_key(document.title)
            for sentence in split_sentences(document.text) or [document.title]:
                names = self.names(sentence)
                yield NamedSentence(row, sentence, names if not own or own in names else [own, *names])

    def titles(self, text: str) -> list[str]:
        """Return the keys of the titles in a text in their order, once for each occurrence."""
        return list(self._known(text, self._title_keys, is_lenient=False))

    def names(self, text: str) -> list[str]:
        """Return the keys of the titles in a text, then of its other names, once for each occurrence."""
        titled = self.titles(text)
        covered = {key for long in titled for key in parts_of(long)}
        found = [(key_of(name.text), name.count) for name in names_of("", text, self._counts)]
        return titled + [key for key, count in found if key and key not in covered for _ in range(count)]

    def question_names(self, question: str, known: Mapping[str, int]) -> list[str]:
        """Return the keys of the names in a question, each once: first those that are among the keys of `known` (as the
        names of an index by row), then others."""
        is_lenient = not any(map(str.isupper, question[1:]))
        matched = list(dict.fromkeys(self._known(question, known, is_lenient=is_lenient)))
        covered = {part for key in matched for part in parts_of(key)}
        written = (key_of(name.text) for name in names_of("", question, self._counts))
        return [*matched, *dict.fromkeys(key for key in written if key and key not in covered)]

    def _known(self, text: str, known: Mapping[str, int] | set[str], *, is_lenient: bool) -> Iterator[str]:
        """Known names from left to right, at each place the longest."""
        words = written_words(strip_accents(text))
        folded = [word.casefold() for word in words]
        at = 0
        while at < len(words):
            for end in range(min(at + _LONGEST_NAME, len(words)), at, -1):
                key = " ".join(folded[at:end])
                if key in known and self._is_written(words[at:end], key, is_lenient=is_lenient):
                    yield key
                    at = end - 1
                    break
            at += 1

    def _is_written(self, words: Sequence[str], key: str, *, is_lenient: bool) -> bool:
        """Whether these words name something here and do not just say it."""
        if self._is_common(key):
            return False
        if is_lenient:
            return len(words) > 1 or not self._counts.is_ordinary(key)
        return all(not word[0].islower() or word in COMMON_WORDS for word in words) and not words[0][0].islower()

    def _is_common(self, key: str) -> bool:
        return all(word in COMMON_WORDS or len(word) < 2 for word in key.split(" "))


def parts_of(key: str) -> Iterator[str]:
    """Return all runs of words of a key, the key itself included."""
    words = key.split(" ")
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            yield " ".join(words[start:end])


class PassageGraph:
    """An undirected graph with weights, for personalised PageRank.

    Power iteration over a sparse matrix, which lets other threads run (igraph's prpack holds Python's lock for the
    whole call) and can be memory-mapped. It agrees with prpack to 1e-8 and takes less time; a walk over 20,000 nodes
    and 100,000 edges takes 13 ms, `networkx.pagerank` 950 ms for the same scores.
    """

    def __init__(self, transitions: csr_array) -> None:
        """`transitions`: shape (nodes, nodes), columns that add up to 1, or to 0 for a node without an edge."""
        self._transitions = transitions

    @classmethod
    def of(cls, nodes: int, edges: np.ndarray, weights: np.ndarray) -> PassageGraph:
        """Make a graph from edges, shape (edges, 2), and their weights, not negative; weights of the same two nodes add
        up."""
        from scipy.sparse import coo_array, diags_array

        one, other = edges.reshape(-1, 2).T.astype(np.int32)
        there = coo_array((weights, (one, other)), shape=(nodes, nodes)).tocsr()
        matrix = (there + there.T).tocsr()
        degree = np.asarray(matrix.sum(axis=0)).ravel()
        inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
        return cls((matrix @ diags_array(inverse)).tocsr())

    def __len__(self) -> int:
        return len(self._transitions.indptr) - 1

    def page_rank(self, reset: np.ndarray, damping: float) -> np.ndarray:
        """Return the probabilities of a random walk that continues with probability `damping`, and else restarts
        according to `reset`, shape (nodes,), with at least one positive value. A walk that finds no edge restarts. The
        scores add up to 1.
        """
        start = (1 - damping) / reset.sum() * reset
        before, scores, factor = np.zeros_like(start), start, 2.0
        while True:
            # Chebyshev's step: the walk's eigenvalues are real and between -1 and 1, which halves the steps.
            factor = 1 / (1 - damping * damping * factor / 4)
            moved = damping * (self._transitions @ scores)
            moved += start
            moved -= before
            moved *= factor
            moved += before
            change = np.abs(moved - scores).sum()
            before, scores = scores, moved
            if change < _TOLERANCE:
                return scores / scores.sum()

    def save(self, folder: Path) -> None:
        """Write the passage graph to files in a folder."""
        save_sparse(folder, "graph", self._transitions)

    @classmethod
    def open(cls, folder: Path) -> PassageGraph:
        """Open the files that `save` wrote, memory-mapped. Raises `RetrievalError` for other files."""
        return cls(open_sparse(folder, "graph"))


class KnownNames:
    """The names of an index, by the keys under which equal names are found."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys
        self.rows: Mapping[str, int] = {key: row for row, key in enumerate(keys)}

    def nearest(self, key: str) -> tuple[int, float] | None:
        """Find the known name that shares most words with a key; return its row, and the share of the words of both
        that they have in common, 0 to 1.

        Returns None when that is less than half. Of several the first one is taken.
        """
        words = set(key.split(" "))
        best = None
        for row in sorted({row for word in words for row in self._with_word.get(word, ())}):
            there = set(self.keys[row].split(" "))
            share = len(words & there) / len(words | there)
            if share > (best[1] if best else _LEAST_SHARE):
                best = row, share
        return best

    @functools.cached_property
    def _with_word(self) -> Mapping[str, Sequence[int]]:
        """The rows of names with a word. Words that say nothing lead to none."""
        rows = defaultdict[str, list[int]](list)
        for row, key in enumerate(self.keys):
            for word in set(key.split(" ")) - COMMON_WORDS:
                rows[word].append(row)
        return rows

    def save(self, folder: Path) -> None:
        """Write the names to a file."""
        (folder / _KEYS).write_text(json.dumps(self.keys, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> KnownNames:
        """Open the file that `save` wrote. Raises `RetrievalError` for other files."""
        return cls(_read(folder / _KEYS, list))


# A part of a graph, for who looks at it

Place = tuple[str, int]
"""A node of a back end's graph: its kind (`passage`, `name`, `fact`, …), and its row among the nodes of that kind."""
Link = tuple[Place, dict[str, float | str]]
"""A neighbour of a node, with the attributes of the edge to it, such as `weight`."""
_MOST_NODES = 1_000


@runtime_checkable
class LinkedIndex(Protocol):
    """The interface of an index that is a graph, for looking at it node by node."""

    @property
    def documents(self) -> Sequence[Document]:
        """Return the passages of the index, which are the nodes of kind `passage`."""
        ...

    def places_of(self, name: str) -> Iterable[Place]:
        """Return the nodes that a name stands for, apart from passages."""
        ...

    def text_of(self, place: Place) -> str:
        """Return the text of a node of the graph that is no passage."""
        ...

    def links_of(self, place: Place) -> Iterable[Link]:
        """Return the neighbours of a node."""
        ...


def neighbourhood(index: Index, around: Sequence[str], hops: int = 2, most: int = _MOST_NODES) -> nx.Graph:
    """Return the graph within this number of edges around names, or around passages by their ids: the nearest `most`
    nodes.

    Nodes are named `KIND ROW` and have `kind`, `text` and, for passages, `id` and `title`. Raises `InvalidInput` for an
    index that is no graph, and for a name that it does not have.
    """
    import networkx as nx

    if not isinstance(index, LinkedIndex):
        raise InvalidInput(
            "the index's back end has no graph; give an index of linear_rag, hippo_rag, raptor or another graph"
        )
    rows = {document.id: row for row, document in enumerate(index.documents)}
    seeds = [("passage", rows[name]) for name in around if name in rows]
    seeds += [place for name in around if name not in rows for place in index.places_of(name)]
    if not seeds:
        raise InvalidInput(
            f"nothing of the index has the name or id {', '.join(around) or '(none is given)'}; give another"
        )
    found = dict.fromkeys(seeds[:most])
    ring = list(found)
    for _ in range(hops):
        reached = (other for place in ring for other, _ in index.links_of(place) if other not in found)
        ring = list(dict.fromkeys(itertools.islice(reached, most)))[: most - len(found)]
        found |= dict.fromkeys(ring)
    graph = nx.Graph()
    for kind, row in found:
        document = index.documents[row] if kind == "passage" else None
        own = {"id": document.id, "title": document.title} if document else {}
        text = document.text if document else index.text_of((kind, row))
        graph.add_node(f"{kind} {row}", kind=kind, text=text, **own)
    for place in found:
        for other, said in index.links_of(place):
            if other in found:
                graph.add_edge("{} {}".format(*place), "{} {}".format(*other), **said)
    return graph


def linked(kind: str, matrix: csr_array, row: int) -> Iterator[Link]:
    """Return the columns in which a row of a matrix has values, as neighbours of this kind in a graph; a value is the
    weight of the edge."""
    for other, weight in zip(*(each.tolist() for each in row_of(matrix, row)), strict=True):
        yield (kind, other), {"weight": float(weight)}


def count_places(places: array[int], shape: tuple[int, int]) -> csr_array:
    """Return a sparse matrix that says how many times each position is among `places`: row, column, row, column, …"""
    from scipy.sparse import coo_array

    rows, columns = np.asarray(places, np.int32).reshape(-1, 2).T
    return coo_array((np.ones(len(rows)), (rows, columns)), shape=shape).tocsr()


def row_of(matrix: csr_array, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of a row, ascending, and their values."""
    start, end = matrix.indptr[row], matrix.indptr[row + 1]
    return matrix.indices[start:end], matrix.data[start:end]


def save_sparse(folder: Path, name: str, matrix: csr_array) -> None:
    """Write a matrix to four `.npy` files in a folder."""
    for part in ("data", "indices", "indptr"):
        np.save(folder / f"{name}_{part}.npy", getattr(matrix, part))
    np.save(folder / f"{name}_shape.npy", np.array(matrix.shape))


def open_sparse(folder: Path, name: str) -> csr_array:
    """Open the files that `save_sparse` wrote, memory-mapped. Raises `RetrievalError` for other files."""
    from scipy.sparse import csr_array

    try:
        parts = (np.load(folder / f"{name}_{part}.npy", mmap_mode="r") for part in ("data", "indices", "indptr"))
        shape = tuple(int(n) for n in np.load(folder / f"{name}_shape.npy"))
        return csr_array(tuple(parts), shape=shape)
    except (OSError, ValueError) as error:
        raise RetrievalError(f"{folder / name} is missing or damaged ({error}): build the index again") from error


def _read(path: Path, kind: type[Kept]) -> Kept:
    try:
        kept = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RetrievalError(f"{path} is missing or damaged ({error}): build the index again") from error
    if not isinstance(kept, kind):
        raise RetrievalError(f"{path} is damaged: build the index again")
    return kept
