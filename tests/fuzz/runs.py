"""Targets that read what a run keeps in its folder, as a full disk or a stranger's editor may leave it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import zstandard

from tests.fuzz.target import Target, text_of
from trailforge.inference import Usage
from trailforge.inference.provider.wire import pack, unpack
from trailforge.inference.request import ChatTurn, Reply, Request, Sampling
from trailforge.pipelines.engine.shards import Receipt, Shard, load_receipt
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.pipelines.runs.intake import read_settings
from trailforge.pipelines.search.evaluate import bind_search
from trailforge.pipelines.search.query import parse_search, quote, texts_of, write_search
from trailforge.schemas import FileEntry, InvalidInput, Manifest, OutputError, to_dict, version_of

_TOKENS = (
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"-1", b"1.5", b"NaN", b"9" * 400, b"\xff", b"{}"),
    *(b'"path": ', b'"rows": ', b'"sha256": ', b'"stages": ', b'"usage": ', b'"config": ', b'"shards": ', b"\\ud800"),
)  # fmt: skip


def _deep() -> list[bytes]:
    return [b"[" * levels + b"]" * levels for levels in (500, 2000, 50_000)]


def _in_folder(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], None]:
    def run(case: bytes, folder: Path) -> None:
        (folder / name).write_bytes(case)
        read(folder)

    return run


def _entry() -> list[bytes]:
    prompt = (ChatTurn(role="user", content="Who?"),)
    request = Request(model="m", prompt=prompt, sampling=Sampling(max_tokens=8), seed=0)
    reply = Reply(
        text="Lang", reasoning="", finish_reason="stop", prompt_tokens=3, completion_tokens=1, key=request.key
    )
    return [zstandard.decompress(pack(request, reply))]


def _bombs() -> list[bytes]:
    huge = zstandard.compress(b" " * 120_000_000)
    return [*map(zstandard.compress, _deep()), huge, b"\x28\xb5\x2f\xfd" * 10, huge[:-3]]


_ROWS = pa.RecordBatch.from_pylist(
    [
        {"uid": "a", "num_hops": 2, "reward": {"total": 1.0}, "turns": [{"text": "The Danube", "train": True}]},
        {"uid": "b:1", "num_hops": None, "reward": {"total": None}, "turns": []},
    ]
)
_NUMBERS = {"num_hops": np.array([2, np.nan]), "reward.total": np.array([1.0, np.nan])}


def _row_search(case: bytes, _: Path) -> None:
    """A search that can be read is made, and what is marked in rows is what it looks for; quoted, a text is itself."""
    text = text_of(case)
    assert texts_of(quote(text)) in ([text], [])
    terms = parse_search(text)
    assert parse_search(write_search(terms)) == terms
    found = bind_search(text, _ROWS.schema, tuple(_NUMBERS), _NUMBERS.__getitem__).rows(0, _ROWS)
    assert found in ([], [0], [1], [0, 1]) and set(texts_of(text)) <= {term.value for term in terms}


def _receipt() -> list[bytes]:
    entry = FileEntry(path="sft/part-0.parquet", rows=1, sha256="0" * 64)
    shard = Shard(name="part-0", input="bundles/part-0.parquet", first=0, rows=1)
    receipt = Receipt(shard="part-0", files=(entry,), stages=(), usage=Usage(calls=1), shards=(shard,))
    return [json.dumps(to_dict(receipt)).encode()]


TARGETS = (
    Target(
        name="ledger_blob",
        run=lambda case, _: unpack("0" * 64, case),
        may_raise=(),
        samples=_entry,
        tokens=(*_TOKENS, b'"reply": ', b'"request": ', b'"text": ', b'"prompt": '),
        aimed=_bombs,
        packed=zstandard.compress,
    ),
    Target(
        name="manifest",
        run=_in_folder("manifest.json", read_manifest),
        may_raise=(InvalidInput,),
        samples=lambda: [json.dumps({"schema_version": version_of(Manifest), "files": [], "inputs": []}).encode()],
        tokens=_TOKENS,
        aimed=_deep,
    ),
    Target(
        name="run_json",
        run=_in_folder("run.json", read_settings),
        may_raise=(InvalidInput, OutputError),
        samples=lambda: [b'{"dataset": "a", "run_id": "b", "config": "{}", "shards": [], "limit": null}'],
        tokens=_TOKENS,
        aimed=_deep,
    ),
    Target(
        name="receipt",
        run=_in_folder("part-0.json", lambda folder: load_receipt(folder / "part-0.json")),
        may_raise=(OutputError,),
        samples=_receipt,
        tokens=_TOKENS,
        aimed=_deep,
    ),
    Target(
        name="row_search",
        run=_row_search,
        may_raise=(InvalidInput,),
        samples=lambda: [
            b'vienna -kind:correct "flows through" -"the danube"',
            b"reward<0.5 hops>=3 num_hops:2 turns.text:danube train:yes https://acme.example",
        ],
        tokens=(
            *(b'"', b":", b"<", b"<=", b">=", b"!=", b"=", b"-", b" ", b".", b"_", b",", b"//", b"\xff", b"\xc2\xa0"),
            *(b"uid:", b"reward<", b"hops>", b"turns.text:", b"train:true", b"nan", b"inf", b"1e999", b"1_0", b"a"),
        ),
    ),
)
