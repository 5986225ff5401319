"""The interface of a back end: one file declares how its index is built, stored and searched.

backend = load_backend("linear_rag")
index = await backend.build(documents, backend.config(), tools)      in memory; `index.save(folder)` keeps it
found = await index.find("Who …?", 5)                                passages, with scores and why
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from trailforge.inference import Asker
from trailforge.retrieval.base import Retriever
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import Document, InvalidInput, Passage, count_tokens, from_dict, to_dict

if TYPE_CHECKING:
    import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPassage:
    """A passage that a search of an index found, with the reason and the documents that it is from."""

    passage: Passage
    """The passage from the corpus, or one that was made from several, such as a summary, under an id of its own."""
    why: str
    """The reason why it was found, in one line for a person who inspects a search."""
    sources: tuple[str, ...]
    """Ids of the documents that the passage is or was made from; recall is counted over these. A back end names the
    passages that it was given; where documents were cut into these (`corpus.cut`), `OpenIndex` names the documents."""

    @classmethod
    def of(cls, document: Document, score: float, why: str) -> FoundPassage:
        """Make a found passage of a document of the corpus."""
        return cls(passage=passage_of(document, score), why=why, sources=(document.id,))


def passage_of(document: Document, score: float) -> Passage:
    """Return a document as a passage with its score."""
    return Passage(id=document.id, title=document.title, text=document.text, score=score)


_SAMPLING = ("temperature", "top_p", "max_tokens")
SEARCHED_AT_ONCE = 2_000
"""Number of documents up to which a search runs on the calling thread: it takes less than a tenth of a millisecond,
less than handing it to another thread."""


class Index(Protocol):
    """Documents that one back end has indexed. The same query over the same documents finds the same passages.

    An index may have `stats`, a dict that can be written as JSON, with its sizes or a measured recall. An index that
    finds only its own documents may be a `Retriever`, too: agents need no reasons, which may take longer to write than
    the search.
    """

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages, best first; fewer when there are not that many. Scores are rounded to 6
        decimals, and ties come in the order of the documents. The search does not block the event loop."""
        ...

    def save(self, folder: Path) -> None:
        """Write all but the documents into an existing, empty folder, under file names of the index's choice."""
        ...


class ShardMap(Protocol):
    """A function that runs the parts of a build, here or elsewhere, each once: parts that a killed build has finished
    are not run again."""

    async def __call__(
        self,
        name: str,
        work: Callable[[Sequence[Item]], Awaitable[Result]],
        items: Sequence[Item],
        per_shard: int,
        into: np.ndarray | None = None,
    ) -> list[Result]:
        """What `work` makes of each run of `per_shard` items, in their order.

        A result is a numpy array, or what JSON can say, and comes as JSON reads it: tuples are lists then, and keys
        texts. Items are texts, numbers, records, arrays, or lists and dicts of them: what was made of other items is
        made anew. `name`: of this part of the build, once in a build, of letters, digits, - and _. Several shards may
        be worked on side by side. `into`: an array with a row for each item; results, which have as many rows as their
        items, are put there and not returned, so that no result is held twice.
        """
        ...


async def map_here(
    name: str,
    work: Callable[[Sequence[Item]], Awaitable[Result]],
    items: Sequence[Item],
    per_shard: int,
    into: np.ndarray | None = None,
) -> list[Result]:
    """Run `work` on `items` in this process, in shards of `per_shard`, one after the other, and return its results in
    order. It is the simplest `ShardMap`: nothing is stored, so `name`, that of the part of the build, is not used."""
    starts = range(0, len(items), per_shard)
    if into is None:
        return [await work(items[start : start + per_shard]) for start in starts]
    for start in starts:
        put_rows(into[start : start + per_shard], await work(items[start : start + per_shard]))
    return []


def put_rows(part: np.ndarray, result: Any) -> None:
    """Put a shard's result into its part of an array. Raises `ValueError` where it has another shape, as numpy would
    repeat a single row.
    """
    if result.shape != part.shape:
        raise ValueError(f"a shard's result has the shape {result.shape}, where {part.shape} is expected")
    part[:] = result


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """The model client and encoder with which a back end builds and searches.

    A field is None where there is none; a back end that needs it is refused before it gets here.
    """

    encoder: Encoder | None = None
    asker: Asker | None = None
    """Client that asks a model, for builds and searches that need one; None when there is none."""
    map: ShardMap = map_here

    @property
    def vectors(self) -> Encoder:
        """Return the encoder, for a back end that `needs_encoder`."""
        assert self.encoder is not None
        return self.encoder

    @property
    def model(self) -> Asker:
        """Return the model client, where `Backend.asks_model` says that a model is asked."""
        assert self.asker is not None
        return self.asker


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCalls:
    """The calls for one purpose that a build is expected to make, for `--dry-run`."""

    purpose: str
    calls: int
    prompt_tokens: int
    """Number of tokens of all prompts together, by `schemas.text.count_tokens`."""
    completion_tokens: int
    """Number of tokens of all replies together, without the thoughts of a model that reasons first."""


def plan_calls(
    purpose: str, prompts: Iterable[str], *, filled: float = 0.0, replies: float = 0.0, times: float = 1.0
) -> PlannedCalls:
    """Estimate the calls of a model with these prompts, each made `times` times on average; `purpose` names them.

    `filled`: tokens that earlier replies will add to the prompts, over all of them. `replies`: tokens of all replies
    together.
    """
    calls = prompt_tokens = 0
    for prompt in prompts:
        calls += 1
        prompt_tokens += count_tokens(prompt)
    return PlannedCalls(
        purpose=purpose,
        calls=round(times * calls),
        prompt_tokens=round(times * (prompt_tokens + filled)),
        completion_tokens=round(times * replies),
    )


def passage_tokens(documents: Iterable[Document]) -> int:
    """Return the number of tokens of all titles and texts together, by `schemas.text.count_tokens`."""
    return sum(count_tokens(document.title) + count_tokens(document.text) for document in documents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The declaration of a retrieval method: its name, its settings, and how its index is built and opened."""

    name: str
    config: type[Any]
    """A frozen dataclass of the back end's settings; the defaults are those of its paper."""
    build: Callable[[Sequence[Document], Any, Workbench], Awaitable[Index]]
    """A function that builds an index in memory from documents (passages: they are not cut again)."""
    open: Callable[[Path, Sequence[Document], Any, Workbench], Index]
    """A function that opens the files of `Index.save`, memory-mapped where they are large. It raises `RetrievalError`
    for other files."""
    add: Callable[[Any, Sequence[Document], Any, Workbench], Awaitable[Index]] | None = None
    """A function that extends an index to one of all these documents, of which the first are its own, where that is
    less work than building it anew; None where it is not."""
    plain: str = ""
    """Name of the back end that is the same method built without a model; empty where this one asks none or there is no
    such twin. Both are in one file, and the plain one's settings cannot ask a model."""
    needs_encoder: bool = True
    keeps_words: bool = True
    """Whether the index holds words, or names by their words: then one of another `words.WORDS_VERSION` must be built
    again."""
    packages: tuple[str, ...] = ()
    """Modules of extras that the back end imports beside those of the encoder."""
    build_packages: Callable[[Any], tuple[str, ...]] = lambda config: ()
    """A function that returns the modules of extras that only a build imports."""
    asks_model: Callable[[Any], Sequence[str]] = lambda config: ()
    """A function that returns for which of `build` and `find` a configuration asks a model."""
    estimate: Callable[[Sequence[Document], Any], Sequence[PlannedCalls]] = lambda documents, config: ()
    """A function that returns the calls that a build of these documents would make, without those that are repeated; it
    loads and sends nothing. An empty result for a build that asks a model means that its calls cannot be estimated."""

    def read_numbers(self, options: Mapping[str, Any]) -> Any:
        """Return the back end's configuration in which `options`, by the names of its fields, replace the defaults.
        Raises `InvalidInput` for an unknown option, and for options by which a build with a paper's name would call no
        model.
        """
        try:
            config = from_dict(self.config, dict(options))
        except InvalidInput as error:
            known = ", ".join(each.name for each in fields(self.config)) or "none"
            raise InvalidInput(f"{error.problem}; options of {self.name}: {known}", field=error.field) from None
        if self.plain and "build" not in self.asks_model(config):
            problem = f"with these no model is asked: that is {self.plain}, and {self.name} is the published build"
            raise InvalidInput(problem, field="backend")
        return config

    def check_model(self, config: Any, asker: Asker | None, doing: str) -> None:
        """Raise `InvalidInput` when a model would be called during `doing`, which is `build` or `find`, and `asker` is
        None.
        """
        if asker is not None or doing not in self.asks_model(config):
            return
        when = "built" if doing == "build" else "searched"
        other = f", or take {self.plain}, which asks none" if self.plain else ""
        problem = f"this {self.name} asks a model when it is {when}: give one (--model URL){other}"
        raise InvalidInput(problem, field="model")

    def describe(self, config: Mapping[str, Any]) -> str:
        """Return the name of an index with this configuration, and in brackets the settings that differ from the
        defaults. The sampling of a model is left out, since the `model` section of manifest and preset has it.
        """
        usual = {name: value for name, value in to_dict(self.config()).items() if name not in _SAMPLING}
        others = [f"{name}={value}" for name, value in config.items() if name in usual and usual[name] != value]
        return f"{self.name} ({', '.join(others)})" if others else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePassage(Passage):
    """A passage that is not a document of the corpus, but was made from several, such as a summary."""

    sources: tuple[tuple[str, str], ...]
    """Id and title of each document that it was made from; a title is empty where it is not known."""


class BackendRetriever:
    """An index used as a `Retriever`."""

    def __init__(self, index: Index, documents: Sequence[Document] = ()) -> None:
        """`documents`: those of the index, for the titles of what summaries were made from."""
        self.index, self._documents = index, documents
        self._titles: dict[str, str] = {}

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return the best `k` passages, some of which may be a `MadePassage`; see `base.Retriever.retrieve`."""
        if isinstance(self.index, Retriever):
            return await self.index.retrieve(query, k)
        return attach_sources(await self.index.find(query, k), self._known_titles)

    def _known_titles(self) -> Mapping[str, str]:
        if not self._titles:
            self._titles.update((each.id, each.title) for each in self._documents)
        return self._titles


def attach_sources(found: Sequence[FoundPassage], titles: Callable[[], Mapping[str, str]]) -> list[Passage]:
    """Return the passages, with their sources added to those that were made from documents. `titles` returns titles by
    document id.
    """
    return [
        each.passage
        if not each.sources or {each.passage.id, each.passage.id.rpartition("#")[0]} & set(each.sources)
        else MadePassage(
            id=each.passage.id,
            title=each.passage.title,
            text=each.passage.text,
            score=each.passage.score,
            sources=tuple((source, titles().get(source, "")) for source in each.sources),
        )
        for each in found
    ]


def check_known(name: str, known: Sequence[str]) -> None:
    """Raise `InvalidInput` that lists the known back ends when the name is not one of them."""
    if name not in known:
        raise InvalidInput(f"no back end {name!r}; there are {', '.join(known)}", field="backend")
