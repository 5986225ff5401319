"""English verb forms: the irregular ones by table, the regular ones by their endings."""

from __future__ import annotations

import re

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
"""Irregular past forms that stand with no auxiliary: wrote, took."""
PARTICIPLES = {participle for _, _, participle in _ROWS}
"""Irregular past participles: written, taken."""
BASES = {base for base, _, _ in _ROWS}
"""Base forms of the irregular verbs."""
UNMISTAKABLE = {
    form for row in _ROWS for form in row if len(set(row)) > 1
} - set("build catch deal draw drink drive feed fight fly hit hold lay lead left lie mean ride rise "
        "run show sink stand strike swim wear win thought felt burn saw".split())  # fmt: skip
"""Irregular forms that are no nouns as well."""


def base_form(verb: str) -> str | None:
    """Base form of a finite verb, where a rule gives it: `wrote` -> `write`, `stands` -> `stand`."""
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
