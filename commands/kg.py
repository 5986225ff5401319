"""`trailforge kg`: build, query and inspect a knowledge graph; `trailforge world`: make a test bed from one."""

from __future__ import annotations

import dataclasses
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from trailforge.commands.options import DemandFile
from trailforge.schemas import InvalidInput

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Knowledge graphs: built once into a folder, opened in milliseconds, shared by all workers.",
)
_Store = Annotated[Path, typer.Argument(help="Folder that `kg build` made.", metavar="DIR")]
_Entities = typer.Option(
    help="Table of names: id, label, aliases, types (what it is an instance of). TSV, CSV, JSON, Parquet. Repeatable."
)
_Relations = typer.Option(help="Table of names: id, label, aliases (as above). Repeatable.")


@app.command(
    epilog="""Examples:\n
    trailforge kg build sample_data/kg --out kgs/sample\n
    trailforge kg build wikidata5m/ --out kgs/wikidata5m        the archives transductive, inductive and alias\n
    trailforge kg build codex/data --out kgs/codex\n
    trailforge kg build kb.json --out kgs/kqa\n
    trailforge kg build triples.parquet --entities names.jsonl.gz --columns head=subject,tail=object --out kgs/mine""",
)
def build(
    source: Annotated[
        Path,
        typer.Argument(
            help="Wikidata5M's or CoDEx's folder, KQA's kb.json, or triples (TSV, CSV, JSON, Parquet, N-Triples)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the store; must not exist.")],
    entities: Annotated[list[Path] | None, _Entities] = None,
    relations: Annotated[list[Path] | None, _Relations] = None,
    columns: Annotated[
        str | None, typer.Option(help="Which column of the triples holds what, e.g. head=subject,tail=object.")
    ] = None,
) -> None:
    """Build a store from a graph's published files, or from triples: TSV, CSV, JSON, Parquet or N-Triples."""
    from trailforge.retrieval.kg import build_kg, open_source, parse_columns

    pairs = parse_columns(columns) if columns else None
    made = build_kg(open_source(source, entities=entities or (), relations=relations or (), columns=pairs), out)
    print(f"{made.entities:,} entities, {made.triples:,} triples, {made.relations:,} relations in {out}")
    if made.entities_by_name:
        print(f"{made.entities_by_name:,} entities have no id but their name: two of one name are one")
    if made.invalid_rows:
        print(f"{made.invalid_rows:,} of {made.rows:,} rows were left out; {out}/rejected.parquet says why")


@app.command(
    epilog="""Examples:\n
    trailforge kg query kgs/sample "Marie Curie"\n
    trailforge kg query kgs/sample "Mari Currie" --relation "place of birth" --question "Where was she born?\"""",
)
def query(
    store: _Store,
    mention: Annotated[str, typer.Argument(help="Name of an entity, exact or misspelt.")],
    relation: Annotated[str | None, typer.Option(help="Relation to look for, in words.")] = None,
    question: Annotated[
        str, typer.Option(help="The question it stands in; disambiguates entities of the same name.")
    ] = "",
    count: Annotated[int, typer.Option(min=1, help="Maximum number of triples.")] = 20,
) -> None:
    """Show the entities a name may refer to, and the triples around the most likely one."""
    from trailforge.inspector import kg_result, show
    from trailforge.retrieval.kg import KgStore, KgTool

    found = KgTool(KgStore.open(store)).search([mention], [relation] if relation else [], question)
    show(kg_result(found.entities[0].matches, found.triples[:count]))


@app.command(
    epilog="""Examples:\n
    trailforge kg stats kgs/sample\n
    trailforge kg stats kgs/sample --check""",
)
def stats(
    store: _Store,
    check: Annotated[bool, typer.Option("--check", help="Also check every file against its hash.")] = False,
) -> None:
    """Print the figures of a store as JSON."""
    from trailforge.retrieval.kg import KgStore

    opened = KgStore.open(store)
    if check:
        opened.check()
    print(json.dumps(dataclasses.asdict(opened.stats), indent=1))


class Names(StrEnum):
    """Whether the entities of a world keep the graph's names or get invented ones."""

    REAL = "real"
    INVENTED = "invented"


WORLD_EPILOG = """Examples:\n
    trailforge world --kg kgs/sample --out worlds/first --questions 100\n
    trailforge world --kg kgs/sample --out worlds/unread --names invented --hops 1,2,3 --seed 7\n
    trailforge world --kg kgs/sample --out worlds/apart --questions 600 --test-questions 420 --look-alikes 0.5\n
    trailforge world --kg kgs/sample --out worlds/long --questions 40 --pages 500       for agents that open pages\n
    trailforge world --kg kgs/sample --out worlds/second --demand demand.yaml     what an agent failed at before\n
    trailforge kg-trajectories --questions worlds/first/questions.jsonl --documents worlds/first/corpus.jsonl …\n
    The folder: corpus.jsonl, questions.jsonl, test.jsonl, searches.jsonl (each hop with its document, its rank and\n
    the query that finds it), kg/ (what is stated, for `kg build`), retrieval.yaml (for a preset), world.json. With\n
    --pages hops.jsonl: each hop with its page, parts and names, and what who believes its look-alike answers."""


_Kg = Annotated[Path, typer.Option(help="Folder that `kg build` made.")]
_WorldOut = Annotated[Path, typer.Option(help="Folder of the world; must not exist.")]
_TestQuestions = Annotated[
    int, typer.Option(min=0, help="Additional test questions (test.jsonl) about entities that no other question uses.")
]
_Hops = Annotated[
    str | None,
    typer.Option(
        help="Hops per question, each equally frequent. Default: 1,2; with --pages 5,6,7,8,9 (facts).",
        show_default=False,
    ),
]
_Comparisons = Annotated[
    float, typer.Option(min=0, max=1, help="Share of questions that compare the years of two things.")
]
_Intersections = Annotated[
    float, typer.Option(min=0, max=1, help="Share of intersections among paths of two or more hops.")
]
_Blurred = Annotated[
    float,
    typer.Option(min=0, max=1, help="Share of questions of two or more hops that describe what they start from."),
]
_LookAlikes = Annotated[
    float,
    typer.Option(min=0, max=1, help="Share of questions whose first search finds a look-alike unless it is reworded."),
]
_FoundAtOnce = Annotated[
    float, typer.Option(min=0, max=1, help="Maximum share of multi-hop questions that a single search answers.")
]
_Distractors = Annotated[int, typer.Option(min=0, help="Minimum number of documents that no question needs.")]
_MaxFacts = Annotated[int, typer.Option(min=1, help="Approximate number of facts per document.")]
_Passages = Annotated[
    int, typer.Option(min=1, help="Passages per search when searches are measured; with --pages at least 10.")
]
_Pages = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Write N long pages of entities with several names, with look-alikes on top, and questions of 5 to 9 "
        "facts that name nobody on the way, for agents that open pages.",
        metavar="N",
    ),
]
_PageWords = Annotated[int, typer.Option(min=1, help="With --pages: words of a page, at least.")]
_Names = Annotated[Names, typer.Option(help="The graph's own names, or invented ones that no model knows.")]
_Seed = Annotated[int, typer.Option(help="The same seed and graph give the same bytes.")]
_OF_DOCUMENTS = (
    *("test_questions", "comparisons", "intersections", "blurred", "look_alikes", "found_at_once"),
    *("distractors", "max_facts", "demand"),
)
"""Parameters of `world` that a world of pages does not have."""


def _refuse_options_of_documents(context: typer.Context) -> None:
    """Raise `InvalidInput` for options that were given and say nothing of a world of pages."""
    sources = {name: context.get_parameter_source(name) for name in _OF_DOCUMENTS}
    given = [name for name, source in sources.items() if source is not None and source.name != "DEFAULT"]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InvalidInput(f"a world of pages does not take {options}; leave it out", field="--pages")


def world(
    context: typer.Context,
    kg: _Kg,
    out: _WorldOut,
    questions: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 1000,
    test_questions: _TestQuestions = 0,
    hops: _Hops = None,
    comparisons: _Comparisons = 0.0,
    intersections: _Intersections = 0.1,
    blurred: _Blurred = 0.0,
    look_alikes: _LookAlikes = 0.5,
    found_at_once: _FoundAtOnce = 0.25,
    distractors: _Distractors = 500,
    max_facts: _MaxFacts = 4,
    passages: _Passages = 5,
    pages: _Pages = None,
    page_words: _PageWords = 1000,
    names: _Names = Names.REAL,
    demand: DemandFile = None,
    seed: _Seed = 0,
) -> None:
    """Write documents that state a graph's facts, and questions they answer: a test bed (beyond the papers)."""
    from trailforge.generators.kg_questions import PageWorldConfig, WorldConfig, describe, make_page_world, make_world
    from trailforge.pipelines.sources import read_demand

    shared: dict[str, Any] = {"questions": questions, "names": names.value, "seed": seed}
    if pages is not None:
        _refuse_options_of_documents(context)
        shared |= {"facts": _numbers(hops or "5,6,7,8,9"), "passages": passages}
        paged = PageWorldConfig(pages=pages, words=page_words, **shared)
        print(json.dumps(make_page_world(kg, out, paged, shows_progress=True), indent=1))
    else:
        config = WorldConfig(
            test_questions=test_questions,
            hops=_numbers(hops or "1,2"),
            comparisons=comparisons,
            intersections=intersections,
            blurred=blurred,
            look_alikes=look_alikes,
            found_at_once=found_at_once,
            distractors=distractors,
            max_facts=max_facts,
            passages=passages,
            demand=read_demand(demand),
            **shared,
        )
        print(describe(make_world(kg, out, config, shows_progress=True)))
    print(f"In {out}")


def register(root: typer.Typer) -> None:
    """Add the commands of `trailforge kg`, and `world`."""
    root.add_typer(app, name="kg")
    root.command("world", epilog=WORLD_EPILOG)(world)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(each) for each in text.split(",")}))
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected numbers as 1,2", param_hint="--hops") from None
