"""The grid of an evaluation: agents × back ends × models × seeds, each cell divided into shards of questions.

A shard with a receipt is finished and not run again; a killed evaluation is resumed by the same call, and pays no model
call twice, since the ledger has the replies. Cells are independent, so that more may be added later.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from trailforge.evaluation.agents import AgentRun, AgentTools, ask_for, load_agent
from trailforge.evaluation.agents.reading_budget import CountTokens
from trailforge.evaluation.corpora import Corpora, hash_place
from trailforge.evaluation.folder import EPISODES, AgentChoice, BackendChoice, Evaluation, hash_content, is_refused
from trailforge.evaluation.prices import costs_of, prices_of
from trailforge.evaluation.questions import QuestionSet
from trailforge.evaluation.results.metrics import EpisodeSetting, hash_episode, make_episode
from trailforge.inference import Asker, Client, Meter, ModelClient, Style, all_or_error, metering
from trailforge.inference.judge import Judge, JudgeConfig, Judged
from trailforge.pipelines.engine import (
    ProgressFile,
    Shard,
    begin_progress,
    finish_shard,
    missing_shards,
    remove_temporary_files,
    show_progress,
)
from trailforge.pipelines.runs import ModelConfig
from trailforge.presets import load_evaluation_preset
from trailforge.protocols import PROTOCOLS
from trailforge.protocols.environment import Environment, EnvironmentConfig
from trailforge.schemas import (
    ITEM_ERRORS,
    AgentEpisode,
    BudgetExceeded,
    InvalidInput,
    OutOfCredit,
    OutputError,
    ProviderError,
    Question,
    ServerUnavailable,
    Stalled,
    TrailforgeError,
    estimate_tokens,
    from_dict,
    located,
    visible,
)

_ENDS_ALL = (BudgetExceeded, OutputError, OutOfCredit, ServerUnavailable, Stalled)
"""No matter of one episode: the same command goes on when it is mended."""
_MANY = 5
"""Episodes of a shard, none of which came to an end: that is no matter of one episode either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConfig:
    """All settings of an evaluation that the command line does not have to give."""

    model: ModelConfig = field(default_factory=ModelConfig)
    style: Style = "chat"
    """How the model is asked: by the server's chat endpoint or by its completions. Published prompts of protocols are
    sent as one text in either case."""
    top_k: int = 5
    """Number of passages that a search shows."""
    context_tokens: int | None = None
    """Most tokens of passages that a search shows, by the agent's tokenizer, in place of `top_k`; in plans, that each
    node shows.
    """
    tokenizer: str = ""
    """The tokenizer that counts what is read, by folder or name; empty: the model's if `context_tokens` is set, else an
    estimate.
    """
    agents: dict[str, Any] = field(default_factory=dict)
    """Settings of agents other than their defaults, by the agents' names."""
    backends: dict[str, Any] = field(default_factory=dict)
    """Settings of back ends that are built other than their defaults, by the back ends' names."""
    retrieval: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    """The encoder of back ends that are built, and how graphs are searched and results filtered. Its `kind` is
    ignored.
    """
    builder: ModelConfig | None = None
    """The model that back ends ask, while they are built and searched; None: the evaluated model."""
    judge: JudgeConfig | None = None
    shard_size: int = 20
    episodes_in_flight: int = 64
    """Number of episodes that run at a time. Each makes little more than one call at a time."""
    episode_s: float = 3600.0
    """Seconds after which an episode is given up as failed."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for numbers below 1."""
        for name in ("top_k", "context_tokens", "shard_size", "episodes_in_flight", "episode_s"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise InvalidInput("has to be 1 or more", field=name)

    def counted_by(self, tokenizer: str | None, context_tokens: int | None, model: str) -> EvaluationConfig:
        """Return this configuration with another tokenizer and another limit of context tokens; None keeps either.
        `model` is the agent's model, whose tokenizer counts where none is named. Raises `InvalidInput` for a limit
        without a tokenizer that counts.
        """
        limit, named = context_tokens or self.context_tokens, tokenizer or self.tokenizer
        if limit and not named and "/" not in model:
            raise InvalidInput("needed to count tokens; name the agent's model", field="--tokenizer")
        return replace(self, context_tokens=limit, tokenizer=named or (model if limit else ""))


def read_evaluation_config(preset: str) -> EvaluationConfig:
    """Read the configuration of a preset, by name or by a YAML file's path.

    Raises `InvalidInput`, naming preset and field.
    """
    with located(file=f"preset {preset}"):
        return from_dict(EvaluationConfig, load_evaluation_preset(preset))


@dataclass(frozen=True, slots=True, kw_only=True)
class GridModel:
    """The model that a grid evaluates: its name, its client, and perhaps a judge of its answers."""

    name: str
    """The model's name, as the episodes give it."""
    client: Client
    style: Style = "chat"
    judge: Judge | None = None
    """A judge that also says whether answers are right; None: none."""
    figures: Callable[[], dict[str, int]] = dict
    """Returns the client's figures, for progress displays, as `ModelClient.figures` does."""
    served: ModelClient | None = None
    """The client, where it asks a server; else None."""
    count: CountTokens = estimate_tokens
    """Counts, by the model's tokenizer, the tokens that its agents are given to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One agent over one back end with one model and seed."""

    agent: AgentChoice
    backend: BackendChoice
    model: str
    seed: int

    @property
    def folder(self) -> str:
        """Return the name of the folder with the cell's episodes, below `episodes/`."""
        plain = (re.sub(r"[^A-Za-z0-9._]+", "-", each) for each in (self.agent.name, self.backend.name, self.model))
        return "--".join((*plain, f"seed{self.seed}"))

    @property
    def setting(self) -> EpisodeSetting:
        """Return what all episodes of the cell have in common: agent, back end, model and seed."""
        return EpisodeSetting(
            agent=self.agent.name,
            agent_config=self.agent.hash,
            protocol=load_agent(self.agent.name).protocol,
            backend=self.backend.name,
            index=self.backend.index,
            model=self.model,
            seed=self.seed,
        )

    def shards(self, questions: Sequence[Question], size: int) -> list[Shard]:
        """Divide the cell's questions into shards of at most `size`."""
        setting, found = self.setting, []
        for first in range(0, len(questions), size):
            asked = [hash_episode(each, setting) for each in questions[first : first + size]]
            name = f"part-{first // size:05d}-{hash_content(asked)}"
            found.append(Shard(name=name, input="", first=first, rows=len(asked)))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationGrid:
    """The cells to be run in a folder, which no other process may write to meanwhile (`engine.files.exclusive`)."""

    folder: Path
    questions: Sequence[Question]
    cells: Sequence[Cell]
    open: Callable[[BackendChoice], Environment]
    """Opens what a back end searches. It is called once for each back end of which something is missing."""
    shard_size: int = 20
    episodes_in_flight: int = 64
    episode_s: float = 3600.0

    @property
    def shards(self) -> list[tuple[Cell, Shard]]:
        """Return all shards of the grid, in order, each with its cell."""
        return [(cell, shard) for cell in self.cells for shard in cell.shards(self.questions, self.shard_size)]

    @property
    def missing(self) -> list[tuple[Cell, Shard]]:
        """Return the shards that are not finished, each with its cell."""
        work = self.shards
        names = {shard.name for shard in missing_shards(self.folder, [shard for _, shard in work])}
        return [(cell, shard) for cell, shard in work if shard.name in names]

    async def run(self, model: GridModel) -> Counter[str]:
        """Run all unfinished shards, back end by back end; returns the number of episodes by how they ended.

        An episode that fails is a row that says so. Raises errors that concern more than one episode: a server that
        does not answer, a cap, a full disk, or a shard in which every episode fails.
        """
        work, missing = self.shards, self.missing
        running = _Running(self, model, ProgressFile(self.folder), has_succeeded=len(missing) < len(work))
        for cell in self.cells:
            remove_temporary_files(self.folder / EPISODES / cell.folder, lambda name: name.endswith(".parquet"))
        waiting = {shard.name for _, shard in missing}
        begin_progress(self.folder, (shard.name for _, shard in work if shard.name not in waiting))
        with show_progress(self.folder, "episodes", [shard for _, shard in work], counts_items=True):
            for backend in dict.fromkeys(cell.backend.name for cell, _ in missing):
                of_this = [(cell, shard) for cell, shard in missing if cell.backend.name == backend]
                await running.run(of_this, self.open(of_this[0][0].backend))
            running.progress.close(running.counters)
        return running.stops


def describe_evaluation(
    asked: QuestionSet,
    config: EvaluationConfig,
    corpora: Corpora,
    agents: Sequence[AgentChoice],
    model: str,
    seeds: Sequence[int],
) -> Evaluation:
    """Return the description of an evaluation without its back ends, whose content is known only once they are
    built.
    """
    return Evaluation(
        questions=asked.name,
        questions_sha256=asked.sha256,
        dataset=", ".join(sorted({question.dataset for question in asked.questions})),
        num_questions=len(asked.questions),
        agents=tuple(agents),
        backends=(),
        models=(model,),
        seeds=tuple(seeds),
        top_k=config.top_k,
        context_tokens=config.context_tokens,
        tokenizer=config.tokenizer,
        shard_size=config.shard_size,
        documents=hash_place(corpora.documents),
        kg=hash_place(corpora.kg),
        judge=config.judge.model if config.judge else "",
        prices=prices_of((*((corpora.writer.model,) if corpora.writer else ()), replace(config.model, name=model))),
        versions={"prompts": _hash_prompts(), "style": config.style},
    )


def _hash_prompts() -> str:
    """Of all that agents are told: with other words a folder does not go on."""
    folder = files("trailforge.evaluation.agents") / "prompts"
    texts = {each.name: each.read_text(encoding="utf-8") for each in folder.iterdir() if each.name.endswith(".txt")}
    rules = {name: grammar.system_prompt for name, grammar in PROTOCOLS.items()}
    return hash_content([texts, rules])


def plan_grid(wanted: Evaluation, held: Evaluation, corpora: Corpora, config: EvaluationConfig) -> EvaluationGrid:
    """Return the grid that runs the cells of the evaluation `wanted`. `held` describes the folder (`claim_folder`),
    which may hold further cells; its size of shards is kept."""
    return EvaluationGrid(
        folder=corpora.folder,
        questions=corpora.questions,
        cells=[
            Cell(agent=agent, backend=backend, model=model, seed=seed)
            for backend in wanted.backends
            for model in wanted.models
            for seed in wanted.seeds
            for agent in wanted.agents
        ],
        open=corpora.open,
        shard_size=held.shard_size,
        episodes_in_flight=config.episodes_in_flight,
        episode_s=config.episode_s,
    )


class _Running:
    """A grid under way."""

    def __init__(self, grid: EvaluationGrid, model: GridModel, progress: ProgressFile, *, has_succeeded: bool) -> None:
        self.grid, self.model, self.progress, self.has_succeeded = grid, model, progress, has_succeeded
        self.stops: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._room = asyncio.Semaphore(grid.episodes_in_flight)
        self._shards = asyncio.Semaphore(1 + grid.episodes_in_flight // grid.shard_size)

    async def run(self, work: Sequence[tuple[Cell, Shard]], environment: Environment) -> None:
        await all_or_error(self._shard(cell, shard, environment) for cell, shard in work)

    @property
    def counters(self) -> dict[str, int]:
        return {**self.model.figures(), **self._tokens, **self.stops, "items": self.stops.total()}

    async def _shard(self, cell: Cell, shard: Shard, environment: Environment) -> None:
        async with self._shards:
            questions = self.grid.questions[shard.first : shard.first + shard.rows]
            rows = await all_or_error(self._episode(cell, question, environment) for question in questions)
            refused = [number for number, row in enumerate(rows) if is_refused(row)]  # perhaps for a time only
            again = await all_or_error(self._episode(cell, questions[number], environment) for number in refused)
            for number, row in zip(refused, again, strict=True):
                rows[number] = row
                if is_refused(row):
                    self._count(row)
            if self.model.served is not None:
                self.model.served.check_replies()
            failed = [row for row in rows if row.stop == "failed" and not is_refused(row)]
            if len(failed) == len(rows) and (len(rows) >= _MANY or not self.has_succeeded):
                raise ProviderError(
                    f"all {len(rows)} episodes of {cell.folder} failed, the first with: {failed[0].error}; mend that "
                    "and run the same command again"
                )
            self.has_succeeded = True
            finish_shard(self.grid.folder, shard, {f"{EPISODES}/{cell.folder}": rows}, ())

    async def _episode(self, cell: Cell, question: Question, environment: Environment) -> AgentEpisode:
        async with self._room:
            row = await run_cell_episode(question, cell, environment, self.model, limit_s=self.grid.episode_s)
        if not is_refused(row):
            self._count(row)
        return row

    def _count(self, row: AgentEpisode) -> None:
        self.stops[row.stop] += 1
        for name in ("prompt_tokens", "completion_tokens"):
            self._tokens[name] += getattr(row.costs, name)
        self.progress.write(self.counters, self.model.served.trouble if self.model.served else "")


async def run_cell_episode(
    question: Question, cell: Cell, environment: Environment, model: GridModel, *, limit_s: float
) -> AgentEpisode:
    """Run one episode and return its row: scored, judged where there is a judge, and tagged.

    An episode that fails, or is not done in time, is a row with stop `failed` and the error. Raises errors that concern
    more than one episode: `BudgetExceeded`, `OutputError`, `ServerUnavailable`, `Stalled`.
    """
    agent, meter, error = load_agent(cell.agent.name), Meter(), ""
    asker = Asker(client=model.client, model=model.name, style=model.style, seed=cell.seed, meter=Meter())
    tools = AgentTools(environment=environment, asker=asker, count=model.count)
    config = from_dict(agent.config, cell.agent.config)
    run, began = AgentRun(answer="", stop="failed", messages=(), searches=()), time.perf_counter()
    try:
        with metering() as meter:  # of the searches too, where these ask
            async with asyncio.timeout(limit_s):
                run = await agent.run(ask_for(question, cell.setting.protocol), tools, config)
    except _ENDS_ALL:
        raise
    except TimeoutError:
        error = f"not done within {limit_s:g} s"
    except Exception as failure:
        name = "" if isinstance(failure, TrailforgeError) else f"{type(failure).__name__}: "
        error = f"{name}{visible(str(failure))}"
    seconds = None if meter.is_from_ledger else round(time.perf_counter() - began, 6)
    costs = costs_of(meter, model.name, context_tokens=run.context_tokens, seconds=seconds)
    judge = await _judge(question, run, model.judge)
    return make_episode(question, run, cell.setting, costs=costs, judge=judge, error=error)


async def _judge(question: Question, run: AgentRun, judge: Judge | None) -> float | None:
    """None where none is asked, as of letters, and for a verdict that cannot be had or read: it is none."""
    if judge is None or run.stop == "failed" or question.kind == "options":
        return None
    try:
        return await judge.score(Judged(question=question.question, answer=run.answer, golds=question.golds))
    except ITEM_ERRORS:
        return None
