"""The cards as a hub and `datasets` read them: front matter, one configuration a table, figures, licences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml
from huggingface_hub import DatasetCard

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FREE, FinishedKg
from tests.pipelines.support import CONFIG, FinishedRun, config_with
from tests.support.rows import QUESTION
from trailforge.curation.apply import apply_rulings
from trailforge.generators.kg_trajectories import card
from trailforge.pipelines.cards.card import describe_empty, front_matter, funnel_table
from trailforge.pipelines.cards.licences import (
    Source,
    front,
    of_documents,
    of_graph,
    of_questions,
    over_corpus,
    plain,
    section,
    shorten_path,
)
from trailforge.pipelines.cards.plots import funnel
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.runs.config import CardConfig
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.pipelines.runs.pushing import checked_files
from trailforge.retrieval import RetrievalConfig
from trailforge.schemas import FileEntry, KgTrajectory, Question, Ruling, write_parquet


@pytest.fixture(scope="session")
def original_curated(original_run: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of MCTS trajectories without its first question."""
    out = tmp_path_factory.mktemp("made") / "curated"
    asked = read_manifest(original_run.folder)
    assert asked is not None
    first = datasets.Dataset.from_parquet(str(next((original_run.folder / "inputs").glob("part-00000-*"))))
    ruling = Ruling(table="inputs", uid=first[0]["id"], action="reject", reason="vague", detail="ann: vague")
    apply_rulings(original_run.folder, out, [ruling], FileEntry(path="x/decisions.jsonl", rows=1, sha256="0" * 64))
    return out


@pytest.fixture
def folder_of(
    original_run: FinishedRun,
    original_bundles: FinishedBundles,
    original_kg: Mapping[str, FinishedKg],
    original_curated: Path,
) -> Mapping[str, Path]:
    """A finished run of each data set, and a curated one."""
    runs = {"mcts": original_run.folder, "bundles": original_bundles.folder, "curated": original_curated}
    return runs | {name: run.folder for name, run in original_kg.items()}


@pytest.mark.parametrize("name", ["mcts", "curated", "bundles", "free", "guided", "by_rule"])
def test_hub_and_datasets_read_the_card_and_every_table(
    folder_of: Mapping[str, Path], name: str, tmp_path: Path
) -> None:
    folder = folder_of[name]
    card, manifest = DatasetCard.load(folder / "README.md"), read_manifest(folder)
    assert manifest is not None
    told: dict[str, Any] = card.data.to_dict()
    main = {"document_bundles": "bundle_questions"}.get(manifest.dataset, manifest.dataset)
    rows = Counter[str]()
    for file in manifest.files:
        rows[file.path.split("/")[0]] += file.rows * file.path.endswith(".parquet")
    configs, main = told["configs"], "sft" if rows["sft"] else main
    assert {config["config_name"] for config in configs} == {table for table, count in rows.items() if count}
    assert [config["config_name"] for config in configs if config.get("default")] == [main]
    assert told["size_categories"] == ["n<1K"] and "trailforge" in told["tags"]
    for table in {config["config_name"] for config in configs}:
        split = "rejected" if table == "rejected" else "train"
        loaded = datasets.load_dataset(str(folder), name=table, split=split, cache_dir=str(tmp_path))
        assert len(loaded) == rows[table], table  # type: ignore[arg-type]
    plots = re.findall(r"\]\((plots/[^)]+)\)", card.text)
    assert "plots/funnel.png" in plots and sorted(plots) == sorted(f"plots/{p.name}" for p in folder.glob("plots/*"))
    for heading in ("## Funnel", "## Cost", "## Licences", "## Known limits", "One "):
        assert heading in card.text


def test_what_is_pushed_of_each_data_set_is_what_its_manifest_and_card_name(folder_of: Mapping[str, Path]) -> None:
    for folder in folder_of.values():
        manifest, names = read_manifest(folder), [file.name for file in checked_files(folder, "ann/trails")]
        assert manifest is not None
        listed = {entry.path for entry in manifest.files}
        shorten_path = set(re.findall(r"\]\((plots/[^)]+)\)", (folder / "README.md").read_text()))
        receipts = {f"shards/{path.name}" for path in (folder / "shards").glob("*.json")}
        assert sorted(names) == sorted({"README.md", "manifest.json", "run.json"} | listed | shorten_path | receipts)


def test_a_curated_data_set_tells_its_decisions_apart_from_its_questions(original_curated: Path) -> None:
    card = DatasetCard.load(original_curated / "README.md")
    assert "- What curators said: `x/decisions.jsonl` (1 lines)" in card.text
    assert re.search(r"- Questions: `[^`]*questions\.jsonl` \(21 rows read\)\n", card.text)
    assert "curated" in [config["config_name"] for config in card.data.to_dict()["configs"]]


@pytest.mark.parametrize(
    ("rows", "size"), [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (10**6, "1M<n<10M"), (10**8, "10M<n<100M")]
)
def test_the_size_is_that_of_the_first_table(original_run: FinishedRun, rows: int, size: str) -> None:
    files = (FileEntry(path="a/part-0.parquet", rows=rows, sha256=""), FileEntry(path="b/p", rows=5, sha256=""))
    text = front_matter(replace(original_run.manifest, files=files), ["a"], [], [], CardConfig())
    assert f"- {size}\n" in text


def test_of_a_run_that_kept_nothing_no_table_is_loaded_unasked_and_the_card_says_so_first(
    original_run: FinishedRun,
) -> None:
    files = tuple(FileEntry(path=f"{table}/part-0.parquet", rows=9, sha256="") for table in ("rejected", "inputs"))
    rejected = [*["short"] * 2, *["long"] * 7]
    stages = (stage("read", inputs=9, accepted=9), stage("filter", inputs=9, accepted=0, rejected=rejected))
    manifest = replace(original_run.manifest, files=files, stages=stages)
    text = front_matter(manifest, ["a", "rejected"], ["search-agent", "b"], [], CardConfig())
    head = yaml.safe_load(text.split("---")[1])
    splits = {config["config_name"]: config["data_files"][0]["split"] for config in head["configs"]}
    assert splits == {"rejected": "rejected", "inputs": "train"} and not any("default" in c for c in head["configs"])
    assert head["tags"] == ["search-agent", "b", "trailforge"]
    assert "NOTHING WAS KEPT. Most was put aside for long: 7 of 9 at filter." in text
    kept = replace(manifest, files=(*files, FileEntry(path="a/part-0.parquet", rows=1, sha256="")))
    assert "NOTHING" not in front_matter(kept, ["a", "rejected"], [], [], CardConfig())
    assert not describe_empty((stage("read", inputs=9, accepted=9),)), "no more was asked for"
    assert describe_empty(()) == "NOTHING WAS KEPT: there was nothing to begin with."


def test_licences_are_hub_ids_only_when_every_source_tells_one() -> None:
    ours, other = Source(name="a", rows=1, licence="CC BY 4.0"), Source(name="b", rows=1, licence="Apache-2.0")
    untold, odd = Source(name="c", rows=1), Source(name="d", rows=1, licence="http://arxiv.org/licenses/x")
    assert front([ours, ours]) == {"license": "cc-by-4.0"}
    assert front([ours, other]) == {"license": ["apache-2.0", "cc-by-4.0"]}
    for sources in ([], [ours, untold], [odd]):
        assert front(sources) == {"license": "other", "license_name": "those-of-the-sources"}


def test_licences_of_documents_are_theirs_and_of_questions_those_of_their_benchmark(
    original_bundles: FinishedBundles, tmp_path: Path
) -> None:
    found = of_documents(original_bundles.folder)
    assert len(found) > 1 and sum(each.rows or 0 for each in found) == original_bundles.settings.items
    (tmp_path / "inputs").mkdir()
    write_parquet(tmp_path / "inputs" / "part-0.parquet", Question, [replace(QUESTION, dataset="musique")] * 2)
    (asked,) = of_questions(tmp_path, CardConfig())
    assert asked.rows == 2 and asked.hub_id is None
    told = section("smollm2-135m-instruct-q4_1", [Source(name="a|b\nc", rows=3, licence="MIT"), asked], CardConfig())
    assert "| model smollm2-135m-instruct-q4_1 |  | Apache-2.0 |" in told and "| a/b c | 3 | MIT |" in told
    assert "CC BY 4.0 if it is the published one" in told
    assert "| model gpt |  | not known here; its own card tells it |" in section("gpt", [], CardConfig())
    over = over_corpus(RetrievalConfig(scope="corpus", corpus_index="/home/ann/indexes/wiki"), CardConfig())
    assert [each.name for each in over] == ["passages of indexes/wiki"]
    assert over_corpus(RetrievalConfig(), CardConfig()) == []
    assert [each.name for each in over_corpus(RetrievalConfig(kind="web"), CardConfig())] == ["pages of the web"]


def test_a_preset_tells_licences_and_languages_and_decides_no_row(original_run: FinishedRun, tmp_path: Path) -> None:
    said = CardConfig(
        model_licence="apache-2.0", questions_licence="CC BY 4.0", corpus_licence="CC BY-SA 4.0",
        graph_licence="CC0 1.0", languages=("de", "en"),
    )  # fmt: skip
    (tmp_path / "inputs").mkdir()
    write_parquet(tmp_path / "inputs" / "part-0.parquet", Question, [replace(QUESTION, dataset="musique")])
    corpus = RetrievalConfig(scope="corpus", corpus_index="wiki")
    sources = [*of_questions(tmp_path, said), *over_corpus(corpus, said), *of_graph("f" * 64, said)]
    assert [each.hub_id for each in sources] == ["cc-by-4.0", "cc-by-sa-4.0", "cc0-1.0"]
    told = section("gpt", sources, said)
    assert "| model gpt |  | apache-2.0 |" in told and "| questions (musique) | 1 | CC BY 4.0 |" in told
    assert "language:\n- de\n- en\n" in front_matter(original_run.manifest, [], [], sources, said)
    assert config_with(card=said).hash == CONFIG.hash


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("wrong_answer", "wrong_answer"),
        ("a | b <script>1</script> [x](javascript:1)", r"a / b \<script\>1\</script\> \[x\](javascript:1)"),
        ("\n## Free dataset:\n# `y` ~z~", r"\## Free dataset: # \`y\` \~z\~"),
        ("_very_ *dull*", r"\_very\_ \*dull\*"),
    ],
)
def test_what_others_wrote_is_no_markup_in_a_card(text: str, escaped: str) -> None:
    assert plain(text) == escaped
    books = stage("curate", inputs=2, accepted=1, rejected=[text])
    assert f"| curate | 2 | 1 | {escaped} 1 |  |" in funnel_table([books])


def test_of_many_reasons_the_first_are_told() -> None:
    told = funnel_table([stage("curate", inputs=31, accepted=1, rejected=[f"reason {n:02d}" for n in range(30)])])
    assert "reason 19 1, for other reasons 10 |" in told and "reason 20" not in told


def test_a_reason_of_a_person_is_no_formula_in_the_figure() -> None:
    books = stage("curate", inputs=2, accepted=1, rejected=["costs $5 and $x^" + "!" * 1000])
    assert funnel([books]).startswith(b"\x89PNG")


def test_paths_of_this_machine_are_no_part_of_a_card(folder_of: Mapping[str, Path], tmp_path: Path) -> None:
    assert (shorten_path("/home/ann/data/q.jsonl"), shorten_path("x/data/q.jsonl")) == (
        "data/q.jsonl",
        "x/data/q.jsonl",
    )
    assert shorten_path("/runs/demo/curation/decisions.jsonl", 3) == "demo/curation/decisions.jsonl"
    for folder in folder_of.values():
        assert str(tmp_path.parent.parent) not in (folder / "README.md").read_text()


def test_a_kg_card_has_one_episode_of_each_kind_and_a_pair(finished_kg: Callable[[str], FinishedKg]) -> None:
    run = finished_kg("guided")
    rows: list[KgTrajectory] = run.rows("kg_trajectories")
    text = (run.folder / "README.md").read_text().split("## One example of each kind")[1]
    kinds = {f"led by {row.origin}" for row in rows} | {flag for row in rows for flag in row.flags}
    pair = run.rows("pairs")[0]
    assert re.findall(r"^### (\S.*?)(?: \(.*)?$", text, re.M) == [*sorted(kinds), "pair"]
    assert pair.question in text and f"rejected for `{pair.reason}`" in text
    flagged = replace(rows[0], flags=("stale_or_conflicting",))
    twice = card.card(run.folder, run.manifest, FREE, [flagged], [])
    assert f"### stale_or_conflicting\n\nThe same as led by {rows[0].origin} (`{rows[0].uid}`)." in twice
