"""How the lines that repeat measurements run in `test_measurements`: as they stand, with the size of a test behind."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.commands.test_docs_commands import ROOT
from tests.support.warm import Running
from tests.support.world import question
from trailforge.schemas import to_dict

PAGES = ("docs/performance.md", "docs/scaling.md", "docs/teaching.md")
SMALL = {
    "front_door": "--command true --rounds 1 --no-run",
    "scheduler": "--questions 2 --latency 0.01",
    "engine": "--prompts 20 --latency 0.001 --rounds 1 --only trailforge",
    "long_episodes": "--rounds 1 --words 20 --episodes 2 --calls 3 --only trailforge",
    "rate_limit": "--prompts 20 --rounds 1 --storm 0.1 --latency 0.5",
    "cluster": "--workers 1 --seconds 0.5 --latency 0.05 --in-flight 4",
    "tree_vs_rejection": "",
    "search_yield": "--questions 3 --p --presets msearcher",
    "search_yield --check": "--questions 3 --sets 2",
    "hop_recall": "--kinds bm25",
    "recall_similarity": "--count 2",
    "backends": "--sets musique --backends bm25 --half all",
    "backends --cache FOLDER --half tune": "--sets musique --backends hybrid",
    "backends_scale": "--copies 1 --questions 2 --backends hybrid",
    "near_rows": "--sizes 40",
    "nearest": "--set musique --sizes 60",
    "words": "--times 1",
    "bundling": "--sizes 60 --recipe-up-to 60",
    "bundling --child": "--size 60",
    "bundling --embed": "",
    "bundling --vectors": "--compare 40 --seeds 0",
    "near_duplicates": "--documents 60",
    "cleaning": "--templates weather --sizes 40",
    "bundle_quality": "--min-cosine 0.4",
    "bundle_ranking": "--sizes 8",
    "kg": "--queries 4 --entities 400 --triples 1200 --words 400",
    "kg_names": "--queries 4",
    "kg_paths": "--count 3",
    "world": "--questions 30 --test-questions 10 --distractors 20 --seed 0",
    "audit": "--questions 30",
    "audit --passages": "--passages 60 --questions 4",
    "bands": "--questions 4 --attempts 2 --rounds 1 --agents weak",
    "demand": "--questions 12 --test-questions 80 --rounds 1",
    "inspector_rows": "--rows 25 --files 1",
    "serve_search": "--passages 200 --seconds 1",
    "rollouts": "--passages 200 --episodes 3 --turn 0.01 --rounds 1",
    "retrieval_scale": "--sizes 100",
    "agentic_gap": "--backends dense,bm25 --dense bm25",
    "ledger": "--processes 1 --seconds 0.2 --ledger sqlite",
    "teaching report": "",
}
"""Further words of the lines that begin so, of which the last of an option counts; the longest beginning counts."""
LONG = {
    "scheduler": "a whole run, with a server of Prefect's",
    "search_yield --check": "every recorded run",
    "bundling --sizes": "a process for each of six variants",
    "bundling --vectors": "the same",
    "kg --real": "a graph of hundreds of thousands of triples",
    "kg_names": "the same twice",
    "kg_paths --count 200 --set": "a graph read again",
    "kg_paths --count 50": "a graph read again",
    "demand": "worlds in two rounds",
    "inspector_rows": "a page in Chromium, and a process for each act",
    "cluster": "a cluster of Dask",
    "retrieval_scale": "indexes in processes of their own",
    "audit": "a world, and an audit of it",
    "rate_limit": "waits for a server's limits",
}
"""Lines that `make docs-run` runs, and CI does not, by how they begin: what takes more than five seconds of a core."""
COLD = ("ledger", "cluster", "kg")
"""Benchmarks whose own processes begin with their file: a fork is no beginning for these."""
PLACES = {
    "FILE": "questions.jsonl",
    "FOLDER": "kept",
    "--data FOLDER": "data",
    "--tokenizer FOLDER": "tokenizer",
}
"""What stands for a word, alone or behind another one."""
DATA = {
    "musique": ("musique_original20", "musique_reconstructed", "musique_partial"),
    "hotpotqa": ("hotpotqa", "hotpotqa_fullwiki_incomplete"),
    "2wikimultihopqa": ("2wiki_context", "2wiki_questions"),
    "qa_small": ("morehopqa_150",),
    "qa_phantomwiki": ("questions",),
}
"""Files of questions by folder."""
CORPORA = ("musique/musique_passages", "2wikimultihopqa/2wiki_corpus", "qa_phantomwiki/corpus")


@dataclass(frozen=True)
class Line:
    """One that runs a benchmark: its name, and the words behind it."""

    benchmark: str
    words: tuple[str, ...]

    @classmethod
    def read(cls, line: str) -> Line | None:
        """`make bench B=… ARGS=…`, or the file by itself; None for any other line."""
        words = shlex.split(line, comments=True)
        if words[:2] == ["make", "bench"] and len(words) > 2:
            given = dict(word.split("=", 1) for word in words[2:])
            return cls(given["B"], tuple(shlex.split(given.get("ARGS", ""))))
        if words[:1] == ["python"] and words[1].startswith("benchmarks/"):
            return cls(Path(words[1]).stem, tuple(words[2:]))
        return None

    def __str__(self) -> str:
        return " ".join([self.benchmark, *self.words])

    def _of(self, told: Mapping[str, str]) -> str | None:
        typed = f"{self} "
        return max((start for start in told if typed.startswith(f"{start} ")), key=len, default=None)

    @property
    def is_long(self) -> bool:
        """Does CI leave it out?"""
        return self._of(LONG) is not None

    @property
    def can_run(self) -> bool:
        """Does any test run it?"""
        return self._of(SMALL) is not None

    def run(self, folder: Path) -> str:
        """What it prints in a folder, at its small size."""
        start = self._of(SMALL)
        assert start is not None, self
        words = [
            PLACES.get(f"{before} {word}", PLACES.get(word, word))
            for before, word in pairwise(["", *self.words, *shlex.split(SMALL[start])])
        ]
        file = str(_root_of(self.benchmark, folder) / "benchmarks" / f"{self.benchmark}.py")
        # Commands set it for what they begin; a benchmark's own processes import from its folder.
        around = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        if self.benchmark in COLD:
            command = [sys.executable, file, *words]
            ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=around)
            assert ended.returncode == 0, (str(self), ended.stderr[-3000:])
            return ended.stdout
        out, err = folder / "benchmark.out", folder / "benchmark.err"
        out.unlink(missing_ok=True)
        process = Running(words, around, out, err, module=file, folder=folder)
        try:
            assert process.wait(600) == 0, (str(self), err.read_text()[-3000:])
        finally:
            process.end_group()
        return out.read_text()


def _root_of(benchmark: str, folder: Path) -> Path:
    """The tree in which a benchmark runs: a copy where it writes into its documentation."""
    if benchmark != "teaching":
        return ROOT
    for name in ("benchmarks", "docs"):
        shutil.copytree(ROOT / name, folder / "tree" / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "tree"


def write_data(folder: Path, graphs: Path | None) -> None:
    """Made-up files in the place of the public data sets' question files, corpora and news; those of graphs are linked,
    where there are any."""
    asked = [question(number, 2 + number % 2) for number in range(8)]
    for place, names in DATA.items():
        for name in names:
            pack(folder / place / f"{name}.jsonl.gz", [to_dict(each) for each in asked])
    texts = [text for each in asked for text in each.paragraphs]
    passages = [{"id": f"d{number}", "title": text.title, "text": text.text} for number, text in enumerate(texts)]
    for name in CORPORA:
        pack(folder / f"{name}.jsonl.gz", passages)
    news = [{**each, "source": f"s{number}", "date": "2026-03-01"} for number, each in enumerate(passages)]
    pack(folder / "news" / "wikinews.jsonl.gz", news)
    if graphs is not None:
        (folder / "kg").symlink_to(graphs)


def pack(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as JSON Lines, packed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)
