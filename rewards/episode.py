"""The rewards of the papers by name, the parts of a transcript that they use, and the one function that computes them.

Filters, trainers and evaluation differ in where transcripts come from. Each turns them into `Episode`s
(`protocols.transcripts`), and from there on this file alone computes rewards. Equations and constants are together in
one file for each reward.
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
    """Return the name of a kind of reward, which is the name of its file."""
    return constants.__module__.rpartition(".")[2]


CONSTANTS: dict[str, type[RewardConstants]] = {kind_of(each): each for each in get_args(RewardConstants)}
"""The class of constants of each kind of reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPreset:
    """A kind of reward with its constants, which together decide how episodes are rewarded."""

    name: str
    """Name of the preset, as rows hold it in `reward_preset`."""
    constants: RewardConstants
    """Constants of the reward, whose class determines its kind."""

    @property
    def kind(self) -> str:
        """Return the kind of reward."""
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
"""Presets by name, each with the paper's values. `search-r1` is the other reward of RAGSearch, for agents of that
protocol; `abstention` is trailforge's own."""
_FEWEST_LETTERS = 5
"""Of a name that is added to a target whose reward covers by characters: "Oman" stands in "Roman"."""


def reward_preset(name: str) -> RewardPreset:
    """Return a preset by its name. Raises `InvalidInput` when there is none."""
    if name not in REWARD_PRESETS:
        raise InvalidInput(f"no reward preset {name!r}; there are {', '.join(REWARD_PRESETS)}", field="reward_preset")
    return REWARD_PRESETS[name]


def compares_letters(preset: RewardPreset) -> bool:
    """Tell whether a reward can score answers to questions with options. DynaSearcher's cannot, since it compares words
    alone.
    """
    return not isinstance(preset.constants, DynaSearcherConstants)


def make_target(golds: Sequence[str], preset: RewardPreset) -> tuple[str, ...]:
    """Return what answers are compared with: gold answer and aliases, then their other names by rule
    (`right_names`)."""
    covers = isinstance(preset.constants, DynaSearcherConstants)
    return right_names(golds, fewest_letters=_FEWEST_LETTERS if covers else 1)


# Episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The parts of a transcript, of any protocol, on which rewards depend."""

    answer: str
    """The final answer, in whatever form it was given; empty when there is none."""
    is_well_formed: bool
    """Whether the whole transcript follows its protocol, without any correction."""
    well_formed_turns: tuple[bool, ...]
    """For each turn of the agent, whether it follows the protocol without correction."""
    num_searches: int
    """Number of executed searches: one for a request to several tools, and one for a plan, even if it was answered only
    with why it was not run."""
    retrieved_titles: tuple[str, ...]
    """Titles of all passages that the agent was given, in that order."""
    plan: float | None = None
    """1.0 if the search plan is valid as it was run, else 0.0; None in protocols without plans."""
    strict_plan: float | None = None
    """1.0 if the search plan is valid without any correction, else 0.0; None in protocols without plans."""
    tokens: int | None = None
    """Number of tokens of everything after the prompt, tool results included; None when it is not known."""
    retrieved_texts: tuple[str, ...] = ()
    """Texts of the passages, as the agent read them."""
    given_texts: tuple[str, ...] = ()
    """Whole results of tools after the agent's searches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The reward of an episode: its total, and the parts of which it is made."""

    total: float
    parts: Mapping[str, float | None]
    """Parts of the total, by the names that the preset's equations give; None for a part that is not known."""


def score(
    episode: Episode,
    truth: GroundTruth,
    preset: RewardPreset,
    *,
    judge: float | None = None,
    nearest: Sequence[float | None] = (),
) -> Reward:
    """Return the reward of an episode.

    `judge` is a judge's score of the answer, 0 to 1; only R-Search uses one. `nearest` is the result of
    `measure_nearest`, for DynaSearcher's recall; without it titles alone are compared. For a question with options,
    letters are compared as sets. Raises `InvalidInput` where DynaSearcher's reward, which compares words, meets such a
    question, and `ValueError` for a judge's score that nothing would use.
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
    """Return the reward of each episode, as `score` does. Raises `ValueError` when the sequences differ in length."""
    judged = [None] * len(episodes) if judges is None else judges
    return [
        score(episode, truth, preset, judge=judge)
        for episode, truth, judge in zip(episodes, truths, judged, strict=True)
    ]


def measure_nearest(episode: Episode, truth: GroundTruth, similarity: Similarity | None) -> tuple[float | None, ...]:
    """Return for each supporting document how similar the nearest passage of the episode is, 1 at most; None where a
    passage has the document's title, or where nothing can be compared. `similarity` compares two texts; None compares
    words alone.
    """
    texts = truth.support_texts or [""] * len(truth.support_titles)
    supporting = [_Known(title, text) for title, text in zip(truth.support_titles, texts, strict=True)]
    retrieved = [_Known(title) for title in episode.retrieved_titles]
    return nearest_similarities(supporting, [*retrieved, *(_Known("", t) for t in episode.retrieved_texts)], similarity)


def supporting_recall(
    episode: Episode, truth: GroundTruth, *, nearest: Sequence[float | None] = (), threshold: float = 1.0
) -> float | None:
    """Return the share of the supporting documents that the episode's searches found, whatever the reward; None when no
    supporting document is known. `nearest` is the result of `measure_nearest`, and `threshold` the similarity from
    which on a document counts as found.
    """
    retrieved = [_Known(title) for title in episode.retrieved_titles]
    return r_recall([*map(_Known, truth.support_titles)], retrieved, nearest=nearest, threshold=threshold)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a document."""

    title: str
    text: str = ""


def measure_answer(answer: str, truth: GroundTruth, constants: RewardConstants, *, judge: float | None = None) -> float:
    """Return how right a reward finds an answer, 0 to 1, where 1 is right, whatever it pays for it.

    `judge` is as for `score`. The measure is exact match for Search-R1, eq. 2 for DynaSearcher, the matcher for
    trailforge's own reward, F1 for the others; for options letters are compared.
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
    """Tell whether a text that the agent was given states a gold answer, by any of its names; see `state_gold`.

    Yes or no need not be written in any text, and "no" occurs in most. They count as stated where all supporting
    documents were retrieved; the result is None where these are not known, and for options.
    """
    if not episode.given_texts:
        return False
    if truth.correct_options:
        return None
    stated, recall = state_gold(episode.given_texts, truth.golds), supporting_recall(episode, truth)
    return stated if stated is not None or recall is None else recall == 1.0


def knows_that_unknown(episode: Episode, truth: GroundTruth) -> bool:
    """Tell whether the episode rightly says that it has no answer: after a search, and where certainly nothing it was
    given states one.
    """
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
        raise InvalidInput(
            "the reward dynasearcher compares words, not options; use another reward for questions with options",
            field="answer_kind",
        )
    return dynasearcher_reward(
        prediction=episode.answer,
        golds=truth.target,
        format_holds=episode.is_well_formed,
        recall=supporting_recall(episode, truth, nearest=nearest, threshold=constants.recall_similarity),
        searches=episode.num_searches,
        hops=truth.num_hops or None,
        constants=constants,
    )
