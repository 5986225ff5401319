"""Published files to entities and triples, and rows that cannot be used."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.kg.support import write_wikidata5m
from trailforge.retrieval.kg import KgStore, build_kg, match_entity, open_source
from trailforge.retrieval.kg.rows import Gathered, value_of
from trailforge.retrieval.kg.sources import Codex, KgSource, KqaJson, Tables, Wikidata5M
from trailforge.retrieval.kg.tables import read_statement
from trailforge.schemas import InvalidInput, RejectedRow, read_parquet


def built(source: KgSource, folder: Path) -> KgStore:
    build_kg(source, folder / "store")
    return KgStore.open(folder / "store")


def triples(store: KgStore) -> set[str]:
    return {t.text for row in range(len(store)) for t in store.triples_of(store.id_of(row))}


def test_wikidata5m_merges_both_splits(store: KgStore) -> None:
    stats = store.stats
    assert (stats.entities, stats.relations, stats.triples, stats.duplicate_triples) == (13, 5, 9, 1)
    assert (stats.unnamed_entities, stats.isolated_entities, stats.rows, stats.invalid_rows) == (1, 3, 27, 0)


def test_wikidata5m_from_its_archives(tmp_path: Path, store: KgStore) -> None:
    files, packed = write_wikidata5m(tmp_path / "files"), tmp_path / "packed"
    packed.mkdir()
    archives = {"transductive": "transductive", "inductive": "inductive", "alias": "[er]*[ny]"}
    for name, pattern in archives.items():
        with tarfile.open(packed / f"wikidata5m_{name}.tar.gz", "w:gz") as archive:
            members = sorted(files.glob(f"wikidata5m_{pattern}*.txt"))
            for member in [m for m in members if name != "alias" or m.stem.endswith(("entity", "relation"))]:
                archive.add(member, f"folder/{member.name}")
            if name == "alias":
                archive.add(files / "wikidata5m_relation.txt", "wikidata5m_relation.txt")
    assert triples(built(open_source(packed), tmp_path)) == triples(store)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    files = write_wikidata5m(tmp_path / "files")
    (files / "wikidata5m_inductive_test.txt").unlink()
    with pytest.raises(InvalidInput, match=r"lacks wikidata5m_inductive_test\.txt"):
        build_kg(Wikidata5M(files), tmp_path / "store")
    with pytest.raises(InvalidInput, match="lacks"):
        build_kg(open_source(files), tmp_path / "store")


def test_a_folder_of_other_tables_is_told_of_tables_of_triples(tmp_path: Path) -> None:
    (tmp_path / "triples.parquet").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"nor triples\.tsv; .*trailforge kg build triples\.parquet --entities"):
        open_source(tmp_path)


def test_codex_as_published(tmp_path: Path) -> None:
    for kind, content in {
        "entities": {"Q1": {"label": "Rome"}, "Q2": {"label": "Italy", "aliases": ["Italia"]}},
        "relations": {"P1": {"label": "capital"}},
    }.items():
        (tmp_path / kind / "en").mkdir(parents=True)
        (tmp_path / kind / "en" / f"{kind}.json").write_text(json.dumps(content))
    for size in ("codex-s", "codex-m"):
        (tmp_path / "triples" / size).mkdir(parents=True)
        (tmp_path / "triples" / size / "train.txt").write_text("Q2\tP1\tQ1\n")
    store = built(open_source(tmp_path), tmp_path)
    assert triples(store) == {"Italy | capital | Rome"} and store.stats.duplicate_triples == 1
    assert store.aliases("Q2") == ("Italia",)
    (tmp_path / "types" / "en").mkdir(parents=True)
    (tmp_path / "types" / "en" / "types.json").write_text(json.dumps({"Q3": {"label": "city"}}))
    (tmp_path / "types" / "entity2types.json").write_text(json.dumps({"Q1": ["Q3"]}))
    (tmp_path / "typed").mkdir()
    typed = built(open_source(tmp_path), tmp_path / "typed")
    assert triples(typed) == {"Italy | capital | Rome", "Rome | instance of | city"}
    with pytest.raises(InvalidInput, match="the folder data/ of CoDEx"):
        Codex(tmp_path / "entities").files()


ROWS = [
    {"head": "a", "relation": "r", "tail": "b", "head_label": "Anna", "tail_label": "Bob", "relation_label": "knows"},
    {"head": "b", "relation": "r", "tail": "a", "head_label": "Bob", "tail_label": "Anna", "relation_label": "knows"},
]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "jsonl.gz", "tsv", "tsv.gz"])
def test_tables_of_every_kind(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"triples.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        lines = [json.dumps(row) for row in ROWS]
        if kind.startswith("tsv"):
            lines = ["\t".join(ROWS[0]), *("\t".join(row.values()) for row in ROWS)]
        data = ("\n".join(lines) + "\r\n\n").encode()
        path.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
    store = built(open_source(path), tmp_path)
    assert triples(store) == {"Anna | knows | Bob", "Bob | knows | Anna"}
    assert store.aliases("a") == ()


def test_triples_without_a_header_and_names_beside_them(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("1\tr\t2\n2\tr\t3\n")
    (tmp_path / "e.tsv").write_text("1\tOne\tUno\n2\tTwo\n")
    (tmp_path / "r.jsonl").write_text('{"pid": "r", "label": "next", "aliases": ["then"]}\n')
    source = open_source(tmp_path / "t.txt", entities=[tmp_path / "e.tsv"], relations=[tmp_path / "r.jsonl"])
    store = built(source, tmp_path)
    assert triples(store) == {"One | next | Two", "Two | next | 3"}
    assert store.aliases("1") == ("Uno",)


def test_columns_of_other_names(tmp_path: Path) -> None:
    row = {"head": "Anna", "head_qid": "Q1", "relation": "knows", "tail": "Bob", "tail_qid": "Q2"}
    (tmp_path / "t.jsonl").write_text(json.dumps(row))
    columns = {"head": "head_qid", "tail": "tail_qid", "head_label": "head", "tail_label": "tail"}
    store = built(open_source(tmp_path / "t.jsonl", columns=columns), tmp_path)
    assert triples(store) == {"Anna | knows | Bob"} and "Q1" in store


def test_kqa_json_both_directions(tmp_path: Path) -> None:
    graph = {
        "concepts": {"C1": {"name": "film", "instanceOf": ["C2"]}, "C2": {"name": "work", "instanceOf": []}},
        "entities": {
            "Q1": {
                "name": "Metropolis",
                "instanceOf": ["C1"],
                "attributes": [
                    {"key": "year", "value": {"type": "year", "value": 1927}},
                    {"key": "publication date", "value": {"type": "date", "value": "1927-01-10"}},
                    {"key": "duration", "value": {"type": "quantity", "value": 153.0, "unit": "minute"}},
                ],
                "relations": [{"predicate": "director", "object": "Q2", "direction": "forward", "qualifiers": {}}],
            },
            "Q2": {
                "name": "Fritz Lang",
                "instanceOf": [],
                "relations": [
                    {"relation": "director", "object": "Q1", "direction": "backward"},
                ],
            },
        },
    }
    (tmp_path / "kb.json").write_text(json.dumps(graph))
    store = built(open_source(tmp_path / "kb.json"), tmp_path)
    assert triples(store) == {
        "Metropolis | director | Fritz Lang",
        "Metropolis | instance of | film",
        "Metropolis | year | 1927",
        "Metropolis | publication date | 10 January 1927",
        "Metropolis | duration | 153 minute",
        "film | subclass of | work",
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("+1879-03-14T00:00:00Z", "14 March 1879"),
        ("1879-03-14", "14 March 1879"),
        ("+1879-03-00T00:00:00Z", "March 1879"),
        ('"1879-00-00"^^<http://www.w3.org/2001/XMLSchema#date>', "1879"),
        ("-0044-03-15T00:00:00Z", "15 March 44 BC"),
        ('"Ulm"@de', "Ulm"),
        ('"42"^^xsd:integer', "42"),
        ("1879", None),
        ("2001-13-01", None),
        ('"Heroes"', None),
        ("Q42", None),
    ],
)
def test_a_value_is_written_as_people_read_it(text: str, value: str | None) -> None:
    assert value_of(text) == value


def test_values_are_tails_that_no_mention_finds(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("Q1\tborn on\t+1879-03-14T00:00:00Z\nQ1\tborn in\tQ2\n")
    (tmp_path / "e.tsv").write_text("Q1\tAlbert Einstein\nQ2\tUlm\n")
    store = built(open_source(tmp_path / "t.tsv", entities=[tmp_path / "e.tsv"]), tmp_path)
    assert triples(store) == {"Albert Einstein | born on | 14 March 1879", "Albert Einstein | born in | Ulm"}
    assert match_entity(store, "14 March 1879") == [] != match_entity(store, "Ulm")


def test_kqa_json_whose_lists_are_none_is_told(tmp_path: Path) -> None:
    graph = {"entities": {"Q1": {"name": "M", "instanceOf": 5, "relations": {"a": 1}}}}
    (tmp_path / "kb.json").write_text(json.dumps(graph))
    gathered = Gathered()
    open_source(tmp_path / "kb.json").read(gathered)
    told = [row.detail.partition("row ")[2] for row in gathered.rejected]
    assert told == ["1, field 'instanceOf': must be a list", "1, field 'relations': must be a list"]


def built_with(path: Path, bad: str, tmp_path: Path) -> KgStore:
    """The store of 30 good rows and a bad one, which is row 2."""
    good = '{"head": "%d", "relation": "r", "tail": "t"}' if path.suffix == ".jsonl" else "%d\tr\tt"
    rows = [good % number for number in range(30)]
    path.write_bytes("\n".join([rows[0], "\x00", *rows[1:]]).encode().replace(b"\x00", bad.encode("latin-1")))
    return built(open_source(path), tmp_path)


@pytest.mark.parametrize("bad", ["a\tr", "a\tr\tt\tx", "a\t \tt", "a\tr\t\xff", "a r t"])
def test_a_bad_line_is_named_and_left_out(tmp_path: Path, bad: str) -> None:
    store = built_with(tmp_path / "t.tsv", bad, tmp_path)
    assert (store.stats.triples, store.stats.rows, store.stats.invalid_rows) == (30, 31, 1)
    (row,) = read_parquet(store.folder / "rejected.parquet", RejectedRow)
    assert (row.uid, row.reason) == (f"{tmp_path / 't.tsv'}:2", "invalid_input")
    assert "row 2" in row.detail


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        ("{", "not JSON"),
        ("[1]", "neither a JSON object nor a list of head, relation and tail"),
        ('{"head": "a", "relation": "r"}', "field 'tail'"),
        ('{"head": " ", "relation": "r", "tail": "t"}', "field 'head'"),
        ('{"head": "\\ud800", "relation": "r", "tail": "t"}', "half a surrogate pair"),
        ('{"head": true, "relation": "r", "tail": "t"}', "field 'head'"),
    ],
)
def test_a_bad_json_row_is_named_with_its_field(tmp_path: Path, bad: str, where: str) -> None:
    store = built_with(tmp_path / "t.jsonl", bad, tmp_path)
    assert (store.stats.triples, store.stats.invalid_rows) == (30, 1)
    (row,) = read_parquet(store.folder / "rejected.parquet", RejectedRow)
    assert row.uid == f"{tmp_path / 't.jsonl'}:2" and where in row.detail


def test_more_than_five_percent_invalid_rows_stop_the_build(tmp_path: Path) -> None:
    good = ["a\tr\tb"] * 95
    (tmp_path / "t.tsv").write_text("\n".join([*good, *["bad"] * 5]))
    assert build_kg(open_source(tmp_path / "t.tsv"), tmp_path / "store").invalid_rows == 5
    (tmp_path / "t.tsv").write_text("\n".join([*good, *["bad"] * 6]))
    with pytest.raises(InvalidInput, match=r"6 of 101 rows are invalid .*first: .*t\.tsv, row 96"):
        build_kg(open_source(tmp_path / "t.tsv"), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_names_must_be_texts(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tr\tb\n" * 60)
    names: list[dict[str, object]] = [{"id": "a", "label": "A"}, {"id": "b", "label": ""}, {"label": "C"}]
    names.append({"id": "b", "label": "B", "aliases": 1})
    (tmp_path / "e.jsonl").write_text("\n".join(map(json.dumps, names)))
    store = built(open_source(tmp_path / "t.tsv", entities=[tmp_path / "e.jsonl"]), tmp_path)
    rejected = read_parquet(store.folder / "rejected.parquet", RejectedRow)
    assert [row.detail.split("'")[1] for row in rejected] == ["label", "id", "aliases"]
    assert (store.label("a"), store.label("b")) == ("A", "b")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("t.parquet", b"PAR1no", "the Parquet file is damaged"),
        ("t.parquet", b"no", "has 1 column, and no header"),
        ("t.json", b"[", "the JSON list is broken or cut short"),
        ("t.json", b"[]", "no triples"),
        ("t.tsv.gz", gzip.compress(b"a\tr\tb\n" * 1000)[:-20], "cut short"),
        ("kb.json", b"[", "not JSON"),
        ("kb.json", b"[]", "not a JSON object"),
        ("t.tsv", b"", "no triples"),
    ],
)
def test_a_file_that_cannot_be_read_stops_the_build(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=problem):
        build_kg(open_source(tmp_path / name), tmp_path / "store")


LANG = {"Metropolis | directed by | Fritz Lang", "Fritz Lang | place of birth | Vienna"}
TWO = (("Metropolis", "directed by", "Fritz Lang"), ("Fritz Lang", "place of birth", "Vienna"))


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "header",
    [
        *("subject predicate object", "Subject Predicate Object", "s p o", "h r t", "HEAD RELATION TAIL"),
        *("head_id relation_id tail_id", "from type to", "source relation target", "node1 label node2"),  # KGTK
        *("START_ID TYPE END_ID", "head_entity relation tail_entity", "subj pred obj", "src rel dst"),  # Neo4j's import
        *("entity1 relationship entity2", "x_id relation y_id", "subject edge_type object"),  # PrimeKG
    ],
)
@pytest.mark.parametrize("mark", ["\t", ",", ";"])
def test_usual_headers_are_known(tmp_path: Path, header: str, mark: str) -> None:  # pykeen#475, DRKG PR#29
    lines = (mark.join(row) for row in (header.split(), *TWO))
    store = built(open_source(written(tmp_path, "t.csv", "\n".join(lines))), tmp_path)
    assert triples(store) == LANG and store.stats.invalid_rows == 0


@pytest.mark.parametrize(
    "header",
    [
        "id\tsubject\tpredicate\tobject\tcategory",
        ":START_ID\tid\t:TYPE\t:END_ID\tweight",
        "id\tnode1\tlabel\tnode2\trank",
    ],
)
def test_other_columns_beside_are_let_be(tmp_path: Path, header: str) -> None:  # KGX's edges, ontogpt#343
    ours = ["x"] * 5
    lines = [header]
    for row in TWO:
        places = [n for n, name in enumerate(header.split("\t")) if name not in ("id", "category", "weight", "rank")]
        for place, cell in zip(places, row, strict=True):
            ours[place] = cell
        lines.append("\t".join(ours))
    assert triples(built(open_source(written(tmp_path, "t.tsv", "\n".join(lines))), tmp_path)) == LANG


@pytest.mark.parametrize(
    "first",
    [
        "source\tof\tincome",
        "relation\ttype\tproperty",
        "t\tr\tx",
        "head\tpart of\tbody",
        "s\tr\tt2",
        "label\ttype\tedge",
    ],
)
def test_a_first_triple_is_no_header_for_a_word_in_it(tmp_path: Path, first: str) -> None:
    store = built(open_source(written(tmp_path, "t.tsv", f"{first}\na\tb\tc\n")), tmp_path)
    assert triples(store) == {first.replace("\t", " | "), "a | b | c"}


@pytest.mark.parametrize("kind", ["tsv", "csv", "json", "jsonl", "parquet", "jsonl.gz", "json.gz"])
def test_columns_that_are_named_hold_for_every_kind(tmp_path: Path, kind: str) -> None:  # pykeen#2, pykeen#226
    names = ("von", "wie", "nach")
    rows = [dict(zip(names, row, strict=True)) for row in TWO]
    path, mark = tmp_path / f"t.{kind}", {"tsv": "\t", "csv": ","}.get(kind)
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif mark:
        path.write_text("\n".join(mark.join(row) for row in (names, *TWO)))
    else:
        content = (json.dumps(rows) if "jsonl" not in kind else "\n".join(map(json.dumps, rows))).encode()
        path.write_bytes(gzip.compress(content) if kind.endswith("gz") else content)
    columns = {"head": "von", "relation": "wie", "tail": "nach"}
    assert triples(built(open_source(path, columns=columns), tmp_path)) == LANG
    with pytest.raises(InvalidInput, match="'other': no such column for the tail; there are von, wie, nach"):
        build_kg(open_source(path, columns=columns | {"tail": "other"}), tmp_path / "other")


@pytest.mark.parametrize(
    "value",
    [
        [list(row) for row in TWO],
        {"triples": [{"s": s, "p": p, "o": o} for s, p, o in TWO]},
        [{"subject": s, "predicate": p, "object": o, "id": n} for n, (s, p, o) in enumerate(TWO)],
        {"edges": [{"source": s, "relation": p, "target": o} for s, p, o in TWO], "nodes": []},  # networkx's node-link
        [{"head": s, "type": p, "tail": o, "meta": {"spans": [1]}} for s, p, o in TWO],  # REBEL's extraction
    ],
)
def test_triples_in_json(tmp_path: Path, value: object) -> None:
    assert triples(built(open_source(written(tmp_path, "t.json", json.dumps(value))), tmp_path)) == LANG
    if isinstance(value, list):
        lines = written(tmp_path, "t.jsonl", "\n".join(map(json.dumps, value)))
        assert triples(built(open_source(lines), tmp_path / "lines")) == LANG


def test_ids_and_their_labels_in_columns_of_like_names(tmp_path: Path) -> None:
    content = "subject_id,subject,predicate,object_id,object\nQ1,Metropolis,directed by,Q2,Fritz Lang\n"
    store = built(open_source(written(tmp_path, "t.csv", content)), tmp_path)
    assert triples(store) == {"Metropolis | directed by | Fritz Lang"} and "Q1" in store


def test_quotes_and_commas_in_a_table_with_tabs_are_letters(tmp_path: Path) -> None:
    content = 'Heroes, "Heroes", a, b\tby\t"Bowie\n"Q"\tsaid\t"Hallo"@de\n'
    store = built(open_source(written(tmp_path, "t.tsv", content)), tmp_path)
    assert triples(store) == {'Heroes, "Heroes", a, b | by | "Bowie', '"Q" | said | Hallo'}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("2\n0 1 0\n1 2 1\n", "is OpenKE's form: a count, and then head, tail and relation by number"),  # OpenKE#34
        ("a b c\nd e f\n", "row 1: has 1 column, and no header that is known; a table of triples has the columns head"),
        ("a\tb\tc\td\n", "row 1: has 4 columns, and no header that is known; a table of triples has the columns head"),
        ("from\tto\tweight\na\tb\t1\n", "no column for the relation; there are from, to, weight. Say which"),
        ("@prefix a: <http://a/> .\na:b a:c a:d .\n", "is RDF in Turtle or XML; convert it to N-Triples"),
        ("# x\n\nPREFIX a: <http://a/>\n", "is RDF in Turtle or XML; convert it to N-Triples"),
        ('<?xml version="1.0"?><rdf:RDF/>', "is RDF in Turtle or XML; convert it to N-Triples"),
    ],
)
def test_other_forms_are_refused_with_the_form_that_is_right(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        build_kg(open_source(written(tmp_path, "t.txt", content)), tmp_path / "store")
    assert problem in str(caught.value) and "t.txt" in str(caught.value)
    assert "or three columns and no header" in str(caught.value)


N_TRIPLES = """# comments, and a line that is empty

<http://a.example/Metropolis_(film)> <http://a.example/onto#director> <http://a.example/Fritz_Lang> . # behind, too
<http://a.example/Fritz_Lang> <http://www.w3.org/2000/01/rdf-schema#label> "Friedrich Lang"@de .
<http://a.example/Fritz_Lang> <http://www.w3.org/2000/01/rdf-schema#label> "Fritz Lang"@en-GB .
<http://a.example/onto#director> <http://www.w3.org/2000/01/rdf-schema#label> "directed by" .
_:b0 <http://a.example/onto#said> "He said \\"M\\" \\u00E9\\U0001F600\\n" .
<http://a.example/Fritz_Lang> <http://a.example/born>"1890-12-05"^^<http://www.w3.org/2001/XMLSchema#date>.
<http://a.example/Fritz_Lang> <http://a.example/films>	"42"^^<http://www.w3.org/2001/XMLSchema#integer> <http://g> .
<http://a.example/Fritz_Lang> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://a.example/%C3%A9migr%C3%A9/> .
<http://a.example/Fritz_Lang> <http://a.example/born_in> <http://a.example/\u0056ienna> .
"""


@pytest.mark.parametrize("name", ["t.nt", "t.ttl", "t.txt", "t.nt.gz"])
def test_n_triples(tmp_path: Path, name: str) -> None:  # the W3C's RDF 1.1 N-Triples; dice-embeddings#8
    content = N_TRIPLES.encode()
    store = built(
        open_source(written(tmp_path, name, gzip.compress(content) if name[-1] == "z" else content)), tmp_path
    )
    assert triples(store) == {
        "Metropolis (film) | directed by | Fritz Lang",
        'b0 | said | He said "M" é😀',
        "Fritz Lang | born | 5 December 1890",
        "Fritz Lang | films | 42",
        "Fritz Lang | instance of | émigré",
        "Fritz Lang | born in | Vienna",
    }
    assert store.aliases("http://a.example/Fritz_Lang") == ("Friedrich Lang",)
    assert (store.stats.rows, store.stats.invalid_rows) == (9, 0)


@pytest.mark.parametrize(
    "bad",
    [
        "<http://a> <http://b> <http://c>",
        '"a" <http://b> <http://c> .',
        "<http://a> _:b <http://c> .",
        '<http://a> <http://b> "c .',
        '<http://a> <http://b> "\\ud800" .',
        '<http://a> <http://b> "\\UFFFFFFFF" .',
        '<http://a> <http://b> "" .',
        "<http://a b> <http://b> <http://c> .",
    ],
)
def test_a_bad_statement_is_named_and_left_out(tmp_path: Path, bad: str) -> None:
    good = [f"<http://a/{n}> <http://b> <http://c> ." for n in range(30)]
    store = built(open_source(written(tmp_path, "t.nt", "\n".join([*good, bad]))), tmp_path)
    assert (store.stats.triples, store.stats.invalid_rows) == (30, 1)
    (row,) = read_parquet(store.folder / "rejected.parquet", RejectedRow)
    assert row.payload == bad and "row 31" in row.detail


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.sampled_from(["", "@en", "^^<http://a/b>"]))
def test_every_literal_is_read_as_it_was(text: str, mark: str) -> None:
    escaped = "".join(f"\\U{ord(c):08X}" if c in '"\\\n\r' or not c.isalnum() else c for c in text)
    found = read_statement(f'<http://a> <http://b> "{escaped}"{mark} .')
    assert found is not None and found.tail == text


def test_names_in_tables_of_other_columns(tmp_path: Path) -> None:
    triples_file = written(tmp_path, "t.tsv", "1\tr\t2\n")
    names = written(tmp_path, "e.csv", "node_id,name,synonyms,type\n1,One,Uno|Un,x\n2,Two,,y\n")
    store = built(open_source(triples_file, entities=[names]), tmp_path)
    assert triples(store) == {"One | r | Two", "One | instance of | x", "Two | instance of | y"}
    assert store.aliases("1") == ("Uno", "Un")


def test_what_entities_are_is_read_from_their_table(tmp_path: Path) -> None:
    """Types by id or label, in a list or a text, null or missing; of relations a type is no kind."""
    triples_file = written(tmp_path, "t.tsv", "Q1\tP1\tQ2\n")
    names = written(
        tmp_path,
        "e.jsonl",
        '{"qid": "Q1", "label": "Jaws", "types": ["film", "Q9"]}\n{"qid": "Q2", "label": "Steven", "types": null}\n'
        '{"qid": "Q3", "label": "Ulm", "types": "city|town"}\n{"qid": "Q9", "label": "thriller"}\n',
    )
    relations = written(tmp_path, "r.csv", "id,label,type\nP1,director,property\n")
    store = built(open_source(triples_file, entities=[names], relations=[relations]), tmp_path)
    assert triples(store) == {
        "Jaws | director | Steven", "Jaws | instance of | film", "Jaws | instance of | thriller",
        "Ulm | instance of | city", "Ulm | instance of | town",
    }  # fmt: skip
    assert store.stats.rows == 6


def test_types_that_are_no_texts_are_named(tmp_path: Path) -> None:
    triples_file = written(tmp_path, "t.tsv", "".join(f"a\tr\tb{n}\n" for n in range(40)))
    names = written(tmp_path, "e.jsonl", '{"id": "a", "label": "A", "kind": [1]}\n{"id": "b1", "label": "B"}\n')
    store = built(open_source(triples_file, entities=[names]), tmp_path)
    (rejected,) = read_parquet(store.folder / "rejected.parquet", RejectedRow)
    assert "row 1, field 'kind': must be a list of texts" in rejected.detail


@pytest.mark.parametrize(
    "columns",
    [
        ("head", "relation", "tail", "head_qid", "tail_qid"),
        ("subject", "rel", "object", "subjectId", "objectId"),
        ("head", "relation", "tail", "head_wikidata_id", "tail_wikidata_id"),
    ],
)
def test_ids_beside_labels_tell_namesakes_apart(tmp_path: Path, columns: tuple[str, ...]) -> None:
    """Two of one name stay two; who has no id has the name for one."""
    rows = [("Alexander", "father", "Frederick", "Q1", "Q3"), ("Alexander", "father", "Louis", "Q2", "Q4"),
            ("Maria", "father", "Paul", None, None), ("Anna", "father", "Paul", "Q5", None)]  # fmt: skip
    text = "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    store = built(open_source(written(tmp_path, "t.jsonl", text)), tmp_path)
    assert store.stats.invalid_rows == 0 and store.stats.entities_by_name == 2
    assert [store.label(each) for each in store.neighbours("Q1", "father", "out")] == ["Frederick"]
    assert [store.label(each) for each in store.neighbours("Q2", "father", "out")] == ["Louis"]
    assert sorted(store.label(each) for each in store.neighbours("Paul", "father", "into")) == ["Anna", "Maria"]


def test_a_column_map_of_names_reads_the_ids_beside_them(tmp_path: Path) -> None:
    text = "from\tfrom_id\tr\tto\nAl\t1\tknows\tBo\nAl\t2\tknows\tCy\n"
    columns = {"head": "from", "relation": "r", "tail": "to"}
    store = built(open_source(written(tmp_path, "t.tsv", text), columns=columns), tmp_path)
    assert len(store.namesakes("Al")) == 2


def test_where_ids_are_codes_who_has_no_name_is_not_called_by_one(tmp_path: Path) -> None:
    """An id that is built as those of named entities is a code; another is the name that stands for a missing id."""
    text = "head_id,head,relation,tail_id,tail\nn01,Ada,knows,n02,\n,Bert,knows,n01,Ada\n"
    store = built(open_source(written(tmp_path, "t.csv", text)), tmp_path)
    assert [store.is_named(store.row(each)) for each in ("n01", "n02", "Bert")] == [True, False, True]
    assert store.stats.entities_by_name == 1


@pytest.mark.parametrize("source", [Tables(triples=(Path("none.tsv"),)), KqaJson(Path("none.json"))])
def test_a_file_that_is_not_there(tmp_path: Path, source: KgSource) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        build_kg(source, tmp_path / "store")
