"""Decide which documents are worth bundling: long enough, in a wanted language, and prose rather than markup or tables.

Like `filters/`, a check answers with a `Verdict` and drops nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from trailforge.retrieval import words_of
from trailforge.schemas import InvalidInput, SourceDocument, Verdict

_MARKUP = re.compile(r"<[a-zA-Z/!][^<>]{0,500}>|&#?\w{1,10};|\{\{[^{}]{0,500}\}\}|\[\[|\]\]|https?://\S+|[{}|<>]")
"""Tags, entities, templates, links, addresses, and the characters that code and tables are made of."""


_JUNK_TITLE = re.compile(
    r"(?:this is (?:just )?a )?test(?:ing)?(?: (?:page|post|article|document|entry|story))?(?: \d+)?"
    r"|(?:untitled|sandbox|main page|placeholder|page not found|404(?: not found)?|access denied|just a moment"
    r"|subscribe to read|are you a robot|coming soon|under construction)(?: \d+)?",
    re.IGNORECASE,
)
"""Whole titles of pages that say nothing."""
_CUT_OFF = re.compile(r"(?:…|[….]\]|\b(?:read|learn) more|continue reading)$", re.IGNORECASE)
"""The end of a teaser, without the arrows and stops behind it."""
_BEHIND = " \t»>→."
_LONGEST_END = 20
"""Characters that are looked at, of a line of any length."""
_FEWEST_TEASERS = 3
_JUNK_BEGINNING = re.compile(
    r"\W*(?:this is (?:just )?a test\b|test page\b|page not found\b|please enable (?:javascript|cookies)\b"
    r"|checking your browser\b|verify you are (?:a )?human\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentConfig:
    """Limits on a document's cleaned text; its title is not counted."""

    min_words: int = 50
    """Fewest words of a text. Below, it holds hardly a fact that a question could need; an arXiv abstract has 100 to
    250."""
    max_words: int = 10_000
    min_characters: int = 200
    max_characters: int = 100_000
    max_markup: float = 0.1
    """Largest share of characters that are markup."""
    min_letters: float = 0.6
    """Smallest share of letters among the characters that are no white space; of 3,600 articles and abstracts the
    median has 0.96, the least 0.80."""
    languages: tuple[str, ...] = ("en",)
    """ISO 639-1 codes of the accepted languages, of those in `languages.COMMON_WORDS`; empty: any language."""
    min_common_words: float = 0.1
    """Smallest share of words that are among a language's common words. Of 1,770 English news articles all but one have
    0.20 and more, of 1,830 abstracts full of terms all have 0.12; the one article is Latin filler with 0.04."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a language that cannot be told."""
        if unknown := sorted(set(self.languages) - COMMON_WORDS.keys()):
            raise InvalidInput(
                f"cannot recognise {', '.join(unknown)}; known languages: {', '.join(sorted(COMMON_WORDS))}",
                field="languages",
            )


def judge_content(document: SourceDocument, config: ContentConfig) -> list[Verdict]:
    """Return every check's verdict on one normalised document; the first that rejects it gives the reason."""
    words = words_of(document.text)
    return [
        check_short(document.text, len(words), config),
        check_long(document.text, len(words), config),
        check_markup(document.text, config),
        check_letters(document.text, config),
        check_language(words, config),
        check_junk(document.title, document.text),
        check_teasers(document.text),
    ]


def check_junk(title: str, text: str) -> Verdict:
    """Reject a page without content, such as a test page or a refusal. Score: 1 for such a page, else 0."""
    found = _JUNK_TITLE.fullmatch(title.strip(" .!-–—:")) or _JUNK_BEGINNING.match(text)
    return _verdict(not found, "junk", float(bool(found)), f"a page without content: {title[:60]!r}")


def check_teasers(text: str) -> Verdict:
    """Reject a page that consists of the beginnings of other pages. Score: the share of its lines that are cut off."""
    lines = [line for line in text.splitlines() if line.strip()]
    cut = sum(map(_is_cut_off, lines))
    is_page = cut >= _FEWEST_TEASERS and 2 * cut >= len(lines)
    return _verdict(not is_page, "teasers", cut / max(len(lines), 1), f"{cut} of {len(lines)} lines are cut off")


def _is_cut_off(line: str) -> bool:
    end = line[-_LONGEST_END:]
    return end.rstrip().endswith("...") or bool(_CUT_OFF.search(end.rstrip(_BEHIND)))


def check_short(text: str, words: int, config: ContentConfig) -> Verdict:
    """Reject a text with too few words. Score: number of words."""
    keep = words >= config.min_words and len(text) >= config.min_characters
    detail = f"{words} words, {len(text)} characters (at least {config.min_words}, {config.min_characters})"
    return _verdict(keep, "too_few_words", words, detail)


def check_long(text: str, words: int, config: ContentConfig) -> Verdict:
    """Reject a text with too many words. Score: number of words."""
    keep = words <= config.max_words and len(text) <= config.max_characters
    detail = f"{words} words, {len(text)} characters (at most {config.max_words}, {config.max_characters})"
    return _verdict(keep, "too_many_words", words, detail)


def check_markup(text: str, config: ContentConfig) -> Verdict:
    """Reject a text with too much markup. Score: share of characters that are markup."""
    share = sum(len(found) for found in _MARKUP.findall(text)) / max(len(text), 1)
    return _verdict(
        share <= config.max_markup, "markup", share, f"{share:.0%} is markup (at most {config.max_markup:.0%})"
    )


def check_letters(text: str, config: ContentConfig) -> Verdict:
    """Reject a text with too few letters. Score: their share of the characters that are no white space; 0 for no
    text."""
    visible = "".join(text.split())
    share = sum(map(str.isalpha, visible)) / max(len(visible), 1)
    return _verdict(
        share >= config.min_letters, "few_letters", share, f"{share:.0%} letters (at least {config.min_letters:.0%})"
    )


def check_language(words: list[str], config: ContentConfig) -> Verdict:
    """Reject a text in none of the wanted languages. Score: share of common words of the best of them; 1 for any
    language."""
    if not config.languages:
        return _verdict(True, "other_language", 1.0, "")
    shares = common_shares(words)
    likeliest = max(shares, key=lambda code: (shares[code], code))
    best = max(shares[code] for code in config.languages)
    keep = best >= config.min_common_words and best == shares[likeliest]
    detail = f"{best:.0%} common words of {'/'.join(config.languages)}"
    if best < shares[likeliest]:
        detail += f", {shares[likeliest]:.0%} of {likeliest}"
    return _verdict(keep, "other_language", best, f"{detail} (at least {config.min_common_words:.0%})")


def _verdict(keep: bool, reason: str, score: float, detail: str) -> Verdict:
    return Verdict(keep=keep, reason=reason, score=round(float(score), 6), detail="" if keep else detail)


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
    """Return for each known language the share of the (case-folded) words that are among its most common; 0 for no
    words."""
    counts = Counter(words)
    total = max(counts.total(), 1)
    return {code: sum(counts[word] for word in common) / total for code, common in COMMON_WORDS.items()}
