"""JSON with a model's slips: what is mended, what is refused, and that nothing is made up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.protocols.repair import Repair, Value, read_object
from trailforge.schemas import MalformedReply

TEXTS = st.text(max_size=12) | st.sampled_from(["Ann's", 'a "b"', "x, y", "], }", "a: b", "{", "\\", "1998", "“q”"])
OBJECTS = st.dictionaries(st.text(min_size=1, max_size=6), TEXTS | st.lists(TEXTS, max_size=3), max_size=4)
NO_SURROGATES = OBJECTS.filter(lambda found: "\\ud" not in json.dumps(found).lower())


@pytest.mark.parametrize(
    ("text", "found", "repairs"),
    [
        ('{"query": "a", "entity": ["b"]}', {"query": "a", "entity": ["b"]}, []),
        ("{}", {}, []),
        ('```json\n{"query": "a"}\n```', {"query": "a"}, ["code_fence"]),
        ('```{"query": "a"}', {"query": "a"}, ["code_fence"]),
        ('Here: {"query": "a"}.', {"query": "a"}, ["surrounding_text"]),
        ("{'query': 'who is Ann's father'}", {"query": "who is Ann's father"}, ["quotes"]),
        ('{"query": "who wrote "Emma"?"}', {"query": 'who wrote "Emma"?'}, ["quotes"]),
        ("{“query”: “a”}", {"query": "a"}, ["quotes"]),
        ("{'a': 'it\\'s', 'b': ['x', 'O'Neil']}", {"a": "it's", "b": ["x", "O'Neil"]}, ["quotes"]),
        ('{"entity": ["a", "b",], "query": "c",}', {"entity": ["a", "b"], "query": "c"}, ["trailing_comma"]),
        ('{"query": "a {b}", "entity": ["c"', {"query": "a {b}", "entity": ["c"]}, ["missing_bracket"]),
        ('{"entity": ["c"}', {"entity": ["c"]}, ["missing_bracket"]),
        ('{"entity": None}', {"entity": None}, ["python_literal"]),
        ('{"entity": null}', {"entity": None}, []),
        ('{"entity": ["a", null]}', {"entity": ["a"]}, ["blank_item"]),
        ('{"query": "a", "entity": ["b", 2018]}', {"query": "a", "entity": ["b", "2018"]}, ["number_as_text"]),
        ('{"query": 1e3}', {"query": "1e3"}, ["number_as_text"]),
        ("{'entity': [2018, 'a']}", {"entity": ["2018", "a"]}, ["number_as_text", "quotes"]),
        ('{"query": "a\\"} b"', {"query": 'a"} b'}, ["missing_bracket"]),
        ('{"query": "a\nb"}', {"query": "a\nb"}, ["control_character"]),
        ('{"query": "a\\qb"}', {"query": "a\\qb"}, []),
        ('{"query": "\\ud83d\\ude00 \\ud800"}', {"query": "😀 \ufffd"}, []),
        ("{'query': '\\ud83d\\ude00'}", {"query": "😀"}, ["quotes"]),
    ],
)
def test_slips_are_mended_and_named(text: str, found: dict[str, Value], repairs: list[Repair]) -> None:
    got, named = read_object(text)
    assert (got, sorted(named)) == (found, repairs)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("who is she", "expected a JSON object, found no `{`"),
        ('{"query": "a}', "expected the end of a text in quotes at character 10"),
        ('{"query": "a" "entity": []}', "expected the end of a text in quotes"),
        ('{"query": {"text": "a"}}', "expected a text in quotes at character 10"),
        ('{"query": [["a"]]}', "expected a text in quotes"),
        ('{"query": true}', "expected a text in quotes"),
        ('{"query": NaN}', "expected a text in quotes"),
        ('{"query"}', "expected the end of a text in quotes at character 1"),
        ('{"query": ', "expected a text in quotes at character 10 of the JSON, found ''"),
        ('{"query": 1 2}', "expected `,` or `}`"),
        ('{"query": "a"} {"query": "b"}', "expected one JSON object, found another after it"),
        ("{" * 20_000, "expected a text in quotes"),
    ],
)
def test_what_has_no_plain_meaning_is_refused(text: str, problem: str) -> None:
    with pytest.raises(MalformedReply) as caught:
        read_object(text)
    assert problem in str(caught.value)


@given(NO_SURROGATES)
def test_json_is_read_as_it_is(found: dict[str, Value]) -> None:
    assert read_object(json.dumps(found)) == (found, [])
    assert read_object(json.dumps(found, ensure_ascii=False, indent=1)) == (found, [])


@given(NO_SURROGATES)
def test_the_mending_reader_reads_json_as_json_does(found: dict[str, Value]) -> None:
    assert read_object(json.dumps(found)[:-1]) == (found, ["missing_bracket"])


CLEAN = st.text(alphabet="abcXYZ 019'?-é", min_size=1, max_size=10).map(str.strip).filter(bool)
WRITTEN = st.fixed_dictionaries(
    {"query": CLEAN, "entity": st.lists(CLEAN, max_size=3), "relation": st.lists(CLEAN, max_size=2)}
)


@st.composite
def mutilated(draw: st.DrawFn) -> str:
    """JSON with some characters lost or exchanged."""
    text = json.dumps(draw(WRITTEN), ensure_ascii=False)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + draw(st.sampled_from(["", "'", ",", "}", "]", "\n", '"'])) + text[at + 1 :]
    return text


@given(mutilated())
def test_nothing_is_made_up(text: str) -> None:
    try:
        found, _ = read_object(text)
    except MalformedReply:
        return
    for key, value in found.items():
        assert key in text
        for part in [value] if isinstance(value, str) else value or []:
            assert part in text


@given(WRITTEN, st.data())
def test_every_slip_of_punctuation_gives_the_object_back(found: dict[str, Value], data: st.DataObject) -> None:
    text = json.dumps(found, ensure_ascii=False)
    if data.draw(st.booleans()) and "'" not in text:
        text = text.replace('"', "'")
    if data.draw(st.booleans()):
        text = text.replace("]", ",]") if "[]" not in text else text.replace("}", ",}")
    if data.draw(st.booleans()):
        text = text.removesuffix("}").removesuffix("]")
    if data.draw(st.booleans()):
        text = f"```json\n{text}\n```" if text.endswith("}") else text
    assert read_object(text)[0] == found
