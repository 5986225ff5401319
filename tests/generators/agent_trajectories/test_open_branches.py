"""Episodes that follow one of several: a model reads a selected one for the others, and its twin where one is open.

The episodes are recorded (`tests/recorded/README.md`); what the model replies is played as an honest one would.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.generators.agent_trajectories.test_work import QUESTION, config_of, draw
from tests.support.scripted import ScriptedModel, prompt_text
from tests.support.search_agent import Model
from trailforge.generators.agent_trajectories.choice import choose_rows
from trailforge.generators.agent_trajectories.config import AgentGeneratorConfig
from trailforge.generators.agent_trajectories.estimate import estimate
from trailforge.generators.agent_trajectories.filters import AgentFilterConfig, open_branch
from trailforge.generators.agent_trajectories.rereading import (
    READ_BRANCHES,
    read_row,
    reading_problems,
    searches_by_itself,
    show_episode,
    waiting_rows,
)
from trailforge.generators.answer_reading import choose_read
from trailforge.inference import Asker, Meter, Request
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.schemas import ITEM_ERRORS, AgentTrajectory, from_stored, to_dict

FILE = Path(__file__).parents[2] / "recorded" / "branch_rows.json.gz"
RECORDED: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))["rows"]
READ = AgentGeneratorConfig(answer_check="off")
"""Of what else is read once more, other tests tell."""


def recorded(uid: str) -> AgentTrajectory:
    return from_stored(AgentTrajectory, RECORDED[uid]["row"], source=FILE)


async def read(row: AgentTrajectory, meter: Meter) -> AgentTrajectory:
    """The row after the recorded reply on it."""
    client: Any = ScriptedModel(lambda request: json.dumps(RECORDED[row.uid[:8]]["reply"]))
    asker = Asker(client=client, model="m", style="chat", seed=0, meter=meter)
    return await read_row(row, asker, READ)


@pytest.mark.parametrize("uid", sorted(RECORDED))
async def test_what_a_reader_found_open_is_rejected_and_nothing_else(uid: str) -> None:
    row = await read(recorded(uid), Meter())
    assert open_branch(row).keep is (RECORDED[uid]["verdict"] == "yes")
    row = replace(row, readings=())
    assert list(reading_problems(row, READ)) == []
    assert list(reading_problems(replace(row, open_branches=None), READ)) == ["whether its links are open was not read"]


async def test_a_name_counts_that_is_shown_and_of_which_nothing_is_denied() -> None:
    """The model named another spelling of the one, and of the other row somebody of whom a thought says enough."""
    verdict = open_branch(await read(recorded("2d45b2e3"), Meter()))
    assert verdict.score == 1.0 and verdict.detail.startswith("'Otto Locke' as friend of Julee Cobos: ")
    other = await read(recorded("322db091"), Meter())
    assert "Ernesto Plaza" in (detail := open_branch(other).detail) and "Chad" not in detail
    assert len(other.open_branches or ()) == 2, "the row keeps all that the model named"


@pytest.mark.parametrize(
    ("uids", "kept"), [(("832283a4", "c3973fdb", "28fa5808"), "28fa5808"), (("322db091", "31e8121d"), "31e8121d")]
)
async def test_the_twin_of_an_open_episode_is_read_in_its_place(uids: tuple[str, ...], kept: str) -> None:
    rows, config = [recorded(uid) for uid in uids], AgentFilterConfig()
    chosen, meter = await choose_read(
        rows,
        choose_rows(rows, config),
        lambda drawn: choose_rows(drawn, config),
        lambda held: waiting_rows(held, READ),
        read,
    )
    assert [row.uid[:8] for row in chosen.kept] == [kept]
    assert {verdict.reason for row, verdict in chosen.rejected} <= {"open_branch", "same_route"}
    assert 0 < len(meter.keys) <= len(rows)


def test_who_reads_sees_thoughts_searches_passages_and_answer() -> None:
    text = show_episode(recorded("28fa5808"))
    assert text.startswith("THOUGHT: I need the friend of Dick Clifton") and text.endswith(
        "ANSWER: aeronautical engineer"
    )
    assert "SEARCH: Dannielle Hartung\nSHOWN:\n- (Dannielle Hartung) " in text
    assert text.count("SEARCH: ") == 3 == text.count("SHOWN:")


def run(reply_to: Any, **generator: Any) -> tuple[ItemResult, list[Request]]:
    """A question whose four draws are right, and the requests that look for open links."""
    model = Model([QUESTION], flaw_rate=0.0)

    def reply(request: Request) -> str:
        if request.purpose == READ_BRANCHES:
            return reply_to(prompt_text(request))
        return model(prompt_text(request), request.sampling_seed)

    result, client = draw(config_of(**generator), QUESTION, reply)
    return result, [request for request in client.requests if request.purpose == READ_BRANCHES]


def open_at(name: str) -> str:
    return json.dumps({"open": [{"link": "what is asked", "name": name, "why": "it was shown, too"}]})


def shown_name(prompt: str) -> str:
    """A title that was shown and is no part of the question."""
    titles = (
        line[3:].partition(")")[0] for line in prompt.partition("\nEpisode:\n")[2].splitlines() if line[:3] == "- ("
    )
    return next(each for each in titles if each.casefold() not in QUESTION.question.casefold())


def test_where_all_twins_are_open_none_is_taken() -> None:
    result, asked = run(lambda prompt: open_at(shown_name(prompt)))
    assert result.rows["agent_trajectories"] == [] == result.rows["sft"]
    rejected: Any = result.rows["rejected"]
    assert [row.reason for row in rejected] == ["open_branch"] * 4
    assert len(asked) == 1, "they are the same word for word, and so is what is asked"
    result, asked = run(lambda prompt: open_at("Nobody Atall"))
    (row,) = result.rows["agent_trajectories"]
    assert len(asked) == 1 and asked[0].key in row.provenance.call_keys


def test_nobody_is_asked_where_that_is_off_or_the_agent_chose_no_search() -> None:
    result, asked = run(lambda prompt: "{}", branch_check="off")
    (row,) = result.rows["agent_trajectories"]
    assert asked == [] and row.open_branches is None
    fixed = replace(row, episode=replace(row.episode, messages=row.episode.messages[-1:]))
    assert searches_by_itself(row) and not searches_by_itself(fixed)


def test_a_reply_out_of_form_is_no_verdict_but_fails_the_question() -> None:
    with pytest.raises(ITEM_ERRORS):
        run(lambda prompt: "All is closed.")


def test_the_estimate_counts_a_reading_of_every_draw(tmp_path: Path) -> None:
    source = tmp_path / "questions.jsonl"
    source.write_text(f"{json.dumps(to_dict(QUESTION))}\n")
    inputs = RunInputs(dataset="agent_trajectories", files=(source,))
    calls = {stage.stage: stage.usage.calls for stage in estimate(inputs, config_of()).stages}
    assert calls[READ_BRANCHES] == 4
    assert READ_BRANCHES not in {stage.stage for stage in estimate(inputs, config_of(branch_check="off")).stages}
