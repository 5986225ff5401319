"""Reasons to reject a row: one file per record judged, one function per reason, named as the reason is.

A filter answers with a `Verdict` and rejects nothing itself; the pipeline does. Here the records of `schemas` are
judged. A data set of another package has its filters beside its record; those of agents' episodes (`AgentTrajectory`),
which need the code of evaluations, stand with their data set. What reasons rest on has files of its own: `grounding`
(does an answer follow from what was read?), `gold_hops` (which hops were found, in what order?).
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.filters.answers import is_same_list as is_same_list
    from trailforge.filters.base import count_faults as count_faults
    from trailforge.filters.base import first_rejection as first_rejection
    from trailforge.filters.base import mentions_any as mentions_any
    from trailforge.filters.base import names_of_answer as names_of_answer
    from trailforge.filters.base import reject_malformed as reject_malformed
    from trailforge.filters.base import reject_surplus as reject_surplus
    from trailforge.filters.base import reject_too_long as reject_too_long
    from trailforge.filters.base import reject_wrong as reject_wrong
    from trailforge.filters.base import scores_of as scores_of
    from trailforge.filters.facts import SoughtFact as SoughtFact
    from trailforge.filters.facts import answering_facts as answering_facts
    from trailforge.filters.facts import is_plainly_stated as is_plainly_stated
    from trailforge.filters.gold_hops import follows_gold as follows_gold
    from trailforge.filters.gold_hops import golds_of_hops as golds_of_hops
    from trailforge.filters.gold_hops import missed_hop as missed_hop
    from trailforge.filters.grounding import bears_out as bears_out
    from trailforge.filters.grounding import given_answers as given_answers
    from trailforge.filters.grounding import is_computed as is_computed
    from trailforge.filters.grounding import is_grounded as is_grounded
    from trailforge.filters.grounding import is_title_of_gold as is_title_of_gold
    from trailforge.filters.grounding import says as says
    from trailforge.filters.grounding import shown_at as shown_at
    from trailforge.filters.grounding import supports as supports
    from trailforge.filters.questions import DOUBTFUL as DOUBTFUL
    from trailforge.filters.questions import answer_in_question as answer_in_question
    from trailforge.filters.questions import can_be_asked as can_be_asked
    from trailforge.filters.questions import doubtful_gold as doubtful_gold
    from trailforge.filters.questions import garbled_places as garbled_places
    from trailforge.filters.questions import quote_of as quote_of
    from trailforge.filters.questions import searched_texts as searched_texts
    from trailforge.filters.thoughts import find_unseen_names as find_unseen_names
    from trailforge.filters.thoughts import quotes as quotes
    from trailforge.filters.thoughts import unfounded_thoughts as unfounded_thoughts
    from trailforge.filters.trajectories import FilterConfig as FilterConfig
    from trailforge.filters.trajectories import answer_before_found as answer_before_found
    from trailforge.filters.trajectories import judge_trajectory as judge_trajectory
    from trailforge.filters.trajectories import malformed_conversation as malformed_conversation
    from trailforge.filters.trajectories import too_long as too_long
    from trailforge.filters.trajectories import unrewarded_answer as unrewarded_answer
else:
    __getattr__, __dir__ = lazy_names(__name__)
