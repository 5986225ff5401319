"""Have a model read selected episodes once more: first whether the facts behind the answer are stated in what was read,
then which links the agent left open, that is, which of several things found it did not follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from trailforge.evaluation.results import asked_at
from trailforge.filters.ways import AskedSearch
from trailforge.generators.agent_trajectories.choice import unread_rows
from trailforge.generators.agent_trajectories.config import OPEN_BRANCHES, PROMPTS, READ_FACT, AgentGeneratorConfig
from trailforge.generators.agent_trajectories.evidence import facts_to_read, read_by, way_of
from trailforge.generators.answer_reading import PURPOSE, read_facts, read_passages
from trailforge.inference import Asker, Sampling, fill, list_schema, object_schema
from trailforge.pipelines import Chosen
from trailforge.schemas import AgentTrajectory, FactReading, OpenBranch, Passage, from_dict

READ_BRANCHES = "read_branches"
"""The purpose under which calls that look for open links are counted."""
_TEXT = {"type": "string"}
_REPLY = object_schema(open=list_schema(object_schema(link=_TEXT, name=_TEXT, why=_TEXT)))


def waiting_rows(chosen: Chosen[AgentTrajectory], config: AgentGeneratorConfig) -> list[AgentTrajectory]:
    """Return the rows that a model still has to read as the configuration asks: those of `choice.unread_rows` for what
    their answer rests on, and the kept ones that need no such reading any more for the links that they leave open.
    """
    facts = unread_rows(chosen.kept, chosen.rejected) if config.answer_check != "off" else []
    unread = {row.uid for row in facts}
    return [*facts, *(row for row in chosen.kept if row.uid not in unread and _is_unread(row, config))]


async def read_row(row: AgentTrajectory, asker: Asker, config: AgentGeneratorConfig) -> AgentTrajectory:
    """Have a model read one row of `waiting_rows`, and return the row with what it found: on the facts behind the
    answer where these were not read yet, else on the links left open.
    """
    if config.answer_check != "off" and not row.readings and facts_to_read(row):
        row = replace(row, readings=await _read_facts(row, asker, config))
    else:
        row = replace(row, open_branches=await _read_branches(row, asker, config))
    # Calls may be made at once, so that their order is that of their keys, not of their ends.
    keys = tuple(dict.fromkeys((*row.provenance.call_keys, *sorted(asker.meter.keys))))
    return replace(row, provenance=replace(row.provenance, call_keys=keys))


def reading_problems(row: AgentTrajectory, config: AgentGeneratorConfig) -> Iterator[str]:
    """Yield a line for each reading by a model that a kept row should have by this configuration and has not, or has
    without need.
    """
    asked = facts_to_read(row) if config.answer_check != "off" else ()
    if [each.question for each in row.readings] != [fact.question for fact in asked]:
        yield "what its answer rests on was not read once more, or something else was"
    is_wanted = config.branch_check != "off" and searches_by_itself(row)
    if (row.open_branches is not None) != is_wanted:
        yield "whether its links are open was not read" if is_wanted else "whether its links are open was read in vain"


def searches_by_itself(row: AgentTrajectory) -> bool:
    """Tell whether turns of the agent's own ask for all its searches, so that it chose whom to follow. Agents that open
    pages have their own limits."""
    return row.episode.browse is None and bool(row.episode.searches) and None not in asked_at(row.episode)


def _is_unread(row: AgentTrajectory, config: AgentGeneratorConfig) -> bool:
    return config.branch_check != "off" and row.open_branches is None and searches_by_itself(row)


async def _read_facts(row: AgentTrajectory, asker: Asker, config: AgentGeneratorConfig) -> tuple[FactReading, ...]:
    lines = [_line_of(passage) for passage in read_by(row)]

    async def read(question: str) -> str:
        return await read_passages(
            PROMPTS.text(READ_FACT),
            question,
            lines,
            asker,
            purpose=PURPOSE,
            sampling=_sampling(config),
            most_words=config.memory.max_answer_words,
        )

    return await read_facts(facts_to_read(row), read)


async def _read_branches(row: AgentTrajectory, asker: Asker, config: AgentGeneratorConfig) -> tuple[OpenBranch, ...]:
    prompt = fill(PROMPTS.text(OPEN_BRANCHES), question=row.episode.question, episode=show_episode(row))
    found: Any = await asker.json(prompt, _REPLY, purpose=READ_BRANCHES, sampling=_sampling(config))
    return tuple(from_dict(OpenBranch, each) for each in found["open"])


def show_episode(row: AgentTrajectory) -> str:
    """Return an episode as text for the model that finds links left open: thoughts, searches, passages and the
    answer.
    """
    way = way_of(row)
    parts = [line for search in way.searches for line in _show_search(search)]
    return "\n".join([*parts, f"THOUGHT: {way.last_thought.strip()}", f"ANSWER: {way.answer}"])


def _show_search(search: AskedSearch) -> Sequence[str]:
    asked = " | ".join(filter(None, (search.query, *search.entities, *search.relations)))
    shown = [f"- {_line_of(each)}" for each in search.passages] or ["- nothing"]
    return [f"THOUGHT: {search.thought.strip()}", f"SEARCH: {asked}", "SHOWN:", *shown]


def _line_of(passage: Passage) -> str:
    return f"({passage.title}) {passage.text}" if passage.title else passage.text


def _sampling(config: AgentGeneratorConfig) -> Sampling:
    return Sampling(temperature=0.0, top_p=1.0, max_tokens=config.answer_check_max_tokens)
