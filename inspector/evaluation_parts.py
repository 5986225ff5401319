"""Describe an evaluation or a training as parts that page and terminal can draw: a table, an episode, two runs side by
side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from trailforge.evaluation import Evaluation
from trailforge.evaluation.results import (
    LEGEND,
    TAGS,
    CellEstimate,
    Comparison,
    EvaluationTable,
    TableRow,
    describe_malformed,
    describe_timeline,
    is_right,
)
from trailforge.inspector.evaluations import verdict_of
from trailforge.pipelines.show import (
    Chips,
    Columns,
    Conversation,
    DataTable,
    FieldList,
    Fold,
    Grid,
    GridRow,
    Line,
    Meters,
    Note,
    Parts,
    StyledText,
    Tabs,
    Title,
    tab,
)
from trailforge.pipelines.show.common import answers, values
from trailforge.schemas import AgentEpisode, AgentSearch, to_dict

_SCORES = ("contain_em", "f1", "exact_match", "right", "judge", "supporting_recall")
_MOST_MISSING = 12
_LONGEST_LIST = 1_000
"""Characters of the triples of one search, and of the names of sources."""

# The table


def describe_results(table: EvaluationTable, *, is_brief: bool = False) -> Parts:
    """Describe the table of an evaluation, and what is still missing. `is_brief` gives only the columns that fit a
    terminal.
    """
    given = table.evaluation
    missing = [*table.missing[:_MOST_MISSING]]
    if more := len(table.missing) - len(missing):
        missing.append(f"{more} more")
    notes = [Note(f"Not all is there. {line}", "warn") for line in missing]
    notes += [Note(line, "warn") for line in describe_malformed(table.rows)]
    chips = Chips(
        [
            StyledText(f"{given.num_questions:,} questions of {given.dataset or given.questions}"),
            _shown(given),
            StyledText(f"seeds {', '.join(map(str, given.seeds))}"),
            StyledText(f"judge {given.judge}" if given.judge else "no judge"),
        ]
    )
    several = len({row.model for row in table.rows}) > 1
    rows = [_brief_line(row) if is_brief else _line(row) for row in table.rows]
    if not several:
        rows = [{name: value for name, value in row.items() if name != "model"} for row in rows]
    known = [name for name in (rows[0] if rows else ()) if any(row[name] is not None for row in rows)]
    shown = [{name: row[name] for name in known} for row in rows]
    meanings = {name: _meaning(name) for name in known}
    return [chips, *notes, DataTable(shown, meanings, height=20)]


def _shown(given: Evaluation) -> StyledText:
    if given.context_tokens is None:
        return StyledText(f"top {given.top_k}", "", "Passages of a search.")
    return StyledText(f"{given.context_tokens:,} tokens", "", f"Of passages of a search, by {given.tokenizer}.")


_COLUMN_OF = {
    "back end": "backend", "contain-EM": "contain_em", "F1": "f1", "EM": "exact_match", "recall": "supporting_recall",
    "pass@1": "pass_at", "context": "context_tokens", "prompt": "prompt_tokens", "completion": "completion_tokens",
    "p50 s": "seconds_p50", "p90 s": "seconds_p90", "rank, agent": "agent_rank", "rank, back end": "backend_rank",
    "offline h": "hours_per_million", "offline cost": "cost_per_million",
}  # fmt: skip
"""Of heads that are no names of columns."""
_HEAD_OF = {column: head for head, column in _COLUMN_OF.items()}


def _meaning(head: str) -> str:
    if head.startswith("95 %"):
        return "Of contain-EM, in %: the questions drawn anew."
    if head.startswith("±"):
        return "Standard deviation of contain-EM over seeds, in points."
    if " choice, " in head:
        return LEGEND["options"]
    column = "pass_at" if head.startswith("pass@") else _COLUMN_OF.get(head, head.replace(" ", "_"))
    return LEGEND.get(column, "")


def _brief_line(row: TableRow) -> dict[str, Any]:
    return {
        "run": row.name, "model": row.model, "contain-EM": _points(row.contain_em), "F1": _points(row.f1),
        "recall": _points(row.supporting_recall), "searches": round(row.searches, 1),
        "context": round(row.context_tokens),
        "episodes": f"{row.episodes:,}" if row.is_finished else f"{row.episodes:,} of {row.expected:,}",
    }  # fmt: skip


def _line(row: TableRow) -> dict[str, Any]:
    most = len(row.pass_at)
    deviation = None if row.contain_em.variance is None else 100 * math.sqrt(row.contain_em.variance)
    return {
        "agent": row.agent, "back end": row.backend, "model": row.model, "contain-EM": _points(row.contain_em),
        "95 % interval": _interval(row.contain_em), "± over seeds": None if deviation is None else round(deviation, 1),
        "F1": _points(row.f1), "EM": _points(row.exact_match), "right": _points(row.right),
        "judge": _points(row.judge), "recall": _points(row.supporting_recall),
        "answer in text": _points(row.answer_in_text), **_choices(row),
        "pass@1": round(100 * row.pass_at[0], 1), "pass@k": f"{100 * row.pass_at[-1]:.1f} (k = {most})",
        "answer words": row.answer_words and round(row.answer_words, 1), "searches": round(row.searches, 2),
        "turns": round(row.turns, 2), "context": round(row.context_tokens), "prompt": round(row.prompt_tokens),
        "completion": round(row.completion_tokens), "p50 s": row.seconds_p50, "p90 s": row.seconds_p90,
        "cost": row.cost and float(f"{row.cost:.3g}"), "offline h": row.hours_per_million,
        "offline cost": row.cost_per_million, "rank, agent": row.agent_rank, "rank, back end": row.backend_rank,
        "episodes": row.episodes, "failed": row.failed,
    }  # fmt: skip


def _choices(row: TableRow) -> dict[str, Any]:
    found = {each.choice: each for each in row.options}
    return {
        f"{name} choice, {head}": None if each is None else f"{_points(score)} ({100 * chance:.1f} by chance)"
        for name in ("single", "multiple")
        for each in [found.get(name)]
        for head, score, chance in (
            ("EM", each and each.exact_match, each.exact_match_chance if each else 0.0),
            ("F1", each and each.f1, each.f1_chance if each else 0.0),
        )
    }


def _points(found: CellEstimate | None) -> float | None:
    return None if found is None else round(100 * found.mean, 1)


def _interval(found: CellEstimate) -> str:
    return f"{100 * found.low:.1f} – {100 * found.high:.1f}"


# The steps of a training


def describe_steps(episodes: Sequence[AgentEpisode], *, is_brief: bool = False) -> Parts:
    """Describe each training step that has stored episodes, in a line. All figures but the share of failed episodes
    leave those out. `is_brief` gives only the columns that fit a terminal.
    """
    by_step: dict[int, list[AgentEpisode]] = {}
    for each in episodes:
        by_step.setdefault(each.training.step if each.training else 0, []).append(each)
    chips = Chips([StyledText(f"{len(episodes):,} episodes"), StyledText(f"{len(by_step):,} steps")])
    lines = [_step_line(step, by_step[step]) for step in sorted(by_step)]
    wanted = [name for name in _STEP_COLUMNS if not (is_brief and name in ("F1", "answered", "too long"))]
    known = [name for name in wanted if any(line[name] is not None for line in lines)]
    shown = [{name: line[name] for name in known} for line in lines]
    return [chips, DataTable(shown, {name: _STEP_COLUMNS[name] for name in known}, height=20)]


_STEP_COLUMNS = {
    "step": "The optimizer step that was the first to train them; 0: the framework does not say.",
    "episodes": "That were kept.",
    "reward": "What they were paid; empty where they were paid later, by the framework.",
    "right": LEGEND["right"],
    "F1": LEGEND["f1"],
    "recall": LEGEND["supporting_recall"],
    "searches": LEGEND["searches"],
    "answered": "Ended by an answer, in %.",
    "too long": "Ended for want of room, in %.",
    "failed": "Ended by a search that failed, in %; they are paid and trained nothing.",
}


def _step_line(step: int, episodes: Sequence[AgentEpisode]) -> dict[str, Any]:
    known = [each for each in episodes if each.stop != "failed"]
    searches = [len(each.searches) for each in known]
    rewards = [each.training.reward for each in known if each.training and each.training.reward is not None]
    recalls = [each.scores.supporting_recall for each in known if each.scores.supporting_recall is not None]
    return {
        "step": step, "episodes": len(episodes), "reward": round(fmean(rewards), 3) if rewards else None,
        "right": _percent([each.scores.right for each in known]), "F1": _percent([each.scores.f1 for each in known]),
        "recall": _percent(recalls), "searches": round(fmean(searches), 2) if searches else None,
        "answered": _percent([each.stop == "answered" for each in known]),
        "too long": _percent([each.stop == "too_long" for each in known]),
        "failed": _percent([each.stop == "failed" for each in episodes]),
    }  # fmt: skip


def _percent(values: Sequence[float]) -> float | None:
    return round(100 * fmean(values), 1) if values else None


# An episode


def episode_cells(episode: AgentEpisode) -> dict[str, Any]:
    """Return the cells of an episode's line in a list."""
    return {
        "uid": episode.uid, "question": episode.question, "answer": episode.answer, "gold": episode.golds[0],
        "verdict": verdict_of(episode), "agent": episode.agent, "back end": episode.backend, "seed": episode.seed,
        "searches": len(episode.searches), "tags": list(episode.failures), "stop": episode.stop,
        **({"step": paid.step, "reward": paid.reward} if (paid := episode.training) else {}),
    }  # fmt: skip


def describe_episode(episode: AgentEpisode, *, is_beside: bool = False) -> Parts:
    """Describe what an episode did, with its scores. `is_beside` says that another episode on the question is shown
    beside it.
    """
    own = [tab("Transcript", lambda: [Conversation(episode.messages, golds=episode.golds, is_for_training=False)])]
    if (record := episode.browse) is not None:
        own.insert(0, tab(f"Calls ({record.figures.calls})", lambda: describe_timeline(record)))
    own.append(tab("Searches", lambda: [_describe_searches(episode)]))
    if episode.calls:
        own.append(tab(f"Other calls ({len(episode.calls)})", lambda: _describe_calls(episode)))
    own.append(tab("Scores and costs", lambda: _describe_scores(episode)))
    head = [] if is_beside else [Title(episode.question)]
    return [*head, _describe_answer(episode), Chips(_chips_of(episode)), Tabs(own)]


def _describe_answer(episode: AgentEpisode) -> FieldList:
    gold, *aliases = episode.golds
    fields = answers(gold, aliases, episode.answer, is_right(episode.scores))
    for hop, place in enumerate(episode.scores.found_at, start=1):
        found = f"by search {place + 1}" if place is not None else "by none"
        fields[f"document {hop} found"] = StyledText(found, "" if place is not None else "wrong")
    if episode.error:
        fields["error"] = StyledText(episode.error, "wrong")
    return FieldList(fields)


def _chips_of(episode: AgentEpisode) -> list[StyledText]:
    tags = [StyledText(tag.replace("_", " "), "wrong", _meaning_of_tag(tag)) for tag in episode.failures]
    stop = episode.stop.replace("_", " ")
    verdict = verdict_of(episode)
    return [
        StyledText(verdict, "right" if verdict == "right" else "wrong" if verdict == "wrong" else "mended"),
        *tags,
        StyledText(f"ended: {stop}", "" if episode.stop == "answered" else "wrong"),
        StyledText(episode.agent, "", "The agent."),
        StyledText(episode.backend, "", "What it searched with."),
        StyledText(episode.model, "", "Who wrote its turns."),
        *_chips_of_training(episode),
        StyledText(f"{len(episode.searches)} search{'' if len(episode.searches) == 1 else 'es'}"),
        *([] if episode.costs.seconds is None else [StyledText(f"{episode.costs.seconds:.1f} s")]),
    ]


def _chips_of_training(episode: AgentEpisode) -> list[StyledText]:
    paid = episode.training
    if paid is None:
        return [StyledText(f"seed {episode.seed}")]
    chips = [StyledText(f"step {paid.step}"), StyledText(f"number {episode.seed}", "", "In its step and process.")]
    if paid.reward is None:
        return chips
    parts = ", ".join(f"{part.name} {'unknown' if part.value is None else f'{part.value:.3g}'}" for part in paid.parts)
    return [*chips, StyledText(f"reward {paid.reward:.3g}", "", parts)]


def _meaning_of_tag(tag: str) -> str:
    return TAGS.get(tag) or TAGS["miss_at_hop_K"].replace("K", tag.rpartition("_")[2])


def _describe_searches(episode: AgentEpisode) -> Grid | Note:
    if not episode.searches:
        return Note("It never searched.", "warn")
    rows: list[GridRow] = []
    for number, search in enumerate(episode.searches):
        hops = [hop for hop, place in enumerate(episode.scores.found_at, start=1) if place == number]
        found = [StyledText(f"document {hop}", f"hop{(hop - 1) % 4}") for hop in hops]
        line = [piece for each in found for piece in (each, " ")] or [StyledText("nothing new", "quiet")]
        cells: list[Line] = [str(number + 1), _query(search), _results(search), line]
        seconds = f"\n{search.seconds:.2f} s" if search.seconds else ""
        rows.append(GridRow([*cells, f"{search.context_tokens:,} tokens{seconds}"]))
    return Grid(("#", "asked for", "given, with scores", "of the gold documents", "took"), rows, (0.3, 3, 4, 1.3, 1))


def _query(search: AgentSearch) -> str:
    more = [("entities", search.entities), ("relations", search.relations)]
    return "\n".join([search.query, *(f"{name}: {', '.join(each)}" for name, each in more if each)])


def _results(search: AgentSearch) -> list[str | StyledText]:
    lines: list[str | StyledText] = []
    for id, title, score in zip(search.document_ids, search.titles, search.scores, strict=True):
        lines += [(title or id)[:200], StyledText(f"  {score:.3g}\n", "quiet")]
    if search.source_ids:
        sources = dict.fromkeys(title or id for id, title in zip(search.source_ids, search.source_titles, strict=True))
        lines.append(StyledText(f"made from: {', '.join(sources)}\n"[:_LONGEST_LIST], "quiet"))
    if search.triples:
        lines.append("\n".join(search.triples)[:_LONGEST_LIST])
    return lines or [StyledText("nothing", "quiet")]


def _describe_calls(episode: AgentEpisode) -> Parts:
    return [
        Fold(f"{number}. {call.purpose}", [Note(call.prompt), Note(call.reply, "right")])
        for number, call in enumerate(episode.calls, start=1)
    ]


def _describe_scores(episode: AgentEpisode) -> Parts:
    meters = {name: (getattr(episode.scores, name), LEGEND[name]) for name in _SCORES}
    origin = {"uid": episode.uid, "question_id": episode.question_id, "protocol": episode.protocol or "none of ours"}
    if episode.training:
        meters |= {f"reward: {part.name}": (part.value, "Of what it was paid.") for part in episode.training.parts}
    return [Meters(meters), values({**origin, "index": episode.index or "none", **to_dict(episode.costs)})]


# Two runs


def describe_comparison(comparison: Comparison) -> Parts:
    """Describe the measures by which two runs differ."""
    rows = [
        {
            "measure": _HEAD_OF.get(name, name.replace("_", " ")), "first": found.first, "second": found.second,
            "second less first": found.difference, "95 % from": found.low, "to": found.high,
            "more than chance": "yes" if found.low > 0 or found.high < 0 else "no", "questions": found.questions,
        }
        for name, found in comparison.differences.items()
    ]  # fmt: skip
    tested = comparison.right
    alike = f"both {tested.both}, neither {tested.neither}"
    right = f"Right answers: only the first {tested.only_first}, only the second {tested.only_second}, {alike}. "
    lines: list[Note] = [
        Note((right, StyledText(f"McNemar's exact p = {tested.exact:.3g}", "strong")), _kind(tested.exact))
    ]
    for whose, alone in (("first", comparison.only_in_first), ("second", comparison.only_in_second)):
        if alone:
            lines.append(Note(f"{len(alone):,} questions are in the {whose} run alone and not compared.", "warn"))
    help_ = {"more than chance": "Whether the 95 % interval of the paired bootstrap over questions leaves out 0."}
    return [*lines, DataTable(rows, help_, height=7)]


def _kind(p: float) -> str:
    return "right" if p < 0.05 else ""


def describe_beside(first: AgentEpisode, second: AgentEpisode) -> Parts:
    """Describe two episodes on one question, side by side."""
    sides = [describe_episode(each, is_beside=True) for each in (first, second)]
    return [Title(first.question), Columns(sides)]
