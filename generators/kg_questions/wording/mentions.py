"""How a question names a start: with its article, and with its kind where the name alone may mean something else."""

from __future__ import annotations

import re

from trailforge.schemas import KgNode

_WITH_KIND = frozenset(
    "album ballet book film memoir novel novella opera painting palace play poem ship song sculpture symphony musical "
    "asteroid comet".split()
) | {"short story", "musical group", "space probe", "computer program", "video game"}
"""Works and things whose names are often words, or other things' names."""
_WITH_ARTICLE = frozenset(
    "river sea ocean strait bay empire dynasty canal museum theatre ship particle award".split()
) | {"mountain range", "film award", "space telescope"}
_FIRST = re.compile(
    r"(?:\w+ )?"
    r"(?:University|Battle|Republic|Kingdom|Museum|Church|Palace|Tower|House|Treaty|Isle|Bay|Gulf|Sea|Strait|Institute|"
    r"Academy|Order|Duchy|Empire|Temple|Statue|Bank|Government|Siege|Library|College) (?:of|for) "
)
_LAST = re.compile(
    r" (?:River|Sea|Ocean|Museum|Prize|Award|Empire|Dynasty|Academy|Orchestra|Party|League|Strait|Canal|Republic|Union|"
    r"Kingdom|Islands|States|Emirates|Nations|Gallery|Alps|Mountains|Institute|Basin|Peninsula|Desert|Band|Medal)$"
)
_BARE = re.compile(r"(?i)(?:the|la|le|les|el|los|las|il)\b|.* (?:Castle|Hall)$")
"""With an article of their own, in whatever language, or without any."""
_NAMED_SO = frozenset("Netherlands Philippines Maldives Bahamas Gambia Vatican Moon Sun Beatles".split())


def mention_of(node: KgNode) -> str:
    """Its label, as it stands in a sentence."""
    label = node.label
    if node.kind in _WITH_KIND and node.kind.split()[-1] not in label.casefold().split():
        return f"the {node.kind} {label}"
    if _BARE.match(label) or label[:1].islower() or label[:1].isdigit():
        return label
    wants = node.kind in _WITH_ARTICLE or _FIRST.match(label) or _LAST.search(label) or label in _NAMED_SO
    return f"the {label}" if wants and "'" not in label.split()[0] else label
