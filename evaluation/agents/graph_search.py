"""GraphSearch (Yang et al., 2025; RAGSearch, figures 8 to 12): decompose a question twice, to search texts and to
search triples.

    background      what the question itself finds, summed up for either channel
    each channel    decompose; for each sub-query: fill in what is known, search, sum up, answer
                    draft an answer, verify it; where it does not hold, write further queries, search and sum up
    answer          from the background and both channels

The prompts are ours, or with `prompt: published` RAGSearch's figures 8 to 12; the order is that of the authors' code
(`pipeline.py`), and so is that the evidence of further queries gets no answer of its own, and that the answer reads the
background beside both channels, which repeat some of it. What differs:

- Their code writes further queries where the verdict is Yes; their prompts, and we, where it is No.
- They ask the model once more to put earlier answers in place of `#k`; here the code does.
- A decomposition that cannot be read is asked for once more. A channel that is lost all the same is left out with its
  draft, and its last call has the purpose `graph_search_..._lost`; without either channel the episode is malformed.
- Further queries that are triples are searched for as those of the decomposition are; theirs go out as they are.
- By default the answer is asked for in a box (`GraphSearchConfig.boxed`), and drafts say what the context lacks.

The authors' channel of triples reads entities and relations alone, RAGSearch's the same passages as that of texts. Ours
reads facts (`free_form.facts_of`, a knowledge graph) and passages; over back ends without facts, as `dense`, the two
channels differ in queries and in what is made of the passages. What is not known yet (`#k`) is no word to search for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from trailforge.evaluation.agents import Agent, AgentRun, AgentTools
from trailforge.evaluation.agents.free_form import (
    AGAIN,
    LOST,
    PROMPTS,
    Recorder,
    boxed_answer,
    build_exchange,
    check_documents,
    document_text,
    read_final_answer,
    read_verdict,
    sampling_of,
    triple_line,
    write_triples,
)
from trailforge.evaluation.agents.published_prompts import GRAPH_SEARCH
from trailforge.inference import fill
from trailforge.mcts import resolve
from trailforge.protocols import Labels, Search, turn_text
from trailforge.schemas import AgentStop, ContextOverflow, InvalidInput, Message

_Read = TypeVar("_Read")

_BOXED_END = (
    "Where the context lacks something, say what, and answer with what it bears out best. End with the final answer, "
    "and nothing but it, in the form \\boxed{...}"
)
_DRAFT_END = "Where the context lacks what a step needs, say so, and guess nothing. "
_DRAFT_END += "End with the answer in a few words, or with these: not in the context"
_NOTHING = "(nothing that helps)"

_TEXT = r'"((?:[^"\\]|\\.)*+)"'
_SUB_QUERY = re.compile(r'"Sub-query \d{1,9}"\s*+:\s*+', re.IGNORECASE)
_STRING = re.compile(_TEXT, re.DOTALL)
# One that is never closed is passed over whole: tried again from each quote in it, it would take quadratic time.
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*+)("|\Z|\\)', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^'\\]|\\.)*+)('|\Z|\\)", re.DOTALL)
_TRIPLE = re.compile(rf"[\[(]\s*+{_TEXT}\s*+,\s*+{_TEXT}\s*+,\s*+{_TEXT}\s*+[\])]", re.DOTALL)
_ENTITY = re.compile(r"Entity#(\d{1,9})")
_NOT_KNOWN = re.compile(r" ?#\d{1,9}")
_NAMED = re.compile(r"^[^\w\n]*+Entity#(\d{1,9})[\s*`_]*+[=:][\s*`_]*+(.*)$", re.MULTILINE)


_UNKNOWN = frozenset(("", "unknown", "none", "n/a", "not known", "not given", "nothing"))
_NOT_GIVEN = re.compile(
    r"(?:unknown|none|no|not|nothing)\b.*\b(?:found|given|named|known|stated|mentioned|specified|context|evidence)\b"
    r"|(?:the |this )?(?:context|evidence|documents?|texts?|triples?) (?:does|do|is|are|has|have|names?) (?:not|no)\b",
    re.IGNORECASE,
)
_BETWEEN_TRIPLES = re.compile(r"\)\s*+[,;]\s*+\(")
_BULLET = re.compile(r"(?:[-*•]|\d{1,9}[.)])\s++")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSearchConfig:
    """Limits and sampling of the agent. Temperature, rounds and the lack of a limit of sub-queries are the authors'."""

    prompt: Literal["ours", "published"] = "ours"
    """Which prompts are used. `published`: the figures' words, which ask for no box, with our words for what is printed
    nowhere.
    """
    max_sub_queries: int = 0
    """Most sub-queries that are asked in a channel; 0: all."""
    max_rounds: int = 1
    """Most rounds of verification and expansion in a channel; 0: no draft is made, and nothing is verified."""
    max_expanded: int = 5
    """Most further queries of a round."""
    boxed: bool = True
    """Whether the final answer is asked for in a box, which is our addition. False is the papers' way: no form is asked
    for, and what stands below a heading "Final Answer", or else the whole text, is the answer (RAGSearch's `eval.py`).
    Contain-EM alone can tell then what such a text is worth: F1 is between 2 and 14 in RAGSearch (table 7).
    """
    step_tokens: int = 1024
    """Most tokens of every call but the last."""
    answer_tokens: int = 2048
    temperature: float = 0.0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for numbers that leave no room."""
        if min(self.step_tokens, self.answer_tokens) < 1:
            raise InvalidInput("expected step_tokens and answer_tokens of 1 or more")
        if min(self.max_sub_queries, self.max_rounds, self.max_expanded) < 0:
            raise InvalidInput("expected max_sub_queries, max_rounds and max_expanded of 0 or more")

    @property
    def asks_for_box(self) -> bool:
        """Tell whether the final answer is asked for in a box."""
        return self.boxed and self.prompt == "ours"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A sub-query and what came of it."""

    query: str
    evidence: str
    answer: str = ""


async def run(question: str, tools: AgentTools, config: GraphSearchConfig) -> AgentRun:
    """Run the workflow on one question; the run's `messages` are its last call, `calls` are all others. Raises what
    `Agent.run` raises. A prompt longer than the model's context ends the episode as `too_long`, unless it is the first.
    """
    check_documents(tools, "graph_search")
    workflow = _Workflow(question, tools, config)
    answer, messages, stop = "", (), "too_long"
    try:
        answer, messages, stop = await workflow.answer()
    except ContextOverflow:
        if not workflow.recorder.calls:
            raise
    return workflow.recorder.run(answer, stop, messages)


class _Workflow:
    """A workflow under way."""

    def __init__(self, question: str, tools: AgentTools, config: GraphSearchConfig) -> None:
        self.recorder = Recorder(tools)
        self._question, self._config = question, config
        self._names: dict[int, str] = {}
        """Of the entities of the triples, by number."""

    async def answer(self) -> tuple[str, tuple[Message, ...], AgentStop]:
        """Answer, the conversation that gave it, and the end."""
        background = [await self._read_texts(self._question), await self._read_facts(Search(query=self._question))]
        questions = await self._decompose("decompose", read_sub_queries)
        triples = await self._decompose("decompose_triples", read_triples)
        if not questions and not triples:
            return "", (), "malformed"
        most = self._config.max_sub_queries or len(questions) + len(triples)
        texts = await self._follow_questions(questions[:most])
        await self._reflect(texts, of_texts=True)
        facts = await self._follow_triples(triples[:most])
        await self._reflect(facts, of_texts=False)
        channels = {"Found in texts": texts, "Found as triples": facts}
        histories = [f"{name}\n{_history(asked)}" for name, asked in channels.items() if asked]
        return await self._conclude("\n\n".join(["Background", *background, *histories]))

    async def _decompose(self, step: str, read: Callable[[str], list[_Read]]) -> list[_Read]:
        """The sub-queries of a channel; none where the second reply cannot be read either."""
        reply = await self._ask(step, question=self._question)
        if found := read(reply):
            return found
        first = self.recorder.calls[-1]
        again = await self._ask("again", purpose=f"{step}{AGAIN}", prompt=first.prompt, reply=reply)
        if not (found := read(again)):
            self.recorder.calls[-1] = replace(self.recorder.calls[-1], purpose=f"{first.purpose}{LOST}")
        return found

    async def _follow_questions(self, sub_queries: Sequence[str]) -> list[_Asked]:
        """The channel of texts, in order: each may need the answers before it."""
        asked: list[_Asked] = []
        answers: dict[int, str] = {}
        for number, sub_query in enumerate(sub_queries, start=1):
            query = resolve(sub_query, answers)
            evidence = await self._read_texts(query)
            context = f"{_history(asked)}\n\n{evidence}".strip()
            answer = read_answer_line(await self._ask("answer_sub_query", query=query, context=context))
            answers |= {number: answer} if answer else {}
            asked.append(_Asked(query, evidence, answer or "unknown"))
        return asked

    async def _follow_triples(self, sub_queries: Sequence[Sequence[Labels]]) -> list[_Asked]:
        """The channel of triples, in order: each may need the entities that were named before it."""
        asked: list[_Asked] = []
        for sub_query in sub_queries:
            triples = with_names(sub_query, self._names)
            query, unknown = write_triples(triples), unknown_entities(triples)
            evidence = await self._read_facts(search_of(triples))
            found: dict[int, str] = {}
            if unknown:
                reply = await self._ask(
                    "name_entities",
                    query=query,
                    unknown=", ".join(f"Entity#{number}" for number in unknown),
                    context=f"{_history(asked)}\n\n{evidence}".strip(),
                )
                found = read_entities(reply, unknown)
            self._names |= found
            answer = ", ".join(f"Entity#{number} = {name}" for number, name in found.items())
            asked.append(_Asked(query, evidence, answer or "unknown"))
        return asked

    async def _reflect(self, asked: list[_Asked], *, of_texts: bool) -> None:
        """Verify a draft, and search on where it does not hold: appends to `asked`."""
        if not asked:
            return
        for _ in range(self._config.max_rounds):
            so_far = {"question": self._question, "context": _history(asked)}
            draft = await self._ask("answer", **so_far, end=_DRAFT_END if self._config.asks_for_box else "")
            analysis = await self._ask("verify", **so_far, response=draft)
            if read_verdict(analysis):
                return
            reply = await self._ask("expand", **so_far, response=draft, analysis=analysis)
            written = read_list(reply) if of_texts else read_expanded_triples(reply) or read_list(reply)
            read = [self._search_of_expanded(query, of_texts) for query in written]
            before = {each.query for each in asked}
            further = {query: search for query, search in read if search.query and query not in before}
            if not further:
                return
            for query, search in list(further.items())[: self._config.max_expanded]:
                evidence = await (self._read_texts(query) if of_texts else self._read_facts(search))
                asked.append(_Asked(query, evidence))

    def _search_of_expanded(self, query: str, of_texts: bool) -> tuple[str, Search]:
        """A further query, cleaned as those of the decomposition are, and what is searched for it."""
        if of_texts:
            return query, Search(query=query)
        if triples := with_names(read_bars(query), self._names):
            return write_triples(triples), search_of(triples)
        text = _filled(query, self._names)
        return text, Search(query=" ".join(_ENTITY.sub(" ", text).split()))

    async def _conclude(self, context: str) -> tuple[str, tuple[Message, ...], AgentStop]:
        config, end = self._config, _BOXED_END if self._config.asks_for_box else ""
        prompt = fill(self._prompt("answer"), question=self._question, context=context, end=end).strip()
        reply = await self.recorder.turn(
            prompt,
            purpose="graph_search",
            sampling=sampling_of(config.temperature, config.top_p, config.answer_tokens),
        )
        messages = build_exchange(prompt, turn_text(reply))
        if reply.is_cut:
            return "", messages, "too_long"
        answer = (boxed_answer if config.asks_for_box else read_final_answer)(reply.text)
        return answer, messages, "answered" if answer else "malformed"

    async def _read_texts(self, query: str) -> str:
        """What documents say that a query finds."""
        found = await self.recorder.search_documents(self._question, _NOT_KNOWN.sub("", query))
        return await self._ask("summarise", query=query, documents=document_text(found))

    async def _read_facts(self, search: Search) -> str:
        """The triples in what a query finds, each on a line."""
        found = await self.recorder.search_facts(self._question, search)
        reply = await self._ask("find_triples", query=search.query, found=found)
        return "\n".join(read_evidence(reply)) or _NOTHING

    def _prompt(self, step: str) -> str:
        is_printed = self._config.prompt == "published" and step in GRAPH_SEARCH
        return GRAPH_SEARCH[step] if is_printed else PROMPTS.text(f"graph_search_{step}")

    async def _ask(self, step: str, *, purpose: str = "", **values: str) -> str:
        """The reply to a step, cut or not: what there is of it is what the next step reads."""
        config = self._config
        reply = await self.recorder.ask(
            fill(self._prompt(step), **values).strip(),
            purpose=f"graph_search_{purpose or step}",
            sampling=sampling_of(config.temperature, config.top_p, config.step_tokens),
        )
        return reply.text.strip()


def _history(asked: Sequence[_Asked]) -> str:
    """Sub-queries with evidence and answers; an expanded one has no answer."""
    answers = (f"\nAnswer: {each.answer}" if each.answer else "" for each in asked)
    parts = enumerate(zip(asked, answers, strict=True), start=1)
    return "\n".join(f"Sub-query {n}: {each.query}\nEvidence: {each.evidence}{answer}" for n, (each, answer) in parts)


# What the model wrote: read by patterns of linear time, not as JSON; brackets are of either kind, with words around


def read_sub_queries(reply: str) -> list[str]:
    """Read the questions of a decomposition, in order; empty when none can be read."""
    found = (_STRING.match(part) for part in _SUB_QUERY.split(reply)[1:])
    return [text for match in found if match and (text := _plain(match[1]))]


def read_triples(reply: str) -> list[tuple[Labels, ...]]:
    """Read the triples of each sub-query of a decomposition, in order. Sub-queries without triples are left out."""
    parts = (_TRIPLE.findall(part) for part in _SUB_QUERY.split(reply)[1:])
    return [tuple(Labels(*map(_plain, triple)) for triple in triples) for triples in parts if triples]


def read_list(reply: str) -> list[str]:
    """Read the texts of the first list in a reply, each once."""
    start = reply.find("[")
    inside = reply[start:] if start >= 0 else ""
    found = _DOUBLE.findall(inside) or _SINGLE.findall(inside)
    return list(dict.fromkeys(text for inner, end in found if end in ("'", '"') and (text := _plain(inner))))


def read_expanded_triples(reply: str) -> list[str]:
    """Read the triples of a list of lists, as texts. A plain list of three texts is no triple."""
    triples = _TRIPLE.findall(reply[reply.find("[") + 1 :])
    return list(dict.fromkeys(triple_line([_plain(part) for part in triple]) for triple in triples))


def read_bars(text: str) -> list[Labels]:
    """Read a text that consists only of triples `(a | b | c)`, perhaps with commas for bars; returns the triples."""
    text = text.strip()
    if not (text.startswith("(") and text.endswith(")")):
        return []
    parts = [part.split("|" if "|" in part else ",") for part in _BETWEEN_TRIPLES.split(text[1:-1])]
    plain = [[field.strip(" \t\"'") for field in part] for part in parts]
    return [Labels(*part) for part in plain] if all(len(part) == 3 and all(part) for part in plain) else []


def read_evidence(reply: str) -> list[str]:
    """Read the lines of a reply that are triples, each triple once, as `(a | b | c)`. All other lines are left out."""
    found: list[Sequence[str]] = []
    for line in reply.splitlines():
        text = _BULLET.sub("", line.strip(), count=1).rstrip(" .,;")
        in_bars = read_bars(text) if "|" in text else []
        found += in_bars or [[_plain(part) for part in triple] for triple in _TRIPLE.findall(text)]
    return list(dict.fromkeys(map(triple_line, found)))


def read_answer_line(reply: str) -> str:
    """Read a short answer on one line; empty where the reply says that it is not known."""
    line = next((line.strip() for line in reply.splitlines() if line.strip()), "")
    is_unknown = line.strip(" .()").casefold() in _UNKNOWN or _NOT_GIVEN.match(line)
    return "" if is_unknown else line.removesuffix(".")


def unknown_entities(triples: Sequence[Labels]) -> list[int]:
    """Return the numbers of the entities that are still unknown (`Entity#k` in a triple), in order of appearance."""
    return list(dict.fromkeys(int(number) for triple in triples for part in triple for number in _ENTITY.findall(part)))


def read_entities(reply: str, unknown: Sequence[int]) -> dict[int, str]:
    """Read the names of the unknown entities by number; a name without a number counts where only one was asked for."""
    named = {int(number): read_answer_line(name.rstrip(" *`_")) for number, name in _NAMED.findall(reply)}
    lines = [line for line in reply.splitlines() if line.strip()]
    if len(unknown) == len(lines) == 1 and not _ENTITY.search(reply):
        named = {unknown[0]: read_answer_line(reply)}
    return {number: named[number] for number in unknown if named.get(number)}


def with_names(triples: Sequence[Labels], names: Mapping[int, str]) -> tuple[Labels, ...]:
    """Return the triples with known names in place of `Entity#k`."""
    return tuple(Labels(*(_filled(part, names) for part in triple)) for triple in triples)


def _filled(text: str, names: Mapping[int, str]) -> str:
    return _ENTITY.sub(lambda match: names.get(int(match[1]), match[0]), text)


def search_of(triples: Sequence[Labels]) -> Search:
    """Return the search for these triples: their words without unknown entities, their known entities and their
    relations.
    """
    ends = (end for triple in triples for end in (triple.head, triple.tail))
    words = (_ENTITY.sub(" ", " ".join(triple)) for triple in triples)
    return Search(
        query="; ".join(" ".join(text.split()) for text in words),
        entities=tuple(dict.fromkeys(end for end in ends if end and not _ENTITY.search(end))),
        relations=tuple(dict.fromkeys(triple.relation for triple in triples if triple.relation)),
    )


def _plain(text: str) -> str:
    """A text without its escapes, on one line."""
    try:
        text = json.loads(f'"{text}"', strict=False)
    except ValueError:
        text = text.replace("\\", "")
    return " ".join(text.encode("utf-8", "replace").decode().split())


AGENT = Agent(name="graph_search", config=GraphSearchConfig, run=run, searches="any")
