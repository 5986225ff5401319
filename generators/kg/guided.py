"""Episodes along the gold decomposition, for a model that is too small to search by itself.

Given are the sub-questions and their order, and the form of each turn. The model's own are the choices within it: which
names and which relation a search asks the graph for, and what it takes from the results. What it reads wrongly stays
wrong: the next query is made of it, and so some episodes fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from generators.kg.reading import Reading
from generators.kg.thoughts import Thoughts
from generators.kg.tool import SearchTool
from generators.prompts import load_prompt
from generators.search_thoughts import names_in
from generators.steps.mentions import mentions_of
from inference import Meter, Sampling
from mcts.asker import Asker, fill
from mcts.plan import resolve
from protocols.base import estimate_tokens, one_line
from protocols.episodes import EpisodeRun, EpisodeStep, Segment, StopReason
from protocols.grammar import Search, Turn
from protocols.kg_search import GRAMMAR
from retrieval.kg import KgStore, match_entity, match_relation
from retrieval.kg.folding import content_words, name_words
from schemas import KgStep, Message

_MOST_WORDS = 3
"""Of a query that together may name a relation."""
_CHOICE_TOKENS = 48


@dataclass(slots=True, kw_only=True)
class GuidedEpisode:
    """One episode under way."""

    tool: SearchTool
    asker: Asker
    sample: int
    meter: Meter
    _steps: list[EpisodeStep] = field(default_factory=list)
    _messages: list[Message] = field(default_factory=list)
    _segments: list[Segment] = field(default_factory=list)

    async def run(self) -> EpisodeRun:
        """Search for every gold hop in order, then answer with the last one's answer.

        It breaks off as `malformed` where the model reads nothing, and as `too_many_turns` where the hops are more
        than an episode may have.
        """
        question, config = self.tool.question, self.tool.context.config
        self._messages += GRAMMAR.opening(question.question)
        # One seed for all draws: they read the same as long as they decide the same, so that pairs differ where it counts.
        thoughts = Thoughts(f"{self.tool.context.seed}:{question.id}")
        answers: dict[int, str] = {}
        done: KgStep | None = None
        for position, hop in enumerate(question.decomposition, start=1):
            if position >= config.episode.max_turns:
                return self._finished("too_many_turns")
            query = one_line(resolve(hop.question, answers))
            search = await self._search(query, [answers[k] for k in answers if f"#{k}" in hop.question])
            self._say(thoughts.following(done, search) if done else thoughts.first(search), search=search)
            done = await self._look(search, hop.question)
            if not done.answer:
                return self._finished("malformed")
            answers[position] = done.answer
        if done is None or not done.answer:
            return self._finished("malformed")
        self._say(thoughts.last(done), answer=done.answer)
        return self._finished("answered", done.answer)

    # What the model decides

    async def _search(self, query: str, known: Sequence[str]) -> Search:
        """The search for a query: names in it and a relation, as the model chooses."""
        guided, store = self.tool.context.config.guided, self.tool.context.store
        names = list(dict.fromkeys([*known, *names_in(query)])) or [m.text for m in mentions_of(query)]
        entities = names
        if len(names) > 1:
            said = await self._choose("entity", query, names, guided.max_entities)
            entities = said or names[:1]
        labels = relation_choices(store, query, entities, guided.max_relations)
        relations = await self._choose("relation", query, sorted(labels), 1) if len(labels) > 1 else labels
        return Search(query=query, entities=tuple(entities), relations=tuple(relations))

    async def _choose(self, kind: str, query: str, choices: Sequence[str], most: int) -> list[str]:
        """Up to `most` of the choices, in the model's order."""
        names = self.tool.context.config.prompts
        prompt = load_prompt(names.entity if kind == "entity" else names.relation)
        reply = await self.asker.text(
            fill(prompt, question=query, choices="; ".join(choices)),
            purpose=f"choose_{kind}",
            sampling=self._sampling(),
            sample=self.sample,
            grammar=some_of(choices, most),
        )
        said = [part.strip() for part in reply.text.strip().split("; ")]
        return [part for part in dict.fromkeys(said) if part in choices][:most]

    async def _look(self, search: Search, sub_question: str) -> KgStep:
        """Search, and let the model read what it takes from it."""
        context = self.tool.context
        observation = await self.tool.search(search, self.meter)
        found = observation.detail
        assert isinstance(found, KgStep)  # the tool's own
        reading = Reading(context=context, asker=self.asker, temperature=self._temperature, sample=self.sample)
        answer = await reading.answer(search.query, found.documents, found.triples_kept, from_spans=True)
        step = replace(found, sub_question=sub_question, answer=answer or None)
        self._steps[-1] = replace(self._steps[-1], observation=replace(observation, detail=step))
        text = GRAMMAR.render_result(observation)
        self._messages.append(Message(role="tool", content=text, train=False))
        self._segments.append(Segment(author="tool", text=f"\n{text}\n"))
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

    def _say(self, thought: str, *, search: Search | None = None, answer: str | None = None) -> None:
        turn = Turn(thought=thought, search=search, answer=answer)
        text = GRAMMAR.render_turn(turn)
        self._messages.append(Message(role="assistant", content=text, train=True))
        self._segments.append(Segment(author="agent", text=text))
        self._steps.append(EpisodeStep(turn=turn, problem="", observation=None, call_key=""))

    def _finished(self, stop: StopReason, answer: str = "") -> EpisodeRun:
        return EpisodeRun(
            question=self.tool.question.question,
            steps=tuple(self._steps),
            messages=tuple(self._messages),
            segments=tuple(self._segments),
            stop=stop,
            answer=answer,
            tokens=sum(estimate_tokens(segment.text) for segment in self._segments),
        )


def relation_choices(store: KgStore, query: str, entities: Sequence[str], most: int) -> list[str]:
    """Labels of relations that a query may mean: those its words are like, then those that its entities have."""
    named = {word for entity in entities for word in name_words(entity)}
    wanted = content_words(query) - named
    words = [word for word in name_words(query) if word in wanted]
    runs = (words[i : i + n] for n in range(_MOST_WORDS, 0, -1) for i in range(len(words) - n + 1))
    alike = [match for run in runs for match in match_relation(store, " ".join(run), 2)]
    alike.sort(key=lambda match: -match.score)
    return list(dict.fromkeys([*(match.label for match in alike), *_labels_around(store, entities)]))[:most]


def _labels_around(store: KgStore, entities: Iterable[str]) -> list[str]:
    best = [match.entity_id for entity in entities for match in match_entity(store, entity, k=1)]
    sides = [store.relations_of(entity, side) for entity in best for side in ("out", "into")]
    return [store.relation_label(relation) for relations in sides for relation, _ in relations]


def some_of(choices: Sequence[str], most: int) -> str:
    """A grammar (GBNF) for one to `most` of these with `; ` between them, and the line's end."""
    item = " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    more = ' ("; " item)?' * (most - 1)
    return f'root ::= " " item{more} "\\n"\nitem ::= {item}'
