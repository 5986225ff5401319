"""Split questions by rule and let a small model choose: the plug-in `rules` of the group `trailforge.policies`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trailforge.inference import Asker, Sampling, fill
from trailforge.mcts import PolicyConfig, PolicyPrompts, Proposal
from trailforge.small_model.splitting import candidate_splits, is_decomposable

_MAX_CANDIDATES = 8


class RulePolicy:
    """Splits and judges questions by rule and lets the model choose, for models too small to write splits (origin
    `rule`).
    """

    def __init__(self, asker: Asker, prompts: PolicyPrompts, config: PolicyConfig) -> None:
        self._asker, self._prompts, self._config = asker, prompts, config

    async def judge(self, sub_questions: Sequence[str]) -> list[bool]:
        """Return which sub-questions can be split: those for which rules find a good split."""
        return [is_decomposable(sub_question) for sub_question in sub_questions]

    async def propose(self, sub_question: str, count: int) -> Proposal:
        """Return at most `count` splits of a sub-question: the model's choice first, then the others in the order of
        the rules.
        """
        candidates = candidate_splits(sub_question)[:_MAX_CANDIDATES]
        if self._config.model_chooses and len(candidates) > 1:
            chosen = await self._choose(sub_question, candidates)
            candidates = [candidates[chosen], *candidates[:chosen], *candidates[chosen + 1 :]]
        return Proposal(splits=tuple(candidates[:count]), origin="rule")

    async def _choose(self, sub_question: str, candidates: list[tuple[str, str]]) -> int:
        """0-based choice; the rules' first when the model names none, or its reply was cut."""
        listing = "\n".join(
            f"{number}. {first} / {second}" for number, (first, second) in enumerate(candidates, start=1)
        )
        prompt = fill(self._prompts.choose_split, question=sub_question, candidates=listing)
        reply = await self._asker.text(prompt, purpose="choose", sampling=Sampling(max_tokens=4, stop=("\n",)))
        number = re.search(r"\d{1,9}", reply.answer or "")
        chosen = int(number[0]) - 1 if number else 0
        return chosen if 0 <= chosen < len(candidates) else 0
