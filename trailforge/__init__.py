"""Training data for LLM search agents, and training on it; the names of `__all__` are the public API.

    from trailforge import Question, read_rows, rewards, search

The names of `__all__` are the public API; each is loaded when it is first used. The rooms behind them are imported as
`trailforge.<room>`. docs/python.md has examples.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge import filters as filters
    from trailforge import generators as generators
    from trailforge import inference as inference
    from trailforge import mcts as mcts
    from trailforge import pipelines as pipelines
    from trailforge import presets as presets
    from trailforge import protocols as protocols
    from trailforge import retrieval as retrieval
    from trailforge import rewards as rewards
    from trailforge import schemas as schemas
    from trailforge import training as training
    from trailforge.api import ChatModel as ChatModel
    from trailforge.api import SearchResult as SearchResult
    from trailforge.api import read_rows as read_rows
    from trailforge.api import search as search
    from trailforge.filters import FilterConfig as FilterConfig
    from trailforge.filters import first_rejection as first_rejection
    from trailforge.filters import judge_trajectory as judge_trajectory
    from trailforge.graphs import to_networkx as to_networkx
    from trailforge.inference import Caps as Caps
    from trailforge.inference import ClientConfig as ClientConfig
    from trailforge.inference import ModelClient as ModelClient
    from trailforge.inference import Reply as Reply
    from trailforge.inference import Request as Request
    from trailforge.inference import Sampling as Sampling
    from trailforge.inference.ledgers import open_ledger as open_ledger
    from trailforge.mcts import SearchConfig as SearchConfig
    from trailforge.presets import load_preset as load_preset
    from trailforge.presets import preset_names as preset_names
    from trailforge.retrieval.backends import Bm25Retriever as Bm25Retriever
    from trailforge.retrieval.backends import DenseRetriever as DenseRetriever
    from trailforge.retrieval.encoders import Encoder as Encoder
    from trailforge.retrieval import RetrievalConfig as RetrievalConfig
    from trailforge.retrieval import Retriever as Retriever
    from trailforge.retrieval.indexes import build_index as build_index
    from trailforge.retrieval.service import connect as connect
    from trailforge.retrieval.indexes import open_index as open_index
    from trailforge.retrieval import open_retrieval as open_retrieval
    from trailforge.retrieval.kg import KgStore as KgStore
    from trailforge.retrieval.kg import KgTool as KgTool
    from trailforge.retrieval.kg import build_kg as build_kg
    from trailforge.retrieval.kg import match_entity as match_entity
    from trailforge.rewards.episode import Episode as Episode
    from trailforge.rewards.episode import Reward as Reward
    from trailforge.rewards import cover_exact_match as cover_exact_match
    from trailforge.rewards import exact_match as exact_match
    from trailforge.rewards import f1 as f1
    from trailforge.rewards import normalize_answer as normalize_answer
    from trailforge.rewards.episode import reward_preset as reward_preset
    from trailforge.rewards import score_answer as score_answer
    from trailforge.rewards.episode import score_batch as score_batch
    from trailforge.schemas import Bundle as Bundle
    from trailforge.schemas import BundleQuestion as BundleQuestion
    from trailforge.schemas import ChatMessage as ChatMessage
    from trailforge.schemas import ContrastivePair as ContrastivePair
    from trailforge.schemas import Document as Document
    from trailforge.schemas import Hop as Hop
    from trailforge.schemas import InvalidInput as InvalidInput
    from trailforge.schemas import KgQuestion as KgQuestion
    from trailforge.schemas import KgTrajectory as KgTrajectory
    from trailforge.schemas import Manifest as Manifest
    from trailforge.schemas import Message as Message
    from trailforge.schemas import Passage as Passage
    from trailforge.schemas import Plan as Plan
    from trailforge.schemas import Provenance as Provenance
    from trailforge.schemas import ProviderError as ProviderError
    from trailforge.schemas import Question as Question
    from trailforge.schemas import RejectedRow as RejectedRow
    from trailforge.schemas import RlRow as RlRow
    from trailforge.schemas import Rollout as Rollout
    from trailforge.schemas import SearchEpisode as SearchEpisode
    from trailforge.schemas import SearchTree as SearchTree
    from trailforge.schemas import SftRow as SftRow
    from trailforge.schemas import Step as Step
    from trailforge.schemas import TrailforgeError as TrailforgeError
    from trailforge.schemas import Trajectory as Trajectory
    from trailforge.schemas import Verdict as Verdict
    from trailforge.schemas import arrow_schema as arrow_schema
    from trailforge.schemas import from_dict as from_dict
    from trailforge.schemas import read_parquet as read_parquet
    from trailforge.schemas import to_dict as to_dict
    from trailforge.schemas import write_parquet as write_parquet
    from trailforge.training.adapters import SearchEnv as SearchEnv
    from trailforge.training.adapters import SearchHarness as SearchHarness
    from trailforge.training.adapters import SearchTaskset as SearchTaskset
    from trailforge.training.adapters import load_environment as load_environment

    __version__: str
else:
    _load, _names = lazy_names(__name__)

    def __getattr__(name: str) -> Any:
        """Load what a name stands for."""
        if name != "__version__":
            return _load(name)
        from importlib.metadata import version

        return version(__name__)

    def __dir__() -> list[str]:
        return [*_names(), "__version__"]


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
    "open_index",
    "open_ledger",
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
