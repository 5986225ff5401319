"""RAPTOR and GraphRAG over the paragraphs of a MuSiQue question, with a strong model's replies.

They were given by somebody who saw the prompts alone, and are kept by what was asked, not by the prompt's text: prompts
are rendered anew, and a call that was not made then, or one that is not made any more, fails.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted import prompt_text
from tests.support.strong_model import StrongModel, read_recording
from trailforge.inference import Meter, Request
from trailforge.inference.asker import Asker
from trailforge.pipelines.sources import read_questions
from trailforge.retrieval.backends import Workbench, load_backend
from trailforge.retrieval.backends.graph_rag import GraphRagIndex
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import Document, Question
from trailforge.schemas.text import count_tokens

RECORDING = Path(__file__).parent / "strong_trees.json.gz"
"""{question: its id, rows: [[purpose, what was asked, number of the draw, reply, thoughts], …]}"""

pytestmark = [pytest.mark.real_model, pytest.mark.slow]


def what_is_asked(request: Request) -> str:
    """What a prompt asks but for its fixed text: the titles, names or question in it."""
    prompt = request.prompt if isinstance(request.prompt, str) else request.prompt[0].content
    again = "" if prompt == prompt_text(request) else " (again)"
    if request.purpose == "summary":
        return "\n".join(sorted(re.findall(r"^\[\d+\] (.{30})", prompt, re.MULTILINE))) + again
    if request.purpose in ("facts", "gleaning"):
        return prompt.rpartition("\nPassage\n")[2].partition("\n")[0] + again
    if request.purpose == "merge":
        return prompt.removeprefix("Several passages describe ").partition(". Make one")[0] + again
    if request.purpose == "report":
        entities = prompt.rpartition("\nEntities\n")[2].partition("\nRelations")[0]
        return "\n".join(re.findall(r"^- (.*?)(?: \(\w+\))?: ", entities, re.MULTILINE)) + again
    return prompt.rpartition("Question: ")[2].partition("\n")[0] + again


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return read_recording(RECORDING)


@pytest.fixture(scope="module")
def question(data_dir: Path, recorded: dict[str, Any]) -> Question:
    questions = read_questions(data_dir / "musique" / "musique_original20.jsonl.gz")
    return next(q for q in questions if isinstance(q, Question) and q.id == recorded["question"])


def documents(question: Question) -> list[Document]:
    """A question's paragraphs, by title."""
    return [Document(id=p.title, title=p.title, text=p.text) for p in question.paragraphs]


def bench(model: StrongModel, encoder: Encoder) -> Workbench:
    asker = Asker(client=model, model="m", style="chat", seed=0, meter=Meter())  # pyright: ignore[reportArgumentType]
    return Workbench(encoder=encoder, asker=asker)


async def test_a_tree_of_summaries(question: Question, recorded: dict[str, Any], encoder: Encoder) -> None:
    model = StrongModel([row for row in recorded["rows"] if row[0] == "summary"], what_is_asked)
    raptor = load_backend("raptor")
    index = await raptor.build(documents(question), raptor.config(reduction="pca"), bench(model, encoder))
    assert model.check_all_used() == {"summary": 4}
    (planned,) = raptor.estimate(documents(question), raptor.config(reduction="pca"))
    replies = sum(count_tokens(row[3]) for row in recorded["rows"] if row[0] == "summary")
    assert planned.calls == 5 and planned.completion_tokens == pytest.approx(replies, rel=0.3)
    found = await index.find(question.question, 4)
    assert [f.passage.title for f in found[:2]] == ["Chiang Hsiao-wu", "Chiang Hsiao-wen"]
    assert set(found[2].sources) > {"Chiang Hsiao-wu", "Chiang Hsiao-wen", "Chiang Ching-kuo"}
    assert found[2].passage.text.startswith("Chiang Ching-kuo, born in Fenghua, Zhejiang, son of Chiang Kai-shek")


async def test_a_graph_with_reports(question: Question, recorded: dict[str, Any], encoder: Encoder) -> None:
    model = StrongModel([row for row in recorded["rows"] if row[0] != "summary"], what_is_asked)
    graph_rag = load_backend("graph_rag")
    config = graph_rag.config(search="local", smallest_report=3)
    passages, tools = documents(question), bench(model, encoder)
    index = await graph_rag.build(passages, config, tools)
    assert isinstance(index, GraphRagIndex)
    assert index.parts.lost == {"passages": 1, "reports": 0}  # its reply was cut, twice
    entities = {row["name"]: row for row in index.parts.entities.to_pylist()}
    assert entities["Chiang Ching-kuo"]["description"].startswith("Chiang Ching-kuo was the son of President Chiang")
    assert "Xiao Shuxian" not in entities
    assert {"Hsiao-wu", "Chiang Hsiao-wu"} <= set(entities)  # why prompts ask for family names now
    found = await index.find(question.question, 5)
    assert [f.passage.title for f in found[:3]] == ["Chiang Hsiao-wen", "Chiang Hsiao-wu", "Chiang Ching-kuo"]
    assert found[4].passage.title == "Chiang Ching-kuo and his family"
    asking = GraphRagIndex(passages, index.parts, graph_rag.config(), tools)
    [answer] = await asking.find(question.question, 5)
    assert answer.passage.text.startswith("Chiang Hsiao-wu, among others.")
    assert answer.sources == ("Chiang Ching-kuo", "Chiang Hsiao-wen", "Chiang Hsiao-wu")
    purposes = {"facts": 21, "gleaning": 20, "merge": 13, "report": 23, "points": 1, "answer": 1}
    assert model.check_all_used() == purposes
    asked = {"facts": 20, "gleaning": 20, "merge": 13, "report": 22}  # of the others, replies were asked for again
    planned = graph_rag.estimate(passages, config)
    assert {each.purpose: each.calls for each in planned} == asked
    for each in planned:
        replies = [count_tokens(row[3]) for row in recorded["rows"] if row[0] == each.purpose]
        assert each.completion_tokens / each.calls == pytest.approx(sum(replies) / len(replies), rel=0.1)
