"""`trailforge index`: a corpus made ready for search, looked at, asked, added to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.support.model_server import running
from trailforge.cli import app
from trailforge.pipelines import index_config
from trailforge.retrieval.backends import PLAIN, PlannedCalls, load_backend
from trailforge.schemas import Document, InvalidInput, OutputError, RetrievalError, ServerUnavailable, TrailforgeError

ROWS = [
    {"id": "r", "title": "Mount Ruapehu", "text": "An active volcano. It is the highest of the island."},
    {"id": "t", "title": "Lake Taupo", "text": "The largest lake of the island. It fills a crater."},
]
BM25 = ("--backend", "bm25")
SAMPLE = Path(__file__).parents[2] / "sample_data" / "musique_style_questions.jsonl"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["index", *map(str, arguments)])
    if isinstance(result.exception, TrailforgeError | typer.BadParameter):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A file of passages."""
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.fixture
def index(tmp_path: Path, corpus: Path) -> Path:
    """Of BM25."""
    run("build", corpus, "--backend", "bm25", "--set", "k1=1.2", "--out", tmp_path / "index")
    return tmp_path / "index"


def test_an_index_is_built_and_described(index: Path) -> None:
    shown = run("stats", index)
    assert "2 passages" in shown and "bm25 (k1=1.2, b=0.75)" in shown and "per million tokens" in shown
    stats = json.loads(run("stats", index, "--json", "--check"))
    assert (stats["backend"], stats["config"], stats["corpus"]["name"]) == (
        "bm25",
        {"k1": 1.2, "b": 0.75},
        index.with_name("passages.jsonl").name,
    )
    assert stats["bytes"] > 0 and stats["hours_per_million_tokens"] > 0 and stats["cost_per_million_tokens"] == 0
    (index / "texts.arrow").write_bytes((index / "texts.arrow").read_bytes()[:-1] + b"x")
    with pytest.raises(RetrievalError, match=r"texts\.arrow is damaged"):
        run("stats", index, "--check")


def test_columns_of_other_names_are_named(tmp_path: Path) -> None:
    """Of passages, at the build and when some are added; of a file of questions with paragraphs."""
    build = ("--backend", "bm25", "--out")
    for name, row in (("a", "Lake Taupo,The largest lake,t1"), ("b", "Ruapehu,A volcano,r1")):
        (tmp_path / f"{name}.csv").write_text(f"head,story,no\n{row}\n")
    columns = ("--columns", "title=head,text=story,id=no")
    run("build", tmp_path / "a.csv", *columns, *build, tmp_path / "index")
    assert "[t1]" in run("query", tmp_path / "index", "largest lake")
    with pytest.raises(InvalidInput, match=r"no column for the text; there are head, story, no\. Say which: "):
        run("build", tmp_path / "b.csv", *build, tmp_path / "other")
    with pytest.raises(InvalidInput, match="field '--columns': no field 'headline'; passages have id, title, text"):
        run("build", tmp_path / "b.csv", "--columns", "headline=head", *build, tmp_path / "other")
    (tmp_path / "q.csv").write_text('ask,gold,context\nWhere?,There,"[""A lake."", ""A hill.""]"\n')
    columns = ("--columns", "question=ask,answer=gold,paragraphs=context")
    assert "2 passages" in run("build", tmp_path / "q.csv", *columns, *build, tmp_path / "of_questions")


def test_a_search_shows_scores_and_why(index: Path) -> None:
    shown = run("query", index, "largest lake", "--k", 1)
    assert "Lake Taupo" in shown and "[t]" in shown and "shares lake, largest" in shown and "Ruapehu" not in shown
    found = json.loads(run("query", index, "largest lake", "--json"))
    assert [row["id"] for row in found["found"]] == ["t"] and found["ms"] > 0
    first = found["found"][0]
    assert first["why"] == "shares lake, largest" and first["sources"] == ["t"] and first["score"] > 0


def test_documents_are_cut_by_tokens(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "index"
    shown = run("build", corpus, "--backend", "bm25", "--chunk-tokens", 8, "--out", out)
    assert "4 passages, cut from 2 documents" in shown
    (first,) = json.loads(run("query", out, "crater", "--k", 1, "--json"))["found"]
    assert (first["id"], first["sources"], first["text"]) == ("t#2", ["t"], "It fills a crater.")
    with pytest.raises(InvalidInput, match="give --chunk-tokens, too"):
        run("build", corpus, *BM25, "--chunk-overlap", 2, "--out", "x")


def test_documents_are_made_pages(tmp_path: Path, corpus: Path) -> None:
    """Which the index says of itself, and a dry run knows; an empty part is refused."""
    shown = run("build", corpus, *BM25, "--page-words", 5, "--chunk-tokens", 20, "--out", tmp_path / "pages")
    assert "5 passages of 2 pages in parts of 5 words" in shown
    assert json.loads(run("stats", tmp_path / "pages", "--json"))["pages"] == {"words": 5}
    assert "2 documents, 5 passages" in run(
        "build", corpus, *BM25, "--page-words", 5, "--out", tmp_path / "other", "--dry-run"
    )
    run("build", corpus, *BM25, "--pages", "--out", tmp_path / "usual")
    assert json.loads(run("stats", tmp_path / "usual", "--json"))["pages"] == {"words": 1000}


def test_paragraphs_of_questions_are_a_corpus(tmp_path: Path) -> None:
    run("build", SAMPLE, "--backend", "bm25", "--out", tmp_path / "index")
    paragraphs = {
        (paragraph["title"], paragraph["paragraph_text"])
        for line in SAMPLE.read_text().splitlines()
        for paragraph in json.loads(line)["paragraphs"]
    }
    assert json.loads(run("stats", tmp_path / "index", "--json"))["documents"] == len(paragraphs)


def test_questions_without_paragraphs_are_no_corpus(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"id": "q", "question": "Who?", "answer": "He"}\n')
    with pytest.raises(InvalidInput, match=r"questions\.jsonl: no question of it brings paragraphs"):
        run("build", path, *BM25, "--out", tmp_path / "index")
    assert [each.name for each in tmp_path.iterdir()] == ["questions.jsonl"]


def test_a_back_end_that_takes_no_documents_later_says_so(index: Path, corpus: Path) -> None:
    with pytest.raises(InvalidInput, match="bm25 takes no documents later"):
        run("add", index, corpus)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--backend", "bm26"], "no back end 'bm26'; there are dense, bm25"),
        (["--backend", "bm25", "--set", "k=1"], "'--set k': unknown field of Bm25Config; options of bm25: k1, b"),
        (["--backend", "bm25", "--set", "k1=high"], "'--set k1': expected float, got str"),
        (["--backend", "bm25", "--chunk-tokens", "5", "--chunk-overlap", "5"], "chunk_overlap"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(corpus: Path, tmp_path: Path, options: list[str], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        run("build", corpus, *options, "--out", tmp_path / "index")
    assert message in str(error.value)
    assert not list(tmp_path.glob("*index*"))


def test_folders_and_files_that_are_not_there_are_named(index: Path, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="exists; give another folder"):
        run("build", corpus, "--backend", "bm25", "--out", index)
    with pytest.raises(InvalidInput, match="no such file or folder"):
        run("build", tmp_path / "none", "--backend", "bm25", "--out", tmp_path / "other")
    with pytest.raises(RetrievalError, match="holds no index: make one with `trailforge index build`"):
        run("query", tmp_path, "lake")
    with pytest.raises(ServerUnavailable):
        run("query", index, "lake", "--model", "http://127.0.0.1:9/v1")


def test_a_dry_run_builds_nothing(corpus: Path, tmp_path: Path) -> None:
    shown = run("build", corpus, "--backend", "bm25", "--dry-run", "--out", tmp_path / "index")
    assert "2 documents, 2 passages" in shown and "asks no model" in shown
    assert not list(tmp_path.glob("*index*"))


def test_a_dry_run_says_what_a_model_would_be_asked(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(documents: Sequence[Document], config: object) -> tuple[PlannedCalls, ...]:
        count = len(documents)
        return (PlannedCalls(purpose="facts", calls=count, prompt_tokens=300 * count, completion_tokens=100 * count),)

    asking = replace(load_backend("bm25"), asks_model=lambda config: ("build",))
    monkeypatch.setattr(index_config, "load_backend", lambda name: replace(asking, estimate=plan))
    options = (*BM25, "--model", "http://127.0.0.1:9/v1", "--prices", "1000,10000", "--max-calls", 1, "--dry-run")
    shown = run("build", corpus, *options, "--chunk-tokens", 8, "--out", tmp_path / "index")
    (line,) = (line for line in shown.splitlines() if "facts" in line)
    assert [word for word in line.split() if word[0].isdigit()] == ["4", "1,200", "400", "5.20"]
    assert "--max-calls 1 would stop the run" in " ".join(shown.split())
    assert "one that reasons first writes more" in " ".join(shown.split())
    monkeypatch.setattr(index_config, "load_backend", lambda name: asking)
    with pytest.raises(InvalidInput, match="bm25 does not estimate its calls to a model"):
        run("build", corpus, *options, "--out", tmp_path / "index")
    assert not list(tmp_path.glob("*index*"))


@pytest.mark.parametrize("options", [["--prices", "1"], ["--max-cost", "1"], ["--set", "k1"]])
def test_options_that_say_nothing_are_refused(corpus: Path, tmp_path: Path, options: list[str]) -> None:
    arguments = ["build", str(corpus), "--backend", "bm25", "--model", "http://127.0.0.1:9/v1", *options]
    result = CliRunner().invoke(app, ["index", *arguments, "--out", str(tmp_path / "index")])
    assert result.exit_code == 2 and options[0] in result.output


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Of a server whose model writes what back ends ask for."""
    with running(evaluations=1) as address:
        yield address


def test_a_preset_builds_as_published_and_asks_about_new_documents_alone(url: str, tmp_path: Path) -> None:
    passages = [{"id": str(n), "title": f"K{n}", "text": f"The tailor of K{n} is M{n}."} for n in range(5)]
    (tmp_path / "old.jsonl").write_text("".join(json.dumps(each) + "\n" for each in passages[:3]))
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(each) + "\n" for each in passages[3:]))
    out, served = tmp_path / "index", ("--model", url, "--model-name", "scripted")
    run("build", tmp_path / "old.jsonl", "--preset", "hippo_rag", *served, "--out", out)
    made = json.loads(run("stats", out, "--json"))
    assert (made["backend"], made["model"], made["figures"]["calls"]) == ("hippo_rag", "scripted", 6)
    assert made["config"]["temperature"] == 0.0, "of the preset"
    shown = run("add", out, tmp_path / "new.jsonl", "--dry-run").splitlines()
    assert [line.split()[3] for line in shown if line.startswith("│ all")] == ["4"], "two calls for each new passage"
    run("add", out, tmp_path / "new.jsonl", *served)
    assert json.loads(run("stats", out, "--json"))["figures"]["calls"] == 10
    found = json.loads(run("query", out, "Who is the tailor of K4?", *served, "--json"))["found"]
    assert found[0]["title"] == "K4" and found[0]["why"].startswith("states: ")


def test_what_takes_no_documents_later_says_what_building_again_costs(url: str, tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "index"
    served = ("--model", url, "--model-name", "scripted", "--encoder", "minilm")
    run("build", corpus, "--preset", "hyper_graph_rag", *served, "--out", out)
    with pytest.raises(InvalidInput, match=r"all of them, which asks about 9 calls, [\d,]+ tokens of prompts"):
        run("add", out, corpus, "--dry-run")


def test_a_published_name_without_a_model_says_both_spellings(corpus: Path, tmp_path: Path) -> None:
    for name in PLAIN:
        with pytest.raises(
            InvalidInput, match=rf"this {name} asks .*--model URL.*or take {name}_plain, which asks none"
        ):
            run("build", corpus, "--preset", name, "--encoder", "minilm", "--out", tmp_path / "index")
    with pytest.raises(InvalidInput, match="the preset raptor builds raptor: leave it out"):
        run("build", corpus, "--preset", "raptor", "--backend", "raptor_plain", "--out", tmp_path / "index")
