"""The one life of rows, without a data set: what becomes of broken draws, and in which order rows were drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from trailforge.inference import Meter, Prices
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.life import Chosen, Draws, Life, draw_all
from trailforge.schemas import InvalidInput, MalformedReply

CONFIG: Any = SimpleNamespace(model=SimpleNamespace(prices=Prices()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A row, and the item that it is drawn of."""

    id: str
    sample: int = 0


def lived(draws: int, *, broken: int | None = None, line: str = "", place: Callable | None = None) -> ItemResult:
    """What one item gives of so many draws, of which one may break off."""

    async def word(sample: int, meter: Meter) -> Wording:
        del meter
        if sample == broken:
            raise MalformedReply(f"draw {sample} says nothing")
        return Wording(id=f"q-{sample}", sample=sample)

    async def draw(item: Wording, context: object, config: object) -> Any:
        del item, context, config
        return await draw_all(word, draws)

    life = Life(name="reword", item=Wording, table="worded", draw=draw, draws=line, place=place)
    return asyncio.run(life.run_item(Wording(id="q"), None, CONFIG))


def test_a_broken_draw_is_counted_beside_the_others() -> None:
    result = lived(3, broken=1, line="wording")
    assert [row.id for row in result.rows["worded"]] == ["q-0", "q-2"]
    assert [(row.stage, row.uid, row.reason) for row in result.rows["rejected"]] == [
        ("wording", "q:1", "malformed_reply")
    ]
    assert [(line.name, line.inputs, line.accepted) for line in result.stages] == [("reword", 1, 1), ("wording", 3, 2)]


def test_a_life_whose_books_have_no_line_for_draws_fails_an_item_with_its_broken_draw() -> None:
    """Its row in `rejected/` would be of no stage, and `verify` would call the run wrong."""
    with pytest.raises(MalformedReply, match="draw 1 says nothing"):
        lived(3, broken=1)


def test_a_place_that_does_not_sort_rows_as_they_were_drawn_is_told_before_they_are_written() -> None:
    """As texts q-10 comes before q-2, and `verify`, which sorts rows so, would call a sound run wrong."""
    with pytest.raises(InvalidInput, match="does not sort the rows of q in the order in which they were drawn"):
        lived(11, place=lambda row: row.id)
    assert len(lived(11, place=lambda row: row.sample).rows["worded"]) == 11


def test_rows_that_were_chosen_while_they_were_drawn_are_not_derived_and_chosen_once_more() -> None:
    row = Wording(id="q-0")

    async def draw(item: Wording, context: object, config: object) -> Any:
        del item, context, config
        return Draws(rows=(row,), chosen=Chosen((row,), ()))

    def never(*given: object) -> Any:
        raise AssertionError(f"called with {given}")

    life = Life(name="reword", item=Wording, table="worded", draw=draw, derive=never, choose=never)
    assert asyncio.run(life.run_item(Wording(id="q"), None, CONFIG)).rows["worded"] == (row,)
