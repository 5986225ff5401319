"""Select the best episodes of a question that differ from each other, and pair good ones with bad ones for preference
training.

The turns that both episodes of a pair share are its prompt, so a pair teaches to prefer the good one's next turn, and
is made only where that turn is the better one. Sampled episodes mostly differ from their first words, which are rarely
to blame. So the prompt of a pair is the bad episode up to its first mistake, followed by the good one's turn where that
follows from what the bad one has read.

A right answer by another name is no mistake. No pair prefers what the reward of the protocol ranks lower, nor an answer
to "unknown" where nothing that was read states it; between two episodes that read nothing of it, "unknown" is preferred
to a wrong answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from trailforge.filters import DOUBTFUL, first_rejection, reject_surplus
from trailforge.filters.kg import (
    KgEpisodeFilterConfig,
    count_guesses,
    duplicate_episode,
    early_turns,
    facts_to_read,
    first_used,
    gold_titles,
    judge_kg_episode,
    leaking_turns,
    named_in,
    redundant_steps,
    request_of,
    results_of,
    shows,
    texts_of,
    unfitting_steps,
    ungrounded_answer,
    way_of,
    wrong_steps,
)
from trailforge.filters.ways import ask_about_the_same, rank_way
from trailforge.generators.pairs import best_pair, common_prefix, distinct_pairs, make_pair
from trailforge.pipelines import Chosen
from trailforge.protocols import KG_SEARCH, make_truth, read_transcript
from trailforge.rewards import is_near_miss, is_never_quoted, mcts_reward, mentions, normalize_answer
from trailforge.rewards.episode import Episode, is_stated, knows_that_unknown
from trailforge.schemas import ContrastivePair, GroundTruth, KgStep, KgTrajectory, Verdict

TOO_SIMILAR = "too_similar"
WRONG = "wrong_answer"
_OF_ANSWER = frozenset({WRONG, "ungrounded_answer", "unstated_answer", "other_answers"})
"""Reasons that judge the answer alone, and not what was searched."""
NO_CONTRAST = frozenset({"duplicate_episode", DOUBTFUL, "surplus", TOO_SIMILAR})
"""Reasons for rejection that say nothing against an episode itself."""
_SURELY_WRONG = 0.2
"""The judge's highest score of an answer that is wrong, whatever it is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSelectionConfig:
    """How many episodes of a question are selected."""

    filters: KgEpisodeFilterConfig = field(default_factory=KgEpisodeFilterConfig)
    most: int = 2
    """Most episodes of a question."""
    max_similarity: float = 0.8
    """Largest similarity, from 0 to 1, of a further episode to one that was taken; see `similarity`."""
    diversity: float = 0.5
    """Units of reward that full similarity costs when the next episode is chosen."""


def choose_rows(
    candidates: Sequence[KgTrajectory], config: EpisodeSelectionConfig = EpisodeSelectionConfig()
) -> Chosen[KgTrajectory]:
    """Select the best of the episodes that all filters keep, the one that guesses least first, and reject the others.
    None is selected that takes the same route as a better one.
    """
    verdicts: dict[int, Verdict] = {}
    sound: list[int] = []
    for place, row in enumerate(candidates):
        against = first_rejection(judge_kg_episode(row, config.filters))
        if against is None:
            sound.append(place)
        else:
            verdicts[place] = against
    guesses = {place: count_guesses(candidates[place]) for place in sound}
    taken: list[int] = []
    while sound:
        likeness = {i: max((similarity(candidates[i], candidates[t]) for t in taken), default=0.0) for i in sound}
        best = min(sound, key=lambda i: (guesses[i], *_rank(candidates[i], likeness[i], config), i))
        sound.remove(best)
        twin = duplicate_episode(candidates[best], [candidates[t] for t in taken])
        if against := first_rejection([twin]) or _not_taken(len(taken), likeness[best], config):
            verdicts[best] = against
        else:
            taken.append(best)
    return Chosen(
        tuple(candidates[i] for i in taken),
        tuple((candidates[i], verdicts[i]) for i in sorted(verdicts)),
    )


def unread_rows(chosen: Chosen[KgTrajectory]) -> list[KgTrajectory]:
    """Return the kept rows for which a model must still read whether their answer is stated, since nothing they read
    names it plainly.
    """
    return [row for row in chosen.kept if facts_to_read(row) and not row.readings]


def similarity(first: KgTrajectory, second: KgTrajectory) -> float:
    """Return how similar two episodes are, from 0 to 1: the share of requests and results that both have, among all of
    either.

    It is 1 where both ask the graph about the same entities, or anything about the same names, in however many
    searches: then they take one route, and other words only find other documents by the way.
    """
    if (asked := _asked_of_graph(first)) and asked == _asked_of_graph(second):
        return 1.0
    if ask_about_the_same(way_of(first), way_of(second)):
        return 1.0
    one, other = (
        {item for step in row.steps for item in (request_of(step), *results_of(step))} for row in (first, second)
    )
    return len(one & other) / (len(one | other) or 1)


def _asked_of_graph(row: KgTrajectory) -> frozenset[str]:
    """The entities that were looked up in the graph, by id; a name that it does not know stands for itself. Empty where
    a search asks for documents alone."""
    if not all(step.mentions for step in row.steps):
        return frozenset()
    links = (link for step in row.steps for link in step.entities)
    return frozenset(
        link.entity_id or normalize_answer(link.mention) for link in links if link.is_searched or not link.entity_id
    )


def _rank(row: KgTrajectory, likeness: float, config: EpisodeSelectionConfig) -> tuple[float | int, ...]:
    """Of two that guess as often first what is right without a judge, then what their ways tell (`ways.ranking`): gain
    and unlikeness count before their words alone, as a gain is paid for leaps, too."""
    # All of them are right: what tells them apart is the gain, not how many words of a short gold answer they have.
    price = config.diversity * likeness - row.reward.r_gain
    way = rank_way(way_of(row))
    grave = way.leaps, way.unseen, way.unused, way.needless
    return row.judge_score is not None, *grave, round(price, 6), way.words, row.token_estimate


def _not_taken(taken: int, likeness: float, config: EpisodeSelectionConfig) -> Verdict | None:
    if taken >= config.most:
        return reject_surplus(taken)
    if likeness > config.max_similarity:
        detail = f"shares {likeness:.2f} with one that was taken"
        return Verdict(keep=False, reason=TOO_SIMILAR, score=round(likeness, 6), detail=detail)
    return None


def contrastive_pairs(
    good: Sequence[KgTrajectory], bad: Sequence[tuple[KgTrajectory, Verdict]], most: int
) -> list[ContrastivePair]:
    """Return at most `most` pairs of a selected and a rejected episode of one question, for preference training.

    Every bad episode is used once, with the good one that agrees with it for longest before doing better, and none that
    equals a used one up to its mistake. Reasons of rejection alternate; within one, the pairs that differ latest come
    first, then those of lowest reward.
    """
    pairs: list[ContrastivePair] = []
    unknown = [row for row, _ in bad if _is_unknown(row)]
    for row, verdict in bad:
        if verdict.reason in NO_CONTRAST or rests_on_form(row) or _is_unknown(row):
            continue
        parted = [(one, parting(one, row)) for one in good if _accuracy(one) >= _accuracy(row)]
        if not good and verdict.reason == WRONG and is_stated(_read(row), truth_of(row)) is False:
            parted = [(one, _last_parting(one, row)) for one in unknown]
        made = [_pair(one, row, verdict, place) for one, place in parted if place is not None]
        best = best_pair(made, truth_of(row))
        pairs += [best] if best else []
    pairs.sort(key=lambda pair: (-pair.diverges_at, pair.bad_reward, pair.uid))
    pairs = distinct_pairs(pairs)
    turns, seen = [], Counter[str]()
    for pair in pairs:
        turns.append(seen[pair.reason])
        seen[pair.reason] += 1
    ranked = sorted(range(len(pairs)), key=lambda i: turns[i])
    return [pairs[i] for i in ranked[:most]]


def truth_of(row: KgTrajectory) -> GroundTruth:
    """Return the gold answers and documents with which rewards compare the row."""
    return make_truth(
        row.golds,
        protocol=KG_SEARCH.name,
        num_hops=row.num_hops or None,
        support_titles=tuple(document.title for document in row.supporting),
    )


def _read(row: KgTrajectory) -> Episode:
    return read_transcript(row.messages, KG_SEARCH.name)


def _is_unknown(row: KgTrajectory) -> bool:
    return knows_that_unknown(_read(row), truth_of(row))


def _last_parting(one: KgTrajectory, other: KgTrajectory) -> int | None:
    """The message at which two that searched alike part in their last turns; None where they did not."""
    place = common_prefix(one.messages, other.messages)
    return place if place == len(one.messages) - 1 == len(other.messages) - 1 else None


def _accuracy(row: KgTrajectory) -> float:
    """Of its answer alone: searches that were spared make no episode the better one of a pair."""
    return 1.0 if row.kind == "good" else row.reward.r_acc


def rests_on_form(row: KgTrajectory) -> bool:
    """Tell whether the final answer counts as wrong although it may be right by another name, and no judge is sure."""
    if not row.final_answer or row.kind == "good" or mcts_reward(row.final_answer, row.golds):
        return False
    is_sure = row.judge_score is not None and row.judge_score <= _SURELY_WRONG
    return not is_sure and is_near_miss(row.final_answer, row.golds)


def is_well_searched(row: KgTrajectory) -> bool:
    """Tell whether a rejected episode read what the right answer rests on, so that only its wrong answer speaks against
    it.

    That is so where searches showed the answer of each hop and the gold answer or, where no text has to state these,
    all supporting documents.
    """
    failed = {each.reason for each in judge_kg_episode(row, KgEpisodeFilterConfig()) if not each.keep}
    if WRONG not in failed or failed - _OF_ANSWER or rests_on_form(row):
        return False
    wanted = [(row.golds if hop is row.gold_hops[-1] else (hop.answer,)) for hop in row.gold_hops] or [row.golds]
    quoted = [names for names in wanted if not is_never_quoted(names[0])]
    if is_never_quoted(row.answer):
        found = {title.casefold() for step in row.steps for title in gold_titles(step, row)}
        return bool(row.supporting) and found >= {each.title.casefold() for each in row.supporting}
    return all(any(shows(step, name) for step in row.steps for name in names) for names in quoted)


def parting(good: KgTrajectory, bad: KgTrajectory) -> int | None:
    """Return the index of the bad episode's first mistake that the good one does not make, at which a pair of the two
    divides; None when there is none.
    """
    place = common_prefix(good.messages, bad.messages)
    if parts_for_the_better(good, bad, place):
        return place
    faults = _faulty_turns(bad) | _faulty_end(bad)
    turns_of_good, turns = _turns(good), _turns(bad)
    number = min(faults, default=len(turns))
    if number >= min(len(turns), len(turns_of_good)) or turns[number] < place or not _follows(good, bad, number):
        return None
    return turns[number] if _is_better(good, bad, number) else None


def parts_for_the_better(good: KgTrajectory, bad: KgTrajectory, place: int) -> bool:
    """Tell whether the good episode's turn is the better one at `place`, the index of the message at which the two
    first differ.

    It is where only the bad one's turn has a fault (it breaks the format, says what is misread or not found yet, or
    searches in vain), where the good one can answer while the bad one searches on, or where the bad one's search shows
    less of what the gold hops ask for.
    """
    if place >= min(len(good.messages), len(bad.messages)):
        return False
    number = sum(message.role == "assistant" for message in bad.messages[:place])
    if _is_better(good, bad, number):
        return True
    if not _is_sound(good, number) or (bad.final_answer and number == len(_turns(bad)) - 1):
        return False
    if number >= len(good.steps):
        return True
    return number < len(bad.steps) and _shown(bad, number) < _shown(good, number)


def _is_better(good: KgTrajectory, bad: KgTrajectory, number: int) -> bool:
    """Is this turn a mistake of the bad one alone? Of two answers a wrong one is."""
    if number in _faulty_end(bad) and number >= len(good.steps) and mcts_reward(bad.final_answer, bad.golds):
        return False
    return number in _faulty_turns(bad) | _faulty_end(bad) and _is_sound(good, number)


def _is_sound(good: KgTrajectory, number: int) -> bool:
    """Is this turn free of faults, and if it searches, is what it finds of use?"""
    is_of_use = number >= len(good.steps) or bool(first_used(good)[number])
    return is_of_use and number not in _faulty_turns(good)


def _follows(good: KgTrajectory, bad: KgTrajectory, number: int) -> bool:
    """Could the good one's turns from this one on stand behind what the bad one did before?

    They may rest on no gold and speak of nothing that the good one alone has read, and search for nothing that the bad
    one has found. With refused turns in between nothing is known.
    """
    if len(_turns(good)) > len(good.steps) + 1 or len(_turns(bad)) > len(bad.steps) + 1:
        return False
    read, own = ([text for step in row.steps[:number] for text in texts_of(step)] for row in (bad, good))
    rest = [good.messages[place].content for place in _turns(good)[number:]]
    said = {name for turn in rest for name in named_in(turn)} | {good.final_answer}
    said |= {name for step in good.steps[number:] for name in step.mentions}
    known = {name for name in said if any(mentions(text, name) for text in own)}
    if any(not any(mentions(text, name) for text in read) for name in known if not mentions(good.question, name)):
        return False
    its, had = ({gold for step in row.steps[:number] for gold in _gold_in(step, good)} for row in (good, bad))
    names = {name for _, name in had}
    is_new = number >= len(good.steps) or any(name not in names for _, name in _gold_in(good.steps[number], good))
    return its <= had and is_new


def _turns(row: KgTrajectory) -> list[int]:
    """Where the agent's turns stand among the messages."""
    return [place for place, message in enumerate(row.messages) if message.role == "assistant"]


def _faulty_turns(row: KgTrajectory) -> set[int]:
    """Numbers of the turns that cannot be read as they are, tell what was misread or is not found yet, or search in
    vain or amiss."""
    faulty = {step.index + 1 for step, _ in wrong_steps(row)}
    faulty |= {step.index for step, _ in redundant_steps(row)}
    faulty |= {step.index for step, _ in unfitting_steps(row)}
    faulty |= early_turns(row)
    faulty |= {number for number, holds in enumerate(KG_SEARCH.well_formed_turns(row.messages)) if not holds}
    return faulty | leaking_turns(row).keys()


def _faulty_end(row: KgTrajectory) -> set[int]:
    """The number of the last turn, if it answers wrongly, or what was not read; empty otherwise."""
    is_right = row.kind == "good" and row.num_tool_calls and ungrounded_answer(row).keep
    return set() if is_right or not row.final_answer else {len(_turns(row)) - 1}


def _shown(row: KgTrajectory, number: int) -> frozenset[tuple[str, str]]:
    """What a search is the first to show of the gold hops: their documents, and their answers in either source."""
    *before, now = (_gold_in(step, row) for step in row.steps[: number + 1])
    return now.difference(*before)


def _gold_in(step: KgStep, row: KgTrajectory) -> frozenset[tuple[str, str]]:
    texts = [("document", f"{document.title}. {document.text}") for document in step.documents]
    texts += [("triple", triple.text) for triple in step.triples_kept]
    answers = (*(hop.answer for hop in row.gold_hops), row.answer)
    found = {(kind, answer) for kind, text in texts for answer in answers if mentions(text, answer)}
    return frozenset(found | {("gold", title) for title in gold_titles(step, row)})


def _pair(good: KgTrajectory, bad: KgTrajectory, verdict: Verdict, place: int) -> ContrastivePair:
    number = sum(message.role == "assistant" for message in bad.messages[:place])
    return make_pair(
        good,
        bad,
        verdict,
        place,
        question=good.question,
        answer=good.answer,
        protocol=KG_SEARCH.name,
        good_messages=(*bad.messages[:place], *good.messages[_turns(good)[number] :]),
        bad_messages=bad.messages,
        bad_answer=bad.final_answer,
        good_reward=good.reward.total,
        bad_reward=bad.reward.total,
        origin="oracle" if "oracle" in (good.origin, bad.origin) else "policy",
        parts_at_fault=True,
    )
