"""Train with native tool calls: conversations as tokens by a model's own chat template, and episodes in it."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.training.native.episodes import BrowseEpisode as BrowseEpisode
    from trailforge.training.native.episodes import lead_browse_episode as lead_browse_episode
    from trailforge.training.native.episodes import read_run as read_run
    from trailforge.training.native.rollouts import opening_ids as opening_ids
    from trailforge.training.native.rollouts import roll_out_browse as roll_out_browse
    from trailforge.training.native.tokens import conversation_of as conversation_of
    from trailforge.training.native.tokens import native_tokens as native_tokens
    from trailforge.training.native.turns import TurnForm as TurnForm
    from trailforge.training.native.turns import end_with_turns as end_with_turns
    from trailforge.training.native.turns import form_of as form_of
else:
    __getattr__, __dir__ = lazy_names(__name__)
