"""Tell whether a text is one grammatical question, by a context-free grammar over word classes.

It answers what cutting a question in two can break: does every auxiliary have its verb and every participle its
auxiliary, is nothing left over, does a question word have a gap to fill. It knows few words, so that an unknown one may
be a noun or a verb; whatever has a reading passes, and what has none is refused. The classes of a word: closed ones by
list, the others by its ending; a word may belong to several.
"""

from __future__ import annotations

import re
from functools import lru_cache

from trailforge.small_model.splitting.patterns import MASK, mask_names
from trailforge.small_model.splitting.words import DETERMINERS, PLACE_NOUNS, PREPOSITIONS, RELATIONAL

# Capitals: symbols with rules of their own. Small: classes of words. `?`, `*`, `+` as in regular expressions.
_GRAMMAR = """
QUESTION: ASKED | PP ASKED | NP VP
ASKED: WHO VP | WHO GAPPED | MANY VP | MANY PLAIN | MANY GAPPED | WAY INVERTED | when be NP | PLACE be NP
     | TIME be NP PASSIVE | TIME do NP PLAIN | how adj be NP
WHO: who else? | which | WHICH
WHICH: which NOMINAL MOD* | whose NOMINAL | which OWNER poss NOMINAL MOD*
MANY: how many NOMINAL MOD* | which PRE* WORD* plural MOD*
TIME: which PRE* WORD* time MOD*
PLACE: prep which PRE* name? WORD* place MOD* | prep which OWNER poss place
WAY: when | how | how adj | prep SUCH* WHICH | prep SUCH* MANY | prep who | prep which
SUCH: det NOMINAL prep
INVERTED: be NP PASSIVE | be NP adv* ing ADDED | do NP PLAIN | modal NP PLAIN | have NP PERFECT
GAPPED: be NP adv* part ADJUNCT* prep ADJUNCT* | be NP naming ADJUNCT* | be NP prep | be NP NP prep PP*
     | do NP adv* base MISSING | do NP base VP | modal NP adv* base MISSING | have NP adv* part MISSING
     | have NP been part prep | have NP been NP prep

NP: ONE | both? ONE conj ONE
ONE: reference | pronoun | det? name PP* | FULL MOD* | det PRE* time NP VP
FULL: det? NOMINAL | OWNER poss NOMINAL
OWNER: reference | det? name | det? NOMINAL | det? name conj name
NOMINAL: PRE* WORD* noun name? | PRE* WORD* name WORD* noun | PRE+ name | PRE* WORD+ name
PRE: adj | part | ing | adv
WORD: noun | adj | adv
MOD: PP | relative VP | relative NP LACKING | ZERO LACKING | where NP VP | where NP LACKING | prep relative NP VP
     | whose NOMINAL VP | adv* part PARTICIPLE_PHRASE+ | adv* naming OBJECT PP* | ing OBJECT ADJUNCT* | ing ADJUNCT+
     | to PLAIN
ZERO: reference | pronoun | det? name | det NOMINAL | OWNER poss NOMINAL
PARTICIPLE_PHRASE: PP | adv PP | to PLAIN | prep ASKED_LAST
PP: adv? prep NP | adv? direction prep NP | prep prep NP | prep ing ADDED | between ONE conj ONE | between pair
     | between pair poss NOMINAL

VP: adv* be BE | adv* have been BE | adv* have part ADDED | adv* have OBJECT PP* | modal PLAIN | adv* past ADDED
     | adv* pres ADDED | adv* separates ONE from NP | adv* separates ONE conj ONE
BE: PASSIVE | adv* ing ADDED | adv* OBJECT | adv* NP prep ASKED_LAST | adv* PP PP* | adv* prep ASKED_LAST | adv* adj PP*
PERFECT: adv* part ADDED | been BE
PASSIVE: adv* part ADJUNCT* | adv* naming OBJECT ADJUNCT*
PLAIN: adv* base ADDED | do OBJECT ADJUNCT* | base conj base ADDED | be_base BE | have OBJECT PP* | separate ONE from NP
ADDED: ADJUNCT* | OBJECT ADJUNCT* | that NP VP | pronoun VP
OBJECT: NP | ASKED_LAST
ASKED_LAST: WHICH | who
ADJUNCT: PP | adv | to PLAIN | prep ASKED_LAST | prep which | ing ADDED
LACKING: be adv* part ADJUNCT* prep ADJUNCT* | be prep ADJUNCT* | be NP prep ADJUNCT* | adv* past MISSING
     | adv* pres MISSING | have adv* part MISSING | modal adv* base MISSING
MISSING: ADJUNCT* | ADJUNCT* prep ADJUNCT* | NP ADJUNCT* prep ADJUNCT*
"""
_ITEM = re.compile(r"(\w+)([?*+]?)")
_MOST_WORDS = 64
"""A longer text is refused: reading goes as deep as phrases are nested, and the stack is finite."""
_WORD = re.compile(rf"{MASK}+|['’]s?(?=\s|$)|[^\s,()\"“”{MASK}]+?(?=['’]s?(?:\s|$)|[\s,()\"“”{MASK}]|$)")
_CLOSED = {
    "be": "is are was were",
    "been": "been",
    "be_base": "be",
    "have": "has have had",
    "do": "does do did",
    "modal": "can could will would may might should",
    "det": f"{DETERMINERS} these those some any every each another no most all",
    "prep": " ".join(word for word in PREPOSITIONS.split() if word != "between"),
    "between": "between",
    "from": "from",
    "separates": "separates separated divides divided",
    "separate": "separate divide",
    "naming": "called named titled given awarded elected appointed crowned considered",
    "to": "to",
    "conj": "and or",
    "both": "both",
    "who": "who whom what",
    "which": "what which",
    "when": "when where why",
    "how": "how",
    "many": "many much",
    "relative": "that which who whom",
    "where": "where when",
    "whose": "whose",
    "else": "else",
    "pronoun": "he she it they we you i him her them us me there",
    "that": "that",
    "direction": "north south east west next close due",
    "adv": "also first last now still ever just only then so not never once most later together out up off down",
    "adj": "first last many much long old same only most",
}  # fmt: skip
_OPEN = set("most later together long old north south east west".split()) | set(_CLOSED["naming"].split())
"""Words with a class by list that may be nouns or describe one, like any other word."""
_TIMES = set("year day date month decade century time".split())
_CLASSES: dict[str, set[str]] = {}
for _name, _members in _CLOSED.items():
    for _member in _members.split():
        _CLASSES.setdefault(_member, set()).add(_name)
_NO_VERB = re.compile(r".{3,}(?:tion|ment|ist|ity|ness|ship|hood|ism|ology|ian|eer|or)$")
_VERBS_TOO = set("host star head coach film show order lead book father".split())
"""Nouns of the word lists that are verbs as well."""


def _rules(text: str) -> dict[str, tuple[tuple[tuple[str, str], ...], ...]]:
    """Symbol -> its alternatives, each a row of (symbol or word class, how often)."""
    joined = re.sub(r"\n\s+\|", " |", text.strip())
    rules = {}
    for line in filter(None, joined.splitlines()):
        symbol, _, right = line.partition(":")
        rules[symbol] = tuple(tuple(_ITEM.findall(alternative)) for alternative in right.split("|"))
    return rules


_RULES = _rules(_GRAMMAR)


def is_question(text: str) -> bool:
    """Tell whether the whole text can be parsed as one question."""
    return _reads_as("QUESTION", text)


def is_noun_phrase(text: str) -> bool:
    """Tell whether the whole text can be parsed as one noun phrase, its relative clauses complete."""
    return _reads_as("NP", text)


@lru_cache(16384)
def _reads_as(symbol: str, text: str) -> bool:
    words = word_classes(text, begins=symbol == "QUESTION")
    return 0 < len(words) <= _MOST_WORDS and len(words) in _Reading(words).ends(symbol, 0)


class _Reading:
    """Where each symbol can end, by where it begins."""

    def __init__(self, words: list[frozenset[str]]) -> None:
        self._words = words
        self._known: dict[tuple[str, int], frozenset[int]] = {}

    def ends(self, symbol: str, start: int) -> frozenset[int]:
        """Every position at which a `symbol` that begins at `start` can end."""
        if symbol not in _RULES:
            here = start < len(self._words) and symbol in self._words[start]
            return frozenset((start + 1,)) if here else frozenset()
        if (symbol, start) not in self._known:
            found: set[int] = set()
            for alternative in _RULES[symbol]:
                found |= self._row(alternative, start)
            self._known[symbol, start] = frozenset(found)
        return self._known[symbol, start]

    def _row(self, items: tuple[tuple[str, str], ...], start: int) -> set[int]:
        reached = {start}
        for symbol, times in items:
            once = self._step(symbol, reached)
            if times in ("*", "+"):
                fresh = once
                while fresh := self._step(symbol, fresh) - once:
                    once |= fresh
            reached = once | reached if times in ("?", "*") else once
        return reached

    def _step(self, symbol: str, starts: set[int]) -> set[int]:
        return {end for start in starts for end in self.ends(symbol, start)}


def word_classes(text: str, *, begins: bool) -> list[frozenset[str]]:
    """Return one set of word classes for each word; a name or a reference is one word, commas and the end mark are
    none. `begins` says that the text begins a sentence, so that the capital of its first word may mean nothing.
    """
    text = text.replace("[E]", "#0").strip().rstrip("?.! ")
    lead = "" if begins else "of "
    masked = mask_names(lead + text)[len(lead) :]
    return [_classes(text[m.start() : m.end()], is_name=m[0][0] == MASK) for m in _WORD.finditer(masked)]


def _classes(word: str, *, is_name: bool) -> frozenset[str]:
    if is_name and word.startswith("#"):
        return frozenset(("reference",))
    if is_name:
        return frozenset(("name", "pair") if " and " in word else ("name",))
    word = word.lower()
    if word[0] in "'’":
        return frozenset(("poss",))
    if word in _CLASSES and word not in _OPEN:
        return frozenset(_CLASSES[word])
    return frozenset(_CLASSES.get(word, set()) | _open_classes(word)) if word[-1].isalnum() else frozenset()


def _open_classes(word: str) -> set[str]:
    """By the ending, and by the table of irregular verbs."""
    classes: set[str] = set()
    if word in PASTS or word.endswith("ed"):
        classes.add("past")
    if word in PARTICIPLES or word.endswith("ed"):
        classes.add("part")
    if word in BASES:
        classes.add("base")
    if word in UNMISTAKABLE or word.endswith("ed"):
        return classes
    if word.endswith("ly"):
        return classes | {"adv"}
    classes |= {"noun", "place"} if word in PLACE_NOUNS else {"noun", "time"} if word in _TIMES else {"noun"}
    if word.endswith("ing"):
        return classes | {"ing"}
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return classes | {"pres", "plural"}
    if word in _VERBS_TOO or not (word in RELATIONAL or _NO_VERB.fullmatch(word)):
        classes.add("base")
    return classes


_IRREGULAR = """
be was been, become became become, begin began begun, break broke broken, bring brought brought, build built built,
burn burnt burnt, buy bought bought, catch caught caught, choose chose chosen, come came come, deal dealt dealt,
die died died, do did done, draw drew drawn, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen,
feed fed fed, feel felt felt, fight fought fought, find found found, fly flew flown, forbid forbade forbidden,
get got gotten, give gave given, go went gone, grow grew grown, have had had, hear heard heard, hide hid hidden,
hold held held, keep kept kept, know knew known, lay laid laid, lead led led, leave left left, lend lent lent,
lie lay lain, lose lost lost, make made made, mean meant meant, meet met met, pay paid paid, ride rode ridden,
rise rose risen, say said said, see saw seen, seek sought sought, sell sold sold, send sent sent, sing sang sung,
sink sank sunk, sit sat sat, speak spoke spoken, spend spent spent, stand stood stood, steal stole stolen,
strike struck struck, swim swam swum, take took taken, teach taught taught, tell told told, think thought thought,
throw threw thrown, understand understood understood, wear wore worn, win won won, write wrote written,
bear bore born, show showed shown, run ran run, undergo underwent undergone, overthrow overthrew overthrown,
cast cast cast, cut cut cut, hit hit hit, put put put, set set set, split split split, spread spread spread
"""
_ROWS = [tuple(row.split()) for row in _IRREGULAR.replace("\n", " ").split(",")]
_BASE_OF_PAST = {past: base for base, past, _ in _ROWS}
_ENDS_IN_E = re.compile(r"(?:[aeiou][cszvgu]|[^aeiou]l|[rn][csgv]|at|ut|ir|in|id|ak|ok|am|as)ed$")
_S_FORMS = {"does": "do", "goes": "go", "has": "have", "lies": "lie", "dies": "die"}

PASTS = {past for _, past, _ in _ROWS}
"""Irregular past forms that stand without an auxiliary: wrote, took."""
PARTICIPLES = {participle for _, _, participle in _ROWS}
"""Irregular past participles: written, taken."""
BASES = {base for base, _, _ in _ROWS}
"""Base forms of the irregular verbs."""
UNMISTAKABLE = {
    form for row in _ROWS for form in row if len(set(row)) > 1
} - set("build catch deal draw drink drive feed fight fly hit hold lay lead left lie mean ride rise "
        "run show sink stand strike swim wear win thought felt burn saw".split())  # fmt: skip
"""Irregular forms that cannot be nouns as well."""


def base_form(verb: str) -> str | None:
    """Return the base form of a finite verb, where a rule gives it: `wrote` -> `write`, `stands` -> `stand`."""
    if verb in _BASE_OF_PAST or verb in _S_FORMS:
        return _BASE_OF_PAST.get(verb) or _S_FORMS[verb]
    if re.search(r"(?:ss|sh|ch|x|zz)es$", verb):
        return verb[:-2]
    if verb.endswith("ied"):
        return f"{verb[:-3]}y"
    if re.search(r"([bgmnprt])\1ed$", verb):
        return verb[:-3]
    if verb.endswith("ed"):
        return verb[:-1] if _ENDS_IN_E.search(verb) else verb[:-2]
    return verb[:-1] if re.fullmatch(r".*[a-z][^s]s", verb) else None
