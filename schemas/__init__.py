"""The records that travel between stages, their Arrow schemas, and the errors. This package imports no other of
trailforge."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trailforge.schemas.bundle import Bundle as Bundle
from trailforge.schemas.bundle import BundleHop as BundleHop
from trailforge.schemas.bundle import BundleInput as BundleInput
from trailforge.schemas.bundle import BundleLink as BundleLink
from trailforge.schemas.bundle import BundleQuestion as BundleQuestion
from trailforge.schemas.bundle import BundleQuestionType as BundleQuestionType
from trailforge.schemas.bundle import DocumentEmbedding as DocumentEmbedding
from trailforge.schemas.bundle import FilterScore as FilterScore
from trailforge.schemas.bundle import Passage as Passage
from trailforge.schemas.bundle import PlanEdge as PlanEdge
from trailforge.schemas.bundle import PlanNode as PlanNode
from trailforge.schemas.bundle import SourceDocument as SourceDocument
from trailforge.schemas.bundle import SourceKind as SourceKind
from trailforge.schemas.curation import DECISIONS_LOG as DECISIONS_LOG
from trailforge.schemas.curation import PATTERNS_LOG as PATTERNS_LOG
from trailforge.schemas.curation import AppliedFix as AppliedFix
from trailforge.schemas.curation import CuratedRow as CuratedRow
from trailforge.schemas.curation import Decision as Decision
from trailforge.schemas.curation import Fix as Fix
from trailforge.schemas.curation import PatternDecision as PatternDecision
from trailforge.schemas.curation import PatternField as PatternField
from trailforge.schemas.curation import RefusedPattern as RefusedPattern
from trailforge.schemas.curation import Ruling as Ruling
from trailforge.schemas.curation import RulingAction as RulingAction
from trailforge.schemas.episode import AnswerScoredBy as AnswerScoredBy
from trailforge.schemas.episode import ContrastivePair as ContrastivePair
from trailforge.schemas.episode import EntityLink as EntityLink
from trailforge.schemas.episode import FactReading as FactReading
from trailforge.schemas.episode import KgConflict as KgConflict
from trailforge.schemas.episode import KgReward as KgReward
from trailforge.schemas.episode import KgStep as KgStep
from trailforge.schemas.episode import KgTrajectory as KgTrajectory
from trailforge.schemas.episode import PlannedSearch as PlannedSearch
from trailforge.schemas.episode import RelationLink as RelationLink
from trailforge.schemas.episode import RSearchReward as RSearchReward
from trailforge.schemas.episode import SearchEpisode as SearchEpisode
from trailforge.schemas.episode import SearchStatus as SearchStatus
from trailforge.schemas.episode import SoughtDocument as SoughtDocument
from trailforge.schemas.errors import ITEM_ERRORS as ITEM_ERRORS
from trailforge.schemas.errors import BudgetExceeded as BudgetExceeded
from trailforge.schemas.errors import ClusterError as ClusterError
from trailforge.schemas.errors import ContextOverflow as ContextOverflow
from trailforge.schemas.errors import CountMismatch as CountMismatch
from trailforge.schemas.errors import HubError as HubError
from trailforge.schemas.errors import InvalidInput as InvalidInput
from trailforge.schemas.errors import MalformedReply as MalformedReply
from trailforge.schemas.errors import NoSuchPage as NoSuchPage
from trailforge.schemas.errors import NothingKept as NothingKept
from trailforge.schemas.errors import NothingLeft as NothingLeft
from trailforge.schemas.errors import NotReady as NotReady
from trailforge.schemas.errors import OutOfBand as OutOfBand
from trailforge.schemas.errors import OutOfCredit as OutOfCredit
from trailforge.schemas.errors import OutputError as OutputError
from trailforge.schemas.errors import PromptRefused as PromptRefused
from trailforge.schemas.errors import ProviderError as ProviderError
from trailforge.schemas.errors import RequestRefused as RequestRefused
from trailforge.schemas.errors import RetrievalError as RetrievalError
from trailforge.schemas.errors import SearchFailed as SearchFailed
from trailforge.schemas.errors import ServerUnavailable as ServerUnavailable
from trailforge.schemas.errors import Stalled as Stalled
from trailforge.schemas.errors import TrailforgeError as TrailforgeError
from trailforge.schemas.errors import check_packages as check_packages
from trailforge.schemas.errors import install_hint as install_hint
from trailforge.schemas.errors import located as located
from trailforge.schemas.errors import missing_package as missing_package
from trailforge.schemas.files import parse_json as parse_json
from trailforge.schemas.files import sync as sync
from trailforge.schemas.kg import EntityMatch as EntityMatch
from trailforge.schemas.kg import FactChain as FactChain
from trailforge.schemas.kg import KgEntity as KgEntity
from trailforge.schemas.kg import KgFact as KgFact
from trailforge.schemas.kg import KgNode as KgNode
from trailforge.schemas.kg import KgQuestion as KgQuestion
from trailforge.schemas.kg import KgShape as KgShape
from trailforge.schemas.kg import KgStats as KgStats
from trailforge.schemas.kg import KgTriple as KgTriple
from trailforge.schemas.kg import MatchKind as MatchKind
from trailforge.schemas.kg import RelationMatch as RelationMatch
from trailforge.schemas.provenance import CallCount as CallCount
from trailforge.schemas.provenance import Count as Count
from trailforge.schemas.provenance import FileEntry as FileEntry
from trailforge.schemas.provenance import Manifest as Manifest
from trailforge.schemas.provenance import Provenance as Provenance
from trailforge.schemas.provenance import RejectedRow as RejectedRow
from trailforge.schemas.provenance import SchemaVersion as SchemaVersion
from trailforge.schemas.provenance import StageCount as StageCount
from trailforge.schemas.provenance import TableRole as TableRole
from trailforge.schemas.provenance import Verdict as Verdict
from trailforge.schemas.question import AskedQuestion as AskedQuestion
from trailforge.schemas.question import Document as Document
from trailforge.schemas.question import Hop as Hop
from trailforge.schemas.question import Question as Question
from trailforge.schemas.question import QuestionKind as QuestionKind
from trailforge.schemas.question import SupportingDocument as SupportingDocument
from trailforge.schemas.question import compared_names as compared_names
from trailforge.schemas.question import word_comparison as word_comparison
from trailforge.schemas.rollout import DroppedSplits as DroppedSplits
from trailforge.schemas.rollout import Node as Node
from trailforge.schemas.rollout import Origin as Origin
from trailforge.schemas.rollout import Plan as Plan
from trailforge.schemas.rollout import Rollout as Rollout
from trailforge.schemas.rollout import SearchTree as SearchTree
from trailforge.schemas.rollout import Split as Split
from trailforge.schemas.rollout import Step as Step
from trailforge.schemas.rollout import StopReason as StopReason
from trailforge.schemas.rollout import VariationKind as VariationKind
from trailforge.schemas.text import estimate_tokens as estimate_tokens
from trailforge.schemas.trajectory import ChatMessage as ChatMessage
from trailforge.schemas.trajectory import ErrorType as ErrorType
from trailforge.schemas.trajectory import GroundTruth as GroundTruth
from trailforge.schemas.trajectory import Message as Message
from trailforge.schemas.trajectory import NativeMessage as NativeMessage
from trailforge.schemas.trajectory import PreferenceRow as PreferenceRow
from trailforge.schemas.trajectory import RewardModel as RewardModel
from trailforge.schemas.trajectory import RlRow as RlRow
from trailforge.schemas.trajectory import Role as Role
from trailforge.schemas.trajectory import SftRow as SftRow
from trailforge.schemas.trajectory import SpanKind as SpanKind
from trailforge.schemas.trajectory import StepPair as StepPair
from trailforge.schemas.trajectory import TextSpan as TextSpan
from trailforge.schemas.trajectory import ThoughtSource as ThoughtSource
from trailforge.schemas.trajectory import ToolCall as ToolCall
from trailforge.schemas.trajectory import Trajectory as Trajectory
from trailforge.schemas.trajectory import TrajectoryReward as TrajectoryReward
from trailforge.schemas.versions import is_read as is_read
from trailforge.schemas.versions import stored_name as stored_name
from trailforge.schemas.versions import version_of as version_of

if TYPE_CHECKING:
    from trailforge.schemas.arrow import arrow_schema as arrow_schema
    from trailforge.schemas.arrow import check_table_file as check_table_file
    from trailforge.schemas.arrow import from_dict as from_dict
    from trailforge.schemas.arrow import from_payload as from_payload
    from trailforge.schemas.arrow import from_stored as from_stored
    from trailforge.schemas.arrow import iter_parquet as iter_parquet
    from trailforge.schemas.arrow import read_columns as read_columns
    from trailforge.schemas.arrow import read_parquet as read_parquet
    from trailforge.schemas.arrow import read_rows as read_rows
    from trailforge.schemas.arrow import to_dict as to_dict
    from trailforge.schemas.arrow import to_table as to_table
    from trailforge.schemas.arrow import write_parquet as write_parquet

_OF_ARROW = frozenset(
    "arrow_schema check_table_file from_dict from_payload from_stored iter_parquet read_columns read_parquet read_rows "
    "to_dict to_table write_parquet".split()
)


def __getattr__(name: str) -> Any:
    """Load Arrow for those who read or write Parquet: half the memory of a process that only calls models."""
    if name not in _OF_ARROW:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("trailforge.schemas.arrow"), name)
