"""Reasons to reject a KG-search episode. None of these filters asks a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from trailforge.filters import guesses
from trailforge.filters.base import count_faults, names_of_answer, reject_low_reward, reject_malformed, reject_wrong
from trailforge.filters.facts import SoughtFact, answering_facts, unsettled_facts
from trailforge.filters.grounding import is_title_of_gold
from trailforge.filters.guesses import (
    Bridges,
    count_remembering,
    find_admission,
    find_unread_name,
    guarded_facts,
    unread_answer,
)
from trailforge.filters.kg.searches import bears_out, passages_of, redundant_steps, request_of, texts_of, way_of
from trailforge.filters.questions import doubtful_gold
from trailforge.filters.readings import count_rivals, count_unstated
from trailforge.filters.ways.branches import rules_out
from trailforge.filters.ways.ranking import find_early_requests, reject_early_requests
from trailforge.filters.ways.silent import judge_silence
from trailforge.protocols import KG_SEARCH
from trailforge.rewards import (
    mcts_reward,
    mentions,
    normalize_answer,
    same_answer,
)
from trailforge.schemas import Hop, KgStep, KgTrajectory, KgTriple, Passage, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class KgEpisodeFilterConfig:
    """Which filters an episode must pass, with their limits."""

    GONE: ClassVar[Mapping[str, str]] = {
        "known_early": "see `bridges`; the answer itself may not be said before it is read"
    }
    min_reward: float | None = None
    """Least reward of an episode; None: no right answer is rejected for its reward.

    A reward is lower for a full name, which F1 measures by the words of a short gold answer, and for each surplus
    search. Episodes are ranked by it in any case.
    """
    bridges: Bridges = "checked"
    grounded: bool = True
    """Whether the final answer has to stand in what was read."""
    intermediate_answers: bool = True
    """Whether guided episodes have to be right at every hop."""


def judge_kg_episode(row: KgTrajectory, config: KgEpisodeFilterConfig) -> list[Verdict]:
    """Return every filter's verdict on an episode, the gravest first. Whether it nearly repeats another episode is not
    judged here, but where a question's episodes are chosen.
    """
    verdicts = [malformed_conversation(row), no_search(row), doubtful_gold(row.question, row.golds), wrong_answer(row)]
    verdicts.append(admitted_guess(row))
    if config.grounded:
        verdicts.append(ungrounded_answer(row))
    verdicts += [unstated_answer(row), other_answers(row)]
    if config.intermediate_answers:
        verdicts.append(wrong_hop_answer(row))
    return [
        *verdicts,
        unread_query(row, bridges=config.bridges),
        answer_before_read(row, bridges=config.bridges),
        unfitting_relation(row),
        early_relation(row),
        *judge_silence(way_of(row)),
        idle_search(row),
        *([] if config.min_reward is None else [low_reward(row, least=config.min_reward)]),
    ]


def malformed_conversation(row: KgTrajectory) -> Verdict:
    """Reject an episode that breaks the protocol's grammar, ends without an answer or had to be repaired. Score: the
    number of broken rules.
    """
    problems = KG_SEARCH.validate(row.messages, strict=True)
    return reject_malformed(problems, row.stop)


def no_search(row: KgTrajectory) -> Verdict:
    """Reject an episode that answers without a search: it would teach to answer from memory.

    Score: executed searches.
    """
    return guesses.reject_no_search(row.num_tool_calls)


def wrong_answer(row: KgTrajectory) -> Verdict:
    """Reject a wrong final answer. Score: 1.0 for a right answer, else 0.0; the judge's score, where one was asked.

    An answer is compared by the matcher, with the titles of what was read, which may spell it in another way, and by a
    judge for near misses. Cover-EM, by which the reward goes, is not used, as it takes "in" for an answer in "Berlin";
    nor is F1, which takes a full name for half an answer.
    """
    score = mcts_reward(row.final_answer, row.golds)
    is_judged = row.judge_score is not None and row.kind == "good"
    is_right = score > 0 or is_judged or is_titled(row)
    return reject_wrong(row.final_answer, row.answer, is_right=is_right, score=max(score, row.judge_score or 0.0))


def is_titled(row: KgTrajectory) -> bool:
    """Tell whether the final answer is the name that the title of a document it has read gives to the gold answer."""
    return is_title_of_gold(row.final_answer, read_by(row)[0], row.golds)


def ungrounded_answer(row: KgTrajectory) -> Verdict:
    """Reject a final answer when neither it nor a gold answer that it expresses stands in anything that the searches
    showed; yes and no pass. Score: how many searches showed the answer, in a document or in a triple that was kept.
    """
    names = names_of_answer(row.final_answer, row.golds)
    showing = sum(any(shows(step, name) for name in names) for step in row.steps)
    return guesses.reject_ungrounded(row.final_answer, showing, "no document and no triple that was read")


def unstated_answer(row: KgTrajectory) -> Verdict:
    """Reject an episode whose answer was not found by a model that read once more what the episode had read, though the
    words of the answer are there.

    Only `row.readings`, the model's recorded replies, are judged; no model is asked, and a row without any is kept.
    Score: how many of the facts that the answer rests on the model did not find.
    """
    return count_unstated(row.readings, facts_to_read(row) if row.readings else ())


def other_answers(row: KgTrajectory) -> Verdict:
    """Reject an episode for which a model that read once more what the episode had read found another answer as well,
    to the question or to a hop.

    Only `row.readings`, the model's recorded replies, are judged; a row without any is kept. Other answers that the
    episode itself rules out do not count. Score: the number of facts that have another answer.
    """
    is_ruled_out = partial(rules_out, way_of(row))
    return count_rivals(row.readings, facts_to_read(row) if row.readings else (), is_ruled_out)


def wrong_hop_answer(row: KgTrajectory) -> Verdict:
    """Reject an episode that follows the gold hops and reaches the right answer over a wrong one. Score: how many gold
    hops were answered wrongly.

    The last hop is judged by `wrong_answer`, which knows its aliases. Free episodes do not say what they take from a
    search, and are not judged.
    """
    return count_faults(
        "wrong_hop_answer",
        wrong_steps(row),
        lambda wrong: f"{wrong[0].answer!r} instead of {wrong[1].answer!r} to {wrong[0].query!r}",
    )


def admitted_guess(row: KgTrajectory) -> Verdict:
    """Reject an episode whose last turn says that it guesses. Score: 1.0 if it does."""
    last = row.messages[-1].content if row.messages and row.messages[-1].role == "assistant" else ""
    read = [text for step in row.steps for text in texts_of(step)]
    return guesses.admitted_guess(find_admission(last, names_of_answer(row.final_answer, row.golds), read))


def unread_query(row: KgTrajectory, *, bridges: Bridges = "checked") -> Verdict:
    """Reject an episode in which a request names what was not read, even if a search confirms it: it claims before it
    searches.

    That is a name or a hop's answer found neither in the question nor in what was shown before. Score: how many
    requests do. `bridges`, the setting for intermediate answers, decides which of them have to be read first
    (`guesses.Bridges`).
    """
    unread = [] if bridges == "any" else list(unread_requests(row).values())
    return guesses.reject_unread(unread)


def answer_before_read(row: KgTrajectory, *, bridges: Bridges = "checked") -> Verdict:
    """Reject an episode that says the final answer before anything shows it, or an intermediate answer that `bridges`
    forbids to guess (`guesses.Bridges`).

    Score: how many turns do. The final answer may never be guessed. What stands in the question is no leak, nor are yes
    and no.
    """
    return guesses.reject_early(list(leaking_turns(row, bridges=bridges).values()))


def unfitting_relation(row: KgTrajectory) -> Verdict:
    """Reject a guided episode that asks the graph for another relation than the one by which the graph gives the gold
    answer.

    Its answer may stand in the documents all the same, but the request would be learned with it. Score: how many
    searches ask so. Free episodes follow no gold hops, and are not judged.
    """

    def describe(found: tuple[KgStep, KgTriple]) -> str:
        step, fitting = found
        return f"{step.query!r} asks for {', '.join(step.phrases)}; the graph says it by {fitting.relation_label}"

    return count_faults("unfitting_relation", unfitting_steps(row), describe)


def early_relation(row: KgTrajectory) -> Verdict:
    """Reject an episode in which a request asks for a later hop's relation while it names only the subject of an
    earlier hop.

    For example, "The False Step | place of birth" asks a film for what its director has: a graph has no such triple,
    and the request would be learned. Score: the number of such relations. An episode that follows the gold hops is not
    judged, and so is kept.
    """
    return reject_early_requests([] if row.plan else find_early_requests(way_of(row)))


def early_turns(row: KgTrajectory) -> set[int]:
    """Return the numbers of the searches that ask for a later hop's relation too early, for which `early_relation`
    rejects the episode.
    """
    way = way_of(row)
    asking = [search for search, _ in find_early_requests(way)] if not row.plan else []
    return {number for number, search in enumerate(way.searches) if search in asking}


def idle_search(row: KgTrajectory) -> Verdict:
    """Reject an episode with a needless search: one that repeats another, or that finds nothing of use when everything
    that the answer uses has been read before.

    New documents alone are no reason to search. A search that finds nothing of use and is followed by one that does was
    worth a try. Score: the number of redundant searches.
    """
    return count_faults("idle_search", redundant_steps(row), lambda found: f"{found[0].query!r} {found[1]}")


def low_reward(row: KgTrajectory, *, least: float) -> Verdict:
    """Reject an episode whose reward is too low: its answer is right, but it took far more searches than were useful.
    Score: the reward.
    """
    reward = row.reward
    return reject_low_reward(reward.total, least, f"accuracy {reward.r_acc:g}, gain {reward.r_gain:g}")


def duplicate_episode(row: KgTrajectory, earlier: Sequence[KgTrajectory]) -> Verdict:
    """Reject an episode that asks and answers the same as a better one of its question. Score: the number of these.
    `earlier` are the accepted episodes of the question so far.
    """
    same = [other for other in earlier if _signature(other) == _signature(row)]
    return count_faults("duplicate_episode", same, lambda other: f"same as {other.uid}")


def shows(step: KgStep, text: str) -> bool:
    """Tell whether a search shows a text, in a document's title or words or in a triple."""
    return any(mentions(shown, text) for shown in texts_of(step))


def read_by(row: KgTrajectory) -> tuple[list[Passage], list[KgTriple]]:
    """Return the documents and triples that an episode has read, each once."""
    documents = {document.id: document for step in row.steps for document in step.documents}
    triples = {(t.head, t.relation, t.tail): t for step in row.steps for t in step.triples_kept}
    return list(documents.values()), list(triples.values())


def facts_to_read(row: KgTrajectory) -> tuple[SoughtFact, ...]:
    """Return the facts behind the episode's answer that nothing it read states plainly, for a model to look up."""
    return unsettled_facts(row.question, names_of_answer(row.final_answer, row.golds), row.gold_hops, *read_by(row))


def wrong_steps(row: KgTrajectory) -> list[tuple[KgStep, Hop]]:
    """Return the searches in which an episode that follows the gold hops took a wrong answer, each with its hop; the
    last hop is left out.
    """
    asked = zip(row.steps[: len(row.gold_hops) - 1], row.gold_hops, strict=False) if row.plan else ()
    return [(step, hop) for step, hop in asked if not _is_right(step, hop.answer)]


def leaking_turns(row: KgTrajectory, *, bridges: Bridges = "checked") -> dict[int, tuple[str, str]]:
    """Return the turns, by number, that say an answer before it was read, each with that answer and what the turn says.

    With `bridges="checked"` a guessed intermediate answer does not count when a search of that turn or a later one
    shows it in a text about something that was searched for. It does count when a comparison draws the final answer
    from it.
    """
    turns = [message.content for message in row.messages if message.role == "assistant"]
    names = names_of_answer(row.final_answer, row.golds)
    guarded = guarded_facts(row.question, names, row.gold_hops, bridges)
    facts, read = [fact for fact, _ in guarded], [passages_of(step) for step in row.steps]
    leaks: dict[int, tuple[str, str]] = {}
    for fact, may_guess in guarded:
        checked = max((s.index for s in row.steps if may_guess and bears_out(s, fact.names)), default=-1)
        # The turn after a result has read it; an answer that nothing shows is `ungrounded_answer`'s.
        for number, turn in enumerate(turns[:-1]):
            if number <= checked or number in leaks:
                continue
            if said := unread_answer(turn, fact, facts, row.question, read, number):
                leaks[number] = (said, turn)
    return leaks


def count_guesses(row: KgTrajectory) -> int:
    """Count the turns before the last that say what was not read yet, or that say they remember or guess, even if a
    search confirms it.
    """
    turns = [message.content for message in row.messages if message.role == "assistant"]
    return len(leaking_turns(row, bridges="read_first")) + count_remembering(turns[:-1])


def unread_requests(row: KgTrajectory) -> dict[int, str]:
    """Return the requests, by number, that name what was not read before them, each with what it names. A year that
    tells namesakes apart does not count, nor do the words of an agent that follows the gold hops.
    """
    found: dict[int, str] = {}
    names = names_of_answer(row.final_answer, row.golds)
    facts = answering_facts(row.question, names, row.gold_hops) if row.gold_hops else ()
    read = [passages_of(step) for step in row.steps]
    for place, step in enumerate(row.steps if not row.plan else ()):
        asked = " ; ".join((step.query, *step.mentions))
        if unread := find_unread_name(asked, row.question, facts, read, place, years=False):
            found[step.index] = f"{step.query!r}: {unread}"
    return found


def unfitting_steps(row: KgTrajectory) -> list[tuple[KgStep, KgTriple]]:
    """Return the searches that found the gold answer in the graph only by a relation that they do not ask for, each
    with such a triple.
    """
    asked = zip(row.steps, row.gold_hops, strict=False) if row.plan else ()
    giving = [(step, _giving(step, hop.answer)) for step, hop in asked if step.relations]
    return [(step, triples[0]) for step, triples in giving if triples and not _has_asked(step, triples)]


def _is_right(step: KgStep, gold: str) -> bool:
    """Not the name of what was searched for, which may cover the answer: the Volkswagen Beetle is no Volkswagen."""
    answer = step.answer or ""
    subjects = {normalize_answer(link.label or "") for link in step.entities if link.is_searched}
    names_subject = normalize_answer(answer) in subjects - {normalize_answer(gold)}
    return same_answer(answer, gold) and not names_subject


def _giving(step: KgStep, answer: str) -> list[KgTriple]:
    """The offered triples that say it of what was searched for."""
    searched = {link.entity_id for link in step.entities if link.is_searched}
    ends = ((t, ((t.head, t.head_label), (t.tail, t.tail_label))) for t in step.triples_offered)
    return [t for t, both in ends if any(key not in searched and mentions(label, answer) for key, label in both)]


def _has_asked(step: KgStep, triples: list[KgTriple]) -> bool:
    asked = {link.relation_id for link in step.relations}
    return any(triple.relation in asked for triple in triples)


def _signature(row: KgTrajectory) -> tuple[object, ...]:
    return tuple(request_of(step) for step in row.steps), normalize_answer(row.final_answer)
