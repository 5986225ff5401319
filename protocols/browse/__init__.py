"""A protocol with several tools: an agent searches pages, opens them, and finds words in them, in two writings."""

from trailforge.protocols.browse.actions import BROWSE
from trailforge.protocols.browse.context import read_rule, windows_of
from trailforge.protocols.browse.figures import Gold, with_gold
from trailforge.protocols.browse.loop import BrowseConfig, BrowseRun, run_browse_episode
from trailforge.protocols.browse.native import read_native, write_native
from trailforge.protocols.browse.results import result_text
from trailforge.protocols.browse.tags import read_tags, write_tags
from trailforge.protocols.browse.writings import WORDS, WRITINGS, writing_of

__all__ = [
    "BROWSE",
    "WORDS",
    "WRITINGS",
    "BrowseConfig",
    "BrowseRun",
    "Gold",
    "read_native",
    "read_rule",
    "read_tags",
    "result_text",
    "run_browse_episode",
    "windows_of",
    "with_gold",
    "write_native",
    "write_tags",
    "writing_of",
]
