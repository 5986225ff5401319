"""Runs on other machines, held against local ones byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.end_to_end.support import trailforge
from tests.pipelines.bundles_support import begin_run, run_until
from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_documents
from tests.support.files import contents, digests
from trailforge.flows.configuration import configuration_of
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.datasets import load_dataset

ROOT = Path(__file__).parents[2]
_BUNDLES = """\
encoder: {{name: "{url}#words"}}
content: {{min_words: 20, min_characters: 100}}
bundles: {{method: partitioned, part_size: 4, within: greedy, min_cosine: 0.25}}
output: {{documents_per_shard: 3}}
"""
_FOLDERS = ("inputs", "documents", "rejected", "embeddings", "bundles", "bundle_inputs", "plots", "shards")
"""That a run of bundles has before the questions."""


def trajectory_files(folder: Path) -> dict[str, str]:
    """Digests of the rows and receipts of a run of MCTS trajectories, by file."""
    files = [p for t in MCTS.tables for p in folder.glob(f"{t}/*.parquet")] + list(folder.glob("shards/*.json"))
    return digests(folder, files)


def check_bundles(folder: Path, url: str, options: Sequence[str], log: Callable[[], str]) -> None:
    """Bundles that are made with these options are those of a local run: stages that ask no model, and meet by key.

    The run's folder is named from where the command stands, which is not where the workers stand. `url`: of a server
    that encodes. `log`: what the workers said, for a run that fails.
    """
    preset, source, out, local = (folder / name for name in ("preset.yaml", "documents.jsonl", "elsewhere", "local"))
    preset.write_text(_BUNDLES.format(url=url))
    documents = sample_documents()
    write_documents(source, [*documents[:4], documents[4], *documents[16:20]])
    config = configuration_of(load_dataset("document_bundles"), str(preset))
    run_until(local, begin_run(local, source, replace(config, questions=False)))
    ended = trailforge(
        *("document-bundles", "--bundles-only", "--documents", source, "--preset", preset),
        *("--out", os.path.relpath(out, ROOT), *options),
        timeout_s=300,
    )
    assert ended.code == 0, f"{ended.err}\n{log()}"
    (out / "plots" / "funnel.png").unlink()  # drawn with the card, which the local run has not come to
    for name in _FOLDERS:
        assert contents(out / name) == contents(local / name), name
    assert len(contents(out / "bundles")) == 1 and len(contents(out / "documents")) == 3
