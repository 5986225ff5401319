"""Convert episodes of research agents to training rows: one row for each context window, with the loss on its new turns
alone.

    trailforge export evaluations/first --to trl --out exports/trl         for TRL, with `tools`
    trailforge export evaluations/first --to openai --out exports/openai   plain JSON Lines in OpenAI's form

Each row holds what the model was sent and what it wrote, in the writing of its episode: no turn is trained twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from trailforge.evaluation import read_episodes
from trailforge.evaluation.results import is_right
from trailforge.pipelines.engine import new_folder
from trailforge.protocols.browse import BROWSE, window_rows
from trailforge.schemas import (
    AgentEpisode,
    InvalidInput,
    Provenance,
    SftRow,
    TrajectoryReward,
)
from trailforge.training.exports import messages, trl
from trailforge.training.exports.common import Row

FILE = "sft/train.jsonl"


def sft_rows(episode: AgentEpisode) -> list[SftRow]:
    """Return a training row for each context window of an episode; none where its agent has only one tool."""
    return [] if episode.browse is None else window_rows(_row(episode), episode.browse)


def _row(episode: AgentEpisode) -> SftRow:
    """What the rows of an episode have in common."""
    record, scores = episode.browse, episode.scores
    assert record is not None
    return SftRow(
        uid=episode.uid,
        trajectory_uid=episode.uid,
        data_source=episode.dataset,
        messages=(),
        train=(),
        protocol=episode.protocol,
        question_id=episode.question_id,
        question=episode.question,
        answer=episode.golds[0],
        answer_aliases=episode.golds[1:],
        trajectory_kind="correct",
        reflection_error=None,
        origin="policy",
        segment_index=0,
        segment_count=1,
        num_tool_calls=record.figures.calls,
        num_hops=len(scores.found_at),
        token_estimate=0,
        reward=TrajectoryReward(
            total=scores.right, exact_match=scores.exact_match, f1=scores.f1, cover_exact_match=scores.contain_em
        ),
        provenance=Provenance(
            run_id="",
            source_id=f"{episode.dataset}:{episode.question_id}",
            model=episode.model,
            prompt_version="",
            seed=episode.seed,
            call_keys=(),
            retriever=episode.backend,
        ),
    )


FORMATS: Mapping[str, Callable[[SftRow], Row]] = {"trl": trl.windowed_row, "openai": messages.openai_row}
"""For each trainer, by name, what makes its rows."""


def export_episodes(folder: Path, to: str, out: Path) -> Mapping[str, int]:
    """Write the rightly answered episodes of an evaluation's research agents as training rows; returns the number of
    rows by file. Raises `InvalidInput` for a trainer that does not support several tools yet, and where there is no
    such episode; `OutputError` when `out` exists. Then nothing is left behind.
    """
    if to not in FORMATS:
        raise InvalidInput(f"{to} does not take several tools yet; take --to {' or --to '.join(FORMATS)}", field="to")
    with new_folder(out) as temporary:
        path = temporary / FILE
        path.parent.mkdir(parents=True)
        count = 0
        with path.open("w", encoding="utf-8") as file:
            for row in _right_rows(folder):
                file.write(json.dumps(FORMATS[to](row), ensure_ascii=False) + "\n")
                count += 1
        if not count:
            raise InvalidInput(
                f"holds no episode of {BROWSE} with a right answer; make the training set from runs that have some",
                file=folder,
            )
        (temporary / "README.md").write_text(_README[to], encoding="utf-8")
    return {FILE: count}


def _right_rows(folder: Path) -> Iterator[SftRow]:
    for episode in read_episodes(folder):
        if episode.browse is not None and episode.stop == "answered" and is_right(episode.scores):
            yield from sft_rows(episode)


_ABOUT = f"""Made by trailforge of the episodes of an evaluation whose answers are right. `{FILE}` has a row for each
window of an episode: what the model was sent, and the turns that it wrote in it. Every turn is trained in one row.
"""
_README = {
    "trl": f"""# For TRL

{_ABOUT}
`completion` begins with the first turn that is trained; results of tools stand in it, too. Train with
`completion_only_loss=True` and `assistant_only_loss=True`, so that the loss is on the agent's own turns alone: the
chat template has to mark them by `{{% generation %}}`. `arguments` of calls are JSON as text, as servers give it; a
template that writes them by `tojson` needs them as objects.
""",
    "openai": f"""# JSON Lines in OpenAI's form

{_ABOUT}
`weight` is 0 at turns of the agent without loss. `reasoning_content` is the thought of a turn, as servers of reasoning
models give and take it; OpenAI's own fine-tuning knows no such field.
""",
}
