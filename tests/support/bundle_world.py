"""A scripted model for the bundles of any documents: it joins the titles of two, and knows what a reader of both may.

What joins two titles is an invented name, a function of the titles, so that a model server needs no table. The model
writes sound questions of every type and, for every bundle, a question with each flaw that a filter looks for. What it
does with a few bundles of the sample documents, told by their first document, stands at the head of this file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.bundle_rows import sample_documents
from tests.support.world import name_of
from trailforge.protocols.r_search import USER_SUFFIX
from trailforge.schemas import SourceDocument, to_dict

SILENT = "Seed vault in the Arctic opens"
"""Nothing joins the documents of this bundle."""
BROKEN = "New particle found at CERN"
"""No reply about this bundle has the form that was asked for."""
LOST = "Twenty-five years of the Øresund Bridge"
"""No search for this bundle finds anything."""
BENCHMARK = "What name joins “Webb telescope shows its first images” and what was known before it?"
"""Shares a run of eight words with a question of the first bundle."""
FLAWS = {
    "made-up quote": "unsupported_quote",
    "cycle": "invalid_plan",
    "leak": "answer_given_away",
    "options": "bad_options",
    "one document": "too_few_documents",
    "plain": "fewer_documents_suffice",
    "famous": "closed_book",
    "nameless": "not_answerable",
}
"""Of questions, with the one reason for which each is rejected."""
_SHOWN = re.compile(r"^\[(\d+)\] (.+) \((?:News|Academic|General), [^()]*\)\n(.+)$", re.MULTILINE)
_TITLES = re.compile(r"“([^”]+)”")
_OPTION = re.compile(r"^([A-H])\. (.+)$", re.MULTILINE)
_TYPES = ("factual", "single_choice", "causal", "multiple_choice")


@dataclass(frozen=True)
class Model:
    """Answers every prompt of the production preset."""

    def __call__(self, prompt: str, seed: int) -> str:
        """The reply to a prompt."""
        if prompt.startswith("A search agent answers the question below with one round"):
            return "I do not know what joins them, so I look for each of them by its title."
        if "\nWrite one other question in its place" in prompt:
            return json.dumps({"questions": []})
        if prompt.startswith("Write "):
            return _write(prompt)
        if prompt.startswith("Judge how well"):
            _, _, answers = prompt.partition("\nReference answer: ")
            gold, _, given = answers.partition("\n\nAnswer: ")
            return json.dumps({"score": float(given.startswith(gold))})
        asked = prompt.rpartition("Question: ")[2]
        if prompt.startswith("Answer the question from the documents"):
            return _read(asked, given=prompt)
        if prompt.startswith("Answer the question from what you know"):
            return _said(asked) if "famous" in asked else "nobody knows"
        if prompt.endswith(USER_SUFFIX):
            return _plan(prompt.rpartition("as `A, C`.")[2], careless=seed % 4 == 0)
        return f"<answer>{_read(prompt.partition(USER_SUFFIX)[0], given=prompt.rpartition('<result>')[2])}</answer>"


def names_of(titles: Iterable[str]) -> list[str]:
    """Three names that join some titles, the first of them the answer to what has one."""
    return [name_of("joins", *titles, str(number)) for number in range(3)]


def planted_documents() -> list[SourceDocument]:
    """Documents of seven sample bundles, and after them one for each reason to reject a document."""
    sound = sample_documents()[:28]
    return [*sound, *_unfit(sound), _lonely()]


def write_documents(path: Path, documents: Iterable[SourceDocument]) -> Path:
    """A file of documents in our own format; ids without their source."""
    rows = ({**to_dict(d), "id": d.id.partition(":")[2]} for d in documents)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_benchmark(path: Path) -> Path:
    """A file with the one question of a benchmark."""
    path.write_text(json.dumps({"question": BENCHMARK}) + "\n", encoding="utf-8")
    return path


def _write(prompt: str) -> str:
    documents = [
        (int(number), title, text) for number, title, text in _SHOWN.findall(prompt.partition("\nDocuments\n")[2])
    ]
    first, *others = documents
    if first[1] == BROKEN:
        return "There is much to say about particles."
    if first[1] == SILENT:
        return json.dumps({"questions": []})
    drafts = [_sound(number, first, other) for number, other in enumerate(others)]
    drafts.append(_sound(0, first, others[0], sentence=-2))
    return json.dumps({"questions": [*drafts, *_flawed(first, others[0])]})


def _sound(number: int, *documents: tuple[int, str, str], sentence: int | None = None) -> dict[str, Any]:
    """A question on a sentence of its own of each document: two on the same one would be one too many."""
    titles = [title for _, title, _ in documents]
    kind = _TYPES[(number + hashlib.sha256(titles[0].encode()).digest()[0]) % len(_TYPES)]
    names = names_of(titles)
    options, correct = _options(kind, names, titles)
    joined = " and ".join(f"“{title}”" for title in titles)
    return {
        "type": kind,
        "question": f"Why does anybody join {joined}?" if kind == "causal" else f"What name joins {joined}?",
        "answer": "; ".join(options[ord(c) - ord("A")] for c in correct) or names[0],
        "options": options,
        "correct": correct,
        "key_facts": names[:1] if kind == "causal" else [],
        "hops": list(_hops(documents, number if sentence is None else sentence, is_chain=number % 2 == 0)),
    }  # fmt: skip


def _options(kind: str, names: list[str], titles: list[str]) -> tuple[list[str], list[str]]:
    """Options of a type of question, and the letters of the right ones."""
    wrong = [name_of("wrong", *titles, str(number)) for number in range(3)]
    if kind == "single_choice":
        return [wrong[0], names[0], *wrong[1:]], ["B"]
    if kind == "multiple_choice":
        return [names[0], wrong[0], names[1], wrong[1], wrong[2], names[2]], ["A", "C", "F"]
    return [], []


def _hops(documents: Iterable[tuple[int, str, str]], sentence: int, *, is_chain: bool) -> Iterator[dict[str, Any]]:
    for place, (number, title, text) in enumerate(documents):
        query = "something that nobody ever wrote about" if title == LOST else title
        yield {
            "document": number,
            "evidence": text.strip().removesuffix(".").split(". ")[sentence],
            "query": query,
            "reasoning": "its title is half of the name",
            "needs": [place] if is_chain and place else [],
        }


def _flawed(*documents: tuple[int, str, str]) -> Iterator[dict[str, Any]]:
    sound = {**_sound(0, *documents, sentence=-1), "type": "factual", "options": [], "correct": []}
    answer = sound["answer"] = names_of(title for _, title, _ in documents)[0]
    first, second = sound["hops"]
    titles = " and ".join(f"“{title}”" for _, title, _ in documents)
    changes: dict[str, dict[str, Any]] = {
        "made-up quote": {"hops": [{**first, "evidence": "It was raining all day."}, second]},
        "cycle": {"hops": [{**first, "needs": [2]}, {**second, "needs": [1]}]},
        "leak": {"question": f"How does {answer} join {titles}?"},
        "options": {"type": "single_choice", "options": ["yes", "no"], "correct": ["A"]},
        "one document": {"hops": [first]},
    }
    for flaw in FLAWS:
        yield {**sound, "question": f"What {flaw} name joins {titles}?", **changes.get(flaw, {})}


def _read(asked: str, *, given: str) -> str:
    """The answer of one who has these documents: right when all that it needs is there."""
    titles, shown = _TITLES.findall(asked), given.rpartition("Question: ")[0] or given
    enough = any if "plain name" in asked else all
    if "nameless name" in asked or not titles or not enough(title in shown for title in titles):
        return "no document says so"
    return _said(asked)


def _said(asked: str) -> str:
    names = names_of(_TITLES.findall(asked))
    letters = [letter for letter, option in _OPTION.findall(asked) if option in names]
    return ", ".join(letters) or names[0]


def _plan(asked: str, *, careless: bool) -> str:
    """A thought and a search for each title; a careless draw forgets the last."""
    titles = _TITLES.findall(asked)
    searched = [LOST[:5] if title == LOST else title for title in titles[: -1 if careless else None]]
    nodes = "\n".join(f"{chr(65 + n)}: {title} (General)" for n, title in enumerate(searched))
    return f"<think>I look for each of them.</think><search>\nNodes:\n{nodes}\nEdges:\n"


def _unfit(sound: list[SourceDocument]) -> Iterator[SourceDocument]:
    """One that is cut short, marked up, in another language, the same as another, and nearly so."""
    first, second, third = sound[0], sound[4], sound[8]
    yield _document(901, "Too short", "The train left.", first)
    yield _document(902, "Marked up", " ".join(f"{{{{cell|{word}}}}}" for word in first.text.split()), first)
    yield _document(903, "Anderswo", _GERMAN, first)
    yield _document(904, second.title.upper(), second.text, second, published="2026-01-01")
    yield _document(
        905, "Another headline", f"{third.text} The editors thank all readers.", third, published="2026-01-01"
    )


def _lonely() -> SourceDocument:
    text = (
        "Knead flour, butter and sugar to a smooth dough and let it rest in a cool pantry for an hour. Roll it out, "
        "cut stars, brush them with egg yolk and bake them until they are golden. A pinch of cinnamon is allowed."
    )
    return _document(906, "Biscuits for winter evenings", text, sample_documents()[0])


def _document(number: int, title: str, text: str, like: SourceDocument, **more: Any) -> SourceDocument:
    values = {"published": like.published, **more}
    return SourceDocument(
        id=f"{like.source}:{number}", source=like.source, kind=like.kind, title=title, text=text, **values
    )


_GERMAN = (
    "Die Brücke über den Fluss ist seit dem Morgen gesperrt, weil ein Kran auf die Fahrbahn gestürzt ist und die "
    "Feuerwehr noch nicht sagen kann, wann der Verkehr wieder rollen wird. Niemand wurde verletzt, und die Stadt hat "
    "einen Bus eingerichtet, der alle Viertelstunde von der alten Werft zum Bahnhof fährt."
)
