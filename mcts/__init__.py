"""Tree search over question-decomposition plans (MSearcher, section 3.1), and reflection on its rollouts.

`plan`, `tree`, `search` and `reflection` call no model: they work on records and callables. `policy` and `rollout` call
the model, and `rules` replaces what a small model cannot do.
"""
