"""Filters that reject an agent's episodes; `choice` decides which of the others are kept.

No filter asks a model: what the model said from memory stands in the row. A filter's score is in the row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from trailforge.evaluation.results import read_texts
from trailforge.filters import (
    count_faults,
    doubtful_gold,
    guesses,
    names_of_answer,
    reject_malformed,
    reject_too_long,
    reject_wrong,
)
from trailforge.filters.guesses import Bridges, guarded_facts, unread_answer
from trailforge.filters.readings import count_open, count_rivals, count_unstated, has_found
from trailforge.filters.ways import find_early_requests, is_left_open, judge_silence, reject_early_requests, rules_out
from trailforge.generators.agent_trajectories.evidence import (
    admission_of,
    facts_to_read,
    find_hops,
    find_unread,
    given_by_message,
    is_alone,
    is_borne_out,
    is_stated,
    requests_of,
    text_given,
    way_of,
)
from trailforge.generators.agent_trajectories.long_episodes import LongEpisodeLimits, judge_calls, malformed_turns
from trailforge.generators.agent_trajectories.rows import weigh_known
from trailforge.protocols import PROTOCOLS
from trailforge.rewards import is_near_miss, is_never_quoted, mcts_reward, mentions, normalize_answer
from trailforge.schemas import AgentTrajectory, FactReading, FromMemory, InvalidInput, Verdict, check_least

UNREAD, KNOWN, LACKING, CHANCE = "unread_query", "known_from_memory", "missing_evidence", "right_by_chance"
_PARTS = re.compile(r"[,;/&]|\b(?:and|or|then)\b")
"""Matches where a list of answers is separated into single answers."""
_DATA_SET = re.compile(
    r"\bquestions? (?:\w+ ){1,3}(?:made|built|written|generated|derived|constructed) (?:from|of|by)\b"
    r"|\b(?:search|document|retrieval) index\b|\bin (?:the|this) index\b"
    r"|\bthis (?:index|collection)\b|\b(?:the|this) (?:corpus|benchmark|data ?set)\b(?! of)"
    r"|\bthe (?:collection|index) (?:does|has|holds|lacks|seems|contains|may|might|is missing)\b"
    r"|\bgold(?:en)? (?:answers?|labels?|documents?|passages?|paragraphs?|pages?|articles?|hops?|evidence)\b"
    r"|\b(?:two|three|four|multi|\d)-hop\b|\b(?:first|second|third|last|next|each) hop\b"
    r"|\bthe (?:instructions?|rules?|prompts?) (?:says?|tells?|asks?|wants?)\b"
    r"|\bground[- ]truth\b|\bquestion(?:'s)? (?:writer|maker|setter|generator)s?\b|\bannotat(?:ors?|ed|ions?)\b",
    re.IGNORECASE,
)
"""Matches what an agent says about the data set that its question comes from, instead of about the world."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFilterConfig:
    """Limits that an episode has to keep, and how many episodes of a question are kept."""

    min_right_share: float = 0.25
    """Smallest share of right draws on a question; below it a right one may be right by chance. One alone of several
    may by any share, unless a model that is asked the question over what it had read answers alike; 0 asks nothing."""
    max_known_share: float = 0.375
    """Largest share of right answers from memory; above it the question needs no search. One lucky guess of four is not
    above it, nor are three half right ones (`generators.agent_trajectories.rows.weigh_known`); two are."""
    bridges: Bridges = "checked"
    max_tokens: int = 16384
    """Most tokens of a conversation, as `token_estimate` counts them."""
    most: int = 2
    """Most episodes of a question that are kept after all filters."""
    long: LongEpisodeLimits = field(default_factory=LongEpisodeLimits)
    """Limits on the calls of an agent that opens pages. They are no settings of other agents."""

    def __post_init__(self) -> None:
        for name in ("min_right_share", "max_known_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidInput("expected 0 to 1", field=name)
        check_least(self, 1, "most", must="must be")


def judge_episode(row: AgentTrajectory, config: AgentFilterConfig) -> list[Verdict]:
    """Return the verdict of every filter on an episode, the gravest first. There is none on answers from memory where
    the model was not asked for them.
    """
    browses = row.episode.browse is not None
    verdicts = [
        unfinished(row),
        malformed_turns(row, most=config.long.max_slips) if browses else malformed_conversation(row),
        doubtful_gold(row.episode.question, row.golds),
        ambiguous_answer(row),
        near_miss(row),
        wrong_answer(row),
        no_search(row),
        admitted_guess(row),
        unread_query(row, bridges=config.bridges),
        missing_evidence(row),
        ungrounded_answer(row),
        unstated_answer(row),
        other_answers(row),
        open_branch(row),
        answer_before_read(row, bridges=config.bridges),
        speaks_of_data_set(row),
        *(judge_calls(row, config.long) if browses else _judge_searches(row)),
        right_by_chance(row, least=config.min_right_share),
        too_long(row, most=config.max_tokens),
    ]
    memory = row.from_memory
    return [*verdicts, known_from_memory(memory, most=config.max_known_share)] if memory.draws else verdicts


def _judge_searches(row: AgentTrajectory) -> list[Verdict]:
    """Return the verdicts on the searches of an agent of one tool."""
    return [repeated_search(row), early_relation(row), *judge_silence(way_of(row))]


def unfinished(row: AgentTrajectory) -> Verdict:
    """Reject an episode without an answer: a limit or an error ended it, or its last turn cannot be read. Score: 1 for
    an answer."""
    episode = row.episode
    keep = episode.stop == "answered" and bool(episode.answer.strip())
    detail = "" if keep else " ".join(filter(None, [episode.stop, episode.error]))
    return Verdict(keep=keep, reason="unfinished", score=float(keep), detail=detail)


def malformed_conversation(row: AgentTrajectory) -> Verdict:
    """Reject a conversation that breaks its protocol's grammar, or was repaired. Score: the number of broken rules."""
    messages = row.episode.messages
    grammar = PROTOCOLS.get(row.sft_protocol)
    return reject_malformed(grammar.validate(messages, strict=True) if grammar is not None else [])


def ambiguous_answer(row: AgentTrajectory) -> Verdict:
    """Reject an answer that lists several answers, each of them right. Score: number of answers listed."""
    parts = [part for part in _PARTS.split(row.episode.answer) if normalize_answer(part)]
    is_list = row.episode.scores.right < 1.0 and len(parts) > 1 and all(mcts_reward(part, row.golds) for part in parts)
    detail = f"{row.episode.answer!r} is {len(parts)} right answers" if is_list else ""
    return Verdict(keep=not is_list, reason="ambiguous_answer", score=float(len(parts) * is_list), detail=detail)


def near_miss(row: AgentTrajectory) -> Verdict:
    """Reject an answer that the matcher calls wrong but that is part of a gold answer's name: a judge might call it
    right, and none did. Score: 1 for such an answer.
    """
    answer = row.episode.answer
    is_part = any(mentions(gold, answer) for gold in row.golds)
    is_near = row.episode.scores.right < 1.0 and is_part and is_near_miss(answer, row.golds)
    detail = f"{answer!r} beside {row.golds[0]!r}" if is_near else ""
    return Verdict(keep=not is_near, reason="near_miss", score=float(is_near), detail=detail)


def wrong_answer(row: AgentTrajectory) -> Verdict:
    """Reject an answer that is wrong by the matcher (`rewards.matching`), by every title that was read, and by the
    judge. Score: 1 or 0.
    """
    score = row.episode.scores.right
    return reject_wrong(row.episode.answer, row.golds[0], is_right=score >= 1.0, score=score)


def may_be_right(row: AgentTrajectory) -> bool:
    """Tell whether a judge should see the answer: it is near a gold answer but not right so far, in an otherwise sound
    episode on a sound question.
    """
    is_sound = all(
        verdict.keep
        for verdict in (unfinished(row), malformed_conversation(row), no_search(row), ambiguous_answer(row))
    )
    is_sound = is_sound and doubtful_gold(row.episode.question, row.golds).keep and not admission_of(row)
    is_free = not (row.episode.options or row.episode.answer_set)
    return is_sound and is_free and row.episode.scores.right < 1.0 and is_near_miss(row.episode.answer, row.golds)


def no_search(row: AgentTrajectory) -> Verdict:
    """Reject an episode that answers without a search: it would teach to answer from memory. Score: how many searches
    were executed.
    """
    return guesses.reject_no_search(len(row.episode.searches))


def admitted_guess(row: AgentTrajectory) -> Verdict:
    """Reject an episode whose last turn says that it guesses. Score: 1 if it does."""
    return guesses.admitted_guess(admission_of(row))


def unread_query(row: AgentTrajectory, *, bridges: Bridges = "checked") -> Verdict:
    """Reject an episode whose own query names what it has not read, even where a later search supports it. `bridges`
    "any" rejects none.

    That is a name, a number or a hop's answer found neither in the question nor in what the agent was given before.
    Score: how many queries do.
    """
    verdict = guesses.reject_unread(find_unread(row))
    return replace(verdict, keep=True, detail="") if bridges == "any" else verdict


def missing_evidence(row: AgentTrajectory) -> Verdict:
    """Reject an episode whose searches did not find what a hop needs. Score: share of the hops that have it.

    `evidence.find_hops` says what a hop needs. Where no documents are known, the answers of all hops but the last have
    to stand in what was read; where there are no hops either, nothing is known and the score is 1. A model that was
    asked the question over what the agent had read, and answers alike, shows that there is another road.
    """
    has = [place is not None for place in find_hops(row)]
    is_stated_otherwise = bool(has) and any(is_same_reading(reading, row) for reading in row.readings)
    if not has:
        texts = read_texts(row.episode, row.episode.question)
        answers = [hop.answer for hop in row.gold_hops[:-1] if not is_never_quoted(hop.answer)]
        has = [is_stated(texts, [answer]) for answer in answers]
    keep = all(has) or is_stated_otherwise
    detail = "" if keep else f"nothing was found for hop {has.index(False) + 1} of {len(has)}"
    score = round(sum(has) / len(has), 6) if has else 1.0
    return Verdict(keep=keep, reason=LACKING, score=score, detail=detail)


def is_same_reading(reading: FactReading, row: AgentTrajectory) -> bool:
    """Tell whether a model that answered the whole question from what the agent had read gave the agent's answer or a
    gold one. Whether it gave another answer beside it is measured by `other_answers`.
    """
    return has_found(reading, row.episode.question, (row.episode.answer, *row.golds))


def unstated_answer(row: AgentTrajectory) -> Verdict:
    """Reject an answer that, as the readings recorded in the row say, a model did not find when it was asked once more
    over what the agent had read. A row without readings is kept.

    Score: how many of the facts that the answer rests on the model did not find stated. Only episodes that no other
    filter rejects are read again, and only for facts that no sentence and no triple states plainly.
    """
    return count_unstated(row.readings, facts_to_read(row) if row.readings else ())


def other_answers(row: AgentTrajectory) -> Verdict:
    """Reject an episode for which, as the readings recorded in the row say, a model found another answer to the
    question or to a hop as well, which the episode does not rule out. A row without readings is kept.

    Score: the number of facts with another answer.
    """
    is_ruled_out = partial(rules_out, way_of(row))
    return count_rivals(row.readings, facts_to_read(row) if row.readings else (), is_ruled_out)


def open_branch(row: AgentTrajectory) -> Verdict:
    """Reject an episode that follows one of several things it found and says of the others neither what it found nor
    why not.

    A model that reads the episode finds them and records them in the row (`open_branches`); only episodes that no other
    filter rejects are read so, and others are kept. Score: how many there are.
    """
    way = way_of(row) if row.open_branches else None
    return count_open(row.open_branches or (), lambda name: way is not None and is_left_open(way, name))


def ungrounded_answer(row: AgentTrajectory) -> Verdict:
    """Reject an answer that no search of the episode brought, or that the conversation was not given of what searches
    brought: what a call beside the conversation has read is not seen by the turn that answers.

    A gold answer that the episode's answer says in other words, and other names of either, are as good; yes and no are
    exempt. Score: how many of the messages that the agent was given state it; 0 where no search brought it.
    """
    names = names_of_answer(row.episode.answer, row.golds)
    is_found = is_stated(read_texts(row.episode, row.episode.question), names)
    given = (text for message in row.episode.messages if (text := text_given(message, row)))
    stating = sum(is_stated([text], names) for text in given) if is_found else 0
    where = "that who answers was given" if is_found else "that was found"
    return guesses.reject_ungrounded(row.episode.answer, stating, f"nothing {where}")


def answer_before_read(row: AgentTrajectory, *, bridges: Bridges = "checked") -> Verdict:
    """Reject an episode in which a turn says the answer before any text given to it states that answer.

    `bridges` says from when on the answer of a hop other than the last may be said (`filters.guesses.Bridges`). Queries
    count as what is said, the turn that answers does not. The answer itself may not be guessed, nor what a comparison
    draws it from. What stands in the question is no leak, nor are yes and no. Score: how many turns do.
    """
    question, names = row.episode.question, names_of_answer(row.episode.answer, row.golds)
    guarded, read = guarded_facts(question, names, row.gold_hops, bridges), given_by_message(row)
    facts = [fact for fact, _ in guarded]
    leaks: list[tuple[str, str]] = []
    for place, message in enumerate(row.episode.messages[:-1]):
        for fact, may_guess in guarded if message.role == "assistant" else ():
            said = unread_answer(message.content, fact, facts, question, read, place)
            if said and not (may_guess and is_borne_out(row, fact.names, place)):
                leaks.append((said, message.content))
                break
    return guesses.reject_early(leaks)


def speaks_of_data_set(row: AgentTrajectory) -> Verdict:
    """Reject an episode in which a turn speaks of how the question was made, of the index or of gold answers.

    Words that stand in what the agent was given are exempt. Score: how many turns do. What a turn claims to have read
    is not judged: that takes more than words.
    """
    given = [message.content for message in row.episode.messages if message.role != "assistant"]
    turns = [message.content for message in row.episode.messages if message.role == "assistant"]
    words = [match.group() for turn in turns for match in [_DATA_SET.search(turn)] if match]
    spoken = [each for each in words if not any(mentions(text, each) for text in given)]
    return count_faults("speaks_of_data_set", spoken, lambda each: f"it says {each!r}")


def repeated_search(row: AgentTrajectory) -> Verdict:
    """Reject an episode whose own turns ask the same again, case and punctuation aside; what a workflow asks by its
    rules does not count. Score: number of repeated searches."""
    said = [message.content for message in row.episode.messages if message.role == "assistant"]
    own = [search for search in row.episode.searches if any(search.query in turn for turn in said)]
    asked = requests_of(own)
    again = [request for place, request in enumerate(asked) if request in asked[:place]]
    return count_faults("repeated_search", again, lambda request: f"{request[0]!r} was searched for before")


def early_relation(row: AgentTrajectory) -> Verdict:
    """Reject an episode that asks a graph for a later hop's relation while it names only the entity from which an
    earlier hop starts: a film, where the place of birth of its director is sought. Score: number of such relations.
    """
    return reject_early_requests(find_early_requests(way_of(row)))


def right_by_chance(row: AgentTrajectory, *, least: float) -> Verdict:
    """Reject an episode when the share of right draws on its question is below `least`, so that this one may be right
    by chance.

    A single right one of several draws is too few, whatever the share. A model's answer to the question from what was
    read counts as a second one, where it is the same. Score: the share of right ones, corrected for chance.
    """
    is_confirmed = is_alone(row) and any(is_same_reading(reading, row) for reading in row.readings)
    share = correct_for_chance((row.right_draws + is_confirmed) / row.draws, row.episode.question, row.golds)
    keep = share >= least and not (least and is_alone(row) and not is_confirmed)
    detail = "" if keep else f"{row.right_draws} of {row.draws} draws are right"
    return Verdict(keep=keep, reason=CHANCE, score=round(share, 6), detail=detail)


def too_long(row: AgentTrajectory, *, most: int) -> Verdict:
    """Reject a conversation with more tokens than the `most` that a trainer takes. Score: its estimated number of
    tokens.
    """
    return reject_too_long(row.token_estimate, most)


def known_from_memory(memory: FromMemory, *, most: float) -> Verdict:
    """Reject a question of which the same model answers more than the share `most` of draws rightly without any search.
    Score: that share, corrected for chance, where half right answers count half. When all replies were cut nothing is
    known, and the question is rejected.
    """
    if not memory.answers:
        detail = f"no verdict: all {memory.draws} replies were cut"
        return Verdict(keep=False, reason=KNOWN, score=0.0, detail=detail)
    weights = {answer: weigh_known(answer, memory.golds) for answer in memory.answers}
    known = sum(weights[answer] for answer in memory.answers)
    share = correct_for_chance(known / len(memory.answers), memory.question, memory.golds)
    best = max(memory.answers, key=lambda answer: weights[answer])
    detail = "" if share <= most else f"{known:g} of {len(memory.answers)} know it, as {best!r}"
    return Verdict(keep=share <= most, reason=KNOWN, score=round(share, 6), detail=detail)


def correct_for_chance(share: float, question: str, golds: Sequence[str]) -> float:
    """Return a share of right answers to a question, less what guessing would give.

    Half of all guesses are right where the gold answer is yes or no, or one that the question names.
    """
    is_choice = is_never_quoted(golds[0]) or mentions(question, golds[0])
    return max(0.0, 2 * share - 1) if is_choice else share
