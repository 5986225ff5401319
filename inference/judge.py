"""A model as judge of answers (R-Search, section 3.4: a score in [0, 1] for facts and explanations).

A judge's verdict is a number that `rewards` takes as an input. It is asked through the one client for models, so the
ledger remembers it and the same answer is never judged twice. `ThreadSafeJudge` is the judge for all callers that
score: trainers and frameworks call rewards on event loops and threads of their own.
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from trailforge.inference.asker import Asker
from trailforge.inference.request import ChatTurn, Request, Sampling
from trailforge.inference.structured import Client, ask_json, object_schema
from trailforge.inference.thread_safe import ServedModel, ThreadSafeModel
from trailforge.inference.threads import once
from trailforge.inference.usage import Meter
from trailforge.schemas import InvalidInput, MalformedReply

PROMPT = "judge.txt"
SCHEMA = object_schema(score={"type": "number", "minimum": 0, "maximum": 1})
_PLACES = {"question", "reference", "answer"}
_ON_KEY_FACTS = re.compile(r"^Where key facts follow.*\n+", re.MULTILINE)
"""What our text says of key facts, which is left out where none follow."""
_MOST_ANSWER_CHARS = 4000
"""More of an answer is not shown."""
_OTHER_FORMS, _KEY_FACTS = "Other forms of it, each as right:", "Key facts:"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeConfig(ServedModel):
    """Settings of the model that scores answers. R-Search uses GPT-4.1-Mini (section 3.4)."""

    rubric: str = ""
    """Path of a prompt with {{question}}, {{reference}} and {{answer}}; empty: `inference/judge.txt`."""
    max_tokens: int = 64
    """Largest number of tokens of a verdict; a model that thinks first needs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An answer to be judged, with its question and gold answers."""

    question: str
    """The question, which asks for words: letters of options are compared, not judged."""
    answer: str
    golds: tuple[str, ...]
    """The gold answer, then its aliases."""
    key_facts: tuple[str, ...] = ()
    """Facts that a right explanation has to state, all of them."""

    @property
    def reference(self) -> str:
        """Return the gold answer, its other forms and the key facts for the judge's prompt, each on a line of its
        own.
        """
        answer, *aliases = self.golds or ("",)
        return "\n".join([answer, *_listed(_OTHER_FORMS, aliases), *_listed(_KEY_FACTS, self.key_facts)])


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """Settings by which a run's own model judges answers that the matcher calls wrong."""

    near_misses: bool = False
    """Whether to judge answers that share a name, a number or initials with a gold answer; others and abstentions never
    are."""
    model: str = ""
    """Name of the judging model at the run's server; empty: the run's own model."""
    threshold: float = 0.9
    """Least score of a right answer. 0.7, by trailforge's rubric, leaves out a detail that the gold answer has."""
    max_tokens: int = 4096
    """Largest number of tokens of a verdict, thoughts included."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a threshold outside (0, 1] and for no tokens."""
        if not 0 < self.threshold <= 1:
            raise InvalidInput(f"has to be above 0 and at most 1, got {self.threshold}", field="threshold")
        if self.max_tokens <= 0:
            raise InvalidInput(f"has to be more than 0, got {self.max_tokens}", field="max_tokens")

    def accepts(self, score: float | None) -> bool:
        """Tell whether an answer with this score is right; None, an answer that was not judged, is not."""
        return score is not None and score >= self.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Asks a model to score answers."""

    client: Client
    model: str
    """Name of the model at the server; the paper uses GPT-4.1-Mini."""
    rubric: str = ""
    """Prompt with the placeholders {{question}}, {{reference}} and {{answer}}; empty: trailforge's own."""
    max_tokens: int = 64
    """Largest number of tokens of a verdict; a model that thinks first needs more."""
    purpose: str = "judge"
    """Purpose under which its calls are counted."""
    priority: int = 0
    """Priority of its calls when calls wait for a slot."""

    async def score(self, judged: Judged, meter: Meter | None = None) -> float:
        """Return the score of an answer in [0, 1]. An empty answer scores 0.0 without a call. Raises what the client
        raises, and `MalformedReply` when neither the verdict nor a second one has the right form.
        """
        if not judged.answer.strip():
            return 0.0
        texts = {
            "question": judged.question,
            "reference": judged.reference,
            "answer": judged.answer[:_MOST_ANSWER_CHARS],
        }
        # In one pass: an answer that holds {{reference}} must not be filled in.
        rubric = self.rubric or default_rubric()
        if not judged.key_facts:
            rubric = _ON_KEY_FACTS.sub("", rubric)
        prompt = re.sub(r"\{\{(question|reference|answer)\}\}", lambda match: texts[match[1]], rubric)
        request = Request(
            model=self.model,
            prompt=(ChatTurn(role="user", content=prompt),),
            sampling=Sampling(temperature=0.0, max_tokens=self.max_tokens),
            purpose=self.purpose,
            priority=self.priority,
        )
        verdict = await ask_json(self.client, request, SCHEMA, meter)
        return float(verdict["score"])


async def grade(judged: Judged, options: JudgeOptions, asker: Asker) -> float | None:
    """Score an answer with a run's own model, or with the one that the options name. Returns None when no valid verdict
    came."""
    judge = Judge(
        client=asker.client,
        model=options.model or asker.model,
        max_tokens=options.max_tokens,
        purpose="grade",
        priority=asker.priority,
    )
    try:
        return await judge.score(judged, asker.meter)
    except MalformedReply:
        return None


def _listed(heading: str, texts: Sequence[str]) -> list[str]:
    return [heading, *(f"- {' '.join(text.split())}" for text in texts)] if texts else []


@cache
def default_rubric() -> str:
    """Return trailforge's prompt for judges, with the placeholders {{question}}, {{reference}} and {{answer}}."""
    return files("trailforge.inference").joinpath(PROMPT).read_text(encoding="utf-8").strip("\n")


def read_rubric(config: JudgeConfig) -> str:
    """Return the prompt for the judge that its settings name. Raises `InvalidInput` for a file without the placeholders
    {{question}}, {{reference}} and {{answer}}."""
    if not config.rubric:
        return default_rubric()
    path = Path(config.rubric)
    try:
        text = path.read_text(encoding="utf-8").strip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot be read ({error})", file=path, field="judge.rubric") from error
    if missing := sorted(_PLACES - set(re.findall(r"\{\{(\w+)\}\}", text))):
        raise InvalidInput(f"has no place {{{{{missing[0]}}}}} for a value; add it", file=path, field="judge.rubric")
    return text


class ThreadSafeJudge(ThreadSafeModel):
    """A judge that can be used from any thread and any event loop."""

    def __init__(self, config: JudgeConfig) -> None:
        """Raises `InvalidInput` for a rubric or a ledger that cannot be used. Nothing is sent yet."""
        rubric = read_rubric(config)
        super().__init__(config, "judge")
        self._judge = Judge(client=self.client, model=config.model, rubric=rubric, max_tokens=config.max_tokens)

    def score(self, judged: Judged) -> Future[float]:
        """Start scoring an answer as `Judge.score` does. The returned future holds the score or raises the error."""
        return self.soon(self._judge.score(judged))

    def check(self) -> None:
        """Raise `ServerUnavailable` when no server answers."""
        self.call(self.client.check())


@once
def open_thread_safe_judge(config: JudgeConfig) -> ThreadSafeJudge:
    """Return the judge of this configuration, one in each process, which lives as long as the process. Raises what
    `ThreadSafeJudge` raises.
    """
    shared = ThreadSafeJudge(config)
    atexit.register(shared.close)
    return shared
