"""24 passages of MuSiQue and five questions with a strong model's replies: the facts, and what they lead to.

The replies were given by somebody who saw the prompts alone. They are kept by what was asked, not by the prompt's text:
prompts are rendered anew, and a call that was not made then, or one that is not made any more, fails.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.scripted import prompt_text
from tests.support.strong_model import StrongModel, read_recording
from trailforge.inference import Meter, Request
from trailforge.inference.asker import Asker
from trailforge.pipelines.sources import read_questions
from trailforge.retrieval.backends import Workbench, load_backend
from trailforge.retrieval.backends.hippo_rag import HippoRagIndex
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import Document, Question
from trailforge.schemas.text import count_tokens

RECORDING = Path(__file__).parent / "hippo_rag_run.json.gz"
"""{questions: […], calls: [[purpose, what was asked, number of the draw, reply, thoughts], …]}"""
SUPPORTED_BY = "3hop1__210639_147339_51423"
"""Its three supporting passages and the first other one are among those read, beside all twenty of the next."""
WHOLE = "3hop1__155787_497059_42188"

pytestmark = [pytest.mark.real_model, pytest.mark.slow]


def what_is_asked(request: Request) -> str:
    """The title of a passage, with the names found in it; the question and the facts of a search."""
    prompt = prompt_text(request)
    if request.purpose == "filter_facts":
        return prompt.rpartition("\nQuestion: ")[2].rpartition("\n\nReply")[0]
    title, *rest = prompt.rpartition("\nTitle: ")[2].split("\n")
    return "\n".join([title, *(line for line in rest if line.startswith("Names: "))])


@pytest.fixture(scope="module")
def documents(data_dir: Path) -> list[Document]:
    source = data_dir / "musique" / "musique_original20.jsonl.gz"
    questions = {q.id: q for q in read_questions(source) if isinstance(q, Question) and q.id in (WHOLE, SUPPORTED_BY)}
    one, other = questions[WHOLE], questions[SUPPORTED_BY]
    supporting = {each.id for each in other.supporting_documents}
    chosen = [paragraph for paragraph in other.paragraphs if paragraph.id in supporting]
    chosen += [paragraph for paragraph in other.paragraphs if paragraph.id not in supporting][:1]
    read = [*one.paragraphs, *chosen]
    return [Document(id=str(row), title=each.title, text=each.text) for row, each in enumerate(read)]


async def test_the_facts_of_a_strong_model_lead_to_passages(documents: list[Document], encoder: Encoder) -> None:
    recorded = read_recording(RECORDING)
    model = StrongModel(recorded["calls"], what_is_asked)
    asker = Asker(client=model, model="m", style="chat", seed=0, meter=Meter())
    backend, tools = load_backend("hippo_rag"), Workbench(encoder=encoder, asker=asker)
    index = await backend.build(documents, backend.config(), tools)
    assert isinstance(index, HippoRagIndex)
    table = index.parts.table
    assert (len(documents), index.parts.lost) == (24, 0)
    assert (len(table.facts), len(table.phrases.keys)) == (205, 208)
    longest = max(table.phrases.keys, key=lambda key: len(key.split()))
    assert longest == "scene in the northwest portrait of john henry lefroy"
    pointing = re.compile(r"\b(he|she|it|they|both|former|latter|first|second)\b")
    assert not [key for key in table.phrases.keys if pointing.search(key)]
    found = {question: await index.find(question, 3) for question in recorded["questions"]}
    germany, castle, sea, house, wall = ([each.passage.title for each in best] for best in found.values())
    assert germany == ["Imperialism", "Atbarah River", "Tekezé River"]
    assert castle == ["Scene in the Northwest: Portrait of John Henry Lefroy", "Paul Kane", "Casa Loma"]
    assert sea[:2] == ["Atbarah River", "Tekezé River"]
    assert (house[0], wall[0]) == ("Casa Loma", "Salzböde")  # no fact is about the wall: the nearest by embedding
    assert [best[0].why.partition(": ")[0] for best in found.values()] == [
        *["states"] * 4,
        "no fact fits; near to the question",
    ]
    assert model.check_all_used() == {"extract_names": 24, "extract_triples": 24, "filter_facts": 5}
    for planned in backend.estimate(documents, backend.config()):
        replies = sum(count_tokens(row[3]) for row in recorded["calls"] if row[0] == planned.purpose)
        assert planned.calls == 24
        assert planned.completion_tokens == pytest.approx(replies, rel=0.02)
