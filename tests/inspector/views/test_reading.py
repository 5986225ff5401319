"""The views of bundles and of the knowledge graph, run as the page runs them, without a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("streamlit")
from streamlit.testing.v1 import AppTest
from trailforge.inspector.views.checks import BUNDLE_MEANINGS, KG_MEANINGS

from tests.inspector.bundle_run import write_bundles, write_kg, write_questions
from trailforge.filters import bundles, kg_questions


def shown(view: str, folder: Path) -> AppTest:
    """A view of a run, by its module's name."""

    def script(view: str, folder: str) -> None:
        from importlib import import_module
        from pathlib import Path

        from tests.inspector.bundle_run import opened

        import_module(f"trailforge.inspector.views.{view}").show(opened(Path(folder)))

    page = AppTest.from_function(script, args=(view, str(folder)), default_timeout=20).run()
    assert not page.exception
    return page


def chosen(page: AppTest) -> str:
    """The row of its address."""
    said = page.query_params["row"]
    return said if isinstance(said, str) else said[-1]


def html_of(page: AppTest) -> str:
    return "\n".join(each.proto.body for each in page.get("html"))  # type: ignore[attr-defined]


def test_a_bundle_is_shown_with_its_evidence_and_its_questions(tmp_path: Path) -> None:
    write_bundles(tmp_path)
    write_questions(tmp_path)
    page = shown("bundles", tmp_path)
    text = html_of(page)
    assert 'praised <mark class="hop0">the turbine that Mara Lind designed</mark>' in text
    assert '<mark class="hop1">Mara Lind studied blades at the University of Bergen</mark>. We measure' in text
    assert "University of Bergen" in text and "closed_book" in text
    page.session_state["questions.b"] = 1
    text = html_of(page.run())
    assert "not_answerable" in text and "all documents give &#x27;x&#x27;" in text
    assert 'class="check failed"' in text


def test_a_click_on_the_map_chooses_its_bundle(tmp_path: Path) -> None:
    write_bundles(tmp_path)
    write_questions(tmp_path)

    def script(folder: str) -> None:
        from pathlib import Path

        import streamlit as st

        from tests.inspector.bundle_run import opened
        from trailforge.inspector.views import bundles
        from trailforge.inspector.views.picking import go_to

        run = opened(Path(folder))
        st.button("go", on_click=go_to, args=(run, "bundles", "alone"))
        bundles.show(run)

    page = AppTest.from_function(script, args=(str(tmp_path),), default_timeout=20).run()
    page.button[0].click().run()
    assert not page.exception
    assert chosen(page) == "alone" and "no_question" in html_of(page)


def test_a_run_of_bundles_alone_and_one_without_embeddings_are_shown(tmp_path: Path) -> None:
    write_bundles(tmp_path)
    assert any("has no question" in each.value for each in shown("bundles", tmp_path).caption)
    for file in (tmp_path / "embeddings").iterdir():
        file.unlink()
    assert any("no map" in each.value for each in shown("bundles", tmp_path).info)


def test_questions_without_their_bundles_are_shown(tmp_path: Path) -> None:
    write_questions(tmp_path)
    page = shown("bundles", tmp_path)
    assert "University of Bergen" in html_of(page)
    assert any("does not hold the documents" in each.value for each in page.info)


def test_an_episode_is_shown_search_by_search(tmp_path: Path) -> None:
    write_kg(tmp_path)
    page = shown("kg", tmp_path)
    text = html_of(page)
    assert "Who directed Metropolis?" in text and "Linz of the graph" not in text
    assert "&#x27;Graz&#x27; instead of &#x27;Vienna&#x27;" in text and "differs from here on" in text
    uid = chosen(page)
    page.session_state[f"{uid}.step"] = 1
    text = html_of(page.run())
    assert "Linz of the graph" in text and "Vienna of the documents" in text
    triples = next(each.value for each in page.dataframe if "kept" in each.value)
    assert list(triples["kept"]) == [True, False]
    assert "r_penalty" in text


def test_a_question_of_a_graph_is_shown_with_its_facts(tmp_path: Path) -> None:
    write_kg(tmp_path)
    page = shown("kg", tmp_path)
    page.session_state["kg.table"] = "kg_questions"
    page.run()
    assert not page.exception
    facts = next(each.value for each in page.dataframe if "left without" in each.value)
    assert list(facts["left without"]) == [9, 9]


@pytest.mark.parametrize(("package", "meanings"), [(bundles, BUNDLE_MEANINGS), (kg_questions, KG_MEANINGS)])
def test_the_score_of_every_filter_has_its_meaning(package: object, meanings: dict[str, str]) -> None:
    folder = Path(package.__file__ or "").parent  # type: ignore[attr-defined]
    source = "\n".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))
    reasons = set(re.findall(r'^[A-Z_]+ = "([a-z_]+)"$', source, re.MULTILINE))
    assert reasons == set(meanings)
