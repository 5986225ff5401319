"""Measures of one episode, and of many together; every score of an answer is a function of `rewards`.

episode = make_episode(question, run, setting, costs=costs)
summary = summarize(episodes)                                one agent over one back end
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, variance
from types import MappingProxyType
from typing import Literal, get_args

from trailforge.evaluation.agents import AgentRun
from trailforge.evaluation.results.failures import asked_at, is_right, read_texts, tag_failures
from trailforge.protocols.browse import Gold, opened_after, with_gold
from trailforge.rewards import (
    ChoiceChance,
    chance_of_choice,
    normalize_answer,
    score_answer,
    score_choice,
    score_set,
    state_gold,
)
from trailforge.rewards.dynasearcher import same_title
from trailforge.schemas import (
    AgentCosts,
    AgentEpisode,
    AgentScores,
    InvalidInput,
    Question,
    SupportingDocument,
    TrajectoryReward,
)

# One episode


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSetting:
    """The settings that distinguish the episodes of one question: agent, back end, model and seed."""

    agent: str
    agent_config: str
    """The hash of the agent's settings."""
    protocol: str = ""
    backend: str
    index: str = ""
    """The hash of what is searched."""
    model: str
    seed: int


def make_episode(
    question: Question,
    run: AgentRun,
    setting: EpisodeSetting,
    *,
    costs: AgentCosts,
    judge: float | None = None,
    error: str = "",
) -> AgentEpisode:
    """Return the stored row of a run, with its scores and the tags of what went wrong. `judge` is the score that a
    judging model gave, if any.
    """
    episode = AgentEpisode(
        uid=hash_episode(question, setting),
        question_id=question.id,
        dataset=question.dataset,
        question=question.question,
        golds=question.golds,
        options=question.options,
        correct_options=question.correct_options,
        answer_set=question.answer_set,
        agent=setting.agent,
        protocol=setting.protocol,
        backend=setting.backend,
        index=setting.index,
        model=setting.model,
        seed=setting.seed,
        messages=run.messages,
        searches=run.searches,
        calls=run.calls,
        browse=None if run.browse is None else with_gold(run.browse, gold_pages(question)),
        answer=run.answer,
        stop=run.stop,
        error=error,
        costs=costs,
        scores=score_run(question, run, judge=judge),
    )
    return replace(episode, failures=tag_failures(episode))


def gold_pages(question: Question) -> list[Gold] | None:
    """Return the pages that the answer rests on, by their ids in the corpus, or by title where the ids are those of the
    question's own paragraphs. None where they are not known.
    """
    own = {each.id for each in question.paragraphs}
    named = [
        Gold(page=each.id) if each.id and each.id not in own else Gold(title=each.title)
        for each in order_supporting(question)
    ]
    return named or None


def hash_episode(question: Question, setting: EpisodeSetting) -> str:
    """Return the `uid` of an episode, a hash of question, agent, settings, index, model and seed."""
    content = {"dataset": question.dataset, "id": question.id, "question": question.question, **asdict(setting)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def score_run(question: Question, run: AgentRun, *, judge: float | None = None) -> AgentScores:
    """Score a run's answer against the gold answers, and its searches against the supporting documents."""
    answer, found_at = _score(question, run.answer), find_supporting(question, run)
    return AgentScores(
        exact_match=answer.exact_match,
        f1=answer.f1,
        contain_em=answer.cover_exact_match if question.kind == "text" else answer.exact_match,
        right=answer.total,
        judge=judge,
        supporting_recall=sum(place is not None for place in found_at) / len(found_at) if found_at else None,
        found_at=found_at,
        answer_in_text=_find_answer(question, run.shown),
    )


def _score(question: Question, answer: str) -> TrajectoryReward:
    match question.kind:
        case "options":
            return score_choice(answer, question.correct_options, question.options)
        case "set":
            return score_set(answer, question.answer_set)
        case "text":
            return score_answer(answer, question.golds)


def _find_answer(question: Question, shown: Sequence[str]) -> float | None:
    """See `AgentScores.answer_in_text`. Of a set of answers the share that some text states."""
    wanted = [(each,) for each in question.answer_set] or [question.golds]
    if not shown or question.kind == "options":
        return None
    lines = dict.fromkeys(line for text in shown for line in text.splitlines())
    stated = [state_gold(lines, golds) for golds in wanted]
    return None if None in stated else fmean(map(bool, stated))


def find_supporting(question: Question, run: AgentRun) -> tuple[int | None, ...]:
    """Return, for each document of `order_supporting`, the number (from 0) of the search that first found it, or None.

    A passage is a document if it has its title, ignoring case and white space. Where other paragraphs of the question
    have the same title, it must also have its id or, if it has none of their ids, the agent must have read the
    document's text or facts before its next search. A passage or document without a title is recognised by id alone,
    which may be that of a part (`ID#3`). A passage made from several documents counts as all of them. A page that an
    agent opened without a search counts for the search before.
    """
    supporting = order_supporting(question)
    shown = _read_until(run, question.question) if supporting else []
    pages = gold_pages(question) or ()
    opened = opened_after(run.browse, pages) if run.browse is not None else [None for _ in supporting]
    return tuple(
        next(
            (
                place
                for place, search in enumerate(run.searches)
                if any(
                    _is_document(question, document, id, title, shown[place])
                    for id, title in zip(
                        (*search.document_ids, *search.source_ids), (*search.titles, *search.source_titles), strict=True
                    )
                )
            ),
            after,
        )
        for document, after in zip(supporting, opened, strict=True)
    )


def _read_until(run: AgentRun, question: str) -> list[str]:
    """For each search what was read, normalised, before the next turn that searches; where none is known, all."""
    asked = asked_at(run)
    ends = [
        None if at is None else next((later for later in asked if later is not None and later > at), None)
        for at in asked
    ]
    read = {
        end: f" {normalize_answer(' '.join(read_texts(replace(run, messages=run.messages[:end]), question)))} "
        for end in set(ends)
    }
    return [read[end] for end in ends]


def order_supporting(question: Question) -> tuple[SupportingDocument, ...]:
    """Return the documents that the answer rests on, in the order of the hops; those of no hop last, as annotated."""
    hops = [hop.support_id for hop in question.decomposition]
    return tuple(
        sorted(
            question.supporting_documents,
            key=lambda document: hops.index(document.id) if document.id in hops and document.id else len(hops),
        )
    )


def _is_document(question: Question, document: SupportingDocument, id: str, title: str, shown: str) -> bool:
    ids = {id, id.rpartition("#")[0]} - {""}
    if not document.title or not title:
        return document.id in ids
    if not same_title(document, SupportingDocument(title=title)):
        return False
    namesakes = [each for each in question.paragraphs if same_title(document, each) and each.id != document.id]
    if not namesakes or document.id in ids:
        return True
    if any(each.id in ids for each in namesakes):
        return False
    texts = [question.support_text(document), " ".join(document.facts)]
    return any(text and f" {text} " in shown for text in map(normalize_answer, texts))


# Many episodes


def _share_of_gold(episode: AgentEpisode, figure: str) -> float | None:
    figures = episode.browse and episode.browse.figures
    return getattr(figures, figure) / figures.gold_pages if figures and figures.gold_pages else None


Measure = Callable[[AgentEpisode], float | None]
"""Returns a number of an episode; None: the measure says nothing of this episode."""

MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "contain_em": lambda episode: episode.scores.contain_em,
        "f1": lambda episode: episode.scores.f1,
        "exact_match": lambda episode: episode.scores.exact_match,
        "right": lambda episode: episode.scores.right,
        "judge": lambda episode: episode.scores.judge,
        "supporting_recall": lambda episode: episode.scores.supporting_recall,
        "answer_in_text": lambda episode: episode.scores.answer_in_text,
        "answered": lambda episode: float(episode.stop == "answered"),
        "answer_words": lambda episode: len(episode.answer.split()) if episode.answer.strip() else None,
        "searches": lambda episode: len(episode.searches),
        "turns": lambda episode: sum(message.role == "assistant" for message in episode.messages),
        "calls": lambda episode: episode.costs.calls,
        "context_tokens": lambda episode: episode.costs.context_tokens,
        "prompt_tokens": lambda episode: episode.costs.prompt_tokens,
        "completion_tokens": lambda episode: episode.costs.completion_tokens,
        "seconds": lambda episode: episode.costs.seconds,
        "search_seconds": lambda episode: sum(search.seconds for search in episode.searches),
        "tool_calls": lambda episode: episode.browse and episode.browse.figures.calls,
        "repeated_calls": lambda episode: episode.browse and episode.browse.figures.repeated_calls,
        "pages_opened": lambda episode: episode.browse and episode.browse.figures.pages_opened,
        "pages_unused": lambda episode: episode.browse and episode.browse.figures.pages_unused,
        "gold_opened": lambda episode: _share_of_gold(episode, "gold_opened"),
        "gold_cited": lambda episode: _share_of_gold(episode, "gold_cited"),
    }
)
"""The measures by name.

From `tool_calls` on they are for agents that open pages alone; the last two are shares of the pages that the answer
rests on. `answer_words` counts the words of answers that were given, as contain-EM pays for long ones. `turns` are
those of the agent.
"""
OF_PAGES = ("tool_calls", "repeated_calls", "pages_opened", "pages_unused", "gold_opened", "gold_cited")
"""Names of the measures that say nothing of agents that open no pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The mean of a measure over episodes, and how much it varies over seeds."""

    mean: float
    """Mean over all episodes for which the measure is known."""
    variance: float | None
    """Unbiased variance of the means of the seeds; None: there is but one seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSummary:
    """The measures of several episodes together, with counts of their ends and tags."""

    episodes: int
    questions: int
    seeds: int
    measures: Mapping[str, Spread | None]
    """The spread of each measure, by the names of `MEASURES`; None: it is known for no episode."""
    pass_at: Mapping[int, float]
    """The pass@k by k, from 1 to the smallest number of episodes that a question has; see `pass_at_k`."""
    stops: Mapping[str, int]
    """Number of episodes by how they ended."""
    failures: Mapping[str, int]
    """Number of episodes by tag. An episode may have several tags."""


def summarize(episodes: Sequence[AgentEpisode]) -> EpisodeSummary:
    """Summarize episodes as means, pass@k, ends and tags. Raises `InvalidInput` without episodes, and what
    `by_question` raises.
    """
    if not episodes:
        raise InvalidInput("there are no episodes to summarize; evaluate some questions first")
    questions = by_question(episodes)
    most = min(map(len, questions.values()))
    return EpisodeSummary(
        episodes=len(episodes),
        questions=len(questions),
        seeds=len({episode.seed for episode in episodes}),
        measures={name: measure_spread(episodes, measure) for name, measure in MEASURES.items()},
        pass_at={k: pass_at_k(episodes, k) for k in range(1, most + 1)},
        stops=dict(sorted(Counter(episode.stop for episode in episodes).items())),
        failures=dict(sorted(Counter(tag for episode in episodes for tag in episode.failures).items())),
    )


def by_question(episodes: Sequence[AgentEpisode]) -> dict[str, list[AgentEpisode]]:
    """Group episodes by `DATASET:ID` of their question, in order.

    Raises `InvalidInput` for two episodes on one question with one seed, which must come from different agents, back
    ends or models, and for two questions with one id.
    """
    found: dict[str, list[AgentEpisode]] = defaultdict(list)
    for episode in episodes:
        found[f"{episode.dataset}:{episode.question_id}"].append(episode)
    for name, alike in found.items():
        if len({episode.seed for episode in alike}) < len(alike):
            raise InvalidInput(f"two episodes on {name} have one seed; take one agent, back end and model at a time")
        if len({episode.question for episode in alike}) > 1:
            raise InvalidInput(f"{name} is the id of two questions; give each its own", field="question_id")
    return dict(found)


Choice = Literal["single", "multiple"]
"""Whether one option is correct, or several."""


def by_choice(episodes: Sequence[AgentEpisode]) -> dict[Choice, list[AgentEpisode]]:
    """Group the episodes on questions with options by the kind of choice."""
    found: dict[Choice, list[AgentEpisode]] = {}
    for choice in get_args(Choice):
        of_options = (each for each in episodes if each.correct_options)
        alike = [each for each in of_options if (len(each.correct_options) == 1) == (choice == "single")]
        found |= {choice: alike} if alike else {}
    return found


def mean_chance(episodes: Sequence[AgentEpisode]) -> ChoiceChance:
    """Return the mean score of guessing on questions with options."""
    chances = [chance_of_choice(len(each.options), len(each.correct_options)) for each in episodes]
    return ChoiceChance(fmean(each.exact_match for each in chances), fmean(each.f1 for each in chances))


def measure_spread(episodes: Sequence[AgentEpisode], measure: Measure) -> Spread | None:
    """Return the mean of a measure and its variance over the seeds; None where the measure is known for no episode."""
    by_seed: dict[int, list[float]] = defaultdict(list)
    for episode in episodes:
        if (value := measure(episode)) is not None:
            by_seed[episode.seed].append(value)
    if not by_seed:
        return None
    means = [fmean(values) for values in by_seed.values()]
    return Spread(
        mean=fmean(value for values in by_seed.values() for value in values),
        variance=variance(means) if len(means) > 1 else None,
    )


def pass_at_k(episodes: Sequence[AgentEpisode], k: int) -> float:
    """Return the mean over the questions of `estimate_pass_at_k`: the chance that one of k episodes is right. Raises
    `InvalidInput` where a question has fewer than k episodes.
    """
    estimates = []
    for name, alike in by_question(episodes).items():
        if len(alike) < k:
            raise InvalidInput(f"pass@{k} needs {k} episodes a question; {name} has {len(alike)}")
        passed = sum(is_right(each.scores) for each in alike)
        estimates.append(estimate_pass_at_k(len(alike), passed, k))
    return fmean(estimates)


def estimate_pass_at_k(episodes: int, passed: int, k: int) -> float:
    """Estimate 1 - C(n - c, k) / C(n, k), without bias, from n episodes with c right ones: the chance that one of k is
    right.

    Chen et al., 2021, eq. 1. Raises `ValueError` unless 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= passed <= episodes and 1 <= k <= episodes):
        raise ValueError(f"pass@{k} of {episodes} episodes, {passed} of them right")
    return 1.0 - math.comb(episodes - passed, k) / math.comb(episodes, k)
