"""Policies that propose splits of questions: the model itself, or a plug-in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trailforge.inference import Asker, Sampling, fill, list_schema, object_schema
from trailforge.mcts.inputs import Policy, Proposal
from trailforge.rewards import read_yes_or_no
from trailforge.schemas import MalformedReply, check_plugin, load_plugin

_NUMBERED = re.compile(r"^\s*(?:[-*•]|\d+[.):])\s*")

POLICIES = "trailforge.policies"
"""Group of entry points for policies: each has the interface of `ModelPolicy` and is opened with the same three
arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfig:
    """Settings of how splits are proposed and judged."""

    kind: str = "model"
    """Kind of policy. `model`: the model splits and judges freely. Others are plug-ins; with `rules` code lists splits
    and judges, and the model may choose."""
    model_chooses: bool = True
    """Whether, with `rules`, the model is asked which candidate comes first. False: the rules' own order."""
    temperature: float = 0.6
    top_p: float = 0.95
    split_max_tokens: int = 8192
    """Largest number of tokens of a reply with splits, which leaves room for a reasoning model's thoughts."""
    judge_max_tokens: int = 4096

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a kind that there is not."""
        check_plugin(POLICIES, self.kind, field="kind", built_in=("model",))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPrompts:
    """Texts of the policy's prompts. Their placeholders are `{{questions}}` in `decomposable`, `{{question}}` and
    `{{ways}}` in `split`, `{{question}}` and `{{candidates}}` in `choose_split`.
    """

    split: str
    decomposable: str
    choose_split: str


class ModelPolicy:
    """The policy of the MSearcher paper: a model that proposes splits of a question in its own words, and judges which
    of its sub-questions can be split further (section 3.1.1, prompts of appendix A). All other policies are plug-ins.
    """

    def __init__(self, asker: Asker, prompts: PolicyPrompts, config: PolicyConfig) -> None:
        self._asker, self._prompts, self._config = asker, prompts, config

    async def judge(self, sub_questions: Sequence[str]) -> list[bool | None]:
        """Judge all sub-questions in one reply; None for all of them when the reply was unusable or cut, twice.

        The paper asks for one at a time (appendix A). The halves of a round's splits are judged together here, which
        saves a fifth of the calls.
        """
        listed = "\n".join(f"{number}. {text}" for number, text in enumerate(sub_questions, start=1))
        try:
            return await self._asker.matching(
                fill(self._prompts.decomposable, questions=listed),
                lambda text: _verdicts(text, len(sub_questions)),
                purpose="judge",
                sampling=self._sampling(self._config.judge_max_tokens),
            )
        except MalformedReply:
            return [None] * len(sub_questions)

    async def propose(self, sub_question: str, count: int) -> Proposal:
        """Return up to `count` different splits from one reply; a reply that breaks the schema or is cut, twice, counts
        as malformed."""
        prompt = fill(self._prompts.split, question=sub_question, ways=_ways(count))
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


def open_policy(asker: Asker, prompts: PolicyPrompts, config: PolicyConfig) -> Policy:
    """Open the policy that `config.kind` names. Raises `InvalidInput` for an unknown kind."""
    kind = ModelPolicy if config.kind == "model" else load_plugin(POLICIES, config.kind, field="policy.kind")
    return kind(asker, prompts, config)


def split_schema(count: int) -> dict[str, Any]:
    """Return the JSON schema of a reply with up to `count` splits."""
    half = {"type": "string", "minLength": 1}
    return object_schema(decompositions=list_schema(object_schema(first=half, second=half), minItems=1, maxItems=count))


def _ways(count: int) -> str:
    if count == 1:
        return "one way to split, the best"
    return (
        f"{count} different ways to split, the best first; fewer when there are not that many. "
        "Two ways are different only if they ask something else first"
    )


def _verdicts(text: str, count: int) -> list[bool | None] | None:
    """One verdict a line, in their order, numbered or not; None unless there are `count` of them."""
    lines = (_NUMBERED.sub("", line) for line in text.splitlines())
    found = [verdict for line in lines if (verdict := _verdict(line)) is not None]
    return list(found) if len(found) == count else None


def _verdict(line: str) -> bool | None:
    """At the beginning of a line, or at its end, after the question."""
    verdict, last = read_yes_or_no(line), line.rpartition(" ")[2]
    return read_yes_or_no(last) if verdict is None and last else verdict
