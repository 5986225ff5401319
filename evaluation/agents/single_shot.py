"""Single shot: the question is searched for as it is, once, and answered from what was found (RAGSearch, 5.2.1)."""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.evaluation.agents import Agent, AgentRun, AgentTools
from trailforge.evaluation.agents.free_form import (
    PROMPTS,
    Recorder,
    boxed_answer,
    build_exchange,
    check_documents,
    document_text,
    sampling_of,
)
from trailforge.inference import fill
from trailforge.protocols import turn_text
from trailforge.schemas import AgentStop


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleShotConfig:
    """Settings of the single-shot agent: how its one answer is sampled."""

    answer_tokens: int = 2048
    """Most tokens of the reply, its reasoning included."""
    temperature: float = 0.7
    top_p: float = 0.8


async def run(question: str, tools: AgentTools, config: SingleShotConfig) -> AgentRun:
    """Search once with the question, and answer once from the results. A reply without a box is `malformed`, one that
    was cut is `too_long`. Raises what `Agent.run` raises.
    """
    check_documents(tools, "single_shot")
    recorder = Recorder(tools)
    found = await recorder.search_documents(question, question)
    prompt = fill(PROMPTS.text("single_shot"), question=question, documents=document_text(found))
    reply = await recorder.turn(
        prompt, purpose="single_shot", sampling=sampling_of(config.temperature, config.top_p, config.answer_tokens)
    )
    answer = "" if reply.is_cut else boxed_answer(reply.text)
    stop: AgentStop = "too_long" if reply.is_cut else "answered" if answer else "malformed"
    return recorder.run(answer, stop, build_exchange(prompt, turn_text(reply)))


AGENT = Agent(name="single_shot", config=SingleShotConfig, run=run)
