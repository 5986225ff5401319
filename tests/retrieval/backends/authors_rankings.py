"""Small graphs that are the same everywhere: of 27 passages of MuSiQue, with a strong model's recorded facts.

Over them the authors' own search functions were run once, beside this project; `authors_rankings.json` has what they
found, figures and no code: for each method and question the first ten, with their scores.

- LinearRAG: `graph_search_with_seed_entities` (DEEP-PolyU/LinearRAG @ 4ecfa251), with the numbers of its run.py and
  those of its config.py; scores as shares of the best
- HippoRAG 2: `graph_search_with_fact_entities` (OSU-NLP-Group/HippoRAG @ c617143f), after a filter that keeps all five
  facts; scores as shares of the best
- HyperGraphRAG: `_build_query_context` (LHRLAB/Graph-R1 @ ab091302), with five entities, five facts, the best ten;
  coherences to three digits, as it gives them

Passages are Wikipedia's (CC BY-SA), by MuSiQue (CC BY 4.0; Trivedi et al., 2022).
"""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from tests.retrieval.backends.words import WordEncoder, bench
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.inference import Request
from trailforge.retrieval.backends import load_backend
from trailforge.retrieval.backends.hippo_rag import HippoRagIndex
from trailforge.retrieval.backends.hyper_graph_rag import HyperGraphRagIndex
from trailforge.retrieval.backends.linear_rag import LinearRagIndex
from trailforge.schemas import Document

_RECORDED = Path(__file__).parent / "facts_read_by_a_strong_model.json.gz"
_ROWS: list[dict[str, Any]] = json.loads(gzip.decompress(_RECORDED.read_bytes()))
DOCUMENTS = [Document(id=row["title"], title=row["title"], text=row["text"]) for row in _ROWS]
QUESTIONS = (
    "For which country did Ambra Migliori swim at the 2004 Summer Olympics?",
    "Where did Sweden compete with 260 competitors in 1920?",
    "Who founded the Queen Elisabeth Medical Foundation?",
    "Which sailor from Belgium competed at the 1920 Summer Olympics in Ostend?",
    "Where was Arnoud van der Biesen born?",
    "When did Italy revoke the Triple Alliance?",
    "Which Czech sports shooter competed at the 1920 Summer Olympics?",
    "For which country did Bohumil Rameš compete in 1912?",
    "In which Olympiads was tug of war contested?",
    "Who wrote the novel Dead Ernest under the name of Alice Tilton?",
    "Which radio series is based on novels of Phoebe Atwood Taylor?",
    "Who wrote Song of Solomon?",
    "Where was Frédéric Nérac reported missing?",
    "In which village is Nikitaras thought to have been born?",
    "Which towns border on Boston?",
    "Whose heart did Regina give to the doctor?",
    "Where did Hans Schelling die?",
    "How often did Vittorio Zucca win the national championship?",
    "For which country did Roldano Simeoni play water polo, and where was he born?",
    "Which athlete from Guyana ran in the middle distances?",
)


def _facts_of(row: dict[str, Any]) -> dict[str, Any]:
    """What was read out of a passage: the first reply that holds JSON."""
    for reply in row["replies"]:
        start, end = reply.find("{"), reply.rfind("}")
        if start >= 0:
            return json.loads(reply[start : end + 1])
    return {"entities": [], "facts": []}


_FACTS = {row["title"]: _facts_of(row) for row in _ROWS}


def _reply(request: Request) -> str:
    """Facts as they were read; of each, the entities in it one after the other make its triples."""
    prompt = prompt_text(request)
    read = _FACTS[prompt.rpartition("\nTitle: ")[2].partition("\n")[0]]
    if request.purpose == "extract_names":
        return json.dumps({"names": [each["name"] for each in read["entities"]]})
    if request.purpose == "extract_triples":
        triples = [
            {"subject": one, "relation": f"({fact['fact']})", "object": other}
            for fact in read["facts"]
            for one, other in pairwise(fact["entities"])
        ]
        return json.dumps({"triples": triples})
    is_first = prompt.startswith("Take the passage below apart")
    return json.dumps(read if is_first else {"entities": [], "facts": []})


async def _build(name: str, **numbers: Any) -> Any:
    backend = load_backend(name)
    return await backend.build(DOCUMENTS, backend.config(**numbers), bench(ScriptedModel(_reply)))


async def build_linear(*, is_ragsearch: bool) -> LinearRagIndex:
    """With the numbers of its program, or of RAGSearch."""
    tighter = {"sentences_per_name": 1, "threshold": 0.5, "dense_weight": 1.5} if is_ragsearch else {}
    return cast(LinearRagIndex, await _build("linear_rag", **tighter))


async def build_hippo() -> HippoRagIndex:
    """Whose filter keeps all facts."""
    return cast(HippoRagIndex, await _build("hippo_rag", filter="none"))


async def build_hyper() -> HyperGraphRagIndex:
    """That gives facts."""
    return cast(HyperGraphRagIndex, await _build("hyper_graph_rag"))


def encoder() -> WordEncoder:
    """Of all of them."""
    return WordEncoder()
