"""Both stages, what follows from a fix, and the card."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

from toy_sums.rows import Sum
from trailforge.pipelines import Draws, Life, StageRun
from trailforge.pipelines.cards import funnel_table
from trailforge.pipelines.engine import Receipt, Shard, file_entry, finish_shard, missing_shards, write_text
from trailforge.pipelines.runs import OutputConfig, RunConfig, RunInputs, Settings, digest_of, stage, take_in_questions
from trailforge.protocols import REACT, Turn
from trailforge.rewards import score_answer
from trailforge.schemas import (
    ChatMessage,
    InvalidInput,
    Manifest,
    Provenance,
    Question,
    SftRow,
    Verdict,
    estimate_tokens,
    read_parquet,
)

DIES_AFTER = "TOY_SUMS_DIES_AFTER"
"""Of the environment: after so many shards the process kills itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumConfig(RunConfig):
    """How sums are made: without a model."""

    output: OutputConfig = field(default_factory=lambda: OutputConfig(shard_size=2))

    @property
    def prompt_version(self) -> str:
        """There is no prompt."""
        return ""

    @property
    def records(self) -> tuple[type, ...]:
        """Of the rows."""
        return (Sum, SftRow)


def take_in(inputs: RunInputs, folder: Path, config: SumConfig) -> Settings:
    """Questions of a file."""
    return take_in_questions(inputs, folder, config, shard_size=config.output.shard_size)


def run_adding(run: StageRun) -> None:
    """A draft for each question that is a sum."""
    for done, shard in enumerate(missing_shards(run.folder, run.shards), start=1):
        ADD(replace(run, shards=(shard,)))
        if str(done) == os.environ.get(DIES_AFTER):
            os.kill(os.getpid(), signal.SIGKILL)


def signing_shards(shards: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """One, of all drafts."""
    rows = sum(entry.rows for receipt in receipts for entry in receipt.files if entry.path.startswith("drafts/"))
    return (Shard(name="part-selection", input="drafts", first=0, rows=rows, made_of=digest_of(receipts)),)


def run_signing(run: StageRun) -> None:
    """Sums and their conversations."""
    for shard in missing_shards(run.folder, run.shards):
        paths = (run.folder / "drafts" / f"{each.name}.parquet" for each in run.before)
        drafts = [row for path in paths if path.exists() for row in read_parquet(path, Sum)]
        rows = [replace(row, remark="signed") for row in drafts]
        conversations = [each for row in rows for each in rows_for_sft(row, run.config)]
        listed = run.folder / "sums.txt"
        write_text(listed, "".join(map(line_of, rows)))
        books = stage("sign", inputs=len(drafts), accepted=len(rows))
        files = (file_entry(run.folder, listed, len(rows)),)
        finish_shard(run.folder, shard, {"sums": rows, "sft": conversations}, (books,), files=files)


def added(question: Question, config: SumConfig) -> Sum | Verdict:
    """The draft, or what is against a question that is no sum."""
    found = re.fullmatch(r"What is (\d+) \+ (\d+)\?", question.question)
    if found is None:
        return Verdict(keep=False, reason="no_sum", score=0.0, detail="no sum")
    total = int(found[1]) + int(found[2])
    return Sum(
        uid=f"sum-{question.id}",
        question_id=question.id,
        question=question.question,
        answer=str(total),
        size="small" if total < 10 else "large",
        remark="",
    )


async def draw(question: Question, context: None, config: SumConfig) -> Draws[Sum]:
    """The draft as a life draws it."""
    made = added(question, config)
    return Draws(against=made) if isinstance(made, Verdict) else Draws(rows=(made,))


ADD = Life(name="add", item=Question, table="drafts", draw=draw, asks_model=False)


def refit(row: Sum, old: Sum) -> Sum:
    """A remark changes nothing else; it says who signs."""
    if "signed" not in row.remark:
        raise InvalidInput("it is not signed any more", field="remark")
    return row


def rows_for_sft(row: Sum, config: SumConfig) -> list[SftRow]:
    """The conversation of a sum."""
    messages = (
        ChatMessage(role="system", content=REACT.system_prompt),
        ChatMessage(role="user", content=REACT.user_turn(row.question)),
        ChatMessage(
            role="assistant", content=REACT.render_turn(Turn(thought=f"I add ({row.remark}).", answer=row.answer))
        ),
    )
    provenance = Provenance(
        run_id="toy", source_id=row.question_id, model="", prompt_version="", seed=config.seed, call_keys=()
    )
    return [
        SftRow(
            uid=row.uid,
            trajectory_uid=row.uid,
            data_source="toy_sums",
            messages=messages,
            train=(False, False, True),
            protocol=REACT.name,
            question_id=row.question_id,
            question=row.question,
            answer=row.answer,
            answer_aliases=(),
            trajectory_kind="correct",
            reflection_error=None,
            origin="rule",
            segment_index=0,
            segment_count=1,
            num_tool_calls=0,
            num_hops=1,
            token_estimate=sum(estimate_tokens(message.content) for message in messages),
            reward=score_answer(row.answer, (row.answer,)),
            provenance=provenance,
        )
    ]


def line_of(row: Sum) -> str:
    """Its line of `sums.txt`."""
    return f"{row.question} {row.answer}\n"


def card_of(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """The card as Markdown."""
    return f"# {manifest.run_id}\n\nSums that a toy made.\n\n{funnel_table(manifest.stages)}"
