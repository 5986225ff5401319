"""What agents search in training and evaluation: a corpus, or the documents and paragraphs of finished runs."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from trailforge.protocols import kg_search, r_search
from trailforge.retrieval import (
    Bm25Retriever,
    DenseIndex,
    DenseRetriever,
    Encoder,
    RetrievalConfig,
    Retriever,
    local_tools,
    open_retrieval,
)
from trailforge.retrieval.dense import META, embedded_text
from trailforge.retrieval.kg import KgStore, KgTool
from trailforge.schemas import Document, InvalidInput, Question, SourceDocument
from trailforge.training.agents import Environment
from trailforge.training.config import SearchConfig
from trailforge.training.sets.runs import MANIFEST, open_runs


def open_environment(
    protocol: str,
    documents: Sequence[Path],
    *,
    search: SearchConfig | None = None,
    kg: Path | None = None,
    top_k: int = 5,
) -> Environment:
    """What a protocol's agent searches. `documents`: finished runs, or one corpus as `trailforge index` reads or makes.

    Questions over their own paragraphs search all paragraphs of their runs. `search`: None for bm25. Raises
    `InvalidInput` for what is missing or cannot be searched so, and `RetrievalError` for a missing package, model or
    index, and for a damaged graph.
    """
    search = search or SearchConfig()
    kg = kg if protocol == kg_search.NAME else None
    graph = _graph(kg) if kg else None
    if not documents:
        environment = Environment(kg=graph, top_k=top_k)
    elif protocol == r_search.NAME:
        embedding = _encoder(search) if search.kind == "dense" else None
        tools = local_tools(_source_documents(documents), encoder=embedding)
        environment = Environment(plan_tools=tools, top_k=top_k)
    else:
        environment = Environment(documents=_retriever(documents, search), kg=graph, top_k=top_k)
    environment.check(protocol)
    searched = {
        "documents": [_hash_of(path) for path in documents],
        "retrieval": search.kind,
        "encoder": search.encoder if search.kind == "dense" else None,
        "kg": _hash_of(kg) if kg else None,
    }
    prefixes = {name: getattr(search, name) for name in ("query_prefix", "passage_prefix") if search.kind == "dense"}
    return replace(environment, searched=searched | {name: text for name, text in prefixes.items() if text})


def _graph(folder: Path) -> KgTool:
    """Every byte of it checked, once for all processes of a training (`KgStore.check_once`)."""
    store = KgStore.open(folder)
    store.check_once()
    return KgTool(store)


def _hash_of(path: Path) -> str:
    """SHA-256 of a corpus' file; of a folder that of the file which has the hashes of the others."""
    if path.is_dir():
        path = next(each for each in (path / MANIFEST, path / META) if each.is_file())
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _encoder(search: SearchConfig) -> Encoder:
    return Encoder(search.encoder, query_prefix=search.query_prefix, passage_prefix=search.passage_prefix)


def _retriever(documents: Sequence[Path], search: SearchConfig) -> Retriever:
    if _are_runs(documents):
        found = _distinct(_documents_of_runs(documents))
        if search.kind == "bm25":
            return Bm25Retriever(found)
        embedding = _encoder(search)
        vectors = embedding.encode_documents([embedded_text(document) for document in found])
        return DenseRetriever(DenseIndex.build(found, vectors), embedding)
    config = RetrievalConfig(**asdict(search), scope="corpus", corpus_index=str(documents[0]))
    nobodys = Question(id="", question="", answer="")  # the corpus is the same for every question
    return asyncio.run(open_retrieval(config).for_question(nobodys))


def _are_runs(documents: Sequence[Path]) -> bool:
    """Raises `InvalidInput` for several corpora, or a mixture."""
    runs = [(path / MANIFEST).is_file() for path in documents]
    if not all(runs) and len(documents) > 1:
        raise InvalidInput("expected finished runs, or one corpus", file=documents[runs.index(False)])
    return all(runs)


def _documents_of_runs(folders: Sequence[Path]) -> Iterable[Document]:
    for run in open_runs(folders):
        for source in run.rows(run.table("corpus"), SourceDocument):
            yield source.document
        for question in run.rows("inputs", Question):
            yield from question.paragraphs


def _distinct(documents: Iterable[Document]) -> list[Document]:
    """Each text once, numbered: ids are unique within a question or a run only. Raises `InvalidInput` for none."""
    texts = {(document.title, document.text): document for document in documents}
    if not texts:
        raise InvalidInput("the runs hold neither documents nor questions with paragraphs; give a corpus")
    return [
        Document(id=str(number), title=document.title, text=document.text)
        for number, document in enumerate(texts.values())
    ]


def _source_documents(folders: Sequence[Path]) -> list[SourceDocument]:
    """Documents with their kinds, by which the tools of a plan differ. Raises `InvalidInput` where there are none."""
    if not _are_runs(folders):
        raise InvalidInput("plans search news and abstracts: give a finished run with documents", file=folders[0])
    found = [source for run in open_runs(folders) for source in run.rows(run.table("corpus"), SourceDocument)]
    if not found:
        raise InvalidInput("holds no documents: give a finished run that has some", file=folders[0])
    return found
