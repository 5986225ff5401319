"""Run episodes of agents whose turns an RL framework's own server samples, for all adapters to frameworks.

An agent speaks the protocol that its question names, and searches what the framework's configuration names
(`SearchSettings`). Each process opens that once.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trailforge.inference import once
from trailforge.protocols import EpisodeRun
from trailforge.protocols.browse import BROWSE
from trailforge.protocols.environment import Environment, EnvironmentConfig
from trailforge.retrieval import WEB
from trailforge.rewards.episode import Reward
from trailforge.schemas import ChatMessage, InvalidInput, from_dict, located, to_dict
from trailforge.training.generation import Continuation, cut_at_end
from trailforge.training.kept_episodes import EpisodePlace, EpisodeWriter, TrainedQuestion, make_place, make_row
from trailforge.training.masks import END, START, prepare_tokenizer, render
from trailforge.training.native import form_of, read_run
from trailforge.training.rollouts import roll_out_one
from trailforge.training.scoring import plain, read_messages, read_truth
from trailforge.training.search_sources import open_training_environment
from trailforge.training.token_episodes import TokenEpisode, limits_of

SETTINGS = "TRAILFORGE_SEARCH"
"""Environment variable with the path of the settings, for frameworks whose configuration has no place for them."""
_OPENING = re.compile(
    rf"{re.escape(START)}system\n(.*?){re.escape(END)}\n{re.escape(START)}user\n(.*?){re.escape(END)}\n", re.DOTALL
)
_END_OF_TEXT = "<|endoftext|>"
"""With which base models end a turn."""

_GATHER_S = 5.0
"""How long episodes wait for others to stand in one file with."""
PROCESS = f"{socket.gethostname()}.{os.getpid()}"
_numbers = itertools.count()

GoOn = Callable[[list[int], int, Sequence[str], Collection[int]], Awaitable[Continuation]]
"""Continues a sequence, given its ids so far, its room, and the strings and tokens to stop at; returns what the server
sampled.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings(EnvironmentConfig):
    """What agents search, and how much of it. Exports write it for a framework's configuration."""

    documents: tuple[str, ...]
    """Folders of finished runs, or one corpus (an index, a file of passages); none where `kind` is `web` or a URL."""
    kg: str | None = None
    """A knowledge graph's folder, for `kg_search`, or the URL of a server that has one."""
    top_k: int = 5
    """Number of passages that a search shows; in plans, that each node shows."""
    max_observation_tokens: int = 1024
    """Most tokens of one tool turn; more is cut."""
    max_searches: int | None = None
    """Most searches of an episode; None: its length alone ends it."""
    mask_truncated: bool = False
    """Whether no loss is taken on episodes that end for want of room. Their rewards count all the same."""
    keep_in: str = ""
    """The folder in whose `episodes/` all episodes are kept; empty: none is kept."""

    def __post_init__(self) -> None:
        EnvironmentConfig.__post_init__(self)
        if not self.documents and not self.is_remote:
            raise InvalidInput("say what is searched: folders of finished runs, or one corpus", field="documents")
        if self.documents and self.kind == WEB:
            raise InvalidInput(
                "documents are given, but `kind` searches the web: name a back end that searches documents as `kind`",
                field="documents",
            )


def read_settings(section: Mapping[str, Any]) -> SearchSettings:
    """Read settings from a section of a configuration.

    Raises `InvalidInput` for unknown keys and values that do not fit.
    """
    return from_dict(SearchSettings, {**plain(section), "documents": plain(section.get("documents") or ())})


@cache
def settings_of(path: str) -> SearchSettings:
    """Read settings from a YAML file. Raises `InvalidInput`, naming the file."""
    try:
        section = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInput(f"cannot be read as YAML ({error})", file=path) from error
    if not isinstance(section, dict):
        raise InvalidInput(
            "expected settings of the search, as `trailforge export` writes them to search.yaml", file=path
        )
    with located(file=path):
        return read_settings(section)


def named_settings() -> SearchSettings:
    """Read the settings from the YAML file that the environment variable TRAILFORGE_SEARCH names, for frameworks whose
    configuration has no place for them.
    """
    path = os.environ.get(SETTINGS)
    if not path:
        raise InvalidInput("set it to the path of the search settings (`search.yaml` of the export)", field=SETTINGS)
    return settings_of(path)


def read_opening(prompt: Any) -> tuple[ChatMessage, ...]:
    """Read the system turn and the question, from messages or from the text that our template makes of them."""
    if not isinstance(prompt, str):
        return read_messages(list(prompt))
    found = _OPENING.match(prompt)
    messages = ()
    if found is not None:
        messages = ChatMessage(role="system", content=found[1]), ChatMessage(role="user", content=found[2])
    if render(messages, add_generation_prompt=True) != prompt:
        raise InvalidInput("not a system turn and a question in ChatML; give the model our template", field="prompt")
    return messages


async def search_episode(
    prompt: Sequence[ChatMessage],
    protocol: str,
    settings: SearchSettings,
    *,
    go_on: GoOn,
    tokenizer: Any,
    max_tokens: int,
    asked: TrainedQuestion | None = None,
    step: Callable[[], int] = lambda: 0,
) -> TokenEpisode:
    """Run an episode of at most `max_tokens` after the prompt.

    `go_on` asks the framework's server for the next turn (`GoOn`). `tokenizer` has passed `prepare_tokenizer` or, for
    research agents, is unchanged. `asked` is the question, for the episode to be stored where `settings` say so; None:
    it is not stored. `step` returns, when the episode is over, the step of the training that it belongs to; 0 means
    unknown. Raises what `training.search_sources.open_training_environment` and `roll_out_one` raise.
    """
    environment = await asyncio.to_thread(environment_of, protocol, settings)
    end_ids = end_ids_of(tokenizer, has_calls=protocol == BROWSE)

    async def ask(ids: list[int], room: int, stop: Sequence[str]) -> Continuation:
        made = await go_on(ids, room, stop, end_ids)
        # A server may look for stop strings every few tokens only. What it sampled up to the stop is what it would
        # have sampled anyway, so leaving the rest out changes nothing that the loss is taken on.
        kept = cut_at_end(made.ids[:room], tokenizer, stop, end_ids)
        return Continuation(kept, None if made.logprobs is None else made.logprobs[: len(kept)])

    limits = limits_of(settings, max_tokens)
    episode = await roll_out_one(
        prompt, protocol, environment, go_on=ask, end_ids=end_ids, tokenizer=tokenizer, limits=limits
    )
    if settings.keep_in and asked is not None:
        model = str(getattr(tokenizer, "name_or_path", ""))
        place = make_place(protocol, environment, model, PROCESS, step())
        keep_episode(settings.keep_in, asked, episode.run, place)
    return episode.without_loss() if settings.mask_truncated and episode.run.stop == "too_long" else episode


def keep_episode(
    folder: str, asked: TrainedQuestion, run: EpisodeRun, place: EpisodePlace, reward: Reward | None = None
) -> None:
    """Have an episode stored in `episodes/` below a folder, and return at once. `asked` is its question, and `place`
    says to which training and step it belongs. `reward` is None where it is not known."""
    number = next(_numbers)
    _writer_to(folder).keep(place.step, lambda: [make_row(asked, run, place, number=number, reward=reward)])


@cache
def _writer_to(folder: str) -> EpisodeWriter:
    return EpisodeWriter(Path(folder), PROCESS, gather_s=_GATHER_S)


def asked_of(truth: Any, known: Mapping[str, Any] | None, dataset: str = "") -> TrainedQuestion | None:
    """Return the question of a framework's row, for episodes to be stored; None for a row that does not have it.
    `truth` is the row's ground truth in any form that `read_truth` takes, `known` the column `extra_info` of our
    exports.
    """
    known = known or {}
    if not known.get("question"):
        return None
    question = str(known["question"])
    return TrainedQuestion(
        truth=read_truth(truth), id=str(known.get("uid") or question), question=question, dataset=dataset
    )


def known_of(episode: TokenEpisode) -> dict[str, Any]:
    """Return what the rewards in this folder need to know of an episode besides its text, and how it ended. No token of
    an episode that `failed` is trained, and its reward should count in no group's mean.
    """
    read = read_run(episode.run, len(episode.ids))
    return {
        **({} if read is None else {"read": to_dict(read)}),
        "transcript": [{"role": message.role, "content": message.content} for message in episode.messages],
        "response_tokens": len(episode.ids),
        "retrieved_titles": [passage.title for passage in episode.run.passages],
        "num_searches": episode.run.num_searches,
        "stop": episode.run.stop,
        "error": episode.run.error,
    }


def logprobs_of(episode: TokenEpisode) -> list[float] | None:
    """Return the log-probability of each token, 0 where no loss is taken; None unless all others are known."""
    known = [logprob for logprob in episode.logprobs if logprob is not None]
    return known if len(known) == len(episode.logprobs) else None


@cache
def end_ids_of(tokenizer: Any, *, has_calls: bool = False) -> tuple[int, ...]:
    """Return the tokens that end a turn: one of ours, or with native calls one of the model's own chat template. They
    are found once for each tokenizer, since listing a vocabulary is slow.
    """
    if has_calls:
        end = form_of(tokenizer).end
    else:
        prepare_tokenizer(tokenizer)
        end = tokenizer.eos_token
    vocabulary = tokenizer.get_vocab()
    return tuple(vocabulary[token] for token in (end, _END_OF_TEXT) if token in vocabulary)


@once
def environment_of(protocol: str, settings: SearchSettings) -> Environment:
    """Open what is searched, once for all calls. Call it on a thread, since it runs an event loop of its own. Raises
    what `training.search_sources.open_training_environment` raises.
    """
    return open_training_environment(
        protocol,
        [Path(folder) for folder in settings.documents],
        search=settings,
        kg=settings.kg or None,
        top_k=settings.top_k,
    )


@once
def tokenizer_of(name: str) -> Any:
    """Load a model's tokenizer, once for all calls, since two threads that import transformers at the same time
    fail.
    """
    from trailforge.training.weights import load_tokenizer

    return load_tokenizer(name)
