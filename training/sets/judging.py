"""Check the rows of a training set: what is wrong with a row, how long it is, and the segments that may replace it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from trailforge.evaluation.agents import MARKS
from trailforge.evaluation.agents import load_tokenizer as read_tokenizer
from trailforge.pipelines.sources import read_benchmark
from trailforge.protocols import PROTOCOLS, pay, read_transcript
from trailforge.protocols.browse import BROWSE
from trailforge.retrieval import ngrams_of
from trailforge.rewards import is_abstention, mcts_reward
from trailforge.rewards.episode import is_stated, knows_that_unknown
from trailforge.schemas import (
    ChatMessage,
    GroundTruth,
    InvalidInput,
    PreferenceRow,
    RlRow,
    SftRow,
    Verdict,
    chat_token_in,
    count_conversation,
    remove_invisible,
)
from trailforge.training.chat_marks import END, START
from trailforge.training.masks import masked_tokens, pieces, prepare_tokenizer, prompt_ids, teach
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.difficulty import NOT_MEASURED, Measured, gold_of
from trailforge.training.sets.notes import QuestionNotes, find_unpaid
from trailforge.training.sets.runs import restate_truth

SPLIT = "split_into_segments"
"""The reason why a row is left out whose segments are taken in its place."""


def segments(row: SftRow) -> Iterator[SftRow]:
    """Yield a row for each of the agent's turns, with all before it; the loss is taken on that turn alone. "Split the
    dialogue into smaller segments" (MSearcher, section 3.2.1), which gives no rule.
    """
    turns = [index for index, train in enumerate(row.train) if train]
    for number, index in enumerate(turns):
        messages = row.messages[: index + 1]
        yield replace(
            row,
            uid=f"{row.uid}-{number}",
            messages=messages,
            train=(*(False,) * index, True),
            spans=tuple(span for span in row.spans if span.message <= index),
            segment_index=number,
            segment_count=len(turns),
            num_tool_calls=sum(message.role == "tool" for message in messages),
            token_estimate=count_conversation(messages),
        )


class RowJudge:
    """Checks rows: returns the first reason to reject a row, and its number of tokens.

    The score of a verdict is this length, or 1. It remembers the rows that it has seen, to reject the second of two
    equal ones.
    """

    def __init__(self, config: ViewConfig, measured: Measured = NOT_MEASURED) -> None:
        """`measured`: how hard questions are.

        Raises `InvalidInput` when there is no such tokenizer, or it changes text, where questions are chosen by what
        was not measured, and as `read_benchmarks`.
        """
        if (config.pass_rate or config.calls) and not measured.cell:
            raise InvalidInput("give an evaluation of these questions, by which they are chosen", field="--measured")
        self.measured_by = config.tokenizer or "estimate"
        self._config, self._measured_questions = config, measured
        self._tokenizer = load_tokenizer(config.tokenizer) if config.tokenizer else None
        self._benchmarks = read_benchmarks(config.benchmarks, config.ngram)
        self._seen: set[tuple[str, ...]] = set()

    def conversation(self, row: SftRow) -> tuple[Verdict | None, int]:
        """Return why a whole conversation is to be rejected (None: it is not), and its number of tokens."""
        if row.segment_count != 1 and row.protocol != BROWSE:  # whose windows are all that the model was shown
            return _against("per_turn_row", "segments are made of the whole conversation, which is a row too"), 0
        if self._has_seen("sft", row.uid):
            return _against("duplicate_row", "the same row is in an earlier run"), 0
        if row.trajectory_kind == "reflective" and not self._takes(row):
            return _against("reflective", f"mends an error of {row.reflection_error}"), 0
        if row.error_source == "provoked" and self._config.errors == "sampled":
            return _against("provoked", "mends an error that was provoked"), 0
        if problem := _malformed(row):
            return _against("malformed_row", problem), 0
        if asked := self._benchmarks.asking(row.question):
            return _against("contaminated", asked), 0
        if against := self._not_wanted(row.question, row.answer):
            return against, 0
        return self._measured(row)

    def segment(self, row: SftRow) -> tuple[Verdict | None, int]:
        """Return why a segment of a conversation that passed is to be rejected (None: it is not), and its number of
        tokens."""
        verdict, tokens = self._measured(row)
        return (replace(verdict, reason="too_long") if verdict is not None else None), tokens

    def question(self, row: RlRow, note: QuestionNotes) -> tuple[Verdict | None, int]:
        """Return why a question is to be rejected (None: it is not), and the number of tokens of its prompt. `note` has
        what runs know of the question."""
        truth = row.reward_model.ground_truth
        if self._has_seen("rl", truth.protocol, " ".join(row.question.casefold().split())):
            return _against("duplicate_question", "asked before in the same protocol"), 0
        if asked := self._benchmarks.asking(row.question):
            return _against("contaminated", asked), 0
        if held := control_token(row.prompt):
            return _against("control_token", held), 0
        if against := self._unworthy(row, note) or self._not_wanted(row.question, gold_of(truth)):
            return against, 0
        return self._fitting(row.prompt, is_prompt=True)

    def _unworthy(self, row: RlRow, note: QuestionNotes) -> Verdict | None:
        """Why no rollout is worth making on it."""
        truth = row.reward_model.ground_truth
        share = row.known_share or 0.0
        if share > self._config.max_known_share:
            return _against("known_from_memory", f"{share:g} of the answers from memory are right", score=share)
        if row.gold_stated is False and self._config.unstated == "drop":
            return _against("gold_not_stated", f"no text that was read states {truth.target[0]!r}")
        unpaid = find_unpaid(note, truth)
        if unpaid is not None:
            return _against("unpaid_answer", f"{unpaid!r} is kept as right, and not paid in full: {truth.target[0]!r}")
        return None

    def pair(self, row: PreferenceRow, truth: GroundTruth | None = None) -> tuple[Verdict | None, int]:
        """Return why a pair of conversations is to be rejected (None: it is not), and the number of tokens of both.
        Each of them must fit. `truth` is the ground truth of their question; None: it is not known, and rewards are not
        compared.
        """
        both = [(*row.prompt, *end) for end in (row.chosen, row.rejected)]
        if self._has_seen("pairs", row.uid):
            return _against("duplicate_row", "in an earlier run too"), 0
        if not all(end and end[0].role == "assistant" for end in (row.chosen, row.rejected)):
            return _against("malformed_row", "an end does not begin with a turn of the agent"), 0
        if row.protocol not in PROTOCOLS:
            return _against("no_protocol", "its conversations are in no form that trainers know"), 0
        if against := self._misjudged(row, truth):
            return against, 0
        if row.chosen == row.rejected:
            return _against("malformed_row", "both ends are the same"), 0
        if held := control_token(both[0]) or control_token(both[1]):
            return _against("control_token", held), 0
        if asked := self._benchmarks.asking(row.question):
            return _against("contaminated", asked), 0
        if truth is not None and (against := self._not_wanted(row.question, gold_of(truth))):
            return against, 0
        return self._fitting(*both)

    def _not_wanted(self, question: str, answer: str) -> Verdict | None:
        """Why a question is too easy or too hard."""
        return self._measured_questions.judge(question, answer, self._config)

    def _misjudged(self, row: PreferenceRow, truth: GroundTruth | None) -> Verdict | None:
        """Why its chosen end is not the better one."""
        if truth is None:
            return _against("no_question", "its run does not hold its question, so that nothing tells what is right")
        truth = restate_truth(truth, row.protocol, self._config.reward)
        if is_ranked_lower(row, truth):
            return _against("ranked_lower", f"the reward {truth.reward_preset} pays the rejected end more")
        if misjudges_unknown(row, truth):
            return _against("misjudged_unknown", "what was read is not what makes saying unknown right or wrong")
        return None

    def _has_seen(self, *row: str) -> bool:
        if row in self._seen:
            return True
        self._seen.add(row)
        return False

    def _takes(self, row: SftRow) -> bool:
        return self._config.with_reflective and row.reflection_error not in self._config.leave_out

    def _measured(self, row: SftRow) -> tuple[Verdict | None, int]:
        verdict, tokens = self._fitting(row.messages)
        can_split = row.segment_count == 1 and sum(row.train) > 1 and row.protocol != BROWSE
        if not can_split or (verdict is not None and verdict.reason == "control_token"):
            return verdict, tokens
        if self._config.segments:
            return _against(SPLIT, "segments were asked for", score=float(tokens)), tokens
        if verdict is not None and self._config.long_rows == "segments":
            verdict = replace(verdict, reason=SPLIT)
        return verdict, tokens

    def _fitting(self, *conversations: Sequence[ChatMessage], is_prompt: bool = False) -> tuple[Verdict | None, int]:
        """Of conversations that belong together: each has to fit into the longest row."""
        try:
            lengths = [self._length(each, is_prompt) for each in conversations]
        except InvalidInput as error:
            return _against("control_token", error.problem), 0
        longest, most = max(lengths), self._config.max_tokens
        if longest <= most:
            return None, sum(lengths)
        detail = f"{longest} tokens by {self.measured_by}; at most {most}"
        return _against("too_long", detail, score=float(longest)), sum(lengths)

    def _length(self, messages: Sequence[ChatMessage], is_prompt: bool) -> int:
        """With the template; of a prompt up to where the agent's first turn begins."""
        if self._tokenizer is None:
            return count_conversation(messages)
        return len((prompt_ids if is_prompt else _ids)(self._tokenizer, messages))


def is_ranked_lower(row: PreferenceRow, truth: GroundTruth) -> bool:
    """Tell whether the reward that a truth names is lower for a pair's chosen ending than for its rejected one."""
    return pay((*row.prompt, *row.chosen), truth) < pay((*row.prompt, *row.rejected), truth)


def misjudges_unknown(row: PreferenceRow, truth: GroundTruth) -> bool:
    """Tell whether a pair prefers "unknown" although a text may state the answer, or an answer although "unknown" was
    right.
    """
    chosen, rejected = (read_transcript((*row.prompt, *end), row.protocol) for end in (row.chosen, row.rejected))
    if is_abstention(chosen.answer) and not mcts_reward(chosen.answer, truth.golds):
        return not knows_that_unknown(chosen, truth) or is_stated(rejected, truth) is not False
    return knows_that_unknown(rejected, truth)


def _ids(tokenizer: Any, messages: Sequence[ChatMessage]) -> list[int]:
    return masked_tokens(tokenizer, messages).input_ids


def load_tokenizer(name: str) -> Any:
    """Load a tokenizer of transformers, prepared as `train sft` does (`prepare_tokenizer`). Raises `InvalidInput`."""
    tokenizer = read_tokenizer(name)
    teach(tokenizer)
    prepare_tokenizer(tokenizer)
    return tokenizer


Row = TypeVar("Row", SftRow, RlRow, PreferenceRow)


def without_invisible(row: Row) -> tuple[Row, int]:
    """Return a row without invisible characters in text that no agent wrote (`schemas.text.remove_invisible`), and
    their number. Rows of our own runs have none; what an agent wrote is unchanged.
    """
    held = ("messages",) if isinstance(row, SftRow) else ("prompt",)
    held = ("prompt", "chosen", "rejected") if isinstance(row, PreferenceRow) else held
    cleaned = {name: [_visible(message) for message in getattr(row, name)] for name in held}
    removed = sum(count for messages in cleaned.values() for _, count in messages)
    if not removed:
        return row, 0
    changes: dict[str, Any] = {name: tuple(each for each, _ in messages) for name, messages in cleaned.items()}
    return replace(row, **changes), removed


def _visible(message: ChatMessage) -> tuple[ChatMessage, int]:
    if message.role == "assistant":
        return message, 0
    content, removed = remove_invisible(message.content)
    return (replace(message, content=content) if removed else message), removed


def control_token(messages: tuple[ChatMessage, ...]) -> str | None:
    """Return text that no agent wrote and that a model's template would take for a special token; None when there is
    none. What an agent wrote may contain marks of its protocol, but not those of our own template.
    """
    for number, message in enumerate(messages):
        if message.role == "assistant":
            found = next((token for token in (START, END) if token in message.content), None)
        else:
            found = chat_token_in(message.content)
        if found:
            return f"message {number} holds {found}"
    return None


def _malformed(row: SftRow) -> str:
    try:
        trained = any(piece.train for piece in pieces(row.messages, row.train))
    except InvalidInput as error:
        return error.problem
    if not trained:
        return "the loss is taken on nothing"
    return control_token(row.messages if row.protocol else tuple(map(_without_marks, row.messages))) or ""


def _without_marks(message: ChatMessage) -> ChatMessage:
    """Of a conversation in no protocol, which may hold Search-o1's marks: in what it retrieved they are escaped."""
    return replace(message, content=functools.reduce(lambda text, mark: text.replace(mark, ""), MARKS, message.content))


def _against(reason: str, detail: str, *, score: float = 1.0) -> Verdict:
    return Verdict(keep=False, reason=reason, score=score, detail=detail)


# Questions that must not be trained on: those of named benchmark files, by shared word n-grams


class QuestionNgrams:
    """The n-grams of all benchmark questions, by which contaminated questions are recognised."""

    def __init__(self, questions: Iterable[tuple[str, str]], n: int) -> None:
        """`questions`: name of the benchmark and question."""
        self._n = n
        self._found: dict[str, tuple[str, str]] = {}
        for name, question in questions:
            for ngram in ngrams_of(question, n):
                self._found.setdefault(ngram, (name, question))

    def asking(self, question: str) -> str | None:
        """Return a line naming the benchmark that asks this question, too; None when none does."""
        shared = ngrams_of(question, self._n) & self._found.keys()
        if not shared:
            return None
        name, other = self._found[min(shared)]
        return f"{name} asks {other!r}"


def read_benchmarks(paths: Iterable[str], n: int) -> QuestionNgrams:
    """Read the n-grams from files that `read_benchmark` can read. Raises what that raises, and `InvalidInput` for a
    file without questions.
    """
    return QuestionNgrams((pair for path in paths for pair in _named_questions(Path(path))), n)


def _named_questions(path: Path) -> Iterator[tuple[str, str]]:
    question = ""
    for question in read_benchmark(path):
        yield path.name.partition(".")[0], question
    if not question:
        raise InvalidInput("holds no questions to train on; give a file of questions, one a row", file=path)
