"""Who proposes splits: the model itself (production), or code rules among which a small model chooses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from trailforge.inference import Sampling
from trailforge.inference.asker import Asker, fill
from trailforge.mcts.search import Proposal
from trailforge.schemas import MalformedReply
from trailforge.small_model.splitting import candidate_splits, is_decomposable

_MAX_CANDIDATES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfig:
    """How splits are proposed and judged."""

    kind: Literal["model", "rules"] = "model"
    """`model`: it splits and judges freely. `rules`: code lists splits and judges; the model may choose."""
    model_chooses: bool = True
    """For `rules`: ask the model which candidate comes first. False: the rules' own order."""
    temperature: float = 0.6
    top_p: float = 0.95
    split_max_tokens: int = 8192
    """Room for a reasoning model's thoughts."""
    judge_max_tokens: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPrompts:
    """Templates: `{{question}}`, and `{{count}}` (split) or `{{candidates}}` (choose)."""

    split: str
    decomposable: str
    choose_split: str


class ModelPolicy:
    """The policy model of the paper: splits freely, judges itself (section 3.1.1, prompts of appendix A)."""

    def __init__(self, asker: Asker, prompts: PolicyPrompts, config: PolicyConfig) -> None:
        self._asker, self._prompts, self._config = asker, prompts, config

    async def is_decomposable(self, sub_question: str) -> bool | None:
        """One yes/no judgement; None when the reply has neither, or was cut, twice."""
        try:
            return await self._asker.matching(
                fill(self._prompts.decomposable, question=sub_question),
                _yes_or_no,
                purpose="judge",
                sampling=self._sampling(self._config.judge_max_tokens),
            )
        except MalformedReply:
            return None

    async def propose(self, sub_question: str, count: int) -> Proposal:
        """`count` different splits in one reply; one that breaks the schema or is cut, twice, counts as malformed."""
        prompt = fill(self._prompts.split, question=sub_question, count=str(count))
        sampling = self._sampling(self._config.split_max_tokens)
        try:
            reply = await self._asker.json(prompt, split_schema(count), purpose="split", sampling=sampling)
        except MalformedReply:
            return Proposal(splits=(), malformed=1)
        halves = tuple((split["first"], split["second"]) for split in reply["decompositions"])
        return Proposal(splits=halves[:count])

    def _sampling(self, max_tokens: int) -> Sampling:
        config = self._config
        return Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=max_tokens)


class RulePolicy:
    """Candidates and atomicity by rule, the model choosing: for models too small to split (origin `rule`)."""

    def __init__(self, asker: Asker, prompts: PolicyPrompts, config: PolicyConfig) -> None:
        self._asker, self._prompts, self._config = asker, prompts, config

    async def is_decomposable(self, sub_question: str) -> bool:
        """Some good split exists."""
        return is_decomposable(sub_question)

    async def propose(self, sub_question: str, count: int) -> Proposal:
        """The model's choice first, then the rules' order."""
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


def split_schema(count: int) -> dict[str, Any]:
    """JSON schema of a reply with up to `count` splits."""
    half = {"type": "string", "minLength": 1}
    split = {
        "type": "object",
        "properties": {"first": half, "second": half},
        "required": ["first", "second"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"decompositions": {"type": "array", "items": split, "minItems": 1, "maxItems": count}},
        "required": ["decompositions"],
        "additionalProperties": False,
    }


def _yes_or_no(text: str) -> bool | None:
    word = re.match(r"\W*(yes|no)\b", text, re.IGNORECASE)
    return word[1].lower() == "yes" if word else None
