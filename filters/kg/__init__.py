"""Filters of questions from a knowledge graph, and of episodes that search one."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.filters.kg.episodes import KgEpisodeFilterConfig as KgEpisodeFilterConfig
    from trailforge.filters.kg.episodes import count_guesses as count_guesses
    from trailforge.filters.kg.episodes import duplicate_episode as duplicate_episode
    from trailforge.filters.kg.episodes import early_turns as early_turns
    from trailforge.filters.kg.episodes import facts_to_read as facts_to_read
    from trailforge.filters.kg.episodes import is_titled as is_titled
    from trailforge.filters.kg.episodes import judge_kg_episode as judge_kg_episode
    from trailforge.filters.kg.episodes import leaking_turns as leaking_turns
    from trailforge.filters.kg.episodes import read_by as read_by
    from trailforge.filters.kg.episodes import shows as shows
    from trailforge.filters.kg.episodes import unfitting_steps as unfitting_steps
    from trailforge.filters.kg.episodes import ungrounded_answer as ungrounded_answer
    from trailforge.filters.kg.episodes import wrong_steps as wrong_steps
    from trailforge.filters.kg.questions import ASKED as ASKED
    from trailforge.filters.kg.questions import AcceptedQuestions as AcceptedQuestions
    from trailforge.filters.kg.questions import KgQuestionFilterConfig as KgQuestionFilterConfig
    from trailforge.filters.kg.questions import Objections as Objections
    from trailforge.filters.kg.questions import is_named as is_named
    from trailforge.filters.kg.questions import judge_question as judge_question
    from trailforge.filters.kg.questions import judge_unasked as judge_unasked
    from trailforge.filters.kg.questions import names_of as names_of
    from trailforge.filters.kg.questions import same_facts as same_facts
    from trailforge.filters.kg.searches import first_used as first_used
    from trailforge.filters.kg.searches import gold_titles as gold_titles
    from trailforge.filters.kg.searches import named_in as named_in
    from trailforge.filters.kg.searches import redundant_steps as redundant_steps
    from trailforge.filters.kg.searches import request_of as request_of
    from trailforge.filters.kg.searches import results_of as results_of
    from trailforge.filters.kg.searches import texts_of as texts_of
    from trailforge.filters.kg.searches import way_of as way_of
else:
    __getattr__, __dir__ = lazy_names(__name__)
