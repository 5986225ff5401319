"""Read the numbers in a text as plain figures, however they are written: in words, with a scale word, as a fraction, in
Roman.

`spell_in_figures` reads what is a number in any text. The other two read what may be one: "1.5M" can be a name, but
means 1,500,000 when it is compared with that. So the matcher tries them beside the text as it is.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from math import gcd

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
_UNITS += "seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_RANKS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
_RANKS += [f"{unit}th" for unit in _UNITS[13:]]
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALES |= {"lakh": 10**5, "lakhs": 10**5, "crore": 10**7, "crores": 10**7}
_VALUES = {
    **{word: value for value, word in enumerate(_UNITS)},
    **{word: value for value, word in enumerate(_RANKS)},
    **{word: 10 * value for value, word in enumerate(_TENS, start=2)},
    **{f"{word[:-1]}ieth": 10 * value for value, word in enumerate(_TENS, start=2)},
}
_RANK_WORDS = frozenset(_RANKS) | {f"{word[:-1]}ieth" for word in _TENS}
_SPELLED = "|".join(sorted(_VALUES, key=len, reverse=True))
_LARGE = "|".join(("hundred", *_SCALES))
_RUN = re.compile(rf"(?<![^\W_])(?:{_SPELLED})(?:(?: and |[ -])(?:{_SPELLED}|{_LARGE}))*(?![^\W_])")
_CURRENCIES = {"$": "dollars", "€": "euros", "£": "pounds", "₹": "rupees"}
_FIGURE = re.compile(
    rf"(?<![^\s(])(?:(?:us)?(?P<currency>[{''.join(_CURRENCIES)}]) ?)?"
    r"(?P<number>-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)"
    rf"(?:(?P<rank>st|nd|rd|th)|[ -]?(?P<scale>{'|'.join(_SCALES)})|(?P<letter>bn|[kmb]))?(?![^\W_]|[.,:/]\d)"
)
_LETTER_SCALES = {"k": 10**3, "m": 10**6, "b": 10**9, "bn": 10**9}
_PERCENT = re.compile(r"(?<=\w) ?%| per cent\b")

FRACTION_SIGNS = {"\u2044": "/"} | {
    sign: " " + unicodedata.normalize("NFKD", sign).replace("\u2044", "/")
    for sign in map(chr, (*range(0xBC, 0xBF), *range(0x2150, 0x215F), 0x2189))
}
"""Mapping for `str.maketrans` that writes ½ as 1/2, and 2½ as 2 1/2."""
_SIGNS = str.maketrans(FRACTION_SIGNS)
_AMOUNT = r"(?<![\w.,])(?P<number>\d[\d,]*(?:\.\d+)?)"
_SHORT_SCALES = {"k": "thousand", "m": "million", "mn": "million", "mln": "million"}
_SHORT_SCALES |= {"b": "billion", "bn": "billion", "tn": "trillion", "trn": "trillion"}
_SHORTENED = re.compile(rf"{_AMOUNT}(?: ?(?P<long>bn|mn|mln|tn|trn)|(?P<letter>[KkMB]))(?!\w)")
"""In lower case "m" may be metres."""
_HAN_SCALES = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_HAN = re.compile(r"(?<![\d.,])(?P<number>\d[\d,]*(?:\.\d+)?) ?(?P<scale>[万萬亿億])(?![\d万萬亿億])")
_SEPARATED = re.compile(
    r"(?<![\w.,])(?:\d{1,3}([.' \u2019\xa0\u2009\u202f])\d{3}(?:\1\d{3})+"  # 1.500.000, 1 500 000
    r"|\d{1,3}['\u2019\xa0\u2009\u202f]\d{3}|\d{1,2}(?:,\d\d)+,\d{3})(?!\w|[.,]\d)"  # 40'000; 15,00,000
)
_FRACTION = re.compile(r"(?<![\w.,/])(?:(?P<whole>\d+)(?: |-| and ))?(?P<part>\d{1,3})/(?P<of>\d{1,3})(?!\w|[./]\d)")
_TIME = re.compile(
    r"(?<![\w:.,])(?P<hour>\d{1,2})(?:[:.](?P<minute>[0-5]\d))?(?: ?(?P<half>[ap])\.? ?m\b\.?)?(?![\w:]|[.,]\d)",
    re.IGNORECASE,
)
_CODES = {"USD": "$", "EUR": "€", "GBP": "£", "INR": "₹"}
_CODE_BEFORE = re.compile(rf"\b({'|'.join(_CODES)}) ?(?=\d)")
_CODE_BEHIND = re.compile(rf"(?<=\w) ({'|'.join(_CODES)})\b|(?<=\w) (?:US|U\.S\.) (?=dollars\b)")
_ROMAN = re.compile(r"(?<=\w) (?=[IVXL]{2})(?P<tens>XL|L?X{0,3})(?P<units>IX|IV|V?I{0,3})(?!\w)")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}


def spell_in_figures(folded: str) -> str:
    """Return a text with its numbers as plain figures: spelled ones, ranks, thousands, "2.5 million", "$4.3B", "5
    %"."""
    spelled = _RUN.sub(lambda match: " ".join(_read_figures(match[0])), folded)
    return _PERCENT.sub(" percent", _FIGURE.sub(_plain_figure, spelled))


def spell_in_words(figures: str) -> str:
    """Return a whole number up to twenty in words; empty for any other text."""
    return next((word for word, value in _VALUES.items() if str(value) == figures and word not in _RANK_WORDS), "")


def find_currencies(text: str) -> frozenset[str]:
    """Return the signs of currencies in a text."""
    return frozenset(_CURRENCIES).intersection(text)


def restate_quantities(text: str) -> str:
    """Rewrite amounts and times, in a text that is not folded, to the forms that `spell_in_figures` and the readings
    take.

    "1.5M", "3 bn", "150万", "1.500.000", "15,00,000", "½" as 0.5, "2 1/2", "10 pm" as 22:00, "USD 5" as $5. A fraction
    is read where it is below one, in lowest terms, and ends in decimals: 4/4 may be a time signature, 2/4 a score.
    """
    if not any(map(str.isnumeric, text)):
        return text
    text = _SEPARATED.sub(lambda match: re.sub(r"\D", "", match[0]), text.translate(_SIGNS))
    text = _SHORTENED.sub(lambda m: f"{m['number']} {_SHORT_SCALES[(m['long'] or m['letter']).lower()]}", text)
    text = _HAN.sub(lambda m: f" {_times(m['number'].replace(',', ''), _HAN_SCALES[m['scale']])} ", text)
    text = _TIME.sub(_time_of_day, _FRACTION.sub(_decimal, text))
    text = _CODE_BEFORE.sub(lambda match: _CODES[match[1]], text)
    return _CODE_BEHIND.sub(lambda m: f" {_CURRENCIES[_CODES[m[1]]]}" if m[1] else " ", text).strip()


def restate_numerals(text: str) -> str:
    """Rewrite Roman numerals from 2 to 89 as figures, in capitals behind a word: "World War III"; a single letter is
    none."""
    return _ROMAN.sub(_arabic, unicodedata.normalize("NFKC", text.translate(_SIGNS)))


def _decimal(match: re.Match[str]) -> str:
    whole, part, of = (int(match[name] or 0) for name in ("whole", "part", "of"))
    if not 0 < part < of or gcd(part, of) > 1 or 10**9 % of:
        return match[0]
    return f"{whole + Decimal(part) / Decimal(of)}"


def _time_of_day(match: re.Match[str]) -> str:
    hour, minute, half = int(match["hour"]), match["minute"] or "00", (match["half"] or "").lower()
    if not (1 <= hour <= 12 if half else match["minute"] and ":" in match[0] and hour < 24):
        return match[0]
    hour = hour % 12 + 12 * (half == "p") if half else hour
    return f"{hour:02}:{minute}"


def _arabic(match: re.Match[str]) -> str:
    values = [_ROMAN_VALUES[letter] for letter in match["tens"] + match["units"]]
    following = [*values[1:], 0]
    return f" {sum(-one if one < then else one for one, then in zip(values, following, strict=True))}"


def _plain_figure(match: re.Match[str]) -> str:
    number, currency, letter = match["number"].replace(",", ""), match["currency"], match["letter"]
    if letter and not currency:  # "5m" may be metres
        return match[0]
    scale = _SCALES.get(match["scale"] or "") or _LETTER_SCALES.get(letter or "") or 1
    figures = _times(number, scale)
    return f"{figures} {_CURRENCIES[currency]}" if currency else figures


def _times(number: str, scale: int) -> str:
    """The product in figures, without zeros behind a decimal point. Works on digits: no number is too long for it."""
    whole, _, decimals = number.partition(".")
    places = len(str(scale)) - 1
    decimals = decimals.ljust(places, "0")
    whole, decimals = whole + decimals[:places], decimals[places:].rstrip("0")
    if scale > 1:
        whole = whole.lstrip("0") or "0"
    return f"{whole}.{decimals}" if decimals else whole


def _read_figures(run: str) -> list[str]:
    """The numbers of a run of spelled ones, and the `and`s between them: "two hundred and five" is one number."""
    numbers: list[str] = []
    total = group = room = 0
    limit, linked = 0, False
    for word in run.replace("-", " ").split():
        if word == "and":
            linked = True
            continue
        scale, value = _SCALES.get(word), _VALUES.get(word)
        fits_on = False
        if word == "hundred":
            fits_on = room in (1, 10) and 1 <= group % 1000 <= 99 and not linked
        elif scale:
            fits_on = bool(numbers) and group > 0 and scale < limit and not linked
        elif value is not None:
            fits_on = value < room and value > 0 and (room > 10 or not linked)
        if not fits_on and value is None:
            numbers += ["and", word] if linked else [word]
            room = limit = group = total = 0
            linked = False
            continue
        if word == "hundred":
            group, room = 100 * group, 100
        elif scale:
            total, group, room, limit = total + scale * group, 0, 1000, scale
        elif value is not None:
            if not fits_on:
                numbers += ["and", ""] if linked and numbers else [""]
                total, group, limit = 0, 0, 10**15
            group += value
            room = 10 if value >= 20 and not value % 10 else 1
        if word in _RANK_WORDS:
            room, limit = 0, 0
        linked = False
        numbers[-1] = str(total + group)
    return numbers
