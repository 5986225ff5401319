"""Episodes along the gold decomposition, for a model that is too small to search by itself.

Given are the sub-questions and their order, and the form of each turn. The model's own are the choices within it: which
names and which relation a search asks the graph for, and what it takes from the results. What it reads wrongly stays
wrong: the next query is made of it, and so some episodes fail.

The thoughts are sentences drawn from `prompts/kg_thoughts.yaml` by a seeded generator. One before a search knows the
answers of earlier searches alone; an answer is given with the source that shows it, or as a guess where none does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from trailforge.generators.kg_trajectories.reading import Reading
from trailforge.generators.kg_trajectories.tool import SearchTool
from trailforge.inference import Meter, Sampling
from trailforge.inference.asker import Asker, fill
from trailforge.inference.prompts import Prompts, Sentences
from trailforge.mcts.plan import references, resolve
from trailforge.protocols import KG_SEARCH
from trailforge.protocols.base import estimate_tokens, one_line
from trailforge.protocols.episodes import EpisodeRun, EpisodeStep, Segment, StopReason
from trailforge.protocols.turns import Search, Turn
from trailforge.rewards import mentions, normalize_answer
from trailforge.schemas import KgStep, Message
from trailforge.small_model.kg.choices import name_choices, offer_spans, relation_choices, some_of

PROMPTS = Prompts("trailforge.small_model")
_CHOICE_TOKENS = 48


class Guide:
    """The plug-in `guided` of the group `trailforge.leaders`."""

    offer = staticmethod(offer_spans)

    async def lead(self, tool: SearchTool, asker: Asker, sample: int) -> EpisodeRun:
        """One episode along the gold decomposition."""
        return await GuidedEpisode(tool=tool, asker=asker, sample=sample, meter=asker.meter).run()


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
        self._messages += KG_SEARCH.opening(question.question)
        # One seed for all draws: they read the same while they decide the same, so pairs differ where it counts.
        thoughts = Thoughts(f"{self.tool.context.seed}:{question.id}")
        answers: dict[int, str] = {}
        done: KgStep | None = None
        for position, hop in enumerate(question.decomposition, start=1):
            if position >= config.episode.max_turns:
                return self._finished("too_many_turns")
            query = one_line(resolve(hop.question, answers))
            search = await self._search(query, [answers[k] for k in references(hop.question) if k in answers])
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

    async def _look(self, search: Search, sub_question: str) -> KgStep:
        """Search, and let the model read what it takes from it."""
        context = self.tool.context
        observation = await self.tool.search(search, self.meter)
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
        text = KG_SEARCH.render_turn(turn)
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


class Thoughts:
    """The thoughts of one episode, in order; the same for the same seed. No sentence comes twice while others wait."""

    def __init__(self, seed: str) -> None:
        self._say = Sentences(Prompts("trailforge.small_model").pools("kg_thoughts"), seed=seed).say

    def first(self, search: Search) -> str:
        """Before the first search."""
        return " ".join([self._say("open"), *self._asking(search)])

    def following(self, done: KgStep, search: Search) -> str:
        """Between a search, whose answer stands in `done`, and the next."""
        return " ".join([self._finding(done), self._say("next"), *self._asking(search)])

    def last(self, done: KgStep) -> str:
        """After the last search."""
        return f"{self._finding(done)} {self._say('final')}"

    def _asking(self, search: Search) -> list[str]:
        names = join_phrases([one_line(name) for name in search.entities])
        relations = join_phrases([f"“{one_line(phrase)}”" for phrase in search.relations])
        sentences = [self._say("ask", query=one_line(search.query))]
        if names:
            role = "graph" if relations else "graph_names"
            sentences.append(self._say(role, names=names, relations=relations))
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
        return self._say(role, answer=one_line(answer).rstrip("."), title=title)


def join_phrases(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; empty for none."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
