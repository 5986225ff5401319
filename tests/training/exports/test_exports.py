"""Each trainer's view of one training set: its documented columns, no nulls, the loss on the same turns."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support import finished_runs as made
from tests.support.files import restate
from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.training.test_chat_marks import MODELS, tokenizer_of
from trailforge.generators.sft_rows import without_answer
from trailforge.schemas import ChatMessage, GroundTruth, InvalidInput, OutputError, RlRow, SftRow, from_dict
from trailforge.schemas.text import count_conversation
from trailforge.training.adapters.search_episodes import SearchSettings, read_settings
from trailforge.training.adapters.slime import generate
from trailforge.training.chat_marks import frame_of
from trailforge.training.config import Scheduler, load_train_preset
from trailforge.training.exports import TRAINERS, export
from trailforge.training.exports.common import TEMPLATE
from trailforge.training.exports.numbers import note_omissions
from trailforge.training.masks import (
    END,
    START,
    TRAINING_TEMPLATE,
    MaskedTokens,
    masked_tokens,
    pieces,
    prepare_tokenizer,
    render,
)
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.files import TrainingSet, open_set
from trailforge.training.weights import load_tokenizer

ASKED = [made.question(number, hops=2 + number % 2) for number in range(6)]


@cache
def chatml() -> Any:
    """Asked for late: those that collect tests without running them do without its library."""
    tokenizer: Any = tiny_tokenizer()
    prepare_tokenizer(tokenizer)
    return tokenizer


@pytest.fixture(scope="module")
def made_set(tmp_path_factory: pytest.TempPathFactory) -> TrainingSet:
    """Three data sets; one row is cut into its turns."""
    home = tmp_path_factory.mktemp("set")
    rows = [row for asked in ASKED for row in made.mcts_rows(asked)]
    long = made.mcts_rows(ASKED[0], reflective=True)
    unknown = replace(ASKED[5], id="q6", question="Who wrote it?", decomposition=())
    runs = [
        made.mcts_run(home / "mcts", [*ASKED, unknown], [*rows, *long]),
        made.bundles_run(home / "bundles"),
        made.kg_run(home / "kg", ASKED[:2]),
    ]
    longest = max(count_conversation(row.messages) for row in [*rows])
    config = ViewConfig(validation_share=0.4, max_tokens=longest, long_rows="segments")
    make_training_set(runs, home / "out", config)
    return open_set(home / "out")


@pytest.fixture(scope="module")
def exported(made_set: TrainingSet, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of each trainer."""
    home = tmp_path_factory.mktemp("exports")
    for name in TRAINERS:
        export(made_set.folder, name, home / name)
    return {name: home / name for name in TRAINERS}


LINES = ("sharegpt", "openai")
"""Written as JSON Lines."""


def rows_of(folder: Path, table: str) -> list[dict[str, Any]]:
    """Rows for training."""
    return pq.read_table(folder / table / "train.parquet").to_pylist()


def nulls(array: Any) -> int:
    """How many values are null, inside lists and structs too."""
    if pa.types.is_struct(array.type):
        return array.null_count + sum(nulls(part) for part in array.flatten())
    if pa.types.is_list(array.type):
        return array.null_count + nulls(array.flatten())
    return array.null_count


def ours(made_set: TrainingSet) -> list[SftRow]:
    """The conversations that were exported."""
    return list(made_set.rows("sft", "train", SftRow))


def by_markers(messages: list[dict[str, Any]]) -> MaskedTokens:
    """As trainers do that read the markers of our template."""
    out = chatml().apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    ids, mask = list(out["input_ids"]), out["assistant_masks"]
    return MaskedTokens(input_ids=ids, labels=[i if m else -100 for i, m in zip(ids, mask, strict=True)])


def turn_by_turn(messages: list[dict[str, Any]]) -> MaskedTokens:
    """As trainers do that render every message alone, and train those of role assistant without their headings."""
    ids: list[int] = []
    labels: list[int] = []
    heading = chatml().encode(f"{START}assistant\n", add_special_tokens=False)
    for message in messages:
        text = chatml().apply_chat_template([message], tokenize=False)
        part = chatml().encode(text, add_special_tokens=False)
        trained = message["role"] == "assistant" and message.get("step_loss_mask", 1) == 1
        ids += part
        # The line end after the turn is trained by them and not by us: left out here.
        labels += [*[-100] * len(heading), *part[len(heading) : -1], -100] if trained else [-100] * len(part)
    return MaskedTokens(input_ids=ids, labels=labels)


@pytest.mark.parametrize("name", [name for name in TRAINERS if name not in LINES])
def test_no_value_is_null_and_no_row_is_lost(made_set: TrainingSet, exported: dict[str, Path], name: str) -> None:
    """At any depth; rows in the order of learning."""
    for table, record in (("sft", SftRow), ("rl", RlRow)):
        for split in ("train", "validation"):
            found = pq.read_table(exported[name] / table / f"{split}.parquet")
            assert found.num_rows == made_set.row_count(table, split) > 0
            assert not [column for column in found.column_names if nulls(found[column].combine_chunks())]
            if "question" in found.column_names:
                expected = [row.question for row in made_set.rows(table, split, record)]
                assert found["question"].to_pylist() == expected


@pytest.mark.parametrize("name", TRAINERS)
def test_what_cannot_mask_parts_of_turns_refuses_a_set_that_does(tmp_path: Path, name: str) -> None:
    run = made.mcts_run(tmp_path / "run", ASKED[:2], made.mcts_rows(ASKED[0], reflective=True))
    make_training_set([run], tmp_path / "set", ViewConfig(validation_share=0.0, mistakes="mask"))
    with pytest.raises(InvalidInput, match=rf"{name} takes the loss on whole turns; .*train sft.*--mistakes train"):
        export(tmp_path / "set", name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_questions_alone_are_exported_whatever_becomes_of_mistakes(tmp_path: Path) -> None:
    config = ViewConfig(validation_share=0.0, mistakes="mask")
    make_training_set([made.kg_questions_run(tmp_path / "run")], tmp_path / "set", config)
    assert export(tmp_path / "set", "verl", tmp_path / "out")


@pytest.mark.parametrize(("name", "mask"), [("trl", by_markers), ("verl", turn_by_turn), ("verl", by_markers),
                                            ("openrlhf", by_markers), ("slime", turn_by_turn)])  # fmt: skip
def test_the_loss_is_on_the_same_tokens(made_set: TrainingSet, exported: dict[str, Path], name: str, mask: Any) -> None:
    """Token by token, segments included."""
    expected = ours(made_set)
    assert any(row.segment_count > 1 and sum(row.train) < len(row.messages) // 2 for row in expected)
    for row, view in zip(expected, rows_of(exported[name], "sft"), strict=True):
        assert mask(view["messages"]) == masked_tokens(chatml(), row.messages, row.train)


@pytest.mark.parametrize("name", TRAINERS)
def test_no_trainer_learns_the_answer_of_a_row_that_is_there_for_its_searches(tmp_path: Path, name: str) -> None:
    (whole,) = made.mcts_rows(ASKED[0])
    row = without_answer(whole)
    assert row.is_wrong and row.train == (*whole.train[:-1], False) and sum(row.train) == sum(whole.train) - 1
    make_training_set(
        [made.mcts_run(tmp_path / "run", ASKED[:1], [row])], tmp_path / "set", ViewConfig(validation_share=0.0)
    )
    export(tmp_path / "set", name, tmp_path / "out")
    written = [path for path in (tmp_path / "out" / "sft").iterdir() if path.stem == "train"]
    if name in LINES:
        (view,) = map(json.loads, written[0].read_text().splitlines())
        said = [turn.get("value") or turn["content"] for turn in view.get("conversations") or view["messages"]]
    else:
        said = [turn["content"] for turn in rows_of(tmp_path / "out", "sft")[0]["messages"]]
    assert said[-1] == row.messages[-3].content and row.messages[-1].content not in said


def test_plain_messages_weigh_the_agents_turns(made_set: TrainingSet, exported: dict[str, Path]) -> None:
    """In the order of learning; a turn without loss has weight 0, and no other turn has any."""
    lines = (exported["openai"] / "sft" / "train.jsonl").read_text().splitlines()
    for row, line in zip(ours(made_set), lines, strict=True):
        view = json.loads(line)["messages"]
        assert {turn["role"] for turn in view} <= {"system", "user", "assistant"}
        assert [turn["content"] for turn in view] == [
            message.content for message, _ in zip(row.messages, view, strict=False)
        ]
        weights = [turn.get("weight") for turn in view]
        assert weights == [
            int(train) if turn["role"] == "assistant" else None for train, turn in zip(row.train, view, strict=False)
        ]
    assert len(list((exported["openai"]).rglob("*.jsonl"))) == 2


def test_commands_are_for_the_devices_that_are_named(made_set: TrainingSet, tmp_path: Path) -> None:
    said = {"verl": "--nproc_per_node=2 ", "trl": "over 2 devices", "sharegpt": "on 2 devices"}
    for name, text in said.items():
        export(made_set.folder, name, tmp_path / name, devices=2)
        assert text in (tmp_path / name / "README.md").read_text()
    numbers = yaml.safe_load((tmp_path / "trl/sft.yaml").read_text())
    assert numbers["gradient_accumulation_steps"] * 2 == load_train_preset("msearcher").sft.batch_size
    assert "trainer.n_gpus_per_node=2" in (tmp_path / "verl/README.md").read_text()
    with pytest.raises(InvalidInput, match="batch of 32 cannot be parted among 3 devices"):
        export(made_set.folder, "trl", tmp_path / "three", devices=3)
    assert not (tmp_path / "three").exists()


@pytest.mark.parametrize("name", [name for name in TRAINERS if name != "openai"])
def test_a_readme_says_what_of_the_trainer_has_run(exported: dict[str, Path], name: str) -> None:
    text = (exported[name] / "README.md").read_text()
    assert "**What of it has run here:** " in text
    shuffles = "has not been measured" in text
    assert shuffles == (name in ("verl", "openrlhf"))


def test_chat_template_is_ours(exported: dict[str, Path]) -> None:
    """In each folder whose trainer reads one."""
    for name in ("trl", "verl", "openrlhf", "slime"):
        assert (exported[name] / TEMPLATE).read_text() == TRAINING_TEMPLATE


def truths(exported: dict[str, Path]) -> Iterator[tuple[str, list[GroundTruth]]]:
    """What each trainer hands to a reward."""
    yield "trl", [_truth(row["ground_truth"]) for row in rows_of(exported["trl"], "rl")]
    yield "openrlhf", [_truth(row["label"]) for row in rows_of(exported["openrlhf"], "rl")]
    for name in ("verl", "slime"):
        yield name, [_truth(row["reward_model"]["ground_truth"]) for row in rows_of(exported[name], "rl")]


def _truth(text: str) -> GroundTruth:
    return from_dict(GroundTruth, json.loads(text))


def test_prompts_and_truths_come_back_whole(made_set: TrainingSet, exported: dict[str, Path]) -> None:
    """Round trip of every question: unknown hops stay unknown."""
    expected = [row.reward_model.ground_truth for row in made_set.rows("rl", "train", RlRow)]
    both = [*expected, *(row.reward_model.ground_truth for row in made_set.rows("rl", "validation", RlRow))]
    assert any(truth.num_hops is None for truth in both)
    for name, found in truths(exported):
        assert found == expected, name
    prompts = [[(m.role, m.content) for m in row.prompt] for row in made_set.rows("rl", "train", RlRow)]
    for name in ("trl", "verl", "openrlhf", "slime"):
        found = [[(m["role"], m["content"]) for m in row["prompt"]] for row in rows_of(exported[name], "rl")]
        assert found == prompts


def test_verl_has_the_columns_that_it_reads(exported: dict[str, Path]) -> None:
    """An agent for every row, arguments for its tools, a reward's entry, and nothing that may be null."""
    rows = rows_of(exported["verl"], "rl")
    assert set(rows[0]) == {"data_source", "prompt", "ability", "agent_name", "reward_model", "extra_info"}
    (agent,) = yaml.safe_load((exported["verl"] / "agent_loop.yaml").read_text())
    assert {row["agent_name"] for row in rows} == {agent["name"]}
    module, name = agent["_target_"].rsplit(".", 1)
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin and f"class {name}(" in Path(spec.origin).read_text()
    assert [row["extra_info"]["index"] for row in rows] == list(range(len(rows)))
    assert all(row["extra_info"]["tools_kwargs"]["search"]["create_kwargs"]["corpus_id"] for row in rows)
    assert set(rows_of(exported["verl"], "sft")[0]) == {"messages", "uid", "question", "data_source"}


def test_searches_are_to_be_filled_in(exported: dict[str, Path]) -> None:
    """The same settings for both trainers whose rollouts are ours, with the preset's numbers; folders are asked for."""
    (agent,) = yaml.safe_load((exported["verl"] / "agent_loop.yaml").read_text())
    settings = yaml.safe_load((exported["slime"] / "search.yaml").read_text())
    assert agent["search"] == settings
    live = read_settings(settings)  # the preset's own: the web, which wants no documents
    assert (live.kind, live.web_provider, live.web_pages, live.max_searches) == ("web", "zhipu", 3, 10)
    with pytest.raises(InvalidInput, match="what is searched"):
        read_settings(settings | {"kind": ""})
    with pytest.raises(InvalidInput, match="`kind` searches the web"):
        read_settings(settings | {"documents": ["/runs/one"]})
    local = {"documents": ["/runs/one"], "kind": "dense", "encoder": "minilm", "web_provider": "", "web_pages": 0}
    filled = read_settings(settings | local)
    assert filled == SearchSettings(documents=("/runs/one",), kind="dense", encoder="minilm", max_searches=10)
    command = (exported["slime"] / "README.md").read_text()
    (path,) = re.findall(r"--custom-generate-function-path (\S+)", command)
    assert path == f"{generate.__module__}.{generate.__name__}"


def test_readmes_hold_the_numbers_of_the_preset(exported: dict[str, Path]) -> None:
    """MSearcher's, whose rows are the most: 32 conversations, 5 epochs; 128 questions x 8 episodes, 256 an update."""
    readmes = {name: (folder / "README.md").read_text() for name, folder in exported.items()}
    assert all("preset `msearcher`" in text for text in readmes.values())
    assert "data.train_batch_size=32" in readmes["verl"] and "trainer.total_epochs=5" in readmes["verl"]
    assert "data.train_batch_size=128" in readmes["verl"] and "rollout.n=8" in readmes["verl"]
    assert "ppo_mini_batch_size=32" in readmes["verl"] and "--global-batch-size 256" in readmes["slime"]
    assert "--train.batch_size 32" in readmes["openrlhf"] and "--num_train_epochs 5" in readmes["sharegpt"]


def test_what_a_command_cannot_say_is_said(tmp_path: Path) -> None:
    """R-Search lets KL weight and learning rate fall; the learning rate by a line, which verl cannot."""
    make_training_set([made.bundles_run(tmp_path / "run")], tmp_path / "set", ViewConfig(validation_share=0.0))
    readmes = {}
    for name in ("verl", "slime"):
        export(tmp_path / "set", name, tmp_path / name)
        readmes[name] = " ".join((tmp_path / name / "README.md").read_text().split())
    assert "falls from 0.1 to 0.01 over the steps, and the learning rate falls (linear); with" in readmes["verl"]
    assert "actor_rollout_ref.actor.optim.lr_scheduler_type" not in readmes["verl"]
    assert "falls from 0.1 to 0.01 over the steps; with" in readmes["slime"]
    assert "those of DeepSeek-R1-Distill and Llama have other marks" in readmes["verl"]


def test_commands_say_what_becomes_of_the_learning_rate(exported: dict[str, Path]) -> None:
    """MSearcher's: cosine, then constant. What is left out a trainer decides: Megatron's default falls by a line."""
    commands = {name: (exported[name] / "README.md").read_text() for name in ("verl", "openrlhf", "slime", "sharegpt")}
    said = {name: re.findall(r"(?:lr_scheduler\w*|--lr-decay-style)[ =](\w+)", text) for name, text in commands.items()}
    both = ["cosine", "constant"]
    assert said == {"verl": both, "openrlhf": ["cosine"], "slime": both, "sharegpt": ["cosine"]}


@pytest.mark.parametrize(("scheduler", "said"), [("linear", True), ("cosine", False), ("constant", False)])
def test_a_schedule_that_a_trainer_has_not_is_said(scheduler: Scheduler, said: bool) -> None:
    """Of supervised training too; and a warm-up does not get lost on transformers' `constant`."""
    numbers = replace(load_train_preset("msearcher").sft, scheduler=scheduler)
    assert ("learning rate falls (linear)" in note_omissions(numbers, ("constant", "cosine"))) == said
    assert numbers.transformers_scheduler == ("constant_with_warmup" if scheduler == "constant" else scheduler)


def test_sharegpt_turns_alternate_and_say_the_conversation(made_set: TrainingSet, exported: dict[str, Path]) -> None:
    """As LLaMA-Factory wants them, and rendered as ChatML they are the conversation."""
    lines = (exported["sharegpt"] / "sft" / "train.jsonl").read_text().splitlines()
    for row, line in zip(ours(made_set), lines, strict=True):
        view = json.loads(line)
        turns = view["conversations"]
        assert [turn["from"] for turn in turns] == ["human", "gpt"] * (len(turns) // 2)
        text = f"{START}system\n{view['system']}{END}\n"
        text += "".join(f"{START}{'assistant' if t['from'] == 'gpt' else 'user'}\n{t['value']}{END}\n" for t in turns)
        assert text == render(row.messages)
        trained = [m.content for m, train in zip(row.messages, row.train, strict=True) if train]
        assert [turn["value"] for turn in turns if turn["from"] == "gpt"] == trained
    info = json.loads((exported["sharegpt"] / "dataset_info.json").read_text())
    assert {entry["file_name"] for entry in info.values()} == {"sft/train.jsonl", "sft/validation.jsonl"}


# What is refused


def test_a_folder_that_is_no_training_set_is_refused(tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(InvalidInput, match="no training set"):
        export(tmp_path, "trl", tmp_path / "out")
    with pytest.raises(InvalidInput, match="no trainer 'axolotl'; there are trl, verl"):
        export(tmp_path, "axolotl", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_set_without_conversations_has_no_sharegpt_view(tmp_path: Path) -> None:
    """Questions alone; the other views hold them."""
    make_training_set([made.kg_questions_run(tmp_path / "run")], tmp_path / "set", ViewConfig(validation_share=0.0))
    with pytest.raises(InvalidInput, match="no rows that sharegpt takes"):
        export(tmp_path / "set", "sharegpt", tmp_path / "out")
    assert not [path for path in tmp_path.iterdir() if "out" in path.name]
    rows = export(tmp_path / "set", "verl", tmp_path / "out")
    assert rows == {"rl/train.parquet": 1}
    with pytest.raises(OutputError, match="is there already"):
        export(tmp_path / "set", "verl", tmp_path / "out")


def test_a_shard_of_another_version_leaves_nothing(made_set: TrainingSet, tmp_path: Path) -> None:
    """The file is named."""
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(made_set.folder, copy)
    path = open_set(copy).files("sft", "validation")[0]
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata((table.schema.metadata or {}) | {b"trailforge.version": b"9.0"}), path)
    restate(copy)
    with pytest.raises(InvalidInput, match=r"schema version 9\.0") as caught:
        export(copy, "trl", tmp_path / "out")
    assert caught.value.file == path
    assert not [each for each in tmp_path.iterdir() if "out" in each.name]


def test_numbers_are_of_the_protocol_that_was_asked_for(tmp_path: Path) -> None:
    """Whatever data sets the questions come from; each says its protocol and reward itself."""
    run = made.mcts_run(tmp_path / "run", [made.question(number) for number in range(3)], [])
    make_training_set([run], tmp_path / "set", ViewConfig(validation_share=0.0, protocol="graph_r1"))
    export(tmp_path / "set", "verl", tmp_path / "out")
    assert "preset `ragsearch`" in (tmp_path / "out" / "README.md").read_text()
    (truth, *_) = pq.read_table(tmp_path / "out" / "rl" / "train.parquet").column("reward_model").to_pylist()
    found = json.loads(truth["ground_truth"])
    assert (found["protocol"], found["reward_preset"]) == ("graph_r1", "ragsearch")


# In the marks of a named model


@pytest.mark.parametrize("number", [1, 2], ids=["r1-distill", "llama"])
def test_of_a_named_model_the_template_is_what_train_sft_would_use(
    made_set: TrainingSet, tmp_path: Path, number: int
) -> None:
    model = tmp_path / "model"
    tokenizer_of(*MODELS[number]).save_pretrained(model)
    used: Any = load_tokenizer(str(model))
    export(made_set.folder, "trl", tmp_path / "trl", base_model=str(model))
    written = (tmp_path / "trl" / TEMPLATE).read_text(encoding="utf-8")
    assert written == used.chat_template != TRAINING_TEMPLATE
    settings = yaml.safe_load((tmp_path / "trl" / "sft.yaml").read_text())
    assert (settings["eos_token"], settings["model_name_or_path"]) == (used.eos_token, str(model))
    said = (tmp_path / "trl" / "README.md").read_text()
    assert f"in the marks of `{model}`" in said and f"turns end with `{used.eos_token}`" in said
    for turns in rows_of(tmp_path / "trl", "sft")[:3]:
        ids = used.apply_chat_template(turns["messages"], tokenize=False)
        conversation = [ChatMessage(role=each["role"], content=each["content"]) for each in turns["messages"]]
        assert ids == "".join(piece.text for piece in pieces(conversation, frame=frame_of(used)))


def test_a_trainer_that_cannot_train_in_a_models_marks_says_so(made_set: TrainingSet, tmp_path: Path) -> None:
    model = tmp_path / "model"
    tokenizer_of(*MODELS[1]).save_pretrained(model)
    for name in ("openrlhf", "slime", "sharegpt"):
        with pytest.raises(InvalidInput, match=rf"in which {name} cannot train: .*`--to trl`"):
            export(made_set.folder, name, tmp_path / name, base_model=str(model))
        assert not (tmp_path / name).exists()
    export(made_set.folder, "verl", tmp_path / "verl", base_model=str(model))
    assert not (tmp_path / "verl" / "sft").exists() and rows_of(tmp_path / "verl", "rl")
    assert "renders turn by turn" in (tmp_path / "verl" / "README.md").read_text()


def test_a_model_that_speaks_chatml_changes_no_row(made_set: TrainingSet, tmp_path: Path) -> None:
    model = tmp_path / "model"
    tokenizer_of(*MODELS[0]).save_pretrained(model)
    export(made_set.folder, "sharegpt", tmp_path / "named", base_model=str(model))
    export(made_set.folder, "sharegpt", tmp_path / "plain")
    for file in ("sft/train.jsonl", "dataset_info.json"):
        assert (tmp_path / "named" / file).read_bytes() == (tmp_path / "plain" / file).read_bytes()
