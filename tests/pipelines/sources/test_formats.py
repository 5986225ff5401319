"""Each data set's shape: golden rows, every way a row can be bad, and the real files."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trailforge.pipelines.sources import InvalidRow, read_questions
from trailforge.schemas import Document, Hop, InvalidInput, Question, to_dict

MUSIQUE: dict[str, Any] = {
    "id": "2hop__1_2",
    "question": " Who leads the country of Oslo? ",
    "answer": "Ann",
    "answer_aliases": ["Ann B.", "Ann", "", "Ann B."],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Oslo", "paragraph_text": "Oslo is in Norway.\n", "is_supporting": True},
        {"idx": 7, "title": "Norway", "paragraph_text": "Ann leads Norway.", "is_supporting": True},
    ],
    "question_decomposition": [
        {"id": 11, "question": "Oslo >> country", "answer": "Norway", "paragraph_support_idx": 0},
        {"id": 12, "question": "Who leads #1?", "answer": "Ann", "paragraph_support_idx": 7},
    ],
}
HOTPOTQA: dict[str, Any] = {
    "_id": "5a",
    "type": "bridge",
    "level": "hard",
    "question": "Who leads the country of Oslo?",
    "answer": "Ann",
    "supporting_facts": [["Oslo", 0], ["Not there", 3]],
    "context": [["Oslo", ["Oslo is a city.", " It is in Norway."]], ["Oslo", [" "]]],
}
HUB_CONTEXT = {"title": ["Oslo", "Oslo"], "sentences": [["Oslo is a city.", " It is in Norway."], [" "]]}
TWOWIKI = {**HOTPOTQA, "evidences": [["Oslo", "country", "Norway"]]}
OURS = Question(
    id="1",
    question="Who leads Norway?",
    answer="Ann",
    answer_aliases=("Ann B.",),
    decomposition=(Hop(question="Oslo >> country", answer="Norway", support_id="p"),),
    paragraphs=(Document(id="p", title="Oslo", text="Oslo is in Norway.", published="2020-01-01"),),
    dataset="mine",
)
CONTEXT = (("0", "Oslo", "Oslo is a city. It is in Norway."), ("1", "Oslo", ""))

FILES = {
    "musique/musique_original20.jsonl.gz": 262,
    "musique/musique_reconstructed.jsonl.gz": 708,
    "hotpotqa/hotpotqa.jsonl.gz": 328,
    "hotpotqa/hotpotqa_fullwiki_incomplete.jsonl.gz": 303,
    "2wikimultihopqa/2wiki_context.jsonl.gz": 531,
    "2wikimultihopqa/2wiki_questions.jsonl.gz": 3848,
}

Edit = Callable[[dict[str, Any]], object]


def read(folder: Path, *rows: object, format: str = "auto") -> list[Question | InvalidRow]:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return list(read_questions(path, format=format))


def question(folder: Path, row: object, format: str = "auto") -> Question:
    (only,) = read(folder, row, format=format)
    assert isinstance(only, Question), only
    return only


def changed(row: dict[str, Any], edit: Edit) -> dict[str, Any]:
    row = copy.deepcopy(row)
    edit(row)
    return row


def test_musique(tmp_path: Path) -> None:
    assert question(tmp_path, MUSIQUE) == Question(
        id="2hop__1_2",
        question="Who leads the country of Oslo?",
        answer="Ann",
        answer_aliases=("Ann B.",),
        decomposition=(
            Hop(question="Oslo >> country", answer="Norway", support_id="0"),
            Hop(question="Who leads #1?", answer="Ann", support_id="7"),
        ),
        paragraphs=(
            Document(id="0", title="Oslo", text="Oslo is in Norway.", source="musique"),
            Document(id="7", title="Norway", text="Ann leads Norway.", source="musique"),
        ),
        dataset="musique",
    )


def test_musique_hop_without_a_known_paragraph(tmp_path: Path) -> None:
    row = changed(MUSIQUE, lambda row: row["question_decomposition"][0].update(paragraph_support_idx=None))
    assert question(tmp_path, row).decomposition[0].support_id is None


@pytest.mark.parametrize(
    ("row", "dataset"),
    [
        (HOTPOTQA, "hotpotqa"),
        ({**HOTPOTQA, "context": HUB_CONTEXT}, "hotpotqa"),
        (TWOWIKI, "2wikimultihopqa"),
        ({key.lstrip("_"): value for key, value in TWOWIKI.items()}, "2wikimultihopqa"),
    ],
)
def test_context_shapes_give_the_same_paragraphs(tmp_path: Path, row: object, dataset: str) -> None:
    found = question(tmp_path, row)
    assert (found.id, found.answer, found.dataset, found.decomposition) == ("5a", "Ann", dataset, ())
    assert tuple((p.id, p.title, p.text) for p in found.paragraphs) == CONTEXT
    assert {p.source for p in found.paragraphs} == {dataset}


def test_2wiki_without_paragraphs_is_for_a_corpus(tmp_path: Path) -> None:
    assert question(tmp_path, {"id": "1", "question": "q", "answer": "a", "evidences": []}).paragraphs == ()


def test_2wiki_chains_of_evidence_are_hops(tmp_path: Path) -> None:
    """Each triple begins with what the one before ends in, and the last one ends in the answer."""
    chain = [["Oslo", "country", "Norway"], ["Norway", "head of state", "ann."]]
    read = question(tmp_path, {**TWOWIKI, "evidences": chain})
    assert read.decomposition == (
        Hop(question="In which country is Oslo?", answer="Norway", support_id="0"),
        Hop(question="What is the head of state of #1?", answer="ann.", support_id=None),
    )
    one = {**TWOWIKI, "evidences": [["Oslo", "mother", "Ann"]], "supporting_facts": [["Oslo", 0], ["Oslo", 1]]}
    assert question(tmp_path, one).decomposition == (
        Hop(question="Who is the mother of Oslo?", answer="Ann", support_id="0"),
    )


@pytest.mark.parametrize(
    "evidences",
    [
        [["Oslo", "country", "Norway"], ["Sweden", "head of state", "Ann"]],
        [["Oslo", "country", "Norway"], ["Norway", "head of state", "Bob"]],
        [["Oslo", "", "Ann"]],
        [],
    ],
    ids=["two chains", "ends elsewhere", "no relation", "nothing"],
)
def test_2wiki_evidence_that_is_no_chain_is_no_decomposition(tmp_path: Path, evidences: list[list[str]]) -> None:
    assert question(tmp_path, {**TWOWIKI, "evidences": evidences}).decomposition == ()


@pytest.mark.parametrize("relation", ["{x}", "{}", "}", "{:>1900000000}"])
def test_2wiki_relations_are_words_whatever_they_hold(tmp_path: Path, relation: str) -> None:
    asked = question(tmp_path, {**TWOWIKI, "evidences": [["M", relation, TWOWIKI["answer"]]]})
    assert [hop.question for hop in asked.decomposition] == [f"What is the {relation} of M?"]


def test_2wiki_evidence_that_is_no_triple_is_named(tmp_path: Path) -> None:
    (row,) = read(tmp_path, {**TWOWIKI, "evidences": [["Oslo", "country"]]})
    assert isinstance(row, InvalidRow)
    assert (row.field, row.problem) == ("evidences[0]", "expected [head, relation, tail], found 2 items")


def test_our_own_form_round_trips(tmp_path: Path) -> None:
    assert question(tmp_path, to_dict(OURS)) == OURS
    assert question(tmp_path, {"id": " 1", "question": "q ", "answer": " a"}) == Question(
        id="1", question="q", answer="a"
    )


BAD_ROWS: list[tuple[dict[str, Any], Edit, str | None, str]] = [
    (MUSIQUE, lambda r: r.update(answerable=False), "answerable", "unanswerable question (MuSiQue-Full row)"),
    (MUSIQUE, lambda r: r.update(answerable="no"), "answerable", "expected true or false, found a text"),
    (MUSIQUE, lambda r: r.pop("id"), "id", "missing"),
    (MUSIQUE, lambda r: r.update(id=3), "id", "expected a text, found a whole number"),
    (MUSIQUE, lambda r: r.update(question="  "), "question", "empty"),
    (MUSIQUE, lambda r: r.pop("answer"), "answer", "missing"),
    (MUSIQUE, lambda r: r.update(answer=None), "answer", "expected a text, found null"),
    (MUSIQUE, lambda r: r.update(answer_aliases=["x", 1.5]), "answer_aliases[1]", "expected a text, found a number"),
    (MUSIQUE, lambda r: r.update(paragraphs=[]), "paragraphs", "empty list"),
    (MUSIQUE, lambda r: r.update(paragraphs={}), "paragraphs", "expected a list, found an object"),
    (MUSIQUE, lambda r: r.update(paragraphs=[3]), "paragraphs[0]", "expected an object, found a whole number"),
    (MUSIQUE, lambda r: r["paragraphs"][1].update(idx=0), "paragraphs", "two paragraphs have the id 0"),
    (MUSIQUE, lambda r: r["paragraphs"][1].update(idx=True), "paragraphs[1].idx", "found true or false"),
    (
        MUSIQUE,
        lambda r: r["question_decomposition"][1].update(paragraph_support_idx=5),
        "question_decomposition[1]",
        "supporting paragraph 5 is not among the paragraphs",
    ),
    (
        MUSIQUE,
        lambda r: r["question_decomposition"][1].update(question="Who leads #2?"),
        "question_decomposition[1].question",
        "hop 2 refers to #2, which is not an earlier hop",
    ),
    (
        MUSIQUE,
        lambda r: r["question_decomposition"][0].update(question="country of #2"),
        "question_decomposition[0].question",
        "hop 1 refers to #2",
    ),
    (
        MUSIQUE,
        lambda r: r["question_decomposition"][1].update(question="Who leads #" + "9" * 5000),
        "question_decomposition[1].question",
        "hop 2 refers to #999999999",
    ),
    (
        MUSIQUE,
        lambda r: r["question_decomposition"][0].update(answer=" "),
        "question_decomposition[0].answer",
        "empty",
    ),
    (TWOWIKI, lambda r: r.update(supporting_facts=[[]]), "supporting_facts[0]", "found 0 items"),
    (HOTPOTQA, lambda r: r.update(context=[]), "context", "empty list"),
    (HOTPOTQA, lambda r: r.update(context="x"), "context", "expected a list, found a text"),
    (HOTPOTQA, lambda r: r.update(context=[["t"]]), "context[0]", "expected [title, sentences], found 1 items"),
    (HOTPOTQA, lambda r: r.update(context=[["t", ["s", 1]]]), "context[0][1][1]", "expected a text"),
    (HOTPOTQA, lambda r: r.update(context={"title": ["t"]}), "context.sentences", "missing"),
    (HOTPOTQA, lambda r: r.update(context={"title": ["t"], "sentences": []}), "context", "1 titles, but 0 paragraphs"),
    (HOTPOTQA, lambda r: r.update(question=""), "question", "empty"),
    (TWOWIKI, lambda r: r.update(context=[]), "context", "empty list"),
    (TWOWIKI, lambda r: r.update(answer=7), "answer", "expected a text"),
]


@pytest.mark.parametrize(("row", "edit", "field", "problem"), BAD_ROWS)
def test_a_bad_row_names_its_field_and_problem(
    tmp_path: Path, row: dict[str, Any], edit: Edit, field: str | None, problem: str
) -> None:
    bad = changed(row, edit)
    (found,) = read(tmp_path, bad)
    assert isinstance(found, InvalidRow)
    assert (found.file, found.row, found.field) == (str(tmp_path / "rows.jsonl"), 1, field)
    assert problem in found.problem
    assert found.payload == json.dumps(bad)


@pytest.mark.parametrize(
    ("edit", "field", "problem"),
    [
        (lambda r: r.update(answer=" "), "answer", "empty"),
        (lambda r: r.update(extra=1), "extra", "unknown field of Question"),
        (lambda r: r.update(question=1), "question", "expected str, got int"),
        (lambda r: r["decomposition"][0].update(question="#1?"), "decomposition[0].question", "hop 1 refers to #1"),
        (lambda r: r["decomposition"][0].update(question="#0?"), "decomposition[0].question", "hop 1 refers to #0"),
        (lambda r: r["decomposition"][0].update(answer=""), "decomposition[0].answer", "empty"),
        (lambda r: r["decomposition"][0].update(support_id="q"), "decomposition[0]", "supporting paragraph q is not"),
        (lambda r: r["paragraphs"].append(r["paragraphs"][0]), "paragraphs", "two paragraphs have the id p"),
    ],
)
def test_a_bad_row_of_our_own_form(tmp_path: Path, edit: Edit, field: str, problem: str) -> None:
    (found,) = read(tmp_path, changed(to_dict(OURS), edit))
    assert isinstance(found, InvalidRow)
    assert found.field == field
    assert problem in found.problem


def test_the_second_question_of_an_id_is_invalid(tmp_path: Path) -> None:
    first, second = read(tmp_path, HOTPOTQA, HOTPOTQA)
    assert isinstance(first, Question) and isinstance(second, InvalidRow)
    assert (second.row, second.field, second.problem) == (2, "id", "a question with the id '5a' came before")


def test_the_format_is_that_of_the_first_row_with_known_keys(tmp_path: Path) -> None:
    unknown, number, known, other = read(tmp_path, {"x": 1}, 3, MUSIQUE, HOTPOTQA)
    assert isinstance(unknown, InvalidRow) and unknown.problem.startswith("its fields are those of no known format")
    assert isinstance(number, InvalidRow) and number.problem == "expected an object, found a whole number"
    assert isinstance(known, Question)
    assert isinstance(other, InvalidRow) and other.problem == "missing"


def test_a_format_can_be_given(tmp_path: Path) -> None:
    assert question(tmp_path, {**HOTPOTQA, "evidences": []}, format="hotpotqa").dataset == "hotpotqa"
    with pytest.raises(InvalidInput, match="unknown format 'squad'; known are auto, musique, 2wiki"):
        read(tmp_path, HOTPOTQA, format="squad")


@pytest.mark.parametrize(("name", "rows"), FILES.items())
def test_real_files_hold_no_invalid_row(data_dir: Path, name: str, rows: int) -> None:
    found = list(read_questions(data_dir / name))
    assert [row for row in found if isinstance(row, InvalidRow)] == []
    assert len(found) == rows


def test_rows_of_partial_musique_without_any_paragraph_are_invalid(data_dir: Path) -> None:
    found = list(read_questions(data_dir / "musique" / "musique_partial.jsonl.gz"))
    invalid = [row for row in found if isinstance(row, InvalidRow)]
    assert len(found) == 1161
    assert {(row.field, row.problem) for row in invalid} == {("paragraphs", "empty list")}
    assert all('"paragraphs_kind":"none"' in row.payload for row in invalid)
