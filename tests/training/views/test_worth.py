"""Which questions of runs are worth a rollout, and which pairs a preference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import finished_runs as made
from tests.training.views.test_build import ALL, build, reasons
from trailforge.protocols import KG_SEARCH
from trailforge.protocols.turns import Turn
from trailforge.schemas import ContrastivePair, Message, Question, RejectedRow, RlRow, SftRow, read_parquet
from trailforge.training.sets.files import TrainingSet

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


def paired_run(folder: Path, asked: Question, *, chosen: str, rejected: str, read: str = "Nothing was found.") -> Path:
    """A pair that parts in its last turns, after a search that found `read`."""
    made.kg_run(folder / "before", [asked], pairs=True)
    (pair,) = read_parquet(next((folder / "before" / "pairs").iterdir()), ContrastivePair)
    *begun, searched, _ = pair.good_messages
    begun = [*begun, replace(searched, content=f"<result>\n{read}\n</result>")]

    def ending(answer: str) -> tuple[Message, ...]:
        turn = KG_SEARCH.render_turn(Turn(thought="So it is.", answer=answer))
        return (*begun, Message(role="assistant", content=turn, train=True))

    pair = replace(pair, good_messages=ending(chosen), bad_messages=ending(rejected), diverges_at=len(begun))
    tables = {"inputs": (Question, [asked]), "pairs": (ContrastivePair, [pair])}
    return made.write_run(folder / "run", "kg_trajectories", tables)


def pair_reasons(folder: Path, reward: str | None, **pair: str) -> set[str]:
    asked = replace(ASKED[0], answer=pair.pop("gold", "Vienna"), answer_aliases=())
    if pair.pop("support", "known") == "unknown":
        asked = replace(asked, supporting=(), decomposition=())
    run = paired_run(folder, asked, **pair)
    other = made.mcts_run(folder / "other", ASKED[1:], made.mcts_rows(ASKED[1]))
    built = build([run, other], folder / "set", replace(ALL, reward=reward))
    assert built.row_count("pairs", "train") == (not {key for key in reasons(built.folder) if key[0] == "pairs"})
    return {reason for table, reason in reasons(built.folder) if table == "pairs"}


@pytest.mark.parametrize(("reward", "expected"), [(None, set()), ("search-r1", {"ranked_lower"})])
def test_pairs_are_ranked_by_the_reward_that_questions_name(
    tmp_path: Path, reward: str | None, expected: set[str]
) -> None:
    """DynaSearcher's pays what covers the gold answer as much as the answer itself, exact match does not."""
    assert pair_reasons(tmp_path, reward, chosen="Vienna, Austria", rejected="Vienna") == expected


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ({"chosen": "unknown", "rejected": "Graz"}, set()),
        ({"chosen": "unknown", "rejected": "Graz", "read": "Lang was born in Vienna."}, {"misjudged_unknown"}),
        ({"chosen": "Vienna", "rejected": "unknown"}, {"misjudged_unknown"}),
        ({"chosen": "Vienna", "rejected": "unknown", "read": "Lang was born in Vienna."}, set()),
        ({"chosen": "unknown", "rejected": "no", "gold": "yes", "support": "unknown"}, {"misjudged_unknown"}),
        ({"chosen": "unknown", "rejected": "no", "gold": "yes", "read": "There is no doubt."}, set()),
        (
            {"chosen": "unknown", "rejected": "Italy", "gold": "French", "read": "Made in France."},
            {"misjudged_unknown"},
        ),
    ],
)
def test_unknown_is_preferred_where_nothing_read_states_the_answer(
    tmp_path: Path, pair: dict[str, str], expected: set[str]
) -> None:
    """And never the worse one there. By its other name an answer is stated, too; no text says "yes", so that the
    documents tell that the question rests on: one is known here that was not read."""
    assert pair_reasons(tmp_path, None, **pair) == expected


def targets(built: TrainingSet) -> dict[str, tuple[str, ...]]:
    return {row.data_source: row.reward_model.ground_truth.target for row in built.rows("rl", "train", RlRow)}


def test_two_questions_of_the_same_words_share_no_note(tmp_path: Path) -> None:
    """One is answered in another way than its gold says, the other one is not touched by that."""
    asked = replace(ASKED[0], answer_aliases=())
    other = replace(asked, answer="Graz")
    rows = made.mcts_rows(asked)
    last = rows[0].messages[-1]
    longer = replace(last, content=last.content.replace("Vienna", "in Vienna"))
    rows = [replace(rows[0], right_by="matching", messages=(*rows[0].messages[:-1], longer))]
    runs = [made.mcts_run(tmp_path / "one", [asked], rows), made.kg_run(tmp_path / "two", [other])]
    built = build(runs, tmp_path / "out", replace(ALL, unstated="mark"))
    assert targets(built) == {"kg_trajectories": ("Graz",)} and reasons(built.folder) == {("rl", "unpaid_answer"): 1}


def test_questions_with_the_same_first_line_share_no_note(tmp_path: Path) -> None:
    """Those with options often have one."""
    asked = [replace(ASKED[0], id=f"o{n}", question=f"Which holds?\nA. {n}\nB. none", answer="Oslo") for n in range(2)]
    memory = {"question_id": "o0", "answers": ["Oslo"] * 4, "draws": 4}
    tables = {
        "inputs": (Question, [replace(each, paragraphs=(), supporting=(), decomposition=()) for each in asked]),
        "rejected": (RejectedRow, [rejected("o0", "known_from_memory", 1.0, memory)]),
    }
    run = made.write_run(tmp_path / "run", "agent_trajectories", tables)
    built = build([run], tmp_path / "out", replace(ALL, max_known_share=1.0))
    found = {row.question_id: row.known_share for row in built.rows("rl", "train", RlRow)}
    assert found == {"o0": 1.0, "o1": None}


def test_a_text_that_was_read_before_a_name_was_known_states_it_all_the_same(tmp_path: Path) -> None:
    """The first run has the text, the second one the alias."""
    asked = replace(ASKED[0], answer="Beč", answer_aliases=())
    runs = [made.mcts_run(tmp_path / "one", [asked], [])]
    runs += [made.kg_run(tmp_path / "two", [replace(asked, answer_aliases=("Vienna",))])]
    built = build(runs, tmp_path / "out")
    assert {row.gold_stated for row in built.rows("rl", "train", RlRow)} == {True}


def test_the_target_is_that_of_the_reward_that_pays(tmp_path: Path) -> None:
    """Names of fewer than five letters are none for a reward that covers by characters."""
    asked = [replace(ASKED[0], answer="Omani", answer_aliases=())]
    run = made.mcts_run(tmp_path / "run", asked, [])
    mark = replace(ALL, unstated="mark")
    named = {reward: targets(build([run], tmp_path / str(reward), replace(mark, reward=reward)))["mcts_trajectories"]
             for reward in (None, "dynasearcher")}  # fmt: skip
    assert "Oman" in named[None] and "Oman" not in named["dynasearcher"]


def test_questions_with_options_keep_a_reward_that_compares_letters(tmp_path: Path) -> None:
    built = build([made.bundles_run(tmp_path / "run")], tmp_path / "out", replace(ALL, reward="dynasearcher"))
    truths = [row.reward_model.ground_truth for row in built.rows("rl", "train", RlRow)]
    assert {(bool(each.options), each.reward_preset) for each in truths} == {
        (True, "r-search"), (False, "dynasearcher"),
    }  # fmt: skip
