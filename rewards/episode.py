"""The rewards of the papers by name, what they see of a transcript, and the one way from there to what is paid.

Filters, trainers and evaluation differ in where transcripts come from. Whoever has one makes an `Episode` of it
(`protocols.transcripts`), and from there on there is this file alone. The equations and their constants are beside each
other, one file per reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import get_args

from trailforge.rewards.abstention import AbstentionConstants, AbstentionReward, abstention_reward
from trailforge.rewards.answers import is_abstention, score_choice
from trailforge.rewards.dynasearcher import (
    PAPER,
    DynaSearcherConstants,
    DynaSearcherReward,
    Similarity,
    dynasearcher_reward,
    nearest_similarities,
    r_ans,
    r_recall,
)
from trailforge.rewards.graph_r1 import GraphR1Constants, graph_r1_reward
from trailforge.rewards.matching import mcts_reward
from trailforge.rewards.msearcher import MSearcherConstants, msearcher_reward
from trailforge.rewards.r_search import RSearchConstants, answer_reward, r_search_reward
from trailforge.rewards.search_r1 import SearchR1Constants, search_r1_reward
from trailforge.rewards.targets import right_names, state_gold
from trailforge.rewards.text import exact_match
from trailforge.schemas import GroundTruth, InvalidInput

RewardConstants = (
    MSearcherConstants
    | RSearchConstants
    | DynaSearcherConstants
    | GraphR1Constants
    | SearchR1Constants
    | AbstentionConstants
)


def kind_of(constants: type[RewardConstants]) -> str:
    """What a kind of reward is called: as its file."""
    return constants.__module__.rpartition(".")[2]


CONSTANTS: dict[str, type[RewardConstants]] = {kind_of(each): each for each in get_args(RewardConstants)}
"""Which constants a kind of reward has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPreset:
    """How episodes are paid: a kind of reward with its constants."""

    name: str
    """As it stands in a row's `reward_preset`."""
    constants: RewardConstants
    """They say which kind."""

    @property
    def kind(self) -> str:
        """Of reward."""
        return kind_of(type(self.constants))


REWARD_PRESETS: dict[str, RewardPreset] = {
    preset.name: preset
    for preset in (
        RewardPreset(name="msearcher", constants=MSearcherConstants()),
        RewardPreset(name="r-search", constants=RSearchConstants()),
        RewardPreset(name="dynasearcher", constants=PAPER),
        RewardPreset(name="ragsearch", constants=GraphR1Constants()),
        RewardPreset(name="search-r1", constants=SearchR1Constants()),
        RewardPreset(name="abstention", constants=AbstentionConstants()),
    )
}
"""Each with the paper's values. `search-r1` is the other reward of RAGSearch, for agents of that protocol; `abstention`
is ours."""
_FEWEST_LETTERS = 5
"""Of a name that is added to a target whose reward covers by characters: "Oman" stands in "Roman"."""


def reward_preset(name: str) -> RewardPreset:
    """A preset by its name. Raises `InvalidInput` when there is none."""
    if name not in REWARD_PRESETS:
        raise InvalidInput(f"no reward preset {name!r}; there are {', '.join(REWARD_PRESETS)}", field="reward_preset")
    return REWARD_PRESETS[name]


def compares_letters(preset: RewardPreset) -> bool:
    """Can it pay answers to questions with options? DynaSearcher's compares words alone."""
    return not isinstance(preset.constants, DynaSearcherConstants)


def make_target(golds: Sequence[str], preset: RewardPreset) -> tuple[str, ...]:
    """What answers are held against: gold answer and aliases, then their other names by rule (`right_names`)."""
    covers = isinstance(preset.constants, DynaSearcherConstants)
    return right_names(golds, fewest_letters=_FEWEST_LETTERS if covers else 1)


# Episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A transcript, whatever its protocol."""

    answer: str
    """The final answer, in whatever form it was given; empty when there is none."""
    is_well_formed: bool
    """Is the whole of it as its protocol asks, without any mending?"""
    well_formed_turns: tuple[bool, ...]
    """The same for each turn of the agent."""
    num_searches: int
    """Executed; one for a request that asks several tools, one for a plan, be it answered with why it was not run."""
    retrieved_titles: tuple[str, ...]
    """Of all passages that the agent was given, in that order."""
    plan: float | None = None
    """1.0 if its search plan is valid as it was run, else 0.0; None in protocols without plans."""
    strict_plan: float | None = None
    """The same without any mending."""
    tokens: int | None = None
    """Of everything after the prompt, observations too; None when they are not known."""
    retrieved_texts: tuple[str, ...] = ()
    """Of the passages, as the agent read them."""
    given_texts: tuple[str, ...] = ()
    """What tools said, whole, after the agent's searches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """What an episode is paid."""

    total: float
    parts: Mapping[str, float | None]
    """What the total is made of, by the names that the preset's equations give; None for what is not known."""


def score(
    episode: Episode,
    truth: GroundTruth,
    preset: RewardPreset,
    *,
    judge: float | None = None,
    nearest: Sequence[float | None] = (),
) -> Reward:
    """What a preset pays. `judge`: how right a judge found the answer, 0 to 1; R-Search alone asks one. `nearest`: what
    `measure_nearest` gives, for DynaSearcher's recall; without it titles alone are compared.

    To a question with options, letters are compared as sets. Raises `InvalidInput` where DynaSearcher's reward,
    which compares words, meets such a question, and `ValueError` for a judge's score that nothing would look at.
    """
    constants = preset.constants
    if judge is not None and not isinstance(constants, RSearchConstants):
        raise ValueError(f"the reward {preset.kind} has no judge")
    match constants:
        case MSearcherConstants():
            parts = msearcher_reward(
                correct=measure_answer(episode.answer, truth, constants),
                format_holds=episode.is_well_formed,
                tokens=episode.tokens,
                constants=constants,
            )
        case RSearchConstants():
            parts = r_search_reward(
                format=float(episode.is_well_formed),
                dag=(episode.strict_plan if constants.strict_plan else episode.plan) or 0.0,
                answer=measure_answer(episode.answer, truth, constants, judge=judge),
                constants=constants,
            )
        case DynaSearcherConstants():
            parts = _dynasearcher(episode, truth, constants, nearest)
        case GraphR1Constants():
            parts = graph_r1_reward(
                answer=measure_answer(episode.answer, truth, constants),
                well_formed_turns=episode.well_formed_turns,
                constants=constants,
            )
        case SearchR1Constants():
            parts = search_r1_reward(
                exact_match=measure_answer(episode.answer, truth, constants),
                has_answer=bool(episode.answer.strip()),
                format_holds=episode.is_well_formed,
                constants=constants,
            )
        case AbstentionConstants():
            parts = _abstention(episode, truth, constants)
    named = asdict(parts)
    return Reward(total=named.pop("total"), parts=named)


def score_batch(
    episodes: Sequence[Episode],
    truths: Sequence[GroundTruth],
    preset: RewardPreset,
    *,
    judges: Sequence[float | None] | None = None,
) -> list[Reward]:
    """`score` of each. Raises `ValueError` when the sequences differ in length."""
    judged = [None] * len(episodes) if judges is None else judges
    return [
        score(episode, truth, preset, judge=judge)
        for episode, truth, judge in zip(episodes, truths, judged, strict=True)
    ]


def measure_nearest(episode: Episode, truth: GroundTruth, similarity: Similarity | None) -> tuple[float | None, ...]:
    """How near the passages of an episode come to each supporting document; see `nearest_similarities`."""
    texts = truth.support_texts or [""] * len(truth.support_titles)
    supporting = [_Known(title, text) for title, text in zip(truth.support_titles, texts, strict=True)]
    retrieved = [_Known(title) for title in episode.retrieved_titles]
    return nearest_similarities(supporting, [*retrieved, *(_Known("", t) for t in episode.retrieved_texts)], similarity)


def supporting_recall(
    episode: Episode, truth: GroundTruth, *, nearest: Sequence[float | None] = (), threshold: float = 1.0
) -> float | None:
    """The part of the supporting documents that was retrieved, whatever the reward; see `r_recall`."""
    retrieved = [_Known(title) for title in episode.retrieved_titles]
    return r_recall([*map(_Known, truth.support_titles)], retrieved, nearest=nearest, threshold=threshold)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a document."""

    title: str
    text: str = ""


def measure_answer(answer: str, truth: GroundTruth, constants: RewardConstants, *, judge: float | None = None) -> float:
    """How right a reward finds an answer, 0 to 1, whatever it pays for it; 1 is right. `judge`: as of `score`.

    Exact match for Search-R1, eq. 2 for DynaSearcher, the matcher for our own, F1 for the others; to options letters
    are compared.
    """
    match constants:
        case SearchR1Constants():
            if truth.correct_options:
                return score_choice(answer, truth.correct_options).exact_match
            return exact_match(answer, truth.target)
        case DynaSearcherConstants():
            return r_ans(answer, truth.target, constants)
        case AbstentionConstants():
            if truth.correct_options:
                return score_choice(answer, truth.correct_options).exact_match
            return mcts_reward(answer, truth.golds)
        case _:
            pays_all = isinstance(constants, RSearchConstants) and constants.pay_all_options
            return answer_reward(
                answer,
                correct_options=truth.correct_options,
                num_options=len(truth.options),
                pay_all_options=pays_all,
                golds=truth.target,
                judge_score=judge,
            )


def is_stated(episode: Episode, truth: GroundTruth) -> bool | None:
    """Does a text that the agent was given state a gold answer, by any of its names? See `state_gold`.

    No text has to say yes or no, and "no" stands in most. They are stated where all supporting documents were
    retrieved; None where these are not known, and for options.
    """
    if not episode.given_texts:
        return False
    if truth.correct_options:
        return None
    stated, recall = state_gold(episode.given_texts, truth.golds), supporting_recall(episode, truth)
    return stated if stated is not None or recall is None else recall == 1.0


def knows_that_unknown(episode: Episode, truth: GroundTruth) -> bool:
    """Does it say that it has no answer, after a search, where it is sure that nothing it was given states one?"""
    return is_abstention(episode.answer) and episode.num_searches > 0 and is_stated(episode, truth) is False


def _abstention(episode: Episode, truth: GroundTruth, constants: AbstentionConstants) -> AbstentionReward:
    return abstention_reward(
        is_right=measure_answer(episode.answer, truth, constants) >= 1.0,
        abstains=is_abstention(episode.answer),
        is_stated=is_stated(episode, truth),
        has_searched=episode.num_searches > 0,
        format_holds=episode.is_well_formed and bool(episode.answer.strip()),
        constants=constants,
    )


def _dynasearcher(
    episode: Episode, truth: GroundTruth, constants: DynaSearcherConstants, nearest: Sequence[float | None]
) -> DynaSearcherReward:
    if truth.correct_options:
        raise InvalidInput("the reward dynasearcher compares words, not options", field="answer_kind")
    return dynasearcher_reward(
        prediction=episode.answer,
        golds=truth.target,
        format_holds=episode.is_well_formed,
        recall=supporting_recall(episode, truth, nearest=nearest, threshold=constants.recall_similarity),
        searches=episode.num_searches,
        hops=truth.num_hops or None,
        constants=constants,
    )
