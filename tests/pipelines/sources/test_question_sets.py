"""Question sets that are asked over a corpus: FlashRAG's shape, Bamboogle, FRAMES, MoreHopQA."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from trailforge.pipelines.sources import FORMATS, InvalidRow, read_questions
from trailforge.retrieval.indexes.corpus import read_corpus
from trailforge.schemas import Hop, Question, SupportingDocument

Row = dict[str, Any]
PLAIN: Row = {"id": "test_0", "question": " who leads norway ", "golden_answers": ["Ann", "", "Ann B.", "Ann"]}
"""As NQ and TriviaQA have it."""
FACTS = {"title": ["Oslo", "Not there"], "sent_id": [1, 3]}
HOTPOTQA: Row = {
    "type": "bridge",
    "level": "hard",
    "supporting_facts": FACTS,
    "context": {"title": ["Lund", "Oslo"], "sentences": [["Lund is old."], ["Oslo is a city.", " It is in Norway."]]},
}
TWOWIKI: Row = {
    "type": "compositional",
    "supporting_facts": FACTS,
    "context": {"title": ["Lund", "Oslo"], "content": [["Lund is old."], ["Oslo is a city.", " It is in Norway."]]},
}
OSLO = {"idx": 3, "title": "Oslo", "paragraph_text": "Oslo is in Norway.", "is_supporting": True}
MUSIQUE: Row = {
    "answerable": True,
    "question_decomposition": [
        {"id": 11, "question": "Oslo >> country", "answer": "Norway", "support_paragraph": OSLO},
        {"id": 12, "question": "Who leads #1?", "answer": "Ann", "support_paragraph": None},
    ],
}
POPQA: Row = {
    "subj": "Norway",
    "prop": "head of state",
    "obj": "Ann",
    "s_wiki_title": "Norway (country)",
    "o_uri": "http://www.wikidata.org/entity/Q142",
}
BAMBOOGLE: Row = {
    "id": "b1",
    "question": "Who leads the country of Oslo?",
    "answer": "Ann\n",
    "q1": "Which country is Oslo in?",
    "a1": ["norway", "kingdom of norway"],
    "q2": "Who leads Norway?",
    "a2": ["ann b.", "bob"],
}
FRAMES: Row = {
    "id": "frames_1",
    "question": "Who leads the country of Oslo?",
    "answer": "Ann",
    "reasoning_types": "Numerical reasoning | Multiple constraints",
    "wiki_links": ["https://en.wikipedia.org/wiki/Oslo#History", "https://en.wikipedia.org/wiki/Charlotte_Bront%C3%AB"],
}
STEPS: list[Row] = [
    {"sub_id": "1", "question": "Which country is Oslo in?", "answer": "Norway", "paragraph_support_title": "Oslo"},
    {"sub_id": "2", "question": "Who leads Norway?", "answer": "Ann", "paragraph_support_title": "Norway"},
    {
        "sub_id": "3",
        "question": "What is the last letter of Ann, as a number?",
        "answer": "14",
        "paragraph_support_title": "",
        "details": [
            {"sub_id": "3_1", "question": "What is the last letter of Ann?", "answer": "n"},
            {"sub_id": "3_2", "question": "Which letter of the alphabet is n?", "answer": "14"},
        ],
    },
]
MOREHOPQA: Row = {
    "_id": "m1",
    "question": "Which number has the last letter of the leader's name?",
    "answer": "14",
    "no_of_hops": 2,
    "question_decomposition": STEPS,
    "context": [["Norway", ["Ann leads Norway."]], ["Oslo", ["Oslo is in Norway."]]],
}


def read(folder: Path, row: Row, format: str = "auto") -> Question | InvalidRow:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row))
    (only,) = read_questions(path, format=format)
    return only


def question(folder: Path, row: Row, format: str = "auto") -> Question:
    found = read(folder, row, format)
    assert isinstance(found, Question), found
    return found


def with_metadata(metadata: object) -> Row:
    return {**PLAIN, "metadata": metadata}


@pytest.mark.parametrize("row", [PLAIN, with_metadata(None), with_metadata({}), with_metadata({"type": "x"})])
@pytest.mark.parametrize("format", ["auto", "flashrag"])
def test_the_first_golden_answer_is_the_answer(tmp_path: Path, row: Row, format: str) -> None:
    """As rows of NQ and TriviaQA have it."""
    assert question(tmp_path, row, format) == Question(
        id="test_0", question="who leads norway", answer="Ann", answer_aliases=("Ann B.",), dataset="flashrag"
    )


@pytest.mark.parametrize(("metadata", "dataset"), [(HOTPOTQA, "hotpotqa"), (TWOWIKI, "2wikimultihopqa")])
def test_contexts_and_supporting_facts_are_those_of_the_set(tmp_path: Path, metadata: Row, dataset: str) -> None:
    found = question(tmp_path, with_metadata(metadata))
    assert [(each.id, each.title, each.text, each.source) for each in found.paragraphs] == [
        ("0", "Lund", "Lund is old.", dataset),
        ("1", "Oslo", "Oslo is a city. It is in Norway.", dataset),
    ]
    assert found.supporting == (
        SupportingDocument(title="Oslo", id="1", facts=("It is in Norway.",)),
        SupportingDocument(title="Not there"),
    )
    assert (found.num_hops, found.dataset, found.answer_aliases) == (2, dataset, ("Ann B.",))
    assert (found.id, found.question, found.answer, found.decomposition) == ("test_0", "who leads norway", "Ann", ())


@pytest.mark.parametrize("context", [None, {}, {"title": [], "sentences": []}, {"title": [], "content": []}])
def test_contexts_may_be_empty(tmp_path: Path, context: object) -> None:
    for metadata in (HOTPOTQA, TWOWIKI):
        found = question(tmp_path, with_metadata({**metadata, "context": context}))
        assert (found.paragraphs, found.num_hops, found.supporting[0].id) == ((), 2, None)


def test_evidences_of_2wiki_are_its_decomposition(tmp_path: Path) -> None:
    chain = [["Oslo", "country", "Norway"], ["Norway", "head of state", "Ann"]]
    found = question(tmp_path, with_metadata({**TWOWIKI, "evidences": chain}))
    assert [hop.answer for hop in found.decomposition] == ["Norway", "Ann"]


def test_supporting_paragraphs_of_musique_are_annotations(tmp_path: Path) -> None:
    found = question(tmp_path, with_metadata(MUSIQUE))
    assert found.decomposition == (
        Hop(question="Oslo >> country", answer="Norway"),
        Hop(question="Who leads #1?", answer="Ann"),
    )
    assert found.supporting == (SupportingDocument(title="Oslo", facts=("Oslo is in Norway.",)),)
    assert (found.paragraphs, found.hop_count, found.dataset) == ((), 2, "musique")
    assert found.asked().support_texts == ("Oslo is in Norway.",)


def test_a_question_of_popqa_has_one_hop(tmp_path: Path) -> None:
    found = question(tmp_path, with_metadata(POPQA))
    assert found.supporting == (SupportingDocument(title="Norway (country)"),)
    assert (found.num_hops, found.answer_id, found.dataset) == (1, "Q142", "popqa")
    assert question(tmp_path, with_metadata({"subj": "Norway"})).supporting == (SupportingDocument(title="Norway"),)


def test_bamboogle_has_two_steps(tmp_path: Path) -> None:
    assert question(tmp_path, BAMBOOGLE) == Question(
        id="b1",
        question="Who leads the country of Oslo?",
        answer="Ann",
        decomposition=(
            Hop(question="Which country is Oslo in?", answer="norway"),
            Hop(question="Who leads Norway?", answer="Ann"),
        ),
        dataset="bamboogle",
    )


PUBLISHED: Row = {
    "Unnamed: 0": 0,
    "Prompt": FRAMES["question"],
    "Answer": "Ann",
    "reasoning_types": "Tabular reasoning",
    "wiki_links": str(FRAMES["wiki_links"]),
}


@pytest.mark.parametrize(("row", "key"), [(FRAMES, "frames_1"), (PUBLISHED, "0")])
def test_links_of_frames_name_articles(tmp_path: Path, row: Row, key: str) -> None:
    assert question(tmp_path, row) == Question(
        id=key,
        question="Who leads the country of Oslo?",
        answer="Ann",
        dataset="frames",
        num_hops=2,
        supporting=(SupportingDocument(title="Oslo"), SupportingDocument(title="Charlotte Brontë")),
    )


def test_links_of_frames_that_lead_elsewhere_name_nothing_and_some_hold_several(tmp_path: Path) -> None:
    wiki = "https://en.wikipedia.org"
    links = [
        f"{wiki}/w/index.php?title=Special:Search",
        f"{wiki}/wiki/Special:Search",
        "https://w.wiki/ASFv",
        "http://[",
        f"{wiki}/wiki/Paris,_Texas, {wiki}/wiki/Oslo, ",
        f"{wiki}/wiki/Oslo",
    ]
    found = question(tmp_path, {**FRAMES, "wiki_links": links})
    assert [each.title for each in found.supporting] == ["Paris, Texas", "Oslo"] and found.num_hops == 6


def test_reasoning_of_morehopqa_comes_after_what_is_looked_up(tmp_path: Path) -> None:
    found = question(tmp_path, MOREHOPQA)
    assert [(hop.answer, hop.support_id) for hop in found.decomposition] == [
        ("Norway", "1"),
        ("Ann", "0"),
        ("n", None),
        ("14", None),
    ]
    assert found.supporting == (SupportingDocument(title="Oslo", id="1"), SupportingDocument(title="Norway", id="0"))
    assert (found.num_hops, found.dataset, len(found.paragraphs)) == (2, "morehopqa", 2)


def test_steps_with_a_mark_are_no_decomposition(tmp_path: Path) -> None:
    row = copy.deepcopy(MOREHOPQA)
    row["question_decomposition"][0]["question"] = "Who wore #32 in Norway?"
    found = question(tmp_path, row)
    assert (found.decomposition, found.num_hops, len(found.supporting)) == ((), 2, 2)


BAD: list[tuple[Row, str | None, str]] = [
    ({**PLAIN, "golden_answers": []}, "golden_answers", "no golden answer"),
    ({**PLAIN, "golden_answers": [" "]}, "golden_answers", "no golden answer"),
    ({**PLAIN, "golden_answers": "Ann"}, "golden_answers", "expected a list, found a text"),
    ({**PLAIN, "golden_answers": ["Ann", {}]}, "golden_answers[1]", "expected a text, found an object"),
    ({**PLAIN, "id": {}}, "id", "expected a text, found an object"),
    ({**PLAIN, "question": " "}, "question", "empty"),
    (with_metadata([]), "metadata", "expected an object, found a list"),
    (
        with_metadata({**HOTPOTQA, "supporting_facts": {"title": ["Oslo"], "sent_id": []}}),
        "metadata.supporting_facts",
        "1 titles, but 0 sentences",
    ),
    (with_metadata({**HOTPOTQA, "context": "Oslo"}), "metadata.context", "expected a list, found a text"),
    (with_metadata({**TWOWIKI, "evidences": [["Oslo"]]}), "metadata.evidences[0]", "expected [head, relation, tail]"),
    (with_metadata({**MUSIQUE, "answerable": False}), "metadata.answerable", "unanswerable question"),
    (
        with_metadata({"question_decomposition": [{"question": "Who leads #2?", "answer": "Ann"}]}),
        "metadata.question_decomposition[0].question",
        "hop 1 refers to #2",
    ),
    (
        with_metadata(
            {"question_decomposition": [{**MUSIQUE["question_decomposition"][0], "support_paragraph": {"title": ""}}]}
        ),
        "metadata.question_decomposition[0].support_paragraph.title",
        "empty",
    ),
    ({**BAMBOOGLE, "a1": []}, "a1", "no answer of the first step"),
    ({**BAMBOOGLE, "q2": ""}, "q2", "empty"),
    ({**FRAMES, "wiki_links": "[https://en.wikipedia.org]"}, "wiki_links", "expected a list, found a text"),
    ({**FRAMES, "wiki_links": 3}, "wiki_links", "expected a list, found a whole number"),
    ({**FRAMES, "wiki_links": [3]}, "wiki_links[0]", "expected a text, found a whole number"),
    ({**PUBLISHED, "Unnamed: 0": "x"}, "Unnamed: 0", "expected a whole number, found a text"),
    ({**MOREHOPQA, "context": []}, "context", "empty list"),
    (
        {**MOREHOPQA, "question_decomposition": [{**STEPS[0], "paragraph_support_title": "Rome"}]},
        "question_decomposition[0].paragraph_support_title",
        "no paragraph has the title 'Rome'",
    ),
    (
        {**MOREHOPQA, "question_decomposition": [STEPS[2], STEPS[0]]},
        "question_decomposition",
        "a step with a paragraph comes after one without",
    ),
    (
        {**MOREHOPQA, "question_decomposition": [{**STEPS[2], "details": [{"question": "q", "answer": ""}]}]},
        "question_decomposition[0].details[0].answer",
        "empty",
    ),
]


@pytest.mark.parametrize(("row", "field", "problem"), BAD)
def test_a_bad_row_names_its_field(tmp_path: Path, row: Row, field: str | None, problem: str) -> None:
    found = read(tmp_path, row)
    assert isinstance(found, InvalidRow), found
    assert found.field == field and problem in found.problem and found.row == 1


def test_formats_are_told_in_the_order_in_which_they_are_tried() -> None:
    assert FORMATS[0] == "auto" and FORMATS[-1] == "jsonl"
    assert {"flashrag", "bamboogle", "frames", "morehopqa", "fanoutqa", "gaia"} <= set(FORMATS)


@pytest.mark.parametrize(
    ("name", "rows", "annotated"),
    [("bamboogle", 100, 100), ("frames", 658, 658), ("morehopqa_150", 124, 124)],
)
def test_real_files_hold_no_invalid_row(data_dir: Path, name: str, rows: int, annotated: int) -> None:
    found = list(read_questions(data_dir / "qa_small" / f"{name}.jsonl.gz"))
    assert [row for row in found if isinstance(row, InvalidRow)] == [] and len(found) == rows
    questions = [row for row in found if isinstance(row, Question)]
    assert sum((each.hop_count or 0) >= 2 for each in questions) == annotated
    assert {each.dataset for each in questions} == {name.removesuffix("_150")}


# FanOutQA and GAIA, in the shapes that their authors publish, with made-up questions


def _step(question: str, title: str | None, *steps: Row) -> Row:
    evidence = {"pageid": 1, "revid": 2, "title": title, "url": "https://en.wikipedia.org"} if title else None
    return {
        "id": question,
        "question": question,
        "answer": "x",
        "depends_on": [],
        "evidence": evidence,
        "decomposition": [*steps],
    }


def _fanout(answer: Any) -> Row:
    steps = [
        _step("Which?", "Norway"),
        _step("Each?", None, _step("One?", "Oslo"), _step("Two?", "Bergen"), _step("Again?", "Oslo")),
    ]
    return {
        "id": "f1",
        "question": "How many live in each?",
        "answer": answer,
        "decomposition": steps,
        "categories": ["Geography"],
    }


def _read_all(tmp_path: Path, *rows: Row) -> list[Question | InvalidRow]:
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    return list(read_questions(tmp_path / "rows.json", kinds=("text", "set")))


@pytest.mark.parametrize(
    ("answer", "members", "text"),
    [
        ({"Oslo": 709037, "Bergen": 291940}, ("Oslo: 709037", "Bergen: 291940"), "Oslo: 709037; Bergen: 291940"),
        ({"Oslo": ["a", "b"], "Bergen": True}, ("Oslo: a, b", "Bergen: yes"), "Oslo: a, b; Bergen: yes"),
        (["Oslo", "Bergen", "Oslo"], ("Oslo", "Bergen"), "Oslo; Bergen"),
        (["Oslo"], (), "Oslo"),
        (7, (), "7"),
        (False, (), "no"),
    ],
)
def test_answers_of_fanoutqa_are_sets_where_they_have_several_parts(
    tmp_path: Path, answer: Any, members: tuple[str, ...], text: str
) -> None:
    (found,) = _read_all(tmp_path, _fanout(answer))
    assert isinstance(found, Question) and (found.dataset, found.answer_set, found.answer) == (
        "fanoutqa",
        members,
        text,
    )
    assert [each.title for each in found.supporting_documents] == ["Norway", "Oslo", "Bergen"] and found.num_hops == 3


def test_a_row_of_fanoutqa_without_an_answer_is_invalid(tmp_path: Path) -> None:
    (found,) = _read_all(tmp_path, _fanout([]))
    assert isinstance(found, InvalidRow) and found.field == "answer"


def test_of_gaia_the_questions_without_a_file_are_read(tmp_path: Path) -> None:
    gaia: Row = {"task_id": "g1", "Question": "Who?", "Level": 1, "Final answer": "Ada", "file_name": ""}
    rows = [gaia, gaia | {"task_id": "g2", "file_name": "g2.xlsx"}, gaia | {"task_id": "g3", "Final answer": "?"}]
    text, filed, hidden = _read_all(tmp_path, *rows)
    assert text == Question(id="g1", question="Who?", answer="Ada", dataset="gaia")
    assert isinstance(filed, InvalidRow) and filed.field == "file_name"
    assert isinstance(hidden, InvalidRow) and hidden.field == "Final answer"


# PhantomWiki, in the form of the data folder, with a made-up world


_PHANTOM: Row = {
    "id": "p1",
    "question": "Who is the niece of the person whose hobby is chess?",
    "answers": ["Ada Roth", "Bo Roth"],
    "type": 0,
    "hops": 4,
    "aggregation": False,
    "supporting_titles": ["Ada Roth", "Bo Roth", "Cy Roth"],
    "query": ["niece(Y_4, Y_2)", 'hobby(Y_4, "chess")'],
    "answer_variable": "Y_2",
}


def test_answers_of_phantomwiki_are_sets_where_there_are_several(tmp_path: Path) -> None:
    """One is an answer in words, and so is a number, whatever its type."""
    one = _PHANTOM | {"id": "p2", "answers": ["Ada Roth"]}
    number = _PHANTOM | {"id": "p3", "answers": [3], "aggregation": True, "hops": 1}
    several, single, count = (row for row in _read_all(tmp_path, _PHANTOM, one, number) if isinstance(row, Question))
    assert (several.kind, several.answer_set, several.answer) == ("set", ("Ada Roth", "Bo Roth"), "Ada Roth; Bo Roth")
    assert (single.kind, single.answer, count.kind, count.answer) == ("text", "Ada Roth", "text", "3")
    assert [each.title for each in several.supporting_documents] == ["Ada Roth", "Bo Roth", "Cy Roth"]
    assert (several.dataset, several.hop_count, count.hop_count) == ("phantomwiki", 4, 1)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"answers": []}, "answers"),
        ({"answers": ["Ada Roth", " "]}, "answers"),
        ({"question": ""}, "question"),
        ({"hops": "many"}, "hops"),
    ],
)
def test_a_row_of_phantomwiki_that_cannot_be_asked_is_invalid(tmp_path: Path, change: Row, field: str) -> None:
    """With the field that says so."""
    (found,) = _read_all(tmp_path, _PHANTOM | change)
    assert isinstance(found, InvalidRow) and found.field == field


def test_the_real_world_of_phantomwiki_is_read_whole(data_dir: Path) -> None:
    """Its 200 questions, 91 of which have one answer; every article that one rests on is in the corpus."""
    world = data_dir / "qa_phantomwiki"
    found = list(read_questions(world / "questions.jsonl.gz", kinds=("text", "set")))
    questions = [row for row in found if isinstance(row, Question)]
    assert len(found) == len(questions) == 200 and {each.dataset for each in questions} == {"phantomwiki"}
    hops = [each.hop_count or 0 for each in questions]
    assert (min(hops), max(hops)) == (1, 9) and sum(each.kind == "text" for each in questions) == 91
    titles = {document.title for document in read_corpus(world / "corpus.jsonl.gz")}
    needed = {support.title for each in questions for support in each.supporting_documents}
    assert len(titles) == 302 and needed <= titles
