"""Record people's decisions on rows (accept, reject, fix) in a log, and make the curated data set that follows from
them.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.curation.agreement import between_people as between_people
    from trailforge.curation.agreement import by_reason as by_reason
    from trailforge.curation.agreement import with_filters as with_filters
    from trailforge.curation.apply import apply_rulings as apply_rulings
    from trailforge.curation.decisions import LOG as LOG
    from trailforge.curation.decisions import LatestDecision as LatestDecision
    from trailforge.curation.decisions import Merged as Merged
    from trailforge.curation.decisions import append as append
    from trailforge.curation.decisions import check_decision as check_decision
    from trailforge.curation.decisions import latest_decisions as latest_decisions
    from trailforge.curation.decisions import merge as merge
    from trailforge.curation.decisions import merge_latest as merge_latest
    from trailforge.curation.decisions import now as now
    from trailforge.curation.decisions import of_run as of_run
    from trailforge.curation.decisions import read_decisions as read_decisions
    from trailforge.curation.decisions import source_of as source_of
    from trailforge.curation.decisions import take_in as take_in
    from trailforge.curation.guide import GUIDE as GUIDE
    from trailforge.curation.guide import CurationGuide as CurationGuide
    from trailforge.curation.guide import TableGuide as TableGuide
    from trailforge.curation.guide import find_guide as find_guide
    from trailforge.curation.guide import read_guide as read_guide
    from trailforge.curation.sources import with_source_hashes as with_source_hashes
    from trailforge.curation.verdicts import COPIES as COPIES
    from trailforge.curation.verdicts import append_pattern as append_pattern
    from trailforge.curation.verdicts import awaits_curation as awaits_curation
    from trailforge.curation.verdicts import checked_pattern as checked_pattern
    from trailforge.curation.verdicts import copies as copies
    from trailforge.curation.verdicts import copy_logs as copy_logs
    from trailforge.curation.verdicts import read_patterns as read_patterns
    from trailforge.curation.verdicts import refusals as refusals
    from trailforge.curation.verdicts import refused_patterns as refused_patterns
else:
    __getattr__, __dir__ = lazy_names(__name__)
