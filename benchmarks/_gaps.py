"""Measure by how much the gap between two retrieval back ends changes from one agent to another.

change = compare_gaps((dense, graph), (dense_by_agent, graph_by_agent), MEASURES["contain_em"])
change.verdict == "narrows"                      graph is ahead of dense by less under the agent
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trailforge.evaluation.results.compare import mean_of, paired_bootstrap
from trailforge.evaluation.results.metrics import Measure, by_question
from trailforge.schemas.agent_episode import AgentEpisode

GapVerdict = Literal["none", "unclear", "narrows", "turns", "widens"]
"""`none`: there is no gap that is more than chance before. `unclear`: its change may be chance. `turns`: the run that
was behind is ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapChange:
    """The change of one gap: how far one run is ahead of another under an agent, less how far it is ahead under another
    agent.
    """

    questions: int
    """That all four runs have, and of which all four know the measure."""
    before: float
    """The gap, second run less first, under the one agent."""
    before_low: float
    before_high: float
    after: float
    """Under the other agent."""
    after_low: float
    after_high: float
    change: float
    """After less before; a gap above 0 has narrowed when this is below."""
    low: float
    """Of the interval around the change."""
    high: float

    @property
    def verdict(self) -> GapVerdict:
        """Return whether the gap narrows, widens or is undecided, by its 95 % intervals."""
        if self.before_low <= 0 <= self.before_high:
            return "none"
        if self.low <= 0 <= self.high:
            return "unclear"
        if self.before * self.change > 0:
            return "widens"
        has_turned = (self.after_high < 0) if self.before > 0 else (self.after_low > 0)
        return "turns" if has_turned else "narrows"


def compare_gaps(
    before: tuple[Sequence[AgentEpisode], Sequence[AgentEpisode]],
    after: tuple[Sequence[AgentEpisode], Sequence[AgentEpisode]],
    measure: Measure,
) -> GapChange | None:
    """Return how far the gap between two runs (two back ends) changes from one agent to another.

    Each pair holds the episodes of both back ends; all four are resampled together. A question counts once, by the mean
    of its episodes. Returns None where no question is known in all four. Raises what `metrics.by_question` raises.
    """
    runs = [by_question(run) for run in (*before, *after)]
    names = [name for name in runs[0] if all(name in run for run in runs)]
    values = [[mean_of(run[name], measure) for run in runs] for name in names]
    known = np.array([each for each in values if None not in each], dtype=float)
    if not len(known):
        return None
    gaps = {"before": known[:, 1] - known[:, 0], "after": known[:, 3] - known[:, 2]}
    gaps["change"] = gaps["after"] - gaps["before"]
    ends = {name: paired_bootstrap(each.tolist()) for name, each in gaps.items()}
    return GapChange(
        questions=len(known),
        before=float(gaps["before"].mean()),
        before_low=ends["before"][0],
        before_high=ends["before"][1],
        after=float(gaps["after"].mean()),
        after_low=ends["after"][0],
        after_high=ends["after"][1],
        change=float(gaps["change"].mean()),
        low=ends["change"][0],
        high=ends["change"][1],
    )
