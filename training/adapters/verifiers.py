"""The environment for verifiers 0.4, with which prime-rl and everything else that supports verifiers trains on our
questions.

    vf-eval trailforge --env.taskset.training-set sets/musique --env.taskset.search search.yaml -m MODEL …

Its taskset are the questions of a training set, its harness leads an episode in the protocol of each, inside the
process of verifiers, and its reward is the question's own. `search` is the YAML file of `SearchSettings`, as the
exports write it. A model server that takes the closing tag off a turn, or delivers thoughts apart, has them put back.

In training, verifiers asks vLLM for tokens through a renderer: `verifiers_renderer`, or `verifiers_native` for research
agents (`browse`), which make native calls.
"""

# verifiers is installed in an environment of its own: it holds openai to version 2.
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import verifiers.v1 as vf

from trailforge.inference import ChatTurn, Meter, Reply, Request
from trailforge.inference.provider import chat_message
from trailforge.protocols import PROTOCOLS, REACT, EpisodeRun, grammar_of, turn_text
from trailforge.protocols.browse import BROWSE, TOOLS_JSON
from trailforge.protocols.environment import Environment
from trailforge.schemas import (
    ChatMessage,
    ContextOverflow,
    InvalidInput,
    RequestRefused,
    RetrievalError,
    ServerUnavailable,
    ToolCall,
    estimate_tokens,
    to_dict,
)
from trailforge.training.adapters.search_episodes import (
    PROCESS,
    environment_of,
    keep_episode,
    settings_of,
    tokenizer_of,
)
from trailforge.training.kept_episodes import TrainedQuestion, make_place
from trailforge.training.masks import escape_special, observation_ids
from trailforge.training.native import lead_browse_episode, read_run
from trailforge.training.rollouts import lead_episode
from trailforge.training.scoring import ToScore, read_truth, scorer_of
from trailforge.training.sets.files import Split, questions_of
from trailforge.training.token_episodes import RolloutLimits, limits_of

ID = "trailforge"
"""The name by which verifiers finds this module, whose `__all__` names taskset, harness and environment."""
_ATTEMPTS, _FIRST_WAIT_S = 5, 1.0
_KEPT = ("content", "reasoning_content", "tool_calls")
"""What of a reply goes back to the model, as it came."""


# Questions and rewards


class SearchData(vf.TaskData):
    """A question, with what is needed to run and reward its episode."""

    question: str = ""
    data_source: str = ""
    protocol: str = REACT.name
    ground_truth: str = ""
    """The ground truth of the question, a `GroundTruth` as JSON."""
    search: str = ""
    """Path of the YAML file with the search settings."""
    tokenizer: str = ""
    max_tokens: int = 0


class SearchState(vf.State):
    """The state in which an episode ended."""

    run: Any = None
    """The `EpisodeRun` of the episode; None where it was broken off."""
    keep: Any = None
    """Function that stores the episode with its reward (None: it has none); None where episodes are not stored."""


class SearchTaskConfig(vf.TaskConfig):
    """How answers are rewarded."""

    preset: str | None = None
    """A reward preset, or a training preset's YAML file, whose judge is then asked; None: each question's own."""


class SearchTask(vf.Task[SearchData, SearchState, SearchTaskConfig]):
    """The task of answering a question by searching."""

    @vf.intercept
    async def restore_turn(self, response: vf.Response) -> vf.Response | None:
        """Return a model server's reply with the turn as the model wrote it: with the closing tag and the thought that
        the server took off. None where nothing is missing, as in a turn that comes with its tokens."""
        is_whole = response.tokens is not None or response.finish_reason == "length"
        if is_whole or self.data.protocol == BROWSE:
            return None
        said = response.message
        text = turn_text(_reply(said.content, said.reasoning_content, response.finish_reason))
        text += grammar_of(self.data.protocol).missing_end(text)
        if text == said.content and not said.reasoning_content:
            return None
        return response.model_copy(update={"message": vf.AssistantMessage(content=text)})

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """Return the reward of the episode; the reward's parts are stored as metrics."""
        run: EpisodeRun | None = trace.state.run
        if run is None:
            return 0.0
        scored = scorer_of(self.config.preset, self.data.protocol).begin(
            ToScore(
                messages=run.messages,
                truth=read_truth(self.data.ground_truth),
                question=self.data.question,
                tokens=run.tokens + _end_of(run),
                retrieved_titles=[passage.title for passage in run.passages],
                read=read_run(run, run.tokens),
            )
        )
        paid = await scored.wait()
        if trace.state.keep is not None:
            trace.state.keep(paid)
        trace.record_metrics({f"reward/{name}": part for name, part in paid.parts.items() if part is not None})
        trace.record_metric("num_searches", float(run.num_searches))
        trace.info["stop"] = run.stop
        return paid.total


def _end_of(run: EpisodeRun) -> int:
    """1 where the last turn ended at a closing tag: the end of turn that our own rollouts put there counts too."""
    last = run.messages[-1]
    return int(last.role == "assistant" and last.content.endswith(_ends()))


@cache
def _ends() -> tuple[str, ...]:
    """The tags at which turns end, in any protocol."""
    return tuple(sorted({tag for grammar in PROTOCOLS.values() for tag in grammar.stop}))


class SearchTasksetConfig(vf.TasksetConfig):
    """Which questions are asked, and what is searched for their answers."""

    id: vf.ID = ID
    task: SearchTaskConfig = SearchTaskConfig()
    training_set: Path = Path()
    """Folder of a training set."""
    split: Split = "train"
    protocol: str = REACT.name
    """The protocol of the questions that are asked; questions in others are left out."""
    search: Path = Path()
    """YAML file with the `SearchSettings`."""
    tokenizer: str = ""
    """The tokenizer, by folder or name, by which results are measured and cleaned; empty: their length is estimated."""
    max_tokens: int = 16384
    """Most tokens of everything after the prompt, as the server counts it.

    `agent.sampling.max_tokens` limits one turn: vLLM's token endpoint takes that alone.
    """


class SearchTaskset(vf.Taskset[SearchTask, SearchTasksetConfig]):
    """The questions of a training set, in the order of learning."""

    def load(self) -> Iterator[SearchTask]:
        """Load the questions.

        Raises `InvalidInput` for a set without such questions, and for settings that do not fit.
        """
        config = self.config
        if settings_of(str(config.search)).mask_truncated:
            raise InvalidInput(
                "verifiers trains all that was sampled; leave it out", file=config.search, field="mask_truncated"
            )
        for row in questions_of(config.training_set, config.split, config.protocol):
            data = SearchData(
                id=row.uid,
                name=row.uid,
                system_prompt=row.prompt[0].content,
                prompt=row.prompt[1].content,
                question=row.question,
                data_source=row.data_source,
                protocol=config.protocol,
                ground_truth=json.dumps(to_dict(row.reward_model.ground_truth), ensure_ascii=False),
                search=str(config.search.absolute()),
                tokenizer=config.tokenizer,
                max_tokens=config.max_tokens,
            )
            yield SearchTask(data, config.task)


class SearchEnvConfig(vf.SingleAgentEnvConfig):
    """Settings of an environment with one agent, whose turns end at closing tags. It needs no sandbox, since all that
    it runs is a search.
    """

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    taskset: SearchTasksetConfig = SearchTasksetConfig()


class SearchEnv(vf.SingleAgentEnv, vf.Env[SearchEnvConfig]):
    """An environment with one agent that searches."""

    def __init__(self, config: SearchEnvConfig) -> None:
        """vLLM's token endpoint is sent the sampling of the configuration and nothing of what a request says."""
        agent = config.agent
        given = {} if agent.sampling is None else agent.sampling.model_dump(exclude_unset=True)
        protocol = config.taskset.protocol
        stop = {} if protocol == BROWSE else {"stop": list(grammar_of(protocol).stop)}
        sampling = vf.SamplingConfig(**{**stop, **given})
        stopping = agent.model_copy(update={"sampling": sampling})
        super().__init__(config.model_copy(update={"agent": stopping}))


def load_environment(training_set: str, search: str, *, protocol: str = REACT.name, **taskset: Any) -> SearchEnv:
    """Load the environment for a script. `taskset` are further fields of `SearchTasksetConfig`."""
    given = {"id": ID, "training_set": training_set, "search": search, "protocol": protocol, **taskset}
    return vf.load_environment(vf.resolve_env_config({"taskset": given}))


# Episodes


class SearchHarness(vf.Harness[vf.HarnessConfig]):
    """A harness that runs an episode in this process.

    The model is asked through verifiers, and what it searches is opened once.
    """

    APPENDS_SYSTEM_PROMPT: ClassVar[bool] = True
    EXECUTES_CODE: ClassVar[bool] = False
    NEEDS_CONTAINER: ClassVar[bool] = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: SearchData,
    ) -> vf.ProgramResult:
        """Run an episode, and store it in the trace and its state. Raises what tools and server raise."""
        settings = await asyncio.to_thread(settings_of, data.search)
        environment = await asyncio.to_thread(environment_of, data.protocol, settings)
        system, question = self.resolve_text_prompt(data)
        prompt = [ChatMessage(role="system", content=system or ""), ChatMessage(role="user", content=question or "")]
        tokenizer = await asyncio.to_thread(tokenizer_of, data.tokenizer) if data.tokenizer else None
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=30)) as session:
            chat = _Chat(session, endpoint, secret, ctx.model, trace)
            limits = limits_of(settings, data.max_tokens)
            escape = str if tokenizer is None else partial(escape_special, tokenizer)
            run = trace.state.run = await _lead(data.protocol, prompt, environment, chat, limits, tokenizer, escape)
        if settings.keep_in:
            asked = TrainedQuestion(
                truth=read_truth(data.ground_truth), id=data.name, question=data.question, dataset=data.data_source
            )
            place = make_place(data.protocol, environment, ctx.model, PROCESS)
            trace.state.keep = partial(keep_episode, settings.keep_in, asked, run, place)
        if run.stop == "failed":  # by no fault of the agent's: verifiers keeps the episode from training
            if trace.state.keep is not None:
                trace.state.keep(None)
            raise RetrievalError(run.error)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


async def _lead(
    protocol: str,
    prompt: Sequence[ChatMessage],
    environment: Environment,
    chat: _Chat,
    limits: RolloutLimits,
    tokenizer: Any,
    escape: Callable[[str], str],
) -> EpisodeRun:
    """Lead an episode, whose lengths are estimated where there is no tokenizer."""
    if protocol == BROWSE:
        count = estimate_tokens if tokenizer is None else lambda text: len(tokenizer(text)["input_ids"])
        opening = count(TOOLS_JSON) + sum(count(message.content) for message in prompt)
        return await lead_browse_episode(prompt, environment, chat, limits, opening=opening, count=count, escape=escape)
    return await lead_episode(
        prompt,
        grammar_of(protocol),
        environment,
        chat,
        limits,
        count=estimate_tokens if tokenizer is None else lambda text: len(observation_ids(tokenizer, text)),
        escape=escape,
        max_tokens=limits.max_tokens,
    )


class _Chat:
    """The model behind verifiers, as a client of one episode."""

    def __init__(self, session: aiohttp.ClientSession, url: str, secret: str, model: str, trace: Any) -> None:
        self._session, self._url, self._model, self._trace = session, f"{url}/chat/completions", model, trace
        self._headers = {"Authorization": f"Bearer {secret}"}
        self._said: list[dict[str, Any]] = []

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """The agent's next turn. Raises `ContextOverflow` when verifiers or the server has no room left for one."""
        sampling = request.sampling
        body: dict[str, Any] = {"model": self._model, "stop": list(sampling.stop), "max_tokens": sampling.max_tokens}
        if request.tools:
            body = {"model": self._model, "max_tokens": sampling.max_tokens, "tools": json.loads(request.tools)}
        reply = await self._post(body | {"messages": self._messages(request.prompt)})
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        said = choice["message"]
        kept = {name: said[name] for name in _KEPT if said.get(name) is not None}
        self._said.append({"role": "assistant", "content": "", **kept})
        reply = _reply(said.get("content"), said.get("reasoning_content"), choice.get("finish_reason"), usage)
        called = (each["function"] | {"id": each.get("id") or ""} for each in said.get("tool_calls") or ())
        calls = tuple(ToolCall(id=each["id"], name=each["name"], arguments=each["arguments"]) for each in called)
        is_called = choice.get("finish_reason") == "tool_calls"
        return replace(reply, tool_calls=calls, finish_reason="stop" if is_called else reply.finish_reason)

    def _messages(self, prompt: str | tuple[ChatTurn, ...]) -> list[dict[str, Any]]:
        """Its own turns as they came: where they differ verifiers begins another branch."""
        assert not isinstance(prompt, str)
        said = iter(self._said)
        return [next(said) if turn.role == "assistant" else chat_message(turn) for turn in prompt]

    async def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        for attempt in range(_ATTEMPTS):
            try:
                async with self._session.post(self._url, json=body, headers=self._headers) as answer:
                    if answer.status == 200:
                        return await answer.json()
                    why = (await answer.text())[:300]
                    if self._trace.stop_condition is not None or (answer.status == 400 and "context" in why.lower()):
                        raise ContextOverflow(why)
                    if answer.status < 500 and answer.status != 429:
                        raise RequestRefused(f"{self._url} refuses the request: HTTP {answer.status}: {why}")
            except aiohttp.ClientError as error:
                why = str(error) or type(error).__name__
            if attempt + 1 < _ATTEMPTS:
                await asyncio.sleep(_FIRST_WAIT_S * 2**attempt)
        raise ServerUnavailable(f"{self._url} does not answer ({why}); see whether the server runs")


def _reply(
    content: str | None, reasoning: str | None, finish: str | None, usage: dict[str, Any] | None = None
) -> Reply:
    usage = usage or {}
    return Reply(
        text=content or "",
        reasoning=reasoning or "",
        finish_reason=finish or "stop",
        prompt_tokens=usage.get("prompt_tokens") or 0,
        completion_tokens=usage.get("completion_tokens") or 0,
        key="",
    )
