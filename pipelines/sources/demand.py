"""Read quotas of questions to be made or taken from a small YAML file, which `trailforge demand` or a person writes.

    quotas:
    - {share: 0.5, hops: 3, shape: chain}
    - {share: 0.3, relation: who directed …, failure: misread}
    - {share: 0.2}

A quota without a key takes whatever comes in it. One with more keys goes first.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trailforge.pipelines.engine.files import write_text
from trailforge.schemas import NOTICE, InvalidInput, NothingLeft, Question, from_dict, to_dict

_LOG = logging.getLogger(__name__)
KEYS = ("hops", "shape", "relation", "failure", "backend", "look_alike", "blurred")
"""What a quota may be told apart by."""
SHAPES = ("chain", "intersection", "comparison")
_REFERENCE = re.compile(r"#(\d+)")
_NAMED = re.compile(r"#\d+|\"[^\"]*\"|\b\d[\d.,–-]*\b|\b[A-Z][\w'’.-]*(?:\s+(?:of|the|de|and)?\s*[A-Z\d][\w'’.-]*)*")
"""What differs between two sub-questions for one relation: references, titles, numbers and names."""
_WORD = re.compile(r"[A-Z][a-z]*\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The features of a question that quotas can ask for."""

    hops: int | None
    """Number of facts that have to be looked up; None: not known."""
    shape: str = ""
    """The question's shape, one of `SHAPES`; empty: not known."""
    relation: str = ""
    """The sub-question of the last fact without its names: `who directed …`; empty: not known."""
    is_blurred: bool | None = None
    """Whether the question describes what it starts from, and does not name it; None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A share of questions, with the features they should have; an empty key allows anything."""

    share: float
    """Share of all questions; the shares of a file are taken in proportion."""
    hops: int | None = None
    shape: str = ""
    relation: str = ""
    failure: str = ""
    """Tag of `evaluation.results.failures` that such questions provoked. A world answers `misread` and misses with
    look-alikes; a data set that cannot provoke the failure ignores it."""
    look_alike: bool | None = None
    """Whether a search for one of the question's facts is to find a look-alike first, in a world; None: as `failure`
    says, else as often as elsewhere in the world."""
    blurred: bool | None = None
    """Whether the question is to describe one of its starts by facts that are true of it alone, in the place of its
    name; the description counts as one of its hops. Of questions that are only taken this is not known."""
    backend: str = ""
    """Back end over which the failure was seen: runs over another one leave the quota out."""
    asked: int | None = None
    """Number of attempts that the quota rests on."""
    pass_rate: float | None = None
    """Share of these attempts that were right."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.share) and self.share > 0):
            raise InvalidInput(f"expected a number above 0, got {self.share}", field="share")
        if self.hops is not None and self.hops < 1:
            raise InvalidInput(f"expected at least 1, got {self.hops}", field="hops")
        if self.shape not in ("", *SHAPES):
            raise InvalidInput(f"{self.shape!r} is none of {', '.join(SHAPES)}", field="shape")

    @property
    def misleads(self) -> bool | None:
        """Return whether a world should place a look-alike document beside such a question; None where the quota does
        not say.
        """
        if self.look_alike is None and self.failure:
            return self.failure.startswith(("misread", "miss"))
        return self.look_alike

    def __str__(self) -> str:
        """As people read it."""
        hops = f"{self.hops} hop{'s' * (self.hops != 1)}" if self.hops else ""
        alike = {None: "", True: "a look-alike", False: "no look-alike"}[self.look_alike]
        start = {None: "", True: "a start described", False: "all starts named"}[self.blurred]
        return ", ".join(filter(None, (hops, self.shape, self.relation, self.failure, alike, start))) or "any"

    def takes(self, traits: Traits) -> bool:
        """Tell whether a question with these traits fits the quota."""
        return (
            self.hops in (None, traits.hops)
            and self.shape in ("", traits.shape)
            and self.relation in ("", traits.relation)
            and (None in (self.blurred, traits.is_blurred) or self.blurred == traits.is_blurred)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The quotas for the questions that a run makes or takes."""

    quotas: tuple[Quota, ...] = ()
    measured: str = ""
    """The cell of an evaluation that the quotas rest on, with a hash of its episodes; empty: a person wrote them."""

    @property
    def hash(self) -> str:
        """Return a hash of 12 hex digits over the quotas; empty where there are none."""
        if not self.quotas:
            return ""
        return hashlib.sha256(json.dumps(to_dict(self)["quotas"]).encode()).hexdigest()[:12]

    def over(self, backend: str) -> Demand:
        """Return the demand without the quotas that were measured over another back end."""
        kept = tuple(each for each in self.quotas if each.backend in ("", backend))
        return Demand(quotas=kept, measured=self.measured)

    def counts(self, total: int) -> list[int]:
        """Return how many of `total` questions each quota gets: whole numbers by the method of largest remainders."""
        whole = sum(each.share for each in self.quotas)
        exact = [total * each.share / whole for each in self.quotas]
        counts = [int(number + 1e-9) for number in exact]
        order = sorted(range(len(exact)), key=lambda place: (counts[place] - exact[place], place))
        for place in order[: total - sum(counts)]:
            counts[place] += 1
        return counts

    def quota_of(self, traits: Traits, left: Sequence[int]) -> int | None:
        """Return the index of the quota that a question with these traits counts for, preferring the one with the most
        keys; None when no fitting quota has room. `left` is how many more questions each quota takes.
        """
        fitting = [place for place, quota in enumerate(self.quotas) if left[place] > 0 and quota.takes(traits)]
        return min(fitting, key=lambda place: (-_keys_of(self.quotas[place]), place), default=None)


NOT_DEMANDED = Demand()


def pick(traits: Sequence[Traits], demand: Demand, wanted: int | None) -> list[int]:
    """Return the positions of the questions to take, in order.

    `wanted` is how many to take, as far as there are so many; None takes as many as possible in the quotas'
    proportions. Questions that a quota lacks are not replaced by others.
    """
    if wanted is None:
        wanted = _most(traits, demand)
    left = demand.counts(wanted)
    taken: list[int] = []
    for place, each in enumerate(traits):
        quota = demand.quota_of(each, left)
        if quota is not None:
            left[quota] -= 1
            taken.append(place)
    tell_shortage(demand, left, wanted)
    return taken


def take_by_quota(
    read: Callable[[], Iterable[Any]], demand: Demand, may_ask: Callable[[Question], bool], wanted: int | None
) -> Iterator[Any]:
    """Yield the questions that the quotas take, together with all rows that are no questions and all that `may_ask`
    refuses, which are not counted. `read` is called twice and returns the rows each time; `wanted` is how many
    questions to take (`pick`). Without quotas all rows are yielded. Raises `NothingLeft` where no quota takes any
    question.
    """
    if not demand.quotas:
        yield from read()
        return
    places, traits = [], []
    for place, row in enumerate(read()):
        if isinstance(row, Question) and may_ask(row):
            places.append(place)
            traits.append(traits_of(row))
    taken = {places[each] for each in pick(traits, demand, wanted)}
    if places and not taken:
        raise NothingLeft(
            "no question is one that a quota of --demand asks for; give other questions, or a quota without keys"
        )
    for place, row in enumerate(read()):
        if place in taken or not isinstance(row, Question) or not may_ask(row):
            yield row


def tell_shortage(demand: Demand, left: Sequence[int], wanted: int) -> None:
    """Log which quotas are short, and by how many questions: `left` is the number that each lacks, of `wanted`
    questions in all.
    """
    short = [f"{number:,} of {quota}" for quota, number in zip(demand.quotas, left, strict=True) if number > 0]
    if short:
        _LOG.log(NOTICE, "demand: of %s questions %s are missing", f"{wanted:,}", "; ".join(short))


def _most(traits: Sequence[Traits], demand: Demand) -> int:
    """The most questions with which each quota that some question fills gets its share."""
    counted = Counter(traits)
    there = [sum(number for each, number in counted.items() if quota.takes(each)) for quota in demand.quotas]
    whole = sum(each.share for each in demand.quotas)
    found = [int(n * whole / quota.share) for n, quota in zip(there, demand.quotas, strict=True) if n]
    return min([len(traits), *found])


def _keys_of(quota: Quota) -> int:
    return (quota.hops is not None) + bool(quota.shape) + bool(quota.relation) + (quota.blurred is not None)


def traits_of(question: Question) -> Traits:
    """Return the traits of a question, as its hops show them.

    A comparison ends in a hop for which nothing is looked up. Chains meet where a hop depends on two earlier ones, or
    where more facts are looked up than there are hops.
    """
    hops, count = question.decomposition, question.hop_count
    if not hops:
        return Traits(hops=count)
    if count is not None and count < len(hops):
        shape = "comparison"
    elif (count or 0) > len(hops) or any(len({*_REFERENCE.findall(hop.question)}) > 1 for hop in hops):
        shape = "intersection"
    else:
        shape = "chain"
    last = hops[-2] if shape == "comparison" else hops[-1]
    return Traits(hops=count or len(hops), shape=shape, relation=relation_of(last.question))


def relation_of(sub_question: str) -> str:
    """Return a sub-question without the words that name one thing, so that "Who directed Metropolis?" and "Who directed
    #1?" become equal.
    """
    _, parted, relation = sub_question.partition(">>")
    if parted:
        return f"… >> {relation.strip().casefold()}"
    first, rest = sub_question[:1].lower(), sub_question[1:]
    starts_with_name = _WORD.match(sub_question) is None
    text = _NAMED.sub("…", sub_question if starts_with_name else first + rest)
    return re.sub(r"(?:…\s*)+", "… ", text).strip(" ?.").casefold()


def read_demand(path: Path | None) -> Demand:
    """Read a file of quotas; None gives a demand without quotas. Raises `InvalidInput` naming the file, the quota
    and its field."""
    if path is None:
        return NOT_DEMANDED
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", file=path, field="--demand") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput(f"is no YAML ({' '.join(str(error).split())})", file=path) from error
    quotas = content.get("quotas") if isinstance(content, dict) else None
    if not isinstance(quotas, list) or not quotas:
        raise InvalidInput("has no list `quotas`; `trailforge demand` writes such a file", file=path, field="quotas")
    read = tuple(_read_quota(each, row, path) for row, each in enumerate(quotas, start=1))
    measured = content.get("measured", "")
    return Demand(quotas=read, measured=measured if isinstance(measured, str) else "")


def _read_quota(content: Any, row: int, path: Path) -> Quota:
    try:
        return from_dict(Quota, content)
    except InvalidInput as error:
        raise InvalidInput(error.problem, file=path, row=row, field=error.field or "quotas") from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidInput(f"is no quota ({error})", file=path, row=row, field="quotas") from error


def write_demand(path: Path, demand: Demand) -> None:
    """Write a file of quotas, one on each line. Raises `OutputError`."""
    lines = [f"measured: {json.dumps(demand.measured, ensure_ascii=False)}", "quotas:"]
    for quota in demand.quotas:
        told = {name: value for name, value in to_dict(quota).items() if value not in (None, "")}
        lines.append(f"- {json.dumps(told, ensure_ascii=False)}")
    write_text(path, "\n".join(lines) + "\n")
