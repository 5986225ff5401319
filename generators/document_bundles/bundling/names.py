"""Find the names that connect documents: one form for each name, none without meaning, each with its weight.

Reports of legislatures, offices and courts name who speaks with party and state, and address each other; these are no
names of what they report.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trailforge.generators.document_bundles.bundling.config import BundleConfig
from trailforge.retrieval import CaseCounts
from trailforge.retrieval.entities import Name, document_frequencies, rarity

_MOST_NAMES = 64
"""Of a document, those with the greatest weight."""
_ALWAYS_RARE = 10
"""A name in so many documents may join them, however few there are."""
_IN_PASSING = 0.5
"""Of a name that stands once."""
_FEWEST_OF_SOURCE = 8
"""Documents that tell what a source always names: of fewer most may be of one event."""
_PARTY = re.compile(r"[dri]-(?:[a-z.]{1,6}(?:-\d+)?|[a-z]+(?: [a-z]+)+)")
"""D-Va, R-TX-14, R-South Carolina."""
_STATE_OF = {
    "ariz": "arizona", "calif": "california", "colo": "colorado", "conn": "connecticut", "fl": "florida",
    "fla": "florida", "ill": "illinois", "minn": "minnesota", "mn": "minnesota", "nj": "new jersey", "ny": "new york",
    "okla": "oklahoma", "tenn": "tennessee", "tx": "texas", "wis": "wisconsin",
}  # fmt: skip
"""Abbreviations that are hardly anything else; VA, MD, CT or Miss. are."""
_MAYBE_STATE_OF = {
    "ga": "georgia", "ky": "kentucky", "mass": "massachusetts", "mich": "michigan", "neb": "nebraska", "nev": "nevada",
    "pa": "pennsylvania", "tex": "texas", "wash": "washington",
}  # fmt: skip
"""Others, which are a state where texts name it."""
_OFFICES = frozenset(
    "attorney general secretary senator sen senators rep reps representative representatives congressman congresswoman "
    "governor gov president chairman chairwoman chair ranking member members leader whip speaker director "
    "administrator commissioner ambassador mayor sheriff judge acting assistant deputy vice former dear hon "
    "honorable mr mrs ms dr".split()
)
"""Words that stand before somebody's name, or in place of it."""
_BEHIND_NAMES = frozenset("jr sr esq m.d d.o ph.d j.d m.a m.s b.a b.s m.b.a m.p.h r.n inc llc llp ltd corp".split())
"""What stands behind a person's or a firm's name, without a last full stop."""
_NOBODY = frozenset(
    "house senate congress congressional committee subcommittee caucus capitol republican republicans democrat "
    "democrats democratic gop washington section task bill act amendment resolution powers colleague colleagues "
    "h.r h.j h.res s.res s.j h.con s.con p.l u.s.c".split()
)
"""Of a legislature's reports, what all of them name, and what stands before the number of a bill or law."""
_PEOPLE = re.compile(r".+(?:ian|ican)s")
"""Iranians, Americans: but Williams is no William, nor are the Vikings a Viking."""


def joining_names(documents: Sequence[Sequence[Name]]) -> list[list[Name]]:
    """Return the names of each document that may connect it to others, with the variants of a name made one.

    A state's abbreviation becomes the state, the members of a people that people, a person with an office that person
    without it where texts have that name ("Attorney General Pam Bondi", "Pam Bondi"). Party tags, offices and degrees
    alone, and parts of a legislature, are removed.
    """
    known = document_frequencies(documents)
    return [_merged((key, name) for name in names if (key := _canonical(name.key, known))) for names in documents]


def _canonical(key: str, known: Counter[str]) -> str:
    """The key under which a name joins; empty for one that does not."""
    words = key.split(" ")
    offices = next((n for n, word in enumerate(words) if word.rstrip(".") not in _OFFICES), len(words))
    offices *= words[0] != "general"  # General Motors
    rest = " ".join(words[offices:])
    if offices and (not rest or words[offices] in ("of", "for")):  # an office alone: secretary of state
        return ""
    key = rest if offices and (known[rest] or rest in _NOBODY) else key
    bare = key.rstrip(".")
    state = _STATE_OF.get(bare) or (maybe if known[maybe := _MAYBE_STATE_OF.get(bare, "")] else "")
    key, bare = state or key, state or bare
    is_part = bare.endswith(" of")  # of the Department of the Treasury
    if _PARTY.fullmatch(key) or bare in _NOBODY or bare in _BEHIND_NAMES or is_part:
        return ""
    return key[:-1] if _PEOPLE.fullmatch(key) and known[key[:-1]] else key


def _merged(names: Iterable[tuple[str, Name]]) -> list[Name]:
    found: dict[str, Name] = {}
    for key, name in names:
        before = found.get(key)
        found[key] = name._replace(key=key) if before is None else before.joined(name)
    return list(found.values())


def name_weights(
    documents: Sequence[Sequence[Name]], config: BundleConfig, counts: CaseCounts, sources: Sequence[str] = ()
) -> list[dict[str, float]]:
    """Return for each document the names that may connect it, with weights; two documents score the sum of the products
    of the weights of the names that both have.

    A weight is the root of the name's rarity, and half of it where the document mentions the name in passing. A name in
    a list of names, such as signatories of a letter, says little about the document. A common term of the field, by
    `counts`, connects nothing: texts on SQL need have nothing in common. Nor does a name in most documents of one
    source, which stands for the source itself (`BundleConfig.source_name_share`); without `sources` none is taken for
    that.
    """
    own = _names_of_sources(documents, sources, config.source_name_share)
    speaking = [own[source] for source in sources] or [frozenset[str]()] * len(documents)
    total, frequencies = len(documents), document_frequencies(documents)
    most = max(_ALWAYS_RARE, config.max_name_share * total)
    return [
        {
            name.key: math.sqrt(rarity(name.key, frequencies, total)) * (1.0 if outside > 1 else _IN_PASSING)
            for name in names
            if (outside := name.count - name.in_lists)
            and 2 <= frequencies[name.key] <= most
            and name.key not in ours
            and not counts.is_field_word(name.text)
        }
        for names, ours in zip(documents, speaking, strict=True)
    ]


def _names_of_sources(
    documents: Sequence[Sequence[Name]], sources: Sequence[str], share: float
) -> dict[str, frozenset[str]]:
    """Of each source the names in more than this share of its documents; of one with few documents none."""
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for names, source in zip(documents, sources, strict=False):
        held[source].update({name.key for name in names})
    total = Counter(sources)
    return {
        source: frozenset(key for key, count in held[source].items() if count > share * count_of)
        if count_of >= _FEWEST_OF_SOURCE
        else frozenset()
        for source, count_of in total.items()
    }


def few_names(documents: Sequence[Sequence[Name]], config: BundleConfig) -> frozenset[str]:
    """Return the keys of the names that only few documents have: at most the share `config.few_share` of all, or a
    handful.
    """
    most = max(_ALWAYS_RARE, config.few_share * len(documents))
    return frozenset(key for key, count in document_frequencies(documents).items() if count <= most)


def name_arrays(documents: Sequence[Mapping[str, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers that stand for the names, and the names' weights, each as an array of shape (documents, most names
    of one document); number -1 and weight 0 fill up a document with fewer.
    """
    chosen = [sorted(names.items(), key=lambda item: (-item[1], item[0]))[:_MOST_NAMES] for names in documents]
    numbers = {name: number for number, name in enumerate(sorted({name for names in chosen for name, _ in names}))}
    shape = (len(documents), max(map(len, chosen), default=0))
    numbered, weights = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
    for row, names in enumerate(chosen):
        for place, (name, weight) in enumerate(names):
            numbered[row, place], weights[row, place] = numbers[name], weight
    return numbered, weights


def shared_names(first: Mapping[str, float], second: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the names that both documents have, each with what it adds to their score (the product of its weights),
    the largest first.
    """
    both = [(name, weight * second[name]) for name, weight in first.items() if name in second]
    return sorted(both, key=lambda item: (-item[1], item[0]))
