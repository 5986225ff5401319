"""What the answer of a selected episode rests on is read once more, of graph episodes and of agents'."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.generators.agent_trajectories.test_work import QUESTION as MADE
from tests.generators.agent_trajectories.test_work import config_of
from tests.generators.agent_trajectories.test_work import draw as draw_agents
from tests.generators.kg_trajectories.test_self_check import FREE, GOOD, VAGUE
from tests.support.kg_episodes import DIED, DIRECTOR, TRIPLES, agent, context, store, turn
from tests.support.rows import QUESTION
from tests.support.scripted import ScriptedModel, prompt_text
from tests.support.search_agent import Model
from trailforge.generators.agent_trajectories.config import PROMPTS
from trailforge.generators.answer_reading import PROMPT, PURPOSE, most_facts, read_passages
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.kg_trajectories.estimate import estimate
from trailforge.generators.kg_trajectories.work import LIFE
from trailforge.inference import Asker, Meter, Request, Sampling
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.protocols import SEARCH_R1
from trailforge.schemas import ITEM_ERRORS, ContextOverflow, PromptRefused, Question, RejectedRow, to_dict

OTHER_WAY = (DIRECTOR, DIED, turn("So it is said.", answer="Vienna"))
"""Right as well, and not as good: it asks for his death."""


class Reader:
    """Plays episodes; of facts it reads what it is told to, reading by reading."""

    def __init__(self, *says: str, episodes: Any = (GOOD, OTHER_WAY)) -> None:
        self.asked: list[str] = []
        self._play, self._says = agent(*episodes), says

    def __call__(self, request: Request) -> str:
        if request.purpose != PURPOSE:
            return self._play(request)
        self.asked.append(prompt_text(request).rpartition("Question: ")[2].partition("\n")[0])
        return self._says[min(len(self.asked), len(self._says)) - 1]


def run(reader: Reader, folder: Path, question: Question = VAGUE, most: int = 1, **config: Any) -> ItemResult:
    generator = replace(FREE, episodes=2, self_check="off", **config)
    run_config = KgRunConfig(generator=generator)
    run_config = replace(run_config, selection=replace(run_config.selection, most=most))
    unborn = tuple(each for each in TRIPLES if each[1] != "born")
    made = context(store(folder, unborn), reader, generator)
    return asyncio.run(LIFE.run_item(question, made, run_config))


def reasons(result: ItemResult) -> list[str]:
    rejected: Any = result.rows["rejected"]
    assert all(isinstance(row, RejectedRow) for row in rejected)
    return [row.reason for row in rejected]


def test_a_selected_episode_is_read_once_more_where_no_clause_names_its_answer(tmp_path: Path) -> None:
    reader = Reader("Vienna")
    result = run(reader, tmp_path)
    (row,) = result.rows["kg_trajectories"]
    assert reader.asked == ["In which city was Fritz Lang born?"]
    assert [(each.question, each.answer) for each in row.readings] == [("In which city was Fritz Lang born?", "Vienna")]
    assert {count.purpose: count.calls for count in result.usage.by_purpose}[PURPOSE] == 1
    assert len(row.provenance.call_keys) == len(set(row.provenance.call_keys))


def test_what_a_clause_names_is_not_read_again(tmp_path: Path) -> None:
    reader = Reader("not stated")
    (row,) = run(reader, tmp_path, QUESTION).rows["kg_trajectories"]
    assert (reader.asked, row.readings) == ([], ())


def test_where_the_answer_is_not_stated_the_next_best_is_read_in_its_place(tmp_path: Path) -> None:
    reader = Reader("not stated", "Vienna")
    result = run(reader, tmp_path)
    assert len(reader.asked) == 2 and reasons(result) == ["unstated_answer"]
    (row,) = result.rows["kg_trajectories"]
    assert [each.answer for each in row.readings] == ["Vienna"]
    (tmp_path / "again").mkdir()
    nothing = run(Reader("not stated"), tmp_path / "again")
    assert (len(nothing.rows["kg_trajectories"]), reasons(nothing)) == (0, ["unstated_answer"] * 2)


async def test_readings_of_the_same_passages_begin_alike() -> None:
    """Up to the question, so that a prefix cache serves all but the first."""
    lines = ["(Lang) Fritz Lang was born in Vienna.", "(Vienna) Vienna lies in Austria."]
    asked = ["In which city was Fritz Lang born?", "What lies in Austria?"]
    client = ScriptedModel(lambda request: "Vienna")
    asker = Asker(client=client, model="model", style="chat", seed=0, meter=Meter())
    sampling = Sampling(temperature=0.0, top_p=1.0, max_tokens=9)
    for question in asked:
        await read_passages(
            PROMPTS.text(PROMPT), question, lines, asker, purpose=PURPOSE, sampling=sampling, most_words=9
        )
    first, second = map(prompt_text, client.requests)
    shared = "".join(one for one, _ in takewhile(lambda each: each[0] == each[1], zip(first, second, strict=False)))
    assert shared.endswith("\n".join([*lines, "Question: "]))
    assert [text.removeprefix(shared).strip() for text in (first, second)] == asked


def test_nobody_is_asked_where_that_is_off(tmp_path: Path) -> None:
    reader = Reader("not stated")
    assert len(run(reader, tmp_path, answer_check="off").rows["kg_trajectories"]) == 1 and reader.asked == []


def vague_run(says: str | Exception) -> tuple[ItemResult, list[Request]]:
    """As its passages are put so that no clause names the answer, each draw is read; {} is the answer of that hop."""
    asked = config_of(SEARCH_R1.name)
    vague = tuple(replace(each, text=each.text.replace(" is ", ", which is, ")) for each in MADE.paragraphs)
    question, model = replace(MADE, paragraphs=vague), Model([MADE], flaw_rate=0.0)

    def reply(request: Request) -> str:
        if request.purpose != PURPOSE:
            return model(prompt_text(request), request.sampling_seed)
        if isinstance(says, Exception):
            raise says
        asked = prompt_text(request).rpartition("Question: ")[2].partition("\n")[0]
        hop = next(hop for hop in MADE.decomposition if asked.startswith(hop.question.partition("#")[0].rstrip("?")))
        return says.format(hop.answer)

    result, client = draw_agents(asked, question, reply)
    return result, client.requests


@pytest.mark.parametrize(("says", "kept"), [("not stated", 0), ("Somewhere", 0), ("{}", 1), ("It is {}", 1)])
def test_an_agents_episode_is_lost_with_a_reading_that_finds_nothing_or_something_else(says: str, kept: int) -> None:
    result, requests = vague_run(says)
    assert len(result.rows["agent_trajectories"]) == kept == len(result.rows["sft"])
    assert any(request.purpose == PURPOSE for request in requests)
    assert ("unstated_answer" in reasons(result)) is not bool(kept)


@pytest.mark.parametrize("failure", ["", "  \n", PromptRefused("no"), ContextOverflow("too long")])
def test_a_reading_that_fails_is_no_verdict_but_fails_the_question(failure: str | Exception, tmp_path: Path) -> None:
    """Neither "not stated" nor a silent pass: the engine counts these errors as the question's failure."""
    with pytest.raises(ITEM_ERRORS):
        vague_run(failure)

    class Failing(Reader):
        def __call__(self, request: Request) -> str:
            if request.purpose == PURPOSE and isinstance(failure, Exception):
                raise failure
            return super().__call__(request)

    with pytest.raises(ITEM_ERRORS):
        run(Failing(failure if isinstance(failure, str) else "Vienna"), tmp_path)


def test_the_estimate_counts_a_reading_of_every_episode(tmp_path: Path) -> None:
    source = tmp_path / "questions.jsonl"
    source.write_text(f"{json.dumps(to_dict(QUESTION))}\n")
    inputs = RunInputs(dataset="kg_trajectories", files=(source,))
    stages = {stage.stage: stage.usage.calls for stage in estimate(inputs, KgRunConfig(generator=FREE)).stages}
    assert stages[PURPOSE] == FREE.episodes * most_facts([QUESTION]) == 2, "both hops of one episode"
    off = KgRunConfig(generator=replace(FREE, answer_check="off"))
    assert PURPOSE not in {stage.stage for stage in estimate(inputs, off).stages}
