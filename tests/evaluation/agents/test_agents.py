"""All agents over a back end as it is opened for them."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.scripted import ScriptedModel
from trailforge.evaluation.agents import AGENTS, AgentRun, AgentTools, load_agent
from trailforge.evaluation.agents.protocol_agents import AGENTS as PROTOCOL_AGENTS
from trailforge.evaluation.agents.search_o1 import BEGIN_QUERY, BEGIN_RESULT
from trailforge.inference import Meter, Request
from trailforge.inference.asker import Asker
from trailforge.protocols import SEARCH_R1
from trailforge.protocols.environment import EnvironmentConfig, open_environment
from trailforge.schemas import Document

DOCUMENTS = [
    Document(id="d1", title="Avatar", text="Avatar is a film by the director James Cameron."),
    Document(id="d2", title="Kapuskasing", text="Kapuskasing is the town where James Cameron was born."),
    Document(id="d3", title="Rome", text="Rome has a river."),
]
QUESTION = "Where was the director of Avatar born?"
OF_DOCUMENTS = [*AGENTS, *(name for name, agent in PROTOCOL_AGENTS.items() if agent.searches == "documents")]


def reply(request: Request) -> str:
    """Searches once in whatever form it is asked for, then answers."""
    assert not isinstance(request.prompt, str)
    prompt = "\n".join(turn.content for turn in request.prompt)
    has_searched = len(request.prompt) > 2
    if request.purpose == "search_o1" and BEGIN_RESULT not in prompt.split(QUESTION)[-1]:
        return f"I search. {BEGIN_QUERY}director of Avatar"
    if request.tools:
        called = '<tool_call>{"name": "search", "arguments": {"query": "director of Avatar"}}</tool_call>'
        return "<answer>Kapuskasing</answer>" if has_searched else called
    if request.purpose.startswith("episode ") and not has_searched:
        tag = "query" if "<query>" in prompt else "search"
        return f"<think>I search.</think><{tag}>director of Avatar</{tag}>"
    if request.purpose == "graph_search_decompose":
        return '{"Sub-query 1": "Who is the director of Avatar?"}'
    if request.purpose.startswith("episode "):
        return "<think>I know.</think><answer>Kapuskasing</answer>"
    return "**Final Information**\nKapuskasing it is, surely: \\boxed{Kapuskasing}"


def run(name: str, seed: int = 0, sample: int = 0) -> tuple[AgentRun, Meter, ScriptedModel]:
    model, meter = ScriptedModel(reply), Meter()
    tools = AgentTools(
        environment=open_environment(SEARCH_R1, DOCUMENTS, search=EnvironmentConfig(kind="bm25"), top_k=2),
        asker=Asker(client=model, model="m", style="chat", seed=seed, meter=meter),
        sample=sample,
    )
    agent = load_agent(name)
    return asyncio.run(agent.run(QUESTION, tools, agent.config())), meter, model


@pytest.mark.parametrize("name", OF_DOCUMENTS)
def test_an_agent_searches_and_answers_over_a_back_end(name: str) -> None:
    found, meter, model = run(name)
    assert found.stop == "answered" and "Kapuskasing" in found.answer
    assert found.searches and all(search.document_ids and search.context_tokens for search in found.searches)
    assert "d1" in found.searches[0].document_ids
    assert meter.calls == len(model.requests) == len(found.calls) + sum(m.role == "assistant" for m in found.messages)


@pytest.mark.parametrize("name", OF_DOCUMENTS)
def test_other_seeds_and_samples_are_other_calls_and_the_same_are_the_same(name: str) -> None:
    keys = [{r.key for r in run(name, *numbers)[2].requests} for numbers in ((0, 0), (0, 0), (1, 0), (0, 1))]
    assert keys[0] == keys[1]
    assert not keys[0] & keys[2] and not keys[0] & keys[3] and not keys[2] & keys[3]


@pytest.mark.parametrize("name", [*AGENTS, *PROTOCOL_AGENTS])
def test_an_agent_is_declared_by_its_name_and_has_defaults(name: str) -> None:
    agent = load_agent(name)
    assert agent.name == name and agent.config() == agent.config()
