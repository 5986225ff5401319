"""Every reason once, and that plain prose passes."""

from __future__ import annotations

import pytest

from trailforge.filters import first_rejection
from trailforge.generators.document_bundles.bundling.content import ContentConfig, judge_content
from trailforge.schemas import InvalidInput, SourceDocument

ENGLISH = (
    "The council of the town has agreed on a plan for the bridge that was closed in March, and it will be open to "
    "traffic by the end of the year. Workers have begun to replace the oldest parts of it, which are from the last "
    "century. The mayor said that they had found more damage than was expected, but that the money would be enough. "
)
GERMAN = (
    "Der Rat der Stadt hat sich auf einen Plan für die Brücke geeinigt, die im März gesperrt wurde, und sie soll bis "
    "zum Ende des Jahres wieder für den Verkehr frei sein. Die Arbeiter haben damit begonnen, die ältesten Teile zu "
    "ersetzen, die aus dem letzten Jahrhundert sind. Der Bürgermeister sagte, dass mehr Schäden gefunden wurden. "
)


def rejection(text: str, **settings: object) -> str | None:
    """The first reason against a text."""
    document = SourceDocument(id="a:1", source="a", kind="news", title="", text=text)
    verdict = first_rejection(judge_content(document, ContentConfig(**settings)))  # type: ignore[arg-type]
    return verdict.reason if verdict else None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ENGLISH, None),
        ("", "too_few_words"),
        ("Too few words to tell.", "too_few_words"),
        ("a " * 60, "too_few_words"),
        (ENGLISH * 200, "too_many_words"),
        (ENGLISH + "<div class='x'><a href='https://example.org/a/b'>&nbsp;</a></div>" * 4, "markup"),
        (ENGLISH + "12.5 3.1 0.2 1,000 " * 40, "few_letters"),
        (GERMAN, "other_language"),
        ("Lorem ipsum dolor sit amet consectetur adipisicing elit sed eiusmod tempor " * 8, "other_language"),
        ("The council of the town met and the mayor said that it will be open by the end of …\n" * 5, "teasers"),
        (f"{ENGLISH}\n{ENGLISH}\nThe rest of the plan is not yet known …", None),
        ("город совет мост план рабочие начали менять старые части " * 10, "other_language"),
    ],
)
def test_reason(text: str, reason: str | None) -> None:
    """The word that is counted."""
    assert rejection(text) == reason


def test_other_languages() -> None:
    """German where it is asked for, anything where no language is."""
    assert rejection(GERMAN, languages=("de",)) is None
    assert rejection(GERMAN, languages=("de", "en")) is None
    assert rejection(ENGLISH, languages=("de",)) == "other_language"
    assert rejection(GERMAN, languages=()) is None
    with pytest.raises(InvalidInput, match="cannot recognise tlh"):
        ContentConfig(languages=("en", "tlh"))


@pytest.mark.parametrize(
    ("title", "text", "reason"),
    [
        ("TEST PAGE", ENGLISH, "junk"),
        ("Untitled 2", ENGLISH, "junk"),
        ("Bridge", f"Please enable JavaScript. {ENGLISH}", "junk"),
        ("Test of the bridge is passed", ENGLISH, None),
        ("Testing times", ENGLISH, None),
    ],
)
def test_pages_without_content_are_junk_and_news_of_tests_is_not(title: str, text: str, reason: str | None) -> None:
    document = SourceDocument(id="a:1", source="a", kind="news", title=title, text=text)
    verdict = first_rejection(judge_content(document, ContentConfig()))
    assert (verdict.reason if verdict else None) == reason


def test_what_was_measured() -> None:
    """A verdict has its score either way, and a line for a person when it rejects."""
    document = SourceDocument(id="a:1", source="a", kind="news", title="", text="Just four words here")
    short, *_ = judge_content(document, ContentConfig())
    assert (short.score, short.detail) == (4.0, "4 words, 20 characters (at least 50, 200)")
    kept = judge_content(document, ContentConfig(min_words=1, min_characters=1))[0]
    assert (kept.keep, kept.reason, kept.score, kept.detail) == (True, "too_few_words", 4.0, "")
