"""Documents in the forms of news APIs and corpora, made up by their documentation.

NewsAPI (newsapi.org/docs), GNews (gnews.io/docs), Mediastack (mediastack.com/documentation), NewsData.io
(newsdata.io/documentation), the Guardian (open-platform.theguardian.com), the New York Times (developer.nytimes.com,
Article Search), Event Registry (newsapi.ai/documentation), JSON Feed (jsonfeed.org/version/1.1), WordPress
(developer.wordpress.org/rest-api), schema.org's NewsArticle, Pyserini's and FlashRAG's `contents`, pandas'
`json_normalize`.
"""

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from trailforge.pipelines.sources import InvalidRow
from trailforge.pipelines.sources.documents import read_documents
from trailforge.schemas import SourceDocument

TEXT = "The council opened a bridge over the river."
BASE = {"title": "A bridge opens", "url": "https://w.example/a"}


def read(folder: Path, value: Any, **options: Any) -> list[SourceDocument | InvalidRow]:
    path = folder / "f"
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return list(read_documents([path], **options))


FORMS: dict[str, tuple[Any, str, str, tuple[str, ...]]] = {
    "NewsAPI": (
        {
            "status": "ok",
            "totalResults": 1,
            "articles": [
                {
                    **BASE,
                    "source": {"id": None, "name": "Wire"},
                    "author": "Ann",
                    "description": "Short.",
                    "urlToImage": None,
                    "publishedAt": "2024-05-31T10:00:00Z",
                    "content": f"{TEXT}… [+123 chars]",
                }
            ],
        },
        "Wire",
        "https://w.example/a",
        ("Ann",),
    ),
    "NewsAPI without content": (
        [
            {
                **BASE,
                "source": {"id": "w", "name": "Wire"},
                "author": None,
                "description": TEXT,
                "publishedAt": "2024-05-31",
                "content": None,
            }
        ],
        "Wire",
        "https://w.example/a",
        (),
    ),
    "GNews": (
        {
            "totalArticles": 1,
            "articles": [
                {
                    **BASE,
                    "description": "Short.",
                    "content": f"{TEXT}... [12 chars]",
                    "image": "x",
                    "publishedAt": "2024-05-31T10:00:00Z",
                    "source": {"name": "Wire", "url": "https://w.example"},
                }
            ],
        },
        "Wire",
        "https://w.example/a",
        (),
    ),
    "Mediastack": (
        {
            "pagination": {"limit": 1},
            "data": [
                {**BASE, "author": "Ann", "description": TEXT, "source": "Wire", "published_at": "2024-05-31T10:00:00Z"}
            ],
        },
        "Wire",
        "https://w.example/a",
        ("Ann",),
    ),
    "NewsData.io": (
        {
            "status": "success",
            "results": [
                {
                    "article_id": "n1",
                    "title": BASE["title"],
                    "link": BASE["url"],
                    "creator": ["Ann"],
                    "description": TEXT,
                    "content": "ONLY AVAILABLE IN PAID PLANS",
                    "pubDate": "2024-05-31 10:00:00",
                    "source_name": "Wire",
                    "source_id": "wire",
                    "language": "english",
                }
            ],
            "nextPage": "1",
        },
        "Wire",
        "n1",
        ("Ann",),
    ),
    "Guardian": (
        {
            "response": {
                "status": "ok",
                "results": [
                    {
                        "id": "uk/a",
                        "webTitle": BASE["title"],
                        "webUrl": BASE["url"],
                        "webPublicationDate": "2024-05-31T10:00:00Z",
                        "fields": {"bodyText": TEXT, "byline": "Ann", "trailText": "Short."},
                    }
                ],
            }
        },
        "f",
        "uk/a",
        ("Ann",),
    ),
    "New York Times": (
        {
            "status": "OK",
            "response": {
                "docs": [
                    {
                        "_id": "nyt://a",
                        "web_url": BASE["url"],
                        "snippet": "Short.",
                        "lead_paragraph": TEXT,
                        "headline": {"main": BASE["title"], "kicker": None},
                        "pub_date": "2024-05-31T10:00:00+0000",
                        "byline": {"original": "Ann"},
                        "source": "Wire",
                    }
                ],
                "meta": {"hits": 1},
            },
        },
        "Wire",
        "nyt://a",
        ("Ann",),
    ),
    "Event Registry": (
        {
            "articles": {
                "results": [
                    {
                        **BASE,
                        "uri": "77",
                        "lang": "eng",
                        "date": "2024-05-31",
                        "body": TEXT,
                        "source": {"uri": "w.example", "title": "Wire"},
                        "authors": [{"uri": "a", "name": "Ann"}],
                    }
                ],
                "totalResults": 1,
            }
        },
        "Wire",
        "77",
        ("Ann",),
    ),
    "JSON Feed": (
        {
            "version": "https://jsonfeed.org/version/1.1",
            "title": "My feed",
            "description": "All of it",
            "items": [{**BASE, "id": "j1", "content_text": TEXT, "date_published": "2024-05-31T10:00:00Z",
                       "authors": [{"name": "Ann"}]}],
        },
        "f",
        "j1",
        ("Ann",),
    ),
    "WordPress": (
        [{"id": 7, "date": "2024-05-31T10:00:00", "link": BASE["url"], "title": {"rendered": BASE["title"]},
          "content": {"rendered": TEXT, "protected": False}, "author": 3}],
        "f",
        "7",
        ("3",),
    ),
    "schema.org": (
        {"@type": "NewsArticle", "headline": BASE["title"], "articleBody": TEXT, "datePublished": "2024-05-31",
         "author": {"@type": "Person", "name": "Ann"}, "publisher": {"name": "Wire"}, "url": BASE["url"]},
        "Wire",
        "https://w.example/a",
        ("Ann",),
    ),
    "json_normalize": (
        f'title,url,content,publishedAt,source.id,source.name,author\n{BASE["title"]},{BASE["url"]},{TEXT},'
        "1717150000000,nan,Wire,NaN\n".encode(),
        "Wire",
        "https://w.example/a",
        (),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("value", "source", "key", "authors"), FORMS.values(), ids=FORMS)
def test_articles_as_apis_give_them(
    tmp_path: Path, value: Any, source: str, key: str, authors: tuple[str, ...]
) -> None:
    (found,) = read(tmp_path, value)
    assert isinstance(found, SourceDocument), found
    assert (found.title, found.text, found.published) == (BASE["title"], TEXT, "2024-05-31")
    assert (found.source, found.id, found.authors) == (source, f"{source}:{key.removeprefix(f'{source}:')}", authors)


@pytest.mark.parametrize("missing", ["nan", "NaN", "NaT", "None", "null", "N/A", "<NA>", "", None, float("nan")])
def test_what_is_not_there_is_missing(tmp_path: Path, missing: Any) -> None:
    row = {"url": missing, "author": missing, "id": missing, "source": missing, "date": missing, "language": missing}
    found = read(tmp_path, [{**row, "title": f"T{n}", "text": TEXT} for n in range(3)])
    assert [type(each) for each in found] == [SourceDocument] * 3
    for each in found:
        assert isinstance(each, SourceDocument)
        assert (each.url, each.authors, each.published, each.language, each.source) == ("", (), None, None, "f")


@pytest.mark.parametrize("word", ["None", "NA", "null", "nan"])
def test_a_title_and_a_text_stay_what_they_are(tmp_path: Path, word: str) -> None:
    (found,) = read(tmp_path, [{"title": word, "text": word}])
    assert isinstance(found, SourceDocument) and (found.title, found.text) == (word, word)


@pytest.mark.parametrize(
    ("contents", "title", "text"),
    [
        ('"Oslo"\nOslo is a city.', "Oslo", "Oslo is a city."),
        ("Oslo\nOslo is a city.\nIt is old.", "Oslo", "Oslo is a city.\nIt is old."),
    ],
)
def test_contents_hold_the_title(tmp_path: Path, contents: str, title: str, text: str) -> None:
    packed = gzip.compress(json.dumps({"id": "1", "contents": contents}).encode())
    (found,) = read(tmp_path, packed)
    assert isinstance(found, SourceDocument) and (found.title, found.text) == (title, text)
    (told,) = read(tmp_path, [{"id": "1", "contents": contents, "title": "Told"}])
    assert isinstance(told, SourceDocument) and (told.title, told.text) == ("Told", contents)


def test_a_field_of_another_form_costs_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    row = {**BASE, "text": TEXT, "source": {"x": 1}, "language": ["en"], "author": [{"x": 1}, "Ann"], "licence": True}
    with caplog.at_level(logging.WARNING):
        found = read(tmp_path, [{**row, "url": f"u{n}"} for n in range(2)])
    for each in found:
        assert isinstance(each, SourceDocument)
        assert (each.source, each.language, each.authors, each.licence) == ("f", None, ("Ann",), "")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said)) == 4 and all("left aside" in each for each in said)


def test_a_map_may_name_what_an_object_holds(tmp_path: Path) -> None:
    row = {"data": {"headline": "T", "body": TEXT}, "source": {"id": "w", "name": "Wire"}}
    (found,) = read(tmp_path, [row], column_map={"title": "data.headline", "text": "data.body", "source": "source.id"})
    assert isinstance(found, SourceDocument) and (found.title, found.text, found.source) == ("T", TEXT, "w")
