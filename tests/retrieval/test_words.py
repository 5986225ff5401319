"""Words of any script. Instances were reported elsewhere or follow from Unicode's standards; sources are named."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.words import ngrams_of, words_of
from trailforge.schemas import Document

_LISTS = sorted((Path(__file__).parent / "scripts").glob("*.tsv"))
_LEAST = 18
_ASCII = st.text(st.characters(max_codepoint=127))


@given(_ASCII)
def test_ascii_gives_the_words_it_gave_before(text: str) -> None:
    assert words_of(text) == re.findall(r"\w+", text.casefold())


@given(st.text())
def test_words_are_the_same_for_every_normal_form_and_case(text: str) -> None:
    words = words_of(text)
    assert words == words_of(unicodedata.normalize("NFC", text)) == words_of(unicodedata.normalize("NFD", text))


@given(st.text(st.characters(categories=("L", "M", "N", "Zs", "Po", "Cf"))))
def test_words_of_words_are_themselves(text: str) -> None:
    words = words_of(text)
    assert words_of(" ".join(words)) == words
    assert all(words) and not any(" " in word for word in words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # xhluca/bm25s#94, Lucene's CJKBigramFilter: Chinese as pairs, a single character alone as itself
        ("黄山在哪", ["黄山", "山在", "在哪"]),
        ("茶", ["茶"]),
        ("iPhone手机2008年", ["iphone", "手机", "2008", "年"]),
        ("𠮷野家", ["𠮷野", "野家"]),
        # Lucene's CJKWidthFilter: half-width kana with its mark, full-width letters and digits
        ("ｶﾞｷﾞｸﾞ", ["ガギ", "ギグ"]),
        ("ＡＢＣ１２", ["abc12"]),
        ("コーヒー", ["コー", "ーヒ", "ヒー"]),
        # Characters with their marks (UAX 29, grapheme clusters)
        ("น้ำใจ", ["น้ํา", "าใ", "ใจ"]),
        ("မြန်မာ", ["မြန်", "န်မာ"]),
        ("한국의 산", ["한국", "국의", "산"]),
        ("བོད་སྐད", ["བོད", "སྐད"]),
        # Hindi's marks are no ends of words (elastic/elasticsearch-docs, ICU tokenizer; Lucene's StandardTokenizer)
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("२०२० ๒๕๖๓ ٣", ["2020", "2563", "3"]),
        # duydo/elasticsearch-analysis-vietnamese#34 and projectEndings/staticSearch#164: decomposed letters
        (unicodedata.normalize("NFD", "Tiếng Việt"), ["tiếng", "việt"]),
        # Lucene's TurkishLowerCaseFilter: I, İ, i, ı
        ("İSTANBUL istanbul ISPARTA ısparta", ["istanbul", "istanbul", "isparta", "isparta"]),
        ("i\u0307stanbul", ["istanbul"]),
        # Unicode's NFKC_Casefold: soft hyphens, joiners, variants, ligatures, presentation forms, radicals
        ("co\u00adop ﬁne ⼈民 Straße", ["coop", "fine", "人民", "strasse"]),
        ("می\u200cروم", ["میروم"]),
        ("ﻣﺤﻤﺪ مُحَمَّد محـمد", ["محمد", "محمد", "محمد"]),
        ("葛\U000e0100城 e\u034f\u0301t", ["葛城", "ét"]),
        ("ภาษา\u200bไทย", ["ภา", "าษ", "ษา", "ไท", "ทย"]),
        # Signs and small figures stay out of words
        ("Kodak™ ½ m² Ⅲ", ["kodak", "½", "m²", "iii"]),
        ("❤️ … —", []),
    ],
)
def test_scripts_have_words(text: str, words: list[str]) -> None:
    assert words_of(text) == [unicodedata.normalize("NFC", word) for word in words]


def test_runs_of_words_are_of_pairs_too() -> None:
    assert ngrams_of("黄山市在", 2) == {"黄山 山市", "山市 市在"}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("path", _LISTS, ids=[path.stem for path in _LISTS])
async def test_bm25_finds_the_passage_that_answers(path: Path, form: Literal["NFC", "NFD"]) -> None:
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    texts = [unicodedata.normalize(form, passage) for passage, _ in rows]
    retriever = Bm25Retriever([Document(id=str(row), title="", text=text) for row, text in enumerate(texts)])
    first = [await retriever.retrieve(query, 1) for _, query in rows]
    assert len(rows) == 20
    assert sum([found.id for found in each] == [str(row)] for row, each in enumerate(first)) >= _LEAST
