"""Names by rule: what is a name in running text and in headlines, and what joins texts."""

from __future__ import annotations

import pytest

from trailforge.retrieval.entities import (
    CaseCounts,
    Name,
    document_frequencies,
    merge_short_names,
    names_of,
    rarity,
)

TEXTS = [
    "The white paper is on reading. Learning is slow. We use fine-tuning (SFT) and magnetic resonance imaging.",
    "A model is learning from large language models. The federal bureau has a new court case in the united north.",
    "They say that apple trees are old, and the bank of the river is deep. However, nothing is learned.",
]
COUNTS = CaseCounts.of(TEXTS)


def keys(text: str, title: str = "") -> list[str]:
    return [name.key for name in names_of(title, text, COUNTS)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("On Monday the trial of Sam Bankman-Fried began in New York.", ["sam bankman-fried", "new york"]),
        ("It is Google's and Meta’s.", ["google", "meta"]),
        ("Learning is what Reading asks in March.", []),
        ("Madrid won. Learning helps.", ["madrid"]),
        ("The Bank of America and the White House met.", ["bank of america", "white house"]),
        ("We train Qwen2.5-7B on GSM8K with a GPU-based trick and 7B tokens.", ["qwen2.5-7b", "gsm8k", "gpu"]),
        ("Large Language Models (LLMs) use Magnetic Resonance Imaging.", ["llm"]),
        ("With SFT it is better than DeepSeek-R1.", ["deepseek-r1"]),
        ("He met George W. Bush there.", ["george w bush"]),
        ("Self-supervised and non-English texts.", ["english"]),
    ],
)
def test_names_are_told_from_words_with_capitals(text: str, found: list[str]) -> None:
    assert keys(text) == found


def test_an_acronym_in_the_plural_that_nobody_explains_is_a_kind_of_thing() -> None:
    """GPUs are no entity, though the word has no small letters; what texts explain is a term with a name."""
    texts = [
        "It runs on many GPUs.",
        "It needs a GPU, of all GPUs.",
        "We train deep ViTs and BERTs.",
        "On GSM8K it is best.",
    ]
    texts += ["We use Large Vision-Language Models (LVLMs).", "All LVLMs are slow.", "It was Nasa.", "So NASA said."]
    found = CaseCounts.of(texts)
    is_ordinary = {key: found.is_ordinary(key) for key in ("gpu", "gsm8k", "lvlm", "nasa")}
    assert is_ordinary == {"gpu": True, "gsm8k": False, "lvlm": False, "nasa": False}


def test_a_headline_in_title_case_names_only_what_is_no_ordinary_word() -> None:
    assert keys("Slow.", title="Learning From Apple Trees: Nvidia Reads a New Paper in Case of the Bank") == ["nvidia"]


def test_a_name_counts_how_often_it_stands_and_whether_the_title_has_it() -> None:
    first, second = names_of("Nvidia grows", "In June Nvidia bought Arm. So Nvidia grew.", COUNTS)
    assert first == Name("nvidia", "Nvidia", 3, True)
    assert (second.key, second.count, second.is_in_title) == ("arm", 1, False)


def test_a_last_name_is_made_the_full_name_where_texts_often_say_it() -> None:
    def names(*found: str) -> list[Name]:
        return [Name(key, key.title(), 1, False) for key in found]

    merged = merge_short_names(
        [names("taylor swift", "swift"), names("swift"), names("va covid-19"), *[names("covid-19")] * 3]
    )
    assert [[name.key for name in each] for each in merged] == [
        ["taylor swift"], ["taylor swift"], ["va covid-19"], ["covid-19"], ["covid-19"], ["covid-19"],
    ]  # fmt: skip
    assert merged[0][0].count == 2


def test_a_name_of_few_documents_says_more() -> None:
    documents = [[Name("ftx", "FTX", 1, True)], [Name("ftx", "FTX", 1, True), Name("arm", "Arm", 1, True)]]
    found = document_frequencies(documents)
    assert found == {"ftx": 2, "arm": 1}
    assert rarity("arm", found, 2) > rarity("ftx", found, 2) == 0
