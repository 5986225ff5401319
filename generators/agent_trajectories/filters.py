"""Why an agent's episode is rejected, which of the others are taken, and pairs of a right and a wrong one.

No filter asks a model: what the model said from memory stands in the row. A filter's score is in the row.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trailforge.evaluation.failures import read_texts
from trailforge.filters.base import count_faults, first_rejection, is_never_quoted
from trailforge.generators.agent_trajectories.record import AgentPair, AgentTrajectory, FromMemory
from trailforge.generators.agent_trajectories.rows import is_known
from trailforge.protocols import PROTOCOLS
from trailforge.rewards import is_near_miss, mcts_reward, mentions, normalize_answer, other_names, same_answer, states
from trailforge.schemas import FilterScore, InvalidInput, Message, Verdict
from trailforge.schemas.agent_episode import AgentSearch

SURPLUS = "surplus"
KNOWN = "known_from_memory"
_PARTS = re.compile(r"[,;/&]|\b(?:and|or|then)\b")
"""Where a list of answers is parted."""
_DATA_SET = re.compile(
    r"\bquestions? (?:\w+ ){1,3}(?:made|built|written|generated|derived|constructed) (?:from|of|by)\b"
    r"|\b(?:search|document|retrieval) index\b|\bin (?:the|this) index\b"
    r"|\bthis (?:index|collection)\b|\b(?:the|this) (?:corpus|benchmark|data ?set)\b(?! of)"
    r"|\bthe (?:collection|index) (?:does|has|holds|lacks|seems|contains|may|might|is missing)\b"
    r"|\bgold(?:en)? (?:answers?|labels?|documents?|passages?|paragraphs?|pages?|articles?|hops?|evidence)\b"
    r"|\bground[- ]truth\b|\bquestion(?:'s)? (?:writer|maker|setter|generator)s?\b|\bannotat(?:ors?|ed|ions?)\b",
    re.IGNORECASE,
)
"""What an agent says of the data set that it is run on, and not of the world."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFilterConfig:
    """What is asked of an episode, and how many of a question are taken."""

    min_right_share: float = 0.25
    """Of the draws on a question: below, a right one may be right by chance. One alone of several may by any share; 0
    asks nothing."""
    max_known_share: float = 0.0
    """Of the answers from memory: above, the question needs no search."""
    bridges: Literal["read_first", "checked", "any"] = "checked"
    """When a turn may say the answer of a hop, but the last. `read_first`: once it was given a text that does.
    `checked`: before that, too, as a guess that a later search bears out. `any`: whenever."""
    max_tokens: int = 16384
    """Of a conversation, as `token_estimate` has it."""
    most: int = 2
    """Episodes of a question, after all filters."""

    def __post_init__(self) -> None:
        for name in ("min_right_share", "max_known_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidInput("expected 0 to 1", field=name)
        if self.most < 1:
            raise InvalidInput("must be 1 or more", field="most")


def judge_episode(row: AgentTrajectory, earlier: Sequence[AgentTrajectory], config: AgentFilterConfig) -> list[Verdict]:
    """Every filter's verdict, the gravest first; none on memory where nobody was asked.

    `earlier`: the kept draws before this one.
    """
    verdicts = [
        unfinished(row),
        malformed(row),
        ambiguous_answer(row),
        near_miss(row),
        wrong_answer(row),
        no_search(row),
        missing_evidence(row),
        ungrounded_answer(row),
        answer_leaked(row, bridges=config.bridges),
        speaks_of_data_set(row),
        repeated_search(row),
        right_by_chance(row, least=config.min_right_share),
        too_long(row, most=config.max_tokens),
        duplicate_episode(row, earlier),
    ]
    memory = row.from_memory
    return [*verdicts, known_from_memory(memory, most=config.max_known_share)] if memory.draws else verdicts


def unfinished(row: AgentTrajectory) -> Verdict:
    """It gives no answer: a limit or an error ended it, or its last turn cannot be read. Score: 1 for an answer."""
    episode = row.episode
    keep = episode.stop == "answered" and bool(episode.answer.strip())
    detail = "" if keep else " ".join(filter(None, [episode.stop, episode.error]))
    return Verdict(keep=keep, reason="unfinished", score=float(keep), detail=detail)


def malformed(row: AgentTrajectory) -> Verdict:
    """A conversation that would be learned breaks its protocol's grammar, or was mended. Score: how many rules."""
    messages = row.episode.messages
    problems = PROTOCOLS[row.sft_protocol].validate(messages, strict=True) if row.sft_protocol else []
    return count_faults("malformed", problems, str)


def ambiguous_answer(row: AgentTrajectory) -> Verdict:
    """It lists several answers, each of them right: it names none. Score: how many."""
    parts = [part for part in _PARTS.split(row.episode.answer) if normalize_answer(part)]
    is_list = row.episode.scores.right < 1.0 and len(parts) > 1 and all(mcts_reward(part, row.golds) for part in parts)
    detail = f"{row.episode.answer!r} is {len(parts)} right answers" if is_list else ""
    return Verdict(keep=not is_list, reason="ambiguous_answer", score=float(len(parts) * is_list), detail=detail)


def near_miss(row: AgentTrajectory) -> Verdict:
    """By the matcher it is wrong, but it is part of a gold answer's name: a judge could find it right, and none is
    asked. Score: 1 for one.
    """
    answer = row.episode.answer
    is_part = any(mentions(gold, answer) for gold in row.golds)
    is_near = row.episode.scores.right < 1.0 and is_part and is_near_miss(answer, row.golds)
    detail = f"{answer!r} beside {row.golds[0]!r}" if is_near else ""
    return Verdict(keep=not is_near, reason="near_miss", score=float(is_near), detail=detail)


def wrong_answer(row: AgentTrajectory) -> Verdict:
    """The answer is not right by the one matcher (`rewards.matching`). Score: 1 or 0."""
    score = row.episode.scores.right
    detail = "" if score >= 1.0 else f"{row.episode.answer!r} instead of {row.golds[0]!r}"
    return Verdict(keep=score >= 1.0, reason="wrong_answer", score=score, detail=detail)


def no_search(row: AgentTrajectory) -> Verdict:
    """It answers without a search: it would teach to answer from memory. Score: executed searches."""
    searches = len(row.episode.searches)
    detail = "" if searches else "no search was executed"
    return Verdict(keep=searches > 0, reason="no_search", score=float(searches), detail=detail)


def missing_evidence(row: AgentTrajectory) -> Verdict:
    """No search brought what a hop needs: the right answer is luck. Score: share of the hops that have theirs.

    That is each supporting document that the data set names. Where it names none, the answers of all hops but the last
    have to stand in what was read; where there are no hops either, nothing is known and the score is 1.
    """
    found_at = row.episode.scores.found_at
    has = [place is not None for place in found_at]
    if not has:
        texts = read_texts(row.episode, row.episode.question)
        answers = [hop.answer for hop in row.gold_hops[:-1] if not is_never_quoted(hop.answer)]
        has = [_is_stated(texts, [answer]) for answer in answers]
    detail = "" if all(has) else f"nothing was found for hop {has.index(False) + 1} of {len(has)}"
    score = round(sum(has) / len(has), 6) if has else 1.0
    return Verdict(keep=all(has), reason="missing_evidence", score=score, detail=detail)


def ungrounded_answer(row: AgentTrajectory) -> Verdict:
    """The answer stands in nothing that its searches brought, or not in what the conversation was given of it.

    What a call beside the conversation has read is not seen by who answers. A gold answer that it says in other words,
    and what either goes by too, are as good; yes and no are exempt. Score: how many turns that it was given state it; 0
    where no search brought it.
    """
    names = names_of_answer(row)
    is_found = _is_stated(read_texts(row.episode, row.episode.question), names)
    given = (text for message in row.episode.messages if (text := _given(message, row)))
    stating = sum(_is_stated([text], names) for text in given) if is_found else 0
    keep = stating > 0 or is_never_quoted(row.episode.answer)
    where = "that who answers was given" if is_found else "that was found"
    detail = "" if keep else f"nothing {where} says {row.episode.answer!r}"
    return Verdict(keep=keep, reason="ungrounded_answer", score=float(stating), detail=detail)


def answer_leaked(row: AgentTrajectory, *, bridges: Literal["read_first", "checked", "any"] = "checked") -> Verdict:
    """A turn says the answer, or that of a hop against the rule of `bridges`, before what it is given states it.

    Queries count as what is said, the turn that answers does not. The answer itself may not be guessed. What stands in
    the question is no leak, nor are yes and no. Score: how many turns do.
    """
    question, texts = row.episode.question, [_given(message, row) for message in row.episode.messages]
    hops = [] if bridges == "any" else [(hop.answer, *other_names(hop.answer)) for hop in row.gold_hops[:-1]]
    sought = [(names_of_answer(row), False), *((names, bridges == "checked") for names in hops)]
    leaks: list[tuple[str, str]] = []
    for place, message in enumerate(row.episode.messages[:-1]):
        if message.role == "assistant":
            for names, may_guess in sought:
                said = next((name for name in names if mentions(message.content, name)), "")
                if not said or any(is_never_quoted(name) or mentions(question, name) for name in names):
                    continue
                if not _is_stated(texts[:place], names) and not (may_guess and _is_borne_out(row, names, place)):
                    leaks.append((said, message.content[:200]))
                    break
    return count_faults("answer_leaked", leaks, lambda leak: f"{leak[0]!r} stands in {leak[1]!r}")


def speaks_of_data_set(row: AgentTrajectory) -> Verdict:
    """A turn speaks of how the question was made, of the index or of gold answers, as nobody does who asks the world.

    Words that stand in what it was given are exempt. Score: how many turns do. What a turn claims to have read is not
    judged: that takes more than words.
    """
    given = [message.content for message in row.episode.messages if message.role != "assistant"]
    turns = [message.content for message in row.episode.messages if message.role == "assistant"]
    words = [match.group() for turn in turns for match in [_DATA_SET.search(turn)] if match]
    spoken = [each for each in words if not any(mentions(text, each) for text in given)]
    return count_faults("speaks_of_data_set", spoken, lambda each: f"it says {each!r}")


def repeated_search(row: AgentTrajectory) -> Verdict:
    """It asks the same again, case and punctuation aside, in turns of its own: what a workflow asks by its rules is not
    its choice. Score: how many searches do."""
    said = [message.content for message in row.episode.messages if message.role == "assistant"]
    own = [search for search in row.episode.searches if any(search.query in turn for turn in said)]
    asked = _requests(own)
    again = [request for place, request in enumerate(asked) if request in asked[:place]]
    return count_faults("repeated_search", again, lambda request: f"{request[0]!r} was searched for before")


def right_by_chance(row: AgentTrajectory, *, least: float) -> Verdict:
    """Too few draws on its question are right: this one may be by chance. Of several draws one is too few, whatever the
    share. Score: the share of right ones, corrected for chance.
    """
    share = correct_for_chance(row.right_draws / row.draws, row.episode.question, row.golds)
    is_alone = row.right_draws < 2 <= row.draws
    keep = share >= least and not (least and is_alone)
    detail = "" if keep else f"{row.right_draws} of {row.draws} draws are right"
    return Verdict(keep=keep, reason="right_by_chance", score=round(share, 6), detail=detail)


def too_long(row: AgentTrajectory, *, most: int) -> Verdict:
    """Its conversation has more tokens than a trainer takes. Score: how many, estimated."""
    keep = row.token_estimate <= most
    detail = "" if keep else f"{row.token_estimate} tokens (at most {most})"
    return Verdict(keep=keep, reason="too_long", score=float(row.token_estimate), detail=detail)


def duplicate_episode(row: AgentTrajectory, earlier: Sequence[AgentTrajectory]) -> Verdict:
    """It searches and answers the same as an earlier draw that was kept. Score: how many do."""
    same = [other for other in earlier if _signature(other) == _signature(row)]
    return count_faults("duplicate_episode", same, lambda other: f"same as {other.uid}")


def known_from_memory(memory: FromMemory, *, most: float) -> Verdict:
    """The same model answers the question without any search. Score: share of right answers, corrected for chance.

    When all replies were cut nobody knows, and the question is not taken.
    """
    if not memory.answers:
        detail = f"no verdict: all {memory.draws} replies were cut"
        return Verdict(keep=False, reason=KNOWN, score=0.0, detail=detail)
    known = [answer for answer in memory.answers if is_known(answer, memory.golds)]
    share = correct_for_chance(len(known) / len(memory.answers), memory.question, memory.golds)
    detail = "" if share <= most else f"{len(known)} of {len(memory.answers)} know it, as {known[0]!r}"
    return Verdict(keep=share <= most, reason=KNOWN, score=round(share, 6), detail=detail)


def correct_for_chance(share: float, question: str, golds: Sequence[str]) -> float:
    """A share of right answers as if nobody guessed.

    Half of all guesses are right where the answer is yes or no, or one that the question names.
    """
    is_choice = is_never_quoted(golds[0]) or mentions(question, golds[0])
    return max(0.0, 2 * share - 1) if is_choice else share


def names_of_answer(row: AgentTrajectory) -> tuple[str, ...]:
    """The answer, the gold answers that it says in other words, and what each goes by, too."""
    answer = row.episode.answer
    said = [answer, *(gold for gold in row.golds if same_answer(answer, gold))]
    return tuple(dict.fromkeys(name for each in said for name in (each, *other_names(each)) if name.strip()))


# Which are taken, and pairs


Rejected = tuple[AgentTrajectory, Verdict]
"""With the first verdict against it."""


def select(rows: Sequence[AgentTrajectory], config: AgentFilterConfig) -> tuple[list[AgentTrajectory], list[Rejected]]:
    """All draws on a question, each once and with what its filters measured: those that are taken, best first, and the
    others in the order of their draws.

    The best is the one with the fewest searches, then the shortest: all of them are right. The cap comes last.
    """
    sound: list[AgentTrajectory] = []
    rejected: list[Rejected] = []
    for row in rows:
        verdicts = judge_episode(row, sound, config)
        row, against = replace(row, filters=_scores(verdicts)), first_rejection(verdicts)
        if against is None:
            sound.append(row)
        else:
            rejected.append((row, against))
    sound.sort(key=lambda row: (len(row.episode.searches), row.token_estimate, row.sample))
    detail = f"{config.most} better ones were taken"
    surplus = Verdict(keep=False, reason=SURPLUS, score=float(config.most), detail=detail)
    rejected += [(row, surplus) for row in sound[config.most :]]
    return sound[: config.most], sorted(rejected, key=lambda each: each[0].sample)


def preference_pairs(good: Sequence[AgentTrajectory], rejected: Sequence[Rejected], most: int) -> list[AgentPair]:
    """At most so many pairs of a right and a wrong episode of one question, those that part latest first.

    The wrong one answers, and not nearly right: a pair must not rest on the form of a name. Both have the same prompt
    up to a turn of the agent's; where they differ before, as agents of several calls do in what they are sent, there is
    no pair. Each wrong one is used once, and none that is the same from there on as one that was taken.
    """
    pairs: dict[tuple[object, ...], AgentPair] = {}
    for row, verdict in rejected:
        if not is_plainly_wrong(row):
            continue
        parted = [(place, one) for one in good if (place := parting(one, row)) is not None]
        if parted:
            place, one = max(parted, key=lambda each: each[0])
            pairs.setdefault(row.episode.messages[: place + 1], _pair(one, row, verdict, place))
    return sorted(pairs.values(), key=lambda pair: (-pair.diverges_at, pair.uid))[:most]


def is_plainly_wrong(row: AgentTrajectory) -> bool:
    """Does it end with an answer that is wrong, and shares no name or number with a gold one?"""
    episode = row.episode
    is_wrong = episode.stop == "answered" and bool(episode.answer.strip()) and episode.scores.right < 1.0
    return is_wrong and not is_near_miss(episode.answer, row.golds)


def parting(good: AgentTrajectory, bad: AgentTrajectory) -> int | None:
    """The message at which two episodes differ first, if it is the agent's in both; else None."""
    messages = list(zip(good.episode.messages, bad.episode.messages, strict=False))
    place = next((n for n, (one, other) in enumerate(messages) if one != other), None)
    if place is None or any(message.role != "assistant" for message in messages[place]):
        return None
    return place


def _pair(good: AgentTrajectory, bad: AgentTrajectory, verdict: Verdict, place: int) -> AgentPair:
    keys = tuple(dict.fromkeys((*good.provenance.call_keys, *bad.provenance.call_keys)))
    episode = good.episode
    return AgentPair(
        uid=hashlib.sha256(f"{good.uid}\0{bad.uid}".encode()).hexdigest()[:16],
        question_id=good.question_id,
        question=episode.question,
        answer=good.golds[0],
        agent=good.agent,
        agent_config=good.agent_config,
        protocol=good.sft_protocol,
        backend=episode.backend,
        index=episode.index,
        good_uid=good.uid,
        bad_uid=bad.uid,
        good_messages=episode.messages,
        bad_messages=bad.episode.messages,
        diverges_at=place,
        bad_answer=bad.episode.answer,
        reason=verdict.reason,
        detail=verdict.detail,
        provenance=replace(good.provenance, call_keys=keys),
    )


def _scores(verdicts: Sequence[Verdict]) -> tuple[FilterScore, ...]:
    return tuple(
        FilterScore(name=each.reason, score=each.score, passed=each.keep, reason=each.detail) for each in verdicts
    )


def _is_stated(texts: Sequence[str], names: Sequence[str]) -> bool:
    return any(states(text, name) for text in texts for name in names)


def _is_borne_out(row: AgentTrajectory, names: Sequence[str], place: int) -> bool:
    """Does something state the guess of the turn at `place` after it?

    That the hop's own document came is for `missing_evidence`. Where the documents are not known, it has to be what a
    turn was given that did not search for the guess: a passage that is found by a name has the name.
    """
    messages, queries = row.episode.messages, [search.query for search in row.episode.searches]
    is_known, asked = bool(row.episode.scores.found_at), False
    for message in messages[place:]:
        if message.role == "assistant":
            own = [query for query in queries if query in message.content]
            asked = any(mentions(query, name) for query in own for name in names)
        elif _is_stated([_given(message, row)], names) and (is_known or not asked):
            return True
    return False


def _given(message: Message, row: AgentTrajectory) -> str:
    """What a turn gives to the agent, without the question; empty for its own turns and for rules."""
    return message.content.replace(row.episode.question, " ") if message.role in ("user", "tool") else ""


def _requests(searches: Sequence[AgentSearch]) -> list[tuple[str, ...]]:
    return [tuple(map(normalize_answer, (each.query, *each.entities, *each.relations))) for each in searches]


def _signature(row: AgentTrajectory) -> tuple[object, ...]:
    return tuple(_requests(row.episode.searches)), normalize_answer(row.episode.answer)
