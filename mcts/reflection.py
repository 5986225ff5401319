"""Which wrong rollout can be mended by which correct one, and where (MSearcher, section 3.1.4).

| error         | pair                                | first difference j            | tail of the right rollout  |
|---------------|-------------------------------------|-------------------------------|----------------------------|
| retrieval     | same leaf plan                      | the passages c_j differ       | from j, with its passages  |
| reasoning     | same leaf plan                      | same c_j, the answers differ  | from j, same passages      |
| decomposition | leaf plans that agree before step j | the sub-questions at j differ | from j, under the new plan |

The diff is deterministic and asks no model. A pair counts only if the wrong step's answer really is wrong given the
right rollout, and the right rollout ends in the right answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from trailforge.mcts.plan import asked_for, named, normalized
from trailforge.schemas import ErrorType, Rollout, SearchTree, Step, StepPair

SameAnswer = Callable[[str, str], bool]
"""Do two answers say the same? Passed in, for this module knows no metric."""
Mentions = Callable[[str, str], bool]
"""Does a text hold an answer?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionConfig:
    """How many rows one question may give."""

    max_correct: int = 3
    """Correct trajectories per question."""
    max_pairs: int = 2
    """n: pairs per question and error type."""
    min_failed_rollouts: int = 2
    """A plan is blamed (decomposition) only after this many rollouts, all wrong (section 3.1.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """A wrong rollout and the correct one that mends it."""

    error: ErrorType
    wrong: Rollout
    right: Rollout
    pair: StepPair
    difference: float
    """How different the two sides are, 0 to 2; the most different pairs are used first."""


def leaf_rollouts(tree: SearchTree) -> list[Rollout]:
    """Rollouts of leaf plans: the only ones that rows are made from."""
    leaves = {node.id for node in tree.nodes if not any(node.decomposable)}
    return [rollout for rollout in tree.rollouts if rollout.node in leaves]


def correct_rollouts(tree: SearchTree, config: ReflectionConfig) -> list[Rollout]:
    """Correct rollouts of leaf plans without repeats, each plan's first one before any plan's second."""
    rank: Counter[int] = Counter()
    ranked: list[tuple[int, Rollout]] = []
    for rollout in _without_repeats(r for r in leaf_rollouts(tree) if r.reward > 0):
        ranked.append((rank[rollout.node], rollout))
        rank[rollout.node] += 1
    ranked.sort(key=lambda item: (item[0], item[1].index))
    return [rollout for _, rollout in ranked[: config.max_correct]]


def reflections(
    tree: SearchTree, same_answer: SameAnswer, mentions: Mentions, config: ReflectionConfig
) -> list[Reflection]:
    """The usable pairs of a tree: at most `max_pairs` per error type, the most different first."""
    found: dict[ErrorType, list[Reflection]] = {
        "retrieval": [],
        "reasoning": [],
        "decomposition": [],
    }
    for reflection in _candidates(tree, same_answer, config):
        if not _only_misread(reflection, tree.question, mentions):
            found[reflection.error].append(reflection)
    chosen = []
    for of_type in found.values():
        of_type.sort(key=lambda r: (-r.difference, r.wrong.index, r.right.index))
        chosen += _with_distinct_mistakes(of_type)[: config.max_pairs]
    return chosen


def mended_steps(reflection: Reflection) -> tuple[Step, ...]:
    """The wrong rollout up to and with its wrong step, then the right one from where it takes over."""
    pair = reflection.pair
    before = reflection.wrong.steps[: pair.wrong_step]
    mistake = replace(reflection.wrong.steps[pair.wrong_step], is_mistake=True)
    return (*before, mistake, *reflection.right.steps[pair.right_step :])


def _candidates(tree: SearchTree, same_answer: SameAnswer, config: ReflectionConfig) -> Iterator[Reflection]:
    plans = {node.id: node.plan for node in tree.nodes}
    rollouts = _without_repeats(leaf_rollouts(tree))
    right_ones = [r for r in rollouts if r.reward > 0]
    blamed = _failed_plans(tree, config)
    for wrong in (r for r in rollouts if r.reward == 0):
        for right in right_ones:
            if wrong.node == right.node:
                reflection = _same_plan(wrong, right, same_answer)
            elif wrong.node in blamed and not _ask_alike(plans[wrong.node], plans[right.node], tree.question):
                reflection = _other_plan(wrong, right, plans[wrong.node], plans[right.node], same_answer)
            else:
                reflection = None
            if reflection is not None:
                yield reflection


def _same_plan(wrong: Rollout, right: Rollout, same_answer: SameAnswer) -> Reflection | None:
    """First step whose passages or answers differ: retrieval when the passages do, else reasoning."""
    for j, (bad, good) in enumerate(zip(wrong.steps, right.steps, strict=True)):
        same_passages = _passage_ids(bad) == _passage_ids(good)
        if same_passages and same_answer(bad.answer, good.answer):
            continue
        if not _is_wrong(bad, good, same_answer):
            return None
        error: ErrorType = "reasoning" if same_passages else "retrieval"
        return _reflection(error, wrong, right, wrong_step=j, right_step=j, diverges_at=j)
    return None


def _other_plan(
    wrong: Rollout,
    right: Rollout,
    wrong_plan: tuple[str, ...],
    right_plan: tuple[str, ...],
    same_answer: SameAnswer,
) -> Reflection | None:
    """The plans and answers agree before j; the wrong step is the first from j that the right tail refutes.

    Two wordings of the same question are no difference: "Who is the author of X?", "What is the author of X?", and,
    where both were answered alike, "Who wrote X?".
    """
    j = 0
    for asked, also_asked, bad, good in zip(wrong_plan, right_plan, wrong.steps, right.steps, strict=False):
        reworded = _same_names(asked, also_asked) and same_answer(bad.answer, good.answer)
        if asked_for(asked) != asked_for(also_asked) and not reworded:
            break
        j += 1
    if j >= min(len(wrong.steps), len(right.steps)):
        return None
    for bad, good in zip(wrong.steps[:j], right.steps[:j], strict=True):
        if not same_answer(bad.answer, good.answer):
            return None
    tail = right.steps[j:]
    for m in range(j, len(wrong.steps)):
        if all(_is_wrong(wrong.steps[m], good, same_answer) for good in tail):
            return _reflection("decomposition", wrong, right, wrong_step=m, right_step=j, diverges_at=j)
    return None


def _same_names(left: str, right: str) -> bool:
    """Are both about the same things, one of them by name?"""
    return named(left) == named(right) and any(not name.startswith("#") for name in named(left))


def _ask_alike(wrong_plan: tuple[str, ...], right_plan: tuple[str, ...], question: str) -> bool:
    """Do the plans take the question apart alike, the wrong one in the question's own words?

    Then the plan is not at fault, only how one wording was read: "Who is the author of X?", where the right plan, made
    from a gold decomposition, has "Who wrote X?".
    """
    about_the_same = [named(q) for q in wrong_plan] == [named(q) for q in right_plan]
    return about_the_same and all(
        word in asked_for(question) or word.startswith("#") for q in wrong_plan for word in asked_for(q)
    )


def _only_misread(reflection: Reflection, question: str, mentions: Mentions) -> bool:
    """Is a plan blamed whose step had the right answer before it, and asked for nothing of its own?

    All its words are those of the question or of the right sub-question: it brings in no other relation, and what it
    leaves out ("the captain of #2", of those who were) was not missed, for the passages held the answer.
    """
    if reflection.error != "decomposition":
        return False
    pair = reflection.pair
    bad, good = reflection.wrong.steps[pair.wrong_step], reflection.right.steps[pair.right_step]
    own = asked_for(bad.sub_question) - asked_for(good.sub_question) - asked_for(question)
    found = any(mentions(f"{p.title}. {p.text}", good.answer) for p in bad.passages)
    return found and all(word.startswith("#") for word in own)


def _reflection(
    error: ErrorType,
    wrong: Rollout,
    right: Rollout,
    *,
    wrong_step: int,
    right_step: int,
    diverges_at: int,
) -> Reflection:
    return Reflection(
        error=error,
        wrong=wrong,
        right=right,
        pair=StepPair(
            wrong_rollout=wrong.index,
            right_rollout=right.index,
            wrong_step=wrong_step,
            right_step=right_step,
            diverges_at=diverges_at,
        ),
        difference=_difference(wrong.steps[wrong_step], right.steps[right_step]),
    )


def _is_wrong(bad: Step, good: Step, same_answer: SameAnswer) -> bool:
    return bool(normalized(bad.answer)) and not same_answer(bad.answer, good.answer)


def _failed_plans(tree: SearchTree, config: ReflectionConfig) -> set[int]:
    """Nodes whose plan was rolled out often enough and never with success."""
    tried = Counter(r.node for r in tree.rollouts)
    solved = {r.node for r in tree.rollouts if r.reward > 0}
    return {n for n, count in tried.items() if count >= config.min_failed_rollouts} - solved


def _without_repeats(rollouts: Iterable[Rollout]) -> list[Rollout]:
    """Keep the first of rollouts that found and answered the same, in whatever words they asked."""
    seen: set[tuple[object, ...]] = set()
    kept = []
    for rollout in rollouts:
        steps = tuple((_passage_ids(s), normalized(s.answer)) for s in rollout.steps)
        if (rollout.node, steps) not in seen:
            seen.add((rollout.node, steps))
            kept.append(rollout)
    return kept


def _with_distinct_mistakes(ordered: list[Reflection]) -> list[Reflection]:
    """One pair per wrong answer at a step of a plan: the same mistake twice teaches nothing new."""
    seen: set[tuple[int, int, str]] = set()
    kept = []
    for reflection in ordered:
        wrong = reflection.wrong
        step = wrong.steps[reflection.pair.wrong_step]
        mistake = (wrong.node, reflection.pair.wrong_step, normalized(step.answer))
        if mistake not in seen:
            seen.add(mistake)
            kept.append(reflection)
    return kept


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
