"""Tree search over question-decomposition plans (MSearcher, section 3.1), and reflection on its rollouts: a plan is a
list of sub-questions, a rollout one execution of a plan.

`plan`, `tree`, `search` and `reflection` call no model: they work on records and callables. `policy` and `rollout` call
the model.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.mcts.contrasts import Fault as Fault
    from trailforge.mcts.inputs import CallBounds as CallBounds
    from trailforge.mcts.inputs import Proposal as Proposal
    from trailforge.mcts.inputs import SearchConfig as SearchConfig
    from trailforge.mcts.plan import ask_relation as ask_relation
    from trailforge.mcts.plan import asked_for as asked_for
    from trailforge.mcts.plan import dependency_graph as dependency_graph
    from trailforge.mcts.plan import execution_levels as execution_levels
    from trailforge.mcts.plan import gold_plan as gold_plan
    from trailforge.mcts.plan import join_marks as join_marks
    from trailforge.mcts.plan import normalized as normalized
    from trailforge.mcts.plan import plan_problem as plan_problem
    from trailforge.mcts.plan import references as references
    from trailforge.mcts.plan import resolve as resolve
    from trailforge.mcts.plan import subject_words as subject_words
    from trailforge.mcts.policy import PolicyConfig as PolicyConfig
    from trailforge.mcts.policy import PolicyPrompts as PolicyPrompts
    from trailforge.mcts.policy import open_policy as open_policy
    from trailforge.mcts.reflection import Reflection as Reflection
    from trailforge.mcts.reflection import ReflectionConfig as ReflectionConfig
    from trailforge.mcts.reflection import correct_rollouts as correct_rollouts
    from trailforge.mcts.reflection import holds_answer as holds_answer
    from trailforge.mcts.reflection import is_provoked as is_provoked
    from trailforge.mcts.reflection import leaf_rollouts as leaf_rollouts
    from trailforge.mcts.reflection import mended_steps as mended_steps
    from trailforge.mcts.reflection import reflections as reflections
    from trailforge.mcts.rollout import PlanRunner as PlanRunner
    from trailforge.mcts.rollout import Reader as Reader
    from trailforge.mcts.rollout import RolloutConfig as RolloutConfig
    from trailforge.mcts.rollout import RolloutPrompts as RolloutPrompts
    from trailforge.mcts.rollout import read_passages as read_passages
else:
    __getattr__, __dir__ = lazy_names(__name__)
