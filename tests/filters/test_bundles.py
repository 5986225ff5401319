"""Each reason rejects what it is there for, says what it measured, and keeps a sound question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.bundle_questions import BUNDLE, DOCUMENTS, PAPER, STREET, choice, question
from tests.support.growth import is_linear
from trailforge.filters.bundle_twins import duplicate_question, sibling_answer, used_fact
from trailforge.filters.bundles import (
    bad_options,
    benchmarks_of,
    calculated,
    contaminated,
    gold_in_queries,
    invalid_plan,
    judge_unread,
    named_by_score,
    quotes_one_source,
    stale_document,
    too_few_documents,
    unrelated_hops,
    unsupported_quote,
)
from trailforge.retrieval.words import ngrams_of
from trailforge.schemas import BundleHop, BundleQuestion, PlanEdge, Verdict


def quoting(*quotes: tuple[str, str]):
    return question(hops=tuple(BundleHop(document_id=d, evidence=e, reasoning="") for d, e in quotes))


@pytest.mark.parametrize(
    ("query", "score", "known"),
    [
        ("BadVideo attack on video", 0.0, []),
        ("BadVideo stealthy backdoor attack", 0.5, ["backdoor", "stealthy"]),
        ("temporal dimension of BadVideo attacks", 0.5, ["dimension", "temporal"]),
        ("what hides BadVideo from moderators", 0.0, []),
        ("what the government says of BadVideo", 0.0, []),
    ],
)
def test_queries_use_the_words_of_the_question(query: str, score: float, known: list[str]) -> None:
    """Not those of titles and key facts; a part of a name that the question holds is the question's."""
    row = replace(
        question(),
        question="How does the attack BadVideo keep from being detected?",
        type="causal",
        answer="By time",
        key_facts=("temporal dimension",),
    )
    verdict = gold_in_queries(
        row, ["BadVideo", query], ["BadVideo: Stealthy Backdoor Attack, Government Says"], most=0.2
    )
    assert (verdict.keep, verdict.score) == (score == 0, score)
    assert verdict.detail == (f"{query!r} knows {', '.join(known)}" if known else "")


def test_a_sound_question_passes_all_that_can_be_seen() -> None:
    verdicts = judge_unread(question(), BUNDLE, DOCUMENTS, since="2025-04-01")
    assert [v.reason for v in verdicts if not v.keep] == []
    assert len({v.reason for v in verdicts}) == len(verdicts) == 12 and all(not v.detail for v in verdicts)


@pytest.mark.parametrize(
    ("document", "quote", "score"),
    [
        ("news:1", "the turbine that Mara Lund designed", 0.5),
        ("arxiv:2", "the turbine that Mara Lind designed", 0.5),
        ("nowhere:1", "the turbine that Mara Lind designed", 0.5),
        ("news:1", "Mara Lind", 0.5),
        ("news:1", "", 0.5),
        ("news:1", "Orkney tide  mill.\n\nIts jury praised", 1.0),
        ("news:1", "A prize for tides", 1.0),
        ("news:1", "The turbine that “Mara Lind” designed", 1.0),
        ("news:1", "that Mara Lind's designed", 0.5),
    ],
)
def test_a_quote_stands_in_its_document_up_to_case_and_punctuation(document: str, quote: str, score: float) -> None:
    verdict = unsupported_quote(quoting((document, quote), ("arxiv:2", "We measure their yield")), DOCUMENTS)
    assert verdict.score == score and verdict.keep is (score == 1)


def test_a_question_without_evidence_is_unsupported() -> None:
    assert not unsupported_quote(question(hops=()), DOCUMENTS).keep


def test_hops_join_two_documents_of_the_bundle() -> None:
    once = quoting(("news:1", "a"), ("news:1", "b"))
    assert too_few_documents(once, BUNDLE).detail == "all evidence is in one document"
    strange = quoting(("news:1", "a"), ("arxiv:2", "b"), ("else:3", "c"))
    assert too_few_documents(strange, BUNDLE).detail == "else:3 is not in the bundle"
    assert not too_few_documents(question(hops=()), BUNDLE).keep


def test_hops_join_two_sources() -> None:
    of_one = DOCUMENTS | {"arxiv:2": replace(PAPER, source="news", kind="news")}
    verdict = quotes_one_source(question(), of_one)
    assert (verdict.keep, verdict.score, verdict.detail) == (False, 1.0, "all evidence is of news")
    assert quotes_one_source(question(), DOCUMENTS).score == 2.0
    papers = {id: replace(document, source="arxiv", kind="academic") for id, document in DOCUMENTS.items()}
    assert quotes_one_source(question(), papers).score == 2.0  # a paper is a source by itself
    assert quotes_one_source(quoting(("news:1", "a"), ("news:1", "b")), DOCUMENTS).keep


def apart(first: str, second: str, **changes: Any) -> Verdict:
    """Of a question over two documents with these texts, without an edge between its searches."""
    documents = {"news:1": replace(STREET, text=first), "arxiv:2": replace(PAPER, text=second)}
    return unrelated_hops(question(**{"dag_edges": (), **changes}), documents)


def test_hops_are_joined_by_a_name_that_their_documents_share() -> None:
    assert unrelated_hops(question(dag_edges=()), DOCUMENTS).keep, "Mara Lind"
    assert apart("It was built for the Orkney mill.", "We visit the Orkney mill.").keep
    assert apart("It crosses the Øresund Bridge.", "We visit the Øresund link.").keep
    assert not apart("It crosses the Øresund Bridge.", "We visit Bridge and Ores.").keep
    verdict = apart("It was built in May by CDC’s staff.", "We look at May and at June. They sank.")
    assert (verdict.keep, verdict.score, verdict.detail) == (False, 2.0, "nothing joins arxiv:2 to news:1")


def test_an_edge_joins_hops_when_the_later_document_speaks_of_what_the_earlier_quote_says() -> None:
    edge = {"dag_edges": question().dag_edges}
    assert apart("It has a turbine.", "We measure a turbine in slow water.", **edge).keep
    assert not apart("It has a turbine.", "We measure stars.", **edge).keep
    assert not apart("It has a turbine.", "We measure a turbine in slow water.").keep


def test_hops_of_one_document_are_joined_and_a_third_one_joins_two() -> None:
    once = quoting(("news:1", "a"), ("news:1", "b"))
    assert unrelated_hops(once, {"news:1": replace(STREET, text="")}).keep
    three = quoting(("news:1", "a"), ("arxiv:2", "b"), ("else:3", "c"))
    bridge = replace(STREET, id="else:3", text="Near Oslo they met Ida Holm.")
    documents = {"news:1": replace(STREET, text="From Oslo."), "arxiv:2": replace(PAPER, text="For Ida Holm.")}
    assert unrelated_hops(replace(three, dag_edges=()), documents | {"else:3": bridge}).keep
    assert unrelated_hops(replace(three, dag_edges=()), documents | {"else:3": replace(bridge, text="")}).score == 3


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (choice("A", "B", "C"), None),
        (choice("A", "C", "D", "E", "F"), None),
        (choice("B", options=4, kind="single_choice"), None),
        (choice("B", "C", options=4, kind="single_choice"), "2 correct options"),
        (choice("B", options=6, kind="single_choice"), "6 options"),
        (choice("A", "B"), None),
        (choice("A"), "1 of 6 options"),
        (choice("A", "B", "C", "D", "E", options=5), "5 of 5 options"),
        (choice("A", "B", "C", options=8), "8 options"),
        (choice("A", "B", "G"), "A, B, G of A to F"),
        (choice("A", "B", "B"), "A, B, B of A to F"),
        (replace(choice("A", "B", "C"), options=("x", "The X!", "y", "z", "w")), "two options say the same"),
        (replace(choice("A", "B", "C"), options=("x rather than y", "z", "v", "u", "w")), "is two options"),
        (question(answer=" the "), "no answer"),
        (question(answer="a word " * 9), "18 words are no factual answer"),
        (question(answer="a word " * 9, type="causal"), None),
        (question(options=("a", "b")), "has no options"),
    ],
)
def test_options_and_answers_have_the_form_of_their_type(row, problem: str | None) -> None:
    verdict = bad_options(row)
    assert verdict.keep is (problem is None) and verdict.score == float(problem is None)
    assert (problem or "") in verdict.detail


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"dag_edges": (PlanEdge(src="A", dst="B"), PlanEdge(src="B", dst="A"))}, "cycle"),
        ({"dag_edges": (PlanEdge(src="A", dst="C"),)}, "C"),
        ({"dag_nodes": question().dag_nodes[:1], "dag_edges": ()}, "1 searches for 2 hops"),
        ({"dag_nodes": tuple(replace(node, tool="Oracle") for node in question().dag_nodes)}, "Oracle"),
    ],
)
def test_a_plan_that_cannot_be_run_or_leaves_a_hop_out_is_rejected(changes: dict[str, Any], detail: str) -> None:
    verdict = invalid_plan(question(**changes))
    assert not verdict.keep and verdict.score >= 1 and detail in verdict.detail


@pytest.mark.parametrize(("since", "score"), [("2025-04-20", 0.0), ("2025-04-01", 19.0), ("2025-05-01", -11.0)])
def test_the_oldest_document_decides_whether_a_question_is_fresh(since: str, score: float) -> None:
    verdict = stale_document(question(), DOCUMENTS, since=since)
    assert (verdict.score, verdict.keep) == (score, score >= 0)


def test_a_document_without_a_date_is_too_old_when_dates_count() -> None:
    undated = DOCUMENTS | {"arxiv:2": replace(PAPER, published=None)}
    assert stale_document(question(), undated, since="2025-04-01").detail == "arxiv:2 has no date"
    assert stale_document(question(), undated, since=None).keep


def test_a_question_is_a_duplicate_by_words_or_by_meaning() -> None:
    first, vectors = question(uid="1"), np.array([[1.0, 0.0]])
    same = duplicate_question(question(uid="2"), np.array([0.0, 1.0]), [first], vectors, most_alike=0.9)
    near = from_elsewhere(uid="3", question="Where did the turbine's designer study?")
    alike = duplicate_question(near, np.array([0.95, 0.312]), [first], vectors, most_alike=0.9)
    other = duplicate_question(near, np.array([0.6, 0.8]), [first], vectors, most_alike=0.9)
    alone = duplicate_question(near, np.array([1.0, 0.0]), [], np.zeros((0, 2)), most_alike=0.9)
    assert [(v.keep, v.score) for v in (same, alike, other, alone)] == [
        (False, 1.0), (False, 0.95), (True, 0.6), (True, 0.0)
    ]  # fmt: skip
    assert alike.detail.startswith("as 1: ")


def test_questions_over_one_bridge_are_twins_though_their_roles_are_exchanged() -> None:
    """Both go over GSM8K; what is asked for at its ends, and how alike they are, does not matter."""
    swirl = "SWiRL outperforms baselines by 21.5% on GSM8K and 12.3% on HotPotQA"
    synthetic = "Adding 100 demonstrations improves GSM8K only by 0.4 pp"

    def asks(uid: str, text: str, answer: str, *quotes: str, **changes: Any) -> BundleQuestion:
        names = {swirl: "a:1", synthetic: "b:2"}
        hops = tuple(BundleHop(document_id=names.get(quote, "b:2"), evidence=quote, reasoning="") for quote in quotes)
        return question(uid=uid, question=text, answer=answer, hops=hops, **changes)

    first = asks("1", "By how much did SWiRL win where 100 demonstrations helped little?", "21.5%", synthetic, swirl)
    mirrored = asks("2", "How little did demonstrations help where SWiRL won by 21.5%?", "0.4 pp", swirl, synthetic)
    others = [
        asks("3", "On GSM8K, how little did demonstrations help?", "0.4 pp", swirl, synthetic),
        replace(mirrored, bundle_id="another"),
        replace(mirrored, dag_edges=()),
        asks("4", "Where is it?", "7", swirl, "HotPotQA had gains of 7 points"),
    ]
    apart = np.array([1.0, 0.0]), np.array([[0.0, 1.0]])
    found = duplicate_question(mirrored, apart[0], [first], apart[1], most_alike=0.92)
    assert not found.keep and found.detail.startswith("as 1: ")
    for other in others:
        assert duplicate_question(other, apart[0], [first], apart[1], most_alike=0.92).keep


def from_elsewhere(**changes: Any) -> BundleQuestion:
    """Its last hop quotes another document than that of the sound question."""
    return question(
        hops=(*question().hops[:1], BundleHop(document_id="else:3", evidence="x y z", reasoning="")), **changes
    )


@pytest.mark.parametrize(
    ("changes", "twin"),
    [
        ({"answer": "in 1998"}, None),
        ({"answer": "Bergen's university"}, None),
        ({"answer": "the University of Bergen, Norway"}, "1"),
        ({"answer": "of Bergen"}, "1"),
        ({"type": "causal", "answer": "a university in Bergen"}, None),
    ],
)
def test_a_twin_by_its_vector_has_the_same_answer(changes: dict[str, Any], twin: str | None) -> None:
    first, farther = question(uid="1"), question(uid="2", answer="in 1999")
    vectors, vector = np.array([[0.95, 0.312], [1.0, 0.0]]), np.array([1.0, 0.0])
    row = from_elsewhere(uid="3", question="Other words?", **changes)
    verdict = duplicate_question(row, vector, [first, farther], vectors, most_alike=0.9)
    assert verdict.keep is (twin is None) and verdict.detail.startswith(f"as {twin}: " if twin else "")
    assert verdict.score == (0.95 if twin else 1.0)


def test_explanations_that_agree_are_one_answer() -> None:
    first = question(uid="1", type="causal", answer="because the blades turn in slow water")
    for answer, keep in [("the blades turn even in slow water", False), ("because of the wind", True)]:
        row = from_elsewhere(uid="2", question="Why?", type="causal", answer=answer)
        vector = np.array([1.0, 0.0])
        assert duplicate_question(row, vector, [first], np.array([vector]), most_alike=0.9).keep is keep


def test_a_twin_ends_on_the_same_evidence_with_the_same_answer() -> None:
    first, far = question(uid="1"), np.array([0.0, 1.0])
    hops = (replace(first.hops[0], evidence="The Ludlow prize went to the Orkney tide mill"), first.hops[1])
    described = question(uid="2", question="Where did the designer honoured in Ludlow study?", hops=hops)
    verdicts = [
        duplicate_question(row, far, [first], np.array([[0.6, 0.8]]), most_alike=0.9)
        for row in (described, replace(described, answer="blades"), replace(described, hops=hops[::-1]))
    ]
    assert [verdict.keep for verdict in verdicts] == [False, True, True]
    assert verdicts[0].score == 0.8 and verdicts[0].detail.startswith("as 1: ")


def test_a_question_of_a_benchmark_is_known_by_words_or_by_meaning() -> None:
    asked = [("frames", "What is the name of the river that flows through the town of Ludlow?"), ("hotpotqa", "Who?")]
    benchmarks = benchmarks_of(asked, np.array([[1.0, 0.0], [0.0, 1.0]]), n=8)
    words = question(question="Tell me: what is THE name of the river, that flows there?")
    shared = contaminated(words.question, np.array([0.0, 0.0]), benchmarks, most_alike=0.9)
    assert not shared.keep and shared.score == 1.0 and shared.detail.startswith("frames asks")
    meaning = contaminated(question().question, np.array([0.1, 0.99]), benchmarks, most_alike=0.9)
    assert not meaning.keep and meaning.detail.startswith("hotpotqa asks")
    assert contaminated(question().question, np.array([0.7, 0.7]), benchmarks, most_alike=0.9).keep
    assert contaminated(
        question().question, np.array([1.0, 0.0]), benchmarks_of([], np.zeros((0, 2)), 8), most_alike=0.9
    ).keep


def test_a_text_shorter_than_an_ngram_is_one() -> None:
    assert ngrams_of("Who was it?", 8) == {"who was it"}
    assert ngrams_of("a b c d", 3) == {"a b c", "b c d"}
    assert ngrams_of(" … ", 3) == set()


def quoted(uid: str, *evidence: str, **changes: Any) -> BundleQuestion:
    """Hops of these quotes, in turn of both documents."""
    return replace(quoting(*zip(("news:1", "arxiv:2") * 2, evidence, strict=False)), uid=uid, **changes)


TEXTS = {
    "news:1": "The model was trained on 17K samples and reaches 37.1% on the test. It is named Ida.",
    "arxiv:2": "Atlas uses only 0.02% of the data (3K vs. 13M) against others.",
}


def test_of_two_questions_on_the_same_words_the_second_is_rejected() -> None:
    first = quoted("first", "The model was trained on 17K samples", "only 0.02% of the data (3K vs. 13M)")
    same = quoted("second", "trained on 17K samples", "It is named Ida")
    verdict = used_fact(same, [first])
    assert (verdict.keep, verdict.score, verdict.detail) == (False, 1.0, "first rests on the same words")
    longer = quoted("third", "It is named Ida", "uses only 0.02% of the data (3K vs. 13M) against others")
    assert not used_fact(longer, [first]).keep
    crossing = quoted("fourth", "the model was trained on 17k samples and reaches 37.1%", "It is named Ida")
    assert not used_fact(crossing, [first]).keep, "they share a run of six words"
    assert used_fact(same, []).keep


@pytest.mark.parametrize(
    ("answer", "question", "keep"),
    [
        ("Ida", "What was Ida trained on?", False),
        ("Ida", "What was the other model trained on?", True),
        ("37", "Which of the 37 models is largest?", True),  # a figure that may be another one
        ("37 samples", "Which model was trained on 37 samples?", False),
    ],
)
def test_questions_of_a_bundle_do_not_say_each_other_s_answers(answer: str, question: str, keep: bool) -> None:
    asked = replace(quoted("first", "It is named Ida", "against others"), question="What is its name?", answer=answer)
    telling = replace(quoted("second", "on the test", "of the data"), question=question, answer="something else")
    assert sibling_answer(telling, [asked]).keep is sibling_answer(asked, [telling]).keep is keep
    assert sibling_answer(telling, []).keep
    chosen = replace(asked, type="single_choice")
    assert sibling_answer(telling, [chosen]).keep, "options offer their answers to everybody"


def test_other_words_of_a_sentence_are_another_fact() -> None:
    first = quoted("first", "was trained on 17K samples", "only 0.02% of the data (3K vs. 13M)")
    rest = quoted("second", "and reaches 37.1% on the test", "against others")
    assert used_fact(rest, [first]).keep
    elsewhere = quoted("third", "only 0.02% of the data (3K vs. 13M)", "was trained on 17K samples")
    assert used_fact(elsewhere, [first]).keep, "the same words, but of other documents"


@pytest.mark.parametrize(
    ("answer", "unsaid"),
    [
        ("14K", 1.0),
        ("17K", 0.0),
        ("17,000 samples", 0.0),
        ("13 million", 0.0),
        ("37.1 percent", 0.0),
        ("Ida", 0.0),
        ("from 3K to 20K", 1.0),
        ("May 17, 2025", 0.0),
        ("May 2025", 1.0),
    ],
)
def test_a_number_that_no_quote_says_is_calculated(answer: str, unsaid: float) -> None:
    row = quoted("q", "trained on 17K samples and reaches 37.1%", "(3K vs. 13M)", answer=answer)
    verdict = calculated(row)
    assert (verdict.keep, verdict.score) == (not unsaid, unsaid)
    assert calculated(replace(row, type="causal")).keep


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which district had more uninsured people, the 8th or the 10th?", "the 10th"),
        ("Which laptop came with more storage, the one with a touch bar or the one without?", "the one without"),
    ],
)
def test_a_number_that_the_question_says_is_not_calculated(question: str, answer: str) -> None:
    row = quoted("q", "24,000 uninsured people live there", "23,000 uninsured people live here", answer=answer)
    assert calculated(replace(row, question=question)).keep
    assert not calculated(replace(row, question="Which had more uninsured people?")).keep


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("How many samples had the model with 37.1% on the test?", "37.1%"),
        ("Which has more than 37.1 percent?", "37.1 percent"),
        ("What explains the loss of 40%?", ""),
        ("How many samples were there in May 2025?", ""),
    ],
)
def test_a_thing_is_called_by_its_name_and_not_by_its_score(text: str, score: str) -> None:
    row = quoted("q", "trained on 17K samples", question=text, dag_edges=())
    documents = {"news:1": replace(STREET, text=TEXTS["news:1"]), "arxiv:2": replace(PAPER, text=TEXTS["arxiv:2"])}
    verdict = named_by_score(row, documents)
    assert (verdict.keep, verdict.detail) == (not score, f"it calls something by {score!r}" if score else "")
    assert named_by_score(replace(row, dag_edges=(PlanEdge(src="A", dst="B"),)), documents).keep


@pytest.mark.parametrize("piece", ["1", "1.", "1,", "a", "1 "])
def test_the_time_to_find_shares_in_a_document_grows_as_its_text(piece: str) -> None:
    def read(text: str) -> None:
        named_by_score(row, {"doc": replace(PAPER, text=text)})

    row = replace(quoting(("doc", "x")), question="What is the model with 37.1%?", dag_edges=())
    assert is_linear(lambda size: piece * (size // len(piece)), read, 16_000)
