"""How agents talk: each protocol is one `Grammar` in one file, used by data, training, evaluation and rewards alike."""

from trailforge.protocols.grammar import Grammar
from trailforge.protocols.graph_r1 import GRAPH_R1
from trailforge.protocols.kg_search import KG_SEARCH
from trailforge.protocols.r_search import R_SEARCH
from trailforge.protocols.react import REACT
from trailforge.protocols.search_r1 import SEARCH_R1
from trailforge.schemas import InvalidInput

__all__ = ["GRAPH_R1", "KG_SEARCH", "PROTOCOLS", "REACT", "R_SEARCH", "SEARCH_R1", "Grammar", "grammar_of"]

PROTOCOLS = {grammar.name: grammar for grammar in (REACT, R_SEARCH, KG_SEARCH, SEARCH_R1, GRAPH_R1)}
"""By name, as it stands in a row's `protocol`."""


def grammar_of(protocol: str) -> Grammar:
    """A protocol by its name. Raises `InvalidInput` with the list when there is none."""
    if protocol not in PROTOCOLS:
        raise InvalidInput(f"no protocol {protocol!r}; there are {', '.join(PROTOCOLS)}", field="protocol")
    return PROTOCOLS[protocol]
