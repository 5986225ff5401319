"""Count what a recorded run says of its model's behaviour (splits, redraws, rewordings, answers, rows), for
`search_yield`.

A reading is a finished run of mcts-trajectories. With a recording of its requests and replies (a JSON object a line:
`request`, `reply`; gzipped or not) the replies are counted, too: calls by purpose, usable wordings. Without one, all
draws are those that the trees tell of. The counts are added to the file that rehearsals read.

    make bench B=search_counts ARGS="--model strong --source '…' --recording mcts.jsonl.gz \\
        --reading runs/mcts-1 1 131 --reading runs/mcts-2 132 240"
    make bench B=search_counts ARGS="--model embedded --source '…' --preset demo --reading datasets_out/demo 0 0"
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import yaml
from rich.console import Console
from rich.table import Table

from trailforge.filters.grounding import supports
from trailforge.generators.mcts_trajectories.choice import choose_rows
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.estimate import context_of
from trailforge.generators.mcts_trajectories.generate import find_fault, trajectories
from trailforge.generators.mcts_trajectories.rehearsal.counted import COUNTED, Behaviour, Share
from trailforge.generators.mcts_trajectories.rehearsal.world import ChainModel
from trailforge.generators.mcts_trajectories.telling.doubts import DoubtReason
from trailforge.mcts.plan import gold_plan, normalized, question_of, references
from trailforge.mcts.rollout import is_usable_query
from trailforge.pipelines.runs.config import read_config
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.presets import load_preset
from trailforge.rewards import same_answer
from trailforge.rewards.answers import read_first_line
from trailforge.schemas import (
    Hop,
    Node,
    Question,
    RejectedRow,
    Rollout,
    SearchTree,
    Step,
    Trajectory,
    read_rows,
)

_BEGINNINGS = {
    "Answer the question from": "answer",
    "Write ": "rephrase",
    "Break one question": "split",
    "Judge how well": "grade",
    "A search agent answered": "thoughts",
}
_PER_TRY = 1000
"""What is between the numbers of the draws of one rollout's answer (`mcts.rollout`)."""


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded model call: its request and its reply."""

    purpose: str
    prompt: str
    reply: str


def main() -> None:
    """Count the runs that the options name, print the counts and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="what the counts are kept under")
    parser.add_argument("--source", required=True, help="what was recorded, in words")
    parser.add_argument("--recording", type=Path, help="requests and replies")
    parser.add_argument(
        "--reading", nargs=3, action="append", required=True, metavar=("RUN", "FIRST", "LAST"),
        help="a run's folder, and the numbers of its calls in the recording",
    )  # fmt: skip
    parser.add_argument("--preset", default="gold-first", help="that rows are made by today (default: gold-first)")
    parser.add_argument("--stated", nargs="*", default=[], help="mistakes of which a reader says that they are stated")
    parser.add_argument("--wordings", type=int, default=4, help="that a reply with rewordings is asked for")
    parser.add_argument("--out", type=Path, default=COUNTED)
    options = parser.parse_args()
    calls = list(_read_calls(options.recording)) if options.recording else []
    config = read_config(MctsRunConfig, load_preset(options.preset, "mcts_trajectories"), source=options.preset)
    readings = {}
    for run, first, last in options.reading:
        of_run = calls[max(0, int(first) - 1) : int(last)]
        readings[Path(run).name] = count_run(Path(run), of_run, options.wordings, config, options.stated)
    _print(readings)
    known = yaml.safe_load(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    names = [Path(each).name if "/" in each else each for each in sys.argv[1:]]
    known[options.model] = {
        "source": options.source,
        "command": f"benchmarks/search_counts.py {shlex.join(names)}",
        "preset": options.preset,
        "readings": [{"name": name} | reading for name, reading in readings.items()],
    }
    options.out.write_text(
        yaml.safe_dump(known, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True), encoding="utf-8"
    )


def count_run(
    folder: Path, calls: Sequence[Call], wordings: int, config: MctsRunConfig, stated: Sequence[str]
) -> dict[str, Any]:
    """Return what a run says of its model, as a `rehearsal.counted.RecordedRun`.

    `wordings` is how many were asked for in a reply, `config` the settings by which its rows are made today, `stated`
    the mistakes that a reader found in the passages.
    """
    trees = list(read_rows(sorted(folder.glob("trees/*.parquet")), SearchTree))
    questions = {q.id: q for q in read_rows(sorted(folder.glob("inputs/*.parquet")), Question)}
    rows = list(read_rows(sorted(folder.glob("mcts_trajectories/*.parquet")), Trajectory))
    rejected = list(read_rows(sorted(folder.glob("rejected/*.parquet")), RejectedRow))
    behaviour = Counter[str]()
    for tree in trees:
        behaviour.update(_count_tree(tree, questions[tree.question_id]))
    denied = {json.loads(row.payload)["question_id"] for row in rejected if row.reason == "unsupported_claim"}
    told = denied | {row.question_id for row in rows if row.thoughts == "model"}
    behaviour.update({"unsupported": len(denied), "unsupported of": len(told)})
    known = [row for row in rows if row.reflection_error in ("reasoning", "retrieval") and row.thoughts == "model"]
    stated_ones = sum(row.reason == "mistake_is_stated" for row in rejected)
    by_reader = sum(any(_is_stated(step, stated) for step in row.steps) for row in known)
    behaviour.update({"stated_mistakes": stated_ones + by_reader, "stated_mistakes of": stated_ones + len(known)})
    behaviour.update(_count_replies(calls))
    # Of each reply all wordings were searched until one lost the passage.
    a_reply = wordings * behaviour["wordings"] / behaviour["wordings of"] if calls else wordings
    behaviour["lost of"] = round(a_reply * behaviour["lost of"])
    by_purpose = _calls_of(folder) or Counter(call.purpose for call in calls)
    untrue = [row.detail for row in rejected if row.reason in get_args(DoubtReason)]
    kept = [row for tree in trees for row in _rows_today(tree, questions[tree.question_id], config, untrue, stated)]
    return {
        "behaviour": {name: [behaviour[name], behaviour[f"{name} of"]] for name in _NAMES},
        "outcome": {
            "questions": len(trees),
            "calls": by_purpose.total() or sum(tree.calls for tree in trees),
            "hops": dict(sorted(Counter(len(questions[tree.question_id].decomposition) for tree in trees).items())),
            "calls_for": dict(by_purpose.most_common()),
            "accepted": len(rows),
            "rows": dict(Counter(row.reflection_error or "correct" for row in kept).most_common()),
            "origins": dict(Counter(row.origin for row in kept).most_common()),
        },
    }


def _calls_of(folder: Path) -> Counter[str]:
    """By purpose, as the run's manifest has them; none without one."""
    manifest = read_manifest(folder)
    return Counter({each.purpose: each.calls for each in manifest.calls_by_purpose} if manifest else {})


def _rows_today(
    tree: SearchTree, question: Question, config: MctsRunConfig, untrue: Sequence[str], stated: Sequence[str]
) -> Iterator[Trajectory]:
    """The rows that today's rules make of a recorded tree, but for those that rest on what was said to be untrue."""
    nothing = Behaviour(**{each.name: (0, 0) for each in fields(Behaviour)})
    context = context_of(config, nothing, ChainModel(nothing, question))
    kept, _ = choose_rows(question, trajectories(question, tree, context), config.filters, config.generator.reflection)
    for row in kept:
        told = [f"{s.query!r} {said}" for s in row.steps for said in (f"is answered with {s.answer!r},", "is not what")]
        is_denied = any(detail.startswith(each) for detail in untrue for each in told)
        if not is_denied and not any(_is_stated(step, stated) for step in row.steps):
            yield row


def _is_stated(step: Step, stated: Sequence[str]) -> bool:
    return step.is_mistake and step.answer in stated


_NAMES = (
    *("unvaried", "alike", "found", "found_reworded", "lost", "wordings", "read", "remembered", "abstained", "unsplit"),
    *("unstable", "redrawn", "splits", "plans", "malformed", "unsupported", "stated_mistakes"),
)


def _count_tree(tree: SearchTree, question: Question) -> Counter[str]:
    counts = Counter[str]()

    def count(name: str, is_so: bool) -> None:
        counts.update({name: int(is_so), f"{name} of": 1})

    of: dict[int, list[Rollout]] = defaultdict(list)
    for rollout in tree.rollouts:
        of[rollout.node].append(rollout)
    golds = {_without_numbers(each) for each in gold_plan(question.decomposition).sub_questions}
    for node in tree.nodes:
        if not (rollouts := of[node.id]) or node.origin == "oracle":
            continue
        if len(node.plan) == len(golds) and not any(node.decomposable):
            for sub_question in node.plan:
                count("alike", _without_numbers(sub_question) in golds)
        if any(node.decomposable):
            count("unsplit", rollouts[0].reward > 0)
        elif (is_right := any(rollout.reward > 0 for rollout in rollouts)) or any(
            all(step.passages and not find_fault(step, question) for step in rollout.steps) for rollout in rollouts
        ):
            count("plans", is_right)
    _count_gold_steps(_gold_like(tree, question), question, count)
    for rollout in tree.rollouts:
        _count_rewording(rollout, tree, question, count)
    counts.update(_count_redraws(tree))
    dropped = tree.dropped_splits
    made = sum(node.parent is not None and node.origin != "oracle" for node in tree.nodes)
    proposed = made + dropped.identical + dropped.no_progress + dropped.invalid
    counts.update({"splits": made, "splits of": proposed})
    counts.update({"malformed": dropped.malformed, "malformed of": proposed + dropped.malformed})
    return counts


def _without_numbers(sub_question: str) -> str:
    return normalized(re.sub(r"#\d+", "#", sub_question))


def _gold_like(tree: SearchTree, question: Question) -> list[Rollout]:
    """The first rollouts of the gold decomposition and of leaf plans that are as long, in their order: a gold
    decomposition that comes last was tried on hard questions alone."""
    hops = len(question.decomposition)
    first = {rollout.node: rollout for rollout in reversed(tree.rollouts)}
    of_leaves = [r for node, r in first.items() if not any(tree.nodes[node].decomposable) and len(r.steps) == hops]
    return sorted(of_leaves, key=lambda rollout: rollout.index)


def _count_gold_steps(plain: Sequence[Rollout], question: Question, count: Any) -> None:
    """Whether the steps of plain rollouts found and read what the gold hops have. What a hop's query finds is counted
    once, what is answered for each prompt."""
    prompts = set[tuple[str, ...]]()
    for rollout in plain:
        for step, hop, is_right in _asked_rightly(rollout, question):
            is_found = _states(step, hop.answer)
            if rollout is plain[0]:
                count("found", is_found)
            prompt = (step.query, *(passage.id for passage in step.passages))
            if prompt in prompts:
                continue
            prompts.add(prompt)
            count("read" if is_found else "remembered", is_right)
            if not is_found and not is_right:
                count("abstained", not step.answer)


def _asked_rightly(plain: Rollout, question: Question) -> Iterator[tuple[Step, Hop, bool]]:
    """The steps that were asked with the answers that the hops before have, and whether they were answered so.

    Of plans in another order a right answer tells which hop was asked for.
    """
    wrong: set[int] = set()
    for step, at_its_place in zip(plain.steps, question.decomposition, strict=True):
        if not step.passages or any(place + 1 in references(step.sub_question) for place in wrong):
            wrong.add(step.index)
            continue
        hops = (at_its_place, *question.decomposition)
        hop = next((each for each in hops if same_answer(step.answer, each.answer)), None)
        yield step, hop or at_its_place, hop is not None
        if hop is None:
            wrong.add(step.index)


def _count_rewording(rollout: Rollout, tree: SearchTree, question: Question, count: Any) -> None:
    """What other words of one query did, beside the rollout that it varies."""
    if rollout.variation != "query" or rollout.base is None or rollout.varied_step is None:
        return
    base, place = tree.rollouts[rollout.base], rollout.varied_step
    before, after = base.steps[place], rollout.steps[place]
    if base.reward > 0:
        count("unvaried", after.query == before.query)
    node = tree.nodes[rollout.node]
    answer = _answer_of(question, node, place, before)
    if not _states(before, answer):
        count("found_reworded", _states(after, answer))
    elif base.reward > 0:
        count("lost", after.query != before.query and not _states(after, answer))


def _answer_of(question: Question, node: Node, place: int, step: Step) -> str:
    """The right answer of a step: its hop's, or where no hop is known what a right rollout took."""
    return question.decomposition[place].answer if node.origin == "oracle" else step.answer


def _states(step: Step, answer: str) -> bool:
    return any(supports(passage, step.query, answer) for passage in step.passages)


def _count_redraws(tree: SearchTree) -> Counter[str]:
    """Prompts that were answered before, and draws of those of them that have more than one answer. A draw that was to
    differ has draws before it that did not."""
    rights = [rollout.answer for rollout in tree.rollouts if rollout.reward > 0]
    first: dict[tuple[str, ...], tuple[int, str]] = {}
    drawn: dict[tuple[str, ...], dict[int, bool]] = defaultdict(dict)
    answered = ((rollout, step) for rollout in tree.rollouts for step in rollout.steps if step.passages)
    for rollout, step in answered:
        prompt = (question_of(rollout.steps, step), *(passage.id for passage in step.passages))
        sample, answer = first.setdefault(prompt, (step.answer_sample, step.answer))
        if step.answer_sample == sample:
            continue
        differs = not same_answer(step.answer, answer) and not (step.answer in rights and answer in rights)
        for earlier in range(step.answer_sample - _PER_TRY, -1, -_PER_TRY):
            drawn[prompt].setdefault(earlier, False)
        drawn[prompt][step.answer_sample] = differs
    unstable = [draws for draws in drawn.values() if any(draws.values())]
    draws = sum(map(len, unstable))
    differing = sum(sum(each.values()) for each in unstable)
    return Counter({"unstable": len(unstable), "unstable of": len(drawn), "redrawn": differing, "redrawn of": draws})


def _count_replies(calls: Sequence[Call]) -> Counter[str]:
    """Usable wordings of the replies with rewordings."""
    counts = Counter[str]()
    for call in calls:
        if call.purpose == "rephrase":
            _, usable = _wordings(call)
            counts.update({"wordings": len(usable), "wordings of": _wanted(call)})
    return counts


def _wordings(call: Call) -> tuple[str, list[str]]:
    """The query of a call for other wordings, and those of the reply that can be used."""
    query = call.prompt.rpartition("Query: ")[2].partition("\n")[0]
    lines = [read_first_line(line) for line in call.reply.splitlines()[: _wanted(call)]]
    return query, [line for line in lines if is_usable_query(line, query)]


def _wanted(call: Call) -> int:
    return int(call.prompt.split()[1])


def _read_calls(path: Path) -> Iterator[Call]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            prompt = row["request"]["messages"][-1]["content"]
            purpose = next((name for begin, name in _BEGINNINGS.items() if prompt.startswith(begin)), "judge")
            yield Call(purpose, prompt, row["reply"].rpartition("@end\n")[2])


def _print(readings: dict[str, dict[str, Any]]) -> None:
    table = Table(title="counted: so many of so many")
    table.add_column("")
    for name in (*readings, "all"):
        table.add_column(name, justify="right")
    for name in _NAMES:
        shares: list[Share] = [reading["behaviour"][name] for reading in readings.values()]
        summed = (sum(some for some, _ in shares), sum(of for _, of in shares))
        table.add_row(name, *(f"{some} of {of}" for some, of in (*shares, summed)))
    for name in ("questions", "calls", "hops", "calls_for", "accepted", "rows", "origins"):
        table.add_row(name, *(_told(reading["outcome"][name]) for reading in readings.values()), "")
    Console(width=150).print(table)


def _told(value: Any) -> str:
    return ", ".join(f"{key} {number}" for key, number in value.items()) if isinstance(value, dict) else str(value)


if __name__ == "__main__":
    main()
