"""The card of a run of bundles: the tables that have files, and the figures of manifest and rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pipelines.bundles_support import CONFIG, FinishedBundles, config_with
from trailforge.filters.answers import AnswerJudgeOptions
from trailforge.generators.document_bundles.card import card
from trailforge.pipelines.cards.licences import plain
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.schemas import (
    Bundle,
    BundleQuestion,
    CallCount,
    PlanNode,
    RejectedRow,
    SearchEpisode,
    read_parquet,
    read_rows,
    write_parquet,
)


@pytest.fixture(scope="module")
def text(original_bundles: FinishedBundles) -> str:
    return (original_bundles.folder / "README.md").read_text()


def rows(run: FinishedBundles, table: str, record: type) -> list[Any]:
    return list(read_rows(sorted((run.folder / table).glob("*.parquet")), record))


def front_matter(text: str) -> dict[str, Any]:
    start, front, _ = text.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(front)


def test_the_front_matter_names_the_tables_that_have_files(original_bundles: FinishedBundles, text: str) -> None:
    front = front_matter(text)
    assert front["pretty_name"] == original_bundles.manifest.run_id
    named = [config["config_name"] for config in front["configs"]]
    present = {f.path.split("/")[0] for f in original_bundles.manifest.files if f.rows}
    assert named[0] == "bundle_questions" and set(named) == present
    for config in front["configs"]:
        (files,) = config["data_files"]
        assert files["split"] == ("rejected" if config["config_name"] == "rejected" else "train")
        assert list(original_bundles.folder.glob(files["path"]))


def test_a_table_without_files_is_left_out(finished_bundles: FinishedBundles) -> None:
    files = tuple(f for f in finished_bundles.manifest.files if not f.path.startswith(("episodes/", "sft/")))
    front = front_matter(card(finished_bundles.folder, replace(finished_bundles.manifest, files=files), CONFIG))
    assert not {"episodes", "sft"} & {config["config_name"] for config in front["configs"]}


def test_the_funnel_and_the_cost_are_those_of_the_manifest(original_bundles: FinishedBundles, text: str) -> None:
    m = original_bundles.manifest
    assert len(m.stages) == 11
    for line in m.stages:
        rejected, failed = (", ".join(f"{c.reason} {c.count}" for c in cs) for cs in (line.rejected, line.failed))
        assert f"| {line.name} | {line.inputs} | {line.accepted} | {rejected} | {failed} |" in text
    assert f"| {m.calls} | {m.cut_replies} | {m.prompt_tokens} | {m.completion_tokens} | {m.cost:.4f} |" in text
    (selected,) = (line.accepted for line in m.stages if line.name == "select")
    assert m.calls_per_accepted_row == round(m.calls / selected, 2)


def test_bundles_are_counted_by_size_and_source(original_bundles: FinishedBundles, text: str) -> None:
    bundles = rows(original_bundles, "bundles", Bundle)
    sizes = Counter(len(bundle.document_ids) for bundle in bundles)
    sources = Counter(source for bundle in bundles for source in bundle.sources)
    section = text.split("## Bundles\n")[1].split("## Questions")[0]
    for key, count in [*sizes.items(), *sources.items()]:
        assert f"| {key} | {count} |" in section
    source_of = {id: name for b in bundles for id, name in zip(b.document_ids, b.sources, strict=True)}
    for row in rows(original_bundles, "bundle_questions", BundleQuestion):
        for name in {source_of[hop.document_id] for hop in row.hops}:
            assert f"| {name} | {sources[name]} | 0 |" not in section
    assert f"{sum(bundle.cohesion for bundle in bundles) / len(bundles):.3f}" in section


def test_questions_are_counted_by_type_and_stage(original_bundles: FinishedBundles, text: str) -> None:
    questions = rows(original_bundles, "bundle_questions", BundleQuestion)
    section = text.split("## Questions\n")[1].split("## Cost")[0]
    for kind, count in Counter(row.type for row in questions).items():
        assert f"| {kind} | {count} |" in section
    for number in {row.curriculum_stage for row in questions}:
        hard = [row.complexity for row in questions if row.curriculum_stage == number]
        assert f"| {number} | {len(hard)} | {min(hard):.2f} to {max(hard):.2f} |" in section
    assert f"- Rows: {len(rows(original_bundles, 'bundles', Bundle))} bundles, {len(questions)} questions" in text


def test_what_bundles_gave_is_counted_by_kind_those_that_were_not_made_too(original_bundles: FinishedBundles) -> None:
    run = original_bundles
    bundles, kept = rows(run, "bundles", Bundle), rows(run, "bundle_questions", BundleQuestion)
    rejected = [row for row in rows(run, "rejected", RejectedRow) if row.stage in ("filter", "select")]
    counts = tuple(CallCount(purpose=name, calls=n) for name, n in (("answer", 7), ("read", 40), ("write", 30)))
    text = card(run.folder, replace(run.manifest, calls_by_purpose=counts), CONFIG)
    section = text.split("## Yield\n")[1].split("## Episodes")[0]
    documents = sum(len(bundle.document_ids) for bundle in bundles)
    assert f"{len(kept)} questions of {len(bundles)} bundles: {100 * len(kept) / len(bundles):.1f} of 100" in section
    assert f"{100 * len(kept) / documents:.1f} of 100 documents" in section
    assert f": 70, {70 / len(bundles):.1f} a bundle, {70 / len(kept):.1f} a question" in section
    mended = (*counts, CallCount(purpose="mend", calls=9))
    told = card(run.folder, replace(run.manifest, calls_by_purpose=mended), CONFIG)
    assert "written again" not in text and ": 79, " in told
    assert " (in 9 of them a draft that would not do was written again)\n" in told
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:2] == "| "][1:]
    made = Counter(row.type for row in kept)
    kinds = ["factual", "factual", "causal", "single_choice", "multiple_choice"]
    assert sorted(kind.partition(",")[0] for kind, *_ in table) == sorted(kinds)
    assert sum(int(accepted) for kind, _, accepted, *_ in table if kind.startswith("factual")) == made["factual"]
    assert {kind: int(accepted) for kind, _, accepted, *_ in table[2:]} == {kind: made[kind] for kind, *_ in table[2:]}
    assert sum(int(written) for _, written, *_ in table) == len(kept) + len(rejected)


def test_episodes_are_counted_by_plan_thought_and_score(finished_bundles: FinishedBundles) -> None:
    run = finished_bundles
    path = sorted((run.folder / "episodes").glob("*.parquet"))[0]
    first, second, *others = read_parquet(path, SearchEpisode)
    drawn = {"origin": "policy", "thoughts": "model"}
    changed = [replace(first, **drawn, scored_by="judge"), replace(second, thoughts="model"), *others]
    write_parquet(path, SearchEpisode, changed)
    total = len(rows(run, "episodes", SearchEpisode))
    counts = tuple(CallCount(purpose=name, calls=n) for name, n in (("answer", 7), ("plan", 9), ("write", 50)))
    text = card(run.folder, replace(run.manifest, calls_by_purpose=counts), CONFIG)
    section = text.split("## Episodes\n")[1].split("## Cost")[0]
    assert f"| drawn from the model | the model's | 1 | {1 / total:.0%} |" in section
    assert f"| the gold plan | the model's | 1 | {1 / total:.0%} |" in section
    assert f"| the gold plan | sentences from pools | {total - 2} | {(total - 2) / total:.0%} |" in section
    assert "| a judge | 1 |" in section
    assert f"Calls for plans, answers and thoughts: 16, {16 / total:.1f} an episode" in section
    limits = text.split("## Known limits\n")[1].split("## One question")[0]
    assert f"- {total - 1} of {total} episodes follow the gold plan" in limits
    assert f"- {total - 2} of {total} thoughts before a search are sentences from pools" in limits


def test_the_limits_say_who_judged(finished_bundles: FinishedBundles) -> None:
    run, judge = finished_bundles, AnswerJudgeOptions(near_misses=True, free_answers=True)
    none, its_own, other = (
        card(run.folder, run.manifest, config_with(judge=options))
        for options in (AnswerJudgeOptions(), judge, replace(judge, model="umpire"))
    )
    assert "No judge read explanations" in none and "was asked for the score" not in none
    assert "`scripted` was asked for the score" in its_own and "No judge" not in its_own
    assert "`umpire` was asked for the score" in other


def test_where_it_came_from_is_said(original_bundles: FinishedBundles, text: str) -> None:
    m = original_bundles.manifest
    assert f"`{'/'.join(original_bundles.source.parts[-2:])}` (35 rows read)" in text
    assert f"Seed 0, configuration {m.config_hash}, trailforge {m.trailforge_version}" in text
    assert "- Model: scripted\n" in text


def test_there_is_one_example_of_each_type_with_its_evidence_and_plan(
    original_bundles: FinishedBundles, text: str
) -> None:
    questions = rows(original_bundles, "bundle_questions", BundleQuestion)
    kinds = {row.type for row in questions}
    assert text.count("\n### ") == len(kinds) >= 3
    for kind in kinds:
        first = next(row for row in questions if row.type == kind)
        example = text.split(f"### {kind} (`{first.uid}`)")[1].split("\n### ")[0]
        assert first.question in example and first.dag_text in example
        assert all(f"> {plain(hop.evidence)} ({plain(hop.document_id)})" in example for hop in first.hops)
        assert all(f"- {letter}. {option}" in example for letter, option in zip("ABCDEF", first.options, strict=False))
        assert f"Answer: {', '.join(first.correct_options) or first.answer}\n" in example


def rewritten(run: FinishedBundles, **changes: Any) -> str:
    """The card when the first question is another."""
    path: Path = sorted((run.folder / "bundle_questions").glob("*.parquet"))[0]
    first, *others = read_parquet(path, BundleQuestion)
    write_parquet(path, BundleQuestion, [replace(first, **changes), *others])
    text = card(run.folder, run.manifest, CONFIG)
    return text.split(f"(`{first.uid}`)")[1].split("\n### ")[0]


def test_a_plan_cannot_close_the_block_it_is_shown_in(finished_bundles: FinishedBundles) -> None:
    node = PlanNode(node_id="A", query="a\n```\n# A heading", tool="News")
    example = rewritten(finished_bundles, dag_text=f"Nodes:\nA: {node.query} (News)\nEdges:", dag_nodes=(node,))
    assert example.count("```") == 2 and "'''\n# A heading" in example


def test_a_long_question_is_cut(finished_bundles: FinishedBundles) -> None:
    example = rewritten(finished_bundles, question="x" * 5000)
    assert "x" * 700 + " …" in example and "x" * 701 not in example


def test_a_run_without_questions_has_a_card_too(finished_bundles: FinishedBundles) -> None:
    for table in ("bundles", "bundle_questions"):
        for path in (finished_bundles.folder / table).glob("*.parquet"):
            path.unlink()
    text = card(finished_bundles.folder, finished_bundles.manifest, CONFIG)
    assert "- Rows: 0 bundles, 0 questions" in text and "One question of each type" not in text


def test_rows_of_the_embedded_model_are_said_not_to_be_for_training(finished_bundles: FinishedBundles) -> None:
    warning, run = "Not meant for training", finished_bundles
    assert warning not in card(run.folder, run.manifest, CONFIG)
    steps = config_with(model=ModelConfig(url="embedded"), writer=replace(CONFIG.writer, kind="steps"))
    assert warning in card(run.folder, run.manifest, steps)


def test_what_sources_and_models_wrote_is_no_markup(finished_bundles: FinishedBundles) -> None:
    hops = rows(finished_bundles, "bundle_questions", BundleQuestion)[0].hops
    wrote = "## Free: [login](https://x.example) <img src=https://x.example>"
    text = rewritten(finished_bundles, question=wrote, hops=(replace(hops[0], evidence=wrote), *hops[1:]))
    safe = r"\## Free: \[login\](https://x.example) \<img src=https://x.example\>"
    assert f"\n\n{safe}\n" in text and f"> {safe} (" in text and "<img" not in text.replace(r"\<img", "")
