"""The report: whole, the same for the same episodes, and honest about what it lacks."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib import image

from tests.support.evaluations import evaluation, play_cell, whole_folder, write_folder
from trailforge.evaluation.results.report import describe_table, draw_plots, write_report
from trailforge.evaluation.results.table import TableRow, describe_malformed, make_table, read_table
from trailforge.inspector.terminal import show_evaluation
from trailforge.schemas import InvalidInput, read_parquet

PLOTS = ("accuracy_by_online_cost", "accuracy_by_offline_cost", "accuracy_by_recall")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = whole_folder(tmp_path_factory.mktemp("evaluation"))
    write_report(made)
    return made


def cells_of(report: str, heading: str) -> list[list[str]]:
    """The first table below a heading."""
    lines = report.split(f"## {heading}\n")[1].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    end = next(number for number in range(first, len(lines)) if not lines[number].startswith("|"))
    rows = [line.strip("| ").split(" | ") for line in lines[first:end]]
    return [rows[0], *rows[2:]]


def test_the_same_episodes_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(folder / "episodes", again / "episodes")
    shutil.copy(folder / "evaluation.json", again)
    for path in write_report(again):
        assert path.read_bytes() == (folder / path.relative_to(again)).read_bytes(), path
    assert {path.name for path in folder.glob("plots/*")} == {f"{name}.png" for name in PLOTS}
    assert not list(again.rglob(".*"))


def test_the_table_for_programs_is_that_for_people(folder: Path) -> None:
    rows = read_parquet(folder / "table.parquet", TableRow)
    assert rows == list(read_table(folder).rows)
    head, *shown = cells_of((folder / "report.md").read_text(), "Accuracy")
    assert [line[:2] for line in shown] == [[row.agent, row.backend] for row in rows]
    place = head.index("contain-EM")
    assert [line[place].split()[0] for line in shown] == [f"{100 * row.contain_em.mean:.1f}" for row in rows]


def test_every_line_of_a_table_has_its_columns_and_every_plot_is_there(folder: Path) -> None:
    report = (folder / "report.md").read_text()
    for heading in ("Accuracy", "What an episode takes", "Back ends", "What went wrong"):
        head, *rows = cells_of(report, heading)
        assert rows and {len(row) for row in rows} == {len(head)}, heading
    for name in PLOTS:
        assert f"](plots/{name}.png)" in report
    assert "The grid is finished" in report and "Not all is there" not in report


def test_the_report_of_an_unfinished_grid_says_so(tmp_path: Path) -> None:
    write_folder(tmp_path, evaluation(), {("single_shot", "dense"): play_cell("single_shot", "dense")[:30]})
    write_report(tmp_path)
    report = (tmp_path / "report.md").read_text()
    assert "Not all is there" in report and "30 of 40" in report
    assert "search_o1 over dense with m: none of 40 episodes yet" in report


def test_a_folder_without_episodes_has_a_report_and_no_plots(tmp_path: Path) -> None:
    write_folder(tmp_path, evaluation(), {})
    report, table = write_report(tmp_path)
    assert "no episodes yet" in report.read_text() and read_parquet(table, TableRow) == []


def test_a_folder_that_is_no_evaluation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no evaluation"):
        write_report(tmp_path)
    assert not list(tmp_path.iterdir())


def test_costs_that_nobody_knows_are_not_drawn_and_not_made_up() -> None:
    unknown = tuple(replace(each, hours_per_million=None, cost_per_million=None) for each in evaluation().backends)
    grid = evaluation(backends=unknown, prices=())
    table = make_table(grid, play_cell("search_o1", "dense"))
    assert set(draw_plots(table)) == {f"plots/{PLOTS[0]}.png", f"plots/{PLOTS[2]}.png"}
    report = describe_table(table)
    assert "not known, so no cost is" in report and "| cost |" not in report


def test_plots_for_a_dark_page_have_no_ground_and_light_ink() -> None:
    table = make_table(evaluation(), play_cell("search_o1", "dense"))
    for is_dark in (False, True):
        (pixels, *_) = (image.imread(io.BytesIO(png)) for png in draw_plots(table, is_dark=is_dark).values())
        solid = pixels[pixels[..., 3] == 1][:, :3]
        assert (pixels[0, 0, 3] == 0) == is_dark == (solid.max(axis=1).min() > 0.5)


def test_names_are_no_markup_in_the_report() -> None:
    bad = [replace(each, agent="a|b <script>") for each in play_cell("search_o1", "dense")]
    report = describe_table(make_table(evaluation(agents=()), bad))
    head, row = cells_of(report, "Accuracy")
    assert len(row) == len(head) and "<script>" not in report


@pytest.mark.parametrize(("dataset", "says"), [("musique", "of musique, `q.jsonl` ("), ("", "of `q.jsonl` (")])
def test_questions_of_an_own_file_are_of_no_data_set(tmp_path: Path, dataset: str, says: str) -> None:
    cells = {("search_o1", "raptor_plain"): play_cell("search_o1", "raptor_plain")[:3]}
    folder = write_folder(tmp_path / "own", evaluation(dataset=dataset, questions="q.jsonl"), cells)
    write_report(folder)
    assert says in (folder / "report.md").read_text()


def test_a_cell_whose_episodes_are_mostly_malformed_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = play_cell("search_o1", "dense")
    bad = [replace(each, stop="malformed", answer="") for each in play_cell("single_shot", "dense")[:21]]
    table = make_table(evaluation(), [*fine, *bad, *play_cell("single_shot", "dense")[21:]])
    (told,) = describe_malformed(table.rows)
    assert told.startswith("single_shot over dense (m): 21 of 40 episodes are malformed") and told in describe_table(
        table
    )
    half = [*bad[:20], *play_cell("single_shot", "dense")[20:]]
    assert describe_malformed(make_table(evaluation(), [*fine, *half]).rows) == []
    grid = {("single_shot", "dense"): [*bad, *play_cell("single_shot", "dense")[21:]]}
    show_evaluation(write_folder(tmp_path / "ev", evaluation(seeds=(0, 1)), grid))
    assert "21 of 40 episodes are malformed" in " ".join(capsys.readouterr().out.split())
