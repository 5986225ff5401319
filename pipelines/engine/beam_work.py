"""What the stages that ask no model have in common: pipelines of their own, for whoever does not load Beam."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsList, AsSingleton

from trailforge.pipelines.engine.attempts import Patience
from trailforge.pipelines.engine.cluster import partitions, run_on_dask
from trailforge.pipelines.engine.runners import check_runner, has_one_worker, is_dask, is_local, telling_line
from trailforge.pipelines.engine.worker_errors import clear_errors, noted_error, noting
from trailforge.schemas import ClusterError, TrailforgeError


@contextlib.contextmanager
def beam_pipeline(folder: Path, beam_options: Sequence[str]) -> Iterator[Begin]:
    """A pipeline that pays for nothing: built in the block, run to its end when that is left.

    Raises the first typed error that a function of it raised on any worker.
    """
    clear_errors(folder)
    # Its check of types reads the signature of `noting`, not that of the function behind it.
    options = [*beam_options, "--no_pipeline_type_check", *([partitions()] if is_dask(beam_options) else [])]
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    yield Begin(folder, pipeline, has_one_worker(beam_options))
    try:
        if not is_local(beam_options):
            check_runner(beam_options)
        if is_dask(beam_options):
            run_on_dask(pipeline, folder, Patience())
        else:
            pipeline.run().wait_until_finish()
    except Exception as error:
        found = noted_error(folder)
        if found is None and not is_local(beam_options) and not isinstance(error, TrailforgeError):
            what = telling_line(error)
            found = ClusterError(f"the runner says: {what}; see its log, then run the same command again")
        raise found or error from error


def spread_elements(pipeline: Any, label: str, elements: Iterable[Any], spread: str, *, is_alone: bool) -> Any:
    """Elements shared among the workers, unless there is one: Beam takes as long for that as for a small stage."""
    made = pipeline | label >> beam.Create(list(elements), reshuffle=False)
    return made if is_alone else made | spread >> beam.Reshuffle()


@dataclass(frozen=True, slots=True)
class Begin:
    """The begin of a pipeline."""

    folder: Path
    """Of the run, in which errors of workers are noted."""
    pipeline: Any
    is_alone: bool
    """There is one worker, which shares with nobody."""

    def spread(self, label: str, elements: Iterable[Any]) -> Collection:
        """These elements, shared among the workers."""
        made = spread_elements(self.pipeline, label, elements, f"Spread, {label}", is_alone=self.is_alone)
        return Collection(self.folder, made)

    def gather(self, label: str, function: Callable[..., Any], *collections: Collection) -> Collection:
        """One element: what a function makes of the lists of all elements of some collections, on one worker."""
        lists = [AsList(collection.inner) for collection in collections]
        once = self.pipeline | f"Once, {label}" >> beam.Create([None])
        return Collection(self.folder, once | label >> beam.Map(noting(self.folder, _gather), function, *lists))

    def merge(self, label: str, *collections: Collection) -> Collection:
        """All elements of some collections."""
        return Collection(self.folder, tuple(each.inner for each in collections) | label >> beam.Flatten())

    def join(self, label: str, **collections: Collection) -> Collection:
        """(key, values by name): of each key the values that it has in collections of (key, value)."""
        inner = {name: each.inner for name, each in collections.items()}
        return Collection(self.folder, inner | label >> beam.CoGroupByKey())


@dataclass(frozen=True, slots=True)
class Collection:
    """Elements somewhere on the workers, in no order. Functions and what they are given besides are shipped there."""

    folder: Path
    inner: Any
    """A PCollection."""

    def map(self, label: str, function: Callable[..., Any], *more: object) -> Collection:
        """What a function makes of each element. A collection among `more` stands for its only element."""
        return self._then(label, beam.Map(noting(self.folder, function), *map(_side, more)))

    def flat_map(self, label: str, function: Callable[..., Iterable[Any]], *more: object) -> Collection:
        """All that a function makes of each element."""
        return self._then(label, beam.FlatMap(noting(self.folder, function, several=True), *map(_side, more)))

    def filter(self, label: str, keeps: Callable[[Any], bool]) -> Collection:
        """The elements that are kept."""
        return self._then(label, beam.Filter(keeps))

    def distinct(self, label: str) -> Collection:
        """Each element once."""
        return self._then(label, beam.Distinct())

    def group(self, label: str) -> Collection:
        """(key, values) of (key, value)."""
        return self._then(label, beam.GroupByKey())

    def add_up(self, label: str) -> Collection:
        """(key, sum) of (key, number)."""
        return self._then(label, beam.CombinePerKey(sum))

    def _then(self, label: str, transform: Any) -> Collection:
        return Collection(self.folder, self.inner | label >> transform)


def _side(given: object) -> Any:
    return AsSingleton(given.inner) if isinstance(given, Collection) else given


def _gather(_: None, function: Callable[..., Any], *lists: list[Any]) -> Any:
    return function(*lists)
