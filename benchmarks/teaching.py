"""Measure whether the data teaches: agents trained on correct rows, on rows that also mend mistakes, and on a control.

A world is made (`trailforge world`), rows of it by a scripted model that errs (`trailforge mcts-trajectories`, all
filters on), training sets of these, a small model is trained on each for equally many trained tokens (`trailforge train
sft`), and every arm answers questions about entities that no row has (`trailforge evaluate`). docs/teaching.md has what
came out, and what was claimed before.

    make bench B=teaching ARGS="sft --out out/teaching"          worlds, rows, arms, episodes: below an hour, 2 cores
    make bench B=teaching ARGS="grpo --out out/teaching"         then reinforcement of the best arm
    make bench B=teaching ARGS="report"                          tables and plots of the stored episodes
    make bench B=teaching ARGS="sft --out out/7b --base-model Qwen/Qwen2.5-7B-Instruct --train-preset msearcher \\
        --questions musique_train.jsonl --test musique_dev.jsonl --documents passages.jsonl \\
        --model http://host:8000/v1 --rows-preset msearcher --evaluation-preset ragsearch \\
        --top-k 5 --trained-tokens 5000000 --seeds 0 --at-once 1"

The last is the same with a model, questions and a rollout model of one's own, on a machine that can train it; nobody
has run it yet.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from _teaching_base import BaseConfig, make_base
from _teaching_report import ARMS, DOCS, FIGURES, episodes_file, read_figures, write_report
from _teaching_world import (
    ErringModel,
    Lore,
    asked_of,
    asked_of_questions,
    of_questions_by_lot,
    serving,
    shuffled_observations,
    write_graph,
    wrongly_answered,
)

from benchmarks._demanded import evaluate as write_evaluation
from benchmarks.bands import AGENTS
from tests.support.world_agent import WorldFolder
from trailforge.evaluation.folder import read_episodes
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.runs.finished import MANIFEST
from trailforge.schemas import FileEntry, SftRow, to_dict, write_parquet
from trailforge.training.sets.files import open_set
from trailforge.training.trl.offline import tokenise
from trailforge.training.weights import load_tokenizer

ROOT = Path(__file__).resolve().parents[1]
ROWS_PRESET = """\
description: the erring model of benchmarks/teaching.py
dataset: mcts_trajectories
model: {name: scripted, dialect: openai, max_in_flight: 32, timeout_s: 60}
generator:
  rollout: {top_k: 1}
  search:
    max_calls: 80
    max_sub_questions: 3
    wanted: {correct: 2, retrieval: 2, reasoning: 1, decomposition: 1}
    step_tries: 5                     # of the wordings that a relation has, one or two find the right document
    errors: provoked
    policy_calls: 80
    oracle_rollouts: 10
    patience: 30
  judge: {near_misses: false}
  reflection: {max_correct: 2}
  thoughts: {source: templates}
filters: {max_tokens: 4096}
retrieval: {kind: bm25, scope: corpus, corpus_index: CORPUS}
output: {shard_size: 50}
"""
TRAIN_PRESET = """\
description: a small model of its own for benchmarks/teaching.py
protocol: react
reward:
  {kind: msearcher, max_tokens: 900, cache_tokens: 200, format_penalty: floor_minus_one, malformed: -0.2, floor: -1.0}
sft:
  base_model: none
  batch_size: 8
  per_device: 8
  epochs: 1000                        # the steps are counted by the benchmark
  learning_rate: 1.5e-3
  scheduler: cosine
  warmup_ratio: 0.05
  max_tokens: 1024
  precision: float32
  gradient_checkpointing: false
  save_steps: 100000
  logging: none
rl:
  base_model: none
  algorithm: grpo
  prompts_per_step: 8
  samples: 8
  mini_batch: 64
  per_device: 32
  epochs: 1
  learning_rate: 1e-4
  max_tokens: 900
  max_observation_tokens: 200
  max_searches: 5
  top_k: 1
  rollouts: transformers
  precision: float32
  gradient_checkpointing: false
  save_steps: 100000
  logging: none
retrieval: {kind: bm25}
"""
EVALUATION_PRESET = """\
description: the agents of benchmarks/teaching.py, greedy
model: {name: none, url: embedded}
top_k: 1
agents:
  react: {max_searches: 5, max_tokens: 900, turn_tokens: 160, temperature: 0.0}
shard_size: 210
episodes_in_flight: 105
"""
BAND, ATTEMPTS = "0.1..0.7", 8
"""The pass rates of arm H, and how often each question is attempted to know them."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes of the experiment: entities, questions, trained tokens, and the base model."""

    entities: int = 800
    """Of each kind, in the graph of a world."""
    questions: int = 1100
    test_questions: int = 840
    trained_tokens: int = 350_000
    """Of each arm, with repetitions: tokens that the loss is taken on."""
    base: BaseConfig = field(default_factory=BaseConfig)


def trailforge(*words: object, log: Path) -> None:
    """Run a `trailforge` command on one core, with its output in a file. Raises an exception when the command fails."""
    environment = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **os.environ, "TOKENIZERS_PARALLELISM": "false"}
    with log.open("a") as out:
        command = [sys.executable, "-m", "trailforge", *map(str, words)]
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise SystemExit(f"trailforge {' '.join(command[3:5])} failed: the end of {log} says why")


def make_world(folder: Path, scale: Scale, seed: int, *, for_base: bool = False) -> Path:
    """Make a graph and a world over it, in `folder`/graph and `folder`/world; returns the world's folder. `for_base`
    makes the small one that the base model is trained on, in names of its own.
    """
    world, log = folder / "world", folder / "log.txt"
    if not world.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_graph(
            folder / "tables", min(250, scale.entities) if for_base else scale.entities, seed, worlds=not for_base
        )
        trailforge("kg", "build", folder / "tables", "--out", folder / "graph", log=log)
        sizes = ("--questions", scale.questions, "--test-questions", scale.test_questions, "--seed", seed)
        if for_base:
            sizes = ("--questions", min(500, scale.questions))
        shares = ("--look-alikes", 0.6 if for_base else 0.5, "--intersections", 0, "--hops", "1,2")
        found = ("--passages", 1, "--max-facts", 2, "--distractors", 300)
        trailforge("world", "--kg", folder / "graph", *sizes, *shares, *found, "--out", world, log=log)
    return world


def make_rows(folder: Path, questions: Path, corpus: Path, model: str = "", own_preset: str = "") -> Path:
    """Make the run whose rows are trained on, and return its folder. `model` is the URL of a server in place of the
    scripted model, `own_preset` a preset in place of the benchmark's; each is empty for the latter.
    """
    run, preset = folder / "rows", own_preset or folder / "rows.yaml"
    if not (run / MANIFEST).exists():
        if isinstance(preset, Path):
            preset.write_text(ROWS_PRESET.replace("CORPUS", json.dumps(str(corpus.absolute()))), encoding="utf-8")
        scripted = nullcontext(model) if model else serving(ErringModel(Lore.of(folder / "graph", folder / "world")))
        with scripted as url:
            asked = ("--questions", questions, "--preset", preset, "--model", url)
            trailforge("mcts-trajectories", *asked, "--out", run, log=folder / "log.txt")
    return run


def make_sets(folder: Path, run: Path, seed: int, arms: Sequence[str]) -> dict[str, Path]:
    """Make a training set for each of these arms and for those that they derive from; returns folders by arm."""
    sets = {arm: folder / "sets" / arm for arm in ARMS}
    wanted = {*arms} | {"B"} | ({"H"} if "I" in arms else set())
    options: dict[str, tuple[object, ...]] = {
        "A": ("--no-reflective",),
        "B": (),
        "C": ("--mistakes", "mask"),
        "E": ("--leave-out", "reasoning", "--leave-out", "decomposition"),
        "H": ("--measured", folder / "measured", "--pass-rate", BAND),
    }
    if "H" in wanted:
        measure_questions(folder)
    for arm, own in options.items():
        if arm in wanted and not sets[arm].exists():
            made = ("training-set", run, "--validation", 0, "--order", "shuffled", *own, "--out", sets[arm])
            trailforge(*made, log=folder / "log.txt")
    changes = {"D": shuffled_observations, "F": wrongly_answered}
    if "I" in wanted:
        asked = {row.question_id for row in open_set(sets["H"]).rows("sft", "train", SftRow)}
        changes["I"] = partial(of_questions_by_lot, count=len(asked))
    for arm, change in changes.items():
        if arm in wanted and not sets[arm].exists():
            write_changed(sets["B"], sets[arm], partial(change, seed=seed))
    return sets


def measure_questions(folder: Path) -> None:
    """Write an evaluation in which an agent that was fixed beforehand answers a world's training questions."""
    if not (folder / "measured").exists():
        world, agent = WorldFolder(folder / "world"), AGENTS["weak"]
        played = [agent.play(world, each, number) for each in world.questions() for number in range(ATTEMPTS)]
        write_evaluation(played, folder / "measured")


def write_changed(source: Path, out: Path, change: Callable[[list[SftRow]], list[SftRow]]) -> None:
    """Copy a training set, with its rows for supervised training replaced by `change` of them."""
    manifest = open_set(source).manifest
    path = out / "sft" / "train" / "part-00000.parquet"
    path.parent.mkdir(parents=True)
    rows = change(list(open_set(source).rows("sft", "train", SftRow)))
    write_parquet(path, SftRow, rows)
    entry = FileEntry(path=path.relative_to(out).as_posix(), rows=len(rows), sha256=sha256_of(path))
    (out / MANIFEST).write_text(json.dumps(to_dict(replace(manifest, files=(entry,)))), encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Amount:
    """How much an arm is trained: rows, steps and tokens."""

    rows: int
    kinds: dict[str, int]
    tokens_per_epoch: int
    steps: int
    trained_tokens: int


def amount_of(training_set: Path, base: Path | str, preset: Path | str, trained_tokens: int) -> Amount:
    """Return how many optimizer steps come nearest to this number of trained tokens, by the mean length of a row."""
    from collections import Counter

    from trailforge.training.config import load_train_preset
    from trailforge.training.masks import prepare_tokenizer

    config = load_train_preset(str(preset)).sft
    tokenizer = load_tokenizer(str(base))
    prepare_tokenizer(tokenizer)
    opened = open_set(training_set)
    rows = list(opened.rows("sft", "train", SftRow))
    examples, _ = tokenise(tokenizer, rows, config.max_tokens, masks_mistakes=opened.masks_mistakes)
    per_epoch = sum(sum(each.mask) for each in examples)
    per_step = per_epoch * config.batch_size / len(examples)
    steps = max(1, round(trained_tokens / per_step))
    return Amount(
        rows=len(examples),
        kinds=dict(Counter(row.reflection_error or "correct" for row in rows)),
        tokens_per_epoch=per_epoch,
        steps=steps,
        trained_tokens=round(steps * per_step),
    )


def run_sft(options: argparse.Namespace, scale: Scale) -> None:
    """Make worlds, rows, arms and episodes; seeds run in parallel, one core each."""
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    base = options.base_model
    if not base:
        base = out / "base" / "model"
        if not base.exists():
            world = make_world(out / "base", scale, 1000, for_base=True)
            make_base(out / "base" / "graph", world, base, scale.base)
    with ThreadPoolExecutor(options.at_once) as pool:
        found = list(pool.map(lambda seed: run_seed(options, scale, base, seed), options.seeds))
    DOCS.mkdir(exist_ok=True)
    figures = dict(read_figures())
    for name, facts in found:
        arms = figures.get(name, {}).get("arms", {}) | facts["arms"]
        figures[name] = facts | {"arms": dict(sorted(arms.items()))}
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    write_report()


def run_seed(options: argparse.Namespace, scale: Scale, base: Path | str, seed: int) -> tuple[str, Any]:
    """Make one seed's world, train and evaluate its arms; returns what was trained and which questions mislead."""
    folder = options.out / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    if options.questions:
        questions, test, corpus = options.questions, options.test, options.documents
        asked = asked_of_questions(test, corpus)
    else:
        world = make_world(folder, scale, seed)
        questions, test, corpus = world / "questions.jsonl", world / "test.jsonl", world / "corpus.jsonl"
        asked = asked_of(world)
    rows = make_rows(folder, questions, corpus, options.model, options.rows_preset)
    sets = make_sets(folder, rows, seed, options.arms)
    preset = options.train_preset or folder / "train.yaml"
    if not options.train_preset:
        preset.write_text(TRAIN_PRESET + f"# seed {seed}\n", encoding="utf-8")
    facts: dict[str, Any] = {"questions": asked, "arms": {}}
    for arm in options.arms:
        facts["arms"][arm] = run_arm(options, folder, arm, (sets[arm], base, preset, test, corpus), seed)
    return f"world-{seed}", facts


def run_arm(
    options: argparse.Namespace, folder: Path, arm: str, inputs: tuple[Path, Any, Any, Path, Path], seed: int
) -> dict[str, Any]:
    """Train and evaluate one arm, unless that was done; returns what it was trained on and how long that took.

    `inputs` are the training set, the base model, the preset of the training, the test questions and their corpus.
    """
    training_set, base, preset, test, corpus = inputs
    done, trained = folder / f"{arm}.json", folder / "trained" / arm
    if not done.exists():
        amount = amount_of(training_set, base, preset, options.trained_tokens)
        began = time.monotonic()
        steps = ("--max-steps", amount.steps, "--seed", seed)
        how = ("--preset", preset, "--base-model", base, *steps)
        trailforge("train", "sft", training_set, *how, "--out", trained, log=folder / f"{arm}.txt")
        between = time.monotonic()
        evaluate(options, folder, trained / "model", test, corpus, folder / "evaluated" / arm)
        seconds = {"train": round(between - began), "evaluate": round(time.monotonic() - between)}
        done.write_text(json.dumps({**to_dict(amount), "seconds": seconds}), encoding="utf-8")
        print(f"seed {seed}, arm {arm}: {amount.trained_tokens:,} trained tokens, {seconds}", flush=True)
    keep(folder / "evaluated" / arm, f"world-{seed}", arm)
    return json.loads(done.read_text(encoding="utf-8"))


def evaluate(options: argparse.Namespace, folder: Path, model: Path, test: Path, corpus: Path, out: Path) -> None:
    """Let a trained model answer the test questions, greedily unless an evaluation's preset says otherwise."""
    preset = options.evaluation_preset or folder / "evaluation.yaml"
    if isinstance(preset, Path):
        preset.write_text(EVALUATION_PRESET, encoding="utf-8")
    asked = (test, "--agent", "react", "--backend", "bm25", "--documents", corpus, "--model", model)
    how = ("--preset", preset, "--top-k", options.top_k, "--out", out)
    trailforge("evaluate", *asked, *how, log=folder / f"{out.name}.txt")


def keep(evaluated: Path, world: str, arm: str) -> None:
    """Copy an evaluation's episodes to where the report finds them, without rules that all share and without times."""
    rows = []
    for row in sorted(read_episodes(evaluated), key=lambda each: each.question_id):
        searches = tuple(replace(each, seconds=0.0) for each in row.searches)
        messages = tuple(each for each in row.messages if each.role != "system")
        costs = replace(row.costs, seconds=None)
        rows.append(replace(row, messages=messages, searches=searches, costs=costs, model=arm))
    DOCS.mkdir(exist_ok=True)
    write_parquet(episodes_file(world, arm), type(rows[0]), rows)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("sft", "grpo"):
        command = commands.add_parser(name)
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
        command.add_argument("--at-once", type=int, default=2, help="worlds side by side")
        command.add_argument("--arms", nargs="+", default=list("ABCD"), choices=ARMS)
        command.add_argument("--base-model", default="", help="name or folder; default: one from scratch")
        command.add_argument("--train-preset", default="", help="of `trailforge train`; default: of the small model")
        command.add_argument("--questions", type=Path, help="to learn on, in the place of a world's")
        command.add_argument("--test", type=Path, help="questions that are evaluated; with --questions")
        command.add_argument("--documents", type=Path, help="what is searched; with --questions")
        command.add_argument("--model", default="", help="URL of a rollout model; default: the scripted one")
        command.add_argument("--rows-preset", default="", help="of that run; default: of the scripted model")
        command.add_argument("--evaluation-preset", default="", help="of `trailforge evaluate`; default: greedy")
        command.add_argument("--top-k", type=int, default=1)
        command.add_argument("--trained-tokens", type=int, default=Scale.trained_tokens)
        command.add_argument("--base-steps", type=int, default=BaseConfig.steps)
        command.add_argument("--steps", type=int, default=30, help="of grpo")
        command.add_argument("--arm", default="B", choices=ARMS, help="that grpo begins with")
    commands.add_parser("report")
    options = parser.parse_args(arguments)
    if options.command == "sft" and options.questions and {"H", "I"} & {*options.arms}:
        parser.error("arms H and I attempt the questions of a world: leave out --questions")
    return options


def main() -> None:
    """Run the command that was named: sft, grpo or report."""
    options = parse()
    if options.command == "report":
        write_report()
        return
    scale = Scale(trained_tokens=options.trained_tokens, base=BaseConfig(steps=options.base_steps))
    if options.command == "sft":
        run_sft(options, scale)
    else:
        from _teaching_grpo import run_grpo

        run_grpo(options)


if __name__ == "__main__":
    main()
