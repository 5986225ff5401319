"""Substitutes for abilities that the packaged model of 135 million parameters lacks: rules, grammars, guided episodes,
a server.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.small_model.server import fetch_weights as fetch_weights
else:
    __getattr__, __dir__ = lazy_names(__name__)
