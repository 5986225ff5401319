"""Lists of English words: prepositions, months and dates, and forms of verbs, for making questions by rule.

The verbs are numerous enough that news and abstracts yield questions. Other verbs are left alone: a question that is
not asked costs nothing, a wrong form does.
"""

from __future__ import annotations

PREPOSITIONS = (
    "in on at from to for by with about near under after before during into over through against around within "
    "along of as since until above below between beside off behind towards"
).split()
"""Prepositions that a noun phrase follows."""
WIDE_PREPOSITIONS = (
    "of in on at from to for by with about near under after before during into between over through against around "
    "within along across besides behind beside outside as like since until via out up off down than alongside past"
).split()
"""Prepositions, with those that a question may end on or that join its parts."""

MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
DATE = rf"(?:\d{{1,2}} (?:{MONTHS})(?: \d{{4}})?|(?:{MONTHS}) \d{{1,2}}(?:, \d{{4}})?|(?:{MONTHS}) \d{{4}})(?!\w)"
"""A pattern for a date, with or without its year."""

AUXILIARIES = frozenset("is are was were has have had can could will would may might must should".split())
"""Auxiliary verbs, which change places with the subject in a question; so does to be as a main verb."""

_IRREGULAR = """
arise arose arisen|bear bore borne|beat beat beaten|become became become|begin began begun|bend bent bent|bind bound
bound|bite bit bitten|blow blew blown|break broke broken|bring brought brought|build built built|burn burned burned|
buy bought bought|catch caught caught|choose chose chosen|come came come|cut cut cut|deal dealt dealt|dig dug dug|draw
drew drawn|drive drove driven|eat ate eaten|fall fell fallen|feed fed fed|feel felt felt|fight fought fought|find found
found|flee fled fled|fly flew flown|forbid forbade forbidden|freeze froze frozen|get got got|give gave given|go went
gone|grow grew grown|hear heard heard|hide hid hidden|hit hit hit|hold held held|keep kept kept|know knew known|lay
laid laid|lead led led|leave left left|lend lent lent|lie lay lain|lose lost lost|make made made|mean meant meant|meet
met met|overcome overcame overcome|pay paid paid|put put put|ride rode ridden|ring rang rung|rise rose risen|run ran
run|say said said|see saw seen|seek sought sought|sell sold sold|send sent sent|set set set|shake shook shaken|shine
shone shone|shoot shot shot|show showed shown|sing sang sung|sink sank sunk|sit sat sat|sleep slept slept|speak spoke
spoken|spend spent spent|spread spread spread|stand stood stood|steal stole stolen|strike struck struck|swim swam
swum|take took taken|teach taught taught|tear tore torn|tell told told|think thought thought|throw threw thrown|
undergo underwent undergone|understand understood understood|wear wore worn|win won won|withdraw withdrew withdrawn|
write wrote written
"""
"""Base, past and participle."""

_REGULAR = """
accept achieve acquire add adopt agree aim allow analyse analyze announce appear apply appoint approve argue arrive ask
assemble attach attack attend award ban base belong bleach bore bounce call cancel capture carry cast cause celebrate
change circle claim climb close collect combine compare compete complete compose confirm connect consist construct
contain continue contribute control convert cool cost cover create cross cure damage date decide declare defeat defend
define deliver demand deploy deposit derive describe design destroy detect determine develop devise die differ direct
disappear discover discuss display dissolve divide double drop earn elect embed emerge emit employ enable encourage
end endorse enter erect establish estimate evaluate examine exceed expand expect explain explode explore express extend
fail feature fill finance finish fire fit follow force form formulate found gain gather generate govern handle happen
head help host identify illustrate imitate implement impose improve include increase inform inherit inspect inspire
install integrate interpret introduce invade invent invest investigate invite involve issue join judge jump kill lack
land last launch leak learn limit link list live load locate maintain manage map mark master measure melt merge mine
monitor move name need note notice observe obtain occupy occur offer open operate oppose orbit order organise organize
originate outperform own paint pass patent perform photograph pick plan plant play predict prepare present preserve
prevent produce promise promote propose protect prove provide publish pull purchase push question raise reach receive
recognise recognize recommend record recover reduce refer reflect refuse reject relate release remain remove repair
replace report represent request require rescue resemble resign resist restore result retain retire return reveal
review roll rule sail sample scan score search secure select separate serve settle shape share sign smell solve
sponsor star start state stay stop store stretch study submit succeed suffer suggest supply support surround survive
suspend target test touch trace track trade train transfer transform translate transport travel treat trigger turn
unite unveil use utilise utilize value visit vote wait walk want warn watch weigh wipe work
"""


def _doubles(verb: str) -> bool:
    """Whether the last letter is doubled before -ed: `stop`, `plan`, but neither `visit` nor `open`."""
    return verb in {"ban", "drop", "fit", "map", "plan", "scan", "star", "stop", "submit", "transfer", "travel",
                    "cancel", "refer", "occur", "control", "emit", "embed"}  # fmt: skip


def _past(verb: str) -> str:
    if verb == "cast" or verb == "cost":
        return verb
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y") and verb[-2] not in "aeou":
        return f"{verb[:-1]}ied"
    return f"{verb}{verb[-1] if _doubles(verb) else ''}ed"


def _third(verb: str) -> str:
    if verb.endswith(("s", "x", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2] not in "aeou" else f"{verb}s"


_FAMILIES = "die died dies dying dead death deaths|born birth births birthplace birthplaces|wed wedding weddings"
"""Words of one meaning that no ending tells."""
_INFLECTED = ("ings", "ing", "edly", "ed", "ies", "es", "ly", "s", "y", "e")
_DERIVED = ("ments", "ment", "ians", "ian", "ions", "ion", "ists", "ist", "ers", "er", "ors", "or", "ive", "al", "o")
_SHORTEST_INFLECTED, _SHORTEST_DERIVED = 3, 4
"""Letters that are left of a word without such an ending, at least."""
_FORMS = [row.split() for row in " ".join(_IRREGULAR.split()).split("|")]

PARTICIPLES = frozenset({*(part for _, _, part in _FORMS), *(_past(verb) for verb in _REGULAR.split())})
"""Participles that can follow to be or to have."""
PAST = {past: base for base, past, _ in _FORMS} | {_past(verb): verb for verb in _REGULAR.split()}
"""Base form of each past form."""
THIRD = {_third(verb): verb for verb in (*(base for base, _, _ in _FORMS), *_REGULAR.split())}
"""Base form of each third person of the present. Many of these forms are plural nouns, too."""


def is_finite(word: str) -> bool:
    """Tell whether a word can be the verb of a main clause."""
    return word in AUXILIARIES or word in PAST or word in THIRD


def inverted(verb: str) -> tuple[str, str]:
    """Return what comes before and after the subject when a verb is put into a question: `was` -> (`was`, ``), `opened`
    -> (`did`, `open`).
    """
    if verb in AUXILIARIES:
        return verb, ""
    return ("did", PAST[verb]) if verb in PAST else ("does", THIRD[verb])


def stem_of(word: str) -> str:
    """Return what forms of a lower-case word have in common, so that `libretto` and `librettist`, `wrote` and `writer`,
    `died` and `death` have one stem. Names and other languages lose an ending that looks like an English one.
    """
    word = _BASES.get(word, word)
    for endings, least in ((_INFLECTED, _SHORTEST_INFLECTED), (_DERIVED, _SHORTEST_DERIVED)):
        ending = next((each for each in endings if word.endswith(each) and len(word) - len(each) >= least), "")
        word = word.removesuffix(ending)
    return word


_BASES = {
    **{form: forms[0] for forms in _FORMS for form in forms},
    **{form: base for base, *forms in (family.split() for family in _FAMILIES.split("|")) for form in (base, *forms)},
}
"""Base form of each form that is irregular."""
