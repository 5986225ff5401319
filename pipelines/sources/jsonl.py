"""Read questions of our own form, in rows of JSON or of a table; `question` and `answer` suffice.

    {"id": "…", "question": "…", "answer": "…", "aliases": ["…", …], "num_hops": 2,
     "paragraphs": [{"id": "0", "title": "Title", "text": "Sentence."}, "A text without a title.", …],
     "decomposition": [{"question": "…", "answer": "…", "support_id": "0"}, {"question": "… #1 …", "answer": "…"}],
     "supporting": [{"title": "Title", "id": "0", "facts": ["Sentence."]}, …]}

A question with options, one or several of which are right, and one that asks for several answers (`trailforge
evaluate` and `trailforge audit` take them):

    {"question": "…", "options": ["first", "second", …], "answer": "B"}        or "A, C", ["A", "C"], the options' texts
    {"question": "…", "answer_set": ["Ada", "Grace", …]}

A supporting document has a title, or the id of a paragraph that has one; `facts` may be left out. In tables, a cell
holds a list as JSON, aliases also with `|` between them. A field that is not needed and cannot be read is left aside.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from trailforge.pipelines.sources.checks import check_question, distinct_aliases
from trailforge.pipelines.sources.published.hotpotqa import paragraphs_of, read_context
from trailforge.rewards import option_letters
from trailforge.rows import Fields, bare_name, find_columns, is_missing, parse_column_map, parsed, plain_text
from trailforge.schemas import Document, Hop, InvalidInput, Question, SupportingDocument, write_options

NAME: str = "jsonl"
KEYS = frozenset({"question"})
USUAL: dict[str, tuple[str, ...]] = {
    "question": ("question", "query"),
    "answer": ("answer", "goldanswer", "gold", "groundtruth", "correctanswer"),
    "id": ("id", "qid", "questionid", "uid", "uuid"),
    "aliases": ("aliases", "answeraliases"),
    "paragraphs": ("paragraphs", "passages", "contexts", "context"),
    "decomposition": ("decomposition",),
    "supporting": ("supporting",),
    "num_hops": ("numhops", "hops"),
    "dataset": ("dataset",),
    "answer_id": ("answerid",),
    "options": ("options",),
    "correct_options": ("correctoptions",),
    "answer_set": ("answerset",),
}
"""Usual names of columns for each field, as `rows.tables.find_columns` takes them."""
_NEEDED = ("question", "answer")
FORM = (
    f"needed: {', '.join(_NEEDED)}; optional: {', '.join(name for name in USUAL if name not in _NEEDED)}; "
    "under other names: --columns question=COLUMN,answer=COLUMN"
)
"""Description of a question of our own form, for messages."""
_ONE_ANSWER = "a list: give one answer in `answer`, and further spellings of it in `aliases`"
_ANSWERS = "answers"
_NONE: Mapping[str, str] = MappingProxyType({})
_OF_PARAGRAPH = {
    "id": ("id", "idx"),
    "title": ("title",),
    "text": ("text", "paragraphtext", "contents", "content", "body"),
    "source": ("source",),
    "published": ("published",),
    "language": ("language",),
}
_OF_HOP = ("question", "answer", "support_id")
_OF_SUPPORTING = ("title", "id", "facts")
_LISTS = ("aliases", "paragraphs", "decomposition", "supporting", "answer_set")
"""Fields that hold lists."""
_LIKE_JSON = re.compile(r"\s*[\[{][\s\[{]*[\"']")
"""How a list or an object begins, and no text in brackets, as `[1] Smith says` or `[[Vienna]] is`."""
_LETTERED = re.compile(r"\(?([A-Z])[.):]\s+")
_MOST_OPTIONS = 26
V = TypeVar("V")


def parse_columns(text: str | None) -> dict[str, str]:
    """Read `question=query,answer=gold` as fields of our own form and the columns that hold them (`USUAL`).

    Raises `InvalidInput` for a field that questions do not have.
    """
    return parse_column_map(text or "", USUAL, "questions")


def read_given(files: Iterable[Path], options: Mapping[str, Any]) -> tuple[tuple[Path, ...], dict[str, Any]]:
    """Return the paths and options of a run over questions, with `columns` as text."""
    rest = {name: value for name, value in options.items() if name != "columns"}
    columns = parse_columns(options.get("columns"))
    return tuple(files), rest | ({"column_map": columns} if columns else {})


def read(row: Fields, column_map: Mapping[str, str] = _NONE) -> Question:
    """Read a row as a question. `column_map` says which column holds which field; fields that it leaves out are found
    by their usual names. Raises `InvalidInput` naming the field.

    Where there is no id, a hash of question and answer takes its place.
    """
    names = tuple(row.values)
    columns = _columns(names, tuple(column_map.items()))
    _leave_unused(row, columns.values())
    _refuse_broken(row, [columns[name] for name in _LISTS if name in columns])
    question, answer, asked = _asked(row, columns)
    if "|" in answer and not asked:
        row.asides.append((row.name(columns["answer"]), "holds `|` and is one answer; other spellings are `aliases`"))

    def optional(name: str, read: Callable[[str], V], otherwise: V) -> V:
        column = columns.get(name, "")
        try:
            return read(column) if row.has(column) else otherwise
        except InvalidInput as error:
            row.leave(error)
            return otherwise

    paragraphs = optional("paragraphs", lambda column: tuple(_paragraphs(row, column)), ())
    titles = {paragraph.id: paragraph.title for paragraph in paragraphs}
    found = Question(
        id=optional("id", row.text, "") or hashlib.sha256(f"{question}\0{answer}".encode()).hexdigest()[:16],
        question=write_options(question, asked.get("options", ())),
        answer=answer,
        answer_aliases=distinct_aliases(optional("aliases", lambda column: _aliases(row, column), []), answer),
        decomposition=optional("decomposition", lambda column: tuple(map(_hop, row.objects(column))), ()),
        paragraphs=paragraphs,
        dataset=optional("dataset", row.text, ""),
        answer_id=optional("answer_id", row.text, "") or None,
        num_hops=optional("num_hops", row.integer, None),
        supporting=optional(
            "supporting", lambda column: tuple(_supporting(each, titles) for each in row.objects(column)), ()
        ),
        **asked,
    )
    return check_question(found, hops=columns.get("decomposition", ""), paragraphs=columns.get("paragraphs", ""))


def _asked(row: Fields, columns: Mapping[str, str]) -> tuple[str, str, dict[str, tuple[str, ...]]]:
    """The question, its answer in one text, and what of options or of a set of answers it has."""
    question, column = _needed(row, columns["question"]), columns.get("answer", "")
    if answers := tuple(dict.fromkeys(filter(None, row.texts(columns.get("answer_set", ""))))):
        return question, "; ".join(answers), {"answer_set": answers}
    if not row.has(columns.get("options", "")) or row.values[columns["options"]] in ([], "[]"):
        return question, _needed(row, column), {}
    options = _options(row, columns["options"])
    column = correct if row.texts(correct := columns.get("correct_options", "")) else column
    letters = _correct_letters(row, column, options)
    return question, ", ".join(letters), {"options": options, "correct_options": letters}


def _options(row: Fields, column: str) -> tuple[str, ...]:
    """Of a list of texts, with their letters or without, or of an object that has them by letter."""
    value = row.values[column]
    value = parsed(value) if isinstance(value, str) else value
    texts = row.texts(column) if not isinstance(value, dict) else [f"{key}. {value[key]}" for key in sorted(value)]
    lettered = [_LETTERED.match(text) for text in texts]
    if all(found and ord(found[1]) - ord("A") == place for place, found in enumerate(lettered)):
        texts = [_LETTERED.sub("", text, count=1) for text in texts]
    if not 2 <= len(texts) <= _MOST_OPTIONS or not all(texts):
        raise InvalidInput(f"expected 2 to {_MOST_OPTIONS} texts", field=row.name(column))
    return tuple(texts)


def _correct_letters(row: Fields, column: str, options: Sequence[str]) -> tuple[str, ...]:
    """Of an answer that names letters, or gives the options' texts; one that could be either is refused."""
    if not column:
        raise InvalidInput("no answer given; expected the letters of the correct options, as A or AC", field="answer")
    value = row.values[column]
    value = parsed(value) if isinstance(value, str) else value
    given = row.texts(column) if isinstance(value, list) else [row.filled_text(column)]
    by_letter = frozenset[str]().union(*map(option_letters, given))
    places = {option: chr(ord("A") + place) for place, option in enumerate(options)}
    by_text = frozenset(places.get(text, "") for text in given)
    known = frozenset(places.values())
    readings = {each for each in (by_letter, by_text) if each and each <= known}
    if len(readings) != 1:
        problem = "could be letters or texts of options" if readings else "names no option, by letter or by its text"
        raise InvalidInput(f"{problem}: {', '.join(given)[:60]!r}", field=row.name(column))
    return tuple(sorted(readings.pop()))


def is_question(names: tuple[str, ...]) -> bool:
    """Tell whether a row with these columns is of our own form, or would be but for its answer."""
    try:
        return "question" in names or bool(_columns(names, ()))
    except InvalidInput:
        return False


@lru_cache(maxsize=64)
def _columns(names: tuple[str, ...], column_map: tuple[tuple[str, str], ...]) -> dict[str, str]:
    has_set = "answer_set" in dict(column_map) or "answerset" in map(bare_name, names)
    needed = _NEEDED[:1] if has_set or _ANSWERS in names else _NEEDED
    return find_columns(names, USUAL, dict(column_map), needed=needed, is_row=True, form=f"; {FORM}")


def _needed(row: Fields, column: str) -> str:
    """A text that says something, be it `None` or `NA`."""
    if not column:
        problem, field = (_ONE_ANSWER, _ANSWERS) if _ANSWERS in row.values else ("no answer", "answer")
        raise InvalidInput(f"{problem}; {FORM}", field=field)
    value = row.values[column]
    if isinstance(parsed(value) if isinstance(value, str) else value, list):
        raise InvalidInput(f"{_ONE_ANSWER}; {FORM}", field=row.name(column))
    try:
        return row.filled_text(column)
    except InvalidInput as error:
        raise InvalidInput(f"{error.problem}; {FORM}", field=error.field) from None


def _refuse_broken(row: Fields, columns: Iterable[str]) -> None:
    """Raises `InvalidInput` for the text of a list that is cut or broken, which would pass for a text by itself."""
    for column in columns:
        value = row.values.get(column)
        if isinstance(value, str) and _LIKE_JSON.match(value) and isinstance(parsed(value), str):
            raise InvalidInput(
                f"begins as JSON but is none, or is cut short: {value[:40]!r}; mend the cell", field=row.name(column)
            )


def _leave_unused(row: Fields, used: Collection[str]) -> None:
    for name in row.values:
        if name not in used:
            row.leave_unused(name)


def _aliases(row: Fields, column: str) -> list[str]:
    """Of a list, or of a text with `|` between them."""
    value = row.values[column]
    if isinstance(value, str) and not isinstance(parsed(value), list):
        return [alias.strip() for alias in value.split("|")]
    return row.texts(column) if isinstance(value, str | list) else [row.text(column)]


def _paragraphs(row: Fields, column: str) -> Iterator[Document]:
    """Of texts, objects with a text, pairs of title and sentences, or HotpotQA's two lists; one text is a paragraph."""
    value = row.values[column]
    value = parsed(value) if isinstance(value, str) else value
    if isinstance(value, dict) and isinstance(value.get("title"), list):
        yield from paragraphs_of(read_context(Fields({"context": value})), source="")
        return
    for position, each in enumerate(value if isinstance(value, list) else [value]):
        try:
            paragraph = _paragraph(each, position, f"{row.name(column)}[{position}]", row)
        except InvalidInput as error:
            row.leave(error)
            continue
        if paragraph is not None and (text := plain_text(paragraph.text).strip()):
            yield replace(paragraph, title=plain_text(paragraph.title).strip(), text=text)


def _paragraph(value: Any, position: int, name: str, row: Fields) -> Document | None:
    """None for nothing."""
    if isinstance(value, list):
        pair = [value[0], value[1:]] if len(value) == 2 and isinstance(value[1], str) else value
        (paragraph,) = paragraphs_of(read_context(Fields({"context": [pair]})), source="")
        return Document(id=str(position), title=paragraph.title, text=paragraph.text)
    if not isinstance(value, dict):
        return (
            None if is_missing(value) else Document(id=str(position), title="", text=Fields({name: value}).text(name))
        )
    each = Fields(value, name, row.asides)
    columns = find_columns(tuple(value), _OF_PARAGRAPH, _NONE, needed=("text",), is_row=True)
    _leave_unused(each, columns.values())
    text = each.text(columns["text"])
    if not text:
        return None
    of = {field: each.text_or_empty(columns[field]) for field in columns if field != "text"}
    return Document(
        id=of.get("id") or str(position),
        title=of.get("title", ""),
        text=text,
        source=of.get("source", ""),
        published=of.get("published") or None,
        language=of.get("language") or None,
    )


def _hop(hop: Fields) -> Hop:
    _leave_unused(hop, _OF_HOP)
    return Hop(
        question=hop.filled_text("question"),
        answer=hop.filled_text("answer"),
        support_id=hop.text_or_empty("support_id") or None,
    )


def _supporting(row: Fields, titles: Mapping[str, str]) -> SupportingDocument:
    """`titles`: of the question's paragraphs, by id."""
    _leave_unused(row, _OF_SUPPORTING)
    key = row.text_or_empty("id") or None
    title = row.text_or_empty("title") or titles.get(key or "", "")
    if not title:
        raise InvalidInput("expected its title, or the id of a paragraph that has one", field=row.name("title"))
    return SupportingDocument(title=title, id=key, facts=tuple(filter(None, row.texts("facts"))))
