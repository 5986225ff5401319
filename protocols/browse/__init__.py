"""A protocol with several tools: an agent searches pages, opens them, and finds words in them, written as tags or as
native calls.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.protocols.browse.actions import BROWSE as BROWSE
    from trailforge.protocols.browse.actions import BrowseTurn as BrowseTurn
    from trailforge.protocols.browse.asking import BROWSE_QUESTIONS as BROWSE_QUESTIONS
    from trailforge.protocols.browse.asking import TRAINED_PROTOCOLS as TRAINED_PROTOCOLS
    from trailforge.protocols.browse.asking import BrowseQuestions as BrowseQuestions
    from trailforge.protocols.browse.asking import asking_of as asking_of
    from trailforge.protocols.browse.context import read_rule as read_rule
    from trailforge.protocols.browse.figures import Gold as Gold
    from trailforge.protocols.browse.figures import names_told as names_told
    from trailforge.protocols.browse.loop import BrowseConfig as BrowseConfig
    from trailforge.protocols.browse.loop import BrowseRun as BrowseRun
    from trailforge.protocols.browse.loop import run_browse_episode as run_browse_episode
    from trailforge.protocols.browse.mistakes import LONGEST_DEAD_END as LONGEST_DEAD_END
    from trailforge.protocols.browse.mistakes import with_gold as with_gold
    from trailforge.protocols.browse.native import TOOLS_JSON as TOOLS_JSON
    from trailforge.protocols.browse.records import barren_calls as barren_calls
    from trailforge.protocols.browse.records import cited_in as cited_in
    from trailforge.protocols.browse.records import cited_results as cited_results
    from trailforge.protocols.browse.records import is_like_calls as is_like_calls
    from trailforge.protocols.browse.records import is_put_off as is_put_off
    from trailforge.protocols.browse.records import longest_dead_end as longest_dead_end
    from trailforge.protocols.browse.records import needless_repeats as needless_repeats
    from trailforge.protocols.browse.records import opened_after as opened_after
    from trailforge.protocols.browse.records import plain_text as plain_text
    from trailforge.protocols.browse.records import slips_of as slips_of
    from trailforge.protocols.browse.records import timeline_of as timeline_of
    from trailforge.protocols.browse.records import turns_of as turns_of
    from trailforge.protocols.browse.records import unshown_pages as unshown_pages
    from trailforge.protocols.browse.rewriting import NAMES as NAMES
    from trailforge.protocols.browse.rewriting import rename_tools as rename_tools
    from trailforge.protocols.browse.rewriting import rewrite_row as rewrite_row
    from trailforge.protocols.browse.sft_windows import window_rows as window_rows
    from trailforge.protocols.browse.writings import WORDS as WORDS
    from trailforge.protocols.browse.writings import writing_of as writing_of
else:
    __getattr__, __dir__ = lazy_names(__name__)
