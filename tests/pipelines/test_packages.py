"""Packages of extras are looked for before any input is read: all that are missing at once, by each command."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trailforge import cli
from trailforge.flows.configuration import configuration_of
from trailforge.flows.doctor import examine
from trailforge.pipelines.datasets import dataset_names, load_dataset
from trailforge.pipelines.runs import intake
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.pipelines.runs.packages import needed_packages
from trailforge.retrieval.backends import BACKENDS, Workbench, backend_packages, load_backend
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import Document, InvalidInput, check_packages
from trailforge.schemas.errors import EXTRAS

SAMPLE = Path(__file__).parent.parent.parent / "sample_data"
DOCUMENTS = ("document-bundles", "--preset", "demo", "--documents", SAMPLE / "documents.jsonl")
QUESTIONS = ("--preset", "demo", "--questions", SAMPLE / "musique_style_questions.jsonl")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> object:
    """Take modules away, as where they are not installed; to read an input is an error."""

    def hide(modules: Iterable[str]) -> None:
        gone, find = frozenset(modules), importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *more: None if name in gone else find(name, *more)
        )

    def read(*given: object, **more: object) -> None:
        raise AssertionError("an input was read")

    monkeypatch.setattr(intake, "_Intake", read)
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "CRITICAL")
    return hide


def ended(*words: object) -> str:
    error = CliRunner().invoke(cli.app, [str(word) for word in words]).exception
    assert isinstance(error, InvalidInput), error
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize(
    ("command", "gone", "told"),
    [
        (DOCUMENTS, ["umap"], "needs umap-learn; pip install 'trailforge[bundles]'"),
        (DOCUMENTS, ["umap", "faiss", "xllamacpp", "matplotlib"],
         "needs faiss-cpu, matplotlib, umap-learn, xllamacpp; pip install 'trailforge[bundles,dense,page,"),
        ((*DOCUMENTS, "--bundles-only"), ["xllamacpp", "sklearn"], "needs scikit-learn; pip install"),
        (("mcts-trajectories", *QUESTIONS), ["xllamacpp", "sentence_transformers"],
         "needs sentence-transformers, xllamacpp; pip install"),
        (("agent-trajectories", *QUESTIONS, "--retrieval", "linear_rag"), ["scipy"], "needs scipy; pip install"),
        (("kg-trajectories", *QUESTIONS, "--kg", SAMPLE), ["rapidfuzz", "faiss"], "needs faiss-cpu, rapidfuzz; pip"),
        (("kg-questions", "--preset", "demo", "--kg", SAMPLE), ["xllamacpp", "matplotlib"],
         "needs matplotlib, xllamacpp; pip"),
    ],
)  # fmt: skip
def test_a_run_names_all_that_is_missing_before_it_reads_anything(
    without: object, tmp_path: Path, command: tuple[object, ...], gone: list[str], told: str
) -> None:
    without(gone)  # type: ignore[operator]
    assert told in ended(*command, "--out", tmp_path / "out")
    assert not list((tmp_path / "out").glob("inputs"))


def test_what_is_not_wanted_is_not_asked_for(without: object) -> None:
    without(["xllamacpp", "umap", "faiss", "rapidfuzz"])  # type: ignore[operator]
    dataset = load_dataset("agent_trajectories")
    config = configuration_of(dataset, "demo", "http://127.0.0.1:9/v1", "m")
    needed = needed_packages(dataset, config, RunInputs(dataset=dataset.name, options={"retrieval": "bm25"}))
    check_packages(needed, "a run")


@pytest.mark.parametrize(
    ("words", "gone", "told"),
    [
        (("index", "build", SAMPLE / "documents.jsonl", "--backend", "raptor_plain"), ["sklearn", "faiss"],
         "index build needs faiss-cpu, scikit-learn; pip install 'trailforge[bundles,dense]'"),
        (("evaluate", SAMPLE / "musique_style_questions.jsonl", "--agent", "react", "--backend", "linear_rag",
          "--backend", "graph_rag_plain", "--model", "http://127.0.0.1:9/v1", "--model-name", "m"),
         ["scipy", "igraph", "matplotlib"], "evaluate needs igraph, matplotlib, scipy; pip install"),
        (("train", "sft", "no/set", "--preset", "demo"), ["trl", "peft"], "a training needs peft, trl; pip install"),
    ],
)  # fmt: skip
def test_so_do_the_other_commands(
    without: object, tmp_path: Path, words: tuple[object, ...], gone: list[str], told: str
) -> None:
    without(gone)  # type: ignore[operator]
    assert told in ended(*words, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_doctor_asks_the_same(without: object, tmp_path: Path) -> None:
    without(["umap", "xllamacpp"])  # type: ignore[operator]
    found = [each for each in examine("demo", None, None, tmp_path, call=False) if each.check == "packages"]
    assert {each.level for each in found} == {"fault"}
    (bundles,) = [each for each in found if "umap-learn" in each.detail]
    assert "document_bundles" in bundles.detail and "xllamacpp" in bundles.detail and "pip install" in bundles.mend


def test_every_module_that_is_asked_for_has_an_extra() -> None:
    for name in dataset_names():
        dataset = load_dataset(name)
        if dataset.demo:
            config = configuration_of(dataset, dataset.demo)
            assert set(needed_packages(dataset, config, RunInputs(dataset=name))) <= EXTRAS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BACKENDS if not load_backend(name).plain])
async def test_a_back_end_imports_no_more_than_it_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared, encoder = load_backend(name), Encoder()
    config = declared.config()
    encoder.encode_queries(["loaded before anything is taken away"])
    for module in {"scipy", "igraph", "sklearn", "umap", "threadpoolctl", "rapidfuzz"} - {
        *backend_packages(name, config),
        *(("scipy",) if name == "raptor_plain" else ()),  # which scikit-learn brings along
    }:
        monkeypatch.setitem(sys.modules, module, None)
    documents = [
        Document(id=str(n), title=f"Kiel {n}", text=f"Ada Berg {n} was born in Kiel. Kiel {n} lies in Holstein.")
        for n in range(12)
    ]
    index = await declared.build(documents, config, Workbench(encoder=encoder if declared.needs_encoder else None))
    assert await index.find("Who was born in Kiel?", 3)
