"""Check that thoughts which a model wrote for a finished trajectory say only what the agent could know at each turn.

The steps are facts; the thoughts are written afterwards, by a model that has seen all steps. So each turn is compared
with what its agent had seen by then: the question, the plan, its own queries, answers and thoughts, the passages found.
Names, numbers and what is said of things are compared word by word. A word that only looks like a name at the beginning
of a sentence is known by a list of common words; an unusual one may be taken for a name, and then a sound row keeps
prepared sentences in place of its thoughts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from trailforge.filters.base import count_faults
from trailforge.protocols import REACT
from trailforge.retrieval import COMMON_WORDS
from trailforge.rewards import is_never_quoted, mentions
from trailforge.schemas import MalformedReply, TextSpan, Trajectory, Verdict

_TOKEN = re.compile(r"\d+(?:[.,:/]\d+)*(?:st|nd|rd|th|s)?(?![^\W\d_])|[^\W_](?:[\w.'’&-]*\w)?", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*(?:st|nd|rd|th|s)?", re.IGNORECASE)
_COUNTED = r"steps?|sub-?questions?|questions?|passages?|results?|numbers?|parts?|hops?|documents?|search(?:es)?|facts?"
_COUNTED += r"|things?"
_POSITIONS = re.compile(
    rf"\b(?:{_COUNTED}) +#?\d{{1,2}}\b(?:(?: *,| and| to| or|-|–) *#?\d{{1,2}}\b)*"
    rf"|#\d+|\(\d{{1,2}}\)|(?:^|\s)\d{{1,2}}[.)](?=\s)|\b\d{{1,2}} +(?:{_COUNTED})\b",
    re.IGNORECASE,
)
"""Numbers that count or point at steps and passages."""
_SENTENCE_END = re.compile(r"(?:^|[.!?:;…\n]|--| [–—-])[\s\"'“”‘’()\[\]*]*$")
_QUOTED = re.compile(r"“([^“”]+)”|\"([^\"]+)\"")
_FEWEST_QUOTED = 4
"""Words in quotation marks from which on they are a quotation, and no name, title or word in question."""
_TAG = re.compile(r"</?[A-Za-z_][^<>]*>")
_DOUBT = re.compile(
    r"\b(?:mistake[ns]?|mistakenly|wrong(?:ly)?|incorrect(?:ly)?|misread(?:ing)?|reconsider|wait|hold on|"
    r"on second thought|erroneous(?:ly)?|misled|take (?:that|this|it) back)\b",
    re.IGNORECASE,
)
_ENDINGS = tuple("ians ian eans ean ans an ese ish ns n ia is i ic es s a y en ain".split())
"""Of countries and of those who live there, by which one is known by the other."""
_SHORTEST_STEM = 4
_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve".split(),
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split(),
)
_SMALL_NUMBERS = frozenset("zero one two first second zeroth".split())
"""Number words of everyday: "first I need", "one of them"."""
_COUNTING = frozenset("into in these those all of".split())
"""Before a number word that counts what is in view: "into three", "of the four"."""
_ASSERTED = re.compile(
    r"\b(?:(?!The|This|That|These|Those|What|Which|Who|Where|When|There|Here|One|All|Both|Each)[A-Z][\w'’-]*"
    r"|[Ii]t|[Hh]e|[Ss]he|[Tt]hey) +(?:is|was|are|were|became|being) +"
    r"(?:(?:an?|the|one of the) +)?((?:[a-z][a-z'’-]*(?: +|\b)){1,3})"
)
"""What is said of a name, or of it and them: "Hiroshima was bombed in the war", "Thessaloniki is a port city"."""
_SAID_OF_SEARCHES = frozenset(
    "missing needed unknown known given named described asked sought meant wanted clear plain certain sure obvious "
    "evident right correct wrong exactly figure word name enough unclear stated says said shown told mentioned listed "
    "called found identified identifies located likely possible probable plausible easy relevant important useful "
    "consistent explicit explicitly direct directly confirmed confirms true same different next last ready done "
    "settled used based part parts kind type thing things answer answers question piece link step about still left "
    "open only just clearly simply already therefore precisely really indeed both here there what where which whose "
    "when that this these those from with than then before after first second other another someone something "
    "somebody looking interested required lacking stating saying referring referred supported implied tied bound "
    "linked connected related accounted nested meaning likewise placed ranked counted credited".split()
)
"""Words of those who look something up; they say nothing of the world."""
_FEWEST_LETTERS = 4
"""Of a word that may say something of the world."""
_LETTERS_OF_STEM = 5
_COMPARED = frozenset(
    "big broad close deep early fast few great heavy high large late light long low near new old poor rich short slow "
    "small strong tall warm cold weak wide young".split()
)
"""What is said of things to compare them; its comparatives and superlatives are no names where a sentence begins."""
_WHAT_NAMES_DO = frozenset("is was are were has had did does became lies of".split())


def unfounded_thoughts(row: Trajectory, *, max_words: int) -> Verdict:
    """Reject thoughts that say what the agent cannot know yet, or in another order than it comes to know it. Score: the
    number of faults.

    Faults are names and numbers that were not seen, answers before they are found, doubts before the mistake is taken
    back, quotations of nothing, tags, and more than `max_words` in a turn. Which answers are claimed and taken back,
    and in which order, is read from the row's spans and compared with its steps.
    """
    try:
        faults = list(_faults(row, max_words))
    except MalformedReply as error:
        faults = [str(error)]
    return count_faults("unfounded_thoughts", faults, str)


def _faults(row: Trajectory, max_words: int) -> Iterator[str]:
    seen = [row.question, *(row.wrong_plan or row.plan)]
    claimed = turns = 0
    # A search that found nothing claims nothing that could be doubted.
    is_taken_back = not any(step.is_mistake and step.answer for step in row.steps)
    for number, message in enumerate(row.messages[2:], start=2):
        if message.role != "assistant":
            seen.append(message.content)
            continue
        turns += 1
        turn = REACT.parse_turn(message.content, strict=True)
        spans = [span for span in row.spans if span.message == number]
        here = sum(span.kind in ("claim", "mistake") for span in spans)
        own = [step.answer for step in row.steps[claimed : claimed + here]]
        if any(span.kind == "mend" for span in spans):
            own += row.plan
        known = [*seen, *own, turn.answer or "" if turn.search is None else turn.search.query]
        for fault in (
            *_length_fault(turn.thought, max_words),
            *_form_faults(turn.thought, seen),
            *find_unseen_names(turn.thought, known),
            *find_unseen_facts(turn.thought, known),
            *_early_answers(row, message.content, spans, claimed, known),
            *(() if is_taken_back else _early_doubts(message.content, spans, known)),
        ):
            yield f"turn {turns}: {fault}"
        claimed += here
        is_taken_back = is_taken_back or any(span.kind == "mend" for span in spans)
        seen += [*own, message.content]


def _length_fault(thought: str, max_words: int) -> Iterator[str]:
    if len(thought.split()) > max_words:
        yield f"{len(thought.split())} words (at most {max_words})"
    if not thought.strip():
        yield "it thinks nothing"


def _form_faults(thought: str, seen: Iterable[str]) -> Iterator[str]:
    if tag := find_tag(thought):
        yield f"it holds the tag {tag}"
    for quoted in (first or second for first, second in _QUOTED.findall(thought)):
        if len(quoted.split()) >= _FEWEST_QUOTED and not any(quotes(text, quoted) for text in seen):
            yield f"it quotes {quoted!r}, which nothing says"


def _early_answers(
    row: Trajectory, content: str, spans: Iterable[TextSpan], claimed: int, known: list[str]
) -> Iterator[str]:
    """Answers that this turn says before they are claimed.

    Those of later steps it may say where it has seen them, as in a passage; but neither the final one nor the one that
    mends the mistake, unless the question, a plan, or an earlier query or answer names it.
    """
    claims = [span for span in spans if span.kind in ("claim", "mistake")]
    starts = {claimed + n: span.start for n, span in enumerate(claims)}
    thought_end = content.find("</think>")
    mended = {n + 1 for n, step in enumerate(row.steps) if step.is_mistake}
    for position, step in enumerate(row.steps[claimed:], start=claimed):
        before = _POSITIONS.sub(" ", content[: starts.get(position, thought_end)])
        if is_never_quoted(step.answer) or not mentions(before, step.answer):
            continue
        at = claimed + len(claims)
        named = [row.question, *(row.wrong_plan or row.plan), *(each.query for each in row.steps[: at + 1])]
        named += [each.answer for each in row.steps[: min(position, at)]]
        named += row.plan if any(each.is_mistake for each in row.steps[:at]) else ()
        if any(mentions(text, step.answer) for text in named):
            continue
        is_last = position == len(row.steps) - 1
        if is_last or position in mended:
            yield f"it says {step.answer!r} before it is found"
        elif not any(mentions(text, step.answer) for text in known):
            yield f"it says {step.answer!r}, which it has not seen"


def _early_doubts(content: str, spans: Iterable[TextSpan], known: list[str]) -> Iterator[str]:
    """Words of doubt before the mistake is taken back, unless they stand in what was seen."""
    end = next((span.start for span in spans if span.kind == "mend"), content.find("</think>"))
    for found in _DOUBT.finditer(content[:end]):
        if not any(mentions(text, found[0]) for text in known):
            yield f"it doubts ({found[0]!r}) what it takes back later"


def find_tag(thought: str) -> str:
    """Return the first tag that a thought contains; empty when it contains none."""
    found = _TAG.search(thought)
    return found[0] if found else ""


# Names and numbers


def find_unseen_names(thought: str, known: Sequence[str]) -> Iterator[str]:
    """Yield the names and numbers in a thought that occur in none of the known texts."""
    seen = _seen(tuple(known))
    text = _POSITIONS.sub(lambda found: " " * len(found[0]), thought)
    tokens = list(_TOKEN.finditer(text))
    for at, found in enumerate(tokens):
        word = found[0]
        if _NUMBER.fullmatch(word):
            if not seen.has_number(word):
                yield f"the number {word} stands in nothing it has seen"
        elif word != word.lower() and not any(map(seen.has_word, _readings(word))):
            around = [token[0] for token in tokens[max(0, at - 1) : at + 2]]
            begins = bool(_SENTENCE_END.search(text[: found.start()]))
            is_plain = begins and _is_plain(word, text[found.end() :].strip().split(" ")[0])
            if not (is_plain or any(map(seen.has_initials, pairwise(around)))):
                yield f"{word!r} stands in nothing it has seen"


def find_unseen_facts(thought: str, known: Sequence[str]) -> Iterator[str]:
    """Yield number words and lower-case statements in a thought that occur in none of the known texts. Words are
    compared by stems: "adhered" is known where "adheres" is. Words about looking something up are allowed.
    """
    seen = _seen(tuple(known))
    counted = re.compile(rf"(?:[a-z-]+ +)?(?:{_COUNTED})\b", re.IGNORECASE)
    words = [word for row in _NUMBER_WORDS for word in row]
    for found in re.finditer(rf"\b(?:{'|'.join(words)}|thrice)\b", thought):
        before = thought[: found.start()].split()[-2:]
        is_counting = not _COUNTING.isdisjoint(before) or counted.match(thought[found.end() :].lstrip())
        if found[0] not in _SMALL_NUMBERS and not is_counting and not seen.has_number_word(found[0]):
            yield f"the number {found[0]} stands in nothing it has seen"
    for found in _ASSERTED.finditer(thought):
        for word in re.findall(r"[a-z][a-z'’-]*", found[1]):
            if len(word) >= _FEWEST_LETTERS and word not in _SAID_OF_SEARCHES and not seen.has_stem(word):
                yield f"{word!r} is said of something, and nothing that it has seen says so"


def _is_plain(word: str, following: str) -> bool:
    """No name, as sentences begin: a participle or adverb ("Having", "Fortunately"), what searches are said of
    ("Words such as …"), or what compares ("Older of the two is …")."""
    if word[1:].islower() and not _COMPARED.isdisjoint(_uncompared(word.lower())):
        return following == following.lower()  # "Greater Manchester" is a name
    is_search_word = not _SAID_OF_SEARCHES.isdisjoint((word.lower(), word.lower().removesuffix("s")))
    has_ending = (word.lower().endswith(("ing", "ed", "ly")) or is_search_word) and word[1:].islower()
    return has_ending and following == following.lower() and following not in _WHAT_NAMES_DO


def _uncompared(word: str) -> list[str]:
    """What a comparative or superlative may be of, as adjective and adverb: "newest" of "new" and "newly"."""
    match = re.fullmatch(r"(\w{3,}?)(i?)(?:er|est)", word)
    if match is None:
        return []
    stem = match[1] + ("y" if match[2] else "")
    return [stem, f"{stem}e", f"{stem}ly", stem[:-1] if stem[-1] == stem[-2] else stem]


def _readings(word: str) -> list[str]:
    """A word with and without its possessive."""
    return [word, re.sub(r"['’][sS]?$", "", word)]


@lru_cache(maxsize=8)
def _seen(texts: tuple[str, ...]) -> _Seen:
    """Kept, as one row's thoughts and names are held against the same texts one by one."""
    return _Seen(texts)


class _Seen:
    """The words and numbers of what an agent has seen."""

    def __init__(self, texts: Sequence[str]) -> None:
        read = [_read_text(text) for text in texts]
        self._words = frozenset[str]().union(*(each.words for each in read))
        self._numbers = frozenset[str]().union(*(each.numbers for each in read))
        self._initials = frozenset[str]().union(*(each.initials for each in read))
        self._acronyms = frozenset[str]().union(*(each.acronyms for each in read))

    @cached_property
    def _stems(self) -> set[str]:
        return {stem for word in self._words for stem in country_stems(word)}

    def has_word(self, word: str) -> bool:
        """In any case and with or without accents; of a country, those who live there."""
        folded = _folded(word)
        if folded in self._words or folded in COMMON_WORDS or word.lower() in COMMON_WORDS:
            return True
        parts = [part for part in re.split(r"[-&]", word) if part]
        if len(parts) > 1:
            return all(part == part.lower() or part[0].isdigit() or self.has_word(part) for part in parts)
        if word.isupper() and len(folded) > 1 and any(folded.upper() in initials for initials in self._initials):
            return True
        return any(stem in self._stems for stem in country_stems(folded))

    def has_stem(self, word: str) -> bool:
        """As it is, in another form, or as a common word."""
        parts = re.split(r"[-'’]", _folded(word))
        return self.has_word(word) or all(
            part in COMMON_WORDS
            or any(each.startswith(part[:_LETTERS_OF_STEM]) for each in self._words)
            or any(form in self._words or form in COMMON_WORDS for form in _uncompared(part))
            for part in parts
        )

    def has_number_word(self, word: str) -> bool:
        """As a word, its rank, or its figure."""
        if word == "thrice":
            return self.has_number("3") or word in self._words
        place = next(row.index(word) for row in _NUMBER_WORDS if word in row)
        return any(row[place] in self._words for row in _NUMBER_WORDS) or str(place) in self._numbers

    def has_initials(self, names: tuple[str, str]) -> bool:
        """Of two words: "New York", where NY was seen."""
        return all(name[:1].isupper() and name[1:].islower() for name in names) and (
            names[0][0] + names[1][0] in self._acronyms
        )

    def has_number(self, word: str) -> bool:
        """As a figure or as a word; a year also by its decade."""
        bare = _bare_number(word)
        if bare in self._numbers or _folded(word) in self._numbers:
            return True
        if bare.isdigit() and int(bare) < len(_NUMBER_WORDS[0]):
            return any(words[int(bare)] in self._words for words in _NUMBER_WORDS)
        parts = re.split(r"[/:]", bare)
        if len(parts) > 1:
            return all(map(self.has_number, parts))
        return word.endswith("s") and any(len(n) == len(bare) and n[:-1] == bare[:-1] for n in self._numbers)


class _TextRead(NamedTuple):
    """What stands in one text."""

    words: frozenset[str]
    numbers: frozenset[str]
    initials: frozenset[str]
    """Of words that begin with a capital and stand in a row, one string each."""
    acronyms: frozenset[str]


@lru_cache(maxsize=256)
def _read_text(text: str) -> _TextRead:
    """Kept, as the rows of one question have seen the same passages."""
    tokens = _TOKEN.findall(text)
    words, numbers = set[str](), set[str]()
    for token in set(tokens):
        for part in (token, *re.split(r"[-&'’]", token)):
            (numbers if part[:1].isdigit() else words).add(_folded(part))
            numbers.update(map(_bare_number, re.findall(r"\d+(?:[.,]\d+)*", part)))
    capitals = "".join(token[0] if token[0].isupper() else " " for token in tokens)
    acronyms = frozenset(token for token in tokens if token.isupper())
    return _TextRead(frozenset(words), frozenset(numbers), frozenset(capitals.split()), acronyms)


def _folded(word: str) -> str:
    """Without case, accents and full stops."""
    if word.isascii():
        plain = word.casefold()
    else:
        plain = unicodedata.normalize("NFKD", word).casefold().replace("’", "'")
        plain = "".join(mark for mark in plain if not unicodedata.combining(mark))
    plain = plain.replace(".", "")
    return re.sub(r"'s?$", "", plain) if "'" in plain else plain


def _bare_number(word: str) -> str:
    """Without commas between thousands, and what makes an ordinal of it."""
    return re.sub(r"(?<=\d),(?=\d{3})|(?:st|nd|rd|th|s)$", "", word.lower()).strip(".,")


def country_stems(word: str) -> set[str]:
    """Return a word, and its stems without the endings of countries and peoples, by which Germany and German match."""
    cut = (word.removesuffix(ending) for ending in _ENDINGS)
    return {word, *(stem for stem in cut if len(stem) >= _SHORTEST_STEM)}


# Quotations


def quotes(text: str, quoted: str) -> bool:
    """Tell whether a text contains the quoted words, ignoring case, white space, surrounding marks and kinds of
    quotation marks; `…` in the quote stands for left-out words.
    """
    whole, at = f" {_plain(text)} ", 0
    for part in re.split(r"…|\.\.\.", quoted):
        words = _plain(part)
        if not words:
            continue
        if (found := whole.find(f" {words} ", at)) < 0:
            return False
        at = found + len(words)
    return bool(_plain(quoted))


def _plain(text: str) -> str:
    """Letters and digits alone, with one space where anything else stands."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", folded).split())
