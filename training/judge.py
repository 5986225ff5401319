"""A model as judge of answers (R-Search, section 3.4: a score in [0, 1] for facts and explanations).

A judge's verdict is a number like any other part of a reward: `rewards` and the frameworks' adapters are handed it.
It is asked through the one client for models, so the ledger remembers it and the same answer is never judged twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from inference import ChatTurn, Meter, Request, Sampling, ask_json
from inference.structured import Client
from schemas import GroundTruth
from training.prompts import load_prompt

_SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}},
    "required": ["score"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An answer that is to be judged."""

    question: str
    answer: str
    truth: GroundTruth


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Asks a model for the score of answers."""

    client: Client
    model: str
    """As the server knows it; the paper's is GPT-4.1-Mini."""
    max_tokens: int = 64
    """Of a verdict; more for a model that thinks first."""
    max_answer_chars: int = 4000
    """More of an answer is not shown."""

    async def score(self, judged: Judged, meter: Meter | None = None) -> float | None:
        """In [0, 1]; None for questions with options, whose letters are compared. 0.0 for no answer, unasked.

        Raises what the client raises, `MalformedReply` for a verdict that has not the form, twice.
        """
        if judged.truth.correct_options:
            return None
        if not judged.answer.strip():
            return 0.0
        texts = {
            "question": judged.question,
            "reference": " / ".join(judged.truth.target),
            "answer": judged.answer[: self.max_answer_chars],
        }
        # In one pass: an answer that holds {{reference}} must not be filled in.
        prompt = re.sub(r"\{\{(\w+)\}\}", lambda match: texts[match[1]], load_prompt("judge"))
        request = Request(
            model=self.model,
            prompt=(ChatTurn(role="user", content=prompt),),
            sampling=Sampling(temperature=0.0, max_tokens=self.max_tokens),
            purpose="judge",
        )
        verdict = await ask_json(self.client, request, _SCHEMA, meter)
        return float(verdict["score"])

    async def score_all(self, judged: Sequence[Judged], meter: Meter | None = None) -> list[float | None]:
        """`score` of each, all at once: the client decides how many calls are under way."""
        return list(await asyncio.gather(*(self.score(each, meter) for each in judged)))
