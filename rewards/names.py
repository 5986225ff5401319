"""Find other names of an answer that is only a name: those of a country's people, and shorter forms of places and
companies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trailforge.rewards.reading import LONGEST_NAME, fold, is_number, name_key, nations, peoples, read

_KIND = (
    "film movie album song single ep band group musician singer rapper composer actor actress director filmmaker "
    "producer writer author poet painter artist politician footballer player novel book play opera musical magazine "
    "newspaper comics manga series show episode game company label city town village river island county "
    "district state country"
)
_RANK = (
    "king queen prince princess emperor empress tsar tsarina duke duchess archduke archduchess count countess earl "
    "baron baroness viscount viscountess marquess marquis marchioness margrave margravine landgrave landgravine "
    "elector lord lady dauphin infante infanta"
)
_NAMESAKE = re.compile(
    rf"(?P<bracketed>[^()]*\w[^\s()]*) ?\((?:[^()]*\b)?(?:{_KIND.replace(' ', '|')})\)"
    rf"|(?P<ranked>[^,]+), (?:the )?(?:\d+(?:st|nd|rd|th) )?(?:(?:crown|grand|holy) )?(?:{_RANK.replace(' ', '|')})"
    r" (?:of|de|consort of) .+"
)
"""A name and what tells it from its namesakes."""
_CORNER = re.compile(
    r"(?:in )?(?:the )?(?P<side>north|south)[- ]?(?P<half>east|west)(?:(?:ern)? part of|ern| of|) (?:the )?"
    r"(?P<place>\S.*)",
    re.IGNORECASE,
)
"""Of a country or region: "northeastern Iran", "the north-east of Iran"."""
_NUMERAL = re.compile(r"[ivxl]+")
_REGIONS = frozenset(
    part.strip()
    for part in (
        "alabama, alaska, arizona, arkansas, california, colorado, connecticut, delaware, florida, georgia, hawaii, "
        "idaho, illinois, indiana, iowa, kansas, kentucky, louisiana, maine, maryland, massachusetts, michigan, "
        "minnesota, mississippi, missouri, montana, nebraska, nevada, new hampshire, new jersey, new mexico, new york, "
        "north carolina, north dakota, ohio, oklahoma, oregon, pennsylvania, rhode island, south carolina, "
        "south dakota, tennessee, texas, utah, vermont, virginia, washington, west virginia, wisconsin, wyoming, "
        "puerto rico, alberta, british columbia, manitoba, new brunswick, newfoundland and labrador, nova scotia, "
        "ontario, prince edward island, quebec, saskatchewan, new south wales, queensland, south australia, tasmania, "
        "victoria, western australia"
    ).split(",")
)
"""Of the United States, Canada and Australia, where places are told with them."""
_OLD_WORLD = frozenset(
    "alexandria amsterdam athens bath berlin bern birmingham bristol brussels cairo calais cambridge canton carthage "
    "cordoba delhi dresden dublin edinburgh florence geneva genoa glasgow hamburg hanover havana jerusalem lima lisbon "
    "liverpool london lyons madrid manchester melbourne memphis milan moscow naples nazareth odessa oxford palermo "
    "paris perth plymouth portsmouth rome rotterdam sparta sydney syracuse toledo troy turin venice verona versailles "
    "vienna warsaw york".split()
)
"""Cities whose names others have taken: alone such a name is the old one's, and "Paris" is not "Paris, Texas"."""
_MOST_PLACE_WORDS = 3
_LEGAL_FORMS = frozenset(
    "Inc Incorporated Corp Corporation Ltd Ltda LLC LLP PLC Plc plc GmbH mbH AG KG KGaA OHG eG SA SAS SASU SARL Sarl "
    "SRL Srl SpA NV BV AB AS ASA Oy Oyj ApS Pty Pte Pvt Sdn Bhd KK JSC PJSC OJSC CJSC Zrt Nyrt Kft".split()
)
"""By which companies are founded, without stops and strokes. Not those that are other words, too: LP, SE, Limited."""
_NO_LETTER = re.compile(r"[\W_]")
_PRIVATE = frozenset("Pty Pte Pvt Private".split())
"""Before "Limited" or "Ltd"."""
_SHORT_FORM = 2
"""Letters of a form that may be something else behind words that name nothing: blood type AB."""
_OF_COMPANIES = re.compile(r",? (?:Holdings?|Group|Company|Co)\.?,?$")
"""Left out with the legal form behind it alone: the Virginia Company is no Virginia."""


def other_names(name: str) -> tuple[str, ...]:
    """Return the other names of a name that is the whole answer; empty for most texts.

    A country's name and those of its people stand for each other ("France", "French"). "Metropolis (1927 film)" is
    Metropolis, and "Jeanne de Bar, Countess of Marle" is Jeanne de Bar; but "Paris, Texas" is not Paris, nor is "Louis,
    Duke of Orléans" just any Louis. "Tumi Holdings, Inc." is Tumi; but "The Darjeeling Limited" is all of its name.
    "Northeastern Iran" is the north-east of Iran.
    """
    if len(name) >= LONGEST_NAME:
        return ()
    nation = nations().get(name_key(name), ()) or corner_names(name)
    if companies := company_names(name):
        return (*nation, *companies)
    match = _NAMESAKE.fullmatch(fold(name))
    if match is None:
        return nation
    core = match["bracketed"] or match["ranked"]
    words = [word for word in read(core, joined=True).words if not _NUMERAL.fullmatch(word)]
    is_name = bool(words) and not is_number(words[0]) and (bool(match["bracketed"]) or len(words) > 1)
    return (*nation, core) if is_name else nation


def is_people(name: str) -> bool:
    """Tell whether a name is what the people of a country are called, and not the name of a country or place:
    "Italian", "the Dutch".
    """
    return name_key(name) in peoples()


def country_names(name: str) -> tuple[str, ...]:
    """Return a country's other names, not those of its people; none of two letters, which are words, too."""
    names = nations().get(name_key(name), ())
    return tuple(each for each in names if each != name and not is_people(each) and len(each) > _SHORT_FORM)


def corner_names(name: str) -> tuple[str, ...]:
    """Return the other names of a part of a country or region: "north-east of Iran" for "northeastern Iran".

    The result is empty for other texts: what lies north-east of a city is not in it. The matcher reads neither hyphens
    nor articles.
    """
    match = _CORNER.fullmatch(name.strip())
    if match is None or not (name_key(match["place"]) in nations() or name_key(match["place"]).strip() in _REGIONS):
        return ()
    side, half, place = match["side"].lower(), match["half"].lower(), match["place"]
    corners = (f"{side}{half}", f"{side} {half}")
    ways = (way for corner in corners for way in (f"{corner}ern", corner, f"{corner} of", f"{corner}ern part of"))
    return tuple(f"{way} {place}" for way in ways)


def company_names(name: str) -> tuple[str, ...]:
    """Return a company's name without its legal form, the longest first; empty for a name that has none."""
    words, is_cut = name.split(), False
    while left := _count_form(words, is_cut):
        words, is_cut = words[:-left], True
    text = " ".join(words).rstrip(",& ")
    if text == name.strip() or not _is_name(text):
        return ()
    short = _OF_COMPANIES.sub("", text)
    return (text, short) if short != text and _is_name(short) else (text,)


def _count_form(words: Sequence[str], is_cut: bool) -> int:
    """How many words at the end are a legal form, 0 for none. `is_cut`: whether another one stood behind them."""
    if not words[1:]:
        return 0
    last, before = words[-1], words[-2].strip("(),.")
    bare = _NO_LETTER.sub("", last)
    if (bare in ("Co", "Company") and before in ("&", "and")) or (bare == "CV" and before == "de"):
        return 2
    if bare == "Limited":
        return int(words[-2].endswith(",") or before in _PRIVATE)
    if bare == "Co":
        return int(is_cut or last.endswith("."))
    if bare in ("Private", "SE") or last == "&":
        return int(is_cut)
    is_named = len(bare) > _SHORT_FORM or last != bare or any(map(str.isupper, "".join(words[:-1])))
    is_state = bare == last == "NV"  # "Reno NV", but "Aegon N.V."
    return int(bare in _LEGAL_FORMS and is_named and not is_state)


def _is_name(text: str) -> bool:
    """Has it words, and is it no place: Virginia Holdings, Inc. is not Virginia."""
    key = name_key(text)
    return bool(key.strip()) and key.strip() not in _REGIONS | _OLD_WORLD and key not in nations()


def place_alone(gold: str) -> str:
    """Return the place of "Montreal, Quebec", without the known region or country that ends the answer; empty for other
    texts.

    The result is also empty for a country or region in a list of such, and for an old city's name before another's
    region.
    """
    place, *around = fold(gold).split(",")
    name, *regions = (name_key(part).strip() for part in (place, *around))
    if len(regions) not in (1, 2) or not 1 <= len(name.split()) <= _MOST_PLACE_WORDS:
        return ""
    if regions[-1] not in _REGIONS and name_key(around[-1]) not in nations():
        return ""
    is_region = name in _REGIONS or name_key(place) in nations()
    is_taken = name in _OLD_WORLD and not _REGIONS.isdisjoint(regions)
    return "" if is_region or is_taken or any(map(is_number, name.split())) else place
