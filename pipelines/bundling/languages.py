"""Guess a text's language by its most common words.

No language detector is among our packages, and the sources say what they publish in; this only has to catch what is
plainly something else. Each list holds words that make up much of running text in its language. Some stand in two:
shares are compared, so that does no harm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

COMMON_WORDS: dict[str, frozenset[str]] = {
    code: frozenset(words.split())
    for code, words in {
        "en": "the of and to is that for on with as was at by are be this have from or had his her not but they "
        "which it you were their has we been its will would an there can our more than these who",
        "de": "der und den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus "
        "er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum haben nur oder",
        "fr": "le les et des du une est dans qui pour pas au sur ne se ce il sont avec plus par cette ont ses "
        "aux mais nous comme ou leur elle été être fait ces deux même",
        "es": "el los y las del que por con una su para es al lo como más pero sus le ha sí porque esta entre "
        "cuando muy sin sobre también hasta hay donde fue han desde",
        "it": "il di che è della per gli sono nel una con alla dei dal non le più delle anche ha come si lo ma "
        "al questo suo stato nella essere degli tra",
        "pt": "o os que do da em um uma para com não é no na dos se mais as por ao foi das tem à seu sua ou ser "
        "quando muito há nos já está também pelo pela",
        "nl": "de het een van en dat op te voor met zijn niet aan er om ook als dan bij maar hij naar uit nog "
        "wordt door over werd heeft hebben deze kan worden",
    }.items()
}


def common_shares(words: Iterable[str]) -> dict[str, float]:
    """For each known language, which share of the (case-folded) words is among its most common; 0 for no words."""
    counts = Counter(words)
    total = max(counts.total(), 1)
    return {code: sum(counts[word] for word in common) / total for code, common in COMMON_WORDS.items()}
