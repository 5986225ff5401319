"""The names that reasons had in runs of before, by data set: one name stood for rules that differ from one data set to
the next.

Tables of such runs keep them, and are shown and searched by them. What recomputes rows reads them as the names of now.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_OF_EPISODES = {"malformed": "malformed_conversation", "answer_leaked": "answer_before_read"}
EARLIER_REASONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "agent_trajectories": _OF_EPISODES,
        "document_bundles": {
            "answer_in_question": "answer_given_away",
            "answer_leaked": "answer_before_search",
            "malformed": "malformed_conversation",
            "needless_search": "one_search_suffices",
            "single_source": "quotes_one_source",
            "too_long": "too_many_words",
            "too_short": "too_few_words",
        },
        "kg_questions": {
            "answer_in_question": "answer_named",
            "closed_book": "right_from_memory",
            "duplicate_question": "same_facts",
            "malformed": "malformed_question",
            "other_answers": "ambiguous_question",
        },
        "kg_trajectories": {
            **_OF_EPISODES,
            "redundant_search": "idle_search",
            "wrong_intermediate": "wrong_hop_answer",
        },
        "mcts_trajectories": {
            "answer_leaked": "answer_before_found",
            "malformed_tags": "malformed_conversation",
            "other_answers": "ambiguous_passages",
            "unclear_question": "garbled_question",
            "ungrounded_answer": "ungrounded_step",
            "wrong_answer": "unrewarded_answer",
        },
    }
)
"""For each data set the earlier name of each reason that has another one now."""


def with_earlier(meanings: Mapping[str, str], dataset: str) -> dict[str, str]:
    """Return what is said of each reason of a data set, by its earlier name too."""
    earlier = {old: meanings[now] for old, now in EARLIER_REASONS[dataset].items() if now in meanings}
    return {**meanings, **earlier}
