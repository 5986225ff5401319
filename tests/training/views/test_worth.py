"""Which questions of runs are worth a rollout, and which pairs a preference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import finished_runs as made
from tests.training.views.test_build import ALL, build, reasons
from trailforge.schemas import ContrastivePair, Question, RejectedRow, RlRow, SftRow, read_parquet

ASKED = [made.question(number) for number in range(2)]


def rejected(uid: str, reason: str, score: float, payload: dict[str, object]) -> RejectedRow:
    return RejectedRow(uid=uid, stage="filter", reason=reason, score=score, detail="", payload=json.dumps(payload))


def agents_run(folder: Path) -> Path:
    """Three questions over a corpus: one that the model knows, one whose gold nothing says that was read, one sound."""
    asked = [replace(made.question(n), paragraphs=(), supporting=(), decomposition=()) for n in range(4)]
    memory = {"question_id": "q0", "answers": ["Vienna"] * 4, "draws": 4}
    read = [{"role": "tool", "content": f"<information>{text}</information>"} for text in ("Oslo.", "So Vienna is.")]
    episodes = [
        {
            "question_id": f"q{n}",
            "filters": [{"name": "known_from_memory", "score": 0.25}],
            "episode": {"messages": [m]},
        }
        for n, m in zip((1, 2), read, strict=True)
    ]
    rows = [rejected("q0", "known_from_memory", 1.0, memory)]
    rows += [rejected(f"r{n}", "wrong_answer", 0.0, payload) for n, payload in enumerate(episodes)]
    tables = {"inputs": (Question, asked), "rejected": (RejectedRow, rows)}
    return made.write_run(folder, "agent_trajectories", tables)


def test_what_the_model_knows_and_what_no_text_states_is_no_question_to_learn_on(tmp_path: Path) -> None:
    run = agents_run(tmp_path / "run")
    built = build([run], tmp_path / "out")
    assert [row.question_id for row in built.rows("rl", "train", RlRow)] == ["q2", "q3"]
    assert reasons(built.folder) == {("rl", "known_from_memory"): 1, ("rl", "gold_not_stated"): 1}
    marked = build([run], tmp_path / "all", replace(ALL, unstated="mark", max_known_share=1.0))
    found = {row.question_id: (row.known_share, row.gold_stated) for row in marked.rows("rl", "train", RlRow)}
    assert found == {"q0": (1.0, None), "q1": (0.25, False), "q2": (0.25, True), "q3": (None, None)}


@pytest.mark.parametrize(("answer", "stated"), [("yes", None), ("Vienna", True), ("Graz", False)])
def test_paragraphs_state_a_gold_answer_and_need_not_say_yes(tmp_path: Path, answer: str, stated: bool | None) -> None:
    asked = [replace(made.question(number), answer=answer, answer_aliases=()) for number in range(2)]
    built = build([made.mcts_run(tmp_path / "run", asked, [])], tmp_path / "out", replace(ALL, unstated="mark"))
    assert {row.gold_stated for row in built.rows("rl", "train", RlRow)} == {stated}


def test_a_question_that_is_right_in_another_way_leaves_and_its_row_stays(tmp_path: Path) -> None:
    rows = [row for asked in ASKED[:2] for row in made.mcts_rows(asked)]
    last = rows[0].messages[-1]
    longer = replace(last, content=last.content.replace("Vienna", "in Vienna"))
    rows[0] = replace(rows[0], right_by="matching", messages=(*rows[0].messages[:-1], longer))
    built = build([made.mcts_run(tmp_path / "run", ASKED[:2], rows)], tmp_path / "out")
    assert [row.question_id for row in built.rows("rl", "train", RlRow)] == [ASKED[1].id]
    assert {row.right_by for row in built.rows("sft", "train", SftRow)} == {"target", "matching"}
    assert reasons(built.folder) == {("rl", "unpaid_answer"): 1}
    in_kg = build([tmp_path / "run"], tmp_path / "kg", replace(ALL, protocol="kg_search"))
    assert len(list(in_kg.rows("rl", "train", RlRow))) == 2, "DynaSearcher's reward pays what covers the gold answer"


def test_a_set_says_what_each_run_gave(tmp_path: Path) -> None:
    mcts = made.mcts_run(tmp_path / "run", ASKED, made.mcts_rows(ASKED[0]))
    empty = made.mcts_run(tmp_path / "empty", [], [])
    built = build([mcts, empty], tmp_path / "out")
    given = [{count.table: count.rows for count in each.rows or ()} for each in built.manifest.inputs]
    assert given[1] == {"sft": 0, "rl": 0, "pairs": 0} and given[0]["sft"] == built.row_count("sft", "train") > 0


def test_a_pair_that_the_reward_ranks_otherwise_is_left_out(tmp_path: Path) -> None:
    """Its rejected end answers right, its chosen one does not."""
    asked = made.question(0)
    run = made.kg_run(tmp_path / "run", [asked], pairs=True)
    (pair,) = read_parquet(next((run / "pairs").iterdir()), ContrastivePair)
    turned = replace(pair, good_messages=pair.bad_messages, bad_messages=pair.good_messages)
    tables = {"inputs": (Question, [asked]), "pairs": (ContrastivePair, [turned, replace(pair, uid="other")])}
    built = build([made.write_run(tmp_path / "turned", "kg_trajectories", tables)], tmp_path / "out")
    assert built.row_count("pairs", "train") == 1 and reasons(built.folder) == {("pairs", "ranked_lower"): 1}
