"""Train one arm of the benchmark `teaching` by GRPO on its world's training questions, and measure what that changes on
test questions.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from _teaching_report import FIGURES, read_figures, write_report


def run_grpo(options: argparse.Namespace) -> None:
    """Train the arm for some GRPO steps, then answer the test questions again; the result is stored as arm `G`."""
    from teaching import evaluate, keep, trailforge

    seed = options.seeds[0]
    folder = options.out / f"seed-{seed}"
    test, corpus = folder / "world" / "test.jsonl", folder / "world" / "corpus.jsonl"
    if options.questions:
        test, corpus = options.test, options.documents
    trained, preset, began = folder / "grpo", options.train_preset or folder / "train.yaml", time.monotonic()
    if not (trained / "training.json").exists():
        how = ("--preset", preset, "--base-model", folder / "trained" / options.arm / "model", "--seed", seed)
        searched = ("--documents", corpus, "--max-steps", options.steps, "--rollouts", "transformers")
        trailforge(
            "train", "rl", folder / "sets" / options.arm, *how, *searched, "--out", trained, log=folder / "G.txt"
        )
    seconds = round(time.monotonic() - began)
    evaluate(options, folder, trained / "model", test, corpus, folder / "evaluated" / "G")
    keep(folder / "evaluated" / "G", f"world-{seed}", "G")
    result: dict[str, Any] = json.loads((trained / "training.json").read_text(encoding="utf-8"))
    facts = read_figures()
    facts["grpo"] = {"world": f"world-{seed}", "arm": options.arm, "rewards": result["rewards"], "seconds": seconds}
    FIGURES.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    write_report()
