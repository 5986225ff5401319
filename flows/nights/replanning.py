"""Store the plan with which a window begins, and decide which other plan a begun window may change to without losing
rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trailforge.flows.nights.makes import OF_DOCUMENTS
from trailforge.flows.nights.windows import DOCUMENTS, DONE, PLAN, TAKEN, VERDICTS, WindowPlan, read_record
from trailforge.inference.ledgers import SqliteLedger
from trailforge.pipelines import LEDGER
from trailforge.pipelines.engine import exclusive, write_text
from trailforge.pipelines.engine.shards import receipts_in
from trailforge.pipelines.runs import MANIFEST, read_settings
from trailforge.pipelines.runs.intake import config_of
from trailforge.schemas import OutputError, to_dict

_CONTENT = "content of {}'s preset, benchmarks or graph"
_OF_ALL = ("seed", "model_name")
"""Parameters of a night that decide the rows of every entry."""


@dataclass(frozen=True, slots=True)
class _Change:
    name: str
    old: Any
    new: Any
    concerns: frozenset[str] | None
    """Folders of the entries that it is of; None: the window itself, whose documents are taken."""


def begin(root: Path, plan: WindowPlan, replan: Collection[str] = ()) -> None:
    """Store the plan in the folder of its day, by the rules of `keep_plan`. `replan` names those of its data sets that
    may change their parameters although they paid for calls. Raises `OutputError` when another process is making the
    window, and where rows that exist would not match the plan.
    """
    folder = root / plan.day
    with exclusive(folder):
        keep_plan(folder, plan, replan)


def keep_plan(folder: Path, plan: WindowPlan, replan: Collection[str] = ()) -> None:
    """Write the plan of a window, unless it was begun with the same one; the caller holds the folder's lock.

    Entries without a row take the new parameters. `replan` names entries that may do so although they paid for calls.
    Raises `OutputError` where existing rows would not match the plan, for a complete window, and when something else is
    in the folder.
    """
    begun = read_record(folder / PLAN, WindowPlan) if (folder / TAKEN).is_file() else None
    if begun == plan:
        return
    if begun is not None:
        _check_changes(folder, begun, plan, replan, is_complete=(folder / DONE).is_file())
    elif strange := {path.name for path in folder.glob("[!.]*")} - {PLAN, DOCUMENTS, VERDICTS}:
        raise OutputError(
            f"{folder} holds no window of a night but other things, such as {min(strange)}; give another --out"
        )
    write_text(folder / PLAN, json.dumps(to_dict(plan), indent=1))


def is_begun(run: Path) -> bool:
    """Tell whether a run has a finished shard: its rows then belong to the parameters that it was begun with."""
    return (run / MANIFEST).exists() or bool(receipts_in(run))


def _check_changes(
    folder: Path, begun: WindowPlan, plan: WindowPlan, asked: Collection[str], *, is_complete: bool
) -> None:
    """Whether a window may go on by another plan than it was begun with.

    An entry without a row takes other parameters; one that has paid for calls only where it is in `asked`, since calls
    that change are paid again. Raises `OutputError` where rows would not be as the plan says, naming what changed.
    """
    changes = list(_changes(begun, plan))
    if not changes:
        return
    told = "; ".join(f"{each.name}: {each.old} -> {each.new}" for each in changes)
    problem = f"{folder} was begun with other parameters ({told})"
    if is_complete or any(each.concerns is None for each in changes):
        why = "is complete" if is_complete else "took its documents by them"
        raise OutputError(f"{problem} and {why}; give the old parameters, or move the folder away")
    concerned = _with_askers(frozenset().union(*(each.concerns or () for each in changes)), begun, plan)
    gone = {make.folder for make in begun.makes} - {make.folder for make in plan.makes}
    held = sorted(each for each in concerned if is_begun(folder / each) or (each in gone and (folder / each).exists()))
    if held:
        away = ", ".join(str(folder / each) for each in held)
        raise OutputError(
            f"{problem}, and {', '.join(held)} had begun; give the old parameters, or move {away} away. "
            "Left as it is, the nightly run of a later day finishes it with the old ones"
        )
    if paid := sorted(each for each in concerned - set(asked) if _has_paid(folder / each)):
        flags = " ".join(f"--replan {each}" for each in paid)
        raise OutputError(
            f"{problem}, and {', '.join(paid)} paid for calls, but has no row; to make it with the new, add {flags}"
        )


def _changes(begun: WindowPlan, plan: WindowPlan) -> Iterator[_Change]:
    (old, old_makes), (new, new_makes) = _parameters(begun), _parameters(plan)
    everyone = frozenset({*old_makes, *new_makes})
    if [*old_makes] != [*new_makes]:
        yield _Change("makes", ", ".join(old_makes), ", ".join(new_makes), frozenset())
    for name in old:
        if old[name] == new[name]:
            continue
        concerns = everyone if name in _OF_ALL else _takers((begun, plan), name)
        yield _Change(name, old[name], new[name], concerns)
    for folder in dict.fromkeys((*old_makes, *new_makes)):
        before, now = old_makes.get(folder, {}), new_makes.get(folder, {})
        for name in dict.fromkeys((*before, *now)):
            if before.get(name) != now.get(name):
                told = _CONTENT.format(folder) if name == "config_hash" else f"{folder}.{name}"
                yield _Change(told, before.get(name), now.get(name), frozenset({folder}))


def _takers(plans: tuple[WindowPlan, ...], name: str) -> frozenset[str] | None:
    """The entries that a parameter of the night is for; None for what decides which documents are taken."""
    makes = [make for plan in plans for make in plan.makes]
    if name in ("kg", "benchmarks"):
        return frozenset(make.folder for make in makes if name in (*make.takes, *make.needs))
    if name in ("most_documents", "most_questions", "distractors"):
        of_documents = name == "most_documents"
        return frozenset(make.folder for make in makes if (make.input == OF_DOCUMENTS) == of_documents)
    return None


def _with_askers(concerned: frozenset[str], *plans: WindowPlan) -> frozenset[str]:
    """With the entries that are asked the questions of these."""
    return concerned | {make.folder for plan in plans for make in plan.makes if make.input in concerned}


def _parameters(plan: WindowPlan) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """By name, and those of the entries by folder."""
    values = to_dict(plan)
    return values, {make["folder"]: make for make in values.pop("makes")}


def _has_paid(run: Path) -> bool:
    """Whether calls were paid for a run; in a ledger that runs share they are not looked for: then if it was begun."""
    if (run / LEDGER).is_file():
        with closing(SqliteLedger(run / LEDGER)) as book:
            return book.entries() > 0
    settings = read_settings(run)
    return settings is not None and bool(config_of(settings).get("ledger"))
