"""Rules on the path from a question to its answer (a `Way`: searches, thoughts, answer), shared by all kinds of
episodes: which path is better, and what it leaves open.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.filters.ways.branches import is_left_open as is_left_open
    from trailforge.filters.ways.branches import rules_out as rules_out
    from trailforge.filters.ways.ranking import find_early_requests as find_early_requests
    from trailforge.filters.ways.ranking import rank_way as rank_way
    from trailforge.filters.ways.ranking import reject_early_requests as reject_early_requests
    from trailforge.filters.ways.relations import names_relation as names_relation
    from trailforge.filters.ways.silent import judge_silence as judge_silence
    from trailforge.filters.ways.twins import ask_about_the_same as ask_about_the_same
    from trailforge.filters.ways.way import AskedSearch as AskedSearch
    from trailforge.filters.ways.way import Way as Way
else:
    __getattr__, __dir__ = lazy_names(__name__)
