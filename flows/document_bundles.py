"""The flow of bundles."""

from __future__ import annotations

from pathlib import Path

from prefect import flow

from trailforge.flows.execute import RunRequest, execute
from trailforge.flows.prefect_driver import PrefectDriver
from trailforge.generators.document_bundles import NAME
from trailforge.inference import Caps
from trailforge.pipelines.engine.runners import LOCAL
from trailforge.pipelines.sources.columns import parse_document_files
from trailforge.schemas import Manifest, SourceKind


@flow(name="document-bundles")
def document_bundles(
    documents: list[str | Path],
    out: Path,
    preset: str = "r-search",
    model: str | None = None,
    model_name: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    caps: Caps | None = None,
    verdicts: list[Path] | None = None,
    column_map: dict[str, str] | None = None,
    source: str | None = None,
    kind: SourceKind | None = None,
    benchmarks: list[Path] | None = None,
    bundles_only: bool = False,
    replace_run: bool = False,
    redo_truncated: bool = False,
    runner: str = LOCAL,
    runner_options: tuple[str, ...] = (),
) -> Manifest:
    """Make bundles of the documents in files, and questions of the bundles.

    `documents`: paths, each perhaps with what is said of its documents, as `news.jsonl:kind=news`.
    `column_map`, `source`, `kind`: what the files do not say themselves. `benchmarks`: files of questions that must
    not come out. `bundles_only`: no questions, and so no model. The others are those of `RunRequest`.
    """
    files, labels = parse_document_files(list(map(str, documents)))
    return execute(
        RunRequest(
            dataset=NAME,
            out=out,
            preset=preset,
            files=files,
            options={
                "column_map": column_map,
                "source": source,
                "kind": kind,
                "labels": labels,
                "benchmarks": benchmarks,
                "bundles_only": bundles_only,
            },
            model=model,
            model_name=model_name,
            limit=limit,
            seed=seed,
            caps=caps,
            verdicts=tuple(verdicts or ()),
            replace_run=replace_run,
            redo_truncated=redo_truncated,
            runner=runner,
            runner_options=runner_options,
        ),
        PrefectDriver(),
    )
