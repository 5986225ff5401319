"""Open what agents search in training and evaluation: a corpus, or the documents and paragraphs of finished runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trailforge.pipelines.runs import MANIFEST
from trailforge.protocols import Grammar
from trailforge.protocols.browse import BrowseQuestions, asking_of
from trailforge.protocols.environment import Environment, EnvironmentConfig
from trailforge.protocols.environment import open_environment as open_over
from trailforge.retrieval import corpus_hash
from trailforge.retrieval.indexes import distinct, file_hash, read_corpus
from trailforge.retrieval.service import is_address
from trailforge.schemas import Document, InvalidInput, Question, SourceDocument
from trailforge.training.sets.runs import open_runs


def open_training_environment(
    protocol: str,
    documents: Sequence[Path],
    *,
    search: EnvironmentConfig | None = None,
    kg: Path | str | None = None,
    top_k: int = 5,
) -> Environment:
    """Open what a protocol's agents search.

    `documents` are finished runs, or one corpus: an index, or a file of passages. Questions over their own paragraphs
    search all paragraphs of their runs. `search` says how it is searched, by default as the index says. For the web and
    for a server no documents are read. `kg` is a graph's folder, or the URL of a server that has one. Raises
    `InvalidInput` for what is missing, such as a back end or a live tool's key, or cannot be searched so, and
    `RetrievalError` for a missing package, model or index, and for a damaged graph.
    """
    grammar, search = asking_of(protocol), search or EnvironmentConfig()
    kg = kg if grammar.searches == "graph" else None
    documents = () if search.is_remote else documents
    environment = open_over(grammar, _corpus(grammar, documents), search=search, kg=kg, top_k=top_k)
    searched = {
        "documents": [_hash_source(path) for path in documents],
        **environment.searched,
        "kg": _hash_graph(kg) if kg else None,
    }
    return replace(environment, searched=searched)


def _corpus(
    grammar: Grammar | BrowseQuestions, documents: Sequence[Path]
) -> Path | Sequence[Document] | Sequence[SourceDocument] | None:
    if not documents:
        return None
    if grammar.searches == "plan":
        return _source_documents(documents)
    if _are_runs(documents):
        return _distinct(documents_of_runs(documents))
    if grammar.searches == "pages" and documents[0].is_file():
        return list(read_corpus(documents[0]))  # whose pages an agent opens
    return documents[0]


def _hash_source(path: Path) -> str:
    """SHA-256 of a corpus; of a run or a graph that of its manifest, which has the hashes of the other files."""
    return file_hash(path / MANIFEST) if (path / MANIFEST).is_file() else corpus_hash(path)


def _hash_graph(kg: Path | str) -> str:
    """Of a server, which does not tell what it holds, the URL."""
    return kg if isinstance(kg, str) and is_address(kg) else _hash_source(Path(kg))


def _are_runs(documents: Sequence[Path]) -> bool:
    """Raises `InvalidInput` for several corpora, or a mixture."""
    runs = [(path / MANIFEST).is_file() for path in documents]
    if not all(runs) and len(documents) > 1:
        raise InvalidInput(
            "expected finished runs, or one corpus; not both, and not several corpora",
            file=documents[runs.index(False)],
        )
    return all(runs)


def documents_of_runs(folders: Sequence[Path]) -> Iterator[Document]:
    """Read the documents and the questions' paragraphs of finished runs. Raises what `open_runs` raises."""
    for run in open_runs(folders):
        for source in run.rows("documents", SourceDocument):
            yield source.document
        for question in run.rows("inputs", Question):
            yield from question.paragraphs


def _distinct(documents: Iterable[Document]) -> list[Document]:
    """See `corpus.distinct`. Raises `InvalidInput` for none."""
    found = list(distinct(documents))
    if not found:
        raise InvalidInput("the runs hold neither documents nor questions with paragraphs; give a corpus")
    return found


def _source_documents(folders: Sequence[Path]) -> list[SourceDocument]:
    """Documents with their kinds, by which the tools of a plan differ. Raises `InvalidInput` where there are none."""
    if not _are_runs(folders):
        raise InvalidInput("plans search news and abstracts: give a finished run with documents", file=folders[0])
    found = [source for run in open_runs(folders) for source in run.rows("documents", SourceDocument)]
    if not found:
        raise InvalidInput("holds no documents: give a finished run that has some", file=folders[0])
    return found
