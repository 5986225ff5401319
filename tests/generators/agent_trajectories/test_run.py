"""A whole run by a scripted agent, made once: books, card, what is shown, what verification and training find."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.agents_support import PRESET, QUESTIONS, finished_agents, make_agents
from tests.pipelines.forging import Changes, Forgeries, not_found
from tests.pipelines.support import edit_manifest, forge
from tests.support import world
from tests.support.scripted import ScriptedModel, prompt_text
from tests.support.search_agent import Model, is_by_heart
from trailforge.flows import execute as execution
from trailforge.flows.execute import RunRequest, execute
from trailforge.generators.agent_trajectories import DATASET, AgentTrajectory
from trailforge.generators.agent_trajectories.config import AgentGeneratorConfig, AgentRunConfig
from trailforge.inference import ModelClient
from trailforge.inspector.terminal import show_end, show_rows
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.runs.config import read_config
from trailforge.pipelines.runs.finish import CARD, finished_run
from trailforge.pipelines.runs.verify import verify_run
from trailforge.presets import load_preset
from trailforge.protocols import SEARCH_R1
from trailforge.schemas import ContrastivePair, PreferenceRow, RejectedRow, SftRow, read_rows, to_dict
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.files import open_set


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only read it."""
    return finished_agents(tmp_path_factory)


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def rows_of(folder: Path, table: str) -> list[Any]:
    record = {**DATASET.records, "inputs": DATASET.inputs.record}[table]
    return list(read_rows(sorted((folder / table).glob("part-*.parquet")), record))


def test_the_books_balance_and_every_draw_is_a_row_or_rejected(original: Path) -> None:
    manifest, _ = finished_run(original)
    books = {line.name: line for line in manifest.stages}
    assert [*books] == ["read", "draw", "episode", "filter"]
    known = books["draw"].inputs - books["draw"].accepted
    assert 0 < known < QUESTIONS and {each.reason for each in books["draw"].rejected} == {"known_from_memory"}
    assert books["episode"].inputs == 5 * (QUESTIONS - known) == books["filter"].inputs
    rows, rejected = rows_of(original, "agent_trajectories"), rows_of(original, "rejected")
    assert len(rows) == books["filter"].accepted > 5
    assert len(rows) + len(rejected) == 5 * (QUESTIONS - known) + known
    assert {count.reason for count in books["filter"].rejected} >= {"wrong_answer", "unfinished"}
    assert manifest.calls_per_accepted_row == pytest.approx(manifest.calls / len(rows), abs=0.01)
    purposes = {f"episode {SEARCH_R1.name}", "from_memory", "read_branches"}
    assert {each.purpose for each in manifest.calls_by_purpose} == purposes


def test_every_row_says_where_it_is_from(original: Path) -> None:
    rows: list[AgentTrajectory] = rows_of(original, "agent_trajectories")
    pairs: list[ContrastivePair] = rows_of(original, "pairs")
    sft: list[SftRow] = rows_of(original, "sft")
    assert pairs and [row.uid for row in sft] == [row.uid for row in rows]
    for row in (*rows, *pairs, *sft):
        origin = row.provenance
        assert origin is not None and origin.call_keys
        assert (origin.model, origin.seed, origin.retriever) == ("scripted", 0, "bm25")
        assert origin.run_id == finished_run(original)[0].run_id and origin.prompt_version
    assert {(row.agent, row.agent_config) for row in (*rows, *pairs)} == {(SEARCH_R1.name, rows[0].agent_config)}
    assert all(SEARCH_R1.validate(row.episode.messages, strict=True) == [] for row in rows)


def test_every_rejected_draw_has_its_reason_and_what_was_measured(original: Path) -> None:
    rejected: list[RejectedRow] = rows_of(original, "rejected")
    assert {row.stage for row in rejected} == {"draw", "filter"}
    for row in rejected:
        payload = json.loads(row.payload)
        if row.stage == "draw":
            assert payload["question_id"] == row.uid and payload["answers"] and row.score > 0
            continue
        measured = {each["name"]: each for each in payload["filters"]}
        if row.reason in ("surplus", "same_route"):
            assert all(each["passed"] for each in measured.values())
            continue
        assert not measured[row.reason]["passed"] and measured[row.reason]["score"] == row.score


def test_the_card_says_what_a_row_took_and_shows_an_episode_and_a_pair(original: Path) -> None:
    text = (original / CARD).read_text()
    for part in ("calls per accepted row", "## Questions by the draws", "### episode", "### pair", "`search_r1`"):
        assert part in text
    assert (original / "plots" / "funnel.png").exists()


def test_of_a_run_that_kept_nothing_card_and_terminal_say_so_and_claim_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def client(work: ModelWork) -> ModelClient:
        answering: Any = ScriptedModel(lambda request: "<think>So.</think>\n<answer>Nobody</answer>")
        return answering

    monkeypatch.setattr(ModelWork, "client", client)
    monkeypatch.setattr(execution, "check_reachable", lambda *given, **more: None)
    unasked = PRESET.replace("max_pairs: 2", "max_pairs: 2, memory: {draws: 0}")
    manifest = make_agents(tmp_path, tmp_path / "run", questions=2, preset=unasked)
    card = (tmp_path / "run" / CARD).read_text()
    for said in ("NOTHING WAS KEPT. Most was put aside for wrong_answer: 10 of 10", "The model was not asked"):
        assert said in card
    unwritten = ("`sft`", "`pairs`", "default: true", "split: train\n    path: rejected")
    assert [part for part in unwritten if part in card] == []
    show_end(manifest, tmp_path / "run")
    printed = capsys.readouterr().out
    assert "NOTHING WAS KEPT" in printed and "Rows: none" in printed
    assert f"trailforge show {tmp_path / 'run'} --table rejected\n" in printed and "--count" not in printed


def test_rows_and_pairs_are_trained_on_in_the_protocol_of_their_agent(original: Path, tmp_path: Path) -> None:
    make_training_set([original], tmp_path / "set", ViewConfig(validation_share=0.0))
    sft = list(open_set(tmp_path / "set").rows("sft", "train", SftRow))
    assert {(row.protocol, row.data_source) for row in sft} == {(SEARCH_R1.name, DATASET.name)}
    learnt = list(open_set(tmp_path / "set").rows("pairs", "train", PreferenceRow))
    pairs = {row.uid: row for row in rows_of(original, "pairs")}
    assert learnt and {row.uid for row in learnt} <= pairs.keys()
    for row in learnt:
        assert row.protocol == SEARCH_R1.name and row.data_source == DATASET.name
        assert len(row.prompt) == pairs[row.uid].diverges_at and row.chosen != row.rejected


def test_rows_and_pairs_are_shown_in_a_terminal(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(original, count=2)
    said = capsys.readouterr().out
    assert "draws right" in said and "Without any search the model says" in said
    show_rows(original, table="pairs")
    said = capsys.readouterr().out
    assert "The worse one was put aside by" in said and said.count("no_search") == 2, "what filters measured of both"


# Verification

OTHERS = "the filters choose others"
CHANGES: dict[str, tuple[Changes, str]] = {
    "answer": (lambda r: {"episode": replace(r.episode, answer="Nobody")}, "episode is not"),
    "found": (
        lambda r: {"episode": replace(r.episode, scores=replace(r.episode.scores, supporting_recall=0.5))},
        "episode is not what follows",
    ),
    "search": (
        lambda r: {"episode": replace(r.episode, searches=r.episode.searches[:-1])},
        "its searches and answer are not those",
    ),
    "share": (lambda r: {"right_draws": r.right_draws % 5 + 1}, "right_draws is not what follows"),
    "memory": (lambda r: {"memory_answers": r.golds}, OTHERS),
    "asked": (lambda r: {"memory_draws": 0}, "memory_draws is not what follows"),
    "agent": (lambda r: {"agent_config": "x"}, "agent_config is not what follows"),
    "question": (lambda r: {"question_id": "none"}, "is not among the inputs"),
    "scores": (lambda r: {"filters": ()}, OTHERS),
}
KNOWN = "for another reason than what the model knows"


def _with_payload(stage: str, before: str, after: str) -> Changes:
    return lambda row: {"payload": row.payload.replace(before, after)} if row.stage == stage else {}


REJECTED: dict[str, tuple[Changes, str]] = {
    "answers": (_with_payload("draw", '"answers": [', '"answers": ["Nobody", '), KNOWN),
    "draws": (_with_payload("draw", '"draws": 4', '"draws": 3'), KNOWN),
    "question": (_with_payload("draw", '"question": "', '"question": "And '), "are to another question"),
    "golds": (_with_payload("draw", '"golds"', '"gold"'), "holds no answers from memory"),
    "episode": (lambda row: {"payload": "[]"} if row.stage == "filter" else {}, "holds no episode"),
}


def of_before_calls(folder: Path) -> None:
    """Make the rows of a run those of the version that did not say whether SFT rows are made of calls."""
    paths = [*(folder / "agent_trajectories").glob("part-*.parquet"), *(folder / "rejected").glob("part-*.parquet")]
    for path in paths:
        table = pq.read_table(path)
        if path.parent.name == "rejected":
            payloads = [json.loads(each) for each in table["payload"].to_pylist()]
            for each in payloads:
                if each.pop("sft_calls", None) is not None:
                    each["schema_version"] = "1.2"
            old = [json.dumps(each) for each in payloads]
            table = table.set_column(table.column_names.index("payload"), table.schema.field("payload"), pa.array(old))
        else:
            table = table.drop_columns(["sft_calls"])
            at = table.column_names.index("schema_version")
            table = table.set_column(at, table.schema.field(at), pa.array(["1.2"] * len(table)))
            table = table.replace_schema_metadata({**table.schema.metadata, b"trailforge.version": b"1.2"})
        pq.write_table(table, path)

    def refit(content: dict[str, Any]) -> None:
        for path in paths:
            name = path.relative_to(folder).as_posix()
            next(each for each in content["files"] if each["path"] == name)["sha256"] = sha256_of(path)

    edit_manifest(folder, refit)


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_run_of_before_that_made_no_rows_of_calls_verifies(
    is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether any row was kept, whose file shows what it does not say, or all of them were rejected."""
    asked = next(each for each in (world.question(n, 2) for n in range(9)) if not is_by_heart(each))
    if is_kept:  # one search by the question itself brings the answer
        asked = replace(asked, question=f"{asked.paragraphs[2].title}?", decomposition=())
    model = Model([asked], flaw_rate=0.0)

    async def client(work: ModelWork) -> ModelClient:
        scripted: Any = ScriptedModel(lambda request: model(prompt_text(request), request.sampling_seed))
        return scripted

    monkeypatch.setattr(ModelWork, "client", client)
    monkeypatch.setattr(execution, "check_reachable", lambda *given, **more: None)
    (tmp_path / "questions.jsonl").write_text(json.dumps(to_dict(asked)) + "\n")
    (tmp_path / "preset.yaml").write_text(PRESET.replace("search_r1", "single_shot"))
    request = RunRequest(
        dataset=DATASET.name,
        out=tmp_path / "run",
        preset=str(tmp_path / "preset.yaml"),
        files=(tmp_path / "questions.jsonl",),
    )
    with monkeypatch.context() as before:
        before.setattr(AgentGeneratorConfig, "sft_calls", False)
        execute(request)
    assert rows_of(tmp_path / "run", "sft") == []
    assert bool(rows_of(tmp_path / "run", "agent_trajectories")) == is_kept and rows_of(tmp_path / "run", "rejected")
    assert any("sft_calls is not what follows" in each for each in verify_run(tmp_path / "run").problems)
    of_before_calls(tmp_path / "run")
    assert [each for each in verify_run(tmp_path / "run").problems if "run.json" not in each] == []


@pytest.mark.parametrize(
    ("table", "cases", "key"),
    [
        # What is wrong with one draw is said of its question, too.
        ("agent_trajectories", CHANGES, lambda row: row.question_id),
        ("rejected", REJECTED, lambda row: row.uid),
    ],
    ids=["agent_trajectories", "rejected"],
)
def test_a_changed_row_is_found_behind_a_corrected_hash(
    table: str, cases: Mapping[str, tuple[Changes, str]], key: Callable[[Any], str], original: Path, tmp_path: Path
) -> None:
    changes = {name: change for name, (change, _) in cases.items()}
    said = Forgeries(table, DATASET.records[table], changes, key=key).found(original, tmp_path)
    assert not_found(said, {name: found for name, (_, found) in cases.items()}) == {}


def test_a_pair_and_an_sft_row_that_are_changed_are_found(copy: Path) -> None:
    changes: dict[str, Changes] = {
        "pairs": lambda row: {"bad_answer": "Somebody"},
        "sft": lambda row: {"train": (True,) * len(row.train)},
    }
    wanted = set[str]()
    for table, change in changes.items():
        row = rows_of(copy, table)[0]
        forge(copy, table, _first_becomes([replace(row, **change(row))]), record=DATASET.records[table])
        wanted.add(f"{row.uid}: this row of {table} is not what kept rows give")
    said = {problem.partition(", ")[2] for problem in verify_run(copy).problems}
    assert wanted <= said


def _first_becomes(these: list[Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda rows: [*these, *rows[1:]]


# Presets


@pytest.mark.parametrize("name", ["agent-trajectories", "demo"])
def test_a_preset_holds_every_number_that_decides_rows(name: str) -> None:
    content = load_preset(name, DATASET.name)
    config = read_config(AgentRunConfig, content, source=name)
    decisive = {
        "generator": {"agent", "settings", "draws", "temperature", "top_p", "top_k", "style", "memory", "max_pairs"},
        "filters": {"min_right_share", "max_known_share", "bridges", "max_tokens", "most"},
    }
    assert all(names <= content[section].keys() for section, names in decisive.items())
    assert config.generator.sft_protocol == SEARCH_R1.name and config.longest_reply > 0


def test_the_production_preset_gives_a_reasoning_model_room() -> None:
    config = read_config(AgentRunConfig, load_preset("agent-trajectories", DATASET.name), source="agent-trajectories")
    assert config.generator.numbers.thought_tokens and not config.thought_settings
    assert config.reply_limits["generator.settings.turn_tokens"] == 1024 + 8192
