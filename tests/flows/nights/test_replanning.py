"""Which entries of a window that was begun take other parameters, and which refuse them."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.flows.nights import windows
from trailforge.flows.nights.makes import PlannedDataSet
from trailforge.flows.nights.replanning import begin
from trailforge.flows.nights.windows import WindowPlan, read_plan
from trailforge.inference import Reply, Request, Sampling
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.pipelines.dataset import LEDGER
from trailforge.pipelines.engine.shards import Receipt, write_receipt
from trailforge.schemas import OutputError

BUNDLES = PlannedDataSet(folder="bundles", dataset="document_bundles", preset="b", takes=("benchmarks",))
MCTS = PlannedDataSet(folder="mcts", dataset="mcts_trajectories", preset="m", input="bundles")
KG = PlannedDataSet(folder="kg", dataset="kg_trajectories", preset="k", input="bundles", needs=("kg",))
PLAN = WindowPlan(
    day="2026-11-20", window_days=1, documents=("a.jsonl",), makes=(BUNDLES, MCTS, KG), kg="graph",
    model_name=None, benchmarks=(), most_documents=None, most_questions=None, distractors=3, seed=0,
)  # fmt: skip
OTHER_KG = replace(PLAN, makes=(BUNDLES, MCTS, replace(KG, preset="x", config_hash="0" * 12)))


def begun(root: Path, *with_rows: str) -> Path:
    """A window that has taken its documents; entries of which a shard is finished."""
    begin(root, PLAN)
    (root / PLAN.day / windows.TAKEN).write_text("{}")
    for name in with_rows:
        write_receipt(root / PLAN.day / name, Receipt(shard="part-00000-0123456789ab", files=(), stages=()))
    return root / PLAN.day


def pay(run: Path) -> None:
    """Leave a call in its ledger."""
    (run / LEDGER).parent.mkdir(parents=True)
    request = Request(model="m", prompt="Is it paid?", sampling=Sampling(max_tokens=8), purpose="test")
    reply = Reply(text="Yes.", finish_reason="stop", prompt_tokens=5, completion_tokens=2, key=request.key)
    with closing(SqliteLedger(run / LEDGER)) as book:
        asyncio.run(book.put(request, reply))


def test_an_entry_without_a_row_takes_other_parameters(tmp_path: Path) -> None:
    folder = begun(tmp_path, "bundles", "mcts")
    begin(tmp_path, OTHER_KG)
    assert read_plan(folder) == OTHER_KG
    (folder / "kg" / "ledger").mkdir(parents=True)
    with closing(SqliteLedger(folder / "kg" / LEDGER)):
        pass  # the server was away: it was opened, and nothing paid
    begin(tmp_path, PLAN)
    assert read_plan(folder) == PLAN


def test_one_with_rows_keeps_its_own_and_the_mend_names_its_folder_alone(tmp_path: Path) -> None:
    folder = begun(tmp_path, "bundles", "kg")
    before = (folder / windows.PLAN).read_bytes()
    changes = r"\(kg\.preset: k -> x; content of kg's preset, benchmarks or graph:  -> 000000000000\)"
    told = rf"{changes}, and kg had begun; give the old parameters, or move {folder}/kg away"
    with pytest.raises(OutputError, match=told):
        begin(tmp_path, OTHER_KG, replan=["kg"])
    assert (folder / windows.PLAN).read_bytes() == before


def test_one_that_paid_and_has_no_row_is_planned_anew_only_when_that_is_asked(tmp_path: Path) -> None:
    folder = begun(tmp_path, "bundles", "mcts")
    pay(folder / "kg")
    with pytest.raises(
        OutputError, match=r"kg paid for calls, but has no row; to make it with the new, add --replan kg$"
    ):
        begin(tmp_path, OTHER_KG)
    begin(tmp_path, OTHER_KG, replan=["kg"])
    assert read_plan(folder) == OTHER_KG


@pytest.mark.parametrize(
    ("change", "concerned"),
    [
        ({"seed": 7}, "bundles, kg, mcts"),
        ({"model_name": "other"}, "bundles, kg, mcts"),
        ({"kg": "elsewhere"}, "kg"),
        ({"benchmarks": ("b.jsonl",)}, "bundles, kg, mcts"),  # and what is asked the bundles' questions
        ({"most_documents": 3}, "bundles, kg, mcts"),
        ({"most_questions": 3}, "kg, mcts"),
        ({"distractors": 4}, "kg, mcts"),
    ],
)
def test_a_parameter_of_the_night_is_one_of_the_entries_that_it_decides(
    tmp_path: Path, change: dict[str, object], concerned: str
) -> None:
    begun(tmp_path / "none")
    begin(tmp_path / "none", replace(PLAN, **change))  # pyright: ignore[reportArgumentType]
    begun(tmp_path / "all", "bundles", "mcts", "kg")
    with pytest.raises(OutputError, match=f", and {concerned} had begun"):
        begin(tmp_path / "all", replace(PLAN, **change))  # pyright: ignore[reportArgumentType]


def test_what_decides_the_documents_stays_once_they_are_taken_and_a_complete_window_whole(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    for change in ({"documents": ("b.jsonl",)}, {"window_days": 2}, {"verdicts": ("v",)}):
        with pytest.raises(OutputError, match="took its documents by them"):
            begin(tmp_path, replace(PLAN, **change))
    (folder / windows.DONE).write_text("{}")
    with pytest.raises(OutputError, match=r"kg\.preset: k -> x.* and is complete"):
        begin(tmp_path, OTHER_KG)
    with pytest.raises(OutputError, match="makes: bundles, mcts, kg -> bundles, kg, mcts"):
        begin(tmp_path, replace(PLAN, makes=(BUNDLES, KG, MCTS)))


def test_entries_come_and_go_while_nothing_is_in_their_folders(tmp_path: Path) -> None:
    folder = begun(tmp_path, "bundles")
    agents = PlannedDataSet(folder="agents", dataset="agent_trajectories", preset="a", input="bundles")
    begin(tmp_path, replace(PLAN, makes=(BUNDLES, agents, MCTS)))
    (folder / "agents").mkdir()
    with pytest.raises(OutputError, match="agents had begun"):
        begin(tmp_path, PLAN)


@given(
    with_rows=st.sets(st.sampled_from(["bundles", "mcts", "kg"])),
    changed=st.sets(st.sampled_from(["bundles", "mcts", "kg"])),
)
def test_no_entry_with_rows_ever_goes_by_another_plan(with_rows: set[str], changed: set[str]) -> None:
    plan = replace(
        PLAN, makes=tuple(replace(each, preset=each.preset + "x" * (each.folder in changed)) for each in PLAN.makes)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = begun(Path(name), *with_rows)
        try:
            begin(Path(name), plan)
        except OutputError:
            assert read_plan(folder) == PLAN
            assert with_rows & changed or ("bundles" in changed and with_rows)
        else:
            assert read_plan(folder) == plan
            assert not with_rows & changed and not ("bundles" in changed and with_rows)
