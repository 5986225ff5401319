"""Split a sentence into subject, verb and rest where its form is plain enough to be sure; other sentences are left
alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trailforge.retrieval.english import AUXILIARIES, MONTHS, PARTICIPLES, PAST, PREPOSITIONS, is_finite

_LEAD = re.compile(
    rf"(?:In|On|By|Since|From|During) (?:early |late |the (?:spring|summer|autumn|winter|evening|night|year) of )?"
    rf"(?:\d{{1,2}} )?(?:(?:{MONTHS})(?: \d{{1,2}}(?=,))?,? ?)?(?:\d{{4}}(?: alone)?)?,? (?=\S)"
)
"""A time at the start of a sentence."""
_WORD = re.compile(r"[^\s,;:()–—]+(?:[,.]\d+)*|[,;:()–—]")
_NO_SUBJECT = frozenset(
    "that which who whom whose where when while as because if since although though after before than whether what how "
    "it its he his she her they their we our us i you your this these those there here not only such another both one "
    "former latter and or but so yet nor to by at with from for under among between during despite without within "
    "according earlier later then now today also most many some several few each all".split()
)
"""Words that say: no plain subject, or one that means something outside of the sentence."""
_ENDS_CLAUSE = re.compile(
    r" ?[;:(]| ?[–—] "
    r"|, (?:which|who|whom|whose|where|when|while|and|but|as|so|because|with|after|before|than|or|since|although|though"
    r"|making|giving|including|of which|from|for|in|to|up|down|more|less|the|an?|then|also|near|about)\b"
    r"| (?:but|because|while|although|though|so that|as if|whereas|where|when|if"
    r"|since (?!\d|[A-Z])|as (?=it|they|he|she)|after (?=the|a|it|his|her|they)|until (?=the|it|they)"
    r"|and (?=upon|while|when|after|it|they|he|she|then|so|also|later|now))\b"
)
_ASIDE = re.compile(r"(?P<head>(?:The |the )?[^\W\d_a-z][^,]{0,60}), [^,]+, (?=(?P<verb>\w+) )")
_UNPLAIN = re.compile(r"[\"“”?!\[\]{}$\\]")
_LONGEST = 1000
"""Characters of a sentence that is read: the patterns take more than linear time."""
_LIST = re.compile(r"(?:^| )[^,]*, [^,]+(?:, [^,]+)* (?:and|or) ")


@dataclass(frozen=True, slots=True)
class Clause:
    """A main clause. `lead` is a time before the subject, `rest` is everything after the verb; both may be empty."""

    lead: str
    subject: str
    verb: str
    rest: str

    @property
    def text(self) -> str:
        """Return the clause's parts joined in order."""
        return " ".join(part for part in (self.lead, self.subject, self.verb, self.rest) if part)


def clauses_of(sentence: str) -> Iterator[Clause]:
    """Yield the main clause, up to where another begins, and the clause with the second of two verbs joined by
    `and`."""
    text = sentence.strip()
    if not text.endswith(".") or len(text) > _LONGEST or _UNPLAIN.search(text):
        return
    text = text[:-1]
    match = _LEAD.match(text)
    lead = match[0].rstrip(" ,") if match and re.search(r"\d", match[0]) else ""
    found = _split(_without_aside(text[match.end() :] if lead and match else text))
    if found is None:
        return
    subject, verb, rest = found
    subject = subject if lead else _lowered(subject)
    first, second = _conjoined(verb, rest)
    if kept := _first_clause(first):
        yield Clause(lead, subject, verb, kept)
    if second and (kept := _first_clause(second[1])):
        yield Clause("", subject, second[0], kept)


def _without_aside(body: str) -> str:
    """`X, who did a thing, did another` -> `X did another`."""
    aside = _ASIDE.match(body)
    return f"{aside['head']} {body[aside.end() :]}" if aside and is_finite(aside["verb"]) else body


def _split(body: str) -> tuple[str, str, str] | None:
    """Subject, finite verb and what follows."""
    words = list(_WORD.finditer(body))
    if not words or (words[0][0].casefold() in PREPOSITIONS and not re.match(r"(?:About|Over) \d", body)):
        return None
    for i, word in enumerate(words):
        text = word[0]
        if text in ",;:()–—" or (text.casefold() in _NO_SUBJECT and not text.isupper()):
            return None
        following = words[i + 1][0] if i + 1 < len(words) else ""
        if i and is_finite(text) and _is_verb_here(text, body[: word.start()].split(), following):
            rest = body[word.end() :]
            return (body[: word.start()].strip(), text, rest.strip()) if not rest or rest[0] == " " else None
    return None


def _is_verb_here(word: str, before: list[str], following: str) -> bool:
    """Not a noun, nor a participle that describes the noun before it (`the mine owned by`)."""
    if word in AUXILIARIES:
        return True
    if following in AUXILIARIES or before[-1].casefold() in ("the", "a", "an", *PREPOSITIONS):
        return False
    if word in PAST:
        return not (word in PARTICIPLES and following in ("by", "using"))
    return _is_singular(before)


def _is_singular(subject: list[str]) -> bool:
    """A form in -s is a verb only after one thing: a name, or a noun without plural s."""
    head = next((word for word, after in zip(subject, [*subject[1:], "of"], strict=True) if after in PREPOSITIONS), "")
    return bool(head) and not head.endswith("s") and head[0] not in "0123456789"


def _first_clause(rest: str) -> str | None:
    """Up to where another clause or an aside begins; None when a list would be cut or an aside is in the way."""
    cut = _ENDS_CLAUSE.search(rest)
    kept = rest[: cut.start()] if cut else rest
    if _LIST.search(rest[: (cut.end() if cut else len(rest)) + 40]) and "," in kept:
        return None
    if _has_second_verb(kept):
        return None
    comma = re.search(r",(?!\d)", kept)
    if comma is not None:
        date = re.match(rf".*\b(?:{MONTHS}) \d{{1,2}}, \d{{4}}$", kept)
        return kept if date else kept[: comma.start()]
    return kept.strip()


def _has_second_verb(rest: str) -> bool:
    """Whether a clause without a word that joins it hangs on the verb: `found the levels would be high`."""
    words = rest.split()
    joined = [bool({"that", "which", "who", "whom", "and", "to"} & set(words[:i])) for i in range(len(words))]
    return any(word in AUXILIARIES and i and not joined[i] for i, word in enumerate(words))


def _conjoined(verb: str, rest: str) -> tuple[str, tuple[str, str] | None]:
    """The rest up to `and` before a second verb, and that verb with what is its own."""
    for match in re.finditer(r" and (\w+)(?= )", rest):
        word, after = match[1], rest[match.end() :].strip()
        if word in AUXILIARIES or (word in PAST and not (verb in AUXILIARIES and word in PARTICIPLES)):
            return rest[: match.start()], (word, after)
        if word in PARTICIPLES and verb in AUXILIARIES:
            return rest[: match.start()], (verb, f"{word} {after}")
        if is_finite(word) and verb not in PAST and verb.endswith("s"):
            return rest[: match.start()], (word, after)
    return rest, None


def _lowered(subject: str) -> str:
    """Without the capital that only says where the sentence begins: `The tunnel` -> `the tunnel`, names stay."""
    first, _, rest = subject.partition(" ")
    small = {"The", "A", "An", "About", "Some", "More", "Nearly", "Almost", "Over", "Two", "Three", "Four", "Five"}
    return f"{first.lower()} {rest}" if first in small else subject
