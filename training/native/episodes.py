"""Episodes of research agents in training: their limits, pages whose failure ends an episode, and what rewards see of
them.

An agent is trained with native calls and all of its context: one sequence of tokens is one episode. A turn that cannot
be read ends it, as a model that learns should not be told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from trailforge.evaluation.agents import plain_messages
from trailforge.inference import Client, Sampling
from trailforge.protocols import EpisodeRun
from trailforge.protocols.browse import BROWSE, BrowseConfig, BrowseRun, asking_of, run_browse_episode, turns_of
from trailforge.protocols.environment import Environment
from trailforge.retrieval import PageHit, PagePart, PageTools, SearchPatience, WordHits
from trailforge.rewards.episode import Episode
from trailforge.schemas import (
    ChatMessage,
    InvalidInput,
    MalformedReply,
    Message,
    NoSuchPage,
    Passage,
    ProviderError,
    RetrievalError,
)
from trailforge.training.token_episodes import RolloutLimits

T = TypeVar("T")

_LONGEST_TURN, _TURN_SHARE = 8192, 4
"""A turn may have that many tokens, and at most this part of the episode's."""
_NO_SLIPS = frozenset(("call_id", "untagged_thought"))
"""Ids are the server's matter; templates without thoughts leave them in the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseEpisode(EpisodeRun):
    """An episode of a research agent, with the interface that trainings expect of other agents' episodes."""

    done: BrowseRun | None
    """The episode with its record; None where a search that failed ended it."""

    @property
    def num_searches(self) -> int:
        """Return the number of searches that were carried out."""
        return 0 if self.done is None else self.done.record.figures.searches

    @property
    def passages(self) -> tuple[Passage, ...]:
        """Return all passages and parts of pages that the agent was given, in that order."""
        results = () if self.done is None else self.done.results
        return tuple(passage for result in results for passage in _passages(result.hits, result.opened))


def _passages(hits: Sequence[PageHit], opened: PagePart | None) -> list[Passage]:
    found = [Passage(id=hit.page, title=hit.title, text=hit.text, score=hit.score) for hit in hits]
    part = [] if opened is None else [Passage(id=opened.id, title=opened.title, text=opened.text, score=0.0)]
    return found + part


def read_run(run: EpisodeRun, tokens: int | None = None) -> Episode | None:
    """Return what rewards see of an episode of a research agent; None for those of other agents, whose messages show
    it. `tokens` counts everything after the prompt.
    """
    if not isinstance(run, BrowseEpisode) or run.done is None:
        return None
    record, turns = run.done.record, turns_of(run.done.record)
    spoken = [place for place, message in enumerate(record.messages) if message.role == "assistant"]
    well_formed = tuple(place in turns and not set(turns[place].mends) - _NO_SLIPS for place in spoken)
    return Episode(
        answer=run.answer,
        is_well_formed=run.stop == "answered" and all(well_formed),
        well_formed_turns=well_formed,
        num_searches=run.num_searches,
        retrieved_titles=tuple(passage.title for passage in run.passages),
        tokens=tokens,
        retrieved_texts=tuple(passage.text for passage in run.passages),
        given_texts=run.done.shown,
    )


def question_in(prompt: Sequence[ChatMessage]) -> str:
    """Return the question of a row's prompt. Raises `InvalidInput` for one that is not a system turn and a question."""
    if [message.role for message in prompt] != ["system", "user"]:
        raise InvalidInput(
            "expected a system turn and the question, as `trailforge training-set` writes prompts", field="prompt"
        )
    return asking_of(BROWSE).question_of(prompt[1].content)


def episode_config(limits: RolloutLimits, opening: int, top_k: int) -> BrowseConfig:
    """Return the configuration of the loop that runs an episode within these limits. `opening` is the number of tokens
    of the rules, the tools and the question; `top_k` the number of results of a search.
    """
    longest = max(1, min(_LONGEST_TURN, limits.max_tokens // _TURN_SHARE))
    return BrowseConfig(
        writing="native",
        sampling=Sampling(max_tokens=longest),
        max_calls=limits.max_searches or BrowseConfig().max_calls,
        max_tokens=opening + limits.max_tokens,
        max_refusals=0,
        top_k=top_k,
    )


async def lead_browse_episode(
    prompt: Sequence[ChatMessage],
    environment: Environment,
    client: Client,
    limits: RolloutLimits,
    *,
    opening: int,
    count: Callable[[str], int],
    escape: Callable[[str], str],
) -> BrowseEpisode:
    """Run one episode on a row's prompt, with any client.

    `limits.max_searches` counts calls of any tool here. `opening` is as for `episode_config`. `count` measures results,
    and `escape` is applied to what pages say. Raises what the client raises, errors that only the user can resolve, and
    `RetrievalError` when search after search fails.
    """
    question = question_in(prompt)
    if environment.pages is None:
        raise InvalidInput(f"{BROWSE} opens pages; give an index, finished runs or a search server", field="documents")
    config = episode_config(limits, opening, environment.top_k)
    pages = _TrainedPages(environment.pages, environment, count, escape, limits.max_observation_tokens)
    try:
        done = await run_browse_episode(
            question, pages, client=client, model="", config=config, count=count, clock=None
        )
    except _PageFailed as failure:
        said = tuple(Message(role=each.role, content=each.content, train=False) for each in prompt)
        return BrowseEpisode(
            question=question,
            steps=(),
            messages=said,
            stop="failed",
            answer="",
            tokens=0,
            error=str(failure),
            done=None,
        )
    return BrowseEpisode(
        question=question,
        steps=(),
        messages=plain_messages(done.record),
        stop=done.stop,
        answer=done.answer,
        tokens=sum(count(message.content) for message in done.record.messages[2:]),
        done=done,
    )


class _PageFailed(Exception):
    """A call of a tool failed for good, by no fault of the agent's."""


@dataclass(frozen=True, slots=True)
class _TrainedPages:
    """The `PageTools` of an episode: tried again where they fail, cut to the room of a result."""

    pages: PageTools
    environment: Environment
    count: Callable[[str], int]
    escape: Callable[[str], str]
    limit: int

    async def search(self, query: str, top_k: int) -> tuple[PageHit, ...]:
        """See `PageTools`."""
        return self._fitting(await self._ask(lambda: self.pages.search(query, top_k)))

    async def open(self, page: str, part: int) -> PagePart:
        """See `PageTools`."""
        found = await self._ask(lambda: self.pages.open(page, part))
        return replace(found, title=self.escape(found.title), text=self._cut(found.text, self.limit))

    async def find(self, page: str, text: str) -> WordHits:
        """See `PageTools`."""
        found = await self._ask(lambda: self.pages.find(page, text))
        return replace(found, hits=self._fitting(found.hits), missing=tuple(map(self.escape, found.missing)))

    def _fitting(self, hits: Sequence[PageHit]) -> tuple[PageHit, ...]:
        return tuple(
            replace(
                hit,
                title=self.escape(hit.title),
                known_as=self.escape(hit.known_as),
                text=self._cut(hit.text, self.limit // len(hits)),
            )
            for hit in hits
        )

    def _cut(self, text: str, limit: int) -> str:
        """Words at the end are left out where a text is too long, and a mark says so."""
        text = self.escape(text)
        words = text.split()
        while words and (size := self.count(text)) > limit:
            words = words[: min(len(words) - 1, len(words) * limit // size)]
            text = f"{' '.join(words)} …"
        return text

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """As `Environment.respond_or_fail` asks."""

        async def ask() -> T | NoSuchPage:
            try:
                return await call()
            except NoSuchPage as missing:  # the agent's matter
                return missing

        patience = self.environment.patience or SearchPatience()
        try:
            found = await patience.wait_for(ask)
        except (RetrievalError, ProviderError, MalformedReply) as error:
            problem = str(error) or type(error).__name__
            self.environment.failures.add(problem)
            raise _PageFailed(problem) from error
        self.environment.failures.clear()
        if isinstance(found, NoSuchPage):
            raise found
        return found
