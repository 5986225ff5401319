"""Tree search over question-decomposition plans (MSearcher, section 3.1), and the reflection on what it found.

`plan`, `tree`, `search` and `reflection` know no model: they see records and callables. `policy` and `rollout`
bring the model in, `rules` replaces what a small model cannot do.
"""
