"""A protocol with several tools: an agent searches pages, opens them, and finds words in them, in two writings."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.protocols.browse.actions import BROWSE as BROWSE
    from trailforge.protocols.browse.context import read_rule as read_rule
    from trailforge.protocols.browse.context import windows_of as windows_of
    from trailforge.protocols.browse.figures import Gold as Gold
    from trailforge.protocols.browse.figures import with_gold as with_gold
    from trailforge.protocols.browse.loop import BrowseConfig as BrowseConfig
    from trailforge.protocols.browse.loop import BrowseRun as BrowseRun
    from trailforge.protocols.browse.loop import run_browse_episode as run_browse_episode
    from trailforge.protocols.browse.native import read_native as read_native
    from trailforge.protocols.browse.tags import write_tags as write_tags
    from trailforge.protocols.browse.writings import WORDS as WORDS
    from trailforge.protocols.browse.writings import writing_of as writing_of
else:
    __getattr__, __dir__ = lazy_names(__name__)
