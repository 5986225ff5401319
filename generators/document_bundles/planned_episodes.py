"""Make R-Search episodes of bundle questions: think, plan, search, answer (R-Search, sections 3.3 and 3.4).

With `plan: gold` an episode runs the question's gold plan, thinks as `search_thoughts` says, and gives the gold answer.
With `plan: sampled` it is the paper's two-stage generation: the model writes up to `</search>`, the plan is run, the
model continues to `</answer>`. A draw whose plan fails is not asked for an answer, and draws end with the first good
one. Both are rewarded by `rewards.episode.score` on the unchanged text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from trailforge.filters import first_rejection
from trailforge.filters.answers import AnswerJudgeOptions, open_scorer
from trailforge.filters.bundle_episodes import (
    EpisodeFilterConfig,
    count_idle_searches,
    count_needless_edges,
    gold_in_episode,
    judge_episode,
    judge_plan,
    names_the_missing,
    unfounded_thought,
)
from trailforge.generators.document_bundles import search_thoughts
from trailforge.generators.document_bundles.episode_rows import (
    derive_fields,
    found_evidence,
    search_of,
    uid_of,
)
from trailforge.generators.document_bundles.search_thoughts import PlanThoughtConfig
from trailforge.inference import ChatTurn, Meter, Reply, Request, Sampling
from trailforge.pipelines.engine import RunContext
from trailforge.protocols import (
    R_SEARCH,
    Grammar,
    Observation,
    Turn,
    end_turn,
    nl_dag,
    one_line,
    r_search,
    sampling_of_turn,
    turn_text,
)
from trailforge.retrieval import Tools
from trailforge.schemas import (
    AnswerScoredBy,
    BundleQuestion,
    ContextOverflow,
    Message,
    SearchEpisode,
    SourceKind,
    ThoughtSource,
    Verdict,
    count_conversation,
)

_TOKENS_PER_WORD = 1.4
"""Of English, about."""
_NOISE = 0.1
"""Of `gold_in_queries`: a word or two of ten."""
_KINDS: dict[str, SourceKind] = {"News": "news", "Academic": "academic"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEpisodeConfig:
    """Settings of how episodes of planned search are made."""

    plan: Literal["gold", "sampled"] = "gold"
    samples: int = 4
    """Most draws of a question, one after the other up to a good one; the paper's group size."""
    temperature: float = 1.0
    top_p: float = 0.95
    max_tokens: int = 1024
    """Most tokens of each of the two stages."""
    thought_tokens: int = 0
    """Tokens beyond `max_tokens` for what a reasoning model thinks, which is then sent no stop strings
    (`protocols.episodes.EpisodeConfig`); 0: it is none."""
    thoughts: PlanThoughtConfig = field(default_factory=PlanThoughtConfig)
    """How thoughts are worded: of gold plans, and of a reasoning model's draws whose own thoughts are not sound."""
    top_k: int = nl_dag.TOP_K
    """Number of passages that one search returns."""
    min_reward: float = 0.8
    """Smallest reward of an episode that is good enough: format and plan are right, and the answer by six tenths."""
    min_evidence: float = 1.0
    """Smallest share of the hops whose evidence the searches have to bring."""
    most_gold: float = 1.0
    """Largest share of a query's words that stand in the gold documents' titles, answer or key facts and not in the
    question: a gold plan with more is no episode, and draws go on up to one with less. 1: it is only measured."""
    gold_fallback: bool = True
    """Whether the gold plan is told when the filters keep no draw."""
    result_role: Literal["user", "tool"] = "user"
    """Role of search results in calls of the model: many chat endpoints take no `tool` turn without a tool call. Rows
    always hold `tool`."""

    @property
    def prompt_version(self) -> str:
        """Return a hash of the sentences for gold thoughts, of the prompt that asks for them, and of the protocol's
        rules.
        """
        names = (search_thoughts.PROMPT,) if self.thoughts.source == "model" else ()
        pools = search_thoughts.PROMPTS.version(names, pools=search_thoughts.POOLS)
        rules = f"{R_SEARCH.system_prompt}{R_SEARCH.user_suffix.strip()}"
        return hashlib.sha256(f"{pools}{rules}".encode()).hexdigest()[:12]

    @property
    def limits(self) -> EpisodeFilterConfig:
        """Return the limits that an episode has to keep, in the form that the filters of episodes take."""
        return EpisodeFilterConfig(min_reward=self.min_reward, min_evidence=self.min_evidence, most_gold=self.most_gold)

    @property
    def reply_limits(self) -> dict[str, int]:
        """Return the maximal number of tokens of each kind of call, by the key of the preset."""
        thought = {"episodes.thoughts.max_tokens": self.thoughts.max_tokens} if self.thoughts.source == "model" else {}
        if self.plan == "gold":
            return thought
        return {"episodes.max_tokens": self.max_tokens + self.thought_tokens, **thought}

    def longest_call(self, longest_passage: int) -> int:
        """Return the largest number of tokens of both calls and of all passages between them, where a passage has at
        most `longest_passage` words.
        """
        if self.plan == "gold":
            return self.thoughts.max_tokens if self.thoughts.source == "model" else 0
        found = nl_dag.MAX_NODES * self.top_k * longest_passage * _TOKENS_PER_WORD
        return 2 * (self.max_tokens + self.thought_tokens) + round(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeContext(RunContext):
    """What all questions of a run share when episodes are made: model client, settings, search tools and judge."""

    config: PlannedEpisodeConfig
    tools: Tools
    planner: Grammar = R_SEARCH
    """The protocol with the rules as the model reads them; see `planner_of`."""
    judge: AnswerJudgeOptions = field(default_factory=AnswerJudgeOptions)
    retriever: str = ""
    """Name of the retriever; see `Provenance.retriever`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An episode that was drawn, with the verdict that rejects it, if any."""

    episode: SearchEpisode
    verdict: Verdict | None
    """The first verdict that rejects the episode; None when all filters keep it."""


def planner_of(config: PlannedEpisodeConfig, kinds: Collection[SourceKind] | None) -> Grammar:
    """Return the protocol with the rules for the search tools of these kinds of documents. With `kinds` None, the web
    is searched.
    """
    holdings = {
        tool: "nothing" if kinds is not None and tool in _KINDS and _KINDS[tool] not in kinds else what
        for tool, what in r_search.HOLDINGS.items()
    }
    return replace(R_SEARCH, system_prompt=r_search.system_prompt(config.top_k, holdings))


async def make_episodes(row: BundleQuestion, context: EpisodeContext, meter: Meter) -> list[Candidate]:
    """Return the question's candidate episodes, the best first, which is accepted if its verdict is None.

    Sampled draws are made until one is kept and clean: its queries use few words that only the gold documents have, and
    no search is idle. A needless edge alone causes no further draw. Kept ones are ordered by whether their queries use
    few such words and their thought says what is missing; then by idle searches, needless edges, those words, reward,
    evidence found, and number of the draw. If none is kept and the fall-back is on, the gold plan's episode is tried.
    Raises `MalformedReply` for a gold plan that cannot be run, and the kinds of `ProviderError`.
    """
    config, work = context.config, _Work(row, context, meter)
    if config.plan == "gold":
        return [await work.worded(await work.gold())]
    different: dict[str, Candidate] = {}
    for number in range(config.samples):
        draw = await work.sampled(number)
        different.setdefault(draw.episode.uid, draw)
        if draw.verdict is None and _is_clean(draw.episode, row, config.most_gold):
            break
    kept = [draw.episode.gold_in_queries for draw in different.values() if draw.verdict is None]
    most_gold = max(config.most_gold, min(kept, default=0.0) + _NOISE)
    candidates = sorted(different.values(), key=lambda draw: _rank(draw, row, most_gold))
    if config.gold_fallback and candidates[0].verdict is not None:
        gold = await work.gold()
        candidates.insert(len(candidates) if gold.verdict else 0, gold)
    return [await work.worded(candidates[0]), *candidates[1:]]


def _rank(draw: Candidate, row: BundleQuestion, most_gold: float) -> tuple[float, ...]:
    episode = draw.episode
    return (
        draw.verdict is not None,
        episode.gold_in_queries > most_gold,
        not names_the_missing(episode, row),
        count_idle_searches(episode, row),
        count_needless_edges(episode, row),
        episode.gold_in_queries,
        -episode.reward.total,
        -episode.evidence_found,
    )


def _is_clean(episode: SearchEpisode, row: BundleQuestion, most_gold: float) -> bool:
    return episode.gold_in_queries <= most_gold and not count_idle_searches(episode, row)


def against(episode: SearchEpisode, row: BundleQuestion, config: PlannedEpisodeConfig) -> Verdict | None:
    """Return the first verdict that rejects the episode; None when all filters keep it."""
    return first_rejection(judge_episode(episode, row, config.limits))


@dataclass(frozen=True, slots=True)
class _Work:
    """One question under way."""

    row: BundleQuestion
    context: EpisodeContext
    meter: Meter

    async def gold(self) -> Candidate:
        """The gold plan, run and told by the templates."""
        row, context = self.row, self.context
        plan = nl_dag.SearchPlan(
            nodes=tuple(replace(node, query=one_line(node.query)) for node in row.dag_nodes), edges=row.dag_edges
        )
        results = await nl_dag.execute(plan, context.tools, context.config.top_k)
        messages = (
            *context.planner.opening(row.asked().text),
            _turn(Turn(thought=self._template(plan), search=r_search.search_of(plan))),
            _result(Observation(nodes=tuple(results))),
            _turn(Turn(answer=one_line(row.asked().golds[0]))),
        )
        scored: tuple[float, AnswerScoredBy] = (1.0, "options" if row.options else "matching")
        told = self._episode(messages, results, row.provenance.call_keys, "templates", scored)
        # Behind the plan is the model that wrote the question.
        behind = replace(told.provenance, model=row.provenance.model)
        return self._judged(replace(told, origin="oracle", provenance=behind))

    async def worded(self, candidate: Candidate) -> Candidate:
        """With its thought in the model's words, where it is kept and has the templates' and those are sound."""
        context, told, config = self.context, candidate.episode, self.context.config.thoughts
        if config.source == "templates" or told.thoughts == "model" or candidate.verdict is not None:
            return candidate
        plan = nl_dag.SearchPlan(nodes=told.plan_nodes, edges=told.plan_edges)
        reply = await search_thoughts.ask_for_thought(self.row, plan, config, context.asker(self.meter))
        thought = one_line(reply.answer or "")
        if not unfounded_thought(thought, self.row, plan, max_words=config.max_words).keep:
            return candidate
        turn = told.messages[2]
        turn = replace(turn, content=turn.content.replace(_in_tags(told.thought), _in_tags(thought), 1))
        messages = (*told.messages[:2], turn, *told.messages[3:])
        keys = (*told.provenance.call_keys, reply.key)
        worded = replace(
            told,
            uid=uid_of(self.row, messages),
            thought=thought,
            thoughts="model",
            messages=messages,
            token_estimate=count_conversation(messages),
            provenance=replace(told.provenance, call_keys=keys),
        )
        return self._judged(worded)

    def _template(self, plan: nl_dag.SearchPlan) -> str:
        return search_thoughts.think(self.row, plan, seed=f"{self.context.seed}:{self.row.uid}")

    def _first_turn(self, reply: Reply) -> tuple[str, ThoughtSource]:
        """The turn that searches, and whose its thought is.

        A turn with a thought of its own stays as it is. What a reasoning model thought before its turn becomes the
        thought where it is sound; else the templates tell it: drafts of plans and guesses are nothing to learn from.
        """
        text = turn_text(reply)
        read = None if text == reply.text else r_search.read_plan(_in_tags("-") + reply.text)
        if read is None:
            return text, "model"
        longest = self.context.config.thoughts.max_words
        if unfounded_thought(reply.reasoning, self.row, read[1], max_words=longest).keep:
            return text, "model"
        return _in_tags(self._template(read[1])) + reply.text, "templates"

    async def sampled(self, number: int) -> Candidate:
        """A draw. It ends with a first turn that breaks the grammar, a plan that breaks a rule or that is lost."""
        context, row = self.context, self.row
        messages = [*context.planner.opening(row.asked().text)]
        results: Sequence[nl_dag.NodeResult] = ()
        first = await self._ask(messages, number)
        turn, thoughts = self._first_turn(first)
        messages.append(_assistant(first, turn))
        read, keys = r_search.read_plan(messages[-1].content), [first.key]
        if read is None or first.is_cut or nl_dag.validate(read[1]):
            return self._judged(self._episode(messages, results, keys, thoughts))
        found = await r_search.run_plan(read[1], context.tools, context.config.top_k)
        results = found.nodes
        messages.append(_result(found))
        planned = self._episode(messages, results, keys, thoughts)
        if first_rejection(judge_plan(planned, row, context.config.limits)):
            return self._judged(planned)
        try:
            second = await self._ask(messages, number)
        except ContextOverflow:  # its thought took the room: this draw is lost, and not the question
            return self._judged(planned)
        # No thought belongs here: what a server delivers apart was thought before the agent took its turn.
        messages.append(_assistant(second, second.text))
        scorer = open_scorer(context.judge, context.asker(self.meter))
        score, by = await scorer.score(row, R_SEARCH.answer_of(messages))
        return self._judged(self._episode(messages, results, [*keys, second.key], thoughts, (score or 0.0, by)))

    async def _ask(self, messages: Sequence[Message], number: int) -> Reply:
        context, config = self.context, self.context.config
        sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens)
        request = Request(
            model=context.model,
            prompt=tuple(
                ChatTurn(role=config.result_role if m.role == "tool" else m.role, content=m.content) for m in messages
            ),
            sampling=sampling_of_turn(sampling, R_SEARCH, config.thought_tokens),
            sample=number,
            seed=context.seed,
            purpose="plan" if len(messages) == 2 else "answer",
            is_turn=True,
        )
        reply = await context.client.complete(request, self.meter)
        return end_turn(reply, R_SEARCH) if config.thought_tokens else reply

    def _judged(self, episode: SearchEpisode) -> Candidate:
        config = self.context.config
        known = gold_in_episode(episode, self.row, most=config.most_gold)
        episode = replace(episode, gold_in_queries=known.score)
        return Candidate(episode, against(episode, self.row, config))

    def _episode(
        self,
        messages: Sequence[Message],
        results: Sequence[nl_dag.NodeResult],
        keys: Sequence[str],
        thoughts: ThoughtSource,
        scored: tuple[float, AnswerScoredBy] = (0.0, "matching"),
    ) -> SearchEpisode:
        """Of a plan that this run's model has drawn."""
        row = self.row
        read = r_search.read_plan(messages[2].content)
        thought, plan = read or ("", nl_dag.SearchPlan(nodes=(), edges=()))
        return SearchEpisode(
            uid=uid_of(row, messages),
            origin="policy",
            thought=thought,
            plan_text=nl_dag.render(plan) if read else "",
            plan_nodes=plan.nodes,
            plan_edges=plan.edges,
            searches=tuple(map(search_of, results)),
            messages=tuple(messages),
            num_tool_calls=sum(result.status != "skipped" for result in results),
            evidence_found=found_evidence(row, results),
            thoughts=thoughts,
            scored_by=scored[1],
            **derive_fields(messages, row, scored[0]),
            provenance=self.context.provenance(
                f"bundle_questions:{row.uid}",
                self.context.config.prompt_version,
                keys,
                retriever=self.context.retriever,
            ),
        )


def _in_tags(thought: str) -> str:
    return f"<think>{thought}</think>"


def _turn(turn: Turn) -> Message:
    return Message(role="assistant", content=R_SEARCH.render_turn(turn), train=True)


def _result(found: Observation) -> Message:
    return Message(role="tool", content=R_SEARCH.render_result(found), train=False)


def _assistant(reply: Reply, text: str) -> Message:
    """A turn as the model wrote it, with the tag that the server cut off, unless the reply itself was cut short."""
    end = "" if reply.is_cut else R_SEARCH.missing_end(text)
    return Message(role="assistant", content=text + end, train=True)
