"""A data set of a research agent over an index of pages: its rows, filters, windows, display, and what a kill costs."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.commands.test_evaluate import run
from tests.support.browse_agent import ANSWER, Road
from tests.support.model_server import running, stats
from tests.support.warm import Running
from trailforge.evaluation.results import describe_timeline
from trailforge.generators.agent_trajectories.card import describe_calls
from trailforge.generators.agent_trajectories.choice import choose_rows
from trailforge.generators.agent_trajectories.estimate import prompts_of_calls
from trailforge.generators.agent_trajectories.evidence import read_by
from trailforge.generators.agent_trajectories.filters import AgentFilterConfig, judge_episode
from trailforge.generators.agent_trajectories.long_episodes import LongEpisodeLimits, rank_calls
from trailforge.generators.agent_trajectories.rows import derive_fields, searches_match, sft_rows
from trailforge.pipelines.runs.verify import verify_run
from trailforge.protocols.browse import cited_in, timeline_of
from trailforge.protocols.browse.results import TOO_MANY_AT_ONCE
from trailforge.schemas import (
    AgentTrajectory,
    InvalidInput,
    MendedMistake,
    NativeMessage,
    Question,
    SftRow,
    SupportingDocument,
    read_rows,
)

STOPS = 16
STARTS = (1, 3, 5)
LIMITS = AgentFilterConfig(long=LongEpisodeLimits(min_cited_read=1.0), bridges="any", min_right_share=0)


def settings(writing: str = "native", context: str = "all") -> dict[str, Any]:
    return {
        "dataset": "agent_trajectories",
        "model": {"name": "scripted", "url": "http://127.0.0.1:9/v1", "prompt_price_per_million": 1},
        "generator": {
            "agent": "browse",
            "settings": {"turn_tokens": 256, "context": context, "writing": writing, "max_calls": 60},
            "draws": 1,
            "top_k": 2,
            "memory": {"draws": 1},
            "answer_check": "off",
        },
        "filters": {"min_right_share": 0, "bridges": "any", "long": {"min_calls": 5}},
        "retrieval": {"kind": "bm25", "scope": "corpus"},
        "output": {"shard_size": 2},
    }


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(browse=2) as address:
        yield address


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents, an index of their pages, and questions that begin at several stops of the road."""
    folder, road = tmp_path_factory.mktemp("road"), Road(STOPS)
    road.write(folder / "documents.jsonl")
    asked = [
        {
            "id": f"q{start}",
            "question": f"Where does the road from Stop {start} end?",
            "answer": ANSWER,
            "supporting": [{"title": f"Stop {n}"} for n in (STOPS - 1, STOPS)],
        }
        for start in STARTS
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in asked))
    run("index", "build", folder / "documents.jsonl", "--backend", "bm25", "--pages", "--out", folder / "index")
    return folder


def command(place: Path, url: str, out: Path, preset: dict[str, Any], *more: str) -> list[str]:
    path = out.with_suffix(".yaml")
    path.write_text(json.dumps(preset))
    given = ("--questions", place / "questions.jsonl", "--documents", place / "index", "--preset", path)
    return [str(each) for each in ("agent-trajectories", *given, "--model", url, "--out", out, *more)]


def rows_of(out: Path, table: str, record: type) -> list[Any]:
    return list(read_rows(sorted((out / table).glob("part-*.parquet")), record))


@pytest.fixture(scope="module")
def made(place: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "native"
    run(*command(place, url, out, settings()))
    return out


def test_a_run_over_pages_keeps_verifies_and_shows_its_episodes(made: Path) -> None:
    rows: list[AgentTrajectory] = rows_of(made, "agent_trajectories", AgentTrajectory)
    assert [row.question_id for row in rows] == ["q1", "q3", "q5"]
    for row in rows:
        figures = row.episode.browse and row.episode.browse.figures
        assert figures is not None and figures.calls >= STOPS - 4 and figures.gold_opened == figures.gold_pages == 2
        assert row.episode.costs.context_tokens == sum(call.tokens for call in row.episode.browse.calls)  # type: ignore[union-attr]
        assert {call.seconds for call in row.episode.browse.calls} == {0.0}  # type: ignore[union-attr]
        assert {"dead_end", "uncited_answer", "too_few_calls"} <= {each.name for each in row.filters}
    assert verify_run(made).problems == []
    shown = run("show", made, "--table", "agent_trajectories", "--count", 1)
    assert "longest dead end" in shown and "cited" in shown and "Stop 2" in shown
    assert "pages behind the answers cited" in (made / "README.md").read_text()


def test_the_card_counts_what_was_mended_and_the_timeline_says_where(row: AgentTrajectory) -> None:
    record = row.episode.browse
    assert record is not None and "mend a mistake" not in describe_calls([record])
    turn = record.calls[2].turn
    mended = (MendedMistake(kind="wrong_page", call=1, mended_in=turn, page="p1", title="Stop 1"),)
    marked = replace(record, mended=mended)
    assert "1 of 2 mend a mistake of their own (by kind: 1 wrong page)" in describe_calls([record, marked])
    shown = str(describe_timeline(marked))
    assert "gives up a wrong page" in shown and "mended mistakes 1" in shown


@pytest.mark.parametrize(("writing", "context"), [("native", "newest:3"), ("tags", "all")])
def test_every_turn_is_learnt_in_one_row_of_what_the_model_was_sent(
    place: Path, url: str, tmp_path: Path, writing: str, context: str
) -> None:
    run(*command(place, url, tmp_path / "out", settings(writing, context), "--limit", "1"))
    (row,) = rows_of(tmp_path / "out", "agent_trajectories", AgentTrajectory)
    learnt: list[SftRow] = rows_of(tmp_path / "out", "sft", SftRow)
    turns = sum(message.role == "assistant" for message in row.episode.messages)
    assert sum(sum(each.train) for each in learnt) == turns
    assert (len(learnt) == 1) is (context == "all") and {each.segment_count for each in learnt} == {len(learnt)}
    assert all((each.native is not None) is (writing == "native") for each in learnt)
    assert all(len(each.native.messages) == len(each.messages) for each in learnt if each.native)
    assert verify_run(tmp_path / "out").problems == []


@pytest.mark.slow
def test_a_killed_run_goes_on_inside_an_episode(place: Path, tmp_path: Path) -> None:
    log, out, whole = tmp_path / "calls.log", tmp_path / "out", tmp_path / "whole"
    said = tmp_path / "said.txt"
    with running(browse=2, latency=0.05, log=log) as url:
        asked = command(place, url, out, settings())
        for _ in range(3):
            before = log.read_text().count("out ") if log.exists() else 0
            child = Running(asked, os.environ, said, said)
            while (log.read_text().count("out ") if log.exists() else 0) < before + 8 and child.poll() is None:
                time.sleep(0.002)
            assert child.poll() is None, said.read_text()
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert Running(asked, os.environ, said, said).wait() == 0, said.read_text()
        paid = stats(url)
        assert 0 < paid["calls"] - paid["unique"] <= 3 * len(STARTS)  # those in flight
        assert Running(command(place, url, whole, settings()), os.environ, said, said).wait() == 0
    parts = [each.relative_to(out) for each in sorted(out.rglob("part-*.parquet"))]
    assert parts and all((out / each).read_bytes() == (whole / each).read_bytes() for each in parts)


@pytest.fixture(scope="module")
def row(made: Path) -> AgentTrajectory:
    (first, *_) = rows_of(made, "agent_trajectories", AgentTrajectory)
    return first


def changed(row: AgentTrajectory, **calls: Any) -> AgentTrajectory:
    """The row with other calls, each of the same fields."""
    record = row.episode.browse
    assert record is not None
    edited = tuple(replace(call, **calls) for call in record.calls)
    return replace(row, episode=replace(row.episode, browse=replace(record, calls=edited)))


def reasons(row: AgentTrajectory, config: AgentFilterConfig = LIMITS) -> list[str]:
    return [each.reason for each in judge_episode(row, config) if not each.keep]


def test_filters_reject_by_what_the_calls_did(row: AgentTrajectory) -> None:
    record = row.episode.browse
    assert record is not None and reasons(row) == []
    figures = record.figures

    def figured(**changes: Any) -> AgentTrajectory:
        browse = replace(record, figures=replace(figures, **changes))
        return replace(row, episode=replace(row.episode, browse=browse))

    assert reasons(figured(gold_cited=0)) == ["uncited_answer"]
    assert reasons(figured(made_up_citations=1)) == ["uncited_answer"]
    assert reasons(figured(pages_unused=figures.pages_opened)) == ["unused_pages"]
    for name, limits in (
        ("too_few_calls", LongEpisodeLimits(min_calls=50)),
        ("too_many_calls", LongEpisodeLimits(min_calls=1, max_calls=3)),
    ):
        assert reasons(row, replace(LIMITS, long=limits)) == [name]
    assert "dead_end" in reasons(changed(row, problem="no"))
    assert reasons(changed(row, tool="search")) == ["unread_pages"]
    alike = changed(row, tool="open", page="p001", part=1, query="")
    assert "repeated_calls" in reasons(alike) and not searches_match(alike)


def test_a_page_is_read_when_it_was_opened_or_words_were_found_in_it(row: AgentTrajectory) -> None:
    """A find without a hit reads nothing, and who opens nothing has read no page, whatever its finds found."""
    found = changed(row, tool="find", query="road")
    lenient = replace(LIMITS, long=LongEpisodeLimits(min_cited_read=0.15))
    assert "unread_pages" not in reasons(row, lenient) and "unread_pages" in reasons(found, lenient)
    record = found.episode.browse
    assert record is not None
    first = replace(record.calls[0], tool="open")
    for hits, is_read in ((True, True), (False, False)):
        others = [each if hits else replace(each, pages=(), parts=(), titles=()) for each in record.calls[1:]]
        calls = (replace(first, page="p999", pages=("p999",), parts=(1,), titles=("",)), *others)
        made = replace(found, episode=replace(found.episode, browse=replace(record, calls=calls)))
        assert ("unread_pages" not in reasons(made, lenient)) is is_read


def test_of_two_right_episodes_the_one_with_fewer_calls_in_vain_is_first(row: AgentTrajectory) -> None:
    """Also where it opened more pages that it never names."""
    record = row.episode.browse
    assert record is not None
    lost = replace(record.calls[0], tool="find", query="fog", pages=(), parts=(), titles=())
    vain = replace(
        row, episode=replace(row.episode, browse=replace(record, calls=(record.calls[0], lost, *record.calls[1:])))
    )
    figures = replace(record.figures, pages_unused=record.figures.pages_unused + 1)
    unused = replace(row, episode=replace(row.episode, browse=replace(record, figures=figures)))
    assert rank_calls(row) < rank_calls(unused) < rank_calls(vain)


def test_what_an_answer_cites_is_read_again_once(row: AgentTrajectory) -> None:
    """However often it was shown."""
    record = row.episode.browse
    assert record is not None
    twice = replace(row, episode=replace(row.episode, browse=replace(record, calls=record.calls * 2)))
    assert read_by(twice) == read_by(row) != []


def test_a_passage_that_several_cited_searches_show_is_read_again_once(row: AgentTrajectory) -> None:
    """At whatever place; another part, or other words of it, stands."""
    record = row.episode.browse
    assert record is not None
    page, part = next((each.page, each.part) for each in cited_in(record))
    lines = [f"[{page}] Stop, part {part}: It ends.", "[x] Stop, part 1: No.", f"[{page}] Stop, part {part}: Here."]
    shown = ([lines[0], lines[1]], [lines[1], lines[0]], [lines[1], lines[2], lines[0]])
    call = replace(record.calls[0], tool="search", pages=(page,), parts=(part,), titles=("Stop",))
    texts = ["\n".join(f"{number}. {line}" for number, line in enumerate(each, 1)) for each in shown]
    at = len(record.messages) - 1
    results = tuple(NativeMessage(role="tool", content=text) for text in texts)
    messages = (*record.messages[:at], *results, record.messages[at])
    calls = tuple(replace(call, result=at + number) for number in range(3))
    edited = replace(row.episode, browse=replace(record, calls=calls, messages=messages))
    assert [each.text for each in read_by(replace(row, episode=edited))] == ["\n".join(lines[:2]), lines[2]]


def test_a_page_that_nothing_had_shown_is_known_from_memory(row: AgentTrajectory) -> None:
    """Unless the question names it, or the text of a page."""
    unseen = changed(row, tool="open", page="p999", part=1, query="")
    assert "unshown_page" in reasons(unseen) and "unshown_page" not in reasons(changed(row, page="p999", problem="no"))
    lenient = replace(LIMITS, long=LongEpisodeLimits(max_unshown=len(unseen.episode.browse.calls)))  # type: ignore[union-attr]
    assert "unshown_page" not in reasons(unseen, lenient)
    record = unseen.episode.browse
    assert record is not None
    asked = [
        replace(each, content=f"{each.content} (p999)") if each.role == "user" else each for each in record.messages
    ]
    named = replace(unseen, episode=replace(unseen.episode, browse=replace(record, messages=tuple(asked))))
    assert "unshown_page" not in reasons(named)


def test_calls_that_were_put_off_are_no_research(row: AgentTrajectory) -> None:
    assert "too_few_calls" in reasons(changed(row, problem=TOO_MANY_AT_ONCE))
    assert "dead_end" not in reasons(changed(row, problem=TOO_MANY_AT_ONCE))


def said_last(row: AgentTrajectory, more: str) -> AgentTrajectory:
    """The row with more words in its last thought."""
    record, plain = row.episode.browse, row.episode.messages
    assert record is not None
    last = replace(record.messages[-1], reasoning=f"{more} {record.messages[-1].reasoning}")
    told = replace(plain[-1], content=plain[-1].content.replace("<think>", f"<think>{more} "))
    browse = replace(record, messages=(*record.messages[:-1], last))
    return replace(row, episode=replace(row.episode, browse=browse, messages=(*plain[:-1], told)))


def test_pages_that_said_nothing_are_no_admission_where_a_cited_part_states_the_answer(row: AgentTrajectory) -> None:
    assert reasons(said_last(row, "Stop 3 has no page of its own. The first two pages do not name it.")) == []
    assert reasons(said_last(row, "No page names it, so my best guess is Oslo.")) == ["admitted_guess"]
    assert reasons(said_last(row, "I'm not fully sure, but that's the best answer.")) == ["admitted_guess"]
    assert reasons(said_last(row, "I'm not sure, but that's the best answer.")) == ["admitted_guess"]


def test_a_repeated_call_whose_result_was_taken_away_is_no_fault(row: AgentTrajectory) -> None:
    alike = changed(row, tool="open", page="p001", part=1, query="", problem="")
    record = alike.episode.browse
    assert record is not None
    views = tuple(
        replace(record.views[0], first=call.turn, end=call.turn + 2, start=2, marked_before=call.turn)
        for call in record.calls
    )
    taken = replace(alike, episode=replace(alike.episode, browse=replace(record, views=views)))
    assert "repeated_calls" in reasons(alike) and "repeated_calls" not in reasons(taken)


def test_episodes_that_make_the_same_calls_are_one(row: AgentTrajectory) -> None:
    other = replace(row, uid="other", sample=1)
    chosen = choose_rows([row, other], LIMITS)
    assert [each.uid for each in chosen.kept] == [row.uid]
    assert [verdict.reason for _, verdict in chosen.rejected] == ["same_route"]


def test_an_unreadable_turn_is_shown_and_not_learnt(row: AgentTrajectory) -> None:
    record = row.episode.browse
    assert record is not None
    place = next(at for at, message in enumerate(record.messages) if at > 3 and message.role == "assistant")
    messages = list(record.messages)
    messages[place] = replace(messages[place], content="", tool_calls=())
    slipped = replace(row, episode=replace(row.episode, browse=replace(record, messages=tuple(messages))))
    (learnt,) = sft_rows(slipped, data_source="d")
    assert not learnt.train[place] and sum(learnt.train) == sum(sft_rows(row, data_source="d")[0].train) - 1
    assert "malformed_turns" in reasons(slipped, replace(LIMITS, long=LongEpisodeLimits(max_slips=0)))
    assert not searches_match(slipped)


def test_gold_pages_are_counted_again_from_the_question(row: AgentTrajectory) -> None:
    supporting = (SupportingDocument(id="elsewhere", title="Elsewhere"),)
    question = Question(id="q1", dataset="d", question=row.episode.question, answer=ANSWER, supporting=supporting)
    browse = derive_fields(row, question)["episode"].browse
    assert (browse.figures.gold_pages, browse.figures.gold_opened) == (1, 0)


def test_the_timeline_says_of_each_call_what_came_of_it(row: AgentTrajectory) -> None:
    record = row.episode.browse
    assert record is not None
    entries = timeline_of(record)
    assert len(entries) == len(record.calls)
    assert (entries[0].kind, entries[0].target) == ("search", "Stop 1")
    last = entries[-1]
    assert (last.kind, last.outcome, last.cited) == ("open", f"Stop {STOPS}, part 1", (f"p{STOPS:03d}",))
    assert not any(each.is_repeat or each.problem for each in entries)


def test_a_dry_run_prices_what_a_server_has_read_before(place: Path, url: str, tmp_path: Path) -> None:
    costs = []
    for cached in (1.0, 0.1):
        preset = settings()
        preset["model"]["cached_price_per_million"] = cached
        said = run(*command(place, url, tmp_path / "out", preset, "--dry-run"))
        costs.append(said)
    assert "cached tokens" in costs[0].replace("\n", " ") and costs[0] != costs[1]
    numbers = SimpleNamespace(context="all", max_tokens=131_072, turn_tokens=4096, max_calls=60)
    prompt, cached = prompts_of_calls(numbers, 30)
    assert 0.9 * prompt < cached < prompt
    numbers.context = "newest:5"
    assert prompts_of_calls(numbers, 30)[1] == 0  # each turn takes a result away from the middle of its prompt


def test_what_cannot_be_is_refused_before_anything_is_asked(place: Path, url: str, tmp_path: Path) -> None:
    asked = stats(url)["calls"]
    preset = settings()
    preset["retrieval"] = {}
    with pytest.raises(InvalidInput, match="pages of the web are opened by a server"):
        at = (given := command(place, url, tmp_path / "out", preset)).index("--documents")
        run(*given[:at], *given[at + 2 :], "--retrieval", "web")
    preset = settings()
    preset["generator"]["style"] = "completion"
    with pytest.raises(InvalidInput, match="turns of a chat"):
        run(*command(place, url, tmp_path / "out", preset))
    preset = settings()
    preset["filters"]["long"] = {"min_calls": 9, "max_calls": 3}
    with pytest.raises(InvalidInput, match="min_calls or more"):
        run(*command(place, url, tmp_path / "out", preset))
    assert stats(url)["calls"] == asked
