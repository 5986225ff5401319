"""R-Search episodes of bundle questions: think, plan, search, answer (R-Search, sections 3.3 and 3.4).

The gold way needs no model: the thought is told from question and plan, the gold plan is run by the tools, and the
answer is the gold answer. The sampled way is the paper's two-stage generation: the model writes up to `</search>`, the
plan is run, the model goes on to `</answer>`. Both are rewarded by `protocols.r_search.score` on the text as it stands.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trailforge.generators.document_bundles import search_thoughts
from trailforge.generators.document_bundles.write import render_question
from trailforge.generators.sft_rows import whole_conversation
from trailforge.inference import ChatTurn, Client, Meter, Reply, Request, Sampling
from trailforge.protocols import R_SEARCH, nl_dag, r_search
from trailforge.protocols.base import estimate_tokens, one_line
from trailforge.protocols.episodes import turn_text
from trailforge.protocols.turns import Observation, Turn
from trailforge.retrieval import Tools
from trailforge.rewards import evidence_recall, score_answer, score_choice
from trailforge.schemas import (
    BundleQuestion,
    Message,
    Origin,
    PlannedSearch,
    Provenance,
    RSearchReward,
    SearchEpisode,
    SftRow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEpisodeConfig:
    """How episodes are made."""

    plan: Literal["gold", "sampled"] = "gold"
    samples: int = 4
    """Draws of a question; the paper's group size."""
    temperature: float = 1.0
    top_p: float = 0.95
    max_tokens: int = 1024
    """Of each of the two stages."""
    top_k: int = nl_dag.TOP_K
    """Passages of a search."""
    min_reward: float = 0.8
    """Of an episode that is good enough: format and plan are right, and the answer by six tenths."""
    min_evidence: float = 1.0
    """Share of the hops whose evidence the searches have to bring."""
    gold_fallback: bool = True
    """Tell the gold plan when no draw is good enough."""
    result_role: Literal["user", "tool"] = "user"
    """In calls of the model: many chat endpoints take no `tool` turn without a tool call. Rows hold `tool` always."""

    @property
    def prompt_version(self) -> str:
        """Hash of the sentences of gold thoughts and of the protocol's rules."""
        pools = search_thoughts.PROMPTS.version((), pools=search_thoughts.POOLS)
        return hashlib.sha256(f"{pools}{r_search.SYSTEM_PROMPT}{r_search.USER_SUFFIX}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeContext:
    """What all questions of a run share."""

    run_id: str
    seed: int
    config: PlannedEpisodeConfig
    tools: Tools
    model: str = ""
    """Empty for the gold way, which asks none."""
    client: Client | None = None
    """None for the gold way."""


async def make_episodes(row: BundleQuestion, context: EpisodeContext, meter: Meter) -> list[SearchEpisode]:
    """Candidates, the best first: of these the first that all filters keep is the question's episode.

    Sampled: each different draw, by reward, then evidence found, then fewer searches, then number of the draw; after
    them the gold way, if there is no draw that is good enough and the fall-back is on. Raises `MalformedReply` for a
    gold plan that cannot be run, and the kinds of `ProviderError`.
    """
    config, work = context.config, _Work(row, context, meter)
    if config.plan == "gold":
        return [await work.gold()]
    draws = await asyncio.gather(*(work.sampled(number) for number in range(config.samples)))
    ranked = sorted(draws, key=lambda e: (-e.reward.total, -e.evidence_found, e.num_tool_calls))
    different: dict[str, SearchEpisode] = {}
    for episode in ranked:
        different.setdefault(episode.uid, episode)
    candidates = list(different.values())
    if config.gold_fallback and not any(_is_good(episode, row, config) for episode in candidates):
        candidates.append(await work.gold())
    return candidates


def episode_sft_row(episode: SearchEpisode) -> SftRow:
    """The whole conversation as one row; the loss is taken on the two assistant turns.

    `reward.total` is the episode's reward; its other parts hold the final answer against the gold answer.
    """
    if episode.options:
        reward = score_choice(episode.final_answer, episode.correct_options)
    else:
        reward = score_answer(episode.final_answer, (episode.answer, *episode.answer_aliases))
    reward = replace(reward, total=episode.reward.total)
    return whole_conversation(episode, data_source="episodes", protocol=R_SEARCH.name, reward=reward)


@dataclass(frozen=True, slots=True)
class _Work:
    """One question under way."""

    row: BundleQuestion
    context: EpisodeContext
    meter: Meter

    async def gold(self) -> SearchEpisode:
        """The gold plan, run and told."""
        row, context = self.row, self.context
        plan = nl_dag.SearchPlan(
            nodes=tuple(replace(node, query=one_line(node.query)) for node in row.dag_nodes), edges=row.dag_edges
        )
        results = await nl_dag.execute(plan, context.tools, context.config.top_k)
        thought = search_thoughts.think(row, plan, seed=f"{context.seed}:{row.uid}")
        messages = (
            *R_SEARCH.opening(render_question(row)),
            _turn(Turn(thought=thought, search=r_search.search_of(plan))),
            _result(Observation(nodes=tuple(results))),
            _turn(Turn(answer=one_line(gold_answer(row)))),
        )
        # Behind the plan is the model that wrote the question.
        return self._episode(messages, results, "oracle", row.provenance.model, row.provenance.call_keys)

    async def sampled(self, number: int) -> SearchEpisode:
        """A draw. A first turn that breaks the grammar is the end of it: no answer would make it good enough."""
        context = self.context
        messages = [*R_SEARCH.opening(render_question(self.row))]
        results: Sequence[nl_dag.NodeResult] = ()
        first = await self._ask(messages, number)
        messages.append(_assistant(first, turn_text(first)))
        read, keys = r_search.read_plan(messages[-1].content), [first.key]
        if read is not None and not first.is_cut:
            _, plan = read
            found = await r_search.run_plan(plan, context.tools, context.config.top_k)
            results = found.nodes
            messages.append(_result(found))
            second = await self._ask(messages, number)
            # No thought belongs here: what a server delivers apart was thought before the agent took its turn.
            messages.append(_assistant(second, second.text))
            keys.append(second.key)
        return self._episode(messages, results, "policy", context.model, keys)

    async def _ask(self, messages: Sequence[Message], number: int) -> Reply:
        context, config = self.context, self.context.config
        if context.client is None:
            raise ValueError("sampled episodes need a client")
        request = Request(
            model=context.model,
            prompt=tuple(
                ChatTurn(role=config.result_role if m.role == "tool" else m.role, content=m.content) for m in messages
            ),
            sampling=Sampling(
                temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens, stop=R_SEARCH.stop
            ),
            sample=number,
            seed=context.seed,
            purpose="plan" if len(messages) == 2 else "answer",
            is_turn=True,
        )
        return await context.client.complete(request, self.meter)

    def _episode(
        self,
        messages: Sequence[Message],
        results: Sequence[nl_dag.NodeResult],
        origin: Origin,
        model: str,
        keys: Sequence[str],
    ) -> SearchEpisode:
        row = self.row
        read = r_search.read_plan(messages[2].content)
        thought, plan = read or ("", nl_dag.SearchPlan(nodes=(), edges=()))
        content = "\0".join([row.uid, *(message.content for message in messages)])
        return SearchEpisode(
            uid=hashlib.sha256(content.encode()).hexdigest()[:16],
            origin=origin,
            thought=thought,
            plan_text=nl_dag.render(plan) if read else "",
            plan_nodes=plan.nodes,
            plan_edges=plan.edges,
            searches=tuple(map(_search, results)),
            messages=tuple(messages),
            num_tool_calls=sum(result.status != "skipped" for result in results),
            evidence_found=_found_evidence(row, results),
            **made_of(messages, row),
            provenance=Provenance(
                run_id=self.context.run_id,
                source_id=f"bundle_questions:{row.uid}",
                model=model,
                prompt_version=self.context.config.prompt_version,
                seed=self.context.seed,
                call_keys=tuple(keys),
            ),
        )


def made_of(messages: Sequence[Message], row: BundleQuestion) -> dict[str, Any]:
    """The fields of an episode that follow from its question and its conversation."""
    return {
        "question_id": row.uid,
        "question": render_question(row),
        "type": row.type,
        "answer": gold_answer(row),
        "answer_aliases": (),
        "options": row.options,
        "correct_options": row.correct_options,
        "final_answer": R_SEARCH.answer_of(messages),
        "num_hops": len(row.hops),
        "token_estimate": sum(estimate_tokens(message.content) for message in messages),
        "reward": _reward_of(messages, row),
    }


def asks_its_question(episode: SearchEpisode) -> bool:
    """Does the conversation ask what the row says?"""
    return [turn.content for turn in episode.messages[1:2]] == [R_SEARCH.user_turn(episode.question)]


def _reward_of(messages: Sequence[Message], row: BundleQuestion) -> RSearchReward:
    """0.25 for the format, 0.25 for the plan, 0.5 for the answer (R-Search, 3.4), of a conversation as it stands."""
    golds = () if row.correct_options else (row.answer,)
    return r_search.score(messages, correct_options=row.correct_options, num_options=len(row.options), golds=golds)


def gold_answer(row: BundleQuestion) -> str:
    """As an agent gives it: the letters of the correct options, or words."""
    return ", ".join(sorted(row.correct_options)) if row.options else row.answer


def _found_evidence(row: BundleQuestion, results: Sequence[nl_dag.NodeResult]) -> float:
    """Share of the hops whose evidence stands in a passage that any search brought."""
    found = [passage for result in results for passage in result.passages]
    return round(evidence_recall([hop.evidence for hop in row.hops], found), 6)


def _is_good(episode: SearchEpisode, row: BundleQuestion, config: PlannedEpisodeConfig) -> bool:
    """Right, with its evidence, and no search that another one makes needless."""
    evidence = [hop.evidence for hop in row.hops]
    is_needless = len(episode.searches) > 1 and any(
        evidence_recall(evidence, search.passages) == 1.0 for search in episode.searches
    )
    is_right = episode.reward.total >= config.min_reward and episode.evidence_found >= config.min_evidence
    return is_right and not is_needless


def _search(result: nl_dag.NodeResult) -> PlannedSearch:
    node = result.node
    return PlannedSearch(
        node_id=node.node_id, query=node.query, tool=node.tool, status=result.status, passages=result.passages
    )


def _turn(turn: Turn) -> Message:
    return Message(role="assistant", content=R_SEARCH.render_turn(turn), train=True)


def _result(found: Observation) -> Message:
    return Message(role="tool", content=R_SEARCH.render_result(found), train=False)


def _assistant(reply: Reply, text: str) -> Message:
    """A turn as the model wrote it, with the tag that the server cut off, unless the reply itself was cut short."""
    end = "" if reply.is_cut else R_SEARCH.missing_end(text)
    return Message(role="assistant", content=text + end, train=True)
