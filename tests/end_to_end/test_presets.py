"""The shipped presets as a person starts them, with the packaged encoder where a large one would have to be fetched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from pipelines.finish import MANIFEST
from presets import load_preset
from tests.end_to_end.support import trailforge
from tests.pipelines.kg_support import questions_file, searched_graph
from tests.support import world
from tests.support.model_server import running

pytestmark = [pytest.mark.slow, pytest.mark.real_model]
COUNT = 4


def test_dynasearcher_over_an_index_made_with_its_prefixes(tmp_path: Path) -> None:
    """Index, doctor, run: with the prefixes that the preset wants all goes; one without them is refused at once."""
    preset = load_preset("dynasearcher", "kg_trajectories")
    preset["retrieval"]["encoder"] = "minilm"
    (tmp_path / "preset.yaml").write_text(yaml.safe_dump({"dataset": "kg_trajectories", **preset}))
    passages = {d.text: d.title for n in range(COUNT) for d in world.question(n, 2 + n % 2).paragraphs}
    lines = [json.dumps({"title": title, "text": text}) + "\n" for text, title in passages.items()]
    (tmp_path / "passages.jsonl").write_text("".join(lines))
    prefixes = ("--passage-prefix", "passage: ", "--query-prefix", "query: ")
    assert trailforge("index", tmp_path / "passages.jsonl", "--out", tmp_path / "plain").code == 0
    assert trailforge("index", tmp_path / "passages.jsonl", "--out", tmp_path / "index", *prefixes).code == 0
    graph = searched_graph(tmp_path / "graph", COUNT)
    given = ("--preset", tmp_path / "preset.yaml", "--model-name", "scripted", "--kg", graph, "--out", tmp_path / "run")
    questions = ("--questions", questions_file(tmp_path / "questions.jsonl", count=COUNT, broken_row=None))
    with running(kg=1) as url:
        refused = trailforge("kg-trajectories", *given, *questions, "--model", url, "--documents", tmp_path / "plain")
        assert refused.code == 6 and '--passage-prefix "passage: "' in refused.error_line
        assert not (tmp_path / "run").exists()
        given = (*given, "--model", url, "--documents", tmp_path / "index")
        found = trailforge("doctor", *given)
        assert found.code == 0 and "is sound" in found.out and "can be searched (dense)" in found.out
        ended = trailforge("kg-trajectories", *given, *questions, "--limit", COUNT, timeout_s=240)
    assert ended.code == 0, ended.err
    stages = {stage["name"]: stage for stage in json.loads((tmp_path / "run" / MANIFEST).read_text())["stages"]}
    assert stages["search"]["accepted"] and stages["filter"]["accepted"]
    config = json.loads(json.loads((tmp_path / "run" / "run.json").read_text())["config"])
    assert config["retrieval"]["query_prefix"] == "query: "
