"""Each data set's shape: golden rows, every way a row can be bad, and the real files."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trailforge.pipelines.sources import InvalidRow, read_questions
from trailforge.schemas import Document, Hop, InvalidInput, Question, SupportingDocument, compared_names, to_dict

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


SUPPORTING = (
    SupportingDocument(title="Oslo", id="0", facts=("Oslo is a city.",)),
    SupportingDocument(title="Not there"),
)


@pytest.mark.parametrize(
    "facts", [[["Oslo", 0], ["Not there", 3]], {"title": ["Oslo", "Not there"], "sent_id": [0, 3]}]
)
def test_supporting_facts_say_what_the_answer_rests_on(tmp_path: Path, facts: object) -> None:
    """Each of their documents is a hop; of two paragraphs of one title the first is meant."""
    read = question(tmp_path, {**HOTPOTQA, "supporting_facts": facts})
    assert (read.supporting, read.num_hops, read.decomposition) == (SUPPORTING, 2, ())
    asked = read.asked()
    assert (asked.num_hops, asked.support_titles) == (2, ("Oslo", "Not there"))
    assert asked.support_texts == ("Oslo is a city. It is in Norway.", "")


def test_facts_are_kept_once_and_those_without_a_sentence_left_out(tmp_path: Path) -> None:
    facts = [["Oslo", 1], ["Oslo", 1], ["Oslo", 9], ["Oslo", -1], ["Oslo", 0]]
    (only,) = question(tmp_path, {**HOTPOTQA, "supporting_facts": facts}).supporting
    assert only.facts == ("It is in Norway.", "Oslo is a city.")


def test_without_supporting_facts_nothing_is_known_of_them(tmp_path: Path) -> None:
    read = question(tmp_path, {**HOTPOTQA, "supporting_facts": None})
    assert (read.supporting, read.num_hops, read.hop_count, read.asked().num_hops) == ((), None, None, None)


def test_a_decomposition_says_what_the_answer_rests_on_where_nothing_else_does(tmp_path: Path) -> None:
    read = question(tmp_path, MUSIQUE)
    assert (read.supporting, read.num_hops, read.hop_count) == ((), None, 2)
    assert [(each.title, each.id) for each in read.supporting_documents] == [("Oslo", "0"), ("Norway", "7")]
    assert read.asked().support_texts == ("Oslo is in Norway.", "Ann leads Norway.")


AGES = [["Ann", "date of birth", "1 May 1900"], ["Bob", "date of birth", "2 June 1910"]]
DIRECTORS = [["X (film)", "director", "Ann"], ["Y", "director", "Bob"]]
COMPARED = [["Ann", 0], ["Bob", 0]]
BRIDGED = [["X (film)", 0], ["Y", 0], ["Ann", 0], ["Bob", 0]]


def compared(folder: Path, asked: str, answer: str, evidences: object, facts: object = COMPARED) -> Question:
    row = {"id": "1", "question": asked, "answer": answer, "evidences": evidences, "supporting_facts": facts}
    return question(folder, {**row, "context": [[title, [f"{title}."]] for title in ("Bob", "Ann", "Y", "X (film)")]})


def test_2wiki_comparisons_have_two_branches_and_end_with_the_comparison(tmp_path: Path) -> None:
    read = compared(tmp_path, "Who is older, Ann or Bob?", "Ann", AGES)
    assert read.decomposition == (
        Hop(question="When was Ann born?", answer="1 May 1900", support_id="1"),
        Hop(question="When was Bob born?", answer="2 June 1910", support_id="0"),
        Hop(question="Who is older, Ann or Bob? (Ann: #1; Bob: #2)", answer="Ann"),
    )
    assert (read.num_hops, read.hop_count, [each.title for each in read.supporting]) == (2, 2, ["Ann", "Bob"])
    assert compared_names(read.question, read.decomposition[-1].question) == ("Ann", "Bob")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_2wiki_bridge_comparisons_have_two_hops_a_branch(tmp_path: Path, order: tuple[int, int]) -> None:
    asked = "Which film has the older director, X (Film) or Y?"
    read = compared(tmp_path, asked, "X (Film)", [*DIRECTORS, *(AGES[n] for n in order)], BRIDGED)
    first, second = (f"When was #{n + 1} born?" for n in order)
    places = {n: place for place, n in enumerate(order, start=3)}
    assert [hop.question for hop in read.decomposition] == [
        "Who is the director of X (film)?",
        "Who is the director of Y?",
        first,
        second,
        f"{asked} (X (film): #1, #{places[0]}; Y: #2, #{places[1]})",
    ]
    assert read.num_hops == 4
    assert compared_names(asked, read.decomposition[-1].question) == ("X (film)", "Y")


def test_2wiki_a_name_may_differ_between_the_triples_of_a_branch(tmp_path: Path) -> None:
    other = [["Anna B.", "date of birth", "1 May 1900"], ["Bob (director)", "date of birth", "2 June 1910"]]
    read = compared(tmp_path, "Which is older?", "no", [*DIRECTORS, *other], BRIDGED)
    assert [hop.question for hop in read.decomposition][2:4] == ["When was #1 born?", "When was #2 born?"]


@pytest.mark.parametrize(
    ("asked", "answer", "evidences", "hops"),
    [
        ("Who?", "1 May 1900", AGES, 2),  # no name, no yes: a chain that is broken
        ("Who?", "Ann", [AGES[0], ["Bob", "date of death", "1990"]], 2),  # what is compared is not the same
        ("Who?", "Ann", [AGES[0], ["Ann", "date of birth", "1901"], AGES[1]], 2),  # two values of one thing
        (
            "Who?",
            "Ann",
            [["Ann", "birth", "1"], ["Ann", "death", "2"], ["Bob", "birth", "3"], ["Bob", "death", "4"]],
            2,
        ),
        ("Who?", "Y", [*DIRECTORS, ["C", "date of birth", "1"], ["D", "date of birth", "2"]], 4),
        ("Is #1 older?", "yes", AGES, 2),  # a mark that would be read as an answer
    ],
)
def test_2wiki_comparisons_of_another_build_have_hops_but_no_decomposition(
    tmp_path: Path, asked: str, answer: str, evidences: list[list[str]], hops: int
) -> None:
    read = compared(tmp_path, asked, answer, evidences, facts=None)
    assert (read.decomposition, read.num_hops) == ((), hops)


def test_a_hop_that_compares_nothing_has_no_names() -> None:
    assert compared_names("Who?", "When was Ann born?") == compared_names("Who?", "Who? (Ann)") == ()


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
    annotated = replace(OURS, num_hops=3, supporting=(SupportingDocument(title="Oslo", id="p", facts=("It is.",)),))
    assert question(tmp_path, to_dict(annotated)) == annotated
    short = to_dict(OURS) | {"supporting": [{"id": "p"}, {"title": " Elsewhere "}]}
    named = (SupportingDocument(title="Oslo", id="p"), SupportingDocument(title="Elsewhere"))
    assert question(tmp_path, short) == replace(OURS, supporting=named)
    assert question(tmp_path, {"id": " 1", "question": "q ", "answer": " a"}) == Question(
        id="1", question="q", answer="a"
    )


BAD_ROWS: list[tuple[dict[str, Any], Edit, str | None, str]] = [
    (MUSIQUE, lambda r: r.update(answerable=False), "answerable", "unanswerable question (MuSiQue-Full row)"),
    (MUSIQUE, lambda r: r.update(answerable="no"), "answerable", "expected true or false, found a text"),
    (MUSIQUE, lambda r: r.pop("id"), "id", "missing"),
    (MUSIQUE, lambda r: r.update(id=[]), "id", "expected a text, found a list"),
    (MUSIQUE, lambda r: r.update(question="  "), "question", "empty"),
    (MUSIQUE, lambda r: r.pop("answer"), "answer", "missing"),
    (MUSIQUE, lambda r: r.update(answer=None), "answer", "expected a text, found null"),
    (MUSIQUE, lambda r: r.update(answer_aliases=["x", []]), "answer_aliases[1]", "expected a text, found a list"),
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
    (HOTPOTQA, lambda r: r.update(supporting_facts="x"), "supporting_facts", "expected a list, found a text"),
    (HOTPOTQA, lambda r: r.update(supporting_facts=[["t", "0"]]), "supporting_facts[0][1]", "expected a whole number"),
    (
        HOTPOTQA,
        lambda r: r.update(supporting_facts={"title": ["t"], "sent_id": []}),
        "supporting_facts",
        "1 titles, but 0 sentences",
    ),
    (HOTPOTQA, lambda r: r.update(context=[]), "context", "empty list"),
    (HOTPOTQA, lambda r: r.update(context="x"), "context", "expected a list, found a text"),
    (HOTPOTQA, lambda r: r.update(context=[["t"]]), "context[0]", "expected [title, sentences], found 1 items"),
    (HOTPOTQA, lambda r: r.update(context=[["t", ["s", 1]]]), "context[0][1][1]", "expected a text"),
    (HOTPOTQA, lambda r: r.update(context={"title": ["t"]}), "context.sentences", "missing"),
    (HOTPOTQA, lambda r: r.update(context={"title": ["t"], "sentences": []}), "context", "1 titles, but 0 paragraphs"),
    (HOTPOTQA, lambda r: r.update(question=""), "question", "empty"),
    (TWOWIKI, lambda r: r.update(context=[]), "context", "empty list"),
    (TWOWIKI, lambda r: r.update(answer=[]), "answer", "expected a text"),
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
        (lambda r: r.update(question=[]), "question", "a list: give one"),
        (lambda r: r.update(question={}), "question", "expected a text, found an object; needed: question, answer"),
        (lambda r: r.update(answer=["Ann", "Bo"]), "answer", "a list: give one answer in `answer`, and further"),
        (lambda r: r.update(answer='["Ann", "Bo"]'), "answer", "a list: give one answer in `answer`, and further"),
        (lambda r: r.update(answers=[r.pop("answer")]), "answers", "a list: give one answer in `answer`, and further"),
        (lambda r: r["decomposition"][0].update(question="#1?"), "decomposition[0].question", "hop 1 refers to #1"),
        (lambda r: r["decomposition"][0].update(question="#0?"), "decomposition[0].question", "hop 1 refers to #0"),
        (lambda r: r["decomposition"][0].update(support_id="q"), "decomposition[0]", "supporting paragraph q is not"),
        (lambda r: r["paragraphs"].append(r["paragraphs"][0]), "paragraphs", "two paragraphs have the id p"),
        (lambda r: r.update(num_hops=0), "num_hops", "expected at least 1, found 0"),
        (lambda r: r.update(supporting=[{"title": "x", "id": "q"}]), "supporting[0].id", "paragraph q is not among"),
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
    assert (second.row, second.field) == (2, "id")
    assert second.problem == "a question with the id '5a' came before; give each its own"


def test_the_format_is_that_of_the_first_row_with_known_keys(tmp_path: Path) -> None:
    unknown, number, known, other = read(tmp_path, {"x": 1}, 3, MUSIQUE, HOTPOTQA)
    assert isinstance(unknown, InvalidRow) and unknown.problem.startswith("its fields are those of no known format")
    assert isinstance(number, InvalidRow) and number.problem == "expected an object, found a whole number"
    assert isinstance(known, Question)
    assert isinstance(other, InvalidRow) and other.problem == "missing"


def test_a_format_can_be_given(tmp_path: Path) -> None:
    assert question(tmp_path, {**HOTPOTQA, "evidences": []}, format="hotpotqa").dataset == "hotpotqa"
    with pytest.raises(InvalidInput, match=r"unknown format 'squad'; known are auto, .*musique, 2wiki"):
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
    assert {(row.field, row.problem) for row in invalid} == {
        ("paragraphs", "empty list; expected the paragraphs of the question")
    }
    assert all('"paragraphs_kind":"none"' in row.payload for row in invalid)
