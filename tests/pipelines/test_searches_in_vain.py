"""A corpus without the documents of the questions is said at once and on the card, by every data set that searches."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.kg_support import reply as kg_reply
from tests.pipelines.kg_support import searched_graph
from tests.pipelines.support import reply as mcts_reply
from tests.support import world
from tests.support.scripted import ScriptedModel, prompt_text
from tests.support.search_agent import Model
from trailforge.flows import execute as execution
from trailforge.flows.execute import RunRequest, execute
from trailforge.generators.search_options import count_support
from trailforge.inference import ModelClient, Request
from trailforge.pipelines.engine import progress
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.engine.progress import SUPPORT_FOUND, SUPPORT_SOUGHT, ProgressFile, show_progress
from trailforge.pipelines.engine.shards import Shard, SupportCount, support_in
from trailforge.pipelines.runs.finish import CARD
from trailforge.pipelines.runs.verify import verify_run
from trailforge.retrieval import RetrievalConfig
from trailforge.schemas import Document, Question, SupportingDocument
from trailforge.schemas.errors import NOTICE

QUESTIONS = 4
MODEL = {"name": "scripted", "url": "http://127.0.0.1:1/v1"}
AGENT = Model(flaw_rate=0.0, by_heart=False)
REPLIES: dict[str, Callable[[Request], str]] = {
    "agent_trajectories": lambda request: AGENT(prompt_text(request), request.sampling_seed),
    "kg_trajectories": kg_reply,
    "mcts_trajectories": mcts_reply,
}
PRESETS: dict[str, dict[str, Any]] = {
    "agent_trajectories": {"generator": {"draws": 2, "top_k": 2}},
    "kg_trajectories": {"generator": {"episodes": 2, "top_k": 2, "kg_filter": "first"}},
    "mcts_trajectories": {"generator": {"rollout": {"top_k": 2}, "search": {"max_rounds": 2}}},
}


def write_corpus(path: Path, first: int) -> Path:
    """The paragraphs of some questions as a file of passages, without their ids."""
    paragraphs = [each for n in range(QUESTIONS) for each in world.question(first + n, 2 + n % 2).paragraphs]
    rows = ({"id": str(n), "title": each.title, "text": each.text} for n, each in enumerate(paragraphs))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Callable[[str, int], tuple[Path, list[str]]]:
    """Makes a data set of questions over the paragraphs of those from a number on: its folder, and what was said."""

    def run(dataset: str, first: int) -> tuple[Path, list[str]]:
        async def scripted(work: ModelWork) -> ModelClient:
            client: Any = ScriptedModel(REPLIES[dataset])
            return client

        monkeypatch.setattr(ModelWork, "client", scripted)
        monkeypatch.setattr(execution, "check_reachable", lambda *given, **more: None)
        questions, preset = tmp_path / "questions.jsonl", tmp_path / "preset.yaml"
        world.write_questions(questions, QUESTIONS)
        retrieval = {"kind": "bm25", "scope": "corpus"}
        preset.write_text(json.dumps({"dataset": dataset, "model": MODEL, "retrieval": retrieval, **PRESETS[dataset]}))
        options = {"documents": write_corpus(tmp_path / "corpus.jsonl", first)}
        if dataset == "kg_trajectories":
            options["kg"] = searched_graph(tmp_path / "graph", QUESTIONS)
        with caplog.at_level(NOTICE):
            execute(
                RunRequest(
                    dataset=dataset, out=tmp_path / "run", preset=str(preset), files=(questions,), options=options
                )
            )
        said = [record.getMessage() for record in caplog.records if record.name == progress.__name__]
        return tmp_path / "run", said

    return run


@pytest.mark.parametrize("dataset", REPLIES)
def test_a_corpus_of_other_questions_is_said_and_on_the_card(
    make: Callable[[str, int], tuple[Path, list[str]]], dataset: str
) -> None:
    run, said = make(dataset, 30)
    support, card = support_in(run), (run / CARD).read_text()
    assert QUESTIONS - 1 <= support.questions <= QUESTIONS and support.found == 0  # one may have lost all its draws
    assert said == [support.warning] and "--documents" in support.warning
    assert f"> **N{support.warning[1:]}.**" in card
    assert f"supporting document for 0 of the {support.questions} questions" in card
    assert verify_run(run).problems == []


@pytest.mark.parametrize("dataset", REPLIES)
def test_the_right_corpus_is_counted_and_nothing_is_said(
    make: Callable[[str, int], tuple[Path, list[str]]], dataset: str
) -> None:
    run, said = make(dataset, 0)
    support, card = support_in(run), (run / CARD).read_text()
    assert said == [] and support.found == support.questions >= QUESTIONS - 1
    assert f"supporting document for {support.found} of the {support.found} questions" in card
    assert "o search found" not in card


@pytest.mark.parametrize(("after", "is_said"), [(SupportCount(questions=3), False), (SupportCount(questions=4), True)])
def test_it_is_said_while_the_stage_runs(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    after: SupportCount,
    is_said: bool,
) -> None:
    """After as many questions as the first shard has, by whichever workers; at the end in any case, and once."""
    shards = [Shard(name=f"part-{n}", input=f"inputs/{n}.parquet", first=4 * n, rows=4) for n in range(9)]
    watch = progress._Watch(tmp_path, "questions", shards, True, None)
    ProgressFile(tmp_path).write({SUPPORT_SOUGHT: after.questions - 2, "items": 9})
    ProgressFile(tmp_path).write({SUPPORT_SOUGHT: 2, SUPPORT_FOUND: 0, "items": 1})
    with caplog.at_level(NOTICE):
        for _ in range(2):
            watch._look(is_last=False)
        assert [record.levelno for record in caplog.records] == [NOTICE] * is_said
        watch._look(is_last=True)
    assert len(caplog.records) == 1


def test_one_find_is_enough_to_say_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shard = Shard(name="part-0", input="inputs/0.parquet", first=0, rows=40)
    with show_progress(tmp_path, "questions", [shard], counts_items=True):
        ProgressFile(tmp_path).write({SUPPORT_SOUGHT: 40, SUPPORT_FOUND: 1, "items": 40})
    assert caplog.records == []


PARAGRAPH = Document(id="p", title="Louis Crato", text="Louis Crato was a count of Nassau who died in Saarbrücken.")
ASKED = Question(
    id="q",
    question="Where did Louis Crato die?",
    answer="Saarbrücken",
    paragraphs=(PARAGRAPH,),
    supporting=(SupportingDocument(title="Louis Crato", id="p"),),
)
NO_TITLES = replace(
    ASKED, paragraphs=(replace(PARAGRAPH, title=""),), supporting=(SupportingDocument(title="", id="p"),)
)
OTHER = Document(id="1", title="Count", text="A count is a noble who ranks below a duke and above a baron.")


@pytest.mark.parametrize(
    ("question", "brought", "found"),
    [
        (ASKED, [Document(id="9", title=" LOUIS  crato", text="")], 1),
        (ASKED, [OTHER, Document(id="9", title="Louis Crato (part 1)", text=PARAGRAPH.text)], 1),
        (ASKED, [Document(id="9", title="", text=f"(Title: x) {PARAGRAPH.text} And more.")], 1),
        (ASKED, [OTHER], 0),
        (ASKED, [Document(id="p", title="", text="Louis Crato was")], 0),
        (NO_TITLES, [Document(id="9", title="", text=PARAGRAPH.text)], 1),
        (NO_TITLES, [Document(id="9", title="", text=OTHER.text)], 0),
        (ASKED, [], 0),
    ],
)
def test_a_document_is_known_by_its_title_or_its_words(question: Question, brought: list[Document], found: int) -> None:
    counted = count_support(question, brought, RetrievalConfig(kind="bm25"), has_searched=True)
    assert counted == SupportCount(questions=1, found=found)


@pytest.mark.parametrize(
    ("question", "kind", "has_searched"),
    [
        (ASKED, "bm25", False),
        (ASKED, "web", True),
        (Question(id="q", question="Where?", answer="There"), "bm25", True),
    ],
)
def test_what_says_nothing_of_a_corpus_is_not_counted(question: Question, kind: str, has_searched: bool) -> None:
    assert count_support(question, [OTHER], RetrievalConfig(kind=kind), has_searched=has_searched) == SupportCount()
