"""What the stages that ask no model have in common: Beam pipelines of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from trailforge.pipelines.engine.runners import check_runner, is_local, telling_line
from trailforge.pipelines.engine.worker_errors import clear_errors, noted_error
from trailforge.schemas import ClusterError, TrailforgeError


def run_beam(folder: Path, beam_options: Sequence[str], build: Callable[[beam.Pipeline], None]) -> None:
    """Run a pipeline that pays for nothing, to its end. Raises the first error that a `noting` function met."""
    clear_errors(folder)
    pipeline = beam.Pipeline(options=PipelineOptions(list(beam_options)))
    build(pipeline)
    try:
        if not is_local(beam_options):
            check_runner(beam_options)
        pipeline.run().wait_until_finish()
    except Exception as error:
        found = noted_error(folder)
        if found is None and not is_local(beam_options) and not isinstance(error, TrailforgeError):
            what = telling_line(error)
            found = ClusterError(f"the runner says: {what}; see its log, then run the same command again")
        raise found or error from error
