"""How agents and tools talk: each protocol is one `Grammar` in one file, used by data, training, evaluation and rewards
alike.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.graph_r1 import GRAPH_R1
from trailforge.protocols.kg_search import KG_SEARCH
from trailforge.protocols.r_search import R_SEARCH
from trailforge.protocols.react import REACT
from trailforge.protocols.search_r1 import SEARCH_R1
from trailforge.schemas import InvalidInput

if TYPE_CHECKING:
    from trailforge.protocols.base import escape_retrieved as escape_retrieved
    from trailforge.protocols.base import one_line as one_line
    from trailforge.protocols.base import passage_lines as passage_lines
    from trailforge.protocols.episodes import EpisodeConfig as EpisodeConfig
    from trailforge.protocols.episodes import EpisodeRun as EpisodeRun
    from trailforge.protocols.episodes import EpisodeStep as EpisodeStep
    from trailforge.protocols.episodes import Respond as Respond
    from trailforge.protocols.episodes import StopReason as StopReason
    from trailforge.protocols.episodes import end_turn as end_turn
    from trailforge.protocols.episodes import run_episode as run_episode
    from trailforge.protocols.episodes import sampling_of_turn as sampling_of_turn
    from trailforge.protocols.episodes import turn_text as turn_text
    from trailforge.protocols.grammar import Searched as Searched
    from trailforge.protocols.kg_search import read_answer as read_answer
    from trailforge.protocols.kg_search import with_turns as with_turns
    from trailforge.protocols.r_search import system_prompt as system_prompt
    from trailforge.protocols.search_r1 import with_searches as with_searches
    from trailforge.protocols.transcripts import Spoken as Spoken
    from trailforge.protocols.transcripts import ToScore as ToScore
    from trailforge.protocols.transcripts import find_right_by as find_right_by
    from trailforge.protocols.transcripts import make_truth as make_truth
    from trailforge.protocols.transcripts import pay as pay
    from trailforge.protocols.transcripts import read_transcript as read_transcript
    from trailforge.protocols.transcripts import split_text as split_text
    from trailforge.protocols.turns import Labels as Labels
    from trailforge.protocols.turns import Observation as Observation
    from trailforge.protocols.turns import Search as Search
    from trailforge.protocols.turns import Turn as Turn
else:
    __getattr__, __dir__ = lazy_names(__name__)


__all__ = ["GRAPH_R1", "KG_SEARCH", "PROTOCOLS", "REACT", "R_SEARCH", "SEARCH_R1", "Grammar", "grammar_of"]

PROTOCOLS = {grammar.name: grammar for grammar in (REACT, R_SEARCH, KG_SEARCH, SEARCH_R1, GRAPH_R1)}
"""Every protocol by its name, as a row's `protocol` gives it."""


def grammar_of(protocol: str) -> Grammar:
    """Find a protocol by its name. Raises `InvalidInput`, with the list of names, when there is none."""
    if protocol not in PROTOCOLS:
        raise InvalidInput(f"no protocol {protocol!r}; there are {', '.join(PROTOCOLS)}", field="protocol")
    return PROTOCOLS[protocol]
