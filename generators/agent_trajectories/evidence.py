"""Find what an agent had read when it wrote something, and which hops of its question that supports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trailforge.evaluation.results import asked_at, read_texts
from trailforge.filters import SoughtFact, answering_facts, names_of_answer, supports
from trailforge.filters.facts import unsettled_facts
from trailforge.filters.guesses import count_remembering, find_admission, find_unread_name, is_unstated, is_unsure
from trailforge.filters.ways import AskedSearch, Way, names_relation
from trailforge.mcts import references, resolve
from trailforge.protocols import PROTOCOLS
from trailforge.protocols.browse import cited_results, names_told
from trailforge.rewards import is_never_quoted, mentions, normalize_answer, states
from trailforge.schemas import AgentSearch, AgentTrajectory, BrowseRecord, Message, Passage

_NUMBER = re.compile(r"^\d+\. (?=\[)")
"""The number of a result of a search, before its page."""


def is_stated(texts: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether one of the texts states one of the names, which all name the same thing."""
    return any(states(text, name) for text in texts for name in names)


def text_given(message: Message, row: AgentTrajectory) -> str:
    """Return the text that a message of the row's conversation gives to the agent, without the question; empty for the
    agent's own turns and for instructions.
    """
    return message.content.replace(row.episode.question, " ") if message.role in ("user", "tool") else ""


def requests_of(searches: Sequence[AgentSearch]) -> list[tuple[str, ...]]:
    """Return what each search asks for, its query, entities and relations, ignoring case and punctuation."""
    return [tuple(map(normalize_answer, (each.query, *each.entities, *each.relations))) for each in searches]


def is_borne_out(row: AgentTrajectory, names: Sequence[str], place: int) -> bool:
    """Tell whether something read after the turn at `place`, the index of its message, states the thing that the turn
    guessed, under one of `names`.

    Whether the hop's own document was found is measured by the filter `missing_evidence`. Where the documents are not
    known, only results of a search count that did not search for the guess: a passage found by a name contains the
    name.
    """
    messages, queries = row.episode.messages, [search.query for search in row.episode.searches]
    is_known, asked = bool(row.episode.scores.found_at), False
    for message in messages[place:]:
        if message.role == "assistant":
            own = [query for query in queries if query in message.content]
            asked = any(mentions(query, name) for query in own for name in names)
        elif is_stated([text_given(message, row)], names) and (is_known or not asked):
            return True
    return False


def find_unread(row: AgentTrajectory) -> list[str]:
    """Return what the agent's own queries name although neither the question nor anything read before does, a text for
    each such query, however many things it names.
    """
    return [what for _, what in _unread_queries(row)]


def unread_turns(row: AgentTrajectory) -> set[int]:
    """Return the indices of the messages in which the agent searches for something that it had not read."""
    return {place for place, _ in _unread_queries(row)}


def _unread_queries(row: AgentTrajectory) -> Iterator[tuple[int, str]]:
    episode = row.episode
    rules = [message.content for message in episode.messages if message.role == "system"]
    names = names_of_answer(episode.answer, row.golds)
    facts = answering_facts(episode.question, names, row.gold_hops) if row.gold_hops else ()
    read = given_by_message(row)
    for place, search in zip(asked_at(episode), episode.searches, strict=True):
        if place is None:
            continue
        asked = " ; ".join((search.query, *search.entities))
        if unread := find_unread_name(asked, episode.question, facts, read, place, rules=rules):
            yield place, f"{search.query!r}: {unread}"


def given_by_message(row: AgentTrajectory) -> list[list[Passage]]:
    """Return for each message of the conversation what it gives to the agent: the passages and triples of a result, or
    else its text.
    """
    found: dict[int, list[Passage]] = {}
    asked = [] if row.episode.browse is not None else zip(asked_at(row.episode), _read_by_search(row), strict=True)
    for place, passages in asked:
        if place is not None and passages:
            found.setdefault(place + 1, []).extend(passages)
    texts = (text_given(message, row) for message in row.episode.messages)
    return [found.get(n, [Passage(id="", title="", text=text, score=0.0)]) for n, text in enumerate(texts)]


def find_hops(row: AgentTrajectory) -> tuple[int | None, ...]:
    """Return for each hop the number (from 0) of the search that first found what it needs, or None.

    That is its supporting document, or another passage with its answer and a word of its subject. Where not each hop
    has a document of its own, and for agents that open pages, only the supporting documents count, as in the episode's
    scores.
    """
    found_at = row.episode.scores.found_at
    if not found_at or len(found_at) != len(row.gold_hops) or row.episode.browse is not None:
        return found_at
    read, answers = _read_by_search(row), {n: hop.answer for n, hop in enumerate(row.gold_hops, start=1)}
    places: list[int | None] = []
    for hop, document in zip(row.gold_hops, found_at, strict=True):
        names = [hop.answer, *(row.golds if hop is row.gold_hops[-1] else ())]
        given = [answers[each] for each in references(hop.question) if each in answers]
        asked = resolve(hop.question, answers)
        told = (
            place
            for place, passages in enumerate(read)
            if not is_never_quoted(hop.answer)
            and any(supports(passage, asked, name, given) for passage in passages for name in names)
        )
        places.append(min((place for place in (document, next(told, None)) if place is not None), default=None))
    return tuple(places)


def way_of(row: AgentTrajectory) -> Way:
    """Return the searches, thoughts and answer of an episode as a `Way`, the form in which the rules for all data sets
    read them. A search that no turn of the agent asks for has no thought.
    """
    episode, used = row.episode, find_hops(row)
    messages, read = episode.messages, _read_by_search(row)
    searches = (
        AskedSearch(
            thought=_thought_of(messages[place], row, search.query) if place is not None else "",
            query=search.query,
            entities=search.entities if place is not None else (),
            relations=search.relations if place is not None else (),
            passages=tuple(read[number]),
            unused=sum(not any(names_relation(text, each) for text in search.triples) for each in search.relations),
            is_needless=bool(used) and number not in used,
        )
        for number, (place, search) in enumerate(zip(asked_at(episode), episode.searches, strict=True))
    )
    last = messages[-1] if messages and messages[-1].role == "assistant" else None
    return Way(
        question=episode.question,
        answer=episode.answer,
        hops=row.gold_hops,
        searches=tuple(searches),
        last_thought=_thought_of(last, row, "") if last is not None else "",
        told=" ".join(message.content for message in messages if message.role == "system"),
    )


def _thought_of(message: Message, row: AgentTrajectory, query: str) -> str:
    """What a turn says beside its query or answer."""
    grammar = PROTOCOLS.get(row.sft_protocol)
    turn = grammar.read_turn(message) if grammar is not None else None
    return turn.thought if turn is not None else message.content.replace(query, " ") if query else message.content


def read_by(row: AgentTrajectory) -> list[Passage]:
    """Return everything that the agent read as passages, each once.

    That is all passages and triples it was given; where separate calls read for it, what they said; for an agent that
    opens pages, the results that show what its answer cites.
    """
    if row.episode.browse is not None:
        return _each_once(_cited_passages(row.episode.browse))
    found = [passage for passages in _read_by_search(row) for passage in passages]
    if not found:
        found = [
            Passage(id="", title="", text=text, score=0.0)
            for text in read_texts(row.episode, row.episode.question)
            if text.strip()
        ]
    return _each_once(found)


def _cited_passages(record: BrowseRecord) -> Iterator[Passage]:
    """The results that show what the answer cites. What one search has shown the results of the next leave out."""
    shown = set[str]()
    for call, text in cited_results(record):
        title = call.titles[0] if call.tool == "open" else ""
        if call.tool == "search":
            passages = dict.fromkeys(_NUMBER.sub("", line) for line in text.splitlines())
            text = "\n".join(each for each in passages if each not in shown)
            shown.update(passages)
        if text:
            yield Passage(id="", title=title, text=text, score=0.0)


def _each_once(passages: Iterable[Passage]) -> list[Passage]:
    return list({(passage.title, passage.text): passage for passage in passages}.values())


def admission_of(row: AgentTrajectory) -> str:
    """Return the clause in which the last turn says that it guesses or remembers its answer, or an empty text.

    After long research a turn also tells of pages that said nothing: where a cited part states the answer, that is no
    admission. That the agent is not sure stays one: to state a name is not to bear every link.
    """
    messages, names = row.episode.messages, names_of_answer(row.episode.answer, row.golds)
    last = messages[-1].content if messages and messages[-1].role == "assistant" else ""
    read = [text for message in messages if (text := text_given(message, row))]
    found = find_admission(last, names, read)
    record = row.episode.browse
    if record is not None and is_stated([text for _, text in cited_results(record)], names):
        while found in last and is_unstated(found) and not (is_unsure(found) or count_remembering([found])):
            last = last.replace(found, " ")
            found = find_admission(last, names, read)
    return found


def lacks_document(row: AgentTrajectory) -> bool:
    """Tell whether no search found what some hop of the question needs."""
    return any(place is None for place in find_hops(row))


def facts_to_read(row: AgentTrajectory) -> tuple[SoughtFact, ...]:
    """Return the facts behind an episode's answer that nothing the agent read names plainly, for a model to look up.

    Where what a hop needs was not found, that is the question as a whole, since another route may lead to the answer;
    it is asked, too, where no other draw on the question is right. What a page that the agent was shown calls a fact's
    answer besides is a name of that answer, too.
    """
    episode, names = row.episode, names_of_answer(row.episode.answer, row.golds)
    hops = () if lacks_document(row) else row.gold_hops
    facts = unsettled_facts(episode.question, names, hops, read_by(row))
    whole = answering_facts(episode.question, names, ()) if hops and is_alone(row) else ()
    called = [each for message in episode.messages for each in names_told(text_given(message, row))]
    return tuple(replace(fact, names=_with_told(fact.names, called)) for fact in (*facts, *whole))


def is_alone(row: AgentTrajectory) -> bool:
    """Tell whether the episode is the only right one of several draws on its question."""
    return row.right_draws == 1 < row.draws


def _with_told(names: Sequence[str], called: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The names, with the other names of what goes by one of them."""

    def is_of(told: tuple[str, ...]) -> bool:
        before, *others = map(normalize_answer, told)
        return any(f" {before}".endswith(f" {name}") or name in others for name in map(normalize_answer, names) if name)

    return tuple(dict.fromkeys([*names, *(each for told in called if is_of(told) for each in told[1:])]))


def _read_by_search(row: AgentTrajectory) -> list[list[Passage]]:
    """The passages that the agent was given for each search, and the triples; none where no turn of its own asks."""
    messages, asked = row.episode.messages, asked_at(row.episode)
    found: list[list[Passage]] = []
    for place, search in zip(asked, row.episode.searches, strict=True):
        results = [] if place is None else messages[place + 1 : _next_turn(messages, place)]
        texts = [text for each in results for text in _passages_of(each.content, row.sft_protocol)]
        texts += [("", triple) for triple in search.triples]
        found.append([Passage(id="", title=title, text=text, score=0.0) for title, text in texts])
    return found


def _next_turn(messages: Sequence[Message], place: int) -> int:
    later = (n for n in range(place + 1, len(messages)) if messages[n].role == "assistant")
    return next(later, len(messages))


def _passages_of(result: str, protocol: str) -> list[tuple[str, str]]:
    return PROTOCOLS[protocol].read_passages(result) if protocol in PROTOCOLS else [("", result)]
