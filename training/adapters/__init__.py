"""Provide our rewards and rollouts with the signatures that training frameworks call.

No framework is imported here, but by `verl_agent_loop`, `openrlhf` and the modules for verifiers, which only these
frameworks import.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.training.adapters.verifiers import SearchEnv as SearchEnv
    from trailforge.training.adapters.verifiers import SearchHarness as SearchHarness
    from trailforge.training.adapters.verifiers import SearchTaskset as SearchTaskset
    from trailforge.training.adapters.verifiers import load_environment as load_environment
else:
    __getattr__, __dir__ = lazy_names(__name__)
