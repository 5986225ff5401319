"""What `verifiers` loads by the id `trailforge-search`: it looks for an environment as a module of that name."""

from trailforge.training.adapters.verifiers import SearchEnv, SearchHarness, SearchTaskset, load_environment

__all__ = ["SearchEnv", "SearchHarness", "SearchTaskset", "load_environment"]
