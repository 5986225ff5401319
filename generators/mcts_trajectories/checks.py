"""Find what is wrong with trajectories that no filter examines: conversations, spans, caps, and trees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from trailforge.filters import can_be_asked, unfounded_thoughts
from trailforge.generators.mcts_trajectories import NAME
from trailforge.generators.mcts_trajectories.choice import CAP, over_cap
from trailforge.generators.mcts_trajectories.telling.doubts import DOUBTS
from trailforge.generators.mcts_trajectories.telling.spans import span_problem
from trailforge.generators.mcts_trajectories.telling.story import mismatch, rereads, story_of
from trailforge.pipelines import Chosen
from trailforge.pipelines.runs import RowChecks
from trailforge.rewards import mcts_reward
from trailforge.schemas import Question, SearchTree, Trajectory


def problems_of(row: Trajectory, question: Question, checks: RowChecks) -> Iterator[str]:
    """Yield what is wrong with a kept row, a line each: with its conversation, its spans and its thoughts, and where it
    searches or reads again otherwise than the run's settings say. `checks` holds these settings.
    """
    del question
    if problem := mismatch(row):
        yield f"its conversation is not that of its fields: {problem}"
    if not row.spans and _is_without_spans(checks):
        return
    if problem := span_problem(row):
        yield f"its spans are not those of its conversation: {problem}"
    if row.thoughts == "model":
        verdict = unfounded_thoughts(row, max_words=checks.config.generator.thoughts.max_words)
        if not verdict.keep:
            yield f"filter {verdict.reason} rejects its thoughts: {verdict.detail}"
    story = story_of(row, checks.config.generator.reasoning_rows)
    if rereads(row) != any(map(story.rereads, range(len(row.steps)))):
        yield "it does not search, or read again, as `generator.reasoning_rows` says"


def _is_without_spans(checks: RowChecks) -> bool:
    """Trajectories of schema version 1.0 had none."""
    versions = {each.table: each.version for each in checks.manifest.schema_versions}
    return versions.get(NAME) == "1.0"


def check_beside(
    checks: RowChecks, name: str, questions: Mapping[str, Question], stored: Mapping[str, Chosen[Trajectory]]
) -> None:
    """Check that the rows kept of each question keep to the caps on each kind, and that its search tree fits them;
    problems are reported to `checks`.

    `name` is the file name that one shard has in every table; `questions` and `stored` are that shard's questions and
    rows, by the questions' ids.
    """
    for chosen in stored.values():
        _check_caps(checks, name, chosen)
    asked = questions.keys() - checks.left_out(name, "search")
    for tree in checks.rows("trees", name, SearchTree):
        if tree.question_id not in asked:
            checks.problem(name, tree.question_id, "it has a tree, and was not searched")
            continue
        asked.discard(tree.question_id)
        for problem in _problems_of_tree(tree, questions[tree.question_id], checks):
            checks.problem(name, tree.question_id, problem)
    for question_id in sorted(asked):
        checks.problem(name, question_id, "its tree is missing")


def _check_caps(checks: RowChecks, name: str, chosen: Chosen[Trajectory]) -> None:
    """A row is turned away for want of room only where there was none.

    In runs of before, rows that the model doubted afterwards had taken theirs.
    """
    taken = [*chosen.kept, *(row for row, verdict in chosen.rejected if verdict.reason in DOUBTS)]
    for row, verdict in chosen.rejected:
        if verdict.reason == CAP and over_cap(row, taken, checks.config.generator.reflection).keep:
            checks.problem(name, row.uid, "rejected for want of room, but its question has room for its kind")


def _problems_of_tree(tree: SearchTree, question: Question, checks: RowChecks) -> Iterator[str]:
    verdict = can_be_asked(question, own_paragraphs=checks.config.retrieval.searches_paragraphs)
    if not verdict.keep:
        yield f"filter {verdict.reason} sets it aside: {verdict.detail}"
    for rollout in tree.rollouts:
        is_judged_right = checks.config.generator.judge.accepts(rollout.judge_score)
        if rollout.reward != max(mcts_reward(rollout.answer, question.golds), float(is_judged_right)):
            yield f"reward of rollout {rollout.index} differs"
    yield from tree_problems(tree)


def tree_problems(tree: SearchTree) -> list[str]:
    """Return what is inconsistent in a tree, a line each: visits that do not add up, values that are not the mean of
    their rollouts' rewards.
    """
    problems = []
    rewards: dict[int, list[float]] = defaultdict(list)
    for rollout in tree.rollouts:
        at: int | None = rollout.node
        while at is not None:
            rewards[at].append(rollout.reward)
            at = tree.nodes[at].parent
    for node in tree.nodes:
        below = rewards[node.id]
        mean = sum(below) / len(below) if below else 0.0
        if node.visits != len(below) or abs(node.value - mean) > 1e-9:
            problems.append(
                f"node {node.id}: {node.visits} visits of value {node.value}, its rollouts say {len(below)}, {mean}"
            )
    return problems
