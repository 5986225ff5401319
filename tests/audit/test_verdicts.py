"""The one reason of a question, by what its documents say, and where they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trailforge.audit.documents import Shelf, WantedDocument, wanted_documents
from trailforge.audit.verdicts import MEANINGS, AuditVerdict, Evidence, judge_question, settle_documents
from trailforge.pipelines.sources.audited import SETS_ASIDE, AuditedSearch
from trailforge.schemas import Document, Hop, Question, SupportingDocument
from trailforge.schemas.question import write_options

METROPOLIS = Document(id="0", title="Metropolis", text="Metropolis is a film of 1927. Fritz Lang directed Metropolis.")
LANG = Document(id="1", title="Fritz Lang", text="Fritz Lang was born in Vienna in 1890. He had two sisters.")
OTHER = Document(id="2", title="Vienna", text="Vienna is the capital of Austria. Fritz Lang lived there.")
HOPS = (
    Hop(question="Who directed Metropolis?", answer="Fritz Lang", support_id="0"),
    Hop(question="Where was #1 born?", answer="Vienna", support_id="1"),
)
BORN = Question(
    id="q", question="Where was the director of Metropolis born?", answer="Vienna", decomposition=HOPS,
    paragraphs=(METROPOLIS, LANG, OTHER),
)  # fmt: skip
BOTH = (SupportingDocument(title="Metropolis", id="0"), SupportingDocument(title="Fritz Lang", id="1"))


def changed(of: Question = BORN, /, **changes: Any) -> Question:
    return replace(of, **changes)


def judged(question: Question, *corpus: Document, searches: tuple[AuditedSearch, ...] = ()) -> AuditVerdict:
    """Over own paragraphs; over a corpus where one is given."""
    wanted = wanted_documents(question)
    shelf = Shelf.over(corpus, wanted) if corpus else Shelf.of_paragraphs(question, wanted)
    documents = settle_documents(question, [shelf.find(each, ids_are_its_own=not corpus) for each in wanted])
    own = {id for each in documents for id in each.audited.passages}
    others = tuple(each for each in corpus or question.paragraphs if each.id not in own)
    return judge_question(Evidence(question=question, documents=documents, others=others, searches=searches))


def test_every_reason_has_its_meaning_and_a_side() -> None:
    assert set(MEANINGS) > SETS_ASIDE
    assert set(MEANINGS) - SETS_ASIDE == {"stated", "derived", "known_from_memory"}


def test_what_the_documents_state_is_quoted() -> None:
    verdict = judged(BORN)
    assert (verdict.reason, verdict.kind) == ("stated", "fact")
    assert verdict.quotes == ("Fritz Lang directed Metropolis.", "Fritz Lang was born in Vienna in 1890.")


def test_a_hop_without_its_document_is_a_document_that_is_missing() -> None:
    bare = (Hop(question=HOPS[0].question, answer="Fritz Lang"), HOPS[1])
    verdict = judged(changed(decomposition=bare))
    assert (verdict.reason, verdict.detail) == ("document_missing", "no document for hop 1")


def test_an_answer_that_nothing_states_comes_first() -> None:
    bare = (HOPS[0], Hop(question=HOPS[1].question, answer="Vienna"))
    verdict = judged(changed(decomposition=bare, paragraphs=(METROPOLIS,)))
    assert verdict.reason == "answer_not_stated" and "no document for hop 2" in verdict.detail


def test_an_earlier_hop_that_its_document_does_not_state() -> None:
    silent = Document(id="0", title="Metropolis", text="Metropolis is a film of 1927.")
    verdict = judged(changed(paragraphs=(silent, LANG)))
    assert verdict.reason == "hop_not_stated" and "Who directed Metropolis? (Fritz Lang)" in verdict.detail


def test_an_earlier_hop_may_be_said_in_another_form() -> None:
    hops = (Hop(question="Whose threat was it?", answer="Western Europe", support_id="0"), HOPS[1])
    adjective = Document(id="0", title="Threats", text="It feared an invasion by Western European powers.")
    assert judged(changed(decomposition=hops, paragraphs=(adjective, LANG))).reason == "stated"
    other = Document(id="0", title="Threats", text="It feared an invasion by Western powers.")
    assert judged(changed(decomposition=hops, paragraphs=(other, LANG))).reason == "hop_not_stated"


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        ("Was Metropolis released before 1930?", "yes", "yes_no"),
        ("Which is older, Metropolis or Fritz Lang?", "Fritz Lang", "comparison"),
        ("How many people does the film Metropolis name?", "3", "count"),
    ],
)
def test_what_no_text_has_to_say_is_derived_where_the_documents_are_there(
    question: str, answer: str, kind: str
) -> None:
    asked = changed(question=question, answer=answer, decomposition=(), supporting=BOTH)
    verdict = judged(asked)
    assert (verdict.reason, verdict.kind) == ("derived", kind) and verdict.detail
    gone = judged(changed(asked, paragraphs=(METROPOLIS,), supporting=(BOTH[0], SupportingDocument(title="X"))))
    assert gone.reason == "document_missing" and "'X'" in gone.detail


def test_a_number_that_a_text_states_of_what_is_counted_is_stated() -> None:
    supporting = (SupportingDocument(title="Fritz Lang", id="1"),)
    asked = changed(
        question="How many sisters did Fritz Lang have?", answer="2", decomposition=(), supporting=supporting
    )
    assert (judged(asked).reason, judged(asked).quotes) == ("stated", ("He had two sisters.",))


def test_a_number_that_a_document_of_its_own_does_not_state_is_not_derived() -> None:
    hops = (HOPS[0], Hop(question="How many films did #1 make?", answer="41", support_id="1"))
    verdict = judged(changed(question="How many films did the director of Metropolis make?", answer="41",
                             decomposition=hops))  # fmt: skip
    assert (verdict.reason, verdict.kind) == ("answer_not_stated", "count")


def test_each_member_of_a_set_has_to_be_stated() -> None:
    supporting = (SupportingDocument(title="Metropolis", id="0"), SupportingDocument(title="Vienna", id="2"))
    asked = changed(question="Who and where?", answer="1927, Austria", decomposition=(), supporting=supporting)
    verdict = judged(asked)
    assert (verdict.reason, verdict.kind, len(verdict.quotes)) == ("stated", "set", 2)
    assert judged(changed(asked, answer="1927, Norway")).reason == "answer_not_stated"


def test_a_corpus_has_a_document_by_its_own_words_or_by_its_title_where_these_are_not_known() -> None:
    facts = SupportingDocument(title="Metropolis", facts=("Fritz Lang directed Metropolis.",))
    titled = SupportingDocument(title="Fritz Lang")
    asked = changed(decomposition=tuple(Hop(question=h.question, answer=h.answer) for h in HOPS), paragraphs=(),
                    supporting=(facts, titled))  # fmt: skip
    corpus = [Document(id=f"c{n}", title=each.title, text=each.text) for n, each in enumerate((METROPOLIS, LANG))]
    verdict = judged(asked, *corpus)
    assert verdict.reason == "stated"
    assert [each.audited.passages for each in verdict.documents] == [("c0",), ("c1",)]
    assert [each.audited.by_words for each in verdict.documents] == [1.0, None]
    strange = Document(id="c0", title="Metropolis", text="Metropolis is a city in Illinois.")
    other = judged(asked, strange, corpus[1])
    assert other.reason == "document_missing" and "'Metropolis'" in other.detail
    assert judged(asked, corpus[0]).reason in {"answer_not_stated", "document_missing"}


def test_another_version_of_a_document_stands_for_it_where_it_states_the_answer() -> None:
    facts = SupportingDocument(title="Metropolis", facts=("It was directed by the Austrian Fritz Lang in Berlin.",))
    asked = changed(question="Who directed Metropolis?", answer="Fritz Lang", decomposition=(), paragraphs=(),
                    supporting=(facts,))  # fmt: skip
    verdict = judged(asked, Document(id="c0", title="METROPOLIS", text=METROPOLIS.text))
    assert verdict.reason == "stated" and verdict.documents[0].audited.by_words == 0.0


def test_an_id_alone_is_no_document_of_another_corpus() -> None:
    wanted = WantedDocument(document=SupportingDocument(title="Fritz Lang", id="0"), text="")
    found = Shelf.over([METROPOLIS], [wanted]).find(wanted, ids_are_its_own=False)
    assert not found.audited.is_there


def test_what_no_search_finds_cannot_be_answered() -> None:
    def searched(*ranks: int | None) -> tuple[AuditedSearch, ...]:
        return (AuditedSearch(by="question", query="?", ranks=ranks),)

    verdict = judged(BORN, searches=searched(1, None))
    assert verdict.reason == "not_found" and "'Fritz Lang'" in verdict.detail
    assert judged(BORN, searches=searched(1, 20)).reason == "stated"


def test_without_any_annotation_a_text_has_to_speak_of_what_is_asked() -> None:
    bare = changed(question="Where was Fritz Lang born?", decomposition=())
    assert judged(bare).reason == "stated"
    elsewhere = Document(id="1", title="Opera", text="Vienna has an opera.")
    assert judged(changed(bare, paragraphs=(elsewhere,))).reason == "answer_not_stated"


def test_own_paragraphs_have_a_document_by_its_title_where_a_question_gives_no_ids() -> None:
    facts = SupportingDocument(title="Metropolis", facts=("The film that Fritz Lang directed is of 1927.",))
    asked = changed(decomposition=(), supporting=(SupportingDocument(title="fritz lang"), facts))
    verdict = judged(asked)
    first, second = (each.audited for each in verdict.documents)
    assert (first.is_there, first.by_title, first.by_id, first.by_words) == (True, True, False, None)
    assert first.passages == ("1",) and (second.by_title, second.by_words) == (True, 0.0)
    assert verdict.reason == "document_missing" and "'Metropolis'" in verdict.detail
    assert judged(changed(asked, supporting=(SupportingDocument(title="fritz lang"),))).reason == "stated"
    gone = judged(changed(asked, supporting=(SupportingDocument(title="Berlin"),)))
    assert "not there: 'Berlin'" in gone.detail and not gone.documents[0].audited.by_title


def test_what_is_said_of_a_document_among_own_paragraphs_is_looked_at() -> None:
    """Not taken from its id."""
    named = SupportingDocument(title="Lang (director)", id="1", facts=("He was born in Vienna.", "He died in 1976."))
    verdict = judged(changed(decomposition=(), supporting=(named,)))
    audited = verdict.documents[0].audited
    assert (audited.is_there, audited.by_id, audited.by_title) == (True, True, False)
    assert judged(BORN).documents[0].audited.by_title and judged(BORN).documents[0].audited.by_words == 1.0


def test_of_a_question_with_options_the_correct_ones_are_stated_or_follow() -> None:
    def chosen(*letters: str, options: tuple[str, ...], **changes: Any) -> AuditVerdict:
        text = write_options("Where was the director of Metropolis born?", options)
        choice = {"options": options, "correct_options": letters, "answer": ", ".join(letters)}
        return judged(changed(**({"question": text, "decomposition": (), "supporting": BOTH} | choice | changes)))

    stated = chosen("B", options=("Berlin", "Vienna", "Graz"))
    assert (stated.reason, stated.kind, stated.quotes) == (
        "stated",
        "comparison",
        ("Fritz Lang was born in Vienna in 1890.",),
    )
    two = chosen("A", "C", options=("1890", "Graz", "1927"))
    assert two.reason == "stated" and len(two.quotes) == 2
    other = chosen("A", options=("In a capital on the Danube", "By the sea"))
    assert (other.reason, other.kind) == ("derived", "comparison") and "option" in other.detail
    gone = chosen(
        "B", options=("Berlin", "Vienna"), paragraphs=(METROPOLIS,), supporting=(SupportingDocument(title="X"),)
    )
    assert gone.reason == "document_missing"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Metropolis is a film of Fritz Horman, made in Berlin.", "stated"),
        ("Metropolis is a film of Thea von Harbou.", "hop_not_stated"),
        ("It was made under Fritz Hormann.", "stated"),
        ("It was made under Fritz Horman.", "hop_not_stated"),
    ],
)
def test_without_annotated_documents_any_text_but_the_next_hop_s_may_say_what_a_hop_finds(
    text: str, reason: str
) -> None:
    """In another form, if it speaks of what is asked; a question without names has nothing to be known by."""
    hops = (Hop(question="Who directed Metropolis?", answer="Fritz Hormann"), replace(HOPS[1], support_id=None))
    film = Document(id="0", title="Metropolis" if "Metropolis" in text else "UFA", text=text)
    person = Document(id="1", title="Fritz Hormann", text="Fritz Hormann was born in Vienna in 1890.")
    assert judged(changed(decomposition=hops, paragraphs=(film, person))).reason == reason


def test_a_day_that_is_another_one_is_no_missing_date() -> None:
    """Of the same year: what is compared is stated, whoever erred."""
    hops = (
        Hop(question="When was Fritz Lang born?", answer="5 December 1890", support_id="1"),
        Hop(question="When was Metropolis released?", answer="10 January 1927", support_id="0"),
        Hop(question="Who is older?", answer="Fritz Lang"),
    )
    film = replace(METROPOLIS, text="Metropolis was released on 12 January 1927.")
    asked = changed(question="Which came first, Fritz Lang or Metropolis?", answer="Fritz Lang", decomposition=hops,
                    num_hops=2, paragraphs=(film, LANG))  # fmt: skip
    assert judged(asked).reason == "derived"
    late = replace(film, text="Metropolis was released on 12 January 1928.")
    assert judged(changed(asked, paragraphs=(late, LANG))).reason == "hop_not_stated"
