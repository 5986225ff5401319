"""Everything that nightly runs need: windows of documents, their plans, checks before a night, status, bands and
retention.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.flows.nights.bands import outside as outside
    from trailforge.flows.nights.bands import read_bands as read_bands
    from trailforge.flows.nights.readiness import examine_night as examine_night
    from trailforge.flows.nights.readiness import night_plan as night_plan
    from trailforge.flows.nights.retention import decide_retention as decide_retention
    from trailforge.flows.nights.retention import retain as retain
    from trailforge.flows.nights.status import describe_windows as describe_windows
    from trailforge.flows.nights.status import follow_windows as follow_windows
    from trailforge.flows.nights.status import read_windows as read_windows
else:
    __getattr__, __dir__ = lazy_names(__name__)
