"""Rows in the other writing and with other names of tools: the same turns, results and loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.protocols.browse.test_loop import Agent, run
from tests.support.browse_agent import Road
from tests.support.sft_rows import sft_row
from trailforge.protocols.browse import BROWSE, NAMES, BrowseRun, rename_tools, rewrite_row, window_rows, writing_of
from trailforge.protocols.browse.context import read_rule
from trailforge.schemas import SftRow
from trailforge.schemas.agent_episode import Writing


async def rows_of(writing: Writing, rule: str = "all", stops: int = 8) -> tuple[BrowseRun, list[SftRow]]:
    done = await run(Agent(), Road(stops), writing=writing, context=read_rule(rule))
    base = sft_row("u", (), protocol=BROWSE, question="q", answer="a")
    return done, window_rows(base, done.record)


@pytest.mark.parametrize("rule", ["all", "newest:2", "summary:150"])
async def test_both_writings_of_an_episode_are_rewritten_into_each_other(rule: str) -> None:
    """What a scripted agent does in one writing it does in the other: so the rewritten rows are known."""
    (_, native), (_, tags) = await rows_of("native", rule), await rows_of("tags", rule)
    if rule != "summary:150":  # which counts tokens, of which the writings have other numbers
        assert [rewrite_row(row, "tags") for row in native] == tags
        assert [rewrite_row(row, "native").native for row in tags] == [row.native for row in native]
    for row in (*native, *tags):
        other = rewrite_row(row, "native" if row.native is None else "tags")
        assert (other.native is None) is not (row.native is None)
        assert sum(other.train) == sum(row.train)
        back = rewrite_row(other, "tags" if row.native is None else "native")
        assert (back.messages, back.train) == (row.messages, row.train)


async def test_a_row_in_other_words_stays_as_it_is() -> None:
    _, (row,) = await rows_of("tags")
    from dataclasses import replace

    foreign = replace(row, messages=(replace(row.messages[0], content="Other rules."), *row.messages[1:]))
    assert rewrite_row(foreign, "native") is foreign


@pytest.mark.parametrize("names", NAMES)
async def test_renamed_tools_are_renamed_in_rules_tools_and_calls(names: Any) -> None:
    _, (row,) = await rows_of("native")
    renamed = rename_tools(row, names).native
    assert renamed is not None
    assert [each["function"]["name"] for each in json.loads(renamed.tools)] == list(names.values())
    called = {call.name for message in renamed.messages for call in message.tool_calls}
    assert called == set(names.values())
    assert all(f"{name} shows" in renamed.messages[0].content for name in names.values())
    assert [message.content for message in renamed.messages[1:]] == [m.content for m in row.native.messages[1:]]  # type: ignore[union-attr]


def test_rules_name_the_tools_where_they_are_renamed() -> None:
    """`rename_tools` finds the tools in the rules by these words."""
    rules = writing_of("native").opening("q", 3, 8)[0].content
    assert all(each in rules for each in ("search shows passages", "open shows one part", "find shows where"))
