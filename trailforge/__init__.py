"""Training data for LLM search agents, and training on it.

    from trailforge import Question, read_rows, rewards, search

The names of `__all__` are the public API; each is loaded when it is first used. The rooms behind them are imported as
`trailforge.<room>`. docs/python.md has examples.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trailforge import (
        filters,
        generators,
        inference,
        mcts,
        pipelines,
        presets,
        protocols,
        retrieval,
        rewards,
        schemas,
        training,
    )
    from trailforge.api import ChatModel, SearchResult, read_rows, search
    from trailforge.filters import FilterConfig, first_rejection, judge_trajectory
    from trailforge.graphs import to_networkx
    from trailforge.inference import Caps, ClientConfig, ModelClient, Reply, Request, Sampling, open_ledger
    from trailforge.mcts.inputs import SearchConfig
    from trailforge.presets import load_preset, preset_names
    from trailforge.retrieval import (
        Bm25Retriever,
        DenseRetriever,
        Encoder,
        RetrievalConfig,
        Retriever,
        build_index,
        connect,
        open_index,
        open_retrieval,
    )
    from trailforge.retrieval.kg import KgStore, KgTool, build_kg, match_entity
    from trailforge.rewards import (
        Episode,
        Reward,
        cover_exact_match,
        exact_match,
        f1,
        normalize_answer,
        reward_preset,
        score_answer,
        score_batch,
    )
    from trailforge.schemas import (
        Bundle,
        BundleQuestion,
        ChatMessage,
        ContrastivePair,
        Document,
        Hop,
        InvalidInput,
        KgQuestion,
        KgTrajectory,
        Manifest,
        Message,
        Passage,
        Plan,
        Provenance,
        ProviderError,
        Question,
        RejectedRow,
        RlRow,
        Rollout,
        SearchEpisode,
        SearchTree,
        SftRow,
        Step,
        TrailforgeError,
        Trajectory,
        Verdict,
        arrow_schema,
        from_dict,
        read_parquet,
        to_dict,
        write_parquet,
    )
    from trailforge.training.adapters.verifiers import SearchEnv, SearchHarness, SearchTaskset, load_environment

    __version__: str

_ROOMS = frozenset(
    "filters generators inference mcts pipelines presets protocols retrieval rewards schemas training".split()
)
_HOMES = {
    "api": "ChatModel SearchResult read_rows search",
    "filters": "FilterConfig first_rejection judge_trajectory",
    "graphs": "to_networkx",
    "inference": "Caps ClientConfig ModelClient Reply Request Sampling open_ledger",
    "mcts.inputs": "SearchConfig",
    "presets": "load_preset preset_names",
    "retrieval": "Bm25Retriever DenseRetriever Encoder Retriever RetrievalConfig build_index connect open_index "
    "open_retrieval",
    "retrieval.kg": "KgStore KgTool build_kg match_entity",
    "rewards": "Episode Reward cover_exact_match exact_match f1 normalize_answer reward_preset score_answer "
    "score_batch",
    "schemas": "Bundle BundleQuestion ChatMessage ContrastivePair Document Hop InvalidInput KgQuestion KgTrajectory "
    "Manifest Message Passage Plan Provenance ProviderError Question RejectedRow RlRow Rollout "
    "SearchEpisode SearchTree SftRow Step TrailforgeError Trajectory Verdict arrow_schema from_dict "
    "read_parquet to_dict write_parquet",
    "training.adapters.verifiers": "SearchEnv SearchHarness SearchTaskset load_environment",
}
"""Modules, and the public names that each holds."""
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Bm25Retriever",
    "Bundle",
    "BundleQuestion",
    "Caps",
    "ChatMessage",
    "ChatModel",
    "ClientConfig",
    "ContrastivePair",
    "DenseRetriever",
    "Document",
    "Encoder",
    "Episode",
    "FilterConfig",
    "Hop",
    "InvalidInput",
    "KgQuestion",
    "KgStore",
    "KgTool",
    "KgTrajectory",
    "Manifest",
    "Message",
    "ModelClient",
    "Passage",
    "Plan",
    "Provenance",
    "ProviderError",
    "Question",
    "RejectedRow",
    "Reply",
    "Request",
    "RetrievalConfig",
    "Retriever",
    "Reward",
    "RlRow",
    "Rollout",
    "Sampling",
    "SearchConfig",
    "SearchEpisode",
    "SearchResult",
    "SearchTree",
    "SftRow",
    "Step",
    "TrailforgeError",
    "Trajectory",
    "Verdict",
    "__version__",
    "arrow_schema",
    "build_index",
    "build_kg",
    "connect",
    "cover_exact_match",
    "exact_match",
    "f1",
    "first_rejection",
    "from_dict",
    "judge_trajectory",
    "load_preset",
    "match_entity",
    "normalize_answer",
    "open_ledger",
    "open_index",
    "open_retrieval",
    "preset_names",
    "read_parquet",
    "read_rows",
    "reward_preset",
    "rewards",
    "score_answer",
    "score_batch",
    "search",
    "to_dict",
    "to_networkx",
    "write_parquet",
]
if find_spec("verifiers") is not None:
    # verifiers loads an environment by its id, `trailforge`, as a module, and looks for these in `__all__`. They load
    # verifiers, so where it is missing `from trailforge import *` has to leave them out.
    __all__ += ["SearchEnv", "SearchHarness", "SearchTaskset", "load_environment"]


def __getattr__(name: str) -> Any:
    """Load what a name stands for."""
    if name == "__version__":
        from importlib.metadata import version

        found: Any = version(__name__)
    elif name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    elif name in _HOME_OF:
        found = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
