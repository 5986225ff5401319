"""Word classes of the words of a question: closed classes by list, the others by their endings.

A word may belong to several classes; an unknown one may be a noun, and a verb in its base form.
"""

from __future__ import annotations

import re

from trailforge.small_model.splitting.names import MASK, mask_names
from trailforge.small_model.splitting.verbs import BASES, PARTICIPLES, PASTS, UNMISTAKABLE
from trailforge.small_model.splitting.words import DETERMINERS, PLACE_NOUNS, PREPOSITIONS, RELATIONAL

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


def word_classes(text: str, *, begins: bool) -> list[frozenset[str]]:
    """One set of classes for each word; a name or a reference is one word, commas and the end mark are none.

    `begins`: the text begins a sentence, so that the capital of its first word may mean nothing.
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
