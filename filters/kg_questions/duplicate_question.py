"""Reject questions that ask what an accepted one asks already: in the same words, or by facts that it has too."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from trailforge.rewards import normalize_answer
from trailforge.schemas import KgQuestion, Verdict

REASON = "duplicate_question"


@dataclass(slots=True)
class Asked:
    """The accepted questions so far, by words and by facts."""

    by_words: dict[str, str] = field(default_factory=dict)
    by_fact: defaultdict[tuple[str, str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: KgQuestion) -> None:
        """Take in an accepted question."""
        self.by_words.setdefault(normalize_answer(row.question), row.uid)
        for fact in _facts(row):
            self.by_fact[fact].append(row.uid)


def check(row: KgQuestion, asked: Asked) -> Verdict:
    """Score: the largest share of its facts that one accepted question has; all of them, or the same words, reject."""
    same = asked.by_words.get(normalize_answer(row.question))
    facts = _facts(row)
    shared = Counter(uid for fact in facts for uid in asked.by_fact.get(fact, ()))
    nearest, count = min(shared.items(), key=lambda each: (-each[1], each[0]), default=("", 0))
    score = 1.0 if same else count / len(facts)
    twin = same or (nearest if score == 1 else None)
    return Verdict(
        keep=twin is None, reason=REASON, score=round(score, 6), detail=f"{twin} asks it too" if twin else ""
    )


def _facts(row: KgQuestion) -> list[tuple[str, str, str]]:
    return [(fact.triple.head, fact.triple.relation, fact.triple.tail) for fact in row.chain.facts]
