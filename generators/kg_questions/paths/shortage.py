"""What a graph lacks where it gives no path or too few: which facts are asked for, why paths fail, what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.schemas import FactChain, NothingLeft

_SMALL = {"min_triples": 1, "max_guess": 1.0, "hops": (1, 2)}
"""Fields of `KgPathConfig` by which a small graph has paths, too."""
_MOST_TRIED = 20
_LACKS = {
    "no_path": "too few facts lead on from one another to one entity alone",
    "repeated": "its other paths have the facts of these",
    "spare_fact": "one fact alone gives the answer: several entities have to have each relation",
    "not_unique": "other entities satisfy the same facts",
    "not_ruled_out": "where two facts meet, the graph does not rule out others",
    "shortcut": "a fact joins what has to be two facts apart",
    "same_relation": "one relation stands in too many facts of a path",
    "told": "a name has that of a later finding in it",
}
"""By the reason of `PathSampler.rejected`; the first two say the least."""


def describe_lack(rejected: Mapping[str, int]) -> str:
    """Why most paths fail that were grown, else why none could be."""
    grown = {reason: count for reason, count in rejected.items() if reason not in ("no_path", "repeated")}
    reasons = grown or rejected
    return _LACKS[max(sorted(reasons), key=lambda reason: reasons[reason])] if reasons else _LACKS["no_path"]


def check_any(found: FactChain | None, sampler: PathSampler, folder: object) -> None:
    """Raise `NothingLeft` where the first path is none: what of the graph is asked for, and what to change.

    `folder`: of the graph, as a person gave it.
    """
    if found is not None:
        return
    config, facts = sampler.config, sampler.count_facts()
    forms = ", ".join(sorted({f"{form.shape} of {form.hops}" for form in config.shares}))
    tried = ", ".join(f"{reason} {number:,}" for reason, number in sampler.rejected.most_common())
    raise NothingLeft(
        f"holds no paths of the wanted forms ({forms}): of {facts.total:,} facts {facts.asked:,} are of relations that "
        f"are asked for (not paths.excluded), and {facts.leading:,} of such that lead to one entity (paths.min_triples "
        f"{config.min_triples}, the most that one has is {facts.most:,}; paths.min_functionality "
        f"{config.min_functionality:g}; not paths.many_tails); attempts that gave none: {tried or 'none'}: "
        f"{describe_lack(sampler.rejected)}. {_mend(sampler)}",
        file=folder,
    )


def _mend(sampler: PathSampler) -> str:
    """Whether fields for small graphs would help, which is tried."""
    fields = "paths: {min_triples: 1, max_guess: 1, hops: [1, 2]}"
    number = len(list(sampler.with_config(replace(sampler.config, **_SMALL)).sample(_MOST_TRIED)))
    if number:
        more = " or more" if number == _MOST_TRIED else ""
        return f"With `{fields}` in the preset it gives {number}{more} paths"
    return f"`{fields}` in the preset does not help: give more facts of relations that are asked for"
