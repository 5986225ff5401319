"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trailforge.schemas import InvalidInput

RunFolder = Annotated[Path, typer.Argument(help="Folder of a run.", metavar="DIR")]


class Redo(StrEnum):
    """Which replies are asked for anew."""

    TRUNCATED = "truncated"


class DocumentKind(StrEnum):
    """What documents are; which tool of a search plan finds them."""

    NEWS = "news"
    ACADEMIC = "academic"
    GENERAL = "general"


BACK_ENDS = "dense, bm25, hybrid, linear_rag, hippo_rag, raptor, hyper_graph_rag, graph_rag"
"""`retrieval.backends.BACKENDS`, which `--help` does not load; a test holds one against the other."""


def _read_kind(text: str) -> str:
    """Of the option `--retrieval`. Looked up when it is given: a look at `--help` loads no retrieval."""
    from trailforge.retrieval.retrievers import check_kind

    try:
        check_kind(text)
    except InvalidInput as error:
        raise typer.BadParameter(f"{error.problem}.") from None
    return text


Retrieval = Annotated[
    str | None,
    typer.Option(
        parser=_read_kind,
        metavar="KIND",
        help=f"A back end: {BACK_ENDS}. web: live pages. Or the URL of a server (`serve-search`). Default: the "
        "preset's, else that of the index.",
    ),
]
RedoOption = Annotated[
    Redo | None,
    typer.Option(help="Ask anew for the replies of this run that were cut, and for what follows from them."),
]
Model = Annotated[
    str | None, typer.Option(help="URL of an OpenAI-compatible server, or 'embedded'. Default: the preset's.")
]
ModelName = Annotated[str | None, typer.Option(help="Model as the server calls it. Default: the preset's.")]
MaxCost = Annotated[
    float | None, typer.Option(min=0, help="Hard cap on the cost of this folder, at the preset's prices.")
]
MaxCalls = Annotated[int | None, typer.Option(min=0, help="Hard cap on the model calls of this folder.")]
MaxTokens = Annotated[
    int | None, typer.Option(min=0, help="Hard cap on the tokens of this folder, prompts and completions.")
]
Verdicts = Annotated[
    list[Path] | None,
    typer.Option(
        help="Leave out what people rejected: folder of a curated run, or its decisions.jsonl or patterns.jsonl. "
        "Repeatable."
    ),
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Drop the rows of a run with other settings in --out; keep its ledger.")
]
Runner = Annotated[str, typer.Option(help="Apache Beam's runner: FnApiRunner (here), PortableRunner, …")]
BeamOptions = Annotated[
    list[str] | None,
    typer.Option(help="Option of the runner as KEY=VALUE, e.g. job_endpoint=127.0.0.1:8099. Repeatable."),
]
