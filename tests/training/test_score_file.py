"""Files of episodes: our own rows are paid as they say, lines of JSON as they stand, and faults are named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.bundle_rows import CHURCH, ISLAND, sample_documents
from tests.support.kg_episodes import BORN, DIED, DIRECTOR, agent, context, store, turn
from tests.support.rows import QUESTION, trajectory
from tests.support.scripted import ScriptedModel
from tests.support.transcripts import PRESETS, cases
from tests.support.truths import score_messages
from trailforge.generators.document_bundles.episode_rows import episode_sft_row
from trailforge.generators.document_bundles.planned_episodes import EpisodeContext, PlannedEpisodeConfig, make_episodes
from trailforge.generators.kg_trajectories.config import KgGeneratorConfig
from trailforge.generators.kg_trajectories.rows import kg_sft_row
from trailforge.generators.kg_trajectories.work import generate
from trailforge.generators.mcts_trajectories.telling.story import sft_row
from trailforge.inference import Meter, Request
from trailforge.retrieval import RetrieverConfig, local_tools
from trailforge.rewards.episode import REWARD_PRESETS, RewardPreset
from trailforge.schemas import (
    AnswerScoredBy,
    InvalidInput,
    KgTrajectory,
    SearchEpisode,
    SftRow,
    Trajectory,
    write_parquet,
)
from trailforge.training.score_file import score_episodes
from trailforge.training.sets.judging import segments

EPISODES = (
    (DIRECTOR, BORN, turn("Vienna it is.", answer="Vienna")),
    (DIRECTOR, DIED, turn("It is Beverly Hills.", answer="Beverly Hills")),
    (DIRECTOR, "I think it is Vienna."),
    (turn("I know it.", answer="Vienna"),),
)


async def kg_rows(folder: Path) -> tuple[KgTrajectory, ...]:
    folder.mkdir()
    config = KgGeneratorConfig(episodes=len(EPISODES), top_k=2)
    return tuple((await generate(QUESTION, context(store(folder), agent(*EPISODES), config))).rows)


async def search_rows() -> list[SearchEpisode]:
    """One by the gold plan, to a question with options, and four draws to one without, of which the last is kept."""
    tools = local_tools(sample_documents(), RetrieverConfig(kind="bm25"))
    plans = ("Nodes:\nA: bridge (News)\nEdges:", *[ISLAND.dag_text] * 3)
    answers = ("", "500", "<answer>500</answer>", "<answer>more than 500</answer>")

    def script(request: Request) -> str:
        planned = f"<think>x</think><search>\n{plans[request.sample]}\n</search>"
        return planned if request.purpose == "plan" else answers[request.sample]

    common: dict[str, Any] = {"run_id": "r", "seed": 7, "tools": tools, "model": "m", "client": ScriptedModel(script)}
    gold = EpisodeContext(config=PlannedEpisodeConfig(), **common)
    drawn = EpisodeContext(config=PlannedEpisodeConfig(plan="sampled"), **common)
    made = [*await make_episodes(CHURCH, gold, Meter()), *await make_episodes(ISLAND, drawn, Meter())]
    return [candidate.episode for candidate in made]


async def test_rows_of_the_knowledge_graph_are_paid_what_they_say(tmp_path: Path) -> None:
    rows = await kg_rows(tmp_path / "kg")
    write_parquet(tmp_path / "rows.parquet", KgTrajectory, rows)
    preset = RewardPreset(name="same", constants=KgGeneratorConfig().constants)
    found = list(score_episodes(tmp_path / "rows.parquet", preset))
    assert [each.uid for each in found] == [row.uid for row in rows]
    for each, row in zip(found, rows, strict=True):
        assert each.reward.total == pytest.approx(row.reward.total, abs=1e-9)
        assert each.recorded == row.reward.total
    assert len({each.reward.total for each in found}) >= 3
    others = list(score_episodes(tmp_path / "rows.parquet", REWARD_PRESETS["ragsearch"]))
    assert [each.recorded for each in others] == [None] * len(rows)


async def test_rows_of_bundles_are_paid_what_they_say(tmp_path: Path) -> None:
    rows = await search_rows()
    write_parquet(tmp_path / "rows.parquet", SearchEpisode, rows)
    found = list(score_episodes(tmp_path / "rows.parquet", REWARD_PRESETS["r-search"]))
    assert [each.reward.total for each in found] == pytest.approx([row.reward.total for row in rows], abs=1e-9)
    assert [each.recorded for each in found] == [row.reward.total for row in rows]
    assert found[0].reward.total == 1.0 and len({each.reward.total for each in found}) >= 3


@pytest.mark.parametrize(("by", "paid"), [("judge", 0.9), ("matching", 0.9), ("words", 0.75)])
async def test_a_free_answer_of_a_bundle_is_paid_by_what_scored_it_then(
    tmp_path: Path, by: AnswerScoredBy, paid: float
) -> None:
    half = next(row for row in await search_rows() if row.final_answer == "500")
    row = replace(half, scored_by=by, reward=replace(half.reward, answer=0.8, total=0.9))
    write_parquet(tmp_path / "rows.parquet", SearchEpisode, [row])
    (found,) = score_episodes(tmp_path / "rows.parquet", REWARD_PRESETS["r-search"])
    assert found.reward.total == pytest.approx(paid), "the words have an F1 of one half"


async def test_rows_for_trainers(tmp_path: Path) -> None:
    whole, bundle = trajectory(), (await search_rows())[0]
    graph = (await kg_rows(tmp_path / "kg"))[0]
    rows = [sft_row(whole), *segments(sft_row(whole)), episode_sft_row(bundle), kg_sft_row(graph)]
    write_parquet(tmp_path / "sft.parquet", SftRow, rows)
    msearcher = list(score_episodes(tmp_path / "sft.parquet", REWARD_PRESETS["msearcher"]))
    assert [each.reward.total for each in msearcher[:2]] == [1.0, 1.0]  # whole, and its last segment
    scored = {each.uid for each in msearcher}
    assert len(rows) - len(scored) == 2 and [each.row for each in msearcher] == sorted(each.row for each in msearcher)
    by_letters = list(score_episodes(tmp_path / "sft.parquet", REWARD_PRESETS["r-search"]))
    assert by_letters[-2].reward.total == 1.0


TRUTH = asdict(cases()[0].truth)


def line(**changes: Any) -> dict[str, Any]:
    """Of a case that is well-formed and right; a change to None takes the key away."""
    case = next(case for case in cases() if case.name == "kg_search 4")
    fields: dict[str, Any] = {
        "uid": "u",
        "messages": [{"role": m.role, "content": m.content} for m in case.messages],
        "answer": "Vienna",
        "answer_aliases": ["Wien"],
        "protocol": "kg_search",
        "num_hops": case.truth.num_hops,
        "support_titles": list(case.truth.support_titles),
        "tokens": case.tokens,
    }
    return {name: value for name, value in (fields | changes).items() if value is not None}


def written(path: Path, *lines: Any) -> Path:
    opened: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines)
    return path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
@pytest.mark.parametrize("protocol", PRESETS)
def test_lines_are_paid_as_transcripts_are(tmp_path: Path, name: str, protocol: str) -> None:
    chosen = [case for case in cases() if case.protocol == protocol]
    lines = [
        {
            "messages": [{"role": m.role, "content": m.content} for m in case.turns],
            "ground_truth": asdict(case.truth),
            "tokens": case.tokens,
        }
        for case in chosen
    ]
    found = score_episodes(written(tmp_path / name, *lines), REWARD_PRESETS[PRESETS[protocol]])
    expected = [score_messages(case.messages, case.truth, tokens=case.tokens) for case in chosen]
    assert [each.reward for each in found] == expected


def test_an_answer_will_do_and_blank_lines_count(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", line(), "", line(protocol=None, uid=None))
    found = list(score_episodes(path, REWARD_PRESETS["dynasearcher"], protocol="kg_search"))
    assert [(each.row, each.uid) for each in found] == [(1, "u"), (3, "")]
    assert found[0].reward == found[1].reward and found[0].reward.total == 1.5


def test_an_answer_is_held_against_the_golds_that_a_line_gives(tmp_path: Path) -> None:
    """A benchmark's score is the paper's: other names by rule count in the target of a training set alone."""
    said = [{"role": "assistant", "content": "<think>So.</think>\n<answer>France</answer>"}]
    plain = line(messages=said, answer="French", answer_aliases=[], protocol="search_r1")
    target = TRUTH | {"target": ["French", "France"], "protocol": "search_r1", "num_golds": 1}
    trained = line(messages=said, answer=None, answer_aliases=None, protocol=None, num_hops=None, support_titles=None)
    path = written(tmp_path / "rows.jsonl", plain, trained | {"ground_truth": target})
    found = [each.reward.parts["exact_match"] for each in score_episodes(path, REWARD_PRESETS["search-r1"])]
    assert found == [0.0, 1.0]


def test_a_whole_episode_as_text(tmp_path: Path) -> None:
    text = "\n".join(message["content"] for message in line()["messages"][2:])
    path = written(tmp_path / "rows.jsonl", line(), line(messages=None, text=text))
    first, second = score_episodes(path, REWARD_PRESETS["dynasearcher"])
    assert first.reward == second.reward


def test_lengths_are_estimated_where_they_are_missing(tmp_path: Path) -> None:
    said = [{"role": "assistant", "content": f"<think>{'word ' * 30_000}</think><answer>Vienna</answer>"}]
    path = written(tmp_path / "rows.jsonl", line(messages=said, tokens=None), line(messages=said, tokens=10))
    first, second = score_episodes(path, REWARD_PRESETS["msearcher"])
    assert (first.reward.parts["length"], second.reward.parts["length"]) == (-1.0, 0.0)


@pytest.mark.parametrize(
    ("bad", "field", "problem"),
    [
        ("{", None, "Expecting property name"),
        ("[]", None, "expected an object as JSON"),
        (line(messages=None), "messages", "expected a list of messages, or the whole episode as one text"),
        (line(messages="so"), "messages", "expected a list of messages"),
        (line(messages=["so"]), "messages", "expected a message"),
        (line(messages=[{"role": "bot", "content": ""}]), "role", "'bot' is none of"),
        (line(messages=[{"role": "user", "content": 1}]), "content", "expected str"),
        (line(answer=None), "answer", "expected the right answer as text, or the field ground_truth"),
        (line(protocol=None), "protocol", "missing"),
        (line(protocol="x"), "protocol", "no protocol 'x'"),
        (line(answer_aliases="Wien"), "answer_aliases", "expected a list of texts"),
        (line(num_hops="2"), "num_hops", "expected a number"),
        (line(tokens=True), "tokens", "expected a number"),
        (line(tokens=-5), "tokens", "expected at least 0, got -5"),
        (line(num_hops=-3), "num_hops", "expected at least 1, got -3"),
        (line(num_hops=0), "num_hops", "expected at least 1, got 0"),
        (line(support_titles=["A", "B"], support_texts=["a"]), "support_texts", "1 texts of 2 titles"),
        (line(answer=" "), "answer", "must not be blank"),
        (line(answer_aliases=["Wien", ""]), "answer_aliases", "must not be blank"),
        (line(ground_truth=TRUTH | {"num_hops": -3}), "num_hops", "expected at least 1, got -3"),
        (line(ground_truth=TRUTH | {"target": ["Vienna", " "]}), "target", "not blank"),
        (line(ground_truth=TRUTH | {"target": []}), "target", "not blank"),
        (line(golds=["Wien"]), "golds", "unknown; expected some of"),
        (line(ground_truth={"target": ["x"]}), "answer_kind", "missing in GroundTruth"),
        (line(correct_options=["A"]), "answer_kind", "compares words"),
        (line(judge=0.5), None, "dynasearcher has no judge"),
    ],
)
def test_faults_are_named_with_file_row_and_field(tmp_path: Path, bad: Any, field: str | None, problem: str) -> None:
    path = written(tmp_path / "rows.jsonl", line(), bad)
    with pytest.raises(InvalidInput) as raised:
        list(score_episodes(path, REWARD_PRESETS["dynasearcher"]))
    error = raised.value
    assert (error.file, error.row, error.field) == (path, 2, field) and problem in error.problem


def test_other_files_are_refused(tmp_path: Path) -> None:
    preset = REWARD_PRESETS["msearcher"]
    write_parquet(tmp_path / "trajectories.parquet", Trajectory, [trajectory()])
    (tmp_path / "text.parquet").write_text("no table")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\n")
    (tmp_path / "plain.jsonl.gz").write_text("{}")
    for name in ("trajectories.parquet", "text.parquet", "bytes.jsonl", "plain.jsonl.gz", "none.jsonl", "none.parquet"):
        with pytest.raises(InvalidInput) as raised:
            list(score_episodes(tmp_path / name, preset))
        assert raised.value.file == tmp_path / name
