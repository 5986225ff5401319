"""The commands of the guides, in their order, as they stand there: small files are what they name, scripted models
stand for served ones, and stand-ins for programs of clusters. README's and the tutorials' run in tests of their own;
the few that are only parsed stand in `PARSED`, each with its reason.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.commands.test_docs_commands import GUIDES, blocks, commands_of
from tests.end_to_end.guides import (
    BY_CI,
    IN_A_SHELL,
    NOT_RUN,
    PARSED,
    RUN_ELSEWHERE,
    Guide,
    How,
    begins,
    copy,
    link,
    write_passages,
)
from tests.end_to_end.measurements import PAGES, Line
from tests.end_to_end.support import ROOT, Made, readme_commands
from tests.end_to_end.test_tutorials import OWN_SERVER, TUTORIALS
from tests.end_to_end.test_tutorials import commands as commands_of_tutorial
from tests.evaluation.results.test_demand import write_evaluated
from tests.launching.slurm import write_program
from tests.pipelines.kg_support import searched_graph
from tests.support import finished_runs as made
from tests.support.browse_agent import ANSWER, QUESTION, Road
from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_documents
from tests.support.evaluations import whole_folder
from tests.support.kg_agent import paths_store
from tests.support.world import question
from tests.training.tiny import save_tiny_model
from trailforge.curation.decisions import LOG
from trailforge.presets import load_training_preset
from trailforge.schemas import BundleQuestion, Question, Trajectory, read_rows

pytestmark = [pytest.mark.slow, pytest.mark.real_model]

PLAIN = ("README.md", "CONTRIBUTING.md")
ASKED = [made.question(number) for number in range(8)]


def of_other_programs() -> list[str]:
    """Commands of README, guides, tutorials, and of who measures or contributes, that are not ours, without settings
    of the shell."""
    pages = [*PLAIN, *PAGES, *GUIDES, *(str(page.relative_to(ROOT)) for page in TUTORIALS.glob("*.md"))]
    lines = [
        line for page in pages for block in blocks(page, "bash") for line in block.replace("\\\n", " ").splitlines()
    ]
    found = [shlex.split(line, comments=True) for line in lines]
    return [shlex.join(words) for words in found if words and words[0] not in ("trailforge", "export", "for", "done")]


def can_be_measured(line: str) -> bool:
    """Whether `test_measurements` runs a line, here or in `make docs-run`."""
    read = Line.read(line)
    return read.can_run if read else line == "make bench"


def is_of_ci(line: str) -> bool:
    """Whether CI itself makes a target."""
    start = next((start for start in BY_CI if f"{line} ".startswith(f"{start} ")), None)
    return start is not None and BY_CI[start] in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_what_no_test_runs_is_little_and_has_a_reason() -> None:
    """Of all commands of README, guides, tutorials, and of who measures or contributes. That ours are taken is tested
    with all others."""
    tutorials = [words for page in TUTORIALS.glob("*.md") for words in commands_of_tutorial(page.stem)]
    guides = [*(words for guide in GUIDES for words in commands_of(guide))]
    measured = [words for page in PAGES for words in commands_of(page)]
    ours = [*readme_commands(), *tutorials, *guides, *measured]
    parsed = [
        " ".join(words)
        for words in ours
        if words not in measured and (begins(words, PARSED) or (OWN_SERVER in words and words in tutorials))
    ]
    others = [" ".join(shlex.split(line)) for line in of_other_programs()]
    not_run = [line for line in others if line.startswith(tuple(NOT_RUN))]
    for line, typed in zip(of_other_programs(), others, strict=True):
        assert typed.startswith((*NOT_RUN, *RUN_ELSEWHERE, "openssl")) or can_be_measured(line) or is_of_ci(typed), (
            typed
        )
    share = len([*parsed, *not_run]) / len([*ours, *others])
    assert share <= 0.15, f"{len(parsed)} of {len(ours)} of ours, {len(not_run)} of {len(others)} others: {share:.1%}"
    for start in (*PARSED, *NOT_RUN, *RUN_ELSEWHERE, *BY_CI):
        assert any(line.startswith(start) for line in [*map(" ".join, ours), *others]), (
            f"no command begins with {start!r}"
        )
    told = " ".join([*PARSED.values(), *NOT_RUN.values(), *(f"`{test}`" for test in RUN_ELSEWHERE.values())])
    for test in set(re.findall(r"`(test_\w+)`", told)):
        assert list((ROOT / "tests").rglob(f"{test}.py")), f"there is no {test}"


def test_a_folder_of_finished_runs(guide: Guide, demo_trajectories: Made) -> None:
    """And what is said of Python, whose installation is tested by the package's tests."""
    link("datasets_out/demo", demo_trajectories.out)
    assert len(guide.run("datasets_out/README.md")) == 3
    guide.run("docs/python.md")


def test_for_curators(guide: Guide, demo_trajectories: Made, demo_bundles: Made) -> None:
    copy("datasets_out/demo", demo_trajectories.out)
    link("datasets_out/spring", demo_bundles.out)
    whole_folder(Path("evaluations/musique"))
    row, *_ = read_rows(sorted(Path("datasets_out/demo/mcts_trajectories").glob("*.parquet")), Trajectory)
    bundle, *_ = read_rows(sorted(Path("datasets_out/spring/bundle_questions").glob("*.parquet")), BundleQuestion)
    guide.places |= {
        "UID": row.uid,
        "QUESTION": "q00",
        "9a1353950a240b99": bundle.bundle_id,
        "causal": bundle.type,
        "misread": "wrong",
        "no_question": "kept",
    }

    def decide_elsewhere() -> None:
        copy("elsewhere", demo_trajectories.out)
        guide.put(["curate", "decide", "elsewhere", row.uid, "--reject", "dull"], How())
        link("ann/decisions.jsonl", guide.folder / "elsewhere" / LOG)

    said = guide.run("docs/curator.md", {"curate merge": decide_elsewhere})
    assert Path("pages/index.html").exists() and Path("rejected.csv").exists()
    assert (Path("datasets_out/demo-curated") / "manifest.json").exists()
    assert any("curate stats" in words and text for words, text in said.items())


def test_as_a_service(guide: Guide, demo_trajectories: Made) -> None:
    """Restored where nothing is."""
    copy("datasets_out/nightly", demo_trajectories.out)
    with closing(sqlite3.connect(guide.folder / "prefect.db")) as prefect:
        prefect.execute("CREATE TABLE runs (name TEXT)")
    guide.places |= {"/backup": f"{guide.folder}/backup", "~/.prefect": str(guide.folder)}

    def lose() -> None:
        shutil.rmtree("datasets_out/nightly")
        Path("prefect.db").unlink()

    guide.run("docs/deploy.md", {"restore": lose})
    assert Path("datasets_out/nightly/manifest.json").exists() and Path("prefect.db").exists()


def test_of_evaluations(guide: Guide) -> None:
    """The compared ones are made here, but for two trainings'."""
    write_passages("wiki-18.jsonl.gz", "passages.jsonl")
    Road(3).write(guide.folder / "documents.jsonl")
    asked = {"id": "road", "question": QUESTION, "answer": ANSWER}
    Path("questions.jsonl").write_text(json.dumps(asked) + "\n")
    whole_folder(Path("evaluations/sft"))
    whole_folder(Path("evaluations/rl"))
    guide.put(["index", "build", "passages.jsonl", "--backend", "bm25", "--out", "indexes/wiki"], How())
    guide.serve(["serve-search", "indexes/wiki"])
    guide.places |= {"intfloat/e5-base-v2": "minilm", "trained/rl/model": OWN_SERVER}
    before = {"evaluate questions.jsonl --agent browse --backend live": lambda: serve_pages(guide)}
    said = guide.run("docs/evaluation.md", before)
    assert any("McNemar" in text for text in said.values())
    assert Path("exports/browse").is_dir()


def serve_pages(guide: Guide) -> None:
    """From here on search servers have the pages."""
    guide.places.pop("search")
    guide.serve(["serve-search", "indexes/pages"])


def test_for_operators(guide: Guide, demo_trajectories: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its search servers two search what it has made, and one asks another."""
    write_passages("passages.jsonl.gz", "passages.jsonl", "papers.jsonl", "more.jsonl", "documents.jsonl")
    Path("more.jsonl").write_text(json.dumps({"id": "more", "title": "More", "text": "More than there was."}) + "\n")
    Path("handbook").mkdir()
    Path("handbook/first.md").write_text("# First\n\nWhat the handbook says.\n")
    asked = {"id": "road", "question": QUESTION, "answer": ANSWER}
    Path("questions.jsonl").write_text(json.dumps(asked) + "\n")
    write_documents(Path("arxiv.jsonl"), sample_documents()[:12])
    write_documents(Path("news.jsonl"), sample_documents()[16:20])
    guide.put(["index", "build", "passages.jsonl", "--backend", "bm25", "--out", "indexes/wiki"], How())
    shutil.copytree("indexes/wiki", "indexes/2026")
    link("datasets_out/demo", demo_trajectories.out)
    link("wikidata5m", ROOT / "sample_data/kg")
    searched_graph(Path("kgs/searched").absolute(), 4)
    paths_store(Path("kgs/paths").absolute())
    write_evaluated(Path("evaluations/first"), Path("test.jsonl"))
    vllm = f'exec {sys.executable} {ROOT}/tests/support/fake_vllm.py "$@"'
    (guide.folder / "vllm/bin").mkdir(parents=True)
    write_program(guide.folder / "vllm/bin/vllm", vllm)
    monkeypatch.setenv("FAKE_VLLM_PIDS", str(guide.folder / "vllm.pids"))
    Path("my.yaml").write_text(
        f"server: {{model: scripted, environment: {guide.folder}/vllm}}\nmodel: {{name: scripted}}\n"
    )
    guide.put(["kg", "build", "sample_data/kg", "--out", "kgs/sample"], How())
    before = {
        "world --kg kgs/sample --questions 500": simple_demand,
        "index build passages.jsonl.gz --backend bm25": lambda: shutil.rmtree("indexes/wiki"),
    }
    said = guide.run("docs/operator.md", before)
    assert len(said) >= 30


def simple_demand() -> None:
    """Quotas that any graph can give."""
    Path("demand.yaml").write_text("quotas: [{share: 1.0, hops: 2}]\n")


def prepare_runs() -> None:
    """Two runs, a model, a preset for it, and the set that is made of these in any case."""
    made.mcts_run(
        Path("datasets_out/musique").absolute(), ASKED, [row for each in ASKED for row in made.mcts_rows(each)]
    )
    made.kg_run(Path("datasets_out/kg").absolute(), [made.question(number) for number in range(8, 14)], pairs=True)
    save_tiny_model(Path("models/qwen2.5-7b"), window=8192)
    preset = load_training_preset("dynasearcher")
    little = {"batch_size": 2, "max_tokens": 8000, "logging": "none", "precision": "float32"}
    tiny = {**preset, "sft": {**preset["sft"], **little}, "dpo": {**preset["dpo"], **little}}
    Path("tiny.yaml").write_text(yaml.safe_dump(tiny))


def test_for_training_teams(guide: Guide) -> None:
    prepare_runs()
    said = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "<answer>Vienna</answer>"}]
    episode = {"question": "Where?", "answer": "Vienna", "protocol": "kg_search", "messages": said}
    Path("episodes.jsonl").write_text(json.dumps(episode) + "\n")
    guide.places |= {"trained/rl/model": OWN_SERVER}
    guide.run("docs/trainer.md")
    assert Path("trained/dpo/training.json").exists() and Path("exports/verl/README.md").exists()


def test_on_clusters(guide: Guide, demo_trajectories: Made) -> None:
    """Slurm and Kubernetes are asked what is theirs; verl's Python is a stand-in. Dask's certificate is a real one."""
    prepare_runs()
    (shell,) = [block for block in blocks("docs/cluster.md", "bash") if block.startswith("openssl")]
    lines = [line for line in shell.splitlines() if line.strip().startswith(IN_A_SHELL)]
    told = subprocess.run(
        ["bash", "-euc", "\n".join([*lines, "env"])], capture_output=True, text=True, check=True
    ).stdout
    assert Path("cert.pem").exists() and told.count("DASK_DISTRIBUTED__COMM__TLS__") == 7
    text, of_verl = blocks("docs/cluster.md", "yaml")
    Path("cluster.yaml").write_text(text)
    Path("verl.yaml").write_text(of_verl)
    write_passages("passages.jsonl")
    guide.put(["index", "build", "passages.jsonl", "--backend", "bm25", "--out", "indexes/wiki"], How())
    Path(".venv-verl/bin").mkdir(parents=True)
    write_program(Path(".venv-verl/bin/python").absolute(), f'echo "verl $*" >> {guide.folder}/cluster.log')
    guide.run("docs/cluster.md", {"status": lambda: link("runs/musique", demo_trajectories.out)})
    asked = [line.split()[:2] for line in Path("cluster.log").read_text().splitlines()]
    assert {"sbatch", "kubectl", "verl"} == {name for name, *_ in asked}, asked


def test_of_ones_own_data(guide: Guide) -> None:
    """A table with the page's columns; `test_your_data` reads the page's own."""
    page = (ROOT / "docs/your-data.md").read_text(encoding="utf-8")
    (columns,) = re.findall(r"```csv questions.csv\n(.*)\n", page)
    with Path("questions.csv").open("w", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(columns.split(","))
        for each in (question(number, 2) for number in range(2)):
            table.writerow([each.question, each.answer, "", json.dumps([text.text for text in each.paragraphs])])
    said = guide.run("docs/your-data.md")
    assert any(words.startswith("mcts-trajectories --questions questions.csv") for words in said)
    asked = read_rows(sorted(Path("datasets_out/mine/inputs").glob("*.parquet")), Question)
    assert {row.question for row in asked} == {question(number, 2).question for number in range(2)}
