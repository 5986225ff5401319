"""Reasons to reject a row: one file per record judged, one function per reason, named as the reason is.

A filter answers with a `Verdict` and rejects nothing itself; the pipeline does. What is true of the rows of one data
set alone stands in that data set's folder (`generators/<data set>/filters.py`). What reasons rest on has files of its
own: `grounding` (does an answer follow from what was read?), `gold_hops` (which hops were found, in what order?).
"""

from trailforge.filters.base import first_rejection
from trailforge.filters.trajectories import FilterConfig, judge_trajectory

__all__ = ["FilterConfig", "first_rejection", "judge_trajectory"]
