"""Make a closed world (ours, beyond the papers): documents that state a graph's facts, and questions that these answer.

    make_world(store_folder, out, WorldConfig(questions=100))

Every question can be answered from the documents and from nothing else that is asked of them: each hop's fact stands in
one document, whose place in a search is measured. What goes wrong over a world has a cause that `searches.jsonl` names.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from trailforge.generators.kg_questions.paths.config import MOST_HOPS
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.paths.shortage import describe_lack
from trailforge.generators.kg_questions.worlds.config import WorldConfig
from trailforge.generators.kg_questions.worlds.documents import Corpus, CorpusWriter
from trailforge.generators.kg_questions.worlds.files import retrieval_lines, watched, write_graph, write_lines
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
    as_question,
    figures_of,
    kind_of,
    measure,
    most_per_answer,
)
from trailforge.pipelines.engine import new_folder, sha256_of
from trailforge.pipelines.sources import NOT_DEMANDED
from trailforge.retrieval.backends import Bm25Retriever
from trailforge.retrieval.kg import MANIFEST as STORE_MANIFEST
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import NOTICE, NothingLeft, to_dict

__all__ = ["WorldConfig", "make_world"]

_LOG = logging.getLogger(__name__)
_SPARES = (3, 3, 4)
"""Candidates for one question that is wanted: at first, and as many more as long as too few will do."""
_RARE = 3
"""Times as many candidates are drawn where one relation is asked for."""
_LOOKED_AT = 50
"""Paths that show whether a graph has enough of a kind."""


def make_world(kg: Path, out: Path, config: WorldConfig, *, shows_progress: bool = False) -> dict[str, Any]:
    """Write a world into a folder that must not exist yet, and return its figures, which are in its `world.json`, too.

    Where the graph has too little for what is asked, the world has as many questions as it gives, and a notice says
    what is missing. Raises `NothingLeft` when it gives none, `OutputError` for a folder that cannot be written, and
    what `KgStore.open` and `KgStore.check_once` raise.
    """
    store = KgStore.open(kg)
    store.check_once()
    with new_folder(out) as folder:
        chooser, corpus, candidates = _chosen(store, config, shows_progress)
        if chooser.missing() and chooser.is_full:
            told = _count_kinds(chooser.missing())
            _LOG.log(NOTICE, "%s: of what quotas ask for %s are missing; others stand in their place", kg, told)
        elif chooser.missing():
            lacks = _describe_shortage(store, chooser)
            if not chooser.chosen["questions"]:
                chooser = _largest(candidates, config)
            if not chooser.chosen["questions"]:
                mend = "give more facts that lead from one name to another"
                raise NothingLeft(f"the graph gives no questions; {lacks}; {mend}", file=kg)
            number = sum(map(len, chooser.chosen.values()))
            _LOG.log(NOTICE, "%s: %s; the world has the %s that there are", kg, lacks, f"{number:,}")
        figures = figures_of(chooser.chosen, corpus, chooser.config)
        for split, chosen in chooser.chosen.items():
            write_lines(folder / f"{split}.jsonl", (to_dict(as_question(each)) for each in chosen))
        documents = ({"id": each.id, "title": each.title, "text": each.text} for each in corpus.documents)
        write_lines(folder / "corpus.jsonl", documents)
        searches = (search for chosen in chooser.chosen.values() for each in chosen for search in each.searches)
        write_lines(folder / "searches.jsonl", map(asdict, searches))
        write_graph(folder / "kg", corpus.triples, corpus.kinds)
        (folder / "retrieval.yaml").write_text(retrieval_lines(out), encoding="utf-8")
        about = {
            "config": asdict(chooser.config),
            "asked": asdict(config),
            "kg": sha256_of(kg / STORE_MANIFEST),
            "figures": figures,
        }
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
        more = list(watched(_drawn(sources, spare), "sample", total, shows_progress))
        if not more:
            break
        candidates += more
        corpus = CorpusWriter(store, names, config).write(candidates)
        searched = watched(candidates, "search", len(candidates), shows_progress)
        measured = measure(searched, corpus, Bm25Retriever(corpus.documents), config.passages)
        usable = [each for each in measured if each is not None]
        chooser.choose(usable)
        if not chooser.is_short:
            break
    return chooser, corpus, usable


_Source: TypeAlias = tuple[Iterator[WorldQuestion], int]
"""Questions of one kind, as they are sampled, and how many are wanted."""


def _sources(store: KgStore, names: WorldNames, config: WorldConfig) -> list[_Source]:
    """Of every kind."""
    cap = most_per_answer(min(filter(None, (config.questions, config.test_questions))))
    most = cap * (2 if config.test_questions else 1) + 1
    compared, by_hops, blurred = _wanted_candidates(config)
    sources: list[_Source] = []
    if compared:
        sources.append((sample_comparisons(store, names, config, most), compared))
    for wanted, is_blurred in ((by_hops, False), (blurred, True)):
        for hops, number in wanted.items():
            sources.append((sample_questions(store, names, config, hops, most, blurred=is_blurred), number))
    return sources


def _wanted_candidates(config: WorldConfig) -> tuple[int, dict[int, int], dict[int, int]]:
    """For how many comparisons, and questions by number of hops, named and described, candidates are drawn."""
    demand, by_hops, blurred = config.demand, Counter[int](), Counter[int]()
    plain = config.test_questions if demand.quotas else config.questions + config.test_questions
    compared = round(plain * config.comparisons)
    if plain:
        number = -(-(plain - compared) // len(config.hops))
        for hops in config.hops:
            blurred[hops] = round(number * config.blurred) if hops > 1 else 0
            by_hops[hops] = number - blurred[hops]
    counts = demand.counts(config.questions) if demand.quotas else []
    for asked, count in zip(demand.quotas, counts, strict=True):
        if asked.shape == "comparison":
            compared += count
            continue
        rare = _RARE if asked.relation else 1
        lengths = config.hops if asked.hops is None else (min(asked.hops, MOST_HOPS),)
        for hops in lengths:
            to = blurred if asked.blurred and hops > 1 else by_hops
            to[hops] += -(-rare * count // len(lengths))
    return compared, dict(+by_hops), dict(+blurred)


def _drawn(sources: Sequence[_Source], spare: int) -> Iterator[WorldQuestion]:
    """So many for each question that is wanted, all kinds in turns; fewer when the graph has no more."""
    left = [islice(questions, wanted * spare) for questions, wanted in sources]
    while left:
        for questions in tuple(left):
            try:
                yield next(questions)
            except StopIteration:
                left.remove(questions)


def _count_kinds(missing: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} of {kind}" for kind, number in missing.items())


def _describe_shortage(store: KgStore, chooser: Chooser) -> str:
    """What is missing of what is asked for, and what the graph has of it."""
    config = chooser.config
    found = sum(map(len, chooser.chosen.values()))
    kinds = _count_kinds(chooser.missing())
    lacks: list[str] = []
    samplers = {hops: PathSampler(store, path_config(store, config, hops, 1), config.seed) for hops in config.hops}
    for hops, sampler in samplers.items():
        number = len(list(sampler.sample(_LOOKED_AT)))
        if number < _LOOKED_AT:
            lacks.append(
                f"it has {number:,} paths of {hops} fact{'s' * (hops > 1)} (more: {describe_lack(sampler.rejected)})"
            )
    facts = next(iter(samplers.values())).count_facts()
    asked = f"of {facts.total:,} facts {facts.asked:,} are asked for (kinds are not)"
    wanted = config.questions + config.test_questions
    return "; ".join((f"{found:,} of {wanted:,} questions as asked, missing are {kinds}", asked, *lacks))


def _largest(candidates: Sequence[SearchedQuestion], config: WorldConfig) -> Chooser:
    """The most questions that these candidates give however many one search answers; none without candidates."""
    found = {kind_of(each.question) for each in candidates}
    hops = tuple(each for each in config.hops if any(kind.startswith(f"{each} hop") for kind in found))
    size = len(candidates)
    while hops and size:
        less = replace(config, questions=size, test_questions=0, hops=hops, comparisons=0.0, found_at_once=1.0)
        less = replace(less, demand=NOT_DEMANDED)
        chooser = Chooser(less)
        chooser.choose(candidates)
        if not chooser.missing():
            return chooser
        size -= max(1, size // 20)
    nothing = Chooser(config)
    nothing.choose([])
    return nothing
