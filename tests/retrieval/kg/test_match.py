"""From mentions to entities, from phrases to relations."""

from __future__ import annotations

import random
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.kg.support import Given, store_of
from trailforge.retrieval.kg import KgStore, KgTool, build_kg, layout, match_entity, match_relation
from trailforge.retrieval.kg.columns import mix, mix_one
from trailforge.retrieval.kg.folding import fold, name_words
from trailforge.retrieval.kg.rows import Gathered
from trailforge.schemas import RetrievalError

WORD = st.text("abcdefghijklmnopqrstuvwxyzé", min_size=4, max_size=12)
NAMES = st.lists(st.lists(WORD, min_size=1, max_size=4).map(" ".join), min_size=2, max_size=12, unique_by=fold)


def best(store: KgStore, mention: str, sub_query: str = "") -> str | None:
    matches = match_entity(store, mention, sub_query)
    return matches[0].entity_id if matches else None


@pytest.mark.parametrize(
    ("mention", "entity", "kind"),
    [
        ("Albert Einstein", "Q1", "label"),
        ("ALBERT  einstein", "Q1", "label"),
        ("Albert-Einstein", "Q1", "label"),
        ("Beyonce", "Q9", "label"),
        ("deutschland", "Q3", "alias"),
        ("ulm germany", "Q2", "alias"),
        ("Einstein Albert", "Q1", "word_order"),
        ("Albrt Einstien", "Q1", "fuzzy"),
        ("Einstien Albrt", "Q1", "fuzzy"),
        ("AlbertEinstein", "Q1", "fuzzy"),
        ("AlbertxEinstien", "Q1", "fuzzy"),
        ("Prince ton University", "Q4", "fuzzy"),
        ("the physicist Albert Einstein", "Q1", "fuzzy"),
        ("Q99", "Q99", "label"),
        ("!!!", "Q12", "label"),
    ],
)
def test_a_mention_finds_its_entity(store: KgStore, mention: str, entity: str, kind: str) -> None:
    match = match_entity(store, mention)[0]
    assert (match.entity_id, match.kind) == (entity, kind)
    assert match.label == store.label(entity) and match.degree == store.degree(entity)
    assert name_words(match.name) in [name_words(name) for name in store.names_of(store.row(entity))]


@pytest.mark.parametrize("mention", ["", "  ", "Quetzalcoatlus", "\U0001f600", "zzzz " * 40])
def test_what_is_like_no_name_finds_nothing(store: KgStore, mention: str) -> None:
    assert match_entity(store, mention) == []


def test_label_beats_alias_beats_similar(store: KgStore) -> None:
    matches = match_entity(store, "Paris")
    assert [m.entity_id for m in matches] == ["Q5", "Q6", "Q11"]
    assert [(m.kind, m.score, m.margin) for m in matches] == [
        ("label", 1.0, 0.0),
        ("label", 1.0, 0.0),
        ("alias", 0.99, -0.01),
    ]
    assert match_entity(store, "Pariss")[0].score < 0.98
    assert match_entity(store, "Paris", k=1) == matches[:1]
    assert match_entity(store, "Paris", k=0) == []


def test_the_margin_of_a_lone_match_is_its_score(store: KgStore) -> None:
    assert [(m.score, m.margin) for m in match_entity(store, "Princeton University")] == [(1.0, 1.0)]


def test_colliding_names_are_told_apart_by_the_sub_query_and_then_by_degree(store: KgStore) -> None:
    assert best(store, "Paris", "Which Paris is in the state of Texas?") == "Q6"
    assert best(store, "Paris", "What is the capital city of France?") == "Q5"
    assert best(store, "Paris") == "Q5"
    assert [m.overlap for m in match_entity(store, "Paris", "Lone star of Texas")] == [1, 0, 0]


@settings(max_examples=30, deadline=None)
@given(NAMES, st.randoms(use_true_random=False))
def test_a_typo_in_a_unique_name_finds_it(names: list[str], rng: random.Random) -> None:
    """The name with one edit is nearer to it than to any other unless that is as near; exact always comes first."""
    entities = {f"Q{n}": [name] for n, name in enumerate(names)}
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder) / "store", [(key, "r", "Q0") for key in entities], entities)
        for key, (name,) in entities.items():
            first = match_entity(store, name.upper())[0]
            assert (first.entity_id, first.score) == (key, 1.0)
            words = name.split()
            assert key in [m.entity_id for m in match_entity(store, " ".join(rng.sample(words, len(words))))]
            at = rng.randrange(len(name))
            if name[at] != " ":
                typo = name[:at] + rng.choice(["", "x", name[at] + "x"]) + name[at + 1 :]
                found = {m.entity_id: m.score for m in match_entity(store, typo, k=len(names))}
                assert key in found, (typo, name)


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1))
def test_one_key_is_mixed_as_many_are(keys: list[int]) -> None:
    assert [mix_one(key) for key in keys] == mix(np.array(keys, np.uint64)).tolist()
    assert mix_one(sum(keys)) == mix(np.array(keys, np.uint64).sum(keepdims=True)).tolist()[0]


def test_every_pair_of_words_within_two_edits_is_found(tmp_path: Path) -> None:
    """The deletion index against comparing all words with all: none within reach is missing, none beyond is given."""
    from rapidfuzz.distance import OSA

    rng = random.Random(0)
    words = {"".join(rng.choices("abcd", k=rng.randint(1, 11))) for _ in range(400)}
    store = store_of(tmp_path / "store", [("x", "r", "x")], {word: [word] for word in sorted(words)})
    vocabulary = store.names.vocabulary
    rows = {vocabulary.find(word): word for word in [*words, "x"]}
    assert len(rows) == len(words) + 1 == len(vocabulary) and None not in rows
    for word in [*sorted(words)[:120], "abcdabcdabcd", "d"]:
        most = 1 if len(word) <= 3 else 2
        expected = {other: OSA.distance(word, other) for other in [*words, "x"]}
        variants = vocabulary.variants(word)
        found = {rows[row]: d for row, d in zip(variants.words.tolist(), variants.distances.tolist(), strict=True)}
        assert found == {other: d for other, d in expected.items() if d <= most}


def test_two_misspelt_words_are_looked_up_together(tmp_path: Path) -> None:
    """Only the name that is meant, not the many that share a word with it, in whatever order."""
    names = ["Albert Schmidt", "Karl Einstein", "Albert Einstein", "Einstein", "Albert"]
    store = store_of(tmp_path / "store", [("Q0", "r", "Q1")], {f"Q{n}": [name] for n, name in enumerate(names)})
    for mention in (["albrt", "einstien"], ["einstien", "albrt"], ["albert", "einstxxn"]):
        tiers = store.names.candidates(mention, store.names.variants(mention))
        assert {name for tier in tiers for name in store.name_texts(tier)} == {"Albert Einstein"}


@pytest.mark.parametrize(
    ("phrase", "relation"),
    [("place of birth", "P1"), ("born in", "P1"), ("BIRTH place", "P1"), ("employr", "P2"), ("capital", "P5")],
)
def test_a_phrase_finds_its_relation(store: KgStore, phrase: str, relation: str) -> None:
    assert match_relation(store, phrase)[0].relation_id == relation


def test_relations_have_scores_and_margins(store: KgStore) -> None:
    first, *others = match_relation(store, "state")
    assert (first.relation_id, first.label, first.name, first.score) == ("P4", "located in", "state", 0.99)
    assert first.margin == pytest.approx(first.score - (others[0].score if others else 0.0))
    assert match_relation(store, "") == [] == match_relation(store, "xyzzy")


QUALIFIED = {
    "Q1": ["Jeanne de Bar, Countess of Marle and Soissons"],
    "Q2": ["Banco de Ponce"],
    "Q3": ["Laserblast"],
    "Q4": ["Galileo (1968 film)"],
    "Q5": ["Wild Boys of the Road"],
    "Q6": ["Paris"],
    "Q7": ["Paris, Texas"],
    "Q8": ["Van Morrison"],
    "Q9": ["Jim Beam"],
    "Q10": ["36th Academy Awards"],
    "Q11": ["Albert, Margrave of Meissen (1934–2012)"],
    "Q12": ["Alberta"],
    "Q13": ["Emperor Taizong of Song"],
    "Q14": ["Gaozong"],
    "Q15": ["Tang"],
}


@pytest.fixture(scope="module")
def qualified(tmp_path_factory: pytest.TempPathFactory) -> KgStore:
    """Names with brackets and commas, and their neighbours."""
    return store_of(tmp_path_factory.mktemp("qualified") / "store", [("Q1", "r", "Q2")], QUALIFIED)


@pytest.mark.parametrize(
    ("mention", "entities"),
    [
        ("Jeanne de Bar", ["Q1"]),
        ("Jeane de Bar", ["Q1"]),
        ("Laserblast (1978 film)", ["Q3"]),
        ("Laserblast, a film", ["Q3"]),
        ("Galileo", ["Q4"]),
        ("Paris", ["Q6", "Q7"]),
        ("Paris, Texas", ["Q7"]),
        ("Tisch School of the Arts", []),
        ("Galileo (1975 film)", []),
        ("Jim Morrison", []),
        ("Emperor Gaozong of Tang", []),
        ("Emperor Taizong of Tang", ["Q13"]),
        ("16th Academy Awards", []),
        ("Albert, Margrave of Meissen", ["Q11"]),
        ("Albert, Duke of Saxony", []),
        ("Jeanne Moreau", []),
    ],
)
def test_brackets_and_commas_may_be_left_out_and_other_words_may_not(
    qualified: KgStore, mention: str, entities: list[str]
) -> None:
    matches = match_entity(qualified, mention)
    assert [match.entity_id for match in matches] == entities
    assert all(match.score < 0.98 for match in matches if match.kind == "unqualified")


@pytest.mark.parametrize("format", [1, 2, 4])
def test_a_store_of_other_words_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: int) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(layout, "FORMAT", format)
        store_of(tmp_path / "store", [("Q1", "r", "Q2")], QUALIFIED)
    with pytest.raises(RetrievalError, match="is not of store format 3: build the store again"):
        KgStore.open(tmp_path / "store")


class Labelled(Given):
    """A graph whose relations have labels alone."""

    def read(self, into: Gathered) -> None:
        """See `KgSource`."""
        for key in ("director", "child", "father", "country of citizenship", "educated at", "member of", "capital of"):
            into.named(into.relations, key, [key])
        super().read(into)


FAMILY = [("f", "director", "d"), ("a", "child", "b"), ("b", "father", "a"), ("a", "father", "g"), ("a", "r", "b")]
FAMILY_NAMES = {"a": ["Alice"], "b": ["Robert"], "d": ["Fritz Lang"], "f": ["Metropolis"], "g": ["George"]}


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> KgStore:
    folder = tmp_path_factory.mktemp("family") / "store"
    build_kg(Labelled(FAMILY, FAMILY_NAMES), folder)
    return KgStore.open(folder)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("nationality", {("country of citizenship", None)}),
        ("alma mater", {("educated at", None)}),
        ("son of", {("father", "out"), ("child", "into")}),
        ("child of", {("father", "out"), ("child", "into")}),
        ("child", {("child", None)}),
        ("directed by", {("director", "out")}),
        ("was directed by", {("director", "out")}),
        ("director of", {("director", "into")}),
        ("member of", {("member of", "out")}),
        ("capital of", {("capital of", "out")}),
    ],
)
def test_common_relations_are_known_by_other_names_and_by_their_direction(
    family: KgStore, phrase: str, expected: set[tuple[str, str | None]]
) -> None:
    assert {(match.label, match.direction) for match in match_relation(family, phrase) if match.score > 0.9} == expected


def test_a_relation_with_names_of_its_own_gets_no_others(store: KgStore) -> None:
    assert store.relation_names[store.relation_row("P2")][0] == "employer"
    assert not [match for match in match_relation(store, "worked at") if match.score > 0.9]
    (match,) = match_relation(store, "employer of")
    assert (match.relation_id, match.direction) == ("P2", "into")


@pytest.mark.parametrize(
    ("mention", "relation", "first"),
    [
        ("Alice", "child of", "Alice | father | George"),
        ("Alice", "child", "Alice | child | Robert"),
        ("Robert", "child of", "Robert | father | Alice"),
        ("Fritz Lang", "director of", "Metropolis | director | Fritz Lang"),
        ("Metropolis", "director of", "Metropolis | director | Fritz Lang"),
    ],
)
def test_triples_of_the_asked_direction_come_first(family: KgStore, mention: str, relation: str, first: str) -> None:
    assert KgTool(family).search([mention], [relation]).triples[0].text == first


def test_a_missing_package_comes_with_its_mend(store: KgStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(RetrievalError, match=r"needs rapidfuzz: pip install 'trailforge\[kg\]'"):
        match_entity(store, "Paris")


SCRIPTS = {
    "Q1": ["青海湖"],
    "Q2": ["富士山", "ふじさん"],
    "Q3": ["ประเทศไทย"],
    "Q4": ["ताज महल"],
    "Q5": ["İzmir"],
    "Q6": [unicodedata.normalize("NFD", "Hạ Long")],
    "Q7": ["서울특별시"],
    "Q8": ["ガンダム"],
    "Q9": ["محمد علي"],
    "Q10": ["カンタム"],
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> KgStore:
    """Names in several scripts."""
    return store_of(tmp_path_factory.mktemp("scripts") / "store", [("Q1", "位于", "Q2")], SCRIPTS)


@pytest.mark.parametrize(
    ("mention", "entity"),
    [
        ("青海湖", "Q1"),
        ("ふじさん", "Q2"),
        ("ประเทศไทย", "Q3"),
        ("ताज महल", "Q4"),
        ("izmir", "Q5"),
        ("IZMIR", "Q5"),
        ("Hạ Long", "Q6"),
        (unicodedata.normalize("NFD", "서울특별시"), "Q7"),
        ("ｶﾞﾝﾀﾞﾑ", "Q8"),
        ("カンタム", "Q10"),
        ("مُحَمَّد علي", "Q9"),
        ("ﻣﺤﻤﺪ ﻋﻠﻲ", "Q9"),
    ],
)
def test_names_of_any_script_are_found(scripts: KgStore, mention: str, entity: str) -> None:
    matches = match_entity(scripts, mention)
    assert matches[0].entity_id == entity and matches[0].kind in ("label", "alias")
    assert match_entity(scripts, "黄河") == match_entity(scripts, "москва") == []
    assert match_relation(scripts, "位于")[0].score == 1.0
