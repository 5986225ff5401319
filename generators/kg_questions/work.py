"""The stages of a run: sample paths of a knowledge graph, word and measure questions, keep those that differ.

sample paths | cut into shards | write, filter | select | manifest
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trailforge.filters import first_rejection
from trailforge.filters.kg import judge_question
from trailforge.generators import select_stage
from trailforge.generators.kg_questions import FILTER, NAME, WRITE, selection
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.generate import KgQuestionContext, KgQuestionWork, with_scores
from trailforge.generators.kg_questions.paths.blurring import count_hops, described_in
from trailforge.generators.kg_questions.paths.config import MOST_FACTS, MOST_HOPS, KgPathConfig
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.paths.shortage import check_any, describe_shortage
from trailforge.generators.kg_questions.wording import compose
from trailforge.inference import ModelClient
from trailforge.pipelines import StageRun
from trailforge.pipelines.engine import ItemResult, ModelStage, ModelWork, Receipt, Shard, rejected_row, what_is_wrong
from trailforge.pipelines.runs import RunInputs, Settings, digest_of, read_settings, stage, take_in_rows
from trailforge.pipelines.sources import Demand, Traits, relation_of, tell_shortage
from trailforge.retrieval.kg import MANIFEST as STORE_MANIFEST
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import NOTICE, Count, FactChain, KgQuestion, RejectedRow, to_dict

_LOG = logging.getLogger(__name__)
_SPARE = 10
"""Paths that are looked at for one that is wanted, at most."""
_MEETINGS = _BLURRED = 0.5
"""Share of meeting chains, and of described starts, that are looked at where a quota asks for them."""


def take_in(inputs: RunInputs, folder: Path, config: KgQuestionRunConfig) -> Settings:
    """Write paths of the graph as shards into the run's folder, without those that people refuse; returns the run's
    settings. Paths that the folder has are kept when they are of the same configuration and refusals, since sampling is
    slow.
    """
    earlier, asked = read_settings(folder), (NAME, config.hash, inputs.refused.hash)
    is_same = earlier is not None and (earlier.dataset, earlier.config_hash, earlier.refusals) == asked
    if earlier is not None and is_same and not any(what_is_wrong(folder, entry) for entry in earlier.files):
        return earlier
    paths = demanded_paths(config.paths, inputs.demand)
    sampler = PathSampler(KgStore.open(Path(config.kg)), paths, config.seed)
    sampled = sample_by_quota(sampler, inputs.demand, config.count)
    found = iter(inputs.shown(sampled, "sample: paths", config.count))
    first = next(found, None)
    check_any(first, sampler, inputs.options.get("kg", config.kg))
    settings = take_in_rows(
        inputs,
        folder,
        config,
        source=Path(config.kg) / STORE_MANIFEST,
        rows=itertools.chain([first], found),
        record=FactChain,
        nouns="paths of the wanted forms",
        shard_size=config.output.shard_size,
    )
    refusals = tuple(Count(reason=reason, count=number) for reason, number in sorted(sampler.rejected.items()))
    (books,) = settings.books
    if books.inputs < config.count:
        _LOG.log(NOTICE, describe_shortage(books.inputs, sampler, config.count))
    return replace(settings, tries=refusals)


def demanded_paths(config: KgPathConfig, demand: Demand) -> KgPathConfig:
    """Return the configuration with the path lengths that quotas ask for, or with its own where a quota leaves them
    open.

    A description comes before a path and counts as one hop; a path of five facts or more has several, so for such
    numbers of hops longer paths are sampled, too.
    """
    if not demand.quotas:
        return config
    lengths = (max(1, each.hops - bool(each.blurred)) for each in demand.quotas if each.hops is not None)
    asked = {hops for least in lengths for hops in ((least,) if least <= MOST_HOPS else range(least, MOST_FACTS + 1))}
    is_open = any(each.hops is None for each in demand.quotas)
    hops = tuple(sorted({*asked, *(config.hops if is_open or not asked else ())}))
    meet = max(config.intersections, _MEETINGS * any(each.shape == "intersection" for each in demand.quotas))
    blurred = max(config.blurred, _BLURRED * any(each.blurred for each in demand.quotas))
    return replace(config, hops=hops, intersections=meet, blurred=blurred)


def sample_by_quota(sampler: PathSampler, demand: Demand, count: int) -> Iterator[FactChain]:
    """Yield up to `count` paths in the proportions of the quotas; without quotas as the sampler yields them."""
    if not demand.quotas:
        yield from sampler.sample(count)
        return
    left = demand.counts(count)
    for chain in sampler.sample(_SPARE * count):
        quota = demand.quota_of(traits_of_chain(chain), left)
        if quota is not None:
            left[quota] -= 1
            yield chain
        if not any(number > 0 for number in left):
            return
    tell_shortage(demand, left, count)


def traits_of_chain(chain: FactChain) -> Traits:
    """Return the traits that quotas count (hops, shape, last relation, described start) of the question that rules make
    of a chain.
    """
    described = described_in(chain)
    meets = any(len(chain.leading_to(node)) > 1 for node in chain.found if node not in described)
    relation = relation_of(compose(chain).sub_questions[-1])
    shape = "intersection" if meets else "chain"
    return Traits(hops=count_hops(chain), shape=shape, relation=relation, is_blurred=bool(described))


def open_context(work: ModelWork, client: ModelClient) -> KgQuestionContext:
    """Open what all paths of a run share: model, settings and the graph's date."""
    config = work.config
    return KgQuestionContext(
        **work.shared(client),
        config=config.writer,
        as_of=config.as_of,
        graph=config.kg_hash[:12],
    )


def selection_shards(written: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """Return the one shard of the selection, which works on all written questions together."""
    return (select_stage.only_shard(written, digest_of(receipts)),)


def run_selection(run: StageRun) -> None:
    """Run the stage that chooses among the questions of all paths."""
    selection.select(run)


async def question_of(chain: FactChain, context: KgQuestionContext, config: KgQuestionRunConfig) -> ItemResult:
    """Write the question of a path, and return it with its verdicts."""
    work = KgQuestionWork(item=chain, context=context)
    draft = await work.write()
    verdicts = await judge_question(draft, work, config.filters)
    # In order of key, since of calls made at once another may be answered first when the run goes on.
    row = with_scores(draft, verdicts, sorted(work.meter.keys))
    against = first_rejection(verdicts)
    rejected = [] if against is None else [rejected_row(FILTER, row.uid, against, to_dict(row))]
    reasons = [each.reason for each in rejected]
    return ItemResult(
        rows={select_stage.CANDIDATES: [] if rejected else [row], "rejected": rejected},
        stages=(
            stage(WRITE, inputs=1, accepted=1),
            stage(FILTER, inputs=1, accepted=1 - len(rejected), rejected=reasons),
        ),
        usage=work.meter.usage(context.prices),
    )


write_stage = ModelStage(
    name=WRITE,
    item=FactChain,
    tables={select_stage.CANDIDATES: KgQuestion, "rejected": RejectedRow},
    counted=(select_stage.CANDIDATES, "shape"),
    open_context=open_context,
    run_item=question_of,
)
