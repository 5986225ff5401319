"""Readers by rule for the filters of bundle questions: one that only guesses, one that guesses what it cannot read.

They are asked in the prompts of the production preset: draws, verdicts and the order of options are as in a run.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tests.support.bundle_questions import question
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.filters.answers import open_scorer, states_fact
from trailforge.filters.bundle_readings import judge_question
from trailforge.filters.bundles import FEWEST_CORRECT, MOST_CORRECT
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.write import BundleContext, BundleWork
from trailforge.inference import Prices, Request
from trailforge.schemas import (
    Bundle,
    BundleHop,
    BundleInput,
    BundleQuestion,
    BundleQuestionType,
    PlanNode,
    SourceDocument,
)

NAMED_THERE = 4
"""Of one kind in the last document, of which the others pick out one: who reads it alone chooses from these."""
NAMED_ANYWHERE = 50
"""Whom one without that document has to choose from."""
_OPTION = re.compile(r"^([A-H])\. (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """A sound question and its documents."""

    row: BundleQuestion
    item: BundleInput


def sound_case(number: int, kind: BundleQuestionType, documents: int, options: int) -> Case:
    """Question `number`, over so many documents, all of which it needs. `options`: 0 for open ones."""
    rng = random.Random(number)
    sources = [_document(number, place) for place in range(documents)]
    bundle = Bundle(
        uid="b", document_ids=tuple(d.id for d in sources), sources=tuple(d.source for d in sources), cohesion=0.6,
        theme="mill",
    )  # fmt: skip
    many = rng.randint(FEWEST_CORRECT, min(MOST_CORRECT, options - 1)) if kind == "multiple_choice" else min(options, 1)
    texts = tuple(f"option {n} of {number}" for n in range(options))
    correct = tuple(sorted(rng.sample("ABCDEFG"[:options], many)))
    facts = tuple(f"fact {place}" for place in range(documents)) if kind == "causal" else ()
    row = question(
        uid=str(number),
        question=f"What is found in case {number}?",
        type=kind,
        answer=f"because of {', '.join(facts)}" if facts else "; ".join(correct) or "candidate 0",
        options=texts,
        correct_options=correct,
        hops=tuple(BundleHop(document_id=d.id, evidence=d.text.split(". ")[1], reasoning="") for d in sources),
        dag_nodes=tuple(
            PlanNode(node_id=chr(ord("A") + n), query=f"the mill of year {n}", tool="News") for n in range(documents)
        ),
        dag_edges=(),
        key_facts=facts,
    )
    return Case(row, BundleInput(id="b", bundle=bundle, documents=tuple(sources)))


def _document(number: int, place: int) -> SourceDocument:
    return SourceDocument(
        id=f"s{place}:{number}",
        source=f"s{place}",
        kind="news",
        title=f"Part {place}",
        text=f"We saw the Orkney mill. It was seen in year {place} of case {number}. It stood.",
    )


async def passes(case: Case, config: BundleRunConfig, *, only_guesses: bool, seed: int) -> tuple[bool, int]:
    """Whether the question passes all filters with a reader, and the calls that this took."""
    rng = random.Random(f"reader {seed}")

    def reply(request: Request) -> str:
        if request.purpose == "grade":
            said = prompt_text(request).rpartition("\nAnswer: ")[2]
            share = [states_fact(said, fact) for fact in case.row.key_facts]
            return json.dumps({"score": sum(share) / len(share) if share else 0.0})
        return _read(case, prompt_text(request), rng, only_guesses=only_guesses)

    client = ScriptedModel(reply)
    context = BundleContext(
        run_id="r", model="simulated", preset="r-search", seed=seed, prices=Prices(), config=config.writer,
        client=client, judge=config.judge,
    )  # fmt: skip
    work = BundleWork(item=case.item, context=context)
    scorer = open_scorer(config.judge, context.asker(work.meter))
    verdicts = await judge_question(case.row, case.item, work, config.filters, scorer)
    seen = [verdict for verdict in verdicts if verdict.reason not in _MEASURED]
    assert all(verdict.keep for verdict in seen), "it has to be sound to look at"
    return all(verdict.keep for verdict in verdicts), len(client.requests)


_MEASURED = {"closed_book", "not_answerable", "fewer_documents_suffice"}


def _read(case: Case, prompt: str, rng: random.Random, *, only_guesses: bool) -> str:
    row, shown = case.row, [place for place, d in enumerate(case.item.documents) if f"] {d.title} (" in prompt]
    has_all = len(shown) == len(row.hops) and not only_guesses
    if row.options:
        letters = dict(_OPTION.findall(prompt.rpartition("Question: ")[2]))
        right = {row.options[ord(letter) - ord("A")] for letter in row.correct_options}
        if has_all:
            return ", ".join(letter for letter, text in letters.items() if text in right)
        return ", ".join(rng.choice(_sets(row, sorted(letters))))
    if row.type == "causal":
        known = row.key_facts if has_all else [] if only_guesses else [row.key_facts[place] for place in shown]
        return f"It is so since {' and '.join(known)} hold." if known else "It is so by nature."
    has_last = len(row.hops) - 1 in shown and not only_guesses
    return f"candidate {0 if has_all else rng.randrange(NAMED_THERE if has_last else NAMED_ANYWHERE)}"


def _sets(row: BundleQuestion, letters: Sequence[str]) -> list[tuple[str, ...]]:
    """What may be correct by the form of the question."""
    if row.type == "single_choice":
        return [(letter,) for letter in letters]
    sizes = range(FEWEST_CORRECT, min(MOST_CORRECT, len(letters) - 1) + 1)
    return [each for size in sizes for each in combinations(letters, size)]


def without_judge(config: BundleRunConfig) -> BundleRunConfig:
    """Explanations are scored by their key facts."""
    return replace(config, judge=replace(config.judge, near_misses=False, free_answers=False))
