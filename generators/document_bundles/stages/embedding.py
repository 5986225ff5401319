"""Vectors of the documents that stay, by shard."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from trailforge.generators.document_bundles.config import EncoderConfig
from trailforge.inference import Usage
from trailforge.pipelines.engine.shards import Receipt, Shard, missing_shards, write_receipt, write_table
from trailforge.pipelines.runs.accounting import stage
from trailforge.retrieval.backends.vectors import embedded_text
from trailforge.retrieval.encoder import Encoder
from trailforge.schemas import DocumentEmbedding, SourceDocument, read_parquet

NAME = "embed"
TABLE = "embeddings"


def embed(folder: Path, shards: Sequence[Shard], config: EncoderConfig, beam_options: Sequence[str]) -> None:
    """Write `embeddings/` by shard. Raises `RetrievalError` when the encoder is not there, and as `beam_pipeline`.

    A shard is embedded as one list, since a batch's make-up changes the last bits of a vector: the same shard has the
    same vectors on whatever worker.
    """
    missing = missing_shards(folder, shards)
    if not missing:
        return

    from trailforge.pipelines.engine.beam_work import beam_pipeline

    with beam_pipeline(folder, beam_options) as begin:
        begin.spread("Shards", missing).map("Embed", _embed, str(folder), config)


def _embed(shard: Shard, folder: str, config: EncoderConfig) -> str:
    root = Path(folder)
    documents = read_parquet(root / shard.input, SourceDocument)
    vectors = encoder_of(config).encode_documents([embedded_text(document.document) for document in documents])
    rows = [
        DocumentEmbedding(document_id=document.id, vector=tuple(vector.tolist()))
        for document, vector in zip(documents, vectors, strict=True)
    ]
    entry = write_table(root, TABLE, shard.name, DocumentEmbedding, rows)
    books = stage(NAME, inputs=len(documents), accepted=len(documents))
    files = (entry,) if entry else ()
    write_receipt(root, Receipt(shard=shard.name, files=files, stages=(books,), usage=Usage(), made_of=shard.made_of))
    return shard.name


@lru_cache(1)
def encoder_of(config: EncoderConfig) -> Encoder:
    """Loaded once per process."""
    return Encoder(config.name, query_prefix=config.query_prefix, passage_prefix=config.passage_prefix)
