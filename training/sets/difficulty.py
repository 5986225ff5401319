"""Read how difficult a training set's questions are for an agent, and select questions by it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from trailforge.evaluation.results import MeasuredDifficulty, measure_difficulty
from trailforge.schemas import GroundTruth, InvalidInput, RlRow, Verdict
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.order import Identity, identity_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How one cell of an evaluation (an agent over a back end) did on questions."""

    cell: str = ""
    """The cell as AGENT/BACKEND/MODEL; empty: nothing was measured."""
    found: Mapping[Identity, MeasuredDifficulty] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the cell's name with a hash of its results; empty where nothing was measured."""
        if not self.cell:
            return ""
        content = json.dumps(sorted(map(astuple, self.found.values())))
        return f"{self.cell} {hashlib.sha256(content.encode()).hexdigest()[:12]}"

    def of(self, question: str, answer: str) -> MeasuredDifficulty | None:
        """Return what was measured for a question with this gold answer; None where nothing was."""
        return self.found.get(identity_of(question, answer))

    def mark(self, row: RlRow) -> RlRow:
        """Return the row with what is known of its question's difficulty."""
        found = self.of(row.question, gold_of(row.reward_model.ground_truth))
        if found is None:
            return row
        return replace(
            row,
            pass_rate=found.pass_rate,
            attempts=found.attempts,
            calls_needed=found.calls,
            pages_needed=found.pages,
            measured_by=self.cell,
        )

    def judge(self, question: str, answer: str, config: ViewConfig) -> Verdict | None:
        """Return why a question is not within the wanted range; None where it is, or all are wanted."""
        pass_rate, calls = config.pass_rate, config.calls
        if pass_rate is None and calls is None:
            return None
        found = self.of(question, answer)
        if found is None:
            return _against("not_measured", f"{self.cell} was not asked it, or came to no end", 0.0)
        if pass_rate is not None and found.pass_rate not in pass_rate:
            told = f"{found.right} of {found.attempts} attempts are right; {pass_rate} are asked for"
            return _against("outside_pass_rate", told, found.pass_rate)
        if calls is not None and (found.calls is None or found.calls not in calls):
            told = "none was right" if found.calls is None else f"a right attempt takes {found.calls:g} searches"
            return _against("outside_calls", f"{told}; {calls} are asked for", found.calls or 0.0)
        return None


NOT_MEASURED = Measured()


def read_measured(folder: Path | None, cell: str = "") -> Measured:
    """Read the difficulties from an evaluation; with None nothing was measured. Raises what `measure_difficulty`
    raises, and `InvalidInput` for a cell without an evaluation.
    """
    if folder is None:
        if cell:
            raise InvalidInput(
                "names a cell of an evaluation; give its folder with --measured", field="--measured-cell"
            )
        return NOT_MEASURED
    name, found = measure_difficulty(folder, cell)
    return Measured(cell=name, found={identity_of(each.question, each.answer): each for each in found})


def gold_of(truth: GroundTruth) -> str:
    """Return the gold answer in the form that questions have: for options, their letters."""
    return ", ".join(truth.correct_options) or truth.target[0]


def _against(reason: str, detail: str, score: float) -> Verdict:
    return Verdict(keep=False, reason=reason, score=score, detail=detail)
