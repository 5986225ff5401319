"""A scripted agent that makes no mistake, over a world's folder: it searches by BM25 and believes what is right."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from trailforge.pipelines.sources import InvalidRow, read_questions
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.indexes.corpus import read_corpus
from trailforge.rewards import exact_match, mentions
from trailforge.schemas import Passage, Question


class WorldFolder:
    """What `trailforge world` has written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.documents = list(read_corpus(self.folder / "corpus.jsonl"))
        self.retriever = Bm25Retriever(self.documents)
        self.about: dict[str, Any] = json.loads((self.folder / "world.json").read_text())
        self.searches: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in (self.folder / "searches.jsonl").read_text().splitlines():
            search = json.loads(line)
            self.searches[search["question_id"]].append(search)

    def questions(self, split: str = "questions") -> list[Question]:
        """As every reader of questions gets them."""
        rows = list(read_questions(self.folder / f"{split}.jsonl", format="jsonl"))
        assert not [row for row in rows if isinstance(row, InvalidRow)], rows
        return [row for row in rows if isinstance(row, Question)]

    def search(self, query: str, count: int | None = None) -> list[Passage]:
        """Passages, best first; as many as the world was measured with."""
        return asyncio.run(self.retriever.retrieve(query, count or self.about["config"]["passages"]))

    def solved(self, question: Question) -> bool:
        """Does who follows the gold hops, fills in what it has read, and rewords what misleads get the answer?

        It takes the first passage for what it says only where the title is that of the entity it has asked for.
        """
        found: list[str] = []
        for search in self.searches[question.id]:
            passage = self.search(search["query"], 1)[0]
            if passage.title != search["title"]:
                passage = self.search(search["reworded"], 1)[0]
            if passage.title != search["title"] or not all(each in passage.text for each in search["sentences"]):
                return False
            found.append(search["answer"])
        if len(question.decomposition) > len(found):  # of what is compared, the earlier one
            first = min(range(len(found)), key=lambda place: int(found[place]))
            found.append(self.searches[question.id][first]["title"])
        return exact_match(found[-1], question.golds) == 1

    def longer(self, split: str = "questions") -> list[Question]:
        """Its questions of two facts or more, comparisons aside."""
        return [each for each in self.questions(split) if self.searches[each.id][0]["kind"].endswith("hops")]

    def found_at_once(self, question: Question) -> bool:
        """Has a passage of one search, in the question's own words, the answer?"""
        texts = [passage.text for passage in self.search(question.question)]
        return any(mentions(text, gold) for text in texts for gold in question.golds)
