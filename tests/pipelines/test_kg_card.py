"""The cards of runs over a knowledge graph: the tables that have files, figures of manifest and rows, one of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pipelines.kg_support import BY_RULE, FREE, WRITTEN, FinishedKg
from tests.support.figures import pixels
from trailforge.generators.kg_questions import DATASET as KG_QUESTIONS
from trailforge.generators.kg_questions import card as questions_card
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.paths.blurring import described_in
from trailforge.generators.kg_questions.paths.config import share_out
from trailforge.generators.kg_trajectories import card
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.pipelines.cards.plots import FUNNEL
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.pipelines.runs.intake import run_configuration
from trailforge.schemas import FactChain, KgReward, read_rows

ALL = ("free", "guided", "written", "by_rule")
Copies = Callable[[str], FinishedKg]


def text_of(run: FinishedKg) -> str:
    return (run.folder / "README.md").read_text()


@pytest.mark.parametrize("name", ALL)
def test_the_front_matter_names_the_tables_that_have_files(original_kg: Mapping[str, FinishedKg], name: str) -> None:
    run = original_kg[name]
    start, front, _ = text_of(run).split("---\n", 2)
    content = yaml.safe_load(front)
    assert start == "" and content["pretty_name"] == run.manifest.run_id
    named = [config["config_name"] for config in content["configs"]]
    present = {f.path.split("/")[0] for f in run.manifest.files if f.rows and "/" in f.path}
    assert named[0] == run.settings.dataset and set(named) == present
    for config in content["configs"]:
        (files,) = config["data_files"]
        assert len(list(run.folder.glob(files["path"]))) == len(list((run.folder / config["config_name"]).iterdir()))


def test_the_card_speaks_of_pairs_where_there_are_some(original_kg: Mapping[str, FinishedKg]) -> None:
    some = original_kg["free"]
    assert some.rows("pairs") and "`pairs` holds a good and a bad episode" in text_of(some)
    without = replace(some.manifest, files=tuple(f for f in some.manifest.files if not f.path.startswith("pairs/")))
    figures = card._summary(without, run_configuration(some.dataset, some.settings), card._Figures())
    assert "There are no pairs: no episode was rejected for a mistake" in figures and "`pairs`" not in figures


def test_the_card_says_why_there_are_no_pairs(finished_kg: Copies) -> None:
    run = finished_kg("free")
    without = replace(run.manifest, files=tuple(f for f in run.manifest.files if not f.path.startswith("pairs/")))
    rows, rejected = run.rows("kg_trajectories"), [row for row in run.rows("rejected") if row.stage == "filter"]
    selected = {row.question_id for row in rows}
    wrong = next(
        row for row in rejected if row.reason == "wrong_answer" and json.loads(row.payload)["question_id"] in selected
    )
    of_rest = [row for row in rejected if row.reason == "duplicate_episode"]
    question = next(row for row in rows if row.question_id == json.loads(wrong.payload)["question_id"])
    near = replace(
        wrong, payload=json.dumps(json.loads(wrong.payload) | {"final_answer": f"{question.answer} or Vienna"})
    )

    def why(rows: list[Any], rejected: list[Any], config: KgRunConfig = FREE) -> str:
        text = card.card(run.folder, without, config, rows, rejected)
        return text.split("There are no pairs: ")[1].split(".\n")[0]

    assert why(rows, of_rest) == "no episode was rejected for a mistake of its own"
    assert why([question], [wrong]) == (
        "of 1 episodes that were rejected for a mistake, 1 make theirs where no selected episode of the question "
        "shows the better turn"
    )
    assert why([], [wrong, near]).endswith("2 belong to questions of which no episode was selected")
    assert why([question], [near]).endswith("1 may be right by another name, which is nothing to teach")
    none = replace(FREE, generator=replace(FREE.generator, max_pairs=0))
    assert why([question], [wrong], none) == "`generator.max_pairs` asks for none"


@pytest.mark.parametrize("name", ALL)
def test_funnel_cost_and_origin_are_those_of_the_manifest(original_kg: Mapping[str, FinishedKg], name: str) -> None:
    m, text = original_kg[name].manifest, text_of(original_kg[name])
    for line in m.stages:
        rejected, failed = (", ".join(f"{c.reason} {c.count}" for c in cs) for cs in (line.rejected, line.failed))
        assert f"| {line.name} | {line.inputs} | {line.accepted} | {rejected} | {failed} |" in text
    assert f"| {m.calls} | {m.cut_replies} | {m.prompt_tokens} | {m.completion_tokens} | {m.cost:.4f} |" in text
    assert m.calls_per_accepted_row == round(m.calls / m.stages[-1].accepted, 2)
    assert f"`{'/'.join(m.inputs[0].path.split('/')[-2:])}` ({m.inputs[0].rows} rows read)" in text
    run = original_kg[name]
    seed = run_configuration(run.dataset, run.settings).seed
    assert f"Seed {seed}, configuration {m.config_hash}, trailforge {m.trailforge_version}" in text


@pytest.mark.parametrize("name", ALL)
def test_the_plots_that_the_card_shows_are_there(original_kg: Mapping[str, FinishedKg], name: str) -> None:
    run = original_kg[name]
    shown = [FUNNEL, card.REWARDS] if run.settings.dataset == "kg_trajectories" else [FUNNEL]
    for plot in shown:
        assert f"]({plot})" in text_of(run) and min(pixels((run.folder / plot).read_bytes())) > 300
    assert sorted(path.name for path in (run.folder / "plots").iterdir()) == sorted(p.split("/")[1] for p in shown)


@pytest.mark.parametrize("name", ["free", "guided"])
def test_means_of_rewards_are_those_of_selected_and_rejected_episodes(
    original_kg: Mapping[str, FinishedKg], name: str
) -> None:
    run, text = original_kg[name], text_of(original_kg[name])
    selected = run.rows("kg_trajectories")
    rejected = [json.loads(row.payload)["reward"] for row in run.rows("rejected") if row.stage == "filter"]
    assert selected and rejected
    for part in fields(KgReward):
        good = [getattr(row.reward, part.name) for row in selected]
        bad = [reward[part.name] for reward in rejected]
        means = [f"{sum(values) / len(values):.3f}" for values in (good, bad)]
        assert f"| {part.name} | {len(good)} | {means[0]} | {len(bad)} | {means[1]} |" in text
    searches, triples = (
        sum(row.num_tool_calls for row in selected),
        sum(len(s.triples_kept) for row in selected for s in row.steps),
    )
    assert (
        f"- Rows: {len(selected)} episodes; per episode {searches / len(selected):.2f} searches, "
        f"{triples / len(selected):.2f} triples kept" in text
    )
    flags = Counter(flag for row in selected for flag in row.flags)
    assert f"flags: {', '.join(f'{flag} {count}' for flag, count in flags.items()) or 'none'}" in text
    assert f"`{selected[0].uid}`" in text


def test_a_part_of_the_reward_that_is_not_known_is_left_out_of_its_mean(finished_kg: Copies) -> None:
    run = finished_kg("free")
    first, second, *_ = run.rows("kg_trajectories")
    unknown = replace(first, reward=replace(first.reward, r_recall=None, r_penalty=None))
    text = card.card(run.folder, run.manifest, FREE, [unknown, second], [])
    assert f"| r_recall | 1 | {second.reward.r_recall:.3f} | 0 |  |" in text
    assert "| r_acc | 2 | 1.000 | 0 |  |" in text


@pytest.mark.parametrize("name", ["written", "by_rule"])
def test_questions_are_counted_by_shape_and_relation(original_kg: Mapping[str, FinishedKg], name: str) -> None:
    run, text = original_kg[name], text_of(original_kg[name])
    rows = run.rows("kg_questions")
    chains = read_rows([run.folder / shard.input for shard in run.settings.shards], FactChain)
    paths = Counter((row.shape, len(row.facts)) for row in chains)
    asked = Counter[tuple[str, int]]()
    for form, number in share_out(WRITTEN.paths.shares, WRITTEN.count).items():
        asked[form.shape, form.hops] += number
    counts = Counter((row.shape, row.hops) for row in rows)
    for form in asked | paths:
        assert f"| {form[0]} | {form[1]} | {asked[form]} | {paths[form]} | {counts[form]} |" in text
    missing = (asked - paths).total()
    found, others = paths.total(), paths.total() - (asked & paths).total()
    assert missing and f"\n60 paths were asked for, {found} were found. {missing} were not found in the shape" in text
    assert f"{others or 'None'} of other shapes took their place." in text
    assert run.settings.tries and all(f"| {each.reason} | {each.count} | " in text for each in run.settings.tries)
    assert "The model was asked for others" in text and "| check | " in text
    used = Counter(name for row in rows for name in {fact.triple.relation_label for fact in row.chain.facts})
    for relation, count in used.items():
        assert f"| {relation} | {count} |" in text
    assert f"- Rows: {len(rows)} questions, written by {rows[0].writer}" in text and "as of 2021-05" in text
    for shape in {row.shape for row in rows}:
        first = next(row for row in rows if row.shape == shape)
        example = text.split(f"## One question: {shape} (`{first.uid}`)")[1].split("\n## ")[0]
        assert first.question in example and f"Answer: {first.answer}\n" in example
        assert all(f"{hop.question} **{hop.answer}**" in example for hop in first.decomposition)
        assert all(fact in example for fact in first.path)


def test_runs_without_a_row_have_cards_too(finished_kg: Copies) -> None:
    run = finished_kg("free")
    empty = replace(run.manifest, files=(), calls_per_accepted_row=None, cost_per_accepted_row=None)
    text = card.card(run.folder, empty, FREE, [], [])
    assert "- Rows: 0 episodes\n- Led by: none; flags: none" in text and "| total | 0 |  | 0 |  |" in text
    assert yaml.safe_load(text.split("---\n")[1])["configs"] == [] and "One episode" not in text
    text = questions_card.card(run.folder, replace(empty, stages=()), replace(WRITTEN, as_of=""), [], [])
    assert "- Rows: 0 questions, written by model" in text and "as of a date that was not given" in text
    assert "The most frequent of 0." in text and "One question" not in text and "By quotas" not in text
    text = questions_card.card(run.folder, empty, replace(WRITTEN, demand="abc"), [], [])
    assert "By quotas (abc), in the place of the shares of `paths`" in text


def test_an_example_cannot_close_the_block_it_is_shown_in(finished_kg: Copies) -> None:
    run = finished_kg("free")
    (row, *_) = run.rows("kg_trajectories")
    *_, last = row.messages
    evil = replace(row, messages=(*row.messages[:-1], replace(last, content="a\n```\n# A heading")))
    assert "'''\n# A heading" in card.card(run.folder, run.manifest, FREE, [evil], [])


def test_rows_of_the_embedded_model_are_said_not_to_be_for_training(
    original_kg: Mapping[str, FinishedKg], finished_kg: Copies
) -> None:
    warning = "Not meant for training"
    assert [name for name in ALL if warning in text_of(original_kg[name])] == ["guided"]
    run, embedded = finished_kg("by_rule"), replace(BY_RULE, model=ModelConfig(url="embedded"))
    assert warning in questions_card.card(run.folder, run.manifest, embedded, [], [])


def test_a_card_of_questions_says_only_what_the_run_did(original_kg: Mapping[str, FinishedKg], tmp_path: Path) -> None:
    run = original_kg["written"]
    config = run_configuration(KG_QUESTIONS, run.settings)
    assert isinstance(config, KgQuestionRunConfig) and config.filters.check
    (path, *_) = read_rows([run.folder / shard.input for shard in run.settings.shards], FactChain)
    (tmp_path / "plots").mkdir()
    manifest = replace(run.manifest, calls_by_purpose=())
    text = questions_card.card(tmp_path, manifest, config, [], [path])
    assert "The model was asked for no others" in text and "no id but the name" not in text
    assert "a start is described" not in text
    blurred = replace(config, paths=replace(config.paths, blurred=0.5))
    told = f"Of {bool(described_in(path)):d} of 1 paths a start is described"
    text = questions_card.card(tmp_path, manifest, blurred, [], [path])
    assert told in text and "were asked for" not in text
    bare = replace(path, answer=replace(path.answer, id=path.answer.label))
    text = questions_card.card(tmp_path, manifest, config, [], [bare])
    assert f"- Of 1 of the {len(path.starts) + len(path.found)} entities the graph has no id but the name" in text
