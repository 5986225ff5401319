"""A small graph with the documents of `tests.support.rows.QUESTION`, and scripted agents over both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.scripted import Script, ScriptedModel
from trailforge.generators.kg_trajectories.config import KgContext, KgGeneratorConfig
from trailforge.inference import Prices, Request
from trailforge.protocols import KG_SEARCH
from trailforge.protocols.turns import Search, Turn
from trailforge.retrieval import RetrievalConfig, open_retrieval
from trailforge.retrieval.kg import KgStore, build_kg, open_source

TRIPLES = (
    ("metropolis", "director", "lang"),
    ("metropolis", "cast", "helm"),
    ("lang", "born", "vienna"),
    ("lang", "died", "hills"),
    ("vienna", "country", "austria"),
    ("hills", "country", "usa"),
    ("lorre", "born", "rosenberg"),
)
ENTITIES = (
    ("metropolis", "Metropolis"),
    ("lang", "Fritz Lang"),
    ("helm", "Brigitte Helm"),
    ("vienna", "Vienna", "Wien"),
    ("hills", "Beverly Hills"),
    ("austria", "Austria"),
    ("usa", "United States"),
    ("lorre", "Peter Lorre"),
    ("rosenberg", "Rosenberg"),
)
RELATIONS = (
    ("director", "director", "directed by"),
    ("cast", "cast member"),
    ("born", "place of birth", "born in"),
    ("died", "place of death", "died in"),
    ("country", "country"),
)


def store(
    folder: Path,
    triples: tuple[tuple[str, str, str], ...] = TRIPLES,
    entities: tuple[tuple[str, ...], ...] = ENTITIES,
) -> KgStore:
    """The graph, built in a folder that exists."""
    tables = {"triples": triples, "entities": entities, "relations": RELATIONS}
    for name, rows in tables.items():
        (folder / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    source = open_source(
        folder / "triples.tsv", entities=[folder / "entities.tsv"], relations=[folder / "relations.tsv"]
    )
    build_kg(source, folder / "store")
    return KgStore.open(folder / "store")


def context(graph: KgStore, script: Script, config: KgGeneratorConfig) -> KgContext:
    """A run's context with a scripted model and lexical retrieval."""
    return KgContext(
        run_id="run",
        model="scripted",
        seed=7,
        prices=Prices(prompt_per_million=1.0, completion_per_million=2.0),
        config=config,
        client=ScriptedModel(script),
        retrieval=open_retrieval(RetrievalConfig(kind="bm25")),
        store=graph,
    )


def turn(thought: str, *, answer: str | None = None, **search: str) -> str:
    """An agent's turn; a search as `query=…, entity=…, relation=…`."""
    if answer is not None:
        return KG_SEARCH.render_turn(Turn(thought=thought, answer=answer))
    asked = Search(query=search["query"], entities=(search["entity"],), relations=(search["relation"],))
    return KG_SEARCH.render_turn(Turn(thought=thought, search=asked))


DIRECTOR = turn("First the director.", query="Who directed Metropolis?", entity="Metropolis", relation="director")
BORN = turn("Now his birth.", query="In which city was Fritz Lang born?", entity="Fritz Lang", relation="born in")
DIED = turn("Now his death.", query="In which city did Fritz Lang die?", entity="Fritz Lang", relation="died in")


def agent(*episodes: tuple[str, ...]) -> Callable[[Request], str]:
    """Plays episode n in draw n, turn by turn. As KG filter it keeps the first triple, as reader it reads Vienna."""

    def script(request: Request) -> str:
        if request.purpose == "keep_triples":
            return json.dumps({"keep": [1]})
        if request.purpose in ("self_check", "read_answer"):
            return "Vienna"
        told = sum(chat.role == "assistant" for chat in request.prompt if not isinstance(chat, str))
        return episodes[request.sample][told]

    return script
