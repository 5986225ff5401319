"""Sentence splitting and the sentence reader."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.support import DOCUMENTS, run
from trailforge.retrieval import SentenceReader, split_sentences
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.sentences import split_passages
from trailforge.schemas import Passage

PIECES = st.sampled_from(
    ["Mr.", "U.S.", "A", "b", "3.5", ".", "!", "?", '"', ")", "(", " ", "\n", "\n\n", "no.", "é", "…"]
)
TEXTS = st.lists(PIECES, max_size=20).map("".join) | st.text(max_size=40)
PASSAGES = [Passage(id=d.id, title=d.title, text=d.text, score=1 - n / 10) for n, d in enumerate(DOCUMENTS)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        (
            "Mr. Lang met Dr. J. R. Smith Jr. in St. Louis. He left.",
            ["Mr. Lang met Dr. J. R. Smith Jr. in St. Louis.", "He left."],
        ),
        ("The U.S. Army paid 3.5 million. 1927 was late.", ["The U.S. Army paid 3.5 million.", "1927 was late."]),
        ("Opus No. 5 was first. He said no. Then he left.", ["Opus No. 5 was first.", "He said no.", "Then he left."]),
        ("Born c. 1890 in Vienna, e.g. Margareten.", ["Born c. 1890 in Vienna, e.g. Margareten."]),
        ('He said "Go." Then (as told.) They left.', ['He said "Go."', "Then (as told.)", "They left."]),
        ("A heading\n\nA text\nof two lines.", ["A heading", "A text\nof two lines."]),
        ("It ended … Later it began.", ["It ended …", "Later it began."]),
        ("no capital. after this stop", ["no capital. after this stop"]),
        (" \n\n ", []),
        ("", []),
    ],
)
def test_split_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@given(TEXTS)
def test_splitting_loses_white_space_only(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


def test_by_shared_words_ties_keep_reading_order() -> None:
    reader = SentenceReader(None)
    best = run(reader.best("capital of Austria", PASSAGES, 2))
    assert best == [
        (PASSAGES[2], "Vienna is the capital of Austria."),
        (PASSAGES[3], "Vienna is the capital of Austria."),
    ]
    assert len(run(reader.best("", PASSAGES, 99))) == 7


@pytest.mark.real_model
def test_by_cosine(encoder: Encoder) -> None:
    best = run(SentenceReader(encoder).best("Where was Fritz Lang born?", PASSAGES, 2))
    assert best[0] == (PASSAGES[1], "Fritz Lang was born in Vienna.")


@pytest.mark.real_model
def test_the_ranking_does_not_depend_on_what_else_was_asked(encoder: Encoder) -> None:
    queries = ["Where was Fritz Lang born?", "Who directed Metropolis?", "capital"]
    alone = [run(SentenceReader(encoder).best(query, PASSAGES, 7)) for query in queries]
    shared = SentenceReader(encoder)

    async def together() -> list[list[tuple[Passage, str]]]:
        await shared.best("something else", PASSAGES[::-1], 7)
        return await asyncio.gather(*(shared.best(query, PASSAGES, 7) for query in queries))

    assert run(together()) == alone


@pytest.mark.real_model
def test_no_passages(encoder: Encoder) -> None:
    assert run(SentenceReader(encoder).best("query", [], 3)) == []
    assert run(SentenceReader(encoder).best("query", [Passage(id="0", title="t", text="", score=0.0)], 3)) == []


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("黄山很高。他去了北京！你呢？好。", ["黄山很高。", "他去了北京！", "你呢？", "好。"]),
        ("「何？」と言った。彼は去った。", ["「何？」と言った。", "彼は去った。"]),
        ("他说：“好。”然后走了。", ["他说：“好。”然后走了。"]),
        ("यह भारत है। वह देश बड़ा है॥ अंत", ["यह भारत है।", "वह देश बड़ा है॥", "अंत"]),
        ("أين هو؟ هنا۔ نعم", ["أين هو؟", "هنا۔", "نعم"]),
    ],
)
def test_other_scripts_have_ends_of_their_own(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


SENTENCE = st.sampled_from(["One two.", "Three four five six.", "Seven.", "Eight " * 9 + "nine."])


@given(st.lists(SENTENCE, min_size=1), st.integers(1, 12))
def test_passages_are_short_and_hold_every_sentence_that_is(sentences: list[str], longest: int) -> None:
    passages = split_passages(" ".join(sentences), longest)
    assert all(0 < len(passage.split()) <= longest for passage in passages)
    for sentence in sentences:
        if len(sentence.split()) <= longest:
            assert any(sentence in passage for passage in passages)
    for first, second in itertools.pairwise(sentences):
        if len(f"{first} {second}".split()) <= longest:
            assert any(f"{first} {second}" in passage for passage in passages)


def test_a_short_text_stays_as_it_is() -> None:
    assert split_passages("One  two.\n\nThree.", 3) == ["One  two.\n\nThree."]
    assert split_passages("a b c d e", 2) == ["a b", "c d", "e"]
