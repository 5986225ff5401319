"""Writes the report of an audit: its reasons with shares by kind and hops, which searches find documents, and
examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from trailforge.audit.verdicts import MEANINGS
from trailforge.pipelines.cards import COLOURS, DARK, figure_of, png_of, remove_frame, write_figure
from trailforge.pipelines.engine import write_text
from trailforge.pipelines.sources import AuditedBy, AuditedQuestion, AuditManifest, AuditReason
from trailforge.schemas import visible

PLOT = "plots/reasons.png"
_EXAMPLES = 3
_LONGEST = 300
_SEARCHES: dict[AuditedBy, str] = {
    "question": "the question as it stands",
    "sub_question": "the sub-questions, earlier answers filled in",
    "best_wording": "the best wording: title and what counts in it",
}
_DEPTHS = (1, 5, 20, 100)


def write_report(out: Path, manifest: AuditManifest, rows: Sequence[AuditedQuestion]) -> None:
    """Write the report of an audit, `report.md`, and its plot into the folder `out`."""
    write_text(out / "report.md", describe_audit(manifest, rows))
    (out / PLOT).parent.mkdir(parents=True, exist_ok=True)
    write_figure(out / PLOT, draw_reasons(rows))


def summarise(manifest: AuditManifest) -> str:
    """Return a line for each reason, for the terminal."""
    total = sum(each.count for each in manifest.counts)
    lines = [f"{each.reason:<18}{each.count:>8,}  {each.count / max(1, total):6.1%}" for each in manifest.counts]
    return "\n".join([f"{total:,} questions of {manifest.questions}", *lines])


def describe_audit(manifest: AuditManifest, rows: Sequence[AuditedQuestion]) -> str:
    """Return the report of an audit as Markdown: its reasons with shares, which searches find documents, and
    examples.
    """
    searched = "each question's own paragraphs" if manifest.passages is None else f"{manifest.passages:,} passages"
    answered = sum(row.can_be_answered for row in rows)
    asked = f", {visible(manifest.model)} was asked" if manifest.model else ""
    parts = [
        "# What can be answered",
        f"{answered:,} of {len(rows):,} questions of {visible(manifest.questions)} "
        f"({answered / max(1, len(rows)):.1%}) can be answered from {searched} "
        f"({visible(manifest.searched)}; the first {manifest.depth} of each search{asked}).",
        _reasons(rows),
        f"![reasons by hops]({PLOT})",
        _shares("kind", rows, lambda row: row.kind.replace("_", " ")),
        _shares("hops", rows, _hops),
        _ranks(rows, manifest.depth),
        *([_reading(rows)] if manifest.model else []),
        _examples(rows),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _order(rows: Sequence[AuditedQuestion]) -> list[AuditReason]:
    there = {row.reason for row in rows}
    return [reason for reason in MEANINGS if reason in there]


def _hops(row: AuditedQuestion) -> str:
    return "not known" if row.num_hops is None else str(row.num_hops)


def _reasons(rows: Sequence[AuditedQuestion]) -> str:
    counts = Counter(row.reason for row in rows)
    lines = [
        f"| {reason} | {counts[reason]:,} | {counts[reason] / len(rows):.1%} | {MEANINGS[reason]} |"
        for reason in _order(rows)
    ]
    return "\n".join(["| reason | questions | share | |", "|---|---:|---:|---|", *lines])


def _shares(name: str, rows: Sequence[AuditedQuestion], of: Callable[[AuditedQuestion], str]) -> str:
    """A line for each value, with the share of every reason."""
    reasons, groups = _order(rows), sorted({of(row) for row in rows})
    head = [name, "questions", "can be answered", *reasons]
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for group in groups:
        own = [row for row in rows if of(row) == group]
        counts = Counter(row.reason for row in own)
        shares = [sum(row.can_be_answered for row in own), *(counts[reason] for reason in reasons)]
        lines.append(f"| {group} | {len(own):,} | {' | '.join(f'{each / len(own):.1%}' for each in shares)} |")
    return f"## By {name}\n\n" + "\n".join(lines)


def _ranks(rows: Sequence[AuditedQuestion], depth: int) -> str:
    """Share of the documents that are there which a kind of search has among its first passages."""
    depths = [each for each in _DEPTHS if each < depth] + [depth]
    lines = []
    for by, meaning in _SEARCHES.items():
        best = [rank for row in rows for rank in _best_ranks(row, by)]
        if best:
            shares = [sum(rank is not None and rank <= most for rank in best) / len(best) for most in depths]
            lines.append(f"| {meaning} | {len(best):,} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    if not lines:
        return ""
    head = f"| search | documents | {' | '.join(f'first {most}' for most in depths)} |"
    return "\n".join(["## What finds the documents", "", head, "|---|---:" + "|---:" * len(depths) + "|", *lines])


def _best_ranks(row: AuditedQuestion, by: AuditedBy) -> list[int | None]:
    searches = [each for each in row.searches if each.by == by]
    if not searches:
        return []
    ranks = []
    for number, document in enumerate(row.documents):
        if document.is_there:
            ranks.append(min((rank for each in searches if (rank := each.ranks[number]) is not None), default=None))
    return ranks


def _reading(rows: Sequence[AuditedQuestion]) -> str:
    asked = [row for row in rows if row.answer_with is not None or row.answer_without is not None]
    if not asked:
        return ""
    right = sum(row.is_right_with is True for row in asked)
    known = sum(row.is_right_without is True for row in asked)
    open_ = sum(row.is_right_with is None for row in asked)
    return (
        f"## What the model answers\n\nOf {len(asked):,} questions that were asked it answers {right:,} "
        f"({right / len(asked):.1%}) from their documents alone, and {known:,} ({known / len(asked):.1%}) without; "
        f"{open_:,} answers from documents are near misses or could not be read, and decide nothing."
    )


def _examples(rows: Sequence[AuditedQuestion]) -> str:
    parts = ["## Examples"]
    for reason in _order(rows):
        own = [row for row in rows if row.reason == reason]
        step = max(1, len(own) // _EXAMPLES)
        parts.append(f"**{reason}**")
        parts.append("\n".join(map(_example, own[::step][:_EXAMPLES])))
    return "\n\n".join(parts)


def _example(row: AuditedQuestion) -> str:
    gold = f" ({row.golds[0]})" if row.golds else ""
    quote = next((each for each in reversed(row.quotes) if each), "")
    said = row.detail or (f"“{quote}”" if quote else "")
    return f"- {_short(row.question)}{_short(gold)} — {_short(said)}".replace("\n", " ")


def _short(text: str) -> str:
    plain = visible(text)
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]} …"


def draw_reasons(rows: Sequence[AuditedQuestion]) -> bytes:
    """Draw a bar chart of the reasons' shares, one bar for each number of hops, and return it as a PNG."""
    reasons, groups = _order(rows), sorted({_hops(row) for row in rows})
    figure = figure_of(9, 1.2 + 0.5 * len(groups))
    axes = figure.subplots()
    for line, group in enumerate(groups):
        own, start = [row for row in rows if _hops(row) == group], 0.0
        counts = Counter(row.reason for row in own)
        for number, reason in enumerate(reasons):
            share = counts[reason] / len(own)
            label = reason.replace("_", " ") if line == 0 else None
            axes.barh(line, share, left=start, height=0.6, color=COLOURS[number % len(COLOURS)], label=label)
            start += share
        axes.text(1.01, line, f"{len(own):,}", va="center", fontsize=9, color=DARK)
    axes.set_yticks(range(len(groups)), [f"{group} hops" for group in groups])
    axes.set(xticks=[], xlim=(0, 1.08), ylim=(len(groups) - 0.5, -0.5))
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    remove_frame(axes)
    return png_of(figure)
