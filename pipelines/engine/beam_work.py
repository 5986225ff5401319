"""Pipelines for the stages that ask no model, written without Beam's names, so that they run on Beam or as Dask graphs.

Dask's own graphs stand in for Beam's runner for Dask (2.77), which silently gives wrong rows: it computes the last
collection alone, and a function that runs again in the same process, because a worker was lost or because a side
input is computed for each reader, gives what it gave before once more.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsList, AsSingleton

from trailforge.pipelines.engine.attempts import Patience
from trailforge.pipelines.engine.dask_jobs import run_graph
from trailforge.pipelines.engine.runners import check_runner, has_one_worker, is_dask, is_local, telling_line
from trailforge.pipelines.engine.worker_errors import clear_errors, noted_error, noting
from trailforge.schemas import ClusterError, TrailforgeError


@contextlib.contextmanager
def beam_pipeline(folder: Path, beam_options: Sequence[str], patience: Patience) -> Iterator[Begin]:
    """Open a pipeline that calls no model: it is built in the `with` block and runs when the block ends.

    `patience` applies to Dask's workers; Beam's runners have settings of their own. Raises the first error of ours that
    a function raised on any worker.
    """
    clear_errors(folder)
    if is_dask(beam_options):
        begin = DaskBegin(folder, [], False)
        yield begin
        begin.run(beam_options, patience)
        return
    # Its check of types reads the signature of `noting`, not that of the function behind it.
    pipeline = beam.Pipeline(options=PipelineOptions([*beam_options, "--no_pipeline_type_check"]))
    yield Begin(folder, pipeline, has_one_worker(beam_options))
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


def spread_elements(pipeline: Any, label: str, elements: Iterable[Any], spread: str, *, is_alone: bool) -> Any:
    """Return a Beam collection of these elements, distributed among the workers. With `is_alone` there is one worker,
    and nothing is distributed, since Beam takes as long for that as for a small stage. `label` and `spread` are the
    names of the two steps in Beam's displays.
    """
    made = pipeline | label >> beam.Create(list(elements), reshuffle=False)
    return made if is_alone else made | spread >> beam.Reshuffle()


@dataclass(frozen=True, slots=True)
class Begin:
    """The start of a pipeline, from which collections are made."""

    folder: Path
    """The run's folder, in which errors of workers are noted."""
    pipeline: Any
    is_alone: bool
    """Whether there is one worker, so that nothing has to be shared."""

    def spread(self, label: str, elements: Iterable[Any]) -> Collection:
        """Return a collection of these elements, distributed among the workers."""
        made = spread_elements(self.pipeline, label, elements, f"Spread, {label}", is_alone=self.is_alone)
        return Collection(self.folder, made)

    def gather(self, label: str, function: Callable[..., Any], *collections: Collection) -> Collection:
        """Call a function once, on one worker, with the lists of all elements of some collections; returns a collection
        with the result as its only element.
        """
        lists = [AsList(collection.inner) for collection in collections]
        once = self.pipeline | f"Once, {label}" >> beam.Create([None])
        return Collection(self.folder, once | label >> beam.Map(noting(self.folder, _gather), function, *lists))

    def merge(self, label: str, *collections: Collection) -> Collection:
        """Return one collection with all elements of some collections."""
        return Collection(self.folder, tuple(each.inner for each in collections) | label >> beam.Flatten())

    def join(self, label: str, **collections: Collection) -> Collection:
        """Join collections of (key, value): returns a collection of (key, values by collection name)."""
        inner = {name: each.inner for name, each in collections.items()}
        return Collection(self.folder, inner | label >> beam.CoGroupByKey())


@dataclass(frozen=True, slots=True)
class Collection:
    """Elements distributed among the workers, in no order. Functions and their further arguments are sent there."""

    folder: Path
    inner: Any
    """The PCollection that holds the elements."""

    def map(self, label: str, function: Callable[..., Any], *more: object) -> Collection:
        """Return a collection of the results of calling a function with each element. A collection among `more` stands
        for its only element.
        """
        return self._then(label, beam.Map(noting(self.folder, function), *map(_side, more)))

    def flat_map(self, label: str, function: Callable[..., Iterable[Any]], *more: object) -> Collection:
        """Return a collection of all items in the results of calling a function with each element."""
        return self._then(label, beam.FlatMap(noting(self.folder, function, several=True), *map(_side, more)))

    def filter(self, label: str, keeps: Callable[[Any], bool]) -> Collection:
        """Return a collection of the elements for which a function returns true."""
        return self._then(label, beam.Filter(keeps))

    def distinct(self, label: str) -> Collection:
        """Return a collection of the distinct elements."""
        return self._then(label, beam.Distinct())

    def group(self, label: str) -> Collection:
        """Return a collection of (key, values) from elements (key, value)."""
        return self._then(label, beam.GroupByKey())

    def add_up(self, label: str) -> Collection:
        """Return a collection of (key, sum) from elements (key, number)."""
        return self._then(label, beam.CombinePerKey(sum))

    def _then(self, label: str, transform: Any) -> Collection:
        return Collection(self.folder, self.inner | label >> transform)


def _side(given: object) -> Any:
    return AsSingleton(given.inner) if isinstance(given, Collection) else given


def _gather(_: None, function: Callable[..., Any], *lists: list[Any]) -> Any:
    return function(*lists)


_MOST_PARTS = 64
"""Of a collection on Dask: tasks of each step."""
_MOST_GROUPED = 16
"""Parts of a collection whose elements have met by key."""


class DaskBegin(Begin):
    """The start of a Dask graph. `pipeline` lists, step by step, the parts from which nothing was made yet."""

    def spread(self, label: str, elements: Iterable[Any]) -> Collection:
        """Share these elements among the workers, as `Begin.spread` does."""
        given = list(elements)
        size = max(1, -(-len(given) // _MOST_PARTS))
        chunks = [given[start : start + size] for start in range(0, len(given), size)]
        return self._collect([_task(list, chunk) for chunk in chunks] or [_task(list)])

    def gather(self, label: str, function: Callable[..., Any], *collections: Collection) -> Collection:
        """Call a function once with all elements of some collections, as `Begin.gather` does."""
        lists = [_task(_concatenate, *self._parts(each)) for each in collections]
        return self._collect([_task(_gather_alone, noting(self.folder, _gather), function, *lists)])

    def merge(self, label: str, *collections: Collection) -> Collection:
        """Put all elements of some collections into one, as `Begin.merge` does."""
        return self._collect([part for each in collections for part in self._parts(each)])

    def join(self, label: str, **collections: Collection) -> Collection:
        """Join collections by their keys, as `Begin.join` does."""
        named = [each.map(label, _named, name) for name, each in collections.items()]
        return self.merge(label, *named).group(label).map(label, _by_name, tuple(collections))

    def run(self, arguments: Sequence[str], patience: Patience) -> None:
        """Compute all parts that were made, for the side effects of their functions. Raises what `beam_pipeline`
        raises.
        """
        leaves = [part for parts in self.pipeline for part in parts]
        try:
            run_graph(arguments, [_task(len, part) for part in leaves], patience)
        except Exception as error:
            raise noted_error(self.folder) or error from error

    def _parts(self, collection: Collection) -> list[Any]:
        """Of a collection of which something is made."""
        self.pipeline[:] = [parts for parts in self.pipeline if parts is not collection.inner]
        return collection.inner

    def _collect(self, parts: list[Any]) -> Collection:
        self.pipeline.append(parts)
        return DaskCollection(self.folder, parts, self)


@dataclass(frozen=True, slots=True)
class DaskCollection(Collection):
    """Lists of elements, each the result of a Dask task."""

    begin: DaskBegin

    def map(self, label: str, function: Callable[..., Any], *more: object) -> Collection:
        """Call a function with each element, as `Collection.map` does."""
        return self._each(_map, noting(self.folder, function), more)

    def flat_map(self, label: str, function: Callable[..., Iterable[Any]], *more: object) -> Collection:
        """Call a function with each element for all that it returns, as `Collection.flat_map` does."""
        return self._each(_flat_map, noting(self.folder, function, several=True), more)

    def filter(self, label: str, keeps: Callable[[Any], bool]) -> Collection:
        """Keep the elements for which a function returns true, as `Collection.filter` does."""
        return self._each(_keep, keeps, ())

    def distinct(self, label: str) -> Collection:
        """Keep each distinct element once, as `Collection.distinct` does."""
        return self.map(label, _keyed).group(label).map(label, _first)

    def group(self, label: str) -> Collection:
        """Group (key, value) into (key, values), as `Collection.group` does."""
        parts = self.begin._parts(self)
        count = min(len(parts), _MOST_GROUPED)
        split = [_task(_split_by_key, part, count) for part in parts]
        return self.begin._collect([_task(_group, *(each[number] for each in split)) for number in range(count)])

    def add_up(self, label: str) -> Collection:
        """Add up (key, number) into (key, sum), as `Collection.add_up` does."""
        return self.group(label).map(label, _sum_values)

    def _each(
        self, step: Callable[..., list[Any]], function: Callable[..., Any], more: tuple[object, ...]
    ) -> Collection:
        sides = [_task(_only, *self.begin._parts(each)) if isinstance(each, Collection) else each for each in more]
        return self.begin._collect([_task(step, function, part, *sides) for part in self.begin._parts(self)])


def _task(function: Callable[..., Any], *given: Any) -> Any:
    from dask.delayed import delayed

    return delayed(function, pure=False, traverse=False)(*given)


def _concatenate(*parts: list[Any]) -> list[Any]:
    return [element for part in parts for element in part]


def _gather_alone(gather: Callable[..., Any], function: Callable[..., Any], *lists: list[Any]) -> list[Any]:
    return [gather(None, function, *lists)]


def _only(*parts: list[Any]) -> Any:
    (element,) = _concatenate(*parts)
    return element


def _map(function: Callable[..., Any], part: list[Any], *more: Any) -> list[Any]:
    return [function(element, *more) for element in part]


def _flat_map(function: Callable[..., Iterable[Any]], part: list[Any], *more: Any) -> list[Any]:
    return [made for element in part for made in function(element, *more)]


def _keep(keeps: Callable[[Any], bool], part: list[Any]) -> list[Any]:
    return [element for element in part if keeps(element)]


def _keyed(element: Any) -> tuple[Any, None]:
    return element, None


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _sum_values(pair: tuple[Any, Iterable[Any]]) -> tuple[Any, Any]:
    return pair[0], sum(pair[1])


def _named(pair: tuple[Any, Any], name: str) -> tuple[Any, tuple[str, Any]]:
    return pair[0], (name, pair[1])


def _by_name(pair: tuple[Any, Iterable[tuple[str, Any]]], names: tuple[str, ...]) -> tuple[Any, dict[str, list[Any]]]:
    found: dict[str, list[Any]] = {name: [] for name in names}
    for name, value in pair[1]:
        found[name].append(value)
    return pair[0], found


def _split_by_key(part: list[tuple[Any, Any]], count: int) -> list[list[tuple[Any, Any]]]:
    """The pairs of a part by where their keys meet, which is the same in all processes: their `hash` is not."""
    split: list[list[tuple[Any, Any]]] = [[] for _ in range(count)]
    for key, value in part:
        split[zlib.crc32(_key_bytes(key)) % count].append((key, value))
    return split


def _key_bytes(key: Any) -> bytes:
    if isinstance(key, tuple):
        return b"(" + b",".join(map(_key_bytes, key)) + b")"
    if isinstance(key, str | int | bytes | None):
        return repr(key).encode("utf-8", "surrogatepass")
    raise TypeError(f"a key of {type(key).__name__}; expected texts, whole numbers and tuples of them")


def _group(*parts: list[tuple[Any, Any]]) -> list[tuple[Any, list[Any]]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in _concatenate(*parts):
        groups.setdefault(key, []).append(value)
    return list(groups.items())
