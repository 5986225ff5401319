"""Reasons to reject a row: one file per record judged, one function per reason, named as the reason is.

A filter answers with a `Verdict` and rejects nothing itself; the pipeline does. Here the records of `schemas` are
judged. A data set of another package has its filters beside its record; those of agents' episodes, which read them as
an evaluation does, stand with their data set. What reasons rest on has files of its own: `grounding` (does an answer
follow from what was read?), `gold_hops` (which hops were found, in what order?).
"""

from trailforge.filters.base import first_rejection
from trailforge.filters.trajectories import FilterConfig, judge_trajectory

__all__ = ["FilterConfig", "first_rejection", "judge_trajectory"]
