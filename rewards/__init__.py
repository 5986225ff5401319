"""Compute every score of the project, by pure functions that filters, generators, training and evaluation share."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.rewards.answers import ChoiceChance as ChoiceChance
    from trailforge.rewards.answers import chance_of_choice as chance_of_choice
    from trailforge.rewards.answers import choose_options as choose_options
    from trailforge.rewards.answers import is_abstention as is_abstention
    from trailforge.rewards.answers import option_f1 as option_f1
    from trailforge.rewards.answers import option_letters as option_letters
    from trailforge.rewards.answers import read_first_line as read_first_line
    from trailforge.rewards.answers import read_memory_mark as read_memory_mark
    from trailforge.rewards.answers import read_short_answer as read_short_answer
    from trailforge.rewards.answers import read_yes_or_no as read_yes_or_no
    from trailforge.rewards.answers import score_choice as score_choice
    from trailforge.rewards.figures import restate_quantities as restate_quantities
    from trailforge.rewards.figures import spell_in_figures as spell_in_figures
    from trailforge.rewards.graph_r1 import per_turn_format_reward as per_turn_format_reward
    from trailforge.rewards.matching import is_near_miss as is_near_miss
    from trailforge.rewards.matching import mcts_reward as mcts_reward
    from trailforge.rewards.matching import mentions as mentions
    from trailforge.rewards.matching import same_answer as same_answer
    from trailforge.rewards.matching import score_answer as score_answer
    from trailforge.rewards.matching import score_set as score_set
    from trailforge.rewards.matching import states as states
    from trailforge.rewards.msearcher import MSearcherConstants as MSearcherConstants
    from trailforge.rewards.names import country_names as country_names
    from trailforge.rewards.names import is_people as is_people
    from trailforge.rewards.names import other_names as other_names
    from trailforge.rewards.targets import is_never_quoted as is_never_quoted
    from trailforge.rewards.targets import score_by_target as score_by_target
    from trailforge.rewards.targets import state_gold as state_gold
    from trailforge.rewards.text import cover_exact_match as cover_exact_match
    from trailforge.rewards.text import evidence_recall as evidence_recall
    from trailforge.rewards.text import exact_match as exact_match
    from trailforge.rewards.text import f1 as f1
    from trailforge.rewards.text import normalize_answer as normalize_answer
else:
    __getattr__, __dir__ = lazy_names(__name__)
