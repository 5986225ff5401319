"""What is fuzzed: one table, a target for each parser of text that a model, a server or a stranger wrote."""

from __future__ import annotations

from tests.fuzz import agents, files, replies, runs, searches, servers
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target for room in (replies, servers, files, runs, searches, agents) for target in room.TARGETS
}
"""By name, in the order in which they are run."""
