"""`trailforge evaluate` and `compare`: what a person types, and what goes wrong before anything is asked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.support.model_server import fail_next, running, stats
from tests.support.world import question, write_questions
from tests.training.tiny import SAMPLE, rl_rows, save_tiny_model, training_set
from trailforge.cli import app
from trailforge.commands import evaluate
from trailforge.evaluation.agents.reading_budget import open_tokenizer
from trailforge.evaluation.corpora import hash_place
from trailforge.evaluation.folder import read_episodes, read_evaluation
from trailforge.evaluation.prices import ModelPrice
from trailforge.schemas import (
    BudgetExceeded,
    InvalidInput,
    OutputError,
    ProviderError,
    RetrievalError,
    ServerUnavailable,
    TrailforgeError,
)
from trailforge.training.weights import PACKAGED

NOBODY = ("--model", "http://127.0.0.1:9/v1")
CELL = ("--agent", "react", "--backend", "bm25")


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.output


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Of a server with the scripted model."""
    with running(evaluations=1) as address:
        yield address


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    write_questions(tmp_path / "questions.jsonl", 6)
    return tmp_path / "questions.jsonl"


def test_two_evaluations_are_made_added_to_and_compared(url: str, questions: Path, tmp_path: Path) -> None:
    served, out = ("--model", url, "--model-name", "scripted"), tmp_path / "out"
    assert "1 agents × 1 back ends × 2 seeds × 4 questions = 8 episodes" in run(
        "evaluate", questions, *CELL, *served, "--out", out, "--seeds", "0,1", "--limit", 4, "--dry-run"
    )
    assert not out.exists()
    common = ("evaluate", questions, *served, "--out", out, "--limit", 4, "--top-k", 2)
    told = run(*common, *CELL, "--prices", "1,2")
    assert "react over bm25" in told and told.index("contain-EM") < told.index("report.md")  # it ends with its table
    paid = stats(url)["calls"]
    run(*common, *CELL)
    assert stats(url)["calls"] == paid
    run(*common, "--agent", "single_shot", "--backend", "bm25", "--seeds", "0,1")
    evaluation = read_evaluation(out)
    assert (evaluation.top_k, evaluation.num_questions, evaluation.seeds) == (2, 4, (0, 1))
    assert evaluation.prices == (ModelPrice(model="scripted", prompt=1.0, completion=2.0),)
    assert evaluation.dataset == "made"
    cells = {(row.agent, row.seed) for row in read_episodes(out)}
    assert cells == {("react", 0), ("single_shot", 0), ("single_shot", 1)}
    assert all(len(search.document_ids) <= 2 for row in read_episodes(out) for search in row.searches)
    (pair,) = json.loads(run("compare", f"{out}#agent=single_shot,seed=0", f"{out}#agent=react", "--json"))
    assert (pair["first"][0], pair["second"][0], pair["questions"]) == ("single_shot", "react", 4)
    assert pair["differences"]["searches"]["difference"] > 0
    shown = run("compare", out, out)
    assert "supporting recall" in shown and "McNemar's exact p 1" in shown and shown.count("A: ") == 2
    with pytest.raises(InvalidInput, match="has no episodes of agent=search_o1; there are agent=react,backend=bm25"):
        run("compare", f"{out}#agent=search_o1", out)
    with pytest.raises(InvalidInput, match="expected FOLDER#agent="):
        run("compare", f"{out}#who=me", out)
    with pytest.raises(InvalidInput, match="holds no evaluation"):
        run("compare", tmp_path, out)
    with pytest.raises(InvalidInput, match="it was evaluated with 2, not 3") as error:
        run(*common, *CELL, "--top-k", 3)
    assert error.value.field == "top_k"


def test_a_strangers_folder_is_left_as_it_is(url: str, questions: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.md").write_text("mine")
    for option in ([], ["--dry-run"]):
        with pytest.raises(OutputError, match="holds no evaluation"):
            run("evaluate", questions, *CELL, "--model", url, "--model-name", "s", "--out", tmp_path / "out", *option)
    assert [(path.name, path.read_text()) for path in (tmp_path / "out").iterdir()] == [("report.md", "mine")]


def test_a_graph_may_be_a_servers(questions: Path, tmp_path: Path) -> None:
    """Its URL says which one it is; what is neither a URL nor a folder is said."""
    common = ("evaluate", questions, *NOBODY, "--model-name", "m", "--agent", "kg_search", "--backend", "bm25")
    said = run(*common, "--kg", "http://127.0.0.1:9", "--out", tmp_path / "out", "--dry-run")
    assert "1 agents × 1 back ends × 1 seeds × 6 questions" in said
    assert hash_place("http://127.0.0.1:9") == "http://127.0.0.1:9"
    with pytest.raises(InvalidInput, match="no such file or folder"):
        run(*common, "--kg", "127.0.0.1:9", "--out", tmp_path / "out", "--dry-run")


def test_a_judge_is_asked_and_kept(url: str, questions: Path, tmp_path: Path) -> None:
    with running(judge=1) as judging:
        common = ("evaluate", questions, *CELL, "--model", url, "--model-name", "scripted", "--limit", 3)
        run(*common, "--out", tmp_path / "out", "--judge", f"{judging}#judge")
        answered = [row for row in read_episodes(tmp_path / "out") if row.answer]
        assert answered and all(row.scores.judge == 1.0 for row in answered)
        assert stats(judging)["calls"] == len({(row.question, row.answer) for row in answered})
    assert read_evaluation(tmp_path / "out").judge == "judge"


def test_a_cap_ends_it_and_the_same_command_goes_on(url: str, questions: Path, tmp_path: Path) -> None:
    common = ("evaluate", questions, *CELL, "--model", url, "--model-name", "other", "--out", tmp_path / "out")
    with pytest.raises(TrailforgeError, match=r"the cap on calls is reached.*--max-calls"):
        run(*common, "--max-calls", 3)
    assert not list(read_episodes(tmp_path / "out"))
    run(*common)
    assert len(list(read_episodes(tmp_path / "out"))) == 6


def test_a_wrong_key_writes_no_row(url: str, questions: Path, tmp_path: Path) -> None:
    common = ("evaluate", questions, *CELL, "--model", url, "--model-name", "third", "--limit", 1)
    refused = {"status": 401, "body": {"error": {"message": "no such key"}}}
    fail_next(url, {"status": 200, "body": {"data": []}}, *[refused] * 2)
    with pytest.raises(ProviderError):
        run(*common, "--out", tmp_path / "out")
    fail_next(url)
    assert not list(read_episodes(tmp_path / "out"))


def test_a_checkpoint_is_evaluated_on_the_held_out_questions_of_a_training_set(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model")
    rows = training_set(tmp_path / "set", rl=rl_rows()[1:], held_out=[*rl_rows()[:1], *rl_rows("kg_search")[:1]])
    (tmp_path / "preset.yaml").write_text("agents: {react: {turn_tokens: 8, temperature: 0.0}}\nshard_size: 2\n")
    common = ("evaluate", rows, *CELL, "--preset", tmp_path / "preset.yaml", "--documents", SAMPLE / "documents.jsonl")
    run(*common, "--model", model, "--out", tmp_path / "out")
    (row,) = read_episodes(tmp_path / "out")
    assert (row.question, row.golds[0]) == (rl_rows()[0].question, rl_rows()[0].reward_model.ground_truth.target[0])
    assert row.stop == "too_long" and row.costs.completion_tokens == 8
    assert row.model.startswith(f"{model}@")
    run(*common, "--model", model, "--out", tmp_path / "again")
    assert next(read_episodes(tmp_path / "again")).messages == row.messages


def test_a_budget_of_tokens_is_counted_by_the_model_s_tokenizer_and_named(tmp_path: Path) -> None:
    """Held-out questions with options, as of a bundles run, are asked too."""
    model = save_tiny_model(tmp_path / "model")
    first, second = rl_rows()[:2]
    truth = second.reward_model.ground_truth
    truth = dataclasses.replace(truth, answer_kind="options", options=("one", "two"), correct_options=("B",))
    lettered = dataclasses.replace(
        second,
        question="Which?\nA. one\nB. two",
        reward_model=dataclasses.replace(second.reward_model, ground_truth=truth),
    )
    rows = training_set(tmp_path / "set", rl=rl_rows()[2:], held_out=[first, lettered])
    (tmp_path / "preset.yaml").write_text("agents: {single_shot: {answer_tokens: 8, temperature: 0.0}}\n")
    common = ("evaluate", rows, "--agent", "single_shot", "--backend", "bm25", "--preset", tmp_path / "preset.yaml")
    common = (*common, "--documents", SAMPLE / "documents.jsonl", "--model", model, "--out", tmp_path / "out")
    run(*common, "--context-tokens", 400)
    assert (read_evaluation(tmp_path / "out").context_tokens, read_evaluation(tmp_path / "out").tokenizer) == (
        400,
        str(model),
    )
    found = {row.question: row for row in read_episodes(tmp_path / "out")}
    assert found[lettered.question].correct_options == ("B",) and len(found) == 2
    count = open_tokenizer(str(model))
    for row in found.values():
        (search,) = row.searches
        shown = row.messages[0].content.partition("Documents\n")[2].partition("\n\nQuestion:")[0]
        assert search.context_tokens == count(shown) and sum(map(count, shown.split("\n"))) <= 400
    report = (tmp_path / "out" / "report.md").read_text()
    assert "as many as fit into 400 tokens" in report and f"Tokens of what was read: by {model}" in report
    assert "## Questions with options" in report and "answer in text" in report
    with pytest.raises(InvalidInput, match="evaluated with 400, not 500"):
        run(*common, "--context-tokens", 500)


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        ((*CELL, "--context-tokens", "500", "--model-name", "mine"), InvalidInput, "name the agent's model"),
        ((*CELL, "--context-tokens", "500", "--tokenizer", str(SAMPLE)), InvalidInput, "--tokenizer names that of"),
        (("--agent", "nobody", "--backend", "bm25"), InvalidInput, "no agent 'nobody'; there are single_shot"),
        (("--agent", "react", "--backend", "nothing"), InvalidInput, "'nothing': say a back end (dense, bm25"),
        (("--agent", "react", "--backend", "wiki=no/folder"), InvalidInput, "no such folder; make an index"),
        (("--agent", "react", "--backend", "a/b=http://x"), InvalidInput, "NAME=FOLDER of an index"),
        (("--agent", "react", "--backend", f"wiki={SAMPLE}"), RetrievalError, "holds no index"),
        (("--agent", "kg_search", "--backend", "bm25"), InvalidInput, "searches a knowledge graph too"),
        ((*CELL, "--kg", "."), InvalidInput, "searches no knowledge graph; leave it out"),
        ((*CELL, "--backend", "bm25=http://127.0.0.1:9"), InvalidInput, "two back ends are called bm25"),
        (("--agent", "r_search", "--backend", "bm25", "--prompt", "published"), InvalidInput, "prompt of r_search"),
        ((*CELL, "--preset", "msearcher"), InvalidInput, "no preset 'msearcher'; there are browse, demo, ragsearch"),
        ((*CELL, "--seeds", "0,one"), typer.BadParameter, "expected whole numbers"),
        ((*CELL, "--judge", "gpt"), typer.BadParameter, "expected URL#MODEL"),
        ((*CELL, "--max-cost", "3"), typer.BadParameter, "caps nothing without --prices"),
        ((*CELL, "--prices", "3"), typer.BadParameter, "expected two numbers"),
        ((*CELL, "--documents", "none.jsonl"), InvalidInput, "no such file or folder"),
        ((*CELL, "--format", "unknown"), InvalidInput, "unknown format"),
        ((*CELL, "--model", "mine"), InvalidInput, "no URL, no folder with a checkpoint"),
        ((*CELL, *NOBODY), ServerUnavailable, "127.0.0.1:9"),
    ],
)
def test_bad_input_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    questions: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    error: type[Exception],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as raised:
        run("evaluate", questions, "--out", "out", *NOBODY, *words)
    assert says in str(raised.value) and "\n" not in str(raised.value)
    if error is not ServerUnavailable:
        assert not Path("out").exists()


def test_a_file_without_questions_and_questions_without_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text('{"text": "a passage"}\n')
    with pytest.raises(InvalidInput, match="1 rows are no questions, the first in row 1"):
        run("evaluate", tmp_path / "odd.jsonl", *CELL, *NOBODY, "--out", tmp_path / "out")
    (tmp_path / "bare.jsonl").write_text(json.dumps({"id": "1", "question": "Who?", "answer": "Me"}) + "\n")
    with pytest.raises(InvalidInput, match="bring no paragraphs to build back ends over; give --documents"):
        run("evaluate", tmp_path / "bare.jsonl", *CELL, *NOBODY, "--out", tmp_path / "out")
    assert question(0, 2).paragraphs


def test_published_builds_are_written_by_the_model_under_caps_and_paid_once(
    url: str, questions: Path, tmp_path: Path
) -> None:
    """By the index presets; `graph_rag` and `hippo_rag` ask at every search besides."""
    presets = ("hippo_rag", "graph_rag", "hyper_graph_rag")
    agents = (each for name in presets for each in ("--backend", name))
    served = ("--model", url, "--model-name", "scripted", "--encoder", "minilm")
    common = ("evaluate", questions, "--agent", "react", *agents, *served, "--limit", 2, "--out", tmp_path / "out")
    shown = run(*common, "--dry-run")
    assert "Building hippo_rag asks a model, and so does every search" in shown
    assert "Building hyper_graph_rag asks a model\n" in shown and "extract_triples" in shown
    with pytest.raises(BudgetExceeded):
        run(*common, "--max-calls", 3)
    run(*common)
    paid = stats(url)["calls"]
    shown = run(*common, "--dry-run")
    assert "hippo_rag: is built; every search asks a model\n" in shown and "hyper_graph_rag: is built\n" in shown
    assert "Building" not in shown
    elsewhere = ("--backend", f"mine={tmp_path / 'out' / 'indexes' / 'graph_rag'}", "--out", tmp_path / "other")
    shown = run("evaluate", questions, "--agent", "react", *served, "--limit", 2, *elsewhere, "--dry-run")
    assert f"mine: searches {elsewhere[1].removeprefix('mine=')}; every search asks a model\n" in shown
    run(*common)
    assert stats(url)["calls"] == paid
    built = {each.name: each for each in read_evaluation(tmp_path / "out").backends}
    assert {each.config["model"] for each in built.values()} == {"scripted"}
    assert built["graph_rag"].config["chunk_tokens"] == 1200 and built["hippo_rag"].config["filter"] == "model"
    rows = {row.backend: row for row in read_episodes(tmp_path / "out")}
    assert rows.keys() == set(presets)
    plain = sum(message.role == "assistant" for message in rows["hippo_rag"].messages)
    assert rows["hippo_rag"].costs.calls == plain + len(rows["hippo_rag"].searches), "a filter is a call"
    assert rows["hyper_graph_rag"].costs.calls == plain
    report = (tmp_path / "out" / "report.md").read_text()
    assert "| hippo_rag | hippo_rag, by scripted |" in report
    with pytest.raises(InvalidInput, match="evaluated with 'scripted', not 'other'"):
        run(*common, "--build-model", f"{url}#other")


def test_who_cannot_ask_a_server_builds_plainly(questions: Path, tmp_path: Path) -> None:
    common = ("evaluate", questions, "--agent", "react", "--out", tmp_path / "out", "--model", "embedded")
    with pytest.raises(InvalidInput, match=r"hippo_rag asks a model: say which .*, or take hippo_rag_plain"):
        run(*common, "--backend", "hippo_rag", "--encoder", "minilm", "--preset", "demo")


def test_the_packaged_checkpoint_is_called_as_in_training() -> None:
    assert evaluate.PACKAGED == PACKAGED


def test_help_has_examples() -> None:
    assert "trailforge evaluate musique_dev.jsonl" in run("evaluate", "--help")
    assert "trailforge compare evaluations/sft" in run("compare", "--help")
