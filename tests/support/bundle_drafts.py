"""Drafts of a question over two documents, sound and flawed, and a scripted model that writes and reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.support.bundle_questions import BUNDLE, PAPER, STREET
from tests.support.scripted import Script, ScriptedModel, prompt_text
from trailforge.generators.document_bundles.write import BundleContext, BundleWork, BundleWriterConfig
from trailforge.inference import Prices, Request
from trailforge.schemas import BundleInput

ITEM = BundleInput(id=BUNDLE.uid, bundle=BUNDLE, documents=(STREET, PAPER))
ANSWER = "University of Bergen"
SOUND: dict[str, Any] = {
    "type": "factual",
    "question": "At which university did the designer of the turbine in the Ludlow prize's tide mill study blades?",
    "answer": ANSWER,
    "options": [],
    "correct": [],
    "hops": [
        {
            "document": 1,
            "evidence": "the turbine that Mara Lind designed",
            "query": "designer of the tide mill's turbine",
            "reasoning": "names the designer",
            "needs": [],
        },
        {
            "document": 2,
            "evidence": "Mara Lind studied blades at the University of Bergen",
            "query": "where the designer found in A studied blades",
            "reasoning": "says where",
            "needs": [1],
        },
    ],
}


def hop(number: int, **changes: Any) -> list[dict[str, Any]]:
    """The sound hops, one of them changed."""
    return [{**each, **changes} if n == number else each for n, each in enumerate(SOUND["hops"])]


def script(
    drafts: Sequence[dict[str, Any]],
    *,
    needs: Sequence[str] = ("Orkney", "Bergen"),
    knows: bool = False,
    fault: str = "none",
    wording: str = "",
    unasked: str = "none",
    enough: int = 0,
    mended: Sequence[dict[str, Any]] = (),
) -> Script:
    """Writes these drafts, and answers where all these words stand in the prompt; `knows`: without documents too.

    `fault`: what its editor finds, but with the questions that it writes in the place of others (`mended`); `wording`:
    how it says the question; `unasked`: why nobody would ask it; `enough`: the document whose half of it would do.
    """
    sound = tuple(f"): {draft['question']}\n" for draft in mended if "question" in draft)

    def reply(request: Request) -> str:
        prompt = prompt_text(request)
        if request.purpose == "mend":
            return json.dumps({"questions": list(mended)})
        if prompt.startswith("Write "):
            return json.dumps({"questions": list(drafts)})
        if request.purpose == "review":
            found = "none" if any(each in prompt for each in sound) else fault
            return json.dumps({"why": " It is said why. ", "fault": found, "wording": wording})
        if request.purpose == "asked":
            return json.dumps({"why": " It is said why. ", "fault": unasked})
        if request.purpose == "halves":
            return json.dumps({"why": " It is said why. ", "enough": enough})
        if prompt.startswith("Answer the question from what you know"):
            return f"the {ANSWER}" if knows else "the University of Tartu"
        return ANSWER if all(word in prompt for word in needs) else "unknown"

    return reply


def context(model: ScriptedModel, **settings: Any) -> BundleContext:
    """Of a run with this model; `settings`: of its writer."""
    return BundleContext(
        run_id="r", model="scripted", preset="test", seed=0, prices=Prices(prompt_per_million=1.0),
        config=BundleWriterConfig(**settings), client=model,
    )  # fmt: skip


def work(draft: dict[str, Any] | None, **how: Any) -> BundleWork:
    """The bundle, and a model that writes this draft; `how` as in `script`."""
    return BundleWork(item=ITEM, context=context(ScriptedModel(script([draft] if draft else [], **how))))
