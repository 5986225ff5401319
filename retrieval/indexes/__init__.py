"""Store indexes of any back end in folders: built shard by shard, described by a manifest with file hashes, and opened
through it.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.retrieval.indexes.corpus import Chunking as Chunking
    from trailforge.retrieval.indexes.corpus import cut as cut
    from trailforge.retrieval.indexes.corpus import distinct as distinct
    from trailforge.retrieval.indexes.corpus import parse_columns as parse_columns
    from trailforge.retrieval.indexes.corpus import read_corpus as read_corpus
    from trailforge.retrieval.indexes.corpus import source_of as source_of
    from trailforge.retrieval.indexes.manifest import MEND as MEND
    from trailforge.retrieval.indexes.manifest import IndexManifest as IndexManifest
    from trailforge.retrieval.indexes.manifest import describe_figures as describe_figures
    from trailforge.retrieval.indexes.manifest import plan_addition as plan_addition
    from trailforge.retrieval.indexes.manifest import read_manifest as read_manifest
    from trailforge.retrieval.indexes.manifest import read_numbers as read_numbers
    from trailforge.retrieval.indexes.seals import SEAL as SEAL
    from trailforge.retrieval.indexes.seals import check_hashes as check_hashes
    from trailforge.retrieval.indexes.seals import describe_files as describe_files
    from trailforge.retrieval.indexes.seals import file_hash as file_hash
    from trailforge.retrieval.indexes.seals import is_as_sealed as is_as_sealed
    from trailforge.retrieval.indexes.seals import refuse_existing as refuse_existing
    from trailforge.retrieval.indexes.seals import seal as seal
    from trailforge.retrieval.indexes.shards import Report as Report
    from trailforge.retrieval.indexes.store import OpenIndex as OpenIndex
    from trailforge.retrieval.indexes.store import add_to_index as add_to_index
    from trailforge.retrieval.indexes.store import build_index as build_index
    from trailforge.retrieval.indexes.store import open_index as open_index
else:
    __getattr__, __dir__ = lazy_names(__name__)
