"""Training sets of small runs of every data set."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest

from tests.support import finished_runs as made
from tests.support.bundle_rows import INSTRUMENT, ISLAND, WHEEL
from tests.support.tiny_tokenizer import tiny_tokenizer
from trailforge.pipelines.sources import read_questions
from trailforge.protocols import r_search
from trailforge.protocols.browse import asking_of
from trailforge.schemas import (
    CountMismatch,
    InvalidInput,
    OutputError,
    PreferenceRow,
    Question,
    RejectedRow,
    RlRow,
    SftRow,
    read_parquet,
    write_parquet,
)
from trailforge.schemas.text import count_conversation
from trailforge.training.masks import masked_tokens, prepare_tokenizer
from trailforge.training.sets.build import check, make_training_set
from trailforge.training.sets.config import TEXT_PROTOCOLS, Share, ViewConfig
from trailforge.training.sets.files import TrainingSet, open_set
from trailforge.training.sets.order import question_key

ASKED = [made.question(number, hops=2 + number % 3) for number in range(10)]
SAMPLE_QUESTIONS = Path(__file__).parents[3] / "sample_data" / "musique_style_questions.jsonl"
HALF = ViewConfig(validation_share=0.5)
ALL = ViewConfig(validation_share=0.0)


@pytest.fixture
def mcts(tmp_path: Path) -> Path:
    """Ten questions; four of them were solved, one of these with a reflective row too."""
    rows = [row for asked in ASKED[:4] for row in made.mcts_rows(asked)]
    return made.mcts_run(tmp_path / "mcts", ASKED, [*rows, *made.mcts_rows(ASKED[0], reflective=True)])


@pytest.fixture
def runs(tmp_path: Path, mcts: Path) -> list[Path]:
    """One run of each data set; the KG run asks two of the questions of the MCTS run."""
    bundles, kg = made.bundles_run(tmp_path / "bundles"), made.kg_run(tmp_path / "kg", ASKED[:2])
    return [mcts, bundles, kg, made.kg_questions_run(tmp_path / "kgq")]


def build(runs: list[Path], out: Path, config: ViewConfig = ALL) -> TrainingSet:
    """A training set, opened."""
    make_training_set(runs, out, config)
    return open_set(out)


def reasons(folder: Path) -> dict[tuple[str, str], int]:
    """How many rows were rejected by stage and reason."""
    rows = [row for path in sorted(folder.glob("rejected/*.parquet")) for row in read_parquet(path, RejectedRow)]
    return dict(Counter((row.stage, row.reason) for row in rows))


def nothing_left(tmp_path: Path) -> bool:
    """No output, and nothing half-written beside it."""
    return not [path for path in tmp_path.iterdir() if "out" in path.name]


def test_all_data_sets_in_one(tmp_path: Path, runs: list[Path]) -> None:
    """Every accepted conversation and every question, solved or not, with what it is paid by."""
    made_set = build(runs, tmp_path / "out")
    sft = list(made_set.rows("sft", "train", SftRow))
    rl = list(made_set.rows("rl", "train", RlRow))
    assert Counter(row.data_source for row in sft) == {"mcts_trajectories": 5, "episodes": 4, "kg_trajectories": 2}
    assert Counter(row.data_source for row in rl) == {
        "mcts_trajectories": 10, "document_bundles": 4, "kg_trajectories": 2, "kg_questions": 1,
    }  # fmt: skip
    truths = {row.question_id: row.reward_model.ground_truth for row in rl}
    assert {row.data_source: row.reward_model.ground_truth.reward_preset for row in rl} == {
        "mcts_trajectories": "msearcher", "document_bundles": "r-search",
        "kg_trajectories": "dynasearcher", "kg_questions": "dynasearcher",
    }  # fmt: skip
    assert truths["q9"].target == ("Vienna", "Wien") and truths["q9"].num_hops == 2
    assert truths["q9"].support_titles == ("Metropolis", "Fritz Lang")
    assert truths["instrument"].correct_options == INSTRUMENT.correct_options == ("B",)
    assert truths["instrument"].answer_kind == "options" and truths["instrument"].target == ("B",)
    assert truths["island"].dag_text == ISLAND.dag_text and len(truths["island"].support_titles) == 3
    assert {row.corpus_id for row in rl if row.data_source == "mcts_trajectories"} == {"mcts_trajectories-mcts"}
    assert not reasons(tmp_path / "out")


def test_the_readme_has_the_line_that_loads_the_set(
    tmp_path: Path, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands there; `sft` comes where no table is named."""
    made_set = build(runs, tmp_path / "out", HALF)
    (block,) = re.findall(r"```python\n(.*?)```", (made_set.folder / "README.md").read_text(), re.DOTALL)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    names: dict[str, Any] = {}
    exec(block.replace("FOLDER", str(made_set.folder)), names)
    counted = {split: made_set.row_count("sft", split) for split in ("train", "validation")}
    assert {split: len(rows) for split, rows in names["rows"].items()} == counted
    by_default: Any = datasets.load_dataset(str(made_set.folder), split="train")
    assert by_default.num_rows == counted["train"]


def test_a_prompt_is_how_the_trajectories_begin(tmp_path: Path, runs: list[Path]) -> None:
    """RL goes on where SFT left off: system prompt and question are the same, options included."""
    made_set = build(runs, tmp_path / "out")
    rl = made_set.rows("rl", "train", RlRow)
    begins = {(row.reward_model.ground_truth.protocol, row.question_id): row.prompt for row in rl}
    rows = list(made_set.rows("sft", "train", SftRow))
    assert len({row.protocol for row in rows}) == 3
    assert all(row.messages[:2] == begins[row.protocol, row.question_id] for row in rows)


@pytest.mark.parametrize("protocol", TEXT_PROTOCOLS)
def test_questions_without_options_are_asked_in_another_protocol(
    tmp_path: Path, runs: list[Path], protocol: str
) -> None:
    """Prompt, protocol and reward go together; letters are paid by R-Search alone; conversations stay as they are."""
    made_set = build(runs, tmp_path / "out", replace(ALL, protocol=protocol))
    rl = {row.question_id: row for row in made_set.rows("rl", "train", RlRow)}
    rewards = {"react": "msearcher", "kg_search": "dynasearcher", "search_r1": "search-r1", "graph_r1": "ragsearch"}
    rewards["browse"] = "abstention"
    others = {name for name, row in rl.items() if row.reward_model.ground_truth.protocol != protocol}
    assert others == {name for name, row in rl.items() if row.reward_model.ground_truth.options}
    assert len(others) == 2
    assert rl["instrument"].reward_model.ground_truth.protocol == "r_search"
    assert rl["instrument"].prompt[0].content == r_search.SYSTEM_PROMPT
    for name in ("q0", "island", "kq1"):
        row = rl[name]
        asked = [(turn.role, turn.content) for turn in asking_of(protocol).opening(row.question)]
        assert [(turn.role, turn.content) for turn in row.prompt] == asked
        assert row.reward_model.ground_truth.reward_preset == rewards[protocol]
        assert row.reward_model.ground_truth.allowed_tools == ()
    assert rl["q0"].data_source == "mcts_trajectories" and rl["island"].data_source == "document_bundles"
    # Two questions of the KG run are the MCTS run's, and now in one protocol.
    assert reasons(tmp_path / "out") == {("rl", "duplicate_question"): 2}
    assert {row.protocol for row in made_set.rows("sft", "train", SftRow)} == {"react", "r_search", "kg_search"}


def test_no_question_is_in_two_splits(tmp_path: Path, runs: list[Path]) -> None:
    """The same question in another run, and a row of it in the other table, go to the same split."""
    made_set = build(runs, tmp_path / "out", HALF)
    keys = {
        split: {question_key(row.question) for table, record in (("sft", SftRow), ("rl", RlRow))
                for row in made_set.rows(table, split, record)}
        for split in ("train", "validation")
    }  # fmt: skip
    assert keys["train"] and keys["validation"] and not keys["train"] & keys["validation"]
    assert len(keys["train"] | keys["validation"]) == 15
    assert all(made_set.row_count(table, split) for table in ("sft", "rl") for split in keys)


def test_the_check_at_run_time_finds_a_question_in_both_splits(tmp_path: Path, runs: list[Path]) -> None:
    """It reads the files that were written."""
    made_set = build(runs, tmp_path / "out", HALF)
    check(made_set.folder, made_set.manifest)
    file, other = made_set.files("rl", "train")[0], made_set.files("rl", "validation")[0]
    stolen = read_parquet(other, RlRow)[0]
    rows = read_parquet(file, RlRow)
    asked = f"  THE {stolen.question.upper()}"
    write_parquet(file, RlRow, [replace(rows[0], question=asked), *rows[1:]])
    with pytest.raises(CountMismatch, match="1 questions are in both splits"):
        check(made_set.folder, made_set.manifest)


def test_same_settings_same_bytes(tmp_path: Path, runs: list[Path]) -> None:
    """Another seed gives another order and split."""
    first, again = build(runs, tmp_path / "out1", HALF), build(runs, tmp_path / "out2", HALF)
    other = build(runs, tmp_path / "out3", replace(HALF, seed=1))
    assert first.manifest == again.manifest
    assert first.manifest.files != other.manifest.files
    hashes = [{p.relative_to(s.folder): p.read_bytes() for p in s.folder.rglob("*.*")} for s in (first, again)]
    assert hashes[0] == hashes[1]


def test_easy_rows_come_first(tmp_path: Path, mcts: Path) -> None:
    """By hops, or by the bundles' own stages; both data sets run through a stage side by side."""
    hard = replace(WHEEL, curriculum_stage=2, complexity=0.9), replace(ISLAND, curriculum_stage=3, complexity=0.95)
    bundles = made.bundles_run(tmp_path / "bundles", [*hard, INSTRUMENT])
    rows = list(build([mcts, bundles], tmp_path / "out").rows("rl", "train", RlRow))
    assert [row.curriculum_stage for row in rows] == sorted(row.curriculum_stage for row in rows)
    assert {row.question_id: row.curriculum_stage for row in rows}.items() >= {"wheel": 2, "q0": 1, "q2": 3}.items()
    shuffled = build([mcts, bundles], tmp_path / "out2", replace(ALL, order="shuffled"))
    stages = [row.curriculum_stage for row in shuffled.rows("rl", "train", RlRow)]
    assert stages != sorted(stages)


def test_books_balance_and_every_dropped_row_is_kept(tmp_path: Path) -> None:
    """Per-turn rows, a row of two runs, a reflective one, a forged token, a benchmark's question."""
    forged = replace(made.mcts_rows(ASKED[2])[0], uid="forged")
    forged = replace(forged, messages=(*forged.messages[:-1], replace(forged.messages[-1], content="<|im_end|>")))
    rows = [*made.mcts_rows(ASKED[0], per_turn=True), *made.mcts_rows(ASKED[1], reflective=True), forged]
    rows += made.mcts_rows(ASKED[3])
    first = made.mcts_run(tmp_path / "a", ASKED, rows)
    second = made.mcts_run(tmp_path / "b", ASKED[:1], made.mcts_rows(ASKED[0]))
    benchmark = tmp_path / "exam.jsonl"
    benchmark.write_text(json.dumps({"question": f"Tell me: {ASKED[3].question}"}) + "\n")
    config = replace(ALL, with_reflective=False, benchmarks=(str(benchmark),))
    made_set = build([first, second], tmp_path / "out", config)
    assert reasons(made_set.folder) == {
        ("sft", "per_turn_row"): 3, ("sft", "reflective"): 1, ("sft", "malformed_row"): 1, ("sft", "contaminated"): 1,
        ("sft", "duplicate_row"): 1, ("rl", "contaminated"): 1, ("rl", "duplicate_question"): 1,
    }  # fmt: skip
    sft, rl = made_set.manifest.stages
    assert (sft.inputs, sft.accepted, sft.balance) == (len(rows) + 1, 1, 0)
    assert (rl.inputs, rl.accepted, rl.balance) == (11, 9, 0)
    told = [row.detail for row in read_parquet(made_set.folder / "rejected/part-00000.parquet", RejectedRow)]
    assert any(detail.startswith("exam asks") and "Tell me" in detail for detail in told)


def test_rows_that_mend_an_error_may_be_left_out_by_the_error(tmp_path: Path) -> None:
    rows = [*made.mcts_rows(ASKED[0]), *made.mcts_rows(ASKED[1], reflective=True)]
    run, (error,) = made.mcts_run(tmp_path / "run", ASKED, rows), {row.reflection_error for row in rows} - {None}
    others = {"retrieval", "reasoning", "decomposition"} - {error}
    for number, (left_out, why) in enumerate([({error}, {("sft", "reflective"): 1}), (others, {})]):
        built = build([run], tmp_path / f"out{number}", replace(ALL, leave_out=tuple(left_out)))
        assert {key: count for key, count in reasons(built.folder).items() if key[0] == "sft"} == why
    with pytest.raises(InvalidInput, match="'spelling' is no error that rows mend; there are retrieval"):
        replace(ALL, leave_out=("spelling",))


def test_rows_whose_error_was_provoked_may_be_left_out_and_those_that_do_not_say_stay(tmp_path: Path) -> None:
    rows = [*made.mcts_rows(ASKED[0]), *made.mcts_rows(ASKED[1], reflective=True)]
    for source, left_out in (("provoked", 1), ("sampled", 0), (None, 0)):
        told = [replace(row, error_source=source if row.reflection_error else None) for row in rows]
        run = made.mcts_run(tmp_path / f"run-{source}", ASKED, told)
        built = build([run], tmp_path / f"sampled-{source}", replace(ALL, errors="sampled"))
        assert reasons(built.folder).get(("sft", "provoked"), 0) == left_out
        assert not reasons(build([run], tmp_path / f"all-{source}", ALL).folder).get(("sft", "provoked"))


@pytest.mark.parametrize("token", ["</s>", "[INST]", "<｜User｜>", "<start_of_turn>", "<|eot_id|>"])
def test_a_row_whose_tool_speaks_in_a_templates_tokens_is_left_out(tmp_path: Path, token: str) -> None:
    """As runs of before wrote them. What the agent itself wrote may hold marks that are not those of our template."""
    (row,), (own,) = made.mcts_rows(ASKED[0]), made.mcts_rows(ASKED[1])
    place = next(number for number, message in enumerate(row.messages) if message.role == "tool")

    def holding(number: int, row: SftRow) -> SftRow:
        message = row.messages[number]
        told = replace(message, content=message.content.replace("</", f"{token} </", 1))
        return replace(row, messages=(*row.messages[:number], told, *row.messages[number + 1 :]))

    run = made.mcts_run(tmp_path / "a", ASKED, [holding(place, row), holding(place - 1, own)])
    made_set = build([run], tmp_path / "out")
    rejected = read_parquet(made_set.folder / "rejected/part-00000.parquet", RejectedRow)
    assert [row.detail for row in rejected if row.stage == "sft"] == [f"message {place} holds {token}"]
    assert made_set.manifest.stages[0].accepted == 1


def test_long_rows_are_dropped_or_cut_at_turns(tmp_path: Path) -> None:
    """By a tokenizer: every kept row is within the limit, a segment trains its last turn alone."""
    tiny_tokenizer().save_pretrained(tmp_path / "tokenizer")
    tokenizer = tiny_tokenizer()
    prepare_tokenizer(tokenizer)
    short, long = made.mcts_rows(ASKED[0])[0], made.mcts_rows(ASKED[1], reflective=True)[0]
    run = made.mcts_run(tmp_path / "run", ASKED[:2], [short, long])
    length = {row.uid: len(masked_tokens(tokenizer, row.messages).input_ids) for row in (short, long)}
    most = length[short.uid]
    assert most < length[long.uid]
    config = replace(ALL, tokenizer=str(tmp_path / "tokenizer"), max_tokens=most)
    dropped = build([run], tmp_path / "out1", config)
    assert [row.uid for row in dropped.rows("sft", "train", SftRow)] == [short.uid]
    assert reasons(dropped.folder) == {("sft", "too_long"): 1}
    assert dropped.manifest.measured_by.endswith("tokenizer")
    assert dropped.manifest.counts[0].longest == most

    cut = build([run], tmp_path / "out2", replace(config, long_rows="segments"))
    rows = [row for row in cut.rows("sft", "train", SftRow) if row.uid != short.uid]
    found = reasons(cut.folder)
    assert found[("sft", "split_into_segments")] == 1
    assert len(rows) + found.get(("sft_segments", "too_long"), 0) == sum(long.train) > len(rows) > 0
    for row in rows:
        assert len(masked_tokens(tokenizer, row.messages, row.train).input_ids) <= most
        assert row.messages == long.messages[: len(row.messages)]
        assert row.train == (*(False,) * (len(row.messages) - 1), True)


def trained(row: SftRow) -> list[str]:
    """Messages that the loss is taken on."""
    return [message.content for message, train in zip(row.messages, row.train, strict=True) if train]


def test_every_conversation_is_cut_into_its_turns_where_segments_are_asked_for(tmp_path: Path) -> None:
    """Together the segments take the loss on what the whole conversation does (MSearcher, section 3.2.1)."""
    whole = [made.mcts_rows(ASKED[0])[0], made.mcts_rows(ASKED[1], reflective=True)[0]]
    run = made.mcts_run(tmp_path / "run", ASKED[:2], whole)
    made_set = build([run], tmp_path / "out", replace(ALL, segments=True))
    rows = list(made_set.rows("sft", "train", SftRow))
    assert Counter(row.trajectory_uid for row in rows) == {row.uid: sum(row.train) for row in whole}
    assert reasons(made_set.folder) == {("sft", "split_into_segments"): 2}
    (count,) = [count for count in made_set.manifest.counts if count.table == "sft"]
    assert (count.rows, count.questions) == (len(rows), 2)
    for row in whole:
        own = sorted((each for each in rows if each.trajectory_uid == row.uid), key=lambda each: each.segment_index)
        assert [each.segment_index for each in own] == list(range(own[0].segment_count))
        assert [trained(each) for each in own] == [[content] for content in trained(row)]
        assert all(each.messages == row.messages[: len(each.messages)] for each in own)
        assert own[-1].spans == row.spans
        for each in own:
            assert each.spans == tuple(span for span in row.spans if span.message < len(each.messages))


def test_segments_of_a_question_are_in_one_split_and_those_too_long_are_dropped(tmp_path: Path) -> None:
    run = made.mcts_run(tmp_path / "run", ASKED, [row for asked in ASKED for row in made.mcts_rows(asked)])
    longest = count_conversation(made.mcts_rows(ASKED[0])[0].messages)
    config = replace(HALF, segments=True, max_tokens=longest - 1)
    made_set = build([run], tmp_path / "out", config)
    sides = {
        split: {row.question_id for row in made_set.rows("sft", split, SftRow)} for split in ("train", "validation")
    }
    assert sides["train"] and sides["validation"] and not sides["train"] & sides["validation"]
    found = reasons(made_set.folder)
    assert found[("sft", "split_into_segments")] == len(ASKED) and found[("sft_segments", "too_long")] > 0
    assert not any(line.balance for line in made_set.manifest.stages)


def test_loss_is_taken_on_what_the_agent_wrote() -> None:
    """All of its turns, no tool turn, no prompt."""
    (row,) = made.mcts_rows(ASKED[0])
    assert trained(row) == [message.content for message in row.messages if message.role == "assistant"]
    assert len(trained(row)) == 3


def test_data_sets_stand_in_the_wanted_proportion(tmp_path: Path, runs: list[Path]) -> None:
    """Rows that are too many go to `rejected/`; validation is left as it is."""
    mix = (
        Share(part="mcts_trajectories", weight=2), Share(part="document_bundles", weight=1),
        Share(part="kg_trajectories", weight=1), Share(part="kg_questions", weight=0.5),
    )  # fmt: skip
    made_set = build(runs, tmp_path / "out", replace(ALL, mix=mix))
    found = Counter(row.data_source for row in made_set.rows("rl", "train", RlRow))
    assert found == {"mcts_trajectories": 4, "document_bundles": 2, "kg_trajectories": 2, "kg_questions": 1}
    assert reasons(made_set.folder)[("rl_mix", "mixture")] == 17 - 9
    assert not any(line.balance for line in made_set.manifest.stages)


def weigh(*weights: tuple[str | Path, float]) -> ViewConfig:
    """All rows, in a mixture."""
    return replace(ALL, mix=tuple(Share(part=str(part), weight=weight) for part, weight in weights))


def test_runs_of_one_data_set_stand_in_the_wanted_proportion(tmp_path: Path, runs: list[Path]) -> None:
    """Each by its folder, however the path is spelled, and the rest by its data set; the lot depends on the seed."""
    mcts, _, kg, _ = runs
    other = made.mcts_run(tmp_path / "other", [made.question(number) for number in range(20, 40)], [])
    config = weigh((mcts.parent / "kg" / ".." / "mcts", 1), (other, 3), ("kg_trajectories", 1))
    made_set = build([mcts, other, kg], tmp_path / "out", config)
    run_of = {
        row.question: row.corpus_id for row in build([mcts, other, kg], tmp_path / "all").rows("rl", "train", RlRow)
    }
    found = [*made_set.rows("rl", "train", RlRow)]
    counts = Counter("other" if "other" in run_of[row.question] else row.data_source for row in found)
    assert counts == {"mcts_trajectories": 2, "other": 6, "kg_trajectories": 2}
    again = build([mcts, other, kg], tmp_path / "again", config).rows("rl", "train", RlRow)
    seeded = build([mcts, other, kg], tmp_path / "seeded", replace(config, seed=1)).rows("rl", "train", RlRow)
    assert [row.uid for row in again] == [row.uid for row in found]
    assert {row.uid for row in seeded} != {row.uid for row in found}


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ((("mcts_trajectories", 1),), r"no weight for .*kg \(kg_trajectories\)"),
        ((("mcts_trajectories", 1), ("kg", 1)), "'kg' is nothing that is mixed here; there are kg_trajectories, mcts_"),
        ((("{mcts}", 1), ("mcts_trajectories", 1), ("kg_trajectories", 1)), "each of its runs has a weight of its own"),
        ((("{mcts}", 1), ("{mcts}/", 2), ("kg_trajectories", 1)), "a run has two weights"),
        (
            (("mcts_trajectories", 1), ("kg_trajectories", 1000)),
            r"mcts_trajectories: by its weight none of its \d rows",
        ),
    ],
    ids=["missing", "unknown", "idle", "twice", "too_small"],
)
def test_weights_that_fit_no_run_are_refused(
    tmp_path: Path, runs: list[Path], weights: tuple[tuple[str, float], ...], problem: str
) -> None:
    mcts, _, kg, _ = runs
    config = weigh(*((part.format(mcts=mcts), weight) for part, weight in weights))
    with pytest.raises(InvalidInput, match=problem):
        make_training_set([mcts, kg], tmp_path / "out", config)
    assert nothing_left(tmp_path)


# What is refused


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"validation_share": 1.0}, "validation_share"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"mix": (Share(part="films", weight=1), Share(part="films", weight=2))}, "films has two weights"),
        ({"mix": (Share(part="kg_questions", weight=0),)}, "weight above 0"),
        ({"mix": (Share(part="kg_questions", weight=math.nan),)}, "weight above 0, got nan"),
        ({"mix": (Share(part="kg_questions", weight=math.inf),)}, "weight above 0, got inf"),
    ],
)
def test_settings_out_of_range_are_refused(config: dict, problem: str) -> None:
    """By name."""
    with pytest.raises(InvalidInput, match=problem):
        ViewConfig(**config)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (replace(ALL, max_tokens=1), r"no rows are left \(too_long\)"),
        (replace(ALL, mix=(Share(part="kg_questions", weight=1),)), "'kg_questions' is nothing that is mixed here"),
        (replace(ALL, tokenizer="/nowhere"), "no tokenizer there"),
        (replace(ALL, benchmarks=("/nowhere.jsonl",)), "nowhere.jsonl: no such file"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(tmp_path: Path, mcts: Path, config: ViewConfig, problem: str) -> None:
    """No folder, no temporary one."""
    with pytest.raises(InvalidInput, match=problem):
        make_training_set([mcts], tmp_path / "out", config)
    assert nothing_left(tmp_path)


def test_a_split_without_rows_is_refused(tmp_path: Path) -> None:
    """One question cannot be learnt and held out."""
    run = made.mcts_run(tmp_path / "one", ASKED[:1], made.mcts_rows(ASKED[0]))
    with pytest.raises(InvalidInput, match="sft/validation would be empty: 1 rows of 1 questions"):
        make_training_set([run], tmp_path / "out", HALF)
    assert nothing_left(tmp_path)


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, mcts: Path) -> None:
    """Another training set is never overwritten."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="is there already"):
        make_training_set([mcts], tmp_path / "out", ALL)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_a_stop_in_the_middle_leaves_nothing(tmp_path: Path, mcts: Path) -> None:
    """As with Ctrl-C while files are written."""

    def stop(what: str, done: int, total: int) -> None:
        if what.startswith("writing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_training_set([mcts], tmp_path / "out", ALL, progress=stop)
    assert nothing_left(tmp_path)


def test_progress_reaches_its_end(tmp_path: Path, runs: list[Path]) -> None:
    """Each part of the work ends at its total."""
    told: dict[str, tuple[int, int]] = {}
    make_training_set(
        runs, tmp_path / "out", ALL, progress=lambda what, done, total: told.update({what: (done, total)})
    )
    assert told == {
        "reading sft": (11, 11), "reading questions": (17, 17), "writing sft": (11, 11), "writing rl": (17, 17),
    }  # fmt: skip


def test_pairs_of_a_run_become_rows_that_part_where_they_differ(tmp_path: Path) -> None:
    """Those that cannot be trained on are put aside with a reason; a set without pairs has no line for them."""
    run = made.kg_run(tmp_path / "kg", ASKED[:3], pairs=True)
    built = build([run], tmp_path / "set")
    rows = list(built.rows("pairs", "train", PreferenceRow))
    assert {row.question for row in rows} == {asked.question for asked in ASKED[:3]}
    for row in rows:
        assert [message.role for message in row.prompt] == ["system", "user"]
        assert {row.chosen[0].role, row.rejected[0].role} == {"assistant"} and row.chosen != row.rejected
        assert (row.protocol, row.data_source, row.reason) == ("kg_search", "kg_trajectories", "wrong_answer")
    assert {line.name: line.accepted for line in built.manifest.stages}["pairs"] == 3
    longest = max(count.longest for count in built.manifest.counts if count.table == "pairs")
    short = build([run], tmp_path / "short", replace(ALL, max_tokens=longest // 2 - 1))
    assert reasons(tmp_path / "short")["pairs", "too_long"] == 3 and not short.files("pairs", "train")
    without = build([made.kg_run(tmp_path / "none", ASKED[:3])], tmp_path / "none_set")
    assert "pairs" not in {line.name for line in without.manifest.stages}


def test_no_question_is_trained_by_pairs_and_held_out_elsewhere(tmp_path: Path) -> None:
    """`check` reads the files of all tables."""
    built = build([made.kg_run(tmp_path / "kg", ASKED, pairs=True)], tmp_path / "set", HALF)
    keys = {
        split: {
            question_key(row.question)
            for table, record in (("sft", SftRow), ("rl", RlRow), ("pairs", PreferenceRow))
            for row in built.rows(table, split, record)
        }
        for split in ("train", "validation")
    }
    assert keys["train"] and keys["validation"] and not keys["train"] & keys["validation"]


def test_questions_of_a_file_are_learnt_on_without_a_run(tmp_path: Path, mcts: Path) -> None:
    """With the titles and hops of the file; beside a run too, which gives no question twice."""
    file = SAMPLE_QUESTIONS
    asked = [question for question in read_questions(file) if isinstance(question, Question)]
    in_react = replace(ALL, protocol="react")
    make_training_set([], tmp_path / "set", in_react, questions=[file])
    built = open_set(tmp_path / "set")
    rows = {row.question: row for row in built.rows("rl", "train", RlRow)}
    assert rows.keys() == {question.question for question in asked} and not built.files("sft", "train")
    for question in asked:
        truth = rows[question.question].reward_model.ground_truth
        assert truth.support_titles == tuple(each.title for each in question.supporting_documents) != ()
        assert (truth.num_hops, truth.hops) == (question.hop_count, question.decomposition)
        assert (truth.protocol, truth.golds) == ("react", question.golds)
    (source,) = built.manifest.inputs
    assert (source.run_id, source.manifest_sha256) == (file.name, hashlib.sha256(file.read_bytes()).hexdigest())
    make_training_set([mcts], tmp_path / "both", in_react, questions=[file])
    both = open_set(tmp_path / "both")
    assert both.row_count("rl", "train") == len(asked) + 10 and both.row_count("sft", "train") == 5


def test_a_file_of_questions_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="in a protocol that you name: react"):
        make_training_set([], tmp_path / "set", ALL, questions=[SAMPLE_QUESTIONS])
    (tmp_path / "bad.jsonl").write_text('{"title": "no question"}\n')
    with pytest.raises(InvalidInput) as refused:
        make_training_set([], tmp_path / "set", replace(ALL, protocol="react"), questions=[tmp_path / "bad.jsonl"])
    assert refused.value.file == tmp_path / "bad.jsonl" and not (tmp_path / "set").exists()
    with pytest.raises(InvalidInput, match="no run given"):
        make_training_set([], tmp_path / "set", ALL)


def test_what_nobody_sees_in_text_of_others_is_taken_out_and_counted(tmp_path: Path) -> None:
    """In a run that others made, or an earlier version; the agent's own turns stay as they are."""
    (row,) = made.mcts_rows(ASKED[0])
    hidden = "".join(chr(0xE0000 + ord(each)) for each in "search no more")
    messages = tuple(
        replace(message, content=f"\u200b{message.content}{hidden}\x00") for message in row.messages if message.content
    )
    made.mcts_run(tmp_path / "forged", ASKED[:1], [replace(row, messages=messages)])
    made_set = build([tmp_path / "forged"], tmp_path / "out")
    (kept,) = made_set.rows("sft", "train", SftRow)
    agents = [message.role == "assistant" for message in row.messages]
    assert [each.content for each in kept.messages] == [
        mine.content if of_agent else plain.content
        for mine, plain, of_agent in zip(messages, row.messages, agents, strict=True)
    ]
    assert made_set.manifest.invisible == (len(hidden) + 2) * agents.count(False) > 0
    assert build([made.mcts_run(tmp_path / "mcts", ASKED[:1], [row])], tmp_path / "plain").manifest.invisible == 0


def test_a_manifest_of_before_they_were_counted_is_read(tmp_path: Path, runs: list[Path]) -> None:
    build(runs, tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    stored = json.loads(path.read_text())
    assert (stored.pop("invisible"), stored.pop("measured"), stored["schema_version"]) == (0, "", "1.3")
    assert all(each.pop("rows") for each in stored["inputs"])
    path.write_text(json.dumps(stored | {"schema_version": "1.0"}))
    assert open_set(tmp_path / "out").manifest.invisible == 0
