"""Derive quotas for new questions (`pipelines.sources.demand`) from the attempts at which an agent fails, without
another run.

Attempts are put together by what their questions are like, and by how they failed and over which back end where that is
asked for. A group of which a larger share fails than of all attempts is weak; the quotas of weak groups are in
proportion to how often they fail.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trailforge.evaluation.folder import read_episodes, read_evaluation
from trailforge.evaluation.results.failures import is_right
from trailforge.pipelines.sources import Demand, Quota, Traits, traits_of
from trailforge.schemas import AgentEpisode, InvalidInput, Question

_MOST_HOPS, _MOST_LONG, _ROUNDED = 4, 9, 4
Bounds = tuple[float | None, float | None]
"""The least and the most pass rate that is asked for; None: no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptGroup:
    """The attempts on all questions with the same traits."""

    hops: int | None = None
    shape: str = ""
    relation: str = ""
    failure: str = ""
    backend: str = ""
    asked: int
    failed: int
    """Number of these attempts that failed; where `failure` names a kind of failure, that failed so."""

    @property
    def fail_rate(self) -> float:
        """Return the share that failed, as if two more attempts had been made of which one failed; so a few attempts
        weigh little.
        """
        return (self.failed + 1) / (self.asked + 2)

    @property
    def pass_rate(self) -> float:
        """Return the share of the attempts that did not fail."""
        return round(1 - self.failed / self.asked, _ROUNDED)

    def quota(self, share: float) -> Quota:
        """Return a quota that asks for questions with these traits, as `share` of all."""
        return Quota(
            share=_round(share),
            hops=self.hops,
            shape=self.shape,
            relation=self.relation,
            failure=self.failure,
            backend=self.backend,
            asked=self.asked,
            pass_rate=self.pass_rate,
        )


def read_attempts(folder: Path, named: str = "") -> tuple[str, list[AgentEpisode]]:
    """Read an evaluation's episodes that no error ended; returns a name for them that includes a hash, and the
    episodes. `named` is AGENT/BACKEND/MODEL or a beginning of it. Raises `InvalidInput` as `read_evaluation` does, and
    where no cell has such a name.
    """
    read_evaluation(folder)
    found, names = [], set[str]()
    for episode in read_episodes(folder):
        name = f"{episode.agent}/{episode.backend}/{episode.model}"
        if episode.stop != "failed" and (named in ("", name) or name.startswith(f"{named}/")):
            found.append(episode)
            names.add(name)
    if not found:
        raise InvalidInput(
            f"holds no episode of {named or 'any agent'} that came to an end; name another cell, or evaluate first",
            file=folder,
            field="--cell",
        )
    content = "\n".join(sorted(f"{each.uid} {is_right(each.scores)}" for each in found))
    return f"{', '.join(sorted(names))} {hashlib.sha256(content.encode()).hexdigest()[:12]}", found


def find_cells(
    episodes: Sequence[AgentEpisode], questions: Sequence[Question], by: Sequence[str]
) -> tuple[list[AttemptGroup], int]:
    """Group attempts by the traits that `by` names (see `KEYS`); also returns the number of attempts whose questions
    are not among `questions`.
    """
    asked = {(each.question, each.answer): traits_of(each) for each in questions}
    groups: dict[tuple[object, ...], list[AgentEpisode]] = defaultdict(list)
    unknown = 0
    for episode in episodes:
        traits = asked.get((episode.question, episode.golds[0]))
        if traits is None:
            unknown += 1
        else:
            groups[_key_of(traits, episode, by)].append(episode)
    outer = [name for name in ("hops", "shape", "relation", "backend") if name in by]
    cells: list[AttemptGroup] = []
    for key, attempts in groups.items():
        keys: Mapping[str, object] = dict(zip(outer, key, strict=True))
        failed = [each for each in attempts if not is_right(each.scores)]
        tags = sorted({_tag_of(each) for each in failed}) if "failure" in by else [""]
        for tag in tags:
            number = sum(not tag or _tag_of(each) == tag for each in failed)
            cells.append(AttemptGroup(**keys, failure=tag, asked=len(attempts), failed=number))  # type: ignore[arg-type]
    return cells, unknown


def _key_of(traits: Traits, episode: AgentEpisode, by: Sequence[str]) -> tuple[object, ...]:
    told = {"hops": traits.hops, "shape": traits.shape, "relation": traits.relation, "backend": episode.backend}
    return tuple(value for name, value in told.items() if name in by)


def _tag_of(episode: AgentEpisode) -> str:
    """The first of its failures."""
    return next(iter(episode.failures), "")


def share_failed(episodes: Sequence[AgentEpisode]) -> float:
    """Return the share of all attempts that are not right."""
    return sum(not is_right(each.scores) for each in episodes) / len(episodes)


def demand_weak(cells: Sequence[AttemptGroup], mean: float, *, least: int, most: int, keep: float) -> tuple[Quota, ...]:
    """Return quotas for at most `most` weak groups, the weakest first, and one quota of any questions for the share to
    `keep` as it is.

    A group is weak when a larger share of its attempts fails than the mean; groups of fewer than `least` attempts are
    ignored. Returns an empty tuple when no group is weak.
    """
    weak = [each for each in cells if each.asked >= least and each.fail_rate > mean]
    weak.sort(key=lambda each: (-each.fail_rate, str(each)))
    return _share([(each, each.fail_rate) for each in weak[:most]], keep)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandSplit:
    """The questions of an evaluation, split by a band of pass rates."""

    inside: tuple[Question, ...]
    easy: tuple[Question, ...]
    """Questions with a pass rate above the band, the nearest to it first."""
    hard: tuple[Question, ...]
    """Questions with a pass rate below the band, the nearest to it first."""

    def cut(self, most: int) -> BandSplit:
        """Return the split with at most `most` questions outside the band, drawn from both sides in proportion."""
        outside = len(self.easy) + len(self.hard)
        if outside <= most:
            return self
        easy = round(most * len(self.easy) / outside)
        return replace(self, easy=self.easy[:easy], hard=self.hard[: most - easy])


def split_by_band(episodes: Sequence[AgentEpisode], questions: Sequence[Question], band: Bounds) -> BandSplit:
    """Split the attempted questions by whether their pass rate is below, in or above the band."""
    attempts: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for episode in episodes:
        attempts[episode.question, episode.golds[0]].append(is_right(episode.scores))
    low, high = band
    parts: dict[str, list[tuple[float, Question]]] = {"inside": [], "easy": [], "hard": []}
    for question in questions:
        if drawn := attempts.get((question.question, question.answer)):
            rate = sum(drawn) / len(drawn)
            is_easy, is_hard = high is not None and rate > high, low is not None and rate < low
            parts["easy" if is_easy else "hard" if is_hard else "inside"].append((rate, question))
    parts["easy"].sort(key=lambda each: each[0])
    parts["hard"].sort(key=lambda each: -each[0])
    return BandSplit(**{name: tuple(question for _, question in held) for name, held in parts.items()})


def demand_band(split: BandSplit, keep: float) -> tuple[Quota, ...]:
    """Return quotas by which more new questions should fall into the band; the share `keep` of all stays as it is.

    The questions of the split are asked for again: those in the band with as many facts in the same shape; of those too
    easy a third with a look-alike document, a third with one more fact, and a third whose start is described instead of
    named; of those too hard half without a look-alike and half with one fact fewer, all with their starts named.
    """
    weights: dict[_Changed, float] = defaultdict(float)
    for question in split.inside:
        traits = traits_of(question)
        weights[traits.hops, traits.shape, None, None] += 1.0
    for question in split.easy:
        _add(weights, question, ((0, True, None), (1, None, None), (1, None, True)))
    for question in split.hard:
        _add(weights, question, ((0, False, False), (-1, None, False)))
    whole = sum(weights.values())
    quotas = [
        Quota(share=_round((1 - keep) * weight / whole), hops=hops, shape=shape, look_alike=alike, blurred=blurred)
        for (hops, shape, alike, blurred), weight in weights.items()
    ]
    return (*quotas, *_rest(quotas, keep))


_Changed = tuple[int | None, str, bool | None, bool | None]
"""Hops, shape, look-alike and description of the questions of a quota."""


def _add(
    weights: dict[_Changed, float], question: Question, ways: Sequence[tuple[int, bool | None, bool | None]]
) -> None:
    """Share a question out over ways to ask it otherwise: hops more, a look-alike, a description."""
    traits = traits_of(question)
    for more, alike, blurred in ways:
        most = _MOST_LONG if (traits.hops or 0) > _MOST_HOPS else _MOST_HOPS  # a world of short documents has no more
        hops = None if traits.hops is None else max(1, min(most, traits.hops + more))
        shape = "" if blurred and traits.shape == "comparison" else traits.shape
        weights[hops, shape, alike, blurred] += 1 / len(ways)


def _share(weighed: Sequence[tuple[AttemptGroup, float]], keep: float) -> tuple[Quota, ...]:
    whole = sum(weight for _, weight in weighed)
    quotas = [cell.quota((1 - keep) * weight / whole) for cell, weight in weighed]
    return (*quotas, *_rest(quotas, keep))


def _rest(quotas: Sequence[Quota], keep: float) -> list[Quota]:
    return [Quota(share=keep)] if keep and quotas else []


def _round(share: float) -> float:
    return max(10**-_ROUNDED, round(share, _ROUNDED))


def build_demand(measured: str, quotas: tuple[Quota, ...]) -> Demand:
    """Return the demand that these quotas make, with the name of the evaluation behind it. Raises `InvalidInput` when
    there are no quotas.
    """
    if not quotas:
        raise InvalidInput(
            "no cell is weaker than all together; ask for other keys (--by), or fewer attempts (--least)"
        )
    return Demand(quotas=quotas, measured=measured)
