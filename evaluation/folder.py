"""An evaluation on disk: which agent answered what, its episodes, and what its back ends cost.

FOLDER/evaluation.json          an `Evaluation`, written first and sealed; a folder continues with the same only
FOLDER/episodes/CELL/*.parquet  rows of `AgentEpisode`: a shard of questions each
FOLDER/shards/*.json            a receipt of each finished shard, which is not run again
FOLDER/indexes/BACKEND/         of back ends that are built over the evaluation's own corpus
FOLDER/ledger/calls.sqlite      all replies of models
FOLDER/report.md, table.parquet, plots/*.png   made of them anew by `evaluation.results.report`
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from trailforge.evaluation.agents import load_agent
from trailforge.evaluation.agents.published import published_grammar
from trailforge.evaluation.prices import ModelPrice, join_prices, read_prices_of_all
from trailforge.pipelines import LEDGER
from trailforge.pipelines.engine import LOCK, RECEIPTS, output_errors, unfinished_name, write_text
from trailforge.retrieval.backends import name_of_earlier
from trailforge.retrieval.indexes import SEAL, is_as_sealed, seal
from trailforge.schemas import (
    CALLED_PLAIN,
    AgentEpisode,
    InvalidInput,
    OutputError,
    PromptRefused,
    either_name,
    from_dict,
    parse_json,
    read_parquet,
    read_rows,
    to_dict,
)

MANIFEST = "evaluation.json"
EPISODES, INDEXES = "episodes", "indexes"
STEP_FILES = "step-*.parquet"
"""The pattern of files in `episodes/` of a training's folder, which has no cells: the episodes of a step, by their
names in its order.
"""
FORMAT = 2
EARLIER = 1
"""An earlier version of the folder that is still read.

In it a paper's name does not tell which implementation built a back end; such names are read as they are called now.
"""
_FIXED = (
    *("questions_sha256", "num_questions", "dataset"),
    *("top_k", "context_tokens", "tokenizer", "documents", "kg", "judge"),
)
"""Fields in which a folder goes on with the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoice:
    """One agent of an evaluation, with its settings."""

    name: str
    config: dict[str, Any]
    hash: str
    """The hash of name and settings, which is the `agent_config` of its episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChoice:
    """One back end of an evaluation: what it searches, and what building it cost."""

    name: str
    index: str = ""
    """The hash of what is searched, as in the episodes; empty: the question's own paragraphs, or the web."""
    config: dict[str, Any] = field(default_factory=dict)
    build_hours: float | None = None
    """Hours that building it took; None: not known, as of a server."""
    hours_per_million: float | None = None
    """Hours per million tokens of the corpus; None: not known."""
    cost: float | None = None
    """Cost of the model calls of its build, in the currency of the prices; None: not known."""
    cost_per_million: float | None = None
    calls: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The grid of an evaluation: every agent over every back end with every model and seed, on the same questions."""

    format: int = FORMAT
    questions: str
    """The name of the questions' file."""
    questions_sha256: str
    dataset: str
    num_questions: int
    agents: tuple[AgentChoice, ...]
    backends: tuple[BackendChoice, ...]
    models: tuple[str, ...]
    """The models by the names that the episodes give them."""
    seeds: tuple[int, ...]
    top_k: int
    context_tokens: int | None = None
    """Most tokens of passages that a search shows, instead of `top_k` passages; None: `top_k` passages."""
    tokenizer: str = ""
    """The tokenizer that counted what was read; empty: it is estimated."""
    shard_size: int = 20
    """Number of questions in a shard."""
    documents: str = ""
    """SHA-256 of the file over which back ends given by name are built; empty: the questions' own paragraphs, all
    together.
    """
    kg: str = ""
    """SHA-256 of the manifest of the knowledge graph, for agents that search one; empty: none."""
    judge: str = ""
    """The name of the judging model; empty: none."""
    prices: tuple[ModelPrice, ...] = ()
    """Prices of models, for the online cost. The cost of a model without a price is not known."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of what else decides episodes: the hash of the prompts, and how the model is asked."""
    seal: str = ""
    """The seal of the file, as in `retrieval.indexes.seals`."""


def choose_agent(name: str, numbers: Mapping[str, Any], prompt: Literal["ours", "published"] = "ours") -> AgentChoice:
    """Return an agent with these settings. `prompt` chooses between our prompts and the published ones. Raises
    `InvalidInput` for an unknown agent, and for settings or published prompts that it does not have.
    """
    agent = load_agent(name)
    values = dict(numbers)
    if any(each.name == "prompt" for each in fields(agent.config)):
        values.setdefault("prompt", prompt)
        if values["prompt"] == "published" and agent.protocol:
            published_grammar(agent.protocol)
    try:
        config = to_dict(from_dict(agent.config, values))
    except InvalidInput as error:
        known = ", ".join(each.name for each in fields(agent.config))
        raise InvalidInput(f"{error.problem}; {name} has {known}", field=f"agents.{name}.{error.field}") from error
    words = {"words": agent.words} if agent.words else {}
    return AgentChoice(name=name, config=config, hash=hash_content({"agent": name, **config, **words}))


def choose_agents(
    names: Iterable[str], numbers: Mapping[str, Any], prompt: Literal["ours", "published"] = "ours", *, has_graph: bool
) -> tuple[AgentChoice, ...]:
    """Choose each agent as `choose_agent` does. Raises what that raises, and `InvalidInput` where an agent lacks its
    knowledge graph or none uses the one that is given.
    """
    names = list(dict.fromkeys(names))
    reads = [name for name in names if load_agent(name).searches in ("graph", "any")]
    for name in reads if has_graph and reads else names:
        load_agent(name).check_graph(has_graph)
    return tuple(choose_agent(name, numbers.get(name) or {}, prompt) for name in names)


def hash_content(content: object) -> str:
    """Return the first twelve digits of the SHA-256 of a JSON value, its keys sorted."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def write_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """Write an evaluation with its own hash to its folder, all of it or nothing. Raises `OutputError`."""
    content = to_dict(evaluation)
    del content[SEAL]
    write_text(folder / MANIFEST, json.dumps(seal(content), indent=1, ensure_ascii=False))


def claim_folder(folder: Path, wanted: Evaluation) -> Evaluation:
    """Write to a folder what will be evaluated, or continue the evaluation that it holds.

    Agents, back ends, models and seeds may be added and prices may change, since cells are independent; everything else
    must be the same. Raises `InvalidInput`, naming the field that differs.
    """
    wanted = check_same(folder, wanted)
    write_evaluation(folder, wanted)
    return wanted


def check_same(folder: Path, wanted: Evaluation) -> Evaluation:
    """Return what `claim_folder` would write, without writing it. Raises what that raises, and `OutputError` for a
    folder that holds other files.
    """
    if (folder / MANIFEST).exists():
        return _join(folder, read_evaluation(folder), wanted)
    _refuse_strangers(folder)
    return wanted


def _refuse_strangers(folder: Path) -> None:
    """Of a folder without an evaluation: its report and plots would take the place of whatever is called so."""
    with output_errors(folder):
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    own = {LOCK, Path(LEDGER).parts[0]}
    strange = next((name for name in names if name not in own and unfinished_name(name) != MANIFEST), None)
    if strange is not None:
        raise OutputError(
            f"{folder} holds no evaluation (no {MANIFEST}) but other things, such as {strange}; give another --out"
        )


def _join(folder: Path, earlier: Evaluation, wanted: Evaluation) -> Evaluation:
    if earlier.format == EARLIER and any(map(_had_papers_name, earlier.backends)):
        raise InvalidInput(
            "it is of an earlier version, whose names of back ends do not say whether a model built them; its report "
            "can be read, and new episodes need another --out",
            file=folder,
        )
    for name in _FIXED:
        before, now = getattr(earlier, name), getattr(wanted, name)
        if before != now:
            _refuse(folder, name, before, now)
    for name, before in earlier.versions.items():
        if name in wanted.versions and wanted.versions[name] != before:
            _refuse(folder, f"versions.{name}", before, wanted.versions[name])
    agents = {each.name: each for each in earlier.agents}
    for each in wanted.agents:
        known = agents.setdefault(each.name, each)
        for name in sorted(known.config.keys() | each.config.keys()):
            if known.config.get(name) != each.config.get(name):
                _refuse(folder, f"{each.name}.{name}", known.config.get(name), each.config.get(name))
    backends = {each.name: each for each in earlier.backends}
    for each in wanted.backends:
        if backends.get(each.name, each).index != each.index:
            _refuse(folder, f"backends.{each.name}.index", backends[each.name].index[:12], each.index[:12])
        if (asked := backends.get(each.name, each).config.get("asks")) != each.config.get("asks"):
            _refuse(folder, f"backends.{each.name}.asks", asked, each.config.get("asks"))
        backends[each.name] = each
    return replace(
        wanted,
        questions=earlier.questions,
        agents=tuple(agents.values()),
        backends=tuple(backends.values()),
        models=tuple(dict.fromkeys((*earlier.models, *wanted.models))),
        seeds=tuple(dict.fromkeys((*earlier.seeds, *wanted.seeds))),
        shard_size=earlier.shard_size,
        prices=join_prices(earlier.prices, wanted.prices),
    )


def _refuse(folder: Path, name: str, before: object, now: object) -> None:
    raise InvalidInput(
        f"it was evaluated with {before!r}, not {now!r}; give another --out, or what it was evaluated with",
        file=folder,
        field=name,
    )


def is_evaluation(folder: Path) -> bool:
    """Tell whether a folder holds an evaluation, and not a run."""
    return (folder / MANIFEST).is_file()


def read_evaluation(folder: Path) -> Evaluation:
    """Read which agents, back ends, models and seeds an evaluation's folder has. Raises `InvalidInput` when it holds no
    evaluation, or a damaged one.
    """
    evaluation = _read_stored(folder)
    if evaluation.format == FORMAT:
        return evaluation
    return replace(evaluation, backends=tuple(map(_as_called_now, evaluation.backends)))


def _read_stored(folder: Path) -> Evaluation:
    path = folder / MANIFEST
    try:
        content = parse_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(
            f"{folder} holds no evaluation: make one with `trailforge evaluate`, and give the folder it wrote"
        ) from error
    except ValueError as error:
        raise InvalidInput(f"{path} is damaged: evaluate into a new folder") from error
    if not isinstance(content, dict) or content.get("format") not in (FORMAT, EARLIER):
        raise InvalidInput(f"{path} is not of evaluation format {FORMAT}: evaluate into a new folder")
    if SEAL not in content or not is_as_sealed(content):
        raise InvalidInput(f"{path} is damaged: evaluate into a new folder")
    return from_dict(Evaluation, read_prices_of_all(content))


def _as_called_now(choice: BackendChoice) -> BackendChoice:
    """A server told its back end's name alone, and not its numbers."""
    match choice.config:
        case {"backend": backend, **numbers}:
            now = name_of_earlier(backend, numbers) if numbers else either_name(backend)
            return replace(
                choice, name=now if choice.name == backend else choice.name, config={**choice.config, "backend": now}
            )
        case _:
            return choice


def _had_papers_name(choice: BackendChoice) -> bool:
    names = {name for each in CALLED_PLAIN for name in (each, CALLED_PLAIN[each], either_name(each))}
    return bool(names & {choice.name, choice.config.get("backend")})


def read_episodes(folder: Path, cell: str = "*") -> Iterator[AgentEpisode]:
    """Read the episodes of an evaluation's finished shards, in the order of cells and shards.

    `cell` is a glob pattern of folder names. Episodes of an earlier version get the names of back ends that the
    evaluation knows. Raises what `read_evaluation` raises, if the folder has an evaluation.
    """
    names = dict[str, str]()
    if (folder / MANIFEST).exists() and (stored := _read_stored(folder)).format == EARLIER:
        names = {either_name(each.name): _as_called_now(each).name for each in stored.backends}
    for row in read_rows(sorted((folder / EPISODES).glob(f"{cell}/*.parquet")), AgentEpisode):
        yield replace(row, backend=names.get(row.backend, row.backend)) if names else row


def read_trained(folder: Path) -> Iterator[AgentEpisode]:
    """Read the episodes that a training by reinforcement learning stored, in the order of its steps."""
    yield from read_rows(sorted((folder / EPISODES).glob(STEP_FILES)), AgentEpisode)


def lighten(episode: AgentEpisode) -> AgentEpisode:
    """Return the episode with its numbers and without the texts that it read or wrote, so that many fit into memory."""
    bare = tuple(replace(message, content="") for message in episode.messages)
    nothing: dict[str, Any] = dict.fromkeys(
        ("document_ids", "titles", "source_ids", "source_titles", "scores", "triples"), ()
    )
    searches = tuple(replace(search, **nothing) for search in episode.searches)
    return replace(episode, messages=bare, searches=searches, calls=())


def is_refused(row: AgentEpisode) -> bool:
    """Tell whether an episode failed because the model server refused one of its prompts."""
    return row.stop == "failed" and row.error.startswith(PromptRefused.opening)


def forget_refused(folder: Path) -> int:
    """Mark the shards for a new run in which episodes failed because a prompt was refused; returns the number of such
    episodes.
    """
    found = 0
    for path in sorted((folder / EPISODES).glob("*/*.parquet")):
        if refused := sum(map(is_refused, read_parquet(path, AgentEpisode))):
            (folder / RECEIPTS / f"{path.stem}.json").unlink(missing_ok=True)
            found += refused
    return found
