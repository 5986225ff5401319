"""How a training asks research agents its questions: the prompt, and which protocol's reward is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trailforge.protocols import PROTOCOLS, Grammar
from trailforge.protocols.browse.actions import BROWSE
from trailforge.protocols.browse.loop import BrowseConfig
from trailforge.protocols.browse.writings import writing_of
from trailforge.schemas import ChatMessage, InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseQuestions:
    """The opening prompt of research agents, in the interface by which a `Grammar` gives that of other protocols."""

    name: str = BROWSE
    searches: Literal["pages"] = "pages"
    reward: str = "abstention"
    """Name of the reward preset by which their episodes are paid, unless another is asked for."""
    training: str = BROWSE
    """Name of the training preset that trains them."""

    def opening(self, question: str) -> tuple[ChatMessage, ...]:
        """Return the rules for native calls, and the question. The rules state the limits that a training has
        unless it sets its own.
        """
        config = BrowseConfig()
        turns = writing_of("native").opening(question, config.max_calls, config.max_at_once)
        return tuple(ChatMessage(role=turn.role, content=turn.content) for turn in turns)

    def question_of(self, text: str) -> str:
        """Return the question of the user's turn, which contains nothing else."""
        return text


BROWSE_QUESTIONS = BrowseQuestions()
TRAINED_PROTOCOLS = (*PROTOCOLS, BROWSE)
"""Names of all protocols in which a training can ask."""


def asking_of(protocol: str) -> Grammar | BrowseQuestions:
    """Return how a protocol asks questions, by its name. Raises `InvalidInput`, with the list of names, when there is
    none.
    """
    if protocol == BROWSE:
        return BROWSE_QUESTIONS
    if protocol not in PROTOCOLS:
        raise InvalidInput(f"no protocol {protocol!r}; there are {', '.join(TRAINED_PROTOCOLS)}", field="protocol")
    return PROTOCOLS[protocol]
