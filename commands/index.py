"""`trailforge index`: index a corpus for one of several back ends, inspect it, query it, add to it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trailforge.commands.options import (
    SERVED_MODEL,
    MaxCalls,
    MaxCost,
    MaxTokens,
    ModelServer,
    PresetModel,
    PresetThoughts,
    ServerModel,
    ServerParameters,
    ServerPrices,
    ServerSeed,
    ServerThoughts,
    ServerUrl,
    ThoughtsPlace,
    ask_server,
    documents_of,
    prices_of,
)
from trailforge.schemas import check_packages, visible

if TYPE_CHECKING:
    from trailforge.pipelines import IndexConfig
    from trailforge.retrieval.backends import Backend, FoundPassage
    from trailforge.retrieval.encoders import Encoder
    from trailforge.retrieval.indexes import Chunking, IndexManifest
    from trailforge.retrieval.pages import Paging
    from trailforge.schemas import Document

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Index a corpus for search: dense vectors, BM25, or graphs built from its text.",
)
_SHOWN = 300
"""Characters of a passage."""


_Folder = Annotated[Path, typer.Argument(help="Folder that `index build` made.", metavar="DIR")]
_Corpus = Annotated[
    Path,
    typer.Argument(
        help="Passages (JSON Lines, .gz too, or Parquet), a folder of documents (.txt, .md, .json, .jsonl, .parquet), "
        "a question file (its paragraphs, each once), or a finished run.",
    ),
]
_Columns = Annotated[
    str | None, typer.Option(help="Column names: text=body,title=head; of questions question=query,paragraphs=context.")
]
_Out = Annotated[Path, typer.Option(help="Folder of the index; must not exist.")]
_Preset = Annotated[
    str | None,
    typer.Option(
        help="A method as published: hippo_rag, raptor, graph_rag, graph_rag_local, hyper_graph_rag, linear_rag, "
        "linear_rag_ragsearch; or a YAML file. Other options go over it."
    ),
]
_Backend = Annotated[
    str | None,
    typer.Option(
        help="dense, bm25, linear_rag, hippo_rag_plain, … (docs/operator.md). Default: the preset's, else dense.",
        metavar="NAME",
    ),
]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Setting of the back end, e.g. k1=1.2. Repeatable.", metavar="NAME=VALUE"),
]
_EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="minilm, any sentence-transformers name or path, or URL#MODEL. Default: the preset's, else minilm.",
    ),
]
_Device = Annotated[
    str, typer.Option(help="Device of the encoder: cpu, cuda, cuda:1, auto; for a build also several, with commas.")
]
_OtherEncoder = Annotated[
    str | None,
    typer.Option("--encoder", help="The index's encoder, if it has moved: its path, or URL#MODEL of a server."),
]
_PassagePrefix = Annotated[
    str | None,
    typer.Option(help="Prefix the encoder expects before a passage, e.g. 'passage: ' for e5. Stored in the index."),
]
_QueryPrefix = Annotated[
    str | None, typer.Option(help="Prefix it expects before a query, e.g. 'query: '. Stored in the index.")
]
_ChunkTokens = Annotated[
    int | None,
    typer.Option(min=1, help="Split documents into passages of at most N tokens. Default: the preset's, else whole."),
]
_ChunkOverlap = Annotated[int | None, typer.Option(min=0, help="Tokens that neighbouring passages share.")]
_Pages = Annotated[
    bool,
    typer.Option("--pages", help="Documents are pages that agents search, open and read in (/pages, /open, /find)."),
]
_PageWords = Annotated[
    int | None, typer.Option(min=1, help="Split pages into parts of at most N words, for --pages. Default: 1000.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only estimate calls, tokens and cost.")]


@app.command(
    epilog="""Examples:\n
    trailforge index build passages.jsonl.gz --out indexes/wiki\n
    trailforge index build passages.jsonl.gz --out indexes/e5 --encoder intfloat/multilingual-e5-base \\\n
        --passage-prefix "passage: " --query-prefix "query: "          for preset dynasearcher\n
    trailforge index build handbook/ --backend linear_rag --chunk-tokens 200 --chunk-overlap 40 --out indexes/handbook\n
    trailforge index build musique_dev.jsonl --backend bm25 --set k1=1.2 --out indexes/musique\n
    trailforge index build papers.jsonl --pages --backend bm25 --out indexes/papers\n
    trailforge index build corpus.jsonl --preset hippo_rag --model http://127.0.0.1:8000/v1 --model-name my-model \\\n
        --max-cost 5 --prices 0.15,0.6 --out indexes/hippo             with --dry-run: what it would ask\n
    A build that was stopped or killed goes on by the same line, and pays no call twice: replies are kept in\n
    OUT.ledger.sqlite, finished work in .OUT.building until it is done."""
)
def build(
    corpus: _Corpus,
    out: _Out,
    columns: _Columns = None,
    preset: _Preset = None,
    backend: _Backend = None,
    settings: _Settings = None,
    encoder_name: _EncoderName = None,
    device: _Device = "cpu",
    passage_prefix: _PassagePrefix = None,
    query_prefix: _QueryPrefix = None,
    chunk_tokens: _ChunkTokens = None,
    chunk_overlap: _ChunkOverlap = None,
    pages: _Pages = False,
    page_words: _PageWords = None,
    model: ServerUrl = None,
    model_name: PresetModel = None,
    reasoning: PresetThoughts = None,
    parameters: ServerParameters = "",
    prices: ServerPrices = "",
    seed: ServerSeed = 0,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    dry_run: _DryRun = False,
) -> None:
    """Build the index of a corpus."""
    from trailforge.inference import Caps
    from trailforge.pipelines import choose_index

    config = choose_index(preset, backend, _read_settings(settings or ()))
    config = config.with_encoder(encoder_name, query_prefix, passage_prefix).with_chunks(chunk_tokens, chunk_overlap)
    config = config.with_pages(pages, page_words)
    caps = Caps(max_cost=max_cost, max_calls=max_calls, max_tokens=max_tokens)
    server = ModelServer.of(
        model, model_name, reasoning, prices, seed=seed, caps=caps, parameters=parameters, preset=config.model
    )
    documents = documents_of(corpus, columns)
    if dry_run:
        _show_estimate(config.declared, config.numbers(), documents, (config.chunking, config.pages), server)
        return
    _build(config, documents, out, corpus.name, device, server)


def _build(
    config: IndexConfig, documents: Iterable[Document], out: Path, name: str, device: str, server: ModelServer | None
) -> None:
    """Build an index and print what it is."""
    from trailforge.pipelines.engine import show_parts
    from trailforge.retrieval.backends import backend_packages
    from trailforge.retrieval.encoders import PACKAGED, Encoder, encoder_packages
    from trailforge.retrieval.indexes import build_index, refuse_existing

    refuse_existing(out)
    declared, numbers, encoder = config.declared, config.numbers(), config.encoder or PACKAGED
    if "build" not in declared.asks_model(numbers):
        server = None
    of_encoder = encoder_packages(encoder) if declared.needs_encoder else ()
    of_model = ("openai",) if server else ()
    check_packages((*backend_packages(config.backend, numbers), *of_encoder, *of_model), "index build")
    if server is None:
        declared.check_model(numbers, None, "build")

    async def make() -> IndexManifest:
        options: dict[str, Any] = {"chunking": config.chunking, "pages": config.pages}
        options |= {"corpus_name": name, "prices": prices_of(server)}
        async with ask_server(server, out) as asker:
            if declared.needs_encoder:
                prefixes = {"query_prefix": config.query_prefix, "passage_prefix": config.passage_prefix}
                options["encoder"] = Encoder(encoder, **prefixes, device=device)
            with show_parts() as report:
                return await build_index(documents, out, config.backend, numbers, asker=asker, report=report, **options)

    _print_figures(out, asyncio.run(make()))


@app.command(
    epilog="""Examples:\n
    trailforge index add indexes/wiki more.jsonl\n
    Back ends that can take documents later do, and ask a model about the new ones alone; others say what building the\n
    index again would ask. Ids have to be new."""
)
def add(
    folder: _Folder,
    corpus: _Corpus,
    columns: _Columns = None,
    encoder_name: _OtherEncoder = None,
    device: _Device = "cpu",
    model: ServerUrl = None,
    model_name: ServerModel = SERVED_MODEL,
    reasoning: ServerThoughts = ThoughtsPlace.SEPARATE,
    parameters: ServerParameters = "",
    prices: ServerPrices = "",
    seed: ServerSeed = 0,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    dry_run: _DryRun = False,
) -> None:
    """Add documents to an index, with the settings it was built with."""
    from trailforge.inference import Caps
    from trailforge.pipelines.engine import show_parts
    from trailforge.retrieval.indexes import add_to_index, plan_addition

    caps = Caps(max_cost=max_cost, max_calls=max_calls, max_tokens=max_tokens)
    server = ModelServer.of(model, model_name, reasoning, prices, seed=seed, caps=caps, parameters=parameters)
    documents = documents_of(corpus, columns)
    if dry_run:
        declared, config, manifest = plan_addition(folder, documents)
        documents, cuts = documents_of(corpus, columns), (manifest.chunking, manifest.pages)
        _show_estimate(declared, config, documents, cuts, server)
        return

    async def make() -> IndexManifest:
        options: dict[str, Any] = {"prices": prices_of(server), "encoder": _open_encoder(folder, encoder_name, device)}
        async with ask_server(server, folder) as asker:
            with show_parts() as report:
                return await add_to_index(documents, folder, asker=asker, report=report, **options)

    _print_figures(folder, asyncio.run(make()))


@app.command(
    epilog="""Examples:\n
    trailforge index stats indexes/wiki\n
    trailforge index stats indexes/wiki --json | jq .figures"""
)
def stats(
    folder: _Folder,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Also check every file against its hash.")] = False,
) -> None:
    """Show what an index holds, how it was built, and what the build cost."""
    from trailforge.retrieval.indexes import MEND, check_hashes, read_manifest
    from trailforge.schemas import to_dict

    manifest = read_manifest(folder)
    if check:
        check_hashes(folder, manifest.files, MEND)
    if not as_json:
        _print_figures(folder, manifest)
        return
    derived = {
        "bytes": manifest.bytes,
        "hours_per_million_tokens": manifest.hours_per_million,
        "cost_per_million_tokens": manifest.cost_per_million,
    }
    print(json.dumps(to_dict(manifest) | derived, indent=1, ensure_ascii=False))


@app.command(
    epilog="""Examples:\n
    trailforge index query indexes/wiki "Where was the author of Pinocchio born?"\n
    trailforge index query indexes/wiki "Where was the author of Pinocchio born?" --k 10 --json"""
)
def query(
    folder: _Folder,
    text: Annotated[str, typer.Argument(help="The text to search for.", metavar="QUERY")],
    k: Annotated[int, typer.Option("--k", min=1, help="At most so many passages.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with full texts.")] = False,
    encoder_name: _OtherEncoder = None,
    device: _Device = "cpu",
    model: ServerUrl = None,
    model_name: ServerModel = SERVED_MODEL,
    reasoning: ServerThoughts = ThoughtsPlace.SEPARATE,
    parameters: ServerParameters = "",
    seed: ServerSeed = 0,
) -> None:
    """Search an index: passages with scores and the reason each was found."""
    from trailforge.retrieval.indexes import open_index
    from trailforge.schemas import to_dict

    server = ModelServer.of(model, model_name, reasoning, "", seed=seed, parameters=parameters)

    async def search() -> tuple[list[FoundPassage], float]:
        async with ask_server(server, folder) as asker:
            opened = open_index(folder, encoder=_open_encoder(folder, encoder_name, device), asker=asker)
            began = time.perf_counter()
            found = await opened.find(text, k)
            return found, 1e3 * (time.perf_counter() - began)

    found, milliseconds = asyncio.run(search())
    if as_json:
        rows = [to_dict(each.passage) | {"why": each.why, "sources": list(each.sources)} for each in found]
        print(json.dumps({"query": text, "ms": round(milliseconds, 3), "found": rows}, indent=1, ensure_ascii=False))
        return
    _print_found(found)


def register(root: typer.Typer) -> None:
    """Add the commands of `trailforge index`."""
    root.add_typer(app, name="index")


def _open_encoder(folder: Path, name: str | None, device: str) -> Encoder | None:
    """The encoder of an index, where it is not simply the one that its manifest names."""
    from trailforge.retrieval.encoders import Encoder
    from trailforge.retrieval.indexes import read_manifest

    manifest = read_manifest(folder)
    if not manifest.encoder or (name is None and device == "cpu"):
        return None
    prefixes = {"query_prefix": manifest.query_prefix, "passage_prefix": manifest.passage_prefix}
    return Encoder(name or manifest.encoder, device=device, **prefixes)


def _read_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """What `--set` says."""
    from trailforge.schemas import parse_json

    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r}: expected NAME=VALUE", param_hint="--set")
        try:
            values[name.strip()] = parse_json(text)
        except ValueError:
            values[name.strip()] = text
    return values


def _show_estimate(
    backend: Backend,
    config: Any,
    documents: Iterable[Document],
    cuts: tuple[Chunking | None, Paging | None],
    server: ModelServer | None,
) -> None:
    """Print what a build would ask."""
    from trailforge.flows import show_build_estimate
    from trailforge.inference import Caps
    from trailforge.pipelines.runs import ModelConfig
    from trailforge.retrieval.pages import passages_of
    from trailforge.schemas import count_tokens

    texts = list(documents)
    passages = list(passages_of(texts, *cuts, lambda some: [count_tokens(each) for each in some]))
    tokens = sum(count_tokens(each.title) + count_tokens(each.text) for each in passages)
    print(f"{len(texts):,} documents, {len(passages):,} passages, about {tokens:,} tokens")
    model, caps = (server.config, server.caps) if server else (ModelConfig(), Caps())
    show_build_estimate(backend, config, passages, model, caps)


def _print_figures(folder: Path, manifest: IndexManifest) -> None:
    """What an index is and took, a line each."""
    from trailforge.retrieval.indexes import describe_figures

    for name, text in describe_figures(folder, manifest):
        print(visible(f"{name + ':':<20}{text}"))


def _print_found(found: Sequence[FoundPassage]) -> None:
    """Passages, best first. Their texts are anybody's."""
    for rank, each in enumerate(found, start=1):
        passage = each.passage
        text = " ".join(passage.text.split())
        print(visible(f"{rank:>2}. {passage.score:.4f}  {passage.title or '(no title)'}  [{passage.id}]"))
        print(visible(f"    {each.why}"))
        print(visible(f"    {text[:_SHOWN]}{' …' if len(text) > _SHOWN else ''}"))
    if not found:
        print("nothing was found")
