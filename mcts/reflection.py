"""Find which wrong rollout can be corrected by which right one, and at which step (MSearcher, section 3.1.4).

| error         | pair                               | step j where they part             | tail of the right rollout  |
|---------------|------------------------------------|------------------------------------|----------------------------|
| retrieval     | same leaf plan                     | other answers, from other passages | from j, with its passages  |
|               | same leaf plan                     | none, where other passages give it | from j, with its passages  |
| reasoning     | same leaf plan                     | other answers, the passages say it | from j, same passages      |
| decomposition | leaf plans that mean other things  | the sub-questions at j differ      | from j, under the new plan |

The diff is deterministic and asks no model. A difference that led to no other answer is none: the first other answer
decides. A pair counts only if the wrong step's answer really is wrong given the right rollout, and the right rollout
ends in the right answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from trailforge.mcts.plan import asked_for, normalized, references, same_meaning, subject_words
from trailforge.schemas import ErrorType, Rollout, SearchTree, Step, StepPair

Item = TypeVar("Item")
SameAnswer = Callable[[str, str], bool]
"""A function that tells whether two answers say the same; it is passed in, since this module has no metric."""
Mentions = Callable[[str, str], bool]
"""A function that tells whether a text holds an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionConfig:
    """How many rows one question may give, and from when on a plan is blamed."""

    max_correct: int = 3
    """Largest number of correct trajectories of one question that are kept, of those that pass the filters."""
    max_pairs: int = 2
    """Largest number of pairs of one question that are kept for each error type (n), of those that pass the filters."""
    min_failed_rollouts: int = 2
    """Number of rollouts, all wrong, after which a plan is blamed (decomposition); only rollouts count in which the
    blamed step was searched or sampled anew (section 3.1.4: "multiple rollouts")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """A wrong rollout with the right one that corrects it, and the steps at which they part."""

    error: ErrorType
    wrong: Rollout
    right: Rollout
    pair: StepPair
    parts_there: bool
    """Whether one rollout is the other one varied at the very step where they part, so that nothing else can have made
    the error."""
    difference: float
    """How different the two sides are, 0 to 2."""


def leaf_rollouts(tree: SearchTree) -> list[Rollout]:
    """Return the rollouts of leaf plans, from which rows are made."""
    leaves = {node.id for node in tree.nodes if not any(node.decomposable)}
    return [rollout for rollout in tree.rollouts if rollout.node in leaves]


def correct_rollouts(tree: SearchTree) -> list[Rollout]:
    """Return the correct rollouts of leaf plans without repeats, each plan's first one before any plan's second. The
    gold decomposition's come last, so that a duplicate in the policy's own words is preferred.
    """
    gold = _gold_nodes(tree)
    rank: Counter[int] = Counter()
    ranked: list[tuple[int, Rollout]] = []
    for rollout in _without_repeats(r for r in leaf_rollouts(tree) if r.reward > 0):
        ranked.append((rank[rollout.node], rollout))
        rank[rollout.node] += 1
    ranked.sort(key=lambda item: (item[0], item[1].node in gold, item[1].index))
    return [rollout for _, rollout in ranked]


def reflections(
    tree: SearchTree,
    same_answer: SameAnswer,
    mentions: Mentions,
    config: ReflectionConfig,
) -> list[Reflection]:
    """Return all pairs of a wrong and a right rollout of a tree of which the right one corrects the wrong one, one pair
    for each mistake: by error type, the clearest first.

    The clearest pairs are in the policy's own words, then those whose error was not provoked, then those with a single
    difference, then those that differ most. `same_answer` compares two answers, `mentions` tells whether a text holds
    an answer.
    """
    gold = _gold_nodes(tree)
    rules = _Rules(tree=tree, same_answer=same_answer, mentions=mentions)
    found: dict[ErrorType, list[Reflection]] = {"retrieval": [], "reasoning": [], "decomposition": []}
    for reflection in _candidates(rules, config):
        found[reflection.error].append(reflection)
    chosen: list[Reflection] = []
    for of_type in found.values():
        of_type.sort(
            key=lambda r: (
                len({r.wrong.node, r.right.node} & gold),
                is_provoked(r),
                not r.parts_there,
                -r.difference,
                r.wrong.index,
                r.right.index,
            )
        )
        chosen += _with_distinct_mistakes(of_type)
    return chosen


def mended_steps(reflection: Reflection) -> tuple[Step, ...]:
    """Return the steps of the wrong rollout up to and including its wrong step, and then those of the right one from
    where it takes over. A misreading is corrected from the passages that were misread.
    """
    pair = reflection.pair
    before = reflection.wrong.steps[: pair.wrong_step]
    wrong, mended = reflection.wrong.steps[pair.wrong_step], reflection.right.steps[pair.right_step]
    if reflection.error == "reasoning":
        mended = replace(mended, query=wrong.query, query_rephrased=wrong.query_rephrased, passages=wrong.passages)
    return (*before, replace(wrong, is_mistake=True), mended, *reflection.right.steps[pair.right_step + 1 :])


def is_provoked(reflection: Reflection) -> bool:
    """Tell whether the mistake depends on a step that the search varied in order to provoke an error."""
    return any(step.is_provoked for step in reflection.wrong.steps[: reflection.pair.wrong_step + 1])


def holds_answer(step: Step, answer: str, mentions: Mentions) -> bool:
    """Tell whether one of the step's passages contains an answer, so that its search is not at fault."""
    return any(mentions(f"{passage.title}. {passage.text}", answer) for passage in step.passages)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    tree: SearchTree
    same_answer: SameAnswer
    mentions: Mentions

    def is_wrong(self, bad: Step, good: Step) -> bool:
        """Is it an answer, and another one?"""
        return bool(normalized(bad.answer)) and not self.same_answer(bad.answer, good.answer)

    def had_it(self, bad: Step, good: Step) -> bool:
        """Did its search bring what the other one answered from?"""
        return _passage_ids(bad) == _passage_ids(good) or holds_answer(bad, good.answer, self.mentions)


def _candidates(rules: _Rules, config: ReflectionConfig) -> Iterator[Reflection]:
    tree = rules.tree
    plans = {node.id: node.plan for node in tree.nodes}
    rollouts = _without_repeats(leaf_rollouts(tree))
    right_ones = [r for r in rollouts if r.reward > 0]
    failed = _failed_plans(tree)
    for wrong in (r for r in rollouts if r.reward == 0):
        for right in right_ones:
            if wrong.node == right.node:
                reflection = _same_plan(wrong, right, rules)
            elif wrong.node in failed and not _ask_alike(plans[wrong.node], plans[right.node], tree.question):
                reflection = _other_plan(wrong, right, plans[wrong.node], plans[right.node], rules)
                if reflection is not None and not _is_to_blame(reflection, tree, config, rules):
                    reflection = None
            else:
                reflection = None
            if reflection is not None:
                yield reflection


def _same_plan(wrong: Rollout, right: Rollout, rules: _Rules) -> Reflection | None:
    """The first step with another answer: reasoning when its passages held the right one, else retrieval. So is a
    search that found nothing to answer from, where another did."""
    for j, (bad, good) in enumerate(zip(wrong.steps, right.steps, strict=True)):
        if rules.same_answer(bad.answer, good.answer):
            continue
        error: ErrorType = "reasoning" if rules.had_it(bad, good) else "retrieval"
        found_nothing = error == "retrieval" and bool(bad.passages) and not normalized(bad.answer)
        if not (rules.is_wrong(bad, good) or (found_nothing and normalized(good.answer))):
            return None
        return _reflection(error, wrong, right, wrong_step=j, right_step=j)
    return None


def _other_plan(
    wrong: Rollout, right: Rollout, wrong_plan: Sequence[str], right_plan: Sequence[str], rules: _Rules
) -> Reflection | None:
    """The plans and answers agree before j; the wrong step is the first from j that the right tail refutes.

    Two wordings of the same question are no difference: "Who is the author of X?", "What is the author of X?", and,
    where both were answered alike, "Who wrote X?".
    """
    j = 0
    for asked, also_asked, bad, good in zip(wrong_plan, right_plan, wrong.steps, right.steps, strict=False):
        reworded = _about_the_same(asked, also_asked) and rules.same_answer(bad.answer, good.answer)
        if asked_for(asked) != asked_for(also_asked) and not reworded:
            break
        j += 1
    if j >= min(len(wrong.steps), len(right.steps)):
        return None
    for bad, good in zip(wrong.steps[:j], right.steps[:j], strict=True):
        if not rules.same_answer(bad.answer, good.answer):
            return None
    for m in range(j, len(wrong.steps)):
        if all(rules.is_wrong(wrong.steps[m], good) for good in right.steps[j:]):
            if _only_misread(wrong.steps[m], right.steps[j], rules):
                return None
            return _reflection("decomposition", wrong, right, wrong_step=m, right_step=j)
    return None


def _about_the_same(left: str, right: str) -> bool:
    """Do both refer to the same steps, and speak of something by the same word?"""
    return references(left) == references(right) and bool(subject_words(left) & subject_words(right))


def _ask_alike(wrong_plan: Sequence[str], right_plan: Sequence[str], question: str) -> bool:
    """Do the plans mean the same, or take the question apart alike, the wrong one in the question's own words?

    Then the plan is not at fault, only how one wording was read: "Who is the author of X?", where the right plan, made
    from a gold decomposition, has "Who wrote X?".
    """
    if same_meaning(wrong_plan, right_plan):
        return True
    alike = len(wrong_plan) == len(right_plan) and all(map(_is_reworded, wrong_plan, right_plan))
    return alike and all(subject_words(sub_question) <= asked_for(question) for sub_question in wrong_plan)


def _is_reworded(left: str, right: str) -> bool:
    """About the same, in these words or others: neither sets a condition that the other leaves out."""
    words, others = subject_words(left), subject_words(right)
    return _about_the_same(left, right) and not (words < others or others < words)


def _only_misread(bad: Step, good: Step, rules: _Rules) -> bool:
    """Is a plan blamed whose step had the right answer before it, and asked for nothing of its own?

    All its words are those of the question or of the right sub-question: it brings in no other relation, and what it
    leaves out ("the captain of #2", of those who were) was not missed, for the passages held the answer.
    """
    own = subject_words(bad.sub_question) - asked_for(good.sub_question) - asked_for(rules.tree.question)
    return not own and holds_answer(bad, good.answer, rules.mentions)


def _reflection(error: ErrorType, wrong: Rollout, right: Rollout, *, wrong_step: int, right_step: int) -> Reflection:
    """The pair, which parts where the right one takes over."""
    return Reflection(
        error=error,
        wrong=wrong,
        right=right,
        pair=StepPair(
            wrong_rollout=wrong.index,
            right_rollout=right.index,
            wrong_step=wrong_step,
            right_step=right_step,
            diverges_at=right_step,
        ),
        parts_there=_is_varied(wrong, right, right_step) or _is_varied(right, wrong, right_step),
        difference=_difference(wrong.steps[wrong_step], right.steps[right_step]),
    )


def _gold_nodes(tree: SearchTree) -> set[int]:
    return {node.id for node in tree.nodes if node.origin == "oracle"}


def _is_varied(rollout: Rollout, base: Rollout, step: int) -> bool:
    """Was the rollout made from that base, by another query or draw at that step?"""
    return rollout.base == base.index and rollout.varied_step == step


def _failed_plans(tree: SearchTree) -> set[int]:
    """Nodes whose plan was rolled out and never with success."""
    return {r.node for r in tree.rollouts} - {r.node for r in tree.rollouts if r.reward > 0}


def _is_to_blame(reflection: Reflection, tree: SearchTree, config: ReflectionConfig, rules: _Rules) -> bool:
    """Was it the wrong plan that failed, and not its luck: a query's wording, or one slip that others kept?

    Not where the right plan found its answer by a reworded query; nor where its own query brings the passages of the
    wrong step, which do not hold that answer. The wrong step has to have failed as often as is wanted by itself.
    """
    pair = reflection.pair
    bad, good = reflection.wrong.steps[pair.wrong_step], reflection.right.steps[pair.right_step]
    if good.query_rephrased:
        return False
    own = (r.steps[pair.right_step] for r in tree.rollouts if r.node == reflection.right.node)
    finds_the_same = any(not step.query_rephrased and _passage_ids(step) == _passage_ids(bad) for step in own)
    if finds_the_same and not holds_answer(bad, good.answer, rules.mentions):
        return False
    tries = [r for r in tree.rollouts if r.node == reflection.wrong.node and _is_own(r, pair.wrong_step, tree)]
    return len(tries) >= config.min_failed_rollouts


def _is_own(rollout: Rollout, step: int, tree: SearchTree) -> bool:
    """Was this step put to the test for this rollout, by another query or draw, and not kept from the one it varies?

    Other words that find nothing else are a test, too.
    """
    if rollout.base is None or rollout.varied_step == step:
        return True
    before = tree.rollouts[rollout.base].steps[step]
    return replace(rollout.steps[step], call_keys=()) != replace(before, call_keys=())


def _without_repeats(rollouts: Iterable[Rollout]) -> list[Rollout]:
    """The first of rollouts that found and answered the same, in whatever words they asked."""
    return _first_of_each(rollouts, lambda r: (r.node, *((_passage_ids(s), normalized(s.answer)) for s in r.steps)))


def _with_distinct_mistakes(ordered: list[Reflection]) -> list[Reflection]:
    """One pair per wrong answer at a step of a plan: the same mistake twice teaches nothing new."""

    def mistake(reflection: Reflection) -> tuple[int, int, str]:
        step = reflection.pair.wrong_step
        return reflection.wrong.node, step, normalized(reflection.wrong.steps[step].answer)

    return _first_of_each(ordered, mistake)


def _first_of_each(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[Item]:
    found: dict[Hashable, Item] = {}
    for item in items:
        found.setdefault(key(item), item)
    return list(found.values())


def _difference(bad: Step, good: Step) -> float:
    """Share of passages not in common, plus share of answer words not in common."""
    return _distance(_passage_ids(bad), _passage_ids(good)) + _distance(
        frozenset(normalized(bad.answer).split()), frozenset(normalized(good.answer).split())
    )


def _distance(left: frozenset[str], right: frozenset[str]) -> float:
    union = left | right
    return 1 - len(left & right) / len(union) if union else 0.0


def _passage_ids(step: Step) -> frozenset[str]:
    return frozenset(passage.id for passage in step.passages)
