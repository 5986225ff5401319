"""Make episodes along the gold decomposition, for a model that is too small to search by itself.

Given are the sub-questions and their order, and the form of each turn. The model's own are the choices within it: which
names and which relation a search asks the graph for, and what it takes from the results. What it reads wrongly stays
wrong: the next query is made of it, and so some episodes fail.

A comparison has two branches, which are searched for as the data set puts them in order; what they come to the model
decides without another search.

The thoughts are sentences drawn from `prompts/kg_thoughts.yaml` by a seeded generator. One before a search knows the
answers of earlier searches alone; an answer is given with the source that shows it, or as a guess where none does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from trailforge.generators.document_bundles import join_phrases, names_in
from trailforge.generators.kg_trajectories import Reading, SearchTool, clean_answer
from trailforge.inference import Asker, Prompts, Sampling, Sentences, fill
from trailforge.mcts import references, resolve
from trailforge.protocols import KG_SEARCH, EpisodeRun, EpisodeStep, Search, StopReason, Turn, one_line
from trailforge.protocols.result_filters import SURE
from trailforge.retrieval import Retrieval
from trailforge.retrieval.kg import KgStore, content_words, match_entity, match_relation, name_words
from trailforge.rewards import mentions, normalize_answer
from trailforge.schemas import KgStep, KgTriple, Message, Passage, compared_names, estimate_tokens
from trailforge.small_model.composing.composing import candidates, choice_of
from trailforge.small_model.composing.mentions import mentions_of, names_of

PROMPTS = Prompts("trailforge.small_model")
_CHOICE_TOKENS = 48
_MOST_WORDS = 3
"""Of a query that together may name a relation, or a thing that is written small."""
_MOST_AFTER = 8
"""Words after a name that may belong to it."""
_FEWEST_LETTERS = 3
"""Of a word that may be a thing: graphs know `be` as Belgium."""


def name_choices(store: KgStore, query: str, known: Sequence[str]) -> list[str]:
    """Return the names that a query is about: the answers of earlier hops (`known`), then names recognised by capitals,
    else the first words in lower case that an entity of the graph is called by.
    """
    looks = [*names_in(query)] or [mention.text for mention in mentions_of(query) if mention.kind == "name"]
    every = dict.fromkeys([*known, *(look.strip(" <>") for look in looks)])
    names = [name for name in every if name in known or not name.isdigit()]
    if names:
        whole = dict.fromkeys(_with_tail(store, query, name) for name in names)
        return [name for name in whole if not any(name != other and name in other for other in whole)]
    things = (run for run in _runs(query) if any(m.score >= SURE for m in match_entity(store, run, query, 1)))
    return [thing for thing in (next(things, None),) if thing]


async def relation_choices(
    store: KgStore, retrieval: Retrieval, query: str, entities: Sequence[str], most: int
) -> list[str]:
    """Return the labels of at most `most` relations, the one most like the query first.

    Considered are the relations of the entities that the names `entities` stand for, and those that words of the query
    name surely; where the entities have none, also those whose names only resemble words of the query. `retrieval`
    ranks them: each by all its names, against the query without `entities`.
    """
    rest = query
    for entity in entities:
        rest = rest.replace(entity, "")
    around = _relations_around(store, query, entities)
    alike = [match for run in _runs(rest) for match in match_relation(store, run, 2)]
    ids = dict.fromkeys([*(match.relation_id for match in alike if match.score >= SURE or not around), *around])
    rows = {relation: store.relation_names[store.relation_row(relation)] for relation in ids}
    read = [Passage(id=key, title="", text=", ".join(names), score=0.0) for key, names in rows.items()]
    nearest = dict.fromkeys(passage.id for passage, _ in await retrieval.best_sentences(rest, read, len(read)))
    return list(dict.fromkeys(store.relation_label(relation) for relation in nearest))[:most]


def _with_tail(store: KgStore, query: str, name: str) -> str:
    """A name with what stands after it, where the graph knows both together: `La traviata`, `Ana, mon amour`."""
    _, _, rest = query.partition(name)
    words = rest.rstrip(" ?").split(" ")[: _MOST_AFTER + 1] if rest[:1] in (" ", ",", ";", ":") else []
    longer = (name + " ".join(words[: n + 1]) for n in range(len(words) - 1, 0, -1))
    return next((text for text in longer if any(m.score >= SURE for m in match_entity(store, text, query, 1))), name)


def some_of(choices: Sequence[str], most: int) -> str:
    """Return a grammar (GBNF) for one to `most` of these choices with `; ` between them, and the line's end."""
    item = " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    more = ' ("; " item)?' * (most - 1)
    return f'root ::= " " item{more} "\\n"\nitem ::= {item}'


def _runs(query: str) -> Iterable[str]:
    """Runs of neighbouring words that say something, the longest first."""
    wanted = content_words(query)
    words = [word for word in name_words(query) if word in wanted and len(word) >= _FEWEST_LETTERS]
    return (" ".join(words[i : i + n]) for n in range(_MOST_WORDS, 0, -1) for i in range(len(words) - n + 1))


def _relations_around(store: KgStore, query: str, entities: Iterable[str]) -> list[str]:
    """The relations of what the tool will look up for these names."""
    best = [match.entity_id for entity in entities for match in match_entity(store, entity, query, 1)]
    return [r for entity in best for side in ("out", "into") for r, _ in store.relations_of(entity, side)]


_YEAR = re.compile(r"\d{3,4}")
_ASKS_YEAR = re.compile(r"(?:(?:In|Since|Until) (?:which|what) year|When|Since when|Until when) ", re.IGNORECASE)
_ASKS_WHETHER = re.compile(r"(?:Is|Are|Was|Were|Do|Does|Did|Has|Have|Had|Can|Could) ", re.IGNORECASE)
_COUNTS = re.compile(r"How many ", re.IGNORECASE)
_GLUE = re.compile(r" (?:of|of the|es|in the|for the|on the) ")
_SOMETHING = 'root ::= " " [^ \\t\\n.,;:!?{}"] [^\\n]* "\\n"'
"""A line that says something."""


def offer_spans(
    query: str,
    triples: Sequence[KgTriple],
    sentences: Sequence[tuple[Passage, str]],
    passages: Sequence[Passage],
    searched: Collection[str],
) -> str:
    """Return a grammar (GBNF) for the possible answers to a query in sentences and triples; for any line without one.

    `passages` are those that the sentences are from, `searched` the ids of the entities that the query is about.
    """
    spans = [*_ends(query, triples, searched), *_stretches(query, sentences, passages)]
    return choice_of(spans) if spans else _SOMETHING


def _ends(query: str, triples: Iterable[KgTriple], searched: Collection[str]) -> list[str]:
    """The ends of triples that can answer: years to a question for one, other names to others, not what it is about."""
    if _COUNTS.match(query):
        return []
    wants_year = bool(_ASKS_YEAR.match(query))
    both = ((key, end) for t in triples for key, end in ((t.tail, t.tail_label), (t.head, t.head_label)))
    ends = dict.fromkeys(end for key, end in both if key not in searched)
    return [end for end in ends if bool(_YEAR.fullmatch(end)) == wants_year and not mentions(query, end)]


def _stretches(query: str, sentences: Sequence[tuple[Passage, str]], passages: Sequence[Passage]) -> list[str]:
    """Names, dates and figures that stand in the sentences; documents' titles count as names."""
    names = names_of(passages)
    spans = [span for _, sentence in sentences for span in candidates(query, sentence, names)]
    if _COUNTS.match(query) or _ASKS_YEAR.match(query):
        return spans
    titles = dict.fromkeys(re.sub(r" \(.*\)$", "", one_line(passage.title)) for passage in passages)
    named = [t for t in titles if t and not mentions(query, t) and any(mentions(s, t) for _, s in sentences)]
    joined = [span for _, sentence in sentences for span in _joined(sentence) if not mentions(query, span)]
    return [*named, *joined, *spans]


def _joined(sentence: str) -> list[str]:
    """Two names with a small word between them, which may be one: `Heart of Darkness`, `Dar es Salaam`."""
    found = [mention for mention in mentions_of(sentence) if mention.kind == "name"]
    pairs = [(one, other) for one, other in pairwise(found) if _GLUE.fullmatch(sentence[one.end : other.start])]
    return [sentence[one.start : other.end] for one, other in pairs]


class Guide:
    """Makes guided episodes with a small model: the plug-in `guided` of the group `trailforge.leaders`."""

    offer = staticmethod(offer_spans)

    async def lead(self, tool: SearchTool, asker: Asker, sample: int) -> EpisodeRun:
        """Make one episode along the gold decomposition of the tool's question. `sample` numbers the episode among
        those of the question, and seeds its draws.
        """
        return await GuidedEpisode(tool=tool, asker=asker, sample=sample).run()


@dataclass(slots=True, kw_only=True)
class GuidedEpisode:
    """One guided episode while it is being made."""

    tool: SearchTool
    asker: Asker
    sample: int
    _steps: list[EpisodeStep] = field(default_factory=list)
    _messages: list[Message] = field(default_factory=list)

    async def run(self) -> EpisodeRun:
        """Search for every gold hop in order, then answer with the last one's answer, or with what comparing them
        gives.

        It ends as `malformed` where the model reads nothing, and as `too_many_turns` where there are more hops than an
        episode may have turns.
        """
        question, config = self.tool.question, self.tool.context.config
        self._messages += config.grammar.opening(question.question)
        hops = question.decomposition[: question.hop_count]
        compared = question.decomposition[len(hops) :]
        # One seed for all draws: they read the same while they decide the same, so pairs differ where it counts.
        thoughts = Thoughts(f"{self.tool.context.seed}:{question.id}", compares=bool(compared))
        answers: dict[int, str] = {}
        done: KgStep | None = None
        for position, hop in enumerate(hops, start=1):
            if position >= config.episode.max_turns:
                return self._finished("too_many_turns")
            query = one_line(resolve(hop.question, answers))
            search = await self._search(query, [answers[k] for k in references(hop.question) if k in answers])
            self._add_turn(thoughts.following(done, search) if done else thoughts.first(search), search=search)
            done = await self._look(search, hop.question)
            if not done.answer:
                return self._finished("malformed")
            answers[position] = done.answer
        if done is None or not done.answer:
            return self._finished("malformed")
        if not compared:
            self._add_turn(thoughts.last(done), answer=done.answer)
            return self._finished("answered", done.answer)
        resolved = one_line(resolve(compared[-1].question, answers))
        outcome = await self._compare(resolved, compared_names(question.question, compared[-1].question))
        if not outcome:
            return self._finished("malformed")
        found = resolved.removeprefix(question.question).strip(" ()")
        self._add_turn(thoughts.comparing(done, found, outcome), answer=outcome)
        return self._finished("answered", outcome)

    # What the model decides

    async def _search(self, query: str, known: Sequence[str]) -> Search:
        """The search for a query: names in it and a relation, as the model chooses."""
        context, guided = self.tool.context, self.tool.context.config.guided
        entities = name_choices(context.store, query, known)
        if len(entities) > 1:
            entities = await self._choose("entity", query, entities, guided.max_entities) or entities[:1]
        labels = await relation_choices(context.store, context.retrieval, query, entities, guided.max_relations)
        relations = await self._choose("relation", query, labels, 1) if len(labels) > 1 else labels
        return Search(query=query, entities=tuple(entities), relations=tuple(relations))

    async def _choose(self, kind: str, query: str, choices: Sequence[str], most: int) -> list[str]:
        """Up to `most` of the choices, in the model's order; none when its reply was cut."""
        names = self.tool.context.config.prompts
        prompt = PROMPTS.text(names.entity if kind == "entity" else names.relation)
        reply = await self.asker.text(
            fill(prompt, question=query, choices="; ".join(choices)),
            purpose=f"choose_{kind}",
            sampling=self._sampling(),
            sample=self.sample,
            grammar=some_of(choices, most),
        )
        parts = [part.strip() for part in (reply.answer or "").strip().split("; ")]
        return [part for part in dict.fromkeys(parts) if part in choices][:most]

    async def _compare(self, asked: str, names: Sequence[str]) -> str:
        """What a comparison comes to: yes, no or one of the names; empty when the reply was cut.

        `asked`: the question with what was found.
        """
        context = self.tool.context
        names = names or name_choices(context.store, self.tool.question.question, ())
        choices = ["yes", "no"] if _ASKS_WHETHER.match(asked) else [*names]
        reply = await self.asker.text(
            fill(PROMPTS.text(context.config.prompts.comparison), question=asked, choices="; ".join(choices)),
            purpose="compare",
            sampling=self._sampling(),
            sample=self.sample,
            grammar=choice_of(choices) if choices else _SOMETHING,
        )
        return clean_answer(reply.answer or "")

    async def _look(self, search: Search, sub_question: str) -> KgStep:
        """Search, and let the model read what it takes from it."""
        context = self.tool.context
        observation = await self.tool.search(search, self.asker.meter)
        found = observation.detail
        assert isinstance(found, KgStep)  # the tool's own
        reading = Reading(
            context=context, asker=self.asker, temperature=self._temperature, sample=self.sample, offer=offer_spans
        )
        about = {link.entity_id for link in found.entities if link.is_searched and link.entity_id}
        answer = await reading.answer(search.query, found.documents, found.triples_kept, about)
        step = replace(found, sub_question=sub_question, answer=answer or None)
        self._steps[-1] = replace(self._steps[-1], observation=replace(observation, detail=step))
        text = KG_SEARCH.render_result(observation)
        self._messages.append(Message(role="tool", content=text, train=False))
        return step

    @property
    def _temperature(self) -> float:
        guided = self.tool.context.config.guided
        return guided.temperature if self.sample else guided.plain_temperature

    def _sampling(self) -> Sampling:
        config = self.tool.context.config
        return Sampling(
            temperature=self._temperature,
            top_p=config.guided.top_p,
            max_tokens=_CHOICE_TOKENS,
            stop=config.reading.stop,
        )

    # The conversation

    def _add_turn(self, thought: str, *, search: Search | None = None, answer: str | None = None) -> None:
        turn = Turn(thought=thought, search=search, answer=answer)
        text = KG_SEARCH.render_turn(turn)
        self._messages.append(Message(role="assistant", content=text, train=True))
        self._steps.append(EpisodeStep(turn=turn, problem="", observation=None))

    def _finished(self, stop: StopReason, answer: str = "") -> EpisodeRun:
        return EpisodeRun(
            question=self.tool.question.question,
            steps=tuple(self._steps),
            messages=tuple(self._messages),
            stop=stop,
            answer=answer,
            tokens=sum(estimate_tokens(message.content) for message in self._messages[2:]),
        )


class Thoughts:
    """Words the thoughts of one episode, in order; the same for the same seed. No sentence is repeated before the
    others were used.
    """

    def __init__(self, seed: str, *, compares: bool = False) -> None:
        self._suffix = "_comparison" if compares else ""
        self._draw = Sentences(Prompts("trailforge.small_model").pools("kg_thoughts"), seed=seed).draw

    def first(self, search: Search) -> str:
        """Return the thought before the first search."""
        return " ".join([self._draw(f"open{self._suffix}"), *self._asking(search)])

    def following(self, done: KgStep, search: Search) -> str:
        """Return the thought between a search, whose answer is in `done`, and the next."""
        return " ".join([self._finding(done), self._draw(f"next{self._suffix}"), *self._asking(search)])

    def last(self, done: KgStep) -> str:
        """Return the thought after the last search."""
        return f"{self._finding(done)} {self._draw('final')}"

    def comparing(self, done: KgStep, found: str, outcome: str) -> str:
        """Return the thought after the last search of a comparison: what was found for each thing, and the outcome."""
        return f"{self._finding(done)} {self._draw('compare', found=found, answer=one_line(outcome))}"

    def _asking(self, search: Search) -> list[str]:
        names = join_phrases([one_line(name) for name in search.entities])
        relations = join_phrases([f"“{one_line(phrase)}”" for phrase in search.relations])
        sentences = [self._draw("ask", query=one_line(search.query))]
        if names:
            role = "graph" if relations else "graph_names"
            sentences.append(self._draw(role, names=names, relations=relations))
        return sentences

    def _finding(self, step: KgStep) -> str:
        answer = step.answer or ""
        document = next((d for d in step.documents if mentions(f"{d.title}. {d.text}", answer)), None)
        in_graph = any(mentions(triple.text, answer) for triple in step.triples_kept)
        role = "found_both" if document and in_graph else "found_document" if document else "found_nowhere"
        if in_graph and not document:
            role = "found_graph"
        title = one_line(document.title) if document else ""
        if document and normalize_answer(re.sub(r" \(.*\)$", "", title)) == normalize_answer(answer):
            role += "_of_that_name"
        return self._draw(role, answer=one_line(answer).rstrip("."), title=title)
