"""Write the card of a run of bundles: the common parts, how good the bundles are, and one question of each type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from trailforge.generators.document_bundles import DATASET, maps
from trailforge.generators.document_bundles.bundle_rows import question_in
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages import questions
from trailforge.pipelines.cards import limits, of_documents, origin_lines, plain, rows_of, short, write_card
from trailforge.pipelines.runs import Settings, run_configuration
from trailforge.schemas import (
    AnswerScoredBy,
    Bundle,
    BundleQuestion,
    BundleQuestionType,
    Manifest,
    Origin,
    RejectedRow,
    SearchEpisode,
    ThoughtSource,
)

_DATA_TABLES = (
    *("bundle_questions", "episodes", "sft", "bundles", "documents"),
    *("embeddings", "bundle_inputs", "candidates", "rejected"),
)
"""The most wanted first: hubs show that."""
_SILENT = "no_question"
_BRIDGE, _BESIDE = "a bridge", "side by side"
_KINDS = (f"factual, {_BRIDGE}", f"factual, {_BESIDE}", *get_args(BundleQuestionType)[1:])
_PLANS: dict[str, str] = {"policy": "drawn from the model", "oracle": "the gold plan"}
_THOUGHTS: dict[str, str] = {"model": "the model's", "templates": "sentences from pools"}
_SCORES: dict[str, str] = {
    "options": "letters of options",
    "matching": "the matcher",
    "judge": "a judge",
    "key_facts": "key facts",
    "words": "F1 of words",
}
_PURPOSES = frozenset(("plan", "answer", "thought"))
"""Of calls that episodes take; a judge's are counted with those of the filters."""


def card_of(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """Write a run's plots and return its card as Markdown, by the settings that the run was begun with."""
    return card(folder, manifest, run_configuration(DATASET, settings))


def card(folder: Path, manifest: Manifest, config: BundleRunConfig) -> str:
    """Write a run's plots and return its card as Markdown, by this configuration."""
    bundles = list(rows_of(folder, "bundles", Bundle))
    kept = list(rows_of(folder, "bundle_questions", BundleQuestion))
    rejected = list(rows_of(folder, "rejected", RejectedRow))
    episodes = Counter(map(_Made.of, rows_of(folder, "episodes", SearchEpisode)))
    return write_card(
        folder,
        manifest,
        config,
        tables=_DATA_TABLES,
        tags=["multi-hop", "search-plans", "r-search"],
        sources=of_documents(folder),
        summary=_summary(manifest, config, bundles, kept),
        own=[
            _bundles(bundles, kept),
            _questions(kept),
            *([_yield(manifest, bundles, kept, rejected)] if config.questions and bundles else []),
            _episodes(manifest, episodes),
        ],
        end=[_limits(manifest, config, episodes), _examples(kept)],
    )


def _summary(
    manifest: Manifest, config: BundleRunConfig, bundles: Sequence[Bundle], questions: Sequence[BundleQuestion]
) -> str:
    episodes = sum(line.accepted for line in manifest.stages if line.name == "episode")
    return "\n".join(
        [
            "Bundles of two to four documents from different sources, and multi-hop questions over them with the",
            "search plan that answers each (R-Search). `bundle_questions` is in the order of its curriculum.\n",
            f"- Rows: {len(bundles)} bundles, {len(questions)} questions, {episodes} episodes",
            *origin_lines(manifest, "Documents", config.seed),
        ]
    )


def _bundles(bundles: Sequence[Bundle], kept: Sequence[BundleQuestion]) -> str:
    if not bundles:
        return "## Bundles\n\nNone.\n"
    sizes = Counter(len(bundle.document_ids) for bundle in bundles)
    sources = Counter(source for bundle in bundles for source in bundle.sources)
    source_of = {id: name for bundle in bundles for id, name in zip(bundle.document_ids, bundle.sources, strict=True)}
    quoted = Counter(name for row in kept for name in {source_of.get(hop.document_id) for hop in row.hops})
    mean = sum(bundle.cohesion for bundle in bundles) / len(bundles)
    lines = [
        "## Bundles\n",
        f"Mean cohesion (cosine over all pairs of a bundle's documents): {mean:.3f}\n",
        "| documents | bundles |",
        "|---:|---:|",
        *(f"| {size} | {count} |" for size, count in sorted(sizes.items())),
        "\n| source | documents in bundles | questions that quote it |",
        "|---|---:|---:|",
        *(f"| {plain(source)} | {count} | {quoted[source]} |" for source, count in sources.most_common()),
    ]
    lines += [f"\n![Documents and bundles]({maps.MAP})", f"\n![Sizes of bundles]({maps.SIZES})"]
    return "\n".join(lines) + "\n"


def _questions(questions: Sequence[BundleQuestion]) -> str:
    if not questions:
        return "## Questions\n\nNone.\n"
    types = Counter(row.type for row in questions)
    lines = ["## Questions\n", "| type | rows |", "|---|---:|"]
    lines += [f"| {kind} | {count} |" for kind, count in sorted(types.items())]
    lines += ["\n| stage | rows | complexity |", "|---:|---:|---|"]
    for number in sorted({row.curriculum_stage for row in questions}):
        found = [row.complexity for row in questions if row.curriculum_stage == number]
        lines.append(f"| {number} | {len(found)} | {min(found):.2f} to {max(found):.2f} |")
    return "\n".join(lines) + "\n"


def _yield(
    manifest: Manifest, bundles: Sequence[Bundle], kept: Sequence[BundleQuestion], rejected: Sequence[RejectedRow]
) -> str:
    """What bundles and calls gave, by kind of question: all kinds that are wished for, made or not."""
    # A question of which no episode was kept is among the rejected rows, too.
    drafts = {row.uid: row for row in (*filter(None, map(question_in, rejected)), *kept)}.values()
    silent = sum(1 for each in rejected if each.stage == questions.NAME and each.reason == _SILENT)
    giving, documents = {row.bundle_id for row in kept}, sum(len(bundle.document_ids) for bundle in bundles)
    calls = sum(each.calls for each in manifest.calls_by_purpose if each.purpose not in _PURPOSES)
    each = f", {calls / len(kept):.1f} a question" if kept else ""
    mended = sum(each.calls for each in manifest.calls_by_purpose if each.purpose == "mend")
    each += f" (in {mended} of them a draft that would not do was written again)" if mended else ""
    lines = [
        "## Yield\n",
        f"{len(kept)} questions of {len(bundles)} bundles: {_rate(len(kept), len(bundles))} of 100 bundles, "
        f"{_rate(len(kept), documents)} of 100 documents in bundles. {len(giving)} bundles gave one or more; of "
        f"{silent} the writer said why it wrote none (`{_SILENT}` in `rejected/`).",
        f"\nCalls for writing, editing, reading and judging: {calls}, {calls / len(bundles):.1f} a bundle{each}\n",
        "| kind | written | accepted | bundles with one | calls behind those written |",
        "|---|---:|---:|---:|---:|",
    ]
    for kind in _KINDS:
        written, accepted = ([row for row in rows if _kind_of(row) == kind] for rows in (drafts, kept))
        keys = {key for row in written for key in row.provenance.call_keys}
        holding = len({row.bundle_id for row in accepted})
        lines.append(f"| {kind} | {len(written)} | {len(accepted)} | {holding} | {len(keys)} |")
    return "\n".join(lines) + "\n"


def _kind_of(row: BundleQuestion) -> str:
    """Its type, and of facts whether one document leads to the other."""
    return f"{row.type}, {_BRIDGE if row.dag_edges else _BESIDE}" if row.type == "factual" else row.type


def _rate(count: int, total: int) -> str:
    return f"{100 * count / total:.1f}" if total else "0"


class _Made(NamedTuple):
    """How an episode came about."""

    origin: Origin
    thoughts: ThoughtSource
    scored_by: AnswerScoredBy

    @classmethod
    def of(cls, episode: SearchEpisode) -> _Made:
        """Of a row."""
        return cls(episode.origin, episode.thoughts, episode.scored_by)


def _episodes(manifest: Manifest, episodes: Counter[_Made]) -> str:
    """Where plans and thoughts come from, what scored the answers, and what an episode took."""
    total = episodes.total()
    if not total:
        return "## Episodes\n\nNone.\n"
    lines = ["## Episodes\n", "| plan | thought before the search | episodes | share |", "|---|---|---:|---:|"]
    for (origin, thoughts), count in sorted(_added(episodes, "origin", "thoughts").items()):
        lines.append(f"| {_PLANS[origin]} | {_THOUGHTS[thoughts]} | {count} | {count / total:.0%} |")
    lines += ["\n| answers scored by | episodes |", "|---|---:|"]
    lines += [f"| {_SCORES[by]} | {count} |" for (by,), count in sorted(_added(episodes, "scored_by").items())]
    calls = sum(each.calls for each in manifest.calls_by_purpose if each.purpose in _PURPOSES)
    lines.append(f"\nCalls for plans, answers and thoughts: {calls}, {calls / total:.1f} an episode")
    return "\n".join(lines) + "\n"


def _added(episodes: Counter[_Made], *names: str) -> Counter[tuple[str, ...]]:
    added: Counter[tuple[str, ...]] = Counter()
    for made, count in episodes.items():
        added[tuple(getattr(made, name) for name in names)] += count
    return added


def _limits(manifest: Manifest, config: BundleRunConfig, episodes: Counter[_Made]) -> str:
    lines = [
        "- That fewer documents do not suffice, and that nobody knows the answer without them, was measured with the "
        "model that is named above: another one may know more.",
    ]
    judge = config.judge
    if judge.near_misses or judge.free_answers:
        who = f"`{judge.model or manifest.model}` was asked for the score of"
        lines.append(f"- {who} answers that the matcher of names, numbers and dates does not take: no person was.")
    if config.questions and not judge.free_answers:
        lines.append("- No judge read explanations: they are right where they say all key facts of the gold one.")
    if gold := _added(episodes, "origin")["oracle",]:
        lines.append(
            f"- {gold} of {episodes.total()} episodes follow the gold plan: whoever wrote its queries had read the "
            "documents."
        )
    if told := _added(episodes, "thoughts")["templates",]:
        lines.append(f"- {told} of {episodes.total()} thoughts before a search are sentences from pools, of one style.")
    is_small = config.questions and config.writer.kind == "steps"
    return limits(lines, ", in steps that it can do" if is_small else None)


def _examples(questions: Sequence[BundleQuestion]) -> str:
    first: dict[str, BundleQuestion] = {}
    for row in questions:
        first.setdefault(row.type, row)
    parts = ["## One question of each type\n"] if first else []
    for kind, row in sorted(first.items()):
        parts.append(f"### {kind} (`{row.uid}`)\n\n{plain(short(row.question))}\n")
        parts += [f"- {letter}. {plain(option)}" for letter, option in zip("ABCDEFG", row.options, strict=False)]
        parts.append(f"\nAnswer: {', '.join(row.correct_options) or plain(row.answer)}\n")
        parts += [f"> {plain(short(hop.evidence))} ({plain(hop.document_id)})\n" for hop in row.hops]
        parts.append(f"```text\n{short(row.dag_text)}\n```\n")
    return "\n".join(parts)
