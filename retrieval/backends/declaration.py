"""What a back end is: one file that declares how its index is built, kept and searched.

backend = load_backend("linear_rag")
index = await backend.build(documents, backend.config(), tools)      in memory; `index.save(folder)` keeps it
found = await index.find("Who …?", 5)                                passages, with scores and why
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

from trailforge.inference.asker import Asker
from trailforge.retrieval.base import Retriever
from trailforge.retrieval.encoder import Encoder
from trailforge.schemas import Document, InvalidInput, Passage, from_dict, to_dict
from trailforge.schemas.text import count_tokens

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPassage:
    """A passage that a search found, and why."""

    passage: Passage
    """Of the corpus; or what was made from several, as a summary, under an id of its own."""
    why: str
    """One line for who inspects a search: what led to it."""
    sources: tuple[str, ...]
    """Ids of the documents that it is or was made from; what recall is counted over. A back end says those of the
    passages that it was given; where documents were cut into these (`corpus.cut`), `OpenIndex` says the documents'."""

    @classmethod
    def of(cls, document: Document, score: float, why: str) -> FoundPassage:
        """A passage of the corpus as it stands there."""
        return cls(passage=passage_of(document, score), why=why, sources=(document.id,))


def passage_of(document: Document, score: float) -> Passage:
    """A document as a passage that was found."""
    return Passage(id=document.id, title=document.title, text=document.text, score=score)


_SAMPLING = ("temperature", "top_p", "max_tokens")
SEARCHED_AT_ONCE = 2_000
"""Documents that are searched within a tenth of a millisecond, less than another thread takes to come to it."""


class Index(Protocol):
    """Documents that one back end has made ready. The same query over the same documents finds the same passages.

    One may have `stats`, a dict that JSON can say, for who describes it: sizes, a measured recall. One that finds only
    its documents may be a `Retriever`, too: agents need no reasons, which may take longer to tell than the search.
    """

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """The best `k`, best first; fewer when there are not that many. Scores are rounded to 6 decimals, and ties come
        in the order of the documents. Does not hold up the event loop.
        """
        ...

    def save(self, folder: Path) -> None:
        """Write all but the documents into a folder that exists and is empty, under names of its own."""
        ...


class ShardMap(Protocol):
    """Does the parts of a build, here or elsewhere, each once: what a killed build has done is not done again."""

    async def __call__(
        self, name: str, work: Callable[[Sequence[Item]], Awaitable[Result]], items: Sequence[Item], per_shard: int
    ) -> list[Result]:
        """What `work` makes of each run of `per_shard` items, in their order.

        A result is a numpy array, or what JSON can say, and comes as JSON reads it: tuples are lists then, and keys
        texts. Items are texts, numbers, records, arrays, or lists and dicts of them: what was made of other items is
        made anew. `name`: of this part of the build, once in a build, of letters, digits, - and _. Several shards may
        be worked on side by side.
        """
        ...


async def map_here(
    name: str, work: Callable[[Sequence[Item]], Awaitable[Result]], items: Sequence[Item], per_shard: int
) -> list[Result]:
    """A `ShardMap` that keeps nothing, one shard after the other."""
    return [await work(items[start : start + per_shard]) for start in range(0, len(items), per_shard)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """What a back end builds and searches with. None: there is none, and who needs one was refused before."""

    encoder: Encoder | None = None
    asker: Asker | None = None
    """Of a model, for builds and searches that ask one."""
    map: ShardMap = map_here

    @property
    def vectors(self) -> Encoder:
        """The encoder, of a back end that `needs_encoder`."""
        assert self.encoder is not None
        return self.encoder

    @property
    def model(self) -> Asker:
        """The model, where `Backend.asks_model` says that it is asked."""
        assert self.asker is not None
        return self.asker


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCalls:
    """What a build is expected to ask a model for one purpose, for `--dry-run`."""

    purpose: str
    calls: int
    prompt_tokens: int
    """Of all calls together, by `schemas.text.count_tokens`."""
    completion_tokens: int
    """Of all calls together, without the thoughts of a model that reasons first."""


def plan_calls(
    purpose: str, prompts: Iterable[str], *, filled: float = 0.0, replies: float = 0.0, times: float = 1.0
) -> PlannedCalls:
    """Calls with these prompts, each made so many `times` on average.

    `filled`: tokens that replies will add to these prompts, all together. `replies`: tokens of the replies to them.
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
    """Of titles and texts, by `schemas.text.count_tokens`."""
    return sum(count_tokens(document.title) + count_tokens(document.text) for document in documents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One way to find passages."""

    name: str
    config: type[Any]
    """A frozen dataclass of its numbers; the defaults are its paper's."""
    build: Callable[[Sequence[Document], Any, Workbench], Awaitable[Index]]
    """From documents (passages: they are not cut again), in memory."""
    open: Callable[[Path, Sequence[Document], Any, Workbench], Index]
    """What `Index.save` wrote, memory-mapped where it is large. Raises `RetrievalError` for what is not that."""
    add: Callable[[Any, Sequence[Document], Any, Workbench], Awaitable[Index]] | None = None
    """From an index, one of all these documents, of which the first are its own, where that is less work than building
    it anew."""
    plain: str = ""
    """Of a build that a model writes, as published: what the same method is called that is built without one. The two
    have one file, and the other's configuration cannot ask a model."""
    needs_encoder: bool = True
    keeps_words: bool = True
    """Its index holds words, or names by their words: of another `words.WORDS_VERSION` it is to be built again."""
    packages: tuple[str, ...] = ()
    """Modules of extras that it imports beside those of the encoder."""
    build_packages: Callable[[Any], tuple[str, ...]] = lambda config: ()
    """Those that a build alone imports."""
    asks_model: Callable[[Any], Sequence[str]] = lambda config: ()
    """For which of `build` and `find` a configuration asks a model."""
    estimate: Callable[[Sequence[Document], Any], Sequence[PlannedCalls]] = lambda documents, config: ()
    """What a build of these documents would ask, but for replies that have to be asked for again; nothing is loaded or
    sent. None where a build asks: nobody knows."""

    def read_numbers(self, options: Mapping[str, Any]) -> Any:
        """The configuration with these options.

        Raises `InvalidInput` for one that it does not have, and for those with which a published build asks no model.
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
        """Raises `InvalidInput` where a model is asked while `doing`, `build` or `find`, and there is none."""
        if asker is not None or doing not in self.asks_model(config):
            return
        when = "built" if doing == "build" else "searched"
        other = f", or take {self.plain}, which asks none" if self.plain else ""
        problem = f"this {self.name} asks a model when it is {when}: give one (--model URL){other}"
        raise InvalidInput(problem, field="model")

    def describe(self, config: Mapping[str, Any]) -> str:
        """What an index of such a configuration is: the name, and in brackets what is set otherwise than usual.

        How a model that writes is sampled is left out: `model` of the manifest and the preset say that.
        """
        usual = {name: value for name, value in to_dict(self.config()).items() if name not in _SAMPLING}
        others = [f"{name}={value}" for name, value in config.items() if name in usual and usual[name] != value]
        return f"{self.name} ({', '.join(others)})" if others else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePassage(Passage):
    """A passage that is no document, but was made from several, as a summary."""

    sources: tuple[tuple[str, str], ...]
    """Id and title of each; the title is empty where it is not known."""


class BackendRetriever:
    """An index as a `Retriever`."""

    def __init__(self, index: Index, documents: Sequence[Document] = ()) -> None:
        """`documents`: those of the index, for the titles of what summaries were made from."""
        self.index, self._documents = index, documents
        self._titles: dict[str, str] = {}

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """See `base.Retriever`. Some may be a `MadePassage`."""
        if isinstance(self.index, Retriever):
            return await self.index.retrieve(query, k)
        return attach_sources(await self.index.find(query, k), self._known_titles)

    def _known_titles(self) -> Mapping[str, str]:
        if not self._titles:
            self._titles.update((each.id, each.title) for each in self._documents)
        return self._titles


def attach_sources(found: Sequence[FoundPassage], titles: Callable[[], Mapping[str, str]]) -> list[Passage]:
    """The passages, of which those that were made from documents say which. `titles`: of documents, by id."""
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
    """Raises `InvalidInput` that lists the back ends there are."""
    if name not in known:
        raise InvalidInput(f"no back end {name!r}; there are {', '.join(known)}", field="backend")
