"""Explain why a graph gives no path or too few: which facts are asked for, why paths are rejected, what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.generators.kg_questions.paths.facts import FactCounts
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.schemas import FactChain, NothingLeft

_SMALL = {"min_triples": 1, "max_guess": 1.0, "hops": (1, 2)}
"""Fields of `KgPathConfig` by which a small graph has paths, too."""
_MOST_TRIED = 20
REFUSALS = {
    "no_path": "too few facts lead on from one another to one entity alone",
    "no_thing": "what stands there has no name, is a class or a page, or is no more",
    "used_up": "earlier paths find the same entity (paths.max_per_found)",
    "answered": "an earlier path has the answer (paths.max_per_answer)",
    "passed_end": "a year would have to be passed (paths.ends)",
    "needs_kind": "the graph does not say what kind of thing is found (types, or instance of)",
    "same_kind": "a city would be located in a city, or a country in a country (paths.needs_kind)",
    "coarse_place": "the place is a state where a town is asked for, or a town where a grave is (paths.coarse, towns)",
    "odd_kind": "an end is of a kind that the relation hardly ever has (paths.min_kind_share)",
    "fan_out": "a fact leads to several where it has to lead to one, or to one where facts meet",
    "guessed": "the answer is often right for the last relation (paths.max_guess)",
    "turns_back": "the way leads back to where it came from",
    "common_pair": "earlier paths have two of the relations together (paths.max_pair_share)",
    "same_relation": "one relation stands in too many facts of a path (paths.max_same)",
    "by_heart": "all its relations are known by heart (paths.by_heart)",
    "well_known": "it rests on well-known entities alone (paths.known_share)",
    "told": "a name has that of a later finding in it",
    "shortcut": "a fact joins what has to be two facts apart",
    "not_unique": "other entities satisfy the same facts",
    "not_ruled_out": "where two facts meet, the graph does not rule out others",
    "spare_fact": "one fact alone gives the answer: several entities have to have each relation",
    "not_described": "too few facts tell its starts from all others, where it is to have five facts or more",
    "repeated": "its other paths have the facts of these",
}
"""Explanation of why an attempt gave no path, by the reason in `PathSampler.rejected`."""
_GROWN = frozenset(
    (
        "by_heart",
        "well_known",
        "same_relation",
        "told",
        "shortcut",
        "not_unique",
        "not_ruled_out",
        "spare_fact",
        "not_described",
    )
)
_OF_GRAPH = frozenset(("no_thing", "needs_kind", "coarse_place", "odd_kind", "guessed"))


def describe_lack(rejected: Mapping[str, int]) -> str:
    """Return a sentence that explains why most paths were rejected, or why none could be grown. `rejected` counts
    attempts by reason.
    """
    for telling in (_GROWN, _OF_GRAPH, REFUSALS.keys()):
        reasons = {reason: count for reason, count in rejected.items() if reason in telling}
        if reasons:
            return REFUSALS[max(sorted(reasons), key=lambda reason: reasons[reason])]
    return REFUSALS["no_path"]


def list_refusals(rejected: Mapping[str, int]) -> str:
    """List the counted reasons as text, the most frequent first."""
    ordered = sorted(rejected.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{reason} {number:,}" for reason, number in ordered) or "none"


def describe_shortage(found: int, sampler: PathSampler, count: int) -> str:
    """Return the message for a graph that gives `found` paths where `count` are asked for."""
    more = ""
    if 1 not in (*sampler.config.hops, *sampler.config.spare_hops):
        config = replace(sampler.config, spare_hops=(1, *sampler.config.spare_hops))
        number = len(list(sampler.with_config(config).sample(count)))
        hops = ", ".join(map(str, config.spare_hops))
        more = f"; with `paths: {{spare_hops: [{hops}]}}` in the preset it gives {number:,}"
    return (
        f"the graph gave {found:,} of {count:,} paths: {describe_lack(sampler.rejected)}; "
        f"attempts that gave none: {list_refusals(sampler.rejected)}{more}"
    )


def check_any(found: FactChain | None, sampler: PathSampler, folder: object) -> None:
    """Raise `NothingLeft` where `found`, the first path, is None, saying what is asked of the graph and what to change.
    `folder` is the graph's, as the user gave it.
    """
    if found is not None:
        return
    config = sampler.config
    forms = ", ".join(sorted({f"{form.shape} of {form.hops}" for form in config.shares}))
    raise NothingLeft(
        f"holds no paths of the wanted forms ({forms}): {_describe_facts(sampler.count_facts(), config)}; attempts "
        f"that gave none: {list_refusals(sampler.rejected)}: {describe_lack(sampler.rejected)}. {_mend(sampler)}",
        file=folder,
    )


def _describe_facts(facts: FactCounts, config: KgPathConfig) -> str:
    """What of a graph may be asked."""
    return (
        f"of {facts.total:,} facts {facts.asked:,} are of relations that are asked for (not paths.excluded), and "
        f"{facts.leading:,} of such that lead to one entity (paths.min_triples {config.min_triples}, the most that one "
        f"has is {facts.most:,}; paths.min_functionality {config.min_functionality:g}; not paths.many_tails)"
    )


def _mend(sampler: PathSampler) -> str:
    """Whether fields for small graphs would help, which is tried."""
    fields = "paths: {min_triples: 1, max_guess: 1, hops: [1, 2]}"
    number = len(list(sampler.with_config(replace(sampler.config, **_SMALL)).sample(_MOST_TRIED)))
    if number:
        more = " or more" if number == _MOST_TRIED else ""
        return f"With `{fields}` in the preset it gives {number}{more} paths"
    return f"`{fields}` in the preset does not help: give more facts of relations that are asked for"
