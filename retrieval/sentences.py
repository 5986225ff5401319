"""Cut texts into sentences and passages, and find the sentences nearest to a question, as context for a small model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.words import words_of
from trailforge.schemas import Passage

_BREAK = re.compile(
    r"(?<=[.!?…。！？｡।॥؟۔။។])[\"'\u201d\u2019)\]」』）]*\s+(?=[\"'\u201c\u2018(\[「『（]*[^\W_a-z])"
    r"|\n\s*\n\s*|(?<=[。！？｡])(?=[^\W_])"
)
"""White space after a closing mark, before a capital or a figure; an empty line; or in Chinese and Japanese, which put
no space there, a closing mark before a letter (behind a closing quote a sentence may go on)."""
_NO_END = re.compile(
    r"(?:^|[(\[\"'\u201c\u2018-])(?:"
    r"Mr|Mrs|Ms|Dr|Prof|Rev|Hon|Gen|Col|Maj|Capt|Cmdr|Lt|Sgt|Adm|Gov|Sen|Rep|Pres|St|Ste|Mt|Ft|Sr|Jr|Bros"
    r"|Inc|Ltd|Co|Corp|Dept|Univ|Jan|Feb|Aug|Sept|Oct|Nov|Dec|vs|etc|approx|ca|cf|al|ed|eds|fl|est|vol|pp"
    r"|[^\W\d_]|(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,3}"
    r")\.$"
)
"""A last word that ends no sentence: an abbreviation, an initial, letters with stops between them ("U.S.", "Ph.D.")."""
_NUMBERED = re.compile(r"(?:^|[(\[])(?:No|Nos|Art|Fig|Op)\.$")
"""Abbreviations only when a figure follows: "No. 5", but "He said no. Then"."""
_LONGEST_ABBREVIATION = 256
"""Characters: what is longer is no abbreviation."""
LONGEST_PASSAGE = 250
"""Largest number of words of a passage: most abstracts are shorter (of 1,831 of arXiv, 96 in 100), most news articles
longer."""
_CACHED_PASSAGES = 4096


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences by rule, trimmed; only white space is lost.

    In doubt two sentences stay one: no sentence ends after an abbreviation or an initial, though it might ("He left the
    U.S. She stayed.").
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the positions, in characters, where each sentence of `split_sentences` begins and ends."""
    spans: list[tuple[int, int]] = []
    start = 0
    for gap in _BREAK.finditer(text):
        # Before a break that may be none, only the last word counts: a text of initials alone is read in linear time.
        before = text[max(start, gap.start() - _LONGEST_ABBREVIATION) : gap.start()]
        if gap[0].count("\n") > 1 or not _goes_on(before, text[gap.end()]):
            spans.append((start, gap.end()))
            start = gap.end()
    trimmed = (_trimmed(text, *span) for span in (*spans, (start, len(text))))
    return [(first, last) for first, last in trimmed if first < last]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Without the white space around it."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def split_passages(text: str, longest: int = LONGEST_PASSAGE) -> list[str]:
    """Return the text whole when it has at most this number of words; else windows of whole sentences of at most that
    length.

    The last sentence of a window begins the next one where it fits, so that neighbours stand together somewhere. A
    sentence that is too long by itself is cut between words.
    """
    if len(text.split()) <= longest:
        return [text]
    windows: list[str] = []
    window: list[str] = []
    for sentence in (part for whole in split_sentences(text) for part in _cut_sentence(whole, longest)):
        if _count_words(*window, sentence) > longest:
            windows.append(" ".join(window))
            window = window[-1:] if _count_words(window[-1], sentence) <= longest else []
        window.append(sentence)
    return [*windows, " ".join(window)]


def first_sentences(text: str, longest: int) -> str:
    """Return the text whole when it has at most this number of words; else as many of its first sentences as fit, and
    `…`.

    A first sentence that is too long by itself is cut between words. `…` counts as no word; for 0 words the result is
    empty.
    """
    words = text.split()
    if len(words) <= longest or longest < 1:
        return text if longest > 0 else ""
    kept, room = [], longest
    for sentence in split_sentences(text):
        room -= len(sentence.split())
        if room < 0:
            break
        kept.append(sentence)
    return f"{' '.join(kept or words[:longest])} …"


def _goes_on(piece: str, following: str) -> bool:
    """Whether the full stop at the end of a piece belongs to its last word."""
    last_word = piece.rsplit(maxsplit=1)[-1]
    return bool(_NO_END.search(last_word) or (following.isdigit() and _NUMBERED.search(last_word)))


def _cut_sentence(sentence: str, longest: int) -> list[str]:
    words = sentence.split()
    if len(words) <= longest:
        return [sentence]
    return [" ".join(words[start : start + longest]) for start in range(0, len(words), longest)]


def _count_words(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)


class SentenceReader:
    """Ranks sentences by cosine, or by shared words when there is no encoder. A sentence is read together with its
    title."""

    def __init__(self, encoder: Encoder | None) -> None:
        self._encoder = encoder
        # A passage's sentences are encoded as one batch, always the same one (see `Encoder`), and kept.
        self._encoded = lru_cache(_CACHED_PASSAGES)(lambda encoder, sentences: encoder.encode_documents(sentences))

    async def best(self, query: str, passages: Sequence[Passage], n: int) -> list[tuple[Passage, str]]:
        """Return the `n` nearest sentences with their passages, nearest first; ties in reading order."""
        sentences = [(passage, sentence) for passage in passages for sentence in split_sentences(passage.text)]
        scores = await self._scores(query, passages)
        nearest = sorted(range(len(sentences)), key=lambda i: -scores[i])
        return [sentences[i] for i in nearest[:n]]

    async def _scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """A score for every sentence of every passage, in reading order."""
        read = [tuple(f"{p.title}. {sentence}" for sentence in split_sentences(p.text)) for p in passages]
        if self._encoder is None:
            return [_overlap(query, sentence) for sentences in read for sentence in sentences]
        return await self._encoder.in_thread(self._cosines, self._encoder, query, [r for r in read if r])

    def _cosines(self, encoder: Encoder, query: str, read: Sequence[tuple[str, ...]]) -> list[float]:
        wanted = encoder.encode_query(query)
        return [round(float(v @ wanted), 6) for sentences in read for v in self._encoded(encoder, sentences)]


def _overlap(query: str, text: str) -> float:
    """Share of the query's words that the text has."""
    asked = set(words_of(query))
    return len(asked & set(words_of(text))) / (len(asked) or 1)
