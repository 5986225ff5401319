"""What a run would take, found by rehearsing it: the real search with the real prompts, and an imaginary model.

The imaginary model knows how hard a sub-question is, not what it means: easy ones it mostly answers rightly, hard ones
mostly not, and what rests on a wrong answer is wrong. That decides how long a search goes on, and so what it costs. How
many are hard was set so that the demo preset with the embedded model comes out right (`_HARD_SHARE`). Loads no Beam: an
estimate is there in a second.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from trailforge.filters import FilterConfig
from trailforge.generators.mcts_trajectories.asking import PURPOSE as WORD
from trailforge.generators.mcts_trajectories.asking import prepare_question
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import Context, GeneratorConfig, generate, reword
from trailforge.generators.mcts_trajectories.thoughts import PURPOSE
from trailforge.inference import Meter, Prices, Reply, Request, Usage
from trailforge.pipelines.estimate import Estimate, StageEstimate, count_tokens, sample_questions
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.retrieval import RetrievalConfig, open_retrieval
from trailforge.schemas import Document, Question


def estimate(inputs: RunInputs, config: MctsRunConfig) -> Estimate:
    """Calls, tokens and cost, found by rehearsing the search of a sample of the questions."""
    questions, total = sample_questions(inputs, config.seed)
    stages = asyncio.run(rehearse(questions, config.generator, config.model.prices, total=total))
    return Estimate(
        items=total,
        unit="questions",
        sampled=len(questions),
        stages=tuple(stages),
        rests_on="An estimate: how hard the questions are for the model decides.",
    )


STAGES = (WORD, "judge", "split", "choose", "rephrase", "answer", "grade", PURPOSE)
"""Purposes of calls, in the order in which a search makes them."""

_HARD_SHARE = 0.4
_RIGHT_IF_EASY, _RIGHT_IF_HARD = 0.9, 0.1
_USABLE_REPHRASINGS = 0.8
_THOUGHTS_SHARE, _ROOM_FOR_THOUGHTS = 0.1, 1024
"""A reply that is given more room than this thinks first, and takes this share of its room."""
_TURN_TOKENS = 8
"""What a chat template adds to a turn."""
_WRONG = "another name"
_KEPT_WORDS = 0.2
_OTHER_WORDS = "namely exactly perhaps surely indeed rather precisely truly".split()
_PARTS = re.compile(r"parts (\d+) to (\d+)")


async def rehearse(
    questions: Sequence[Question], config: GeneratorConfig, prices: Prices, *, total: int
) -> list[StageEstimate]:
    """Calls, tokens and cost per stage of a run over `total` questions, of which these are a sample."""
    spent: dict[str, Usage] = defaultdict(Usage)
    # Words in the place of vectors: as many passages of the same length, without an encoder or an index.
    found = open_retrieval(RetrievalConfig(kind="bm25"))
    for question in questions:
        has_paragraphs = bool(question.paragraphs)
        if not has_paragraphs:
            question = replace(question, paragraphs=_some_paragraphs(question))
        model = ImaginaryModel(question)
        context = Context(
            run_id="", model="", seed=0, prices=prices, config=config, client=model, retrieval=found
        )  # fmt: skip
        prepared, _ = await prepare_question(question, context, own_paragraphs=has_paragraphs)
        if prepared.verdict.keep:
            generated = await generate(question, context, worded=prepared.question)
            await reword(question, generated.candidates, context, FilterConfig())  # filters leave fewer
        for stage, usage in model.spent.items():
            spent[stage] += usage
    factor = total / len(questions) if questions else 0.0
    return [StageEstimate(stage=name, usage=_scaled(spent[name], factor, prices)) for name in STAGES if name in spent]


class ImaginaryModel:
    """Answers as a model might that is asked about one question; counts each different call once."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._hops = max(1, len(question.decomposition) or 2)
        self._replies: dict[str, Reply] = {}
        self.spent: dict[str, Usage] = defaultdict(Usage)

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """As `ModelClient.complete`."""
        reply = self._replies.get(request.key)
        if reply is None:
            reply = self._replies[request.key] = self._reply(request)
            self.spent[request.purpose] += Usage(
                calls=1, prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens
            )
        if meter is not None:
            meter.add(reply)
        return reply

    def _reply(self, request: Request) -> Reply:
        is_text = isinstance(request.prompt, str)
        prompt = request.prompt if isinstance(request.prompt, str) else request.prompt[-1].content
        text, room = self._text(request, prompt), request.sampling.max_tokens
        thoughts = int(_THOUGHTS_SHARE * room) if room > _ROOM_FOR_THOUGHTS else 0
        return Reply(
            text=text,
            finish_reason="stop",
            prompt_tokens=count_tokens(prompt) + (0 if is_text else _TURN_TOKENS),
            completion_tokens=min(room, count_tokens(text) + 1 + thoughts),
            key=request.key,
        )

    def _text(self, request: Request, prompt: str) -> str:
        if request.purpose == "choose":
            return "1 \n"
        if request.purpose == "rephrase":
            query = _last(prompt, "Query: ")
            rng = random.Random(request.sampling_seed)
            usable = rng.random() < _USABLE_REPHRASINGS
            kept = (w for w in query.rstrip("?").split() if not w.islower() or rng.random() < _KEPT_WORDS)
            return f"{rng.choice(_OTHER_WORDS)} {' '.join(kept)}" if usable else query.split()[0]
        if request.purpose == WORD:
            return json.dumps({"clear": True, "sub_questions": [hop.question for hop in self._question.decomposition]})
        if request.purpose == PURPOSE:
            return _thoughts(request.json_schema or "")
        if request.purpose == "judge":
            listed = (line.partition(". ")[2] for line in prompt.rpartition("Questions:\n")[2].splitlines())
            parts = (self._parts(each) for each in listed)
            return "\n".join("Yes" if last > first else "No" for first, last in parts)
        asked = _last(prompt, "Question: ")
        first, last = self._parts(asked)
        if request.purpose == "grade":
            return '{"score": 0}'
        if request.purpose == "split":
            return json.dumps({"decompositions": self._splits(asked, first, last)})
        return self._answer(asked, request.sampling_seed)

    def _answer(self, asked: str, seed: int) -> str:
        is_hard = random.Random(f"{self._question.id} {asked}").random() < _HARD_SHARE
        is_right = random.Random(seed).random() < (_RIGHT_IF_HARD if is_hard else _RIGHT_IF_EASY)
        return self._question.answer if is_right and _WRONG not in asked else _WRONG

    def _parts(self, asked: str) -> tuple[int, int]:
        """First and last hop of the question that a sub-question stands for; the whole question has all of them."""
        named = _PARTS.search(asked)
        if named is not None:
            return int(named[1]), int(named[2])
        return (1, self._hops) if asked == self._question.question.strip() else (1, 1)

    def _splits(self, asked: str, first: int, last: int) -> list[dict[str, str]]:
        """A split at every place between two hops; the sub-questions are as long as real ones."""
        known = " ".join(dict.fromkeys(re.findall(r"#\d+", asked)))
        return [
            {
                "first": f"Which name do parts {first} to {cut} of what was asked lead to, {known or 'by themselves'}?",
                "second": f"What do parts {cut + 1} to {last} of what was asked say about [E]?",
            }
            for cut in range(last - 1, first - 1, -1)
        ] or [{"first": asked, "second": "nothing"}]


def _thoughts(schema: str) -> str:
    """As many words in each field as a sentence or two have; every claim is stated but that which is taken back."""
    turns = {name: turn["properties"] for name, turn in json.loads(schema)["properties"].items()}
    reply = {
        name: {field: kind["type"] == "boolean" or "word " * 25 for field, kind in fields.items()}
        for name, fields in turns.items()
    }
    for fields in reply.values():
        if "reflection" in fields and "stated" in fields:
            fields["stated"] = False
    return json.dumps(reply)


def _scaled(usage: Usage, factor: float, prices: Prices) -> Usage:
    scaled = Usage(
        calls=round(usage.calls * factor),
        prompt_tokens=round(usage.prompt_tokens * factor),
        completion_tokens=round(usage.completion_tokens * factor),
    )
    return replace(scaled, cost=prices.cost(scaled))


def _some_paragraphs(question: Question) -> tuple[Document, ...]:
    """Passages of 100 words, as in the usual corpora, for a question that brings none."""
    text = f"{question.question} " + "It was there that many of them had come to know one another in those years. " * 6
    return tuple(Document(id=str(n), title="A title of some length", text=text) for n in range(10))


def _last(prompt: str, label: str) -> str:
    """What stands after the last `label` of a prompt, on its line."""
    return prompt.rpartition(label)[2].split("\n", 1)[0].strip()
