"""Reject questions whose gold plan is no valid NL-DAG, or does not search once for each hop."""

from __future__ import annotations

from trailforge.protocols.nl_dag import SearchPlan, validate
from trailforge.schemas import BundleQuestion, Verdict

REASON = "invalid_plan"


def check(row: BundleQuestion) -> Verdict:
    """Score: how many rules the plan breaks."""
    problems = [problem.message for problem in validate(SearchPlan(nodes=row.dag_nodes, edges=row.dag_edges))]
    if len(row.dag_nodes) != len(row.hops):
        problems.append(f"{len(row.dag_nodes)} searches for {len(row.hops)} hops")
    detail = problems[0] if problems else ""
    return Verdict(keep=not problems, reason=REASON, score=float(len(problems)), detail=detail)
