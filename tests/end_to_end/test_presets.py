"""A shipped preset as a person starts it, with the packaged encoder instead of one that would have to be fetched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.end_to_end.support import trailforge
from tests.pipelines.kg_support import questions_file, searched_graph
from tests.support import world
from tests.support.model_server import running
from trailforge.cli import app
from trailforge.pipelines.runs.finish import MANIFEST
from trailforge.presets import load_preset

pytestmark = [pytest.mark.slow, pytest.mark.real_model]
COUNT = 2


def test_dynasearcher_over_an_index_made_with_its_prefixes(tmp_path: Path) -> None:
    preset = load_preset("dynasearcher", "kg_trajectories")
    preset["retrieval"]["encoder"] = "minilm"
    (tmp_path / "preset.yaml").write_text(yaml.safe_dump({"dataset": "kg_trajectories", **preset}))
    passages = {d.text: d.title for n in range(COUNT) for d in world.question(n, 2 + n % 2).paragraphs}
    lines = [json.dumps({"title": title, "text": text}) + "\n" for text, title in passages.items()]
    (tmp_path / "passages.jsonl").write_text("".join(lines))
    given = ["index", "build", str(tmp_path / "passages.jsonl"), "--backend", "dense", "--out", str(tmp_path / "index")]
    made = CliRunner().invoke(app, [*given, "--passage-prefix", "passage: ", "--query-prefix", "query: "])
    assert made.exit_code == 0, made.output
    graph = searched_graph(tmp_path / "graph", COUNT)
    questions = questions_file(tmp_path / "questions.jsonl", count=COUNT, broken_row=None)
    with running(kg=1) as url:
        ended = trailforge(
            *("kg-trajectories", "--preset", tmp_path / "preset.yaml", "--model", url, "--model-name", "scripted"),
            *("--kg", graph, "--documents", tmp_path / "index", "--questions", questions, "--out", tmp_path / "run"),
            timeout_s=240,
        )
    assert ended.code == 0, ended.err
    stages = {stage["name"]: stage for stage in json.loads((tmp_path / "run" / MANIFEST).read_text())["stages"]}
    assert stages["search"]["accepted"] == COUNT and stages["filter"]["accepted"]
    config = json.loads(json.loads((tmp_path / "run" / "run.json").read_text())["config"])
    assert config["retrieval"]["query_prefix"] == "query: "
