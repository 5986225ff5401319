"""Reasons to reject a row: one file per record judged, one function per reason, named as the reason is.

A filter answers with a `Verdict` and rejects nothing itself; the pipeline does. What is true of the rows of one data
set alone stands in that data set's folder (`generators/<data set>/filters.py`).
"""

from trailforge.filters.base import first_rejection
from trailforge.filters.trajectories import FilterConfig, judge_trajectory

__all__ = ["FilterConfig", "first_rejection", "judge_trajectory"]
