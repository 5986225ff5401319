"""Limits on calls that several processes share."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.inference.shared_limits.center import LEASE_S as LEASE_S
    from trailforge.inference.shared_limits.center import Center as Center
    from trailforge.inference.shared_limits.center import Limits as Limits
    from trailforge.inference.shared_limits.center import Message as Message
    from trailforge.inference.shared_limits.link import LimitsLink as LimitsLink
else:
    __getattr__, __dir__ = lazy_names(__name__)
