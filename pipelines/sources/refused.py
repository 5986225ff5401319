"""Sources that people rejected, which the next run leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from schemas import RejectedRow, Ruling, to_dict

REASON = "rejected_by_curator"


def refused(rulings: Iterable[Ruling]) -> frozenset[str]:
    """Ids of questions, documents and paths that nothing is to be made of again.

    A source is refused when it was rejected itself; and when a row that was made of it was rejected, and none was
    accepted or fixed. Rows of bundles refuse no source: it is not told which of its documents was at fault.
    """
    itself: set[str] = set()
    against: set[str] = set()
    in_favour: set[str] = set()
    for ruling in rulings:
        if ruling.table == "rejected":
            continue  # filters see to these
        if ruling.table == "inputs":
            itself |= {ruling.uid} if ruling.action == "reject" else set()
        elif ruling.source_id:
            (against if ruling.action == "reject" else in_favour).add(ruling.source_id)
    return frozenset(itself | (against - in_favour))


def refused_row(item: Any) -> RejectedRow:
    """A source that was left out, for `rejected/`."""
    return RejectedRow(
        uid=item.id,
        stage="read",
        reason=REASON,
        score=0.0,
        detail="people rejected it, or all that they saw of what was made of it",
        payload=json.dumps(to_dict(item), ensure_ascii=False),
    )
