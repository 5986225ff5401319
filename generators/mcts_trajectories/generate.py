"""Turn one question into its search tree and its candidate trajectories (MSearcher, section 3.1)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trailforge.filters import follows_gold, is_grounded, missed_hop, supports
from trailforge.generators.mcts_trajectories.telling.story import PROMPTS, ReasoningRows, Story, narrate, read_on
from trailforge.generators.mcts_trajectories.telling.thoughts import ThoughtsConfig
from trailforge.inference import Asker, Meter
from trailforge.inference.judge import Judged, JudgeOptions, grade
from trailforge.mcts import (
    CallBounds,
    Fault,
    PlanRunner,
    PolicyConfig,
    PolicyPrompts,
    Reader,
    Reflection,
    ReflectionConfig,
    RolloutConfig,
    RolloutPrompts,
    SearchConfig,
    correct_rollouts,
    is_provoked,
    leaf_rollouts,
    mended_steps,
    open_policy,
    read_passages,
    reflections,
)
from trailforge.mcts.search import search
from trailforge.pipelines import Chosen
from trailforge.pipelines.engine import RunContext
from trailforge.retrieval import LazyRetriever, Retrieval
from trailforge.rewards import mentions, same_answer, score_by_target
from trailforge.schemas import (
    Question,
    Rollout,
    SearchTree,
    Step,
    Trajectory,
    count_conversation,
    to_dict,
)

_WORDS_PER_HOP = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptNames:
    """Names of the prompts that a run uses."""

    split: str = "split"
    decomposable: str = "decomposable"
    choose_split: str = "embedded_choose_split"
    answer: str = "answer_or_unknown"
    rephrase: str = "rephrase"
    thoughts: str = "thoughts"
    thoughts_again: str = "thoughts_again"
    word: str = "word_question"

    @property
    def version(self) -> str:
        """Return a hash of the texts behind these names."""
        return PROMPTS.version(tuple(to_dict(self).values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorConfig:
    """All settings that decide what is made of a question."""

    policy: PolicyConfig = field(default_factory=PolicyConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    reflection: ReflectionConfig = field(default_factory=ReflectionConfig)
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    prompts: PromptNames = field(default_factory=PromptNames)
    reasoning_rows: ReasoningRows = "search"
    thoughts: ThoughtsConfig = field(default_factory=ThoughtsConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(RunContext):
    """What all questions of a run share when they are searched: model client, settings and retrieval."""

    config: GeneratorConfig
    retrieval: Retrieval
    tail: frozenset[Question] = frozenset()
    """The questions that the run comes to last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What was made of one question: its search tree and all its trajectories."""

    tree: SearchTree
    candidates: tuple[Trajectory, ...]
    """All trajectories, in the order in which they are sifted."""
    chosen: Chosen[Trajectory]
    """The choice that filters and caps make among them."""
    meter: Meter = field(default_factory=Meter)
    """Counter of the distinct calls behind them."""

    @property
    def is_solved(self) -> bool:
        """Tell whether some rollout of a leaf plan is correct."""
        return any(rollout.reward > 0 for rollout in leaf_rollouts(self.tree))


Choose = Callable[[Sequence[Trajectory]], Chosen[Trajectory]]
"""Applies filters and caps to the candidates of a question."""


def keep_all(candidates: Sequence[Trajectory]) -> Chosen[Trajectory]:
    """Return a choice that keeps all candidates, without any filter."""
    return Chosen(candidates, ())


async def generate(
    question: Question,
    context: Context,
    *,
    parallel: int = 1,
    choose: Choose = keep_all,
    worded: Question | None = None,
    keys: Sequence[str] = (),
) -> Generated:
    """Search a question and word what was found as trajectories.

    `parallel` is the number of leaves that are selected in one round. The search continues until each kind of row is
    among those that `choose` keeps. `worded` is the question with its gold sub-questions as they are to be searched, or
    None for its own; rows are judged by `question`. `keys` are the ledger keys of the calls that reworded it, which go
    into every row.
    """
    searched = worded or question
    meter = Meter()
    asker = asker_for(question, context, meter, parallel)
    told: dict[tuple[int, int], tuple[tuple[Trajectory, ...], Chosen[Trajectory]]] = {}

    def tell(tree: SearchTree) -> tuple[tuple[Trajectory, ...], Chosen[Trajectory]]:
        size = len(tree.nodes), len(tree.rollouts)  # a tree only grows: of the same size it is the same
        if size not in told:
            told.clear()
            rows = tuple(trajectories(question, tree, context, keys))
            told[size] = rows, choose(rows)
        return told[size]

    tree = await search(
        searched,
        policy=open_policy(asker, policy_prompts(context.config.prompts), context.config.policy),
        roll_out=plan_runner(question, asker, context),
        calls=lambda: meter.calls,
        config=context.config.search,
        progress=lambda tree: Counter(row.reflection_error or "correct" for row in tell(tree)[1].kept),
        find_fault=lambda step: find_fault(step, searched),
        same_answer=same_answer,
        bounds=CallBounds(vary=context.config.rollout.tries, verdict=2 * context.config.judge.near_misses),
        parallel=parallel,
    )
    usage = meter.usage(context.prices)
    tree = replace(
        tree,
        calls=usage.calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=usage.cost,
    )
    candidates, chosen = tell(tree)
    return Generated(tree=tree, candidates=candidates, chosen=chosen, meter=meter)


def asker_for(question: Question, context: Context, meter: Meter, parallel: int) -> Asker:
    """Return a client that sends a question's prompts to the run's model and counts the calls in `meter`. Questions
    with long searches are sent first; of equally long ones those last whose search runs several leaves at once
    (`parallel`).
    """
    # Long searches first; among equals, those of the tail last: they are the ones that end quickly.
    priority = 2 * expected_hops(question) + int(parallel == 1)
    return context.asker(meter, context.config.rollout.style, priority=priority)


def expected_hops(question: Question) -> int:
    """Return roughly how many hops a question has: the gold decomposition's, else a guess by its words. Long searches
    must begin early, or the server is idle while the last one runs step by step.
    """
    return len(question.decomposition) or max(2, len(question.question.split()) // _WORDS_PER_HOP)


def trajectories(question: Question, tree: SearchTree, context: Context, keys: Sequence[str] = ()) -> list[Trajectory]:
    """Return the correct and reflective trajectories of a tree in a fixed order: correct ones, then by error type.
    `keys` are the ledger keys of calls made before the search, which are recorded in every trajectory.
    """
    told = [(rollout, None) for rollout in correct_rollouts(tree)]
    told += [(each.right, each) for each in reflections(tree, same_answer, mentions, context.config.reflection)]
    return [_row(question, tree, context, right, reflection, keys) for right, reflection in told]


def _row(
    question: Question,
    tree: SearchTree,
    context: Context,
    right: Rollout,
    reflection: Reflection | None,
    keys: Sequence[str],
) -> Trajectory:
    """Of a correct rollout; with a reflection, of that after a step of a wrong one."""
    config = context.config
    nodes = [tree.nodes[rollout.node] for rollout in ([reflection.wrong] if reflection else []) + [right]]
    first_plan, plan, origins = nodes[0].plan, nodes[-1].plan, [node.origin for node in nodes]
    error, pair = (reflection.error, reflection.pair) if reflection else (None, None)
    steps = tuple(replace(step, reasoning="") for step in (mended_steps(reflection) if reflection else right.steps))
    if config.reasoning_rows == "reread" and follows_gold(steps, question):
        steps = read_on(steps)
    uid = _uid(question.id, error, plan, first_plan, steps)
    story = Story(
        question=question.question,
        plan=plan,
        first_plan=first_plan,
        steps=steps,
        error=error,
        answer=right.answer,
        reasoning_rows=config.reasoning_rows,
    )
    messages, spans = narrate(story, seed=f"{context.seed}:{uid}")
    return Trajectory(
        uid=uid,
        question_id=question.id,
        question=question.question,
        answer=question.answer,
        answer_aliases=question.answer_aliases,
        kind="reflective" if error else "correct",
        reflection_error=error,
        origin=next(origin for origin in ("oracle", "rule", "policy") if origin in origins),
        plan=plan,
        wrong_plan=first_plan if error == "decomposition" else None,
        steps=steps,
        messages=messages,
        final_answer=right.answer,
        num_tool_calls=sum(m.role == "tool" for m in messages),
        num_hops=len(plan),
        token_estimate=count_conversation(messages),
        judge_score=right.judge_score,
        step_pair=pair,
        wrong_rollout=pair.wrong_rollout if pair else None,
        right_rollout=right.index,
        diverges_at=pair.diverges_at if pair else None,
        spans=spans,
        provenance=context.provenance(
            f"{question.dataset}:{question.id}",
            config.prompts.version,
            tuple(dict.fromkeys((*keys, *(key for step in steps for key in step.call_keys)))),
            retriever=context.retrieval.name,
        ),
        error_source=("provoked" if is_provoked(reflection) else "sampled") if reflection else None,
        **derive_fields(steps, right.answer, right.judge_score, question, config.judge),
    )


def derive_fields(
    steps: Sequence[Step], answer: str, judge_score: float | None, question: Question, judge: JudgeOptions
) -> dict[str, Any]:
    """Return the fields of a trajectory that follow from its steps, its answer and the judge's score."""
    return {
        "reward": score_by_target(answer, question.golds, judged_right=judge.accepts(judge_score)),
        "follows_gold": follows_gold(steps, question),
    }


def policy_prompts(names: PromptNames) -> PolicyPrompts:
    """Return the templates of the policy that splits questions."""
    return PolicyPrompts(
        split=PROMPTS.text(names.split),
        decomposable=PROMPTS.text(names.decomposable),
        choose_split=PROMPTS.text(names.choose_split),
    )


def plan_runner(question: Question, asker: Asker, context: Context) -> PlanRunner:
    """Return the runner that rolls out plans of one question."""
    config = context.config

    def judge(answer: str) -> Awaitable[float | None]:
        return grade(Judged(question=question.question, answer=answer, golds=question.golds), config.judge, asker)

    return PlanRunner(
        golds=question.golds,
        asker=asker,
        retriever=LazyRetriever(lambda: context.retrieval.for_question(question)),
        reader=_reader(context.retrieval, config.rollout),
        prompts=RolloutPrompts(
            answer=PROMPTS.text(config.prompts.answer),
            rephrase=PROMPTS.text(config.prompts.rephrase),
        ),
        config=config.rollout,
        judge=judge if config.judge.near_misses else None,
        judge_threshold=config.judge.threshold,
    )


def find_fault(step: Step, question: Question) -> Fault | None:
    """Return what is wrong with a step's answer: `missed` or `misread` where no passage states it or it is not its gold
    hop's. None when it is fine.
    """
    if (hop := missed_hop(step, question)) is not None:
        gold = question.decomposition[hop].answer
        return "misread" if any(supports(passage, step.query, gold) for passage in step.passages) else "missed"
    return None if is_grounded(step) else "missed"


def _reader(retrieval: Retrieval, config: RolloutConfig) -> Reader:
    if config.reader == "passages":
        return read_passages

    async def read_sentences(query: str, passages: Sequence) -> str:
        nearest = await retrieval.best_sentences(query, passages, config.num_sentences)
        return "\n".join(f"({passage.title}) {sentence}" for passage, sentence in nearest)

    return read_sentences


def _uid(question_id: str, error: str | None, *parts: object) -> str:
    """16 hex digits: the same trajectory has the same uid in every run (call keys and seeds left out)."""
    content = json.dumps([question_id, error, *(_content(part) for part in parts)])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _content(part: object) -> object:
    if isinstance(part, tuple) and part and isinstance(part[0], Step):
        return [[s.sub_question, s.query, [p.id for p in s.passages], s.answer, s.is_mistake] for s in part]
    return part
