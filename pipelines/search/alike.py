"""Find rows similar to a given one: the nearest of its table, by the encoder with which the run searched.

A run that was searched without an encoder compares rows by the words that they share (BM25). Where a table holds more
text than is encoded while a person waits, the encoder compares the rows that share most words with the given one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs.config import RunConfig
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.runs.intake import read_settings, run_configuration
from trailforge.pipelines.search.query import FIELD
from trailforge.retrieval.backends import Bm25Retriever
from trailforge.retrieval.encoders import Encoder
from trailforge.schemas import Document, InvalidInput, OutputError

MOST = 50
"""Number of rows that are like another one, that one included."""
MOST_CHARACTERS = 300_000
"""Number of characters that are encoded at once: about ten seconds of MiniLM on two cores."""
_LONGEST = 1_000
"""Characters of a row that are compared: what encoders of sentences read of a text."""
_READ = (("question",), ("episode.question",), ("title", "text"), ("theme",), ("query",))
"""By which fields, or parts of them, rows are compared: the first of these that a table has."""
_PAYLOAD = "payload"
"""Column that holds a whole row as JSON."""


def nearest_rows(run: OpenRun, table: str, uid: str) -> tuple[int, ...]:
    """Return the numbers of the rows most similar to the one with this id, which itself comes first. Raises
    `InvalidInput` where there is no such row, or its table has no text to compare, and `RetrievalError` where the run's
    encoder is missing.
    """
    return run.once(("alike", table, uid), lambda: _nearest(run, table, uid))


def can_compare(run: OpenRun, table: str) -> bool:
    """Tell whether rows of a table have a text by which they can be compared."""
    return bool(_fields(run.table(table).schema.names))


def _nearest(run: OpenRun, table: str, uid: str) -> tuple[int, ...]:
    if not can_compare(run, table):
        raise InvalidInput(f"rows of {table} have no text by which they could be compared", field=FIELD)
    number = run.find(table, uid)
    if number is None:
        raise InvalidInput(f"no row {uid} in {table}: give the id of one of its rows", field=FIELD)
    texts: list[str] = run.once(("alike.texts", table), lambda: _texts(run, table))
    wanted, different = texts[number], [*dict.fromkeys(texts)]
    if not wanted:
        raise InvalidInput(f"row {uid} has no text by which it could be compared", field=FIELD)
    encoder = run.once(("alike.encoder",), lambda: _open_encoder(run))
    if encoder is None:
        scores = _shared_words(run, table, different, wanted)
    elif sum(map(len, different)) <= MOST_CHARACTERS:
        vectors = run.once(("alike.vectors", table), lambda: encoder.encode_documents(different))
        scores = vectors @ vectors[different.index(wanted)]
    else:
        scores = _by_both(encoder, different, _shared_words(run, table, different, wanted), wanted)
    score_of = dict(zip(different, scores.tolist(), strict=True))
    known = np.array([-np.inf if text != wanted and score_of[text] <= 0 else score_of[text] for text in texts])
    known[number] = np.inf
    order = np.argsort(-known, kind="stable")[:MOST]
    return tuple(order[np.isfinite(known[order]) | (order == number)].tolist())


def _by_both(encoder: Encoder, texts: Sequence[str], by_words: np.ndarray, wanted: str) -> np.ndarray:
    """Cosines to a text of those that share most words with it, as many as may be encoded; of the others nothing."""
    order = np.argsort(-by_words, kind="stable")
    lengths = np.cumsum([len(texts[place]) for place in order.tolist()])
    chosen = order[lengths <= MOST_CHARACTERS]
    near: list[str] = [wanted, *(texts[int(place)] for place in chosen)]
    vectors = encoder.encode_documents(near)
    scores = np.zeros(len(texts))
    scores[chosen] = vectors[1:] @ vectors[0]
    return scores


def _shared_words(run: OpenRun, table: str, texts: Sequence[str], wanted: str) -> np.ndarray:
    def build() -> Bm25Retriever:
        return Bm25Retriever([Document(id=str(place), title="", text=text) for place, text in enumerate(texts)])

    return run.once(("alike.words", table), build).scores(wanted)


def _open_encoder(run: OpenRun) -> Encoder | None:
    """As the run's configuration has it; None where it needs none."""
    try:
        settings = read_settings(run.folder)
        config: RunConfig | None = run_configuration(load_dataset(run.dataset), settings) if settings else None
    except (InvalidInput, OutputError):
        config = None  # settings of a version that this one does not read; shared words tell enough
    name = config.encoder_name if config else None
    return Encoder(name, passage_prefix=config.passage_prefix) if config and name else None


def _fields(names: Sequence[str]) -> tuple[str, ...]:
    known = next((fields for fields in _READ if _column(fields[0]) in names), ())
    return tuple(name for name in known if _column(name) in names) or ((_PAYLOAD,) if _PAYLOAD in names else ())


def _column(path: str) -> str:
    return path.partition(".")[0]


def _texts(run: OpenRun, table: str) -> list[str]:
    """What each row is compared by."""
    rows = run.table(table).select(_fields(run.table(table).schema.names)).to_pylist()
    return [_text(_row_in(row[_PAYLOAD]) if _PAYLOAD in row else row)[:_LONGEST] for row in rows]


def _text(row: Mapping[str, Any]) -> str:
    known = (_value(row, path) for path in _fields(list(row)))
    return "\n".join(str(each) for each in known if each)


def _value(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _row_in(payload: str) -> Mapping[str, Any]:
    try:
        row = json.loads(payload)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
