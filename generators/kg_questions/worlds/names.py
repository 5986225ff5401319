"""Name the entities of a world by the graph's names or by invented ones, and invent names that are easily mistaken for
others.

The same seed gives an entity the same name, whatever else is named first; only names that collide depend on the order.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from importlib.resources import files

from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.generators.kg_questions.paths.graph import Graph, KindReader, relations_named
from trailforge.generators.kg_questions.wording import PERSON, PROMPTS, RELATIONS, UNKNOWN
from trailforge.generators.kg_questions.worlds.config import NameStyle
from trailforge.retrieval import COMMON_WORDS
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import FactChain, KgFact, KgNode, KgTriple

_GIVEN = (
    "Adla Bero Calvo Dario Edda Falko Gesa Hanno Ilva Joris Katla Lorin Mirka Nevin Orla Pavo Quila Rasmo Selva Tamo "
    "Ulla Varek Wenna Xandro Yorin Zelda Alvar Brisa Corvin Delia Emrik Fenja Garvo Hella Ismer Jolan Kesta Ludo Marna"
).split()
_ONSETS = "b br c d dr f g gr h j k kr l m n p pr qu r s st t tr v w z th sk".split()
_NUCLEI = "a e i o u a e i o ia eo au ei".split()
_REAL_WORDS = COMMON_WORDS.union((files(__package__ or "") / "real_words.txt").read_text(encoding="utf-8").split())
"""English words, and names of people and places that anyone knows, which such syllables spell."""
_CODAS = ["", "", "n", "r", "l", "s", "m", "nd", "rk", "lt", "th", "ck"]
_ADJECTIVES = (
    "Silent Amber Hollow Crimson Borrowed Patient Northern Broken Gilded Wandering Hidden Frozen Burning Last Seventh "
    "Paper Iron Velvet Distant Restless Pale Salted Woven Unlit Crooked Marble Tidal Copper Drowned Early"
).split()
_NOUNS = (
    "Orchard Ladder Lantern Ferry Garden Mirror Harvest Bridge Compass Letter Winter Tower Carousel Kingdom Orphan "
    "Sparrow Archive Threshold Meridian Shoreline Cartographer Beekeeper Clockmaker Pilgrim Tenant Voyage Chapel Field "
    "Staircase Monument Embers Lighthouse"
).split()
_WORKS = frozenset(
    "film book novel novella play poem opera ballet musical song album painting sculpture symphony memoir work "
    "encyclopaedia recording series story drawing".split()
)
_PLAIN_PLACES = frozenset(
    "city town village country state region province continent place county municipality borough district kingdom "
    "capital land commune".split()
)
_PLAIN_TRIES = 20
"""Names of a look-alike that are drawn before it gets a word of its own."""
_ENDED = ("place of death", "year of death", "date of death", "place of burial", "cause of death")
_ORGANISATIONS = ("Works", "Society", "Union", "House", "League", "Institute")
_GROUPS = frozenset("organisation company group band team publisher label agency manufacturer".split())
_NUMBERED = frozenset("model flight spacecraft probe mission satellite console microprocessor rocket aircraft".split())
_PATTERNS = {
    "mountain": "Mount {}",
    "language": "{}ish",
    "element": "{}ium",
    "mineral": "{}ite",
    "battle": "Battle of {}",
    "treaty": "Treaty of {}",
    "airline": "{} Airways",
    "record label": "{} Records",
    "political party": "{} Party",
    "natural satellite": "{}",
}
_IN_NAMES = frozenset(
    "university museum theatre stadium church tunnel sea ocean strait bay gulf empire dynasty river canal award prize "
    "bridge tower palace castle temple library hospital airport orchestra academy institute telescope club school "
    "island lake desert railway station monastery cathedral abbey observatory laboratory college parliament".split()
)


_WRITTEN_SMALL = _WORKS | _PLAIN_PLACES | _GROUPS | _NUMBERED | _IN_NAMES | {"currency"}
"""Kinds of things that have names although these may have no capital: `euro`, `a-ha`."""
_NO_NAMES = frozenset(
    "year date day decade century number genre discipline occupation profession disease sport".split()
)
"""Kinds of what is written with a digit or a mark and is no name all the same: `1215`, `2-stroke`."""


class WorldNames:
    """The names that a world gives to the entities of a graph."""

    def __init__(self, store: KgStore, style: NameStyle, seed: int) -> None:
        config = KgPathConfig()
        self._store, self._style, self._seed = store, style, seed
        self._kinds = KindReader(Graph(store, config), config)
        self._roles = relations_named(store, config.roles)
        self._ended = relations_named(store, _ENDED)
        self._labels: dict[int, str] = {}
        self.is_clear = lru_cache(None)(self._find_clear)
        self._made: dict[str, str] = {}
        self._taken: set[str] = set()

    def node(self, row: int) -> KgNode:
        """Return an entity under its name in this world. It keeps its aliases only where it keeps its label."""
        label, *aliases = self._store.names_of(row)
        named = self.label(row)
        return KgNode(
            id=self._store.id_of(row),
            label=named,
            aliases=tuple(aliases) if named == label else (),
            kind=self._kinds.kind(row),
            role=self._role(row),
            matches=1,
        )

    def label(self, row: int) -> str:
        """Return an entity's name in this world. Years and common nouns (`drama film`) stay as they are, even where
        names are invented. What the graph says the kind of has a name also where that begins with a small letter, a
        digit or a mark (`iPhone`, `8½`, `'s-Hertogenbosch`, `pound sterling`).
        """
        if row not in self._labels:
            label = self._store.label_of(row)
            if self._style == "invented" and _is_name(label, self._kinds.kind(row)):
                kind = self.family(row)
                label = self._free_name(f"name {self._store.id_of(row)}", lambda draw, _: self.invented(kind, draw))
            self._taken.add(label.casefold())
            self._labels[row] = label
        return self._labels[row]

    def _find_clear(self, row: int) -> bool:
        """Has it a name of its own, which nothing else goes by?"""
        return self._kinds.is_proper(row) and len(self._store.namesakes(self._store.label_of(row))) == 1

    def is_past(self, row: int) -> bool:
        """Tell whether the graph knows of the entity's death."""
        return not self._ended.isdisjoint(self._store.out.relations_of(row).tolist())

    def _role(self, row: int) -> str:
        """What a person does; of several things what most do."""
        found = [int(each) for relation in self._roles for each in self._store.out.neighbours_of(row, relation)]
        return self._store.label_of(max(found, key=lambda each: (self._store.degree_of(each), -each))) if found else ""

    def family(self, row: int) -> str:
        """Return an entity's kind; where the graph does not state it, the kind that most of its relations imply."""
        if kind := self._kinds.kind(row):
            return kind
        phrases = PROMPTS.phrases(RELATIONS)
        votes: Counter[str] = Counter()
        for end, side in (("head", self._store.out), ("tail", self._store.into)):
            for relation in side.relations_of(row).tolist():
                entry = phrases.get(self._store.relation_names[relation][0].casefold())
                votes[entry[end].get("kind", UNKNOWN) if entry else UNKNOWN] += 1
        del votes[UNKNOWN]
        return min(votes, key=lambda kind: (-votes[kind], kind)) if votes else ""

    def renamed(self, chain: FactChain) -> FactChain:
        """Return a path with all entities under their names in this world."""
        nodes = {
            node.id: replace(self.node(self._store.row(node.id)), role=node.role, matches=node.matches)
            for node in (*chain.starts, *chain.found)
        }
        return replace(
            chain,
            facts=tuple(replace(fact, triple=self._rename_ends(fact.triple)) for fact in chain.facts),
            starts=tuple(nodes[node.id] for node in chain.starts),
            bridges=tuple(nodes[node.id] for node in chain.bridges),
            answer=nodes[chain.answer.id],
        )

    def fact(self, head: int, relation: int, tail: int, *, is_forward: bool = True) -> KgFact:
        """Return a triple as a fact with the names of this world; its counts are left at 1."""
        triple = self._rename_ends(self._store.triple(head, relation, tail))
        known, found = (triple.head, triple.tail) if is_forward else (triple.tail, triple.head)
        aliases = tuple(self._store.relation_names[relation][1:])
        return KgFact(triple=triple, known=known, found=found, relation_aliases=aliases, fan_out=1, left_without=1)

    def mistakable(self, row: int) -> str:
        """Return a name that contains this entity's name and belongs to no entity: `Fritz Albin Lang`, `New Velmar`."""
        label, kind = self.label(row), self.family(row)

        def draw_one(draw: random.Random, tries: int) -> str:
            word = partial(self._new_word, draw)
            return _mistakable(label, kind, word, draw) if tries < _PLAIN_TRIES else f"{label} {word()}"

        return self._free_name(f"like {self._store.id_of(row)}", draw_one)

    def made_up(self, like: KgNode, purpose: str) -> KgNode:
        """Return an invented entity of the same kind as `like` that no graph has; the same `purpose`, a text of the
        caller's, gives the same entity.
        """
        kind = self.family(self._store.row(like.id))
        name = self._free_name(f"made up {purpose}", lambda draw, _: self.invented(kind, draw))
        return KgNode(id=f"{purpose}~", label=name, aliases=(), kind=like.kind, role=like.role, matches=1)

    def invented(self, kind: str, draw: random.Random) -> str:
        """Return an invented name for something of this kind, such as a person or a city, drawn by `draw`. Its word is
        no word of the graph's names, nor one that means something elsewhere, as far as that is known.
        """
        return _named(kind, self._new_word(draw), draw)

    def _new_word(self, draw: random.Random) -> str:
        words = (_word(draw) for _ in itertools.count())
        return next(word for word in words if word.casefold() not in _REAL_WORDS and not self._store.has_word(word))

    def _free_name(self, purpose: str, draw_one: Callable[[random.Random, int], str]) -> str:
        """A drawn name that nothing else has; the same for the same purpose."""
        if purpose not in self._made:
            draw = random.Random(f"{self._seed} {purpose}")
            names = (draw_one(draw, tries) for tries in itertools.count())
            self._made[purpose] = next(name for name in names if self._is_free(name))
            self._taken.add(self._made[purpose].casefold())
        return self._made[purpose]

    def _rename_ends(self, triple: KgTriple) -> KgTriple:
        head, tail = (self.label(self._store.row(entity)) for entity in (triple.head, triple.tail))
        return replace(triple, head_label=head, tail_label=tail)

    def _is_free(self, name: str) -> bool:
        return name.casefold() not in self._taken and not len(self._store.namesakes(name))


def _is_name(label: str, kind: str) -> bool:
    """Is it the name of something of this kind, and no common noun? `kind`: as the graph says, or empty."""
    if label[:1].isupper():
        return True
    last = kind.split()[-1] if kind else ""
    is_noun = label.replace(" ", "").replace("-", "").isalpha() and label.islower()
    return last in _WRITTEN_SMALL if is_noun else bool(last) and last not in _NO_NAMES


def _named(kind: str, word: str, draw: random.Random) -> str:
    """A name with this word for something of this kind."""
    last = kind.split()[-1] if kind else ""
    if kind == PERSON:
        return f"{draw.choice(_GIVEN)} {word}"
    if last in _WORKS:
        title = f"The {draw.choice(_ADJECTIVES)} {draw.choice(_NOUNS)}"
        return title if draw.random() < 0.6 else f"{title} of {word}"
    if last in _NUMBERED:
        return f"{word} {draw.randint(2, 99)}"
    if last in _GROUPS:
        return f"{word} {draw.choice(_ORGANISATIONS)}"
    if last == "currency":
        return word.lower()
    if kind in _PATTERNS or last in _PATTERNS:
        return _PATTERNS.get(kind, _PATTERNS.get(last, "")).format(word)
    return f"{word} {kind.title()}" if last in _IN_NAMES else word


def _word(draw: random.Random) -> str:
    """Two or three syllables."""
    count = draw.choice((2, 2, 3))
    syllables = [draw.choice(_ONSETS) + draw.choice(_NUCLEI) for _ in range(count)]
    return ("".join(syllables) + draw.choice(_CODAS)).capitalize()


def _mistakable(label: str, kind: str, word: Callable[[], str], draw: random.Random) -> str:
    words, last = label.split(), kind.split()[-1] if kind else ""
    if kind == PERSON and 2 <= len(words) <= 3 and all(word[:1].isupper() for word in words):
        middle = f"{' '.join(words[:-1])} {draw.choice(_GIVEN)} {words[-1]}"
        return draw.choice((middle, middle, middle, f"{label} the Younger", f"{label} the Elder"))
    if kind == PERSON:
        return f"{label} and {word()}" if " of " in label else f"{label} of {word()}"
    if last in _WORKS:
        ways = ("Revisited", "Again", "Remembered", "Continued")
        return draw.choice([f"Return to {label}", *(f"{label} {way}" for way in ways if way not in words)])
    if last == "element":
        return f"{label} II"
    if not label.lower().startswith(("the ", "new ", "old ", "upper ", "little ")):
        ways = ("Upper", "Little", "New", "Old") if last in _PLAIN_PLACES else ("New", "Old", "Second", "Other")
        return f"{draw.choice(ways)} {label}"
    return f"{label} {word()}"
