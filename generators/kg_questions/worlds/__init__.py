"""A world that is known through and through, beyond the papers: a graph's facts as documents, and questions on them.

    make_world(store_folder, out, WorldConfig(questions=100))

Every question can be answered from the documents and from nothing else that is asked of them: each hop's fact stands in
one document, whose place in a search is measured. What goes wrong over a world has a cause that `searches.jsonl` names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.paths.shortage import describe_lack
from trailforge.generators.kg_questions.worlds.config import WorldConfig
from trailforge.generators.kg_questions.worlds.documents import Corpus, CorpusWriter
from trailforge.generators.kg_questions.worlds.names import WorldNames
from trailforge.generators.kg_questions.worlds.questions import (
    WorldQuestion,
    path_config,
    sample_comparisons,
    sample_questions,
)
from trailforge.generators.kg_questions.worlds.searches import (
    Chooser,
    SearchedQuestion,
    figures_of,
    kind_of,
    measure,
    most_per_answer,
)
from trailforge.pipelines.engine.files import new_folder, sha256_of
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.kg import KgStore
from trailforge.retrieval.kg.layout import MANIFEST as STORE_MANIFEST
from trailforge.schemas import Hop, InvalidInput, NothingLeft, Question, SupportingDocument, to_dict

__all__ = ["WorldConfig", "make_world"]

_KIND = "instance of"
NAME = "world"
"""`Question.dataset` of a world's questions."""
_SPARES = (3, 3, 4)
"""Candidates for one question that is wanted: at first, and as many more as long as too few will do."""
_LOOKED_AT = 50
"""Paths that show whether a graph has enough of a kind."""
Item = TypeVar("Item")


def make_world(kg: Path, out: Path, config: WorldConfig, *, shows_progress: bool = False) -> dict[str, Any]:
    """Write a world into a folder that is not there yet; its figures, which are in its `world.json` too.

    Raises `InvalidInput` when the graph has too little for it, `OutputError` for a folder that cannot be written, and
    as `KgStore.open` and `KgStore.check_once`.
    """
    store = KgStore.open(kg)
    store.check_once()
    with new_folder(out) as folder:
        chooser, corpus, candidates = _chosen(store, config, shows_progress)
        if chooser.missing():
            raise _shortage(store, chooser, candidates, kg)
        figures = figures_of(chooser.chosen, corpus, config)
        for split, chosen in chooser.chosen.items():
            _write_lines(folder / f"{split}.jsonl", (to_dict(_record(each)) for each in chosen))
        documents = ({"id": each.id, "title": each.title, "text": each.text} for each in corpus.documents)
        _write_lines(folder / "corpus.jsonl", documents)
        searches = (search for chosen in chooser.chosen.values() for each in chosen for search in each.searches)
        _write_lines(folder / "searches.jsonl", map(asdict, searches))
        _write_graph(folder / "kg", corpus)
        (folder / "retrieval.yaml").write_text(_retrieval(out), encoding="utf-8")
        about = {"config": asdict(config), "kg": sha256_of(kg / STORE_MANIFEST), "figures": figures}
        (folder / "world.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return figures


def _chosen(
    store: KgStore, config: WorldConfig, shows_progress: bool
) -> tuple[Chooser, Corpus, list[SearchedQuestion]]:
    """The questions that are kept, the documents among which they were searched for, and all that might be kept.

    Documents of candidates that are not kept stay among the others: without them the ranks would not be those measured.
    """
    names = WorldNames(store, config.names, config.seed)
    sources = _sources(store, names, config)
    chooser, corpus = Chooser(config), Corpus()
    chooser.choose([])
    candidates: list[WorldQuestion] = []
    usable: list[SearchedQuestion] = []
    for spare in _SPARES:
        total = spare * sum(wanted for _, wanted in sources)
        more = list(_watched(_drawn(sources, spare), "sample", total, shows_progress))
        if not more:
            break
        candidates += more
        corpus = CorpusWriter(store, names, config).write(candidates)
        watched = _watched(candidates, "search", len(candidates), shows_progress)
        measured = measure(watched, corpus, Bm25Retriever(corpus.documents), config.passages)
        usable = [each for each in measured if each is not None]
        chooser.choose(usable)
        if not chooser.is_short:
            break
    return chooser, corpus, usable


_Source: TypeAlias = tuple[Iterator[WorldQuestion], int]
"""Questions of one kind, as they are sampled, and how many are wanted."""


def _sources(store: KgStore, names: WorldNames, config: WorldConfig) -> list[_Source]:
    """Of every kind."""
    size = config.questions + config.test_questions
    cap = most_per_answer(min(filter(None, (config.questions, config.test_questions))))
    most = cap * (2 if config.test_questions else 1) + 1
    compared = round(size * config.comparisons)
    sources: list[_Source] = []
    if compared:
        sources.append((sample_comparisons(store, names, config, most), compared))
    wanted = -(-(size - compared) // len(config.hops))
    return sources + [(sample_questions(store, names, config, hops, most), wanted) for hops in config.hops]


def _drawn(sources: Sequence[_Source], spare: int) -> Iterator[WorldQuestion]:
    """So many for each question that is wanted, all kinds in turns; fewer when the graph has no more."""
    left = [islice(questions, wanted * spare) for questions, wanted in sources]
    while left:
        for questions in tuple(left):
            try:
                yield next(questions)
            except StopIteration:
                left.remove(questions)


def _watched(items: Iterable[Item], what: str, total: int, shows_progress: bool) -> Iterator[Item]:
    if not shows_progress:
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=f"{what}:", total=total, console=Console(stderr=True))


def _record(each: SearchedQuestion) -> Question:
    """As all readers of questions take it."""
    question = each.question
    return Question(
        id=question.id,
        question=question.question,
        answer=question.answer.label,
        answer_aliases=question.answer.aliases,
        decomposition=tuple(Hop(question=hop.question, answer=hop.answer.label) for hop in question.hops),
        dataset=NAME,
        num_hops=len(each.searches),
        supporting=tuple(SupportingDocument(title=search.title, facts=search.sentences) for search in each.searches),
    )


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _write_graph(folder: Path, corpus: Corpus) -> None:
    """All that the documents state, as tables that `trailforge kg build` takes."""
    folder.mkdir()
    kinds = {f"kind {kind}": kind for kind in sorted(set(corpus.kinds.values()))}
    triples = [(each.head, each.relation, each.tail) for each in corpus.triples]
    triples += [(entity, _KIND, f"kind {kind}") for entity, kind in sorted(corpus.kinds.items())]
    entities, relations = dict(kinds), {_KIND: _KIND}
    for each in corpus.triples:
        entities |= {each.head: each.head_label, each.tail: each.tail_label}
        relations[each.relation] = each.relation_label
    for name, rows in (("triples", triples), ("entities", entities.items()), ("relations", relations.items())):
        text = "".join("\t".join(row) + "\n" for row in rows)
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")


def _retrieval(out: Path) -> str:
    """Lines for a preset."""
    corpus = json.dumps(str(out.absolute() / "corpus.jsonl"))
    return (
        "# For a preset: searches the world's documents.\n"
        f"retrieval: {{kind: bm25, scope: corpus, corpus_index: {corpus}}}\n"
    )


def _shortage(store: KgStore, chooser: Chooser, candidates: Sequence[SearchedQuestion], kg: Path) -> InvalidInput:
    """What is missing, what of the graph is asked for, and an order that the candidates can fill."""
    config = chooser.config
    found = sum(map(len, chooser.chosen.values()))
    kinds = ", ".join(f"{number:,} of {kind}" for kind, number in chooser.missing().items())
    problem = (
        f"the graph gives {found:,} of {config.questions + config.test_questions:,} questions; missing are {kinds}: "
    )
    samplers = {hops: PathSampler(store, path_config(store, config, hops, 1), config.seed) for hops in config.hops}
    lacks: list[str] = []
    for hops, sampler in samplers.items():
        number = len(list(sampler.sample(_LOOKED_AT)))
        if number < _LOOKED_AT:
            lacks.append(
                f"it has {number:,} paths of {hops} fact{'s' * (hops > 1)} (more: {describe_lack(sampler.rejected)})"
            )
    facts = next(iter(samplers.values())).count_facts()
    asked = f"of {facts.total:,} facts {facts.asked:,} are asked for (kinds are not)"
    order = _largest_order(candidates, config)
    mend = f"try {order}, or give more facts" if order else "give more facts that lead from one name to another"
    error = InvalidInput if found else NothingLeft
    return error(f"{problem}{'; '.join((asked, *lacks))}; {mend}", file=kg)


def _largest_order(candidates: Sequence[SearchedQuestion], config: WorldConfig) -> str:
    """The options by which the most questions come of these candidates; empty when none do."""
    found = {kind_of(each.question) for each in candidates}
    hops = tuple(each for each in config.hops if any(kind.startswith(f"{each} hop") for kind in found))
    if not hops:
        return ""
    size = len(candidates)
    while size:
        less = replace(config, questions=size, test_questions=0, hops=hops, comparisons=0.0, found_at_once=1.0)
        chooser = Chooser(less)
        chooser.choose(candidates)
        if not chooser.missing():
            at_once = " --found-at-once 1" if max(hops) > 1 else ""
            compared = " --comparisons 0" if config.comparisons else ""
            return f"--questions {size} --hops {','.join(map(str, hops))}{compared}{at_once}"
        size -= max(1, size // 20)
    return ""
