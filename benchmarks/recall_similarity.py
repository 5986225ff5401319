"""Measure from which cosine on a passage counts as a supporting document, for an encoder (`recall_similarity` of a
reward).

Each supporting paragraph of a file of questions is compared with its own first and second half, as a chunked corpus has
it, and against the question's other paragraphs, supporting ones and distractors, which are like it and are not it.
Printed are the shares that reach each threshold: of the halves as many as can be, of the others as few. A half that is
cut out word by word is known by its words whatever the threshold; its share tells how passages fare that say the same
otherwise.

    make bench B=recall_similarity ARGS="--questions hotpotqa.jsonl.gz"
    make bench B=recall_similarity ARGS="--questions hotpotqa.jsonl.gz --encoder intfloat/multilingual-e5-base \
        --passage-prefix 'passage: '"
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from trailforge.pipelines.sources import read_questions
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.sentences import split_sentences
from trailforge.schemas import Question

THRESHOLDS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
KINDS = ("first half", "second half", "other supporting", "distractor")


def pairs(question: Question) -> Iterator[tuple[str, str, str]]:
    """Yield (kind of pair, text of a supporting paragraph, text that it is compared with)."""
    gold = {document.id for document in question.supporting_documents if document.id is not None}
    for paragraph in question.paragraphs:
        if paragraph.id not in gold:
            continue
        sentences = split_sentences(paragraph.text)
        if middle := len(sentences) // 2:
            yield "first half", paragraph.text, " ".join(sentences[:middle])
            yield "second half", paragraph.text, " ".join(sentences[middle:])
        for other in question.paragraphs:
            if other.id != paragraph.id and other.text:
                kind = "other supporting" if other.id in gold else "distractor"
                yield kind, paragraph.text, other.text


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=Path, required=True, help="a file with supporting facts")
    parser.add_argument("--count", type=int, default=80, help="questions, drawn by seed 0")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--passage-prefix", default="")
    given = parser.parse_args()
    found = [each for each in read_questions(given.questions) if isinstance(each, Question)]
    drawn = random.Random(0).sample(found, min(given.count, len(found)))
    encoder = Encoder(given.encoder, passage_prefix=given.passage_prefix)
    measured: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for question in drawn:
        for kind, one, other in pairs(question):
            measured[kind].append(encoder.similarity(one, other))
    table = Table("reach", *(f"{kind} ({len(measured[kind])})" for kind in KINDS))
    for threshold in THRESHOLDS:
        shares = (sum(each >= threshold for each in measured[kind]) / max(1, len(measured[kind])) for kind in KINDS)
        table.add_row(str(threshold), *(f"{share:.3f}" for share in shares))
    Console().print(table)


if __name__ == "__main__":
    main()
