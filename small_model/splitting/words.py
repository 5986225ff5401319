"""Word lists of the rules for splitting: grammatical words, words that describe, and words that say too little."""

from trailforge.retrieval.english import WIDE_PREPOSITIONS

DETERMINERS = "the a an this that his her its their"
AUXILIARIES = "is are was were be been being do does did has have had can could will would may might should"
PREPOSITIONS = " ".join(WIDE_PREPOSITIONS)
RELATIVES = "that which who whom whose where when"
_QUESTION_WORDS = "what which who whom whose where when why how"
_OTHER_FUNCTION_WORDS = (
    "and or but nor not if there it he she they we you i him them us me my our your also then only so because while "
    "just ever still same many much long old"
)
_PEOPLE = (
    "actor actress animator anchor architect artist astronaut athlete author ballerina boyfriend brother builder "
    "captain cartoonist ceo chairman champion chancellor character child co-founder coach comedian commander composer "
    "conductor co-writer creator dancer daughter designer developer director discoverer drummer editor emperor "
    "empress engineer executive explorer father fiance figure fiancee filmmaker founder general girl girlfriend "
    "governor grandfather grandmother guitarist guy head heir host husband illustrator individual inventor journalist "
    "judge killer king lady leader lyricist man manager mathematician mayor member men minister monarch mother "
    "musician nephew niece novelist officer owner painter parent partner patron people performer person philosopher "
    "physicist pianist pilot player playwright poet politician pope predecessor presenter president priest prince "
    "princess producer professor publisher queen quarterback rapper ruler sailor saint scholar scientist screenwriter "
    "sculptor senator sibling singer sister soldier someone son songwriter spouse star starring student sultan "
    "successor teacher uncle vocalist wife winner woman women writer betrothed namesake signer one singers performers"
)
_PLACES = (
    "airport area birthplace body borough bridge building campus capital cemetery church city colony continent "
    "country county department district division empire hometown headquarters hospital island kingdom lake location "
    "mountain municipality museum nation neighborhood neighbourhood park place province region republic river school "
    "settlement site state street suburb territory town university venue village ward"
)
_WORKS_AND_GROUPS = (
    "agency airline album alma_mater anime army association band bank book branch brand broadcaster channel club "
    "company conference corporation distributor division employer event festival film firm franchise game group "
    "institution journal label language league magazine manufacturer movement movie network newspaper novel operator "
    "order organisation organization orchestra parent party platform poem production project religion show song sport "
    "station story studio subsidiary team tournament tribe university war brewery nationality ethnicity"
)
APPOSED = set(
    "state city town village country county province kingdom republic island isle university college bank house "
    "battle district region municipality continent territory empire duchy bay gulf lake river month year name word "
    "term parish borough people church department institute treaty nation"
)
"""Nouns that name rather than describe before `of NAME`: the city of Rome."""
LIGHT = set(
    "name names type kind list number date time year day month end beginning start part member first last full meaning "
    "way reason result amount rest term version called named one used place"
)
"""Nouns too empty to be looked up, or to be all that a question still asks."""
PERSON_BARE = {"person", "people", "individual", "man", "woman", "men", "women", "someone", "guy", "one"}
"""Nouns that say no more than `who`."""
TITLE_GLUE = {"of", "the", "and", "de", "la", "le", "du", "von", "van", "der", "den", "di", "da", "del", "al", "&"}
LOOSE_GLUE = {"in", "on", "for", "to", "a", "an", "at", "with", "from", "by", "my", "your"}
FOREIGN_ARTICLES = {"La", "Le", "Les", "El", "Los", "Las", "Il", "Der", "Das"}
"""Articles of other languages; before a small letter they begin a title: La traviata."""
SENTENCE_STARTERS = set(
    f"{DETERMINERS} {AUXILIARIES} {PREPOSITIONS} {_QUESTION_WORDS} {_OTHER_FUNCTION_WORDS} these those".split()
)
FUNCTION_WORDS = set(
    f"{DETERMINERS} {AUXILIARIES} {PREPOSITIONS} {RELATIVES} {_QUESTION_WORDS} {_OTHER_FUNCTION_WORDS}".split()
)
PERSON_NOUNS = set(_PEOPLE.split())
PLACE_NOUNS = set(_PLACES.split())
RELATIONAL = (PERSON_NOUNS | PLACE_NOUNS | set(_WORKS_AND_GROUPS.split())) - LIGHT
STOOD_ON = set("island isle peninsula continent planet moon street road coast shore".split())
"""Nouns of places that one is on rather than in."""
SITUATED = {"located", "situated", "found", "based", "called"}
