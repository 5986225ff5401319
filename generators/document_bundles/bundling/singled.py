"""Find where a question over two documents can start: one of several similar things in a document that only the other
document singles out.

A reader who has only the document with the answer guesses the fact that fits best. The guess is uncertain only where
the document mentions several things of the kind, each with a fact of its own; then only what the other document says of
one of them settles which is meant (`Singled`). Everything is decided by rule, from words alone: names by their
capitals, their kinds by the words beside them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from trailforge.generators.document_bundles.bundling.figures import Figure, figures_of
from trailforge.generators.document_bundles.bundling.names import joining_names
from trailforge.retrieval import COMMON_WORDS, CaseCounts, names_of, split_sentences, words_of
from trailforge.retrieval.entities import merge_short_names
from trailforge.rewards import spell_in_figures
from trailforge.rewards.reading import fold

if TYPE_CHECKING:
    from trailforge.generators.document_bundles.bundling.measures import AllDocuments

_TITLE = (
    r"(?:mr|mrs|ms|miss|dr|sen|rep|reps|gov|lt|sgt|capt|col|gen|prof|det|sir|lady|judge|justice|senators?|governor|mayor|"
    r"representatives?|congress(?:man|woman)|secretary|president|chief|officer|captain|sergeant|coach|professor|"
    r"detective|attorney|minister|chair(?:man|woman|person)?|leader|spokes(?:man|woman|person)|director|actor|actress|"
    r"prosecutor|sheriff|deputy|commissioner|superintendent|son|daughter|wife|husband|brother|sister|mother|father)\.?"
)
_PERSON_BEFORE = re.compile(rf"\b(?:{_TITLE}|said|says|added|according to|told) $")
_PERSON_AFTER = re.compile(
    r"(?:'s [a-z]+)?,? (?:said|says|told|added|wrote|stated|testified|was born|died|graduated|who)\b|, \d\d[,.)]|, a "
    r"\d\d-year-old| \(\d\d\)| \([dr]-[a-z]"
)
_SAYS = r"said|says|added|adds|wrote|stated|explained|noted|continued"
_SPEAKS = re.compile(rf"(?:,[^.,]{{,60}},)? (?:{_SAYS}|told)\b")
_SPOKEN = re.compile(rf"\b(?:{_SAYS}|according to)(?: [a-z.]+){{,4}} $")
_PLACE_BEFORE = re.compile(r"\b(?:in|near|outside|at|toward|off|across|north|south|east|west) (?:of )?(?:the )?$")
_WORK_AFTER = re.compile(r"(?: et al\.?| and [a-z-]+| & [a-z-]+)?,? ?\(?(?:19|20)\d\d")
_ENDINGS = {
    "organisations": (
        "inc corp corporation company co university college department agency committee association institute council "
        "court hospital bank party center centre foundation administration commission bureau office police service "
        "services group union society board authority school alliance coalition ministry team club records motors"
    ),
    "acts": "act bill resolution amendment program programme fund grant grants initiative plan project award prize",
    "places": (
        "county city street avenue road river lake island islands province district park beach valley bay town village "
        "mount mountain peninsula airport bridge harbor port district region state hill hills creek forest"
    ),
}
_NO_PERSON = frozenset(
    "of the and house senate state states department staff sgt cpl lance navy army white american americans united "
    "administration special general office federal national new news north south east west security "
    "government republicans democrats congress program".split()
)
"""Words of no person's name."""
_KIND_BY_ENDING = {word: kind for kind, words in _ENDINGS.items() for word in words.split()}
_MARKED = re.compile(r"(?<![\w-])(?:[^\W\d_a-z]\w|\d)[\w.,-]*")
"""A word with a capital, or a figure."""
_JOINS = re.compile(r"[\w-]")
_MOST_NAMES = 4
"""In a sentence that tells something of each."""
_OFTEN = 0.2
"""Of the sentences, from which on a document is about what they name."""
_MOST_COUNTED = 4.0
"""Things of a pair of documents: a long list is not better for being long."""
_LETTERS = re.compile(r"[^\W\d_]{3,}(?:[-'’][^\W\d_]+)*")
_SCALES = frozenset({"thousand", "million", "billion", "trillion", "percent", "dollars"})
"""Words of a figure, and none of what it is for."""
_LISTED_KINDS = frozenset({"sums", "shares"})
_FEWEST_LISTED = 4
"""Figures of a kind that are a list."""
_TOLD_KINDS = frozenset({"persons", "acts", "works"})
"""Of which something is told beside figures; places and organisations mostly say where something is, or who said it."""


class Singled(NamedTuple):
    """One of several things of a kind in a document, with the fact by which another document alone singles it out."""

    name: str
    kind: str
    """The kind: `persons`, `organisations`, `places`, `acts`; of papers `works` and `names`, which may be methods, data
    or languages; or the kind of the figures beside them."""
    said: str
    """The other document's sentence about it."""
    answer: str
    """The sentence about it in the document that tells of several."""
    others: tuple[tuple[str, str], ...]
    """The others of the kind that this document tells of, each with its sentence."""
    is_name: bool
    """Whether it is a name, and no two words before a figure in a list."""
    weight: float
    """How much this may be worth: 1 where each of the several has a figure of one kind, else a half; half as much
    where there is one other."""


@dataclass(frozen=True)
class DocumentThings:
    """A document that is indexed by the things that it mentions."""

    title: str
    sentences: tuple[str, ...]
    """The document's sentences, each on one line, as they stand."""
    names: tuple[str, ...]
    """Keys of the names in the document."""
    is_paper: bool = False

    @cached_property
    def words(self) -> frozenset[str]:
        """Return all words of the document, including its title's."""
        return frozenset(words_of(" ".join((self.title, *self.sentences))))

    @cached_property
    def _folded(self) -> tuple[str, ...]:
        return tuple(sentence.casefold() for sentence in self.sentences)

    @cached_property
    def places(self) -> Mapping[str, tuple[tuple[int, int, int], ...]]:
        """Return for each name where it occurs: number of the sentence, start and end in it."""
        whole, starts = "\n".join(self._folded), list(accumulate((len(each) + 1 for each in self._folded), initial=0))
        last_words = Counter(name.rsplit(" ", 1)[-1] for name in self.names)
        found: dict[str, tuple[tuple[int, int, int], ...]] = {}
        for name in self.names:
            full, *last = _forms(name, last_words)
            spans = _occurrences(full, whole)
            within = {end for _, end in spans}
            spans += [span for form in last for span in _occurrences(form, whole) if span[1] not in within]
            at = [(bisect_right(starts, start) - 1, start, end) for start, end in sorted(spans)]
            inside = [(number, start - starts[number], end - starts[number]) for number, start, end in at]
            if kept := tuple(each for each in inside if not self.sentences[each[0]][each[1]].islower()):
                found[name] = kept
        return found

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """Return the kind of each name, as far as the words beside it say."""
        return {name: kind for name, spans in self.places.items() if (kind := self._kind(name, spans))}

    def _kind(self, name: str, spans: Sequence[tuple[int, int, int]]) -> str:
        last = name.rsplit(" ", 1)[-1]
        if (ending := _KIND_BY_ENDING.get(last)) and " " in name:
            return ending
        if self.is_paper:
            cited = sum(bool(_WORK_AFTER.match(self._folded[number][end : end + 30])) for number, _, end in spans)
            return "works" if 3 * cited >= len(spans) else "names"
        found: Counter[str] = Counter()
        may_be_person = _NO_PERSON.isdisjoint(name.split(" ")) and not name.endswith(".")
        for number, start, end in spans:
            sentence = self._folded[number]
            before, after = sentence[max(0, start - 40) : start], sentence[end : end + 30]
            if may_be_person:
                found["persons"] += bool(_PERSON_BEFORE.search(before))
                found["persons"] += " " in name and bool(_PERSON_AFTER.match(after))
                is_last = end - start == len(last) < len(name) and not last.endswith("s")
                found["persons"] += 2 * is_last  # by a last name alone; Colts and Chiefs are none
            found["places"] += bool(_PLACE_BEFORE.search(before)) and not self.sentences[number][start:end].isupper()
        kind, count = max(found.items(), key=lambda each: each[1])
        return kind if count and 3 * count >= len(spans) else ""

    @cached_property
    def terms(self) -> Mapping[str, tuple[int, ...]]:
        """Return for each pair of neighbouring content words the sentences that have it."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for number, sentence in enumerate(self._folded):
            words = _LETTERS.findall(sentence)
            pairs = {f"{one} {two}" for one, two in pairwise(words) if not {one, two} & COMMON_WORDS}
            for pair in pairs:
                found[pair].append(number)
        return {pair: tuple(numbers) for pair, numbers in found.items()}

    @cached_property
    def _figures(self) -> tuple[list[Figure], ...]:
        return tuple(map(figures_of, self.sentences))

    @cached_property
    def listed(self) -> Mapping[str, Mapping[int, str]]:
        """Return, for each kind of figures that differ in at least four sentences, those sentences with their first
        figure.
        """
        found: defaultdict[str, dict[int, str]] = defaultdict(dict)
        for number in range(len(self.sentences)):
            for figure in self._figures[number]:
                if figure.kind in _LISTED_KINDS and figure.text not in found[figure.kind].values():
                    found[figure.kind].setdefault(number, figure.text)
        return {kind: items for kind, items in found.items() if len(items) >= _FEWEST_LISTED}

    @cached_property
    def figures(self) -> Mapping[str, Mapping[str, tuple[str, int]]]:
        """Return for each name, by kind, the nearest figure in its sentences, with the number of the sentence."""
        found: dict[str, dict[str, tuple[str, int]]] = {}
        at = self._figures
        owners: dict[tuple[int, int], tuple[int, str]] = {}
        for name, spans in self.places.items():
            for number, start, end in spans:
                for figure in at[number]:
                    distance = figure.at - end if figure.at >= end else start - figure.at
                    owners[number, figure.at] = min(owners.get((number, figure.at), (10**6, "")), (distance, name))
        for (number, place), (_, name) in sorted(owners.items()):
            figure = next(each for each in at[number] if each.at == place)
            found.setdefault(name, {}).setdefault(figure.kind, (figure.text, number))
        return found

    def has_figure(self, figure: str) -> bool:
        """Tell whether the document has a figure, in whatever form: $3 million, $3,000,000."""
        return f" {_spelled(figure)} " in self._in_figures

    @cached_property
    def _in_figures(self) -> str:
        return f" {_spelled(' '.join(self.sentences))} "

    def is_about(self, name: str) -> bool:
        """Tell whether a name is in the title or in many sentences, so that a reader takes it for the document's
        subject.
        """
        held = len({number for number, *_ in self.places[name]})
        return set(words_of(name)) <= set(words_of(self.title)) or held > max(_OFTEN * len(self.sentences), 2)

    def told(self, name: str, known: Collection[str] = (), without: str = "") -> str:
        """Return the sentence about a name with the most figures and capitalised words that are not in `known`; empty
        where none has any.

        A list of names says nothing of each, a quotation nothing of its speaker, and a sentence about the name
        `without` may be about that instead: such sentences are left out.
        """
        apart = {number for number, *_ in self.places.get(without, ())}
        named = frozenset(words_of(name))
        numbers = dict.fromkeys(number for number, *_ in self.places.get(name, ()) if number not in apart)
        found = [
            (len(self.marks[number] - named.union(known)), -number)
            for number in numbers
            if self.names_in[number] <= _MOST_NAMES and number not in self.speeches.get(name, ())
        ]
        count, number = max(found, default=(0, 0))
        return self.sentences[-number] if count else ""

    @cached_property
    def speeches(self) -> Mapping[str, frozenset[int]]:
        """Return for each name the sentences that report what it said."""
        return {
            name: frozenset(
                number
                for number, start, end in spans
                if _SPEAKS.match(self._folded[number], end)
                or _SPOKEN.search(self._folded[number][max(0, start - 40) : start])
            )
            for name, spans in self.places.items()
        }

    @cached_property
    def names_in(self) -> Counter[int]:
        """Return for each sentence, by its number, how many names it contains."""
        return Counter(number for spans in self.places.values() for number in {number for number, *_ in spans})

    @cached_property
    def marks(self) -> tuple[frozenset[str], ...]:
        """Return the figures and capitalised words of each sentence."""
        return tuple(frozenset(words_of(" ".join(_MARKED.findall(sentence)))) for sentence in self.sentences)


def _spelled(text: str) -> str:
    """A text with its numbers as plain figures, in words that are parted by single spaces."""
    return " ".join(re.findall(r"[\w.]*\w", spell_in_figures(fold(text))))


def _occurrences(form: str, text: str) -> list[tuple[int, int]]:
    """Where a form stands as whole words; a hyphen joins words."""
    found: list[tuple[int, int]] = []
    at = text.find(form)
    while at >= 0:
        end = at + len(form)
        is_whole = not (_JOINS.match(text[at - 1 : at]) or _JOINS.match(text[end : end + 1]))
        found += [(at, end)] * is_whole
        at = text.find(form, end if is_whole else at + 1)
    return found


def _forms(name: str, last_words: Mapping[str, int]) -> list[str]:
    """A name, and its last word where no other name ends so."""
    words = name.split(" ")
    last = words[-1]
    is_own = len(words) in (2, 3) and last not in _KIND_BY_ENDING and len(last) > 2
    return [name, last] if is_own and last_words[last] == 1 else [name]


def prepare(
    documents: Sequence[tuple[str, str]], papers: Sequence[bool], counts: CaseCounts | None = None
) -> list[DocumentThings]:
    """Index the documents of a bundle, given by title and text. `papers` says which of them are scientific papers;
    `counts` are word counts over all documents, by default over these alone.
    """
    counts = counts or CaseCounts.of(text for _, text in documents)
    found = joining_names(merge_short_names([names_of(title, text, counts) for title, text in documents]))
    return [
        DocumentThings(
            title,
            tuple(
                " ".join(line.split()) for each in split_sentences(text) for line in each.split("\n") if line.strip()
            ),
            tuple(name.key for name in names),
            is_paper,
        )
        for (title, text), names, is_paper in zip(documents, found, papers, strict=True)
    ]


def count_singled(first: DocumentThings, second: DocumentThings, archive: AllDocuments) -> float:
    """Return how many things each of two documents singles out among several in the other, weighted, from 0 to 4.

    A thing counts once, and only if few documents have it: of what all mention, more is known than these two say.
    """
    found: dict[str, float] = {}
    for each in (*singled_out(first, second), *singled_out(second, first)):
        if each.name in archive.few if each.is_name else archive.is_rare(each.name):
            found[each.answer] = max(found.get(each.answer, 0.0), each.weight)
    return min(_MOST_COUNTED, sum(found.values()))


def singled_out(first: DocumentThings, second: DocumentThings) -> Iterator[Singled]:
    """Yield each fact by which the first document singles out one of several things in the second. The second
    document's main subject does not count, nor a name that the first has only in a list of names.
    """
    for name in second.places:
        if name not in first.places or second.is_about(name):
            continue
        if said := first.told(name, second.words):
            yield from _by_figures(name, said, first, second)
            yield from _by_kind(name, said, first, second)
    yield from _by_terms(first, second)


def _by_terms(first: DocumentThings, second: DocumentThings) -> Iterator[Singled]:
    """What a list of sums or shares tells of, by two words that the other document has, too."""
    about = frozenset(words_of(second.title)) | _SCALES
    shared = {
        term: numbers
        for term, numbers in second.terms.items()
        if term in first.terms and about.isdisjoint(term.split(" "))
    }
    for kind, items in second.listed.items():
        of_item: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
        for term, numbers in shared.items():
            held = [number for number in numbers if number in items]
            if len(held) == 1 and not first.has_figure(items[held[0]]):
                told = [(len(first.marks[n] - second.words), -n) for n in first.terms[term]]
                count, number = max(told)
                if count:
                    of_item[held[0]].append((term, first.sentences[-number]))
        for number, terms in sorted(of_item.items()):
            term, said = max(terms, key=lambda each: (len(each[0]), each))
            others = tuple((text, second.sentences[n]) for n, text in items.items() if n != number)
            yield Singled(term, kind, said, second.sentences[number], others, False, 1.0)


def _by_figures(name: str, said: str, first: DocumentThings, second: DocumentThings) -> Iterator[Singled]:
    for kind, (figure, number) in second.figures.get(name, {}).items():
        others = {
            other: second.sentences[of[kind][1]]
            for other, of in second.figures.items()
            if kind in of and of[kind][0] != figure and second.kinds.get(other) == second.kinds.get(name, "none")
        }
        kept = _apart(name, others, second)
        if kept and not first.has_figure(figure):
            yield Singled(name, kind, said, second.sentences[number], kept, True, 1.0 if len(kept) > 1 else 0.5)


def _by_kind(name: str, said: str, first: DocumentThings, second: DocumentThings) -> Iterator[Singled]:
    kind, answer = second.kinds.get(name), second.told(name, first.words)
    if kind not in _TOLD_KINDS or not answer:
        return
    told = {other: second.told(other, without=name) for other, of in second.kinds.items() if of == kind}
    kept = _apart(name, {other: sentence for other, sentence in told.items() if sentence}, second)
    if kept:
        yield Singled(name, kind, said, answer, kept, True, 0.5 if len(kept) > 1 else 0.25)


def _apart(name: str, others: Mapping[str, str], within: DocumentThings) -> tuple[tuple[str, str], ...]:
    """The others that are no other form of the name, nor of each other; none where a guess among them would be right as
    often as not: of two a reader takes what the document is about."""
    taken, kept = _own_words(name), dict[str, str]()
    for other, sentence in others.items():
        words = _own_words(other)
        if words.isdisjoint(taken) and sentence not in kept.values():
            kept[other] = sentence
            taken |= words
    is_doubtful = len(kept) > 1 or any(map(within.is_about, kept))
    return tuple(kept.items()) if is_doubtful else ()


def _own_words(name: str) -> set[str]:
    """The words of a name without those that say its kind."""
    return set(name.split(" ")) - _KIND_BY_ENDING.keys()
