"""What the graph says an entity is."""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.retrieval.kg import KgStore

_PERSON = "person"
_HUMAN = "human"
_LONGEST_LABEL = 10
"""Words: what is longer is a sentence, not a name."""


@dataclass(frozen=True, slots=True)
class KindReader:
    """Reads kinds by row."""

    store: KgStore
    kinds: frozenset[int]
    """Relations that say what something is."""
    roles: frozenset[int]
    """Relations that say what a person does."""

    def kind(self, row: int) -> str:
        """Label of the first class that it is an instance of, `person` for a human; empty without any."""
        label = self._first(row, self.kinds)
        return _PERSON if label == _HUMAN else label

    def role(self, row: int) -> str:
        """Label of what it does, of several things the one that most do; empty without any."""
        found = [int(each) for relation in self.roles for each in self.store.out.neighbours_of(row, relation)]
        return self.store.label_of(max(found, key=lambda each: (self.store.degree_of(each), -each))) if found else ""

    def is_proper(self, row: int) -> bool:
        """Has it a name of its own, and is it no class that others are instances of?"""
        label = self.store.label_of(row)
        if label == self.store.id_of(row) or not any(map(str.isalnum, label)) or len(label.split()) > _LONGEST_LABEL:
            return False
        return (self.kinds | self.roles).isdisjoint(self.store.into.relations_of(row).tolist())

    def _first(self, row: int, relations: frozenset[int]) -> str:
        for relation in sorted(relations):
            found = self.store.out.neighbours_of(row, relation)
            if len(found):
                return self.store.label_of(int(found[0]))
        return ""
