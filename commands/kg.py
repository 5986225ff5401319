"""`trailforge kg`: build a knowledge graph, ask it, count it; `trailforge world`: a test bed of one."""

from __future__ import annotations

import dataclasses
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Knowledge graphs: built once into a folder, opened in milliseconds, shared by all workers.",
)
_Store = Annotated[Path, typer.Argument(help="Folder that `kg build` made.", metavar="DIR")]
_Tables = typer.Option(help="Table of names: id, label, aliases (TSV, JSON Lines, Parquet). Repeatable.")


@app.command(
    epilog="""Examples:\n
    trailforge kg build sample_data/kg --out kgs/sample\n
    trailforge kg build wikidata5m/ --out kgs/wikidata5m        the archives transductive, inductive and alias\n
    trailforge kg build codex/data --out kgs/codex\n
    trailforge kg build kb.json --out kgs/kqa\n
    trailforge kg build triples.parquet --entities names.jsonl.gz --columns head=subject,tail=object --out kgs/mine""",
)
def build(
    source: Annotated[Path, typer.Argument(help="Wikidata5M's or CoDEx's folder, KQA's kb.json, or triples.")],
    out: Annotated[Path, typer.Option(help="Folder of the store; must not exist.")],
    entities: Annotated[list[Path] | None, _Tables] = None,
    relations: Annotated[list[Path] | None, _Tables] = None,
    columns: Annotated[
        str | None, typer.Option(help="Which column of the triples holds what, e.g. head=subject,tail=object.")
    ] = None,
) -> None:
    """Build a store from a graph's published files."""
    from trailforge.retrieval.kg import build_kg, open_source

    pairs = dict(_pair(each) for each in columns.split(",")) if columns else None
    made = build_kg(open_source(source, entities=entities or (), relations=relations or (), columns=pairs), out)
    print(f"{made.entities:,} entities, {made.triples:,} triples, {made.relations:,} relations in {out}")
    if made.invalid_rows:
        print(f"{made.invalid_rows:,} of {made.rows:,} rows were left out; {out}/rejected.parquet says why")


@app.command(
    epilog="""Examples:\n
    trailforge kg query kgs/sample "Marie Curie"\n
    trailforge kg query kgs/sample "Mari Currie" --relation "place of birth" --question "Where was she born?\"""",
)
def query(
    store: _Store,
    mention: Annotated[str, typer.Argument(help="A name, as somebody may write it.")],
    relation: Annotated[str | None, typer.Option(help="What is asked of it, in words.")] = None,
    question: Annotated[str, typer.Option(help="The question around it: decides between namesakes.")] = "",
    count: Annotated[int, typer.Option(min=1, help="At most so many triples.")] = 20,
) -> None:
    """Show which entities a name may mean, and the triples around the likeliest."""
    from trailforge.inspector import terminal
    from trailforge.retrieval.kg import KgStore, KgTool

    found = KgTool(KgStore.open(store)).search([mention], [relation] if relation else [], question)
    terminal.show(terminal.kg_result(found.entities[0].matches, found.triples[:count]))


@app.command(
    epilog="""Examples:\n
    trailforge kg stats kgs/sample\n
    trailforge kg stats kgs/sample --check""",
)
def stats(
    store: _Store,
    check: Annotated[bool, typer.Option("--check", help="Hold every file against its hash, too.")] = False,
) -> None:
    """Print what a store holds, as JSON."""
    from trailforge.retrieval.kg import KgStore

    opened = KgStore.open(store)
    if check:
        opened.check()
    print(json.dumps(dataclasses.asdict(opened.stats), indent=1))


class Names(StrEnum):
    """What the entities of a world are called."""

    REAL = "real"
    INVENTED = "invented"


WORLD_EPILOG = """Examples:\n
    trailforge world --kg kgs/sample --out worlds/first --questions 100\n
    trailforge world --kg kgs/sample --out worlds/unread --names invented --hops 1,2,3 --seed 7\n
    trailforge world --kg kgs/sample --out worlds/apart --questions 600 --test-questions 420 --look-alikes 0.5\n
    trailforge kg-trajectories --questions worlds/first/questions.jsonl --documents worlds/first/corpus.jsonl …\n
    The folder: corpus.jsonl, questions.jsonl, test.jsonl, searches.jsonl (each hop with its document, its rank and\n
    the query that finds it), kg/ (what is stated, for `kg build`), retrieval.yaml (for a preset), world.json."""


def world(
    kg: Annotated[Path, typer.Option(help="Folder that `kg build` made.")],
    out: Annotated[Path, typer.Option(help="Folder of the world; must not exist.")],
    questions: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    test_questions: Annotated[
        int, typer.Option(min=0, help="Further ones (test.jsonl), with entities that no other question has.")
    ] = 0,
    hops: Annotated[str, typer.Option(help="Facts of a question, e.g. 1,2; each is as frequent.")] = "1,2",
    comparisons: Annotated[
        float, typer.Option(min=0, max=1, help="Share of questions which of two things has the earlier year.")
    ] = 0.0,
    intersections: Annotated[
        float, typer.Option(min=0, max=1, help="Share of paths in which two facts meet, of those of two or more.")
    ] = 0.1,
    look_alikes: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of questions whose search finds a look-alike first, unless reworded."),
    ] = 0.5,
    found_at_once: Annotated[
        float, typer.Option(min=0, max=1, help="At most such a share of longer questions is answered by one search.")
    ] = 0.25,
    distractors: Annotated[int, typer.Option(min=0, help="Documents that no question needs, at least.")] = 500,
    max_facts: Annotated[int, typer.Option(min=1, help="Facts of a document, about.")] = 4,
    passages: Annotated[int, typer.Option(min=1, help="Passages of a search, where searches are measured.")] = 5,
    names: Annotated[
        Names, typer.Option(help="The graph's own, or made-up ones that no model has read of.")
    ] = Names.REAL,
    seed: Annotated[int, typer.Option(help="The same seed and graph give the same bytes.")] = 0,
) -> None:
    """Write documents that state a graph's facts, and questions that they answer: a test bed (beyond the papers)."""
    from trailforge.generators.kg_questions.worlds import WorldConfig, make_world
    from trailforge.generators.kg_questions.worlds.searches import describe

    config = WorldConfig(
        questions=questions,
        test_questions=test_questions,
        hops=_numbers(hops),
        comparisons=comparisons,
        intersections=intersections,
        look_alikes=look_alikes,
        found_at_once=found_at_once,
        distractors=distractors,
        max_facts=max_facts,
        passages=passages,
        names=names.value,
        seed=seed,
    )
    figures = make_world(kg, out, config, shows_progress=True)
    print(describe(figures))
    print(f"In {out}")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="kg")
    root.command("world", epilog=WORLD_EPILOG)(world)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(each) for each in text.split(",")}))
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected numbers as 1,2", param_hint="--hops") from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, column = text.partition("=")
    if not (name and equals and column):
        raise typer.BadParameter(f"{text!r}: expected NAME=COLUMN", param_hint="--columns")
    return name.strip(), column.strip()
