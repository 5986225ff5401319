"""CONTRIBUTING's walk: each of its diffs applies to the tree as it is, and does what the walk says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WALK = sorted((ROOT / "docs" / "contributing").glob("*.diff"))
BESIDE_THE_ROOMS = ("cli.py", "docs", "pyproject.toml", "README.md", "LICENSE", "sample_data", "tests", "trailforge")
MAX_DIFF_LINES = {"data_set": 130}
"""Of one that draws from a model. Of all others a screen."""
SCREEN, MAX_FILES = 75, 5

MAKES_REWORDED_QUESTIONS = """
import json
from collections import Counter
from pathlib import Path
from tests.support.cut_replies import CutModel
from trailforge.flows import execute as execution
from trailforge.flows.execute import RunRequest, execute
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.runs.verify import verify_run
from trailforge.presets import load_preset
from trailforge.schemas import RejectedRow, RlRow, read_rows
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig

dataset, name = "reworded_questions", "reworded-questions"
said = {2: "Oslo is the capital of what?", 3: "Is it Norway that has Oslo?", 5: "Of which", 6: " "}
said[10] = said[2]
async def scripted(work):
    script = lambda request: said.get(request.sample, "Of which country is Oslo the capital?")
    return CutModel(script, is_cut=lambda request: request.sample == 5)
ModelWork.client, execution.check_reachable = scripted, lambda *given, **more: None
row = {"id": "q", "question": "Of what is Oslo the capital?", "answer": "Norway"}
row |= {"paragraphs": [{"id": "0", "title": "Oslo", "text": "Oslo is the capital of Norway."}]}
Path("questions.jsonl").write_text(json.dumps(row) + "\\n")
Path("twelve.yaml").write_text(json.dumps({**load_preset(name, dataset), "draws": 12}))
request = RunRequest(dataset=dataset, out=Path("run"), preset="twelve.yaml",
                     files=(Path("questions.jsonl"),))
manifest = execute(request)
assert execute(request) == manifest, "a finished run stays as it is"
make_training_set([Path("run")], Path("set"), ViewConfig(validation_share=0.0))
told = {
    "books": {line.name: (line.inputs, line.accepted) for line in manifest.stages},
    "wrong": verify_run(Path("run")).problems,
    "rejected": Counter(each.reason for each in read_rows(sorted(Path("run/rejected").glob("*.parquet")), RejectedRow)),
    "trained on": sorted(each.question_id for each in read_rows(sorted(Path("set/rl").rglob("*.parquet")), RlRow)),
}
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the whole walk applied."""
    copy = tmp_path_factory.mktemp("walk") / "trailforge"
    copy.mkdir()
    rooms = [link.name for link in (ROOT / "trailforge").iterdir() if link.is_symlink() and link.is_dir()]
    for name in (*rooms, *BESIDE_THE_ROOMS):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    for diff in WALK:
        # Below another repository git would pass over what is not that repository's.
        outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent)}
        done = subprocess.run(["git", "apply", diff], cwd=copy, env=outside, capture_output=True, text=True)
        assert done.returncode == 0, f"docs/contributing/{diff.name} no longer applies; write it anew: {done.stderr}"
    _python(copy, copy, "-c", "from setuptools import setup; setup()", "-q", "egg_info")
    return copy


def _python(tree: Path, folder: Path, *arguments: str) -> str:
    """What Python prints, in a folder, with the tree's own trailforge."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("diff", WALK, ids=lambda diff: diff.stem)
def test_a_diff_is_short_and_the_walk_leads_to_it(diff: Path) -> None:
    lines = diff.read_text().splitlines()
    assert len(lines) <= MAX_DIFF_LINES.get(diff.stem, SCREEN), f"{diff.name}: {len(lines)} lines"
    assert sum(line.startswith("+++ ") for line in lines) <= MAX_FILES
    assert f"(docs/contributing/{diff.name})" in (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.slow
def test_the_data_set_of_the_walk_is_found_run_verified_and_trained_on(tree: Path, tmp_path: Path) -> None:
    printed = _python(tree, tmp_path, "-c", MAKES_REWORDED_QUESTIONS)
    assert json.loads(printed.splitlines()[-1]) == {
        "books": {"read": [1, 1], "reword": [1, 1], "wording": [12, 10], "filter": [10, 2]},
        "wrong": [],
        "rejected": {"malformed_reply": 2, "names_answer": 1, "same_words": 7},
        "trained on": ["q-0", "q-2"],
    }


@pytest.mark.slow
def test_the_tests_that_the_walk_brings_along_pass(tree: Path) -> None:
    printed = _python(
        tree,
        tree,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("tests/filters/test_trajectories.py", "tests/retrieval/backends/test_trigrams.py"),
        *("tests/protocols/test_round_trips.py", "-k", "not test_round_trips or research or registry"),
    )
    assert "failed" not in printed and "passed" in printed.splitlines()[-1]


def test_the_back_end_of_the_walk_is_what_generation_and_training_search(tree: Path) -> None:
    script = """
import asyncio
from trailforge.protocols import R_SEARCH, SEARCH_R1
from trailforge.protocols.environment import EnvironmentConfig, open_environment
from trailforge.retrieval import RetrievalConfig, open_retrieval
from trailforge.schemas import Document, Question, SourceDocument
documents = [Document(id="0", title="Oslo", text="A city."), Document(id="1", title="Trondheim", text="Another.")]
question = Question(id="q", question="q", answer="a", paragraphs=tuple(documents))
async def found():
    generation = await open_retrieval(RetrievalConfig(kind="trigrams")).for_question(question)
    training = open_environment(SEARCH_R1, documents, search=EnvironmentConfig(kind="trigrams"))
    news = [SourceDocument(id=d.id, title=d.title, text=d.text, source="s", kind="news") for d in documents]
    plans = open_environment(R_SEARCH, news, search=EnvironmentConfig(kind="trigrams"))
    searched = (generation, training.documents, plans.plan_tools["News"])
    return [(await each.retrieve("Trondhiem", 1))[0].id for each in searched]
print(asyncio.run(found()))
"""
    assert _python(tree, tree, "-c", script) == "['1', '1', '1']\n"


def test_the_workflow_runs_what_ci_runs_on_the_versions_that_the_documentation_names() -> None:
    """No second list of steps to keep: the workflow calls the script, with the Pythons that the docs call tested."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["check"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci/run", os.X_OK)
    (versions,) = (step["with"]["python-version"].split() for step in steps if "python-version" in step.get("with", {}))
    sentence = (ROOT / "docs/python.md").read_text(encoding="utf-8").partition("Tested on")[2].partition(". ")[0]
    assert sorted(re.findall(r"3\.\d+", sentence)) == sorted(versions)


def test_hooks_call_what_the_makefile_installs() -> None:
    """A hook that names a tool of its own version would find other faults than `make lint`."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)
