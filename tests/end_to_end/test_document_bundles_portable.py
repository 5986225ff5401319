"""Bundles by two workers on loopback have the bytes of bundles that were made in this process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.support import ROOT, trailforge
from tests.pipelines.bundles_support import begin_run, run_until
from tests.support import cluster
from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_documents
from tests.support.files import contents
from trailforge.flows.configuration import configuration_of
from trailforge.pipelines.datasets import load_dataset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PRESET = """\
content: {min_words: 20, min_characters: 100}
bundles: {method: partitioned, part_size: 4, within: greedy, min_cosine: 0.25}
output: {documents_per_shard: 3}
"""
FOLDERS = ("inputs", "documents", "rejected", "embeddings", "bundles", "bundle_inputs", "plots", "shards")


def test_two_workers_make_the_bundles_of_a_local_run(tmp_path: Path) -> None:
    """The folder of the run is named from where the command stands, which is not where the workers stand."""
    preset, source = tmp_path / "preset.yaml", tmp_path / "documents.jsonl"
    preset.write_text(PRESET)
    documents = sample_documents()
    write_documents(source, [*documents[:4], documents[4], *documents[16:20]])
    config = configuration_of(load_dataset("document_bundles"), str(preset))
    run_until(tmp_path / "local", begin_run(tmp_path / "local", source, replace(config, questions=False)))

    out = tmp_path / "portable"
    with cluster.running(tmp_path / "cluster") as workers:
        ended = trailforge(
            *("document-bundles", "--bundles-only", "--documents", source, "--preset", preset),
            *("--out", os.path.relpath(out, ROOT), *workers.options),
            timeout_s=300,
        )
        assert ended.code == 0, f"{ended.err}\n{workers.log()}"
    (out / "plots" / "funnel.png").unlink()  # drawn with the card, which the local run has not come to
    for name in FOLDERS:
        assert contents(out / name) == contents(tmp_path / "local" / name), name
    assert len(contents(out / "bundles")) == 1 and len(contents(out / "documents")) == 3
