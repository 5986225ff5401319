"""Make a world of long pages with look-alikes, and questions of many facts that have exactly one answer in it.

    make_page_world(store_folder, out, PageWorldConfig(questions=50))

Every question is proved twice: over the whole graph when it is drawn, and over all that the pages state, look-alikes
included, by counting anew (`trees.WorldFacts`).
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trailforge.generators.kg_questions.worlds.config import NameStyle
from trailforge.generators.kg_questions.worlds.files import NAME, retrieval_lines, watched, write_graph, write_lines
from trailforge.generators.kg_questions.worlds.names import WorldNames
from trailforge.generators.kg_questions.worlds.pages.building import PageBuilder, PageWorld, SearchedHop
from trailforge.generators.kg_questions.worlds.pages.trees import TreeQuestion, TreeSampler, describe_tree
from trailforge.pipelines.engine import new_folder, sha256_of
from trailforge.retrieval.kg import MANIFEST as STORE_MANIFEST
from trailforge.retrieval.kg import KgStore
from trailforge.retrieval.pages import Paging
from trailforge.schemas import (
    NOTICE,
    Hop,
    InvalidInput,
    NothingLeft,
    Question,
    SupportingDocument,
    check_least,
    to_dict,
)

__all__ = ["PageWorldConfig", "make_page_world"]

_LOG = logging.getLogger(__name__)
_SPARE = 1.5
"""Questions that are drawn for one that is wanted: some state what others do elsewhere, or are not found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWorldConfig:
    """Sizes of a world of long pages. Raises `InvalidInput`."""

    questions: int = 50
    facts: tuple[int, ...] = (5, 6, 7, 8, 9)
    """Numbers of facts of a question, 2 to 12; all are equally frequent, as far as the graph has them."""
    pages: int = 500
    """Number of pages of entities: at least as many as questions need. Pages of look-alikes come on top."""
    words: int = 1000
    """Fewest words of a page."""
    part_words: int = 500
    """Most words of a part of a page as it is opened; `hops.jsonl` counts parts by it."""
    look_alikes: int = 3
    """Number of hops of a question whose page has a look-alike, as far as one fits."""
    half_fits: int = 20
    """Number of pages, for each of two facts that tell an entity, of others which satisfy that fact alone. Who looks
    for the entity has to look into several."""
    passages: int = 5
    """Number of passages of a search, among which the page of each hop has to be."""
    names: NameStyle = "real"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.facts or not all(2 <= facts <= 12 for facts in self.facts):
            raise InvalidInput("must be numbers from 2 to 12", field="facts")
        check_least(self, 1, "questions", "pages", "words", "part_words", "passages", must="must be")
        check_least(self, 0, "look_alikes", "half_fits", must="must be")
        if self.names not in ("real", "invented"):
            raise InvalidInput("must be real or invented", field="names")


def make_page_world(kg: Path, out: Path, config: PageWorldConfig, *, shows_progress: bool = False) -> dict[str, Any]:
    """Write a world of long pages into a folder that must not exist yet, and return its figures, which are in its
    `world.json`, too.

    Where the graph gives fewer questions than are asked for, the world has those, and a notice says so. Raises
    `NothingLeft` when it gives none, `OutputError` for a folder that cannot be written, and what `KgStore.open` raises.
    """
    store = KgStore.open(kg)
    store.check_once()
    with new_folder(out) as folder:
        world = _built(store, config, shows_progress)
        if not world.questions:
            raise NothingLeft(
                "the graph gives no question of so many facts; give a larger graph, or fewer facts", file=kg
            )
        if world.of_two_readings:
            said = "in which country may be a constituent one, with another answer, are left out"
            _LOG.log(NOTICE, "%s: %d questions %s", kg, world.of_two_readings, said)
        chosen = world.questions[: config.questions]
        if len(chosen) < config.questions:
            _LOG.log(NOTICE, "%s: %d of %d questions; the graph gives no more", kg, len(chosen), config.questions)
        if missing := sorted(set(config.facts) - {each.question.num_facts for each in chosen}):
            _LOG.log(NOTICE, "%s: no question of %s facts", kg, " or ".join(map(str, missing)))
        hops = [hop for each in chosen for hop in world.hops[each.question.id]]
        write_lines(folder / "questions.jsonl", (to_dict(_record(each, world)) for each in chosen))
        documents = ({"id": each.id, "title": each.title, "text": each.text} for each in world.documents)
        write_lines(folder / "corpus.jsonl", documents)
        write_lines(folder / "hops.jsonl", map(asdict, hops))
        write_graph(folder / "kg", world.triples, world.kinds)
        (folder / "retrieval.yaml").write_text(retrieval_lines(out), encoding="utf-8")
        figures = _figures(chosen, hops, world)
        trees = {each.question.id: describe_tree(store, each.root) for each in chosen}
        made_of = {"config": asdict(config), "kg": sha256_of(kg / STORE_MANIFEST)}
        about = {**made_of, "figures": figures, "trees": trees}
        (folder / "world.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return figures


def _built(store: KgStore, config: PageWorldConfig, shows_progress: bool) -> PageWorld:
    names = WorldNames(store, config.names, config.seed)
    sampler = TreeSampler(store, names, config.seed)
    builder = PageBuilder(store, names, sampler, config.seed)
    wanted = round(config.questions * _SPARE)
    drawn = _drawn(sampler, config.facts, wanted)
    for asked in watched(drawn, "draw", wanted, shows_progress):
        builder.take(asked)
    builder.fill(config.pages, config.half_fits)
    builder.mislead(config.look_alikes)
    return builder.written(config.words, Paging(words=config.part_words), config.passages, config.seed)


def _drawn(sampler: TreeSampler, facts: Sequence[int], wanted: int) -> Iterator[TreeQuestion]:
    """So many questions, of all numbers of facts in turns, as far as the graph has them."""
    left = {number: sampler.sample(number) for number in facts}
    while left and wanted > 0:
        for number in tuple(left):
            asked = next(left[number], None)
            if asked is None:
                del left[number]
            elif wanted > 0:
                wanted -= 1
                yield asked


def _record(asked: TreeQuestion, world: PageWorld) -> Question:
    """As all readers of questions take it: every page that is needed is among the supporting documents, hop by hop."""
    question, hops = asked.question, world.hops[asked.question.id]
    return Question(
        id=question.id,
        question=question.question,
        answer=question.answer.label,
        answer_aliases=hops[-1].answer_names[1:],
        decomposition=tuple(Hop(question=hop.question, answer=hop.answer.label) for hop in question.hops),
        dataset=NAME,
        num_hops=question.num_facts,
        supporting=tuple(SupportingDocument(title=hop.title, facts=hop.sentences) for hop in hops),
    )


def _figures(chosen: Sequence[TreeQuestion], hops: Sequence[SearchedHop], world: PageWorld) -> dict[str, Any]:
    by_facts = Counter(each.question.num_facts for each in chosen)
    return {
        "pages": len(world.documents),
        "words": sum(len(each.text.split()) for each in world.documents),
        "questions": len(chosen),
        "by_facts": {str(number): by_facts[number] for number in sorted(by_facts)},
        "hops": len(hops),
        "look_alikes": sum(bool(hop.look_alike) for hop in hops),
        "false_answers": sum(bool(hop.false_answer) for hop in hops),
        "half_fits": len({page for hop in hops for page in hop.half_fits}),
        "found_first": sum(hop.rank == 1 for hop in hops),
        "left_out_two_readings": world.of_two_readings,
    }
