"""`trailforge demand`: turn what an agent fails at into quotas for commands that make or take questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trailforge.commands.options import QuestionColumns
from trailforge.schemas import InvalidInput

EPILOG = """Examples:\n
    trailforge demand evaluations/first --questions test.jsonl --out demand.yaml\n
    trailforge demand evaluations/first --questions test.jsonl --by hops,relation,failure --most 5 --out demand.yaml\n
    trailforge demand evaluations/w1 --questions worlds/w1/questions.jsonl --pass-rate 0.1..0.7 --out band.yaml\n
    trailforge world --kg kgs/sample --demand demand.yaml --out worlds/second\n
    trailforge kg-questions --kg kgs/sample --demand demand.yaml --out out/questions\n
    trailforge mcts-trajectories --questions train.jsonl --limit 500 --demand demand.yaml --out out/trees …"""

_Kept = Annotated[Path | None, typer.Option(help="With --pass-rate: file for the questions that are in the band.")]
_GiveBack = Annotated[
    int | None,
    typer.Option(min=0, help="With --pass-rate: most questions to give back, the nearest first. Default: all."),
]


def demand(
    evaluation: Annotated[Path, typer.Argument(help="Folder of an evaluation.", metavar="EVALUATION")],
    questions: Annotated[Path, typer.Option(help="File of the questions that it asked.")],
    out: Annotated[Path, typer.Option(help="YAML file of quotas to write.")],
    columns: QuestionColumns = None,
    cell: Annotated[
        str, typer.Option(help="Whose episodes count. Default: all.", metavar="AGENT[/BACKEND[/MODEL]]")
    ] = "",
    by: Annotated[
        str, typer.Option(help="What quotas are told apart by: hops, shape, relation, failure, backend.")
    ] = "hops,shape",
    least: Annotated[int, typer.Option(min=1, help="Attempts without which a cell says nothing.")] = 10,
    most: Annotated[int, typer.Option(min=1, help="Weak cells that get a quota, the weakest first.")] = 10,
    keep: Annotated[float, typer.Option(min=0.0, max=0.9, help="Share of questions that no quota directs.")] = 0.2,
    pass_rate: Annotated[
        str | None,
        typer.Option(help="Aim at this band instead: ask for harder and easier questions.", metavar="0.1..0.7"),
    ] = None,
    kept: _Kept = None,
    give_back: _GiveBack = None,
) -> None:
    """Turn an agent's failures in an evaluation into quotas of questions for later runs and worlds."""
    from trailforge.evaluation.results import (
        build_demand,
        demand_band,
        demand_weak,
        find_cells,
        read_attempts,
        share_failed,
        split_by_band,
    )
    from trailforge.pipelines.sources import write_demand

    if kept is not None and pass_rate is None:
        raise InvalidInput("takes questions in a pass-rate band; say which: --pass-rate", field="--kept")
    if give_back is not None and pass_rate is None:
        raise InvalidInput("caps questions outside of a pass-rate band; say which: --pass-rate", field="--give-back")
    keys = _keys(by)
    measured, episodes = read_attempts(evaluation, cell)
    asked = _asked(questions, columns)
    cells, unknown = find_cells(episodes, asked, keys)
    if unknown == len(episodes):
        raise InvalidInput("has none of the questions that were evaluated", file=questions, field="--questions")
    if unknown:
        print(f"{unknown:,} of {len(episodes):,} attempts are of questions that {questions} does not have.")
    if pass_rate is None:
        quotas = demand_weak(cells, share_failed(episodes), least=least, most=most, keep=keep)
    else:
        split = split_by_band(episodes, asked, _band(pass_rate))
        cut = split if give_back is None else split.cut(give_back)
        quotas = demand_band(cut, keep)
        counted = f"{len(split.inside):,} in the band, {len(split.easy):,} too easy, {len(split.hard):,} too hard"
        print(f"{counted}: {len(cut.easy):,} and {len(cut.hard):,} of the latter are given back.")
        _write_kept(kept, split.inside)
    write_demand(out, build_demand(measured, quotas))
    for quota in quotas:
        seen = f"; {quota.pass_rate:.0%} of {quota.asked:,} attempts right" if quota.asked else ""
        print(f"{quota.share:6.1%} {quota}{seen}")
    print(f"In {out}")


def register(root: typer.Typer) -> None:
    """Add the command `demand`."""
    root.command("demand", epilog=EPILOG)(demand)


def _keys(text: str) -> tuple[str, ...]:
    known = ("hops", "shape", "relation", "failure", "backend")
    keys = tuple(each.strip() for each in text.split(","))
    if unknown := [each for each in keys if each not in known]:
        raise InvalidInput(f"{unknown[0]!r} is none of {', '.join(known)}", field="--by")
    return keys


def _band(text: str) -> tuple[float | None, float | None]:
    from trailforge.training.sets import WantedRange

    band = WantedRange.read(text, "--pass-rate")
    return band.least, band.most


def _asked(path: Path, columns: str | None) -> list:  # type: ignore[type-arg]
    from trailforge.pipelines.sources.jsonl import parse_columns
    from trailforge.training.sets import read_asked

    return read_asked(path, parse_columns(columns))


def _write_kept(path: Path | None, questions: tuple) -> None:  # type: ignore[type-arg]
    from trailforge.pipelines.engine import write_text
    from trailforge.schemas import to_dict

    if path is not None:
        lines = (json.dumps(to_dict(each), ensure_ascii=False) + "\n" for each in questions)
        write_text(path, "".join(lines))
