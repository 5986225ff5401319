"""Write the card of a run of agent trajectories: the common parts, who was right and how surely, and examples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from trailforge.generators.agent_trajectories import DATASET, DRAW, FILTER, NAME
from trailforge.generators.agent_trajectories.config import AgentGeneratorConfig, AgentRunConfig
from trailforge.generators.agent_trajectories.filters import KNOWN
from trailforge.generators.answer_reading import limit_of
from trailforge.pipelines.cards import (
    limits,
    of_graph,
    of_questions,
    origin_lines,
    over_corpus,
    pair_example,
    plain,
    rows_of,
    turn,
    write_card,
)
from trailforge.pipelines.runs import Settings, run_configuration
from trailforge.protocols.browse import longest_dead_end
from trailforge.schemas import AgentTrajectory, BrowseRecord, ContrastivePair, Manifest, RejectedRow

_TABLES = (NAME, "sft", "pairs", "rejected")
_LIMITS = (
    "- A hop is borne out by the document that the data set names, or by another passage with its answer and a "
    "word of what it is asked of; where no documents are named, only answers are looked for.",
    "- Whether the model knows the bridges of a question was not asked, only whether it knows the answer.",
    "- A pair prefers all turns from where the two part; which of them is to blame is not said.",
)


def card_of(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """Return the card of a run as Markdown, and write its plot beside it."""
    config: AgentRunConfig = run_configuration(DATASET, settings)
    rows, pairs = list(rows_of(folder, NAME, AgentTrajectory)), list(rows_of(folder, "pairs", ContrastivePair))
    sources = [*of_questions(folder, config.card), *over_corpus(config.retrieval, config.card)]
    sources += of_graph(config.kg_hash, config.card) if config.kg else []
    return write_card(
        folder,
        manifest,
        config,
        tables=_TABLES,
        tags=["preference"],
        sources=sources,
        summary=_summary(manifest, config, rows, pairs),
        own=[_shares(config, rows, rows_of(folder, "rejected", RejectedRow))],
        end=[
            limits((limit_of(config.generator.answer_check), *_LIMITS), "" if config.model.url == "embedded" else None),
            _examples(rows, pairs),
        ],
    )


def _summary(
    manifest: Manifest, config: AgentRunConfig, rows: Sequence[AgentTrajectory], pairs: Sequence[ContrastivePair]
) -> str:
    generator = config.generator
    means = ""
    if rows and generator.browses:
        means = describe_calls([row.episode.browse for row in rows if row.episode.browse is not None])
    elif rows:
        searches = fmean(len(row.episode.searches) for row in rows)
        means = f"; per episode {searches:.2f} searches, ~{fmean(row.token_estimate for row in rows):,.0f} tokens"
        short_of = [len(row.episode.searches) < row.num_hops for row in rows if row.num_hops]
        if short_of:
            means += f"; {fmean(short_of):.0%} search fewer times than their question has hops"
    retriever = rows[0].provenance.retriever if rows else config.retrieval.kind
    return "\n".join(
        [
            f"Episodes of the agent `{generator.agent}` (configuration {generator.agent_config}) over "
            f"`{plain(retriever)}`: {_kept_for(config)}.",
            *describe_tables(generator, has_rows=bool(rows), has_pairs=bool(pairs)),
            "",
            f"- Rows: {len(rows)} episodes of {len({row.question_id for row in rows})} questions, {len(pairs)} "
            f"pairs{means}",
            f"- Draws: {generator.draws} of a question, {generator.memory.draws} answers from memory, "
            f"{generator.top_k} passages a search",
            *origin_lines(manifest, "Questions", config.seed),
        ]
    )


def describe_tables(generator: AgentGeneratorConfig, *, has_rows: bool, has_pairs: bool) -> list[str]:
    """Return a line of description for each table beside the episodes. `has_rows` and `has_pairs` say whether the run
    made SFT rows and preference pairs.
    """
    lines = []
    if not (generator.sft_protocol or generator.sft_calls):
        lines.append("There are no SFT rows: the agent is sent raw text that it goes on with, and no turns of a chat.")
    elif has_rows and generator.browses:
        lines.append(
            "`sft` has a row for each window of an episode, what the model was shown and wrote, with the loss on its "
            "new turns; `native` holds the turns with their calls as a server was sent them, and the tools."
        )
    elif has_rows and generator.sft_protocol:
        lines.append(f"`sft` has them as conversations of the protocol `{generator.sft_protocol}`.")
    elif has_rows:
        lines.append(
            "`sft` has the conversation of each and each of its calls whose reply was used, as they were sent to the "
            "model; nothing of episodes in which a search was refused or repeated. They are in no protocol of ours, so "
            "their `protocol` is empty."
        )
    if has_rows and generator.judge.near_misses:
        lines.append(
            "An answer that says a gold one in other words was judged by a model; its row of `sft` says "
            "`right_by: judge`."
        )
    if has_pairs:
        lines.append(
            "`pairs` holds two episodes of one question: a kept one, and one whose answer is wrong or that searched "
            "for what it had not read."
        )
    return lines


def describe_calls(records: Sequence[BrowseRecord]) -> str:
    """Summarize long episodes in a clause: calls by tool, dead ends, and the pages behind the answers."""
    each = [record.figures for record in records]
    tools = ", ".join(
        f"{fmean(getattr(one, name) for one in each):.1f} {name}" for name in ("searches", "opens", "finds")
    )
    calls = sorted(one.calls for one in each)
    told = f"; per episode {fmean(calls):.1f} calls ({tools}), {calls[0]} to {calls[-1]}"
    told += f"; longest dead end {max(map(longest_dead_end, records))} turns"
    if kinds := Counter(mistake.kind for record in records for mistake in record.mended):
        mending = sum(bool(record.mended) for record in records)
        each_kind = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in sorted(kinds.items()))
        told += f"; {mending} of {len(records)} mend a mistake of their own (by kind: {each_kind})"
    known = [one for one in each if one.gold_pages]
    for name in ("found", "opened", "cited") if known else ():
        share = fmean((getattr(one, f"gold_{name}") or 0) / (one.gold_pages or 1) for one in known)
        told += f"; {share:.0%} of the pages behind the answers {name}"
    return told


def _kept_for(config: AgentRunConfig) -> str:
    borne_out = "right, and borne out by what its searches brought"
    asked = config.generator.memory.draws
    if not asked:
        return borne_out
    return (
        f"{borne_out}; of {asked} answers without them no more than {config.filters.max_known_share:.1%} were right, "
        "corrected for chance"
    )


def _shares(config: AgentRunConfig, rows: Sequence[AgentTrajectory], rejected: Iterable[RejectedRow]) -> str:
    """Of each question that was drawn on: how many draws were right, and what became of it; how many are known."""
    taken = {row.question_id for row in rows}
    shares = {row.question_id: (row.right_draws, row.draws) for row in rows}
    known = Counter[bool]()
    for row in rejected:
        if row.stage == FILTER:
            draw = json.loads(row.payload)
            shares.setdefault(draw["question_id"], (draw["right_draws"], draw["draws"]))
        elif row.stage == DRAW and row.reason == KNOWN:
            known[bool(json.loads(row.payload)["answers"])] += 1
    counts = Counter(shares.values())
    kept = Counter(shares[each] for each in taken)
    lines = ["## Questions by the draws that are right\n", "| right | draws | questions | of them kept |"]
    lines.append("|---:|---:|---:|---:|")
    lines += [
        f"| {right} | {draws} | {counts[right, draws]} | {kept[right, draws]} |" for right, draws in sorted(counts)
    ]
    if not counts:
        lines = [lines[0], "No episode was drawn."]
    if not config.generator.memory.draws:
        lines.append("\nThe model was not asked what it knows without a search.")
    else:
        cut = f"; of {known[False]} nobody knows, as all replies were cut" if known[False] else ""
        lines.append(f"\nWithout a search the model knows {known[True]} other questions, which were left out{cut}.")
    return "\n".join(lines) + "\n"


def _examples(rows: Sequence[AgentTrajectory], pairs: Sequence[ContrastivePair]) -> str:
    parts = ["## Examples\n"] if rows else []
    for row in rows[:1]:
        parts += [f"### episode (`{row.uid}`)\n", *map(turn, row.episode.messages)]
    for pair in pairs[:1]:
        parts += pair_example(pair, "They part")
    return "\n".join(parts)
