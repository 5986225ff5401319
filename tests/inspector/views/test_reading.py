"""The views of bundles and of the knowledge graph, run as the page runs them, without a browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("streamlit")
from streamlit.testing.v1 import AppTest

from tests.inspector.bundle_run import write, write_bundles, write_kg, write_questions
from tests.support.bundle_questions import BUNDLE, PAPER, STREET
from trailforge.filters import bundle_readings, bundle_twins, bundles
from trailforge.filters.kg import questions as graph_filters
from trailforge.generators.document_bundles.show import MEANINGS as BUNDLE_MEANINGS
from trailforge.generators.kg_questions.show import MEANINGS as KG_MEANINGS
from trailforge.schemas import Bundle, BundleLink, SourceDocument


def shown(dataset: str, folder: Path, tab: str = "") -> AppTest:
    """The rows of a run, with a tab opened."""

    def script(dataset: str, folder: str) -> None:
        from pathlib import Path

        from tests.inspector.bundle_run import opened
        from trailforge.inspector.page import show_rows
        from trailforge.inspector.showing import show_of

        show_rows(opened(Path(folder), dataset), show_of(dataset))

    page = AppTest.from_function(script, args=(dataset, str(folder)), default_timeout=300)
    if tab:
        page.session_state[f"{dataset}.tab"] = tab
    page.run()
    assert not page.exception
    return page


def chosen(page: AppTest) -> str:
    """The row of its address."""
    said = page.query_params["row"]
    return said if isinstance(said, str) else said[-1]


def key_of_choice(page: AppTest) -> str:
    """Of the last line of buttons of which one is down."""
    return page.get("button_group")[-1].key  # type: ignore[attr-defined]


def html_of(page: AppTest) -> str:
    return "\n".join(each.proto.body for each in page.get("html"))  # type: ignore[attr-defined]


def test_a_bundle_is_shown_with_its_evidence_and_its_questions(tmp_path: Path) -> None:
    write_bundles(tmp_path)
    write_questions(tmp_path)
    page = shown("document_bundles", tmp_path)
    text = html_of(page)
    assert 'praised <mark class="hop0">the turbine that Mara Lind designed</mark>' in text
    assert '<mark class="hop1">Mara Lind studied blades at the University of Bergen</mark>. We measure' in text
    assert "University of Bergen" in text and "closed_book" in text
    page.session_state[key_of_choice(page)] = 1
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
        from trailforge.inspector.page import show_rows
        from trailforge.inspector.showing import show_of
        from trailforge.inspector.views.picking import go_to

        run = opened(Path(folder))
        st.button("go", on_click=go_to, args=(run, "bundles", "alone"))
        show_rows(run, show_of(run.dataset))

    page = AppTest.from_function(script, args=(str(tmp_path),), default_timeout=300).run()
    page.button[0].click().run()
    assert not page.exception
    assert chosen(page) == "alone" and "no_question" in html_of(page)


def listed(page: AppTest) -> list[str]:
    """Themes of the list of bundles."""
    return list(next(each.value for each in page.dataframe if "theme" in each.value)["theme"])


def write_held(folder: Path) -> None:
    """Three bundles of other strengths, of which one has a kept and one a rejected question."""
    write_questions(folder)
    held = [("b", 0.7, 0.1), ("alone", 0.5, 0.0), ("third", 0.6, 0.4)]
    rows = [
        replace(
            BUNDLE, uid=uid, theme=uid,
            links=(BundleLink(first="news:1", second="arxiv:2", cosine=cosine, shared=4.5, copied=copied),),
        )
        for uid, cosine, copied in held
    ]  # fmt: skip
    write(folder, "bundles", Bundle, rows)
    write(folder, "documents", SourceDocument, [STREET, PAPER])


def test_bundles_are_ordered_by_what_they_rest_on_and_chosen_by_what_came_of_them(tmp_path: Path) -> None:
    write_held(tmp_path)
    page = shown("document_bundles", tmp_path)
    assert listed(page) == ["b", "alone", "third"] and chosen(page) == "b"
    page.selectbox(key="bundles.order").set_value(("least_cosine", False)).run()
    assert listed(page) == ["alone", "third", "b"] and chosen(page) == "alone"
    page.selectbox(key="bundles.order").set_value(("shared_text", True)).run()
    assert listed(page) == ["third", "b", "alone"] and chosen(page) == "third"
    assert "shared text 40%" in html_of(page) and 'class="chip warn"' in html_of(page)
    page.selectbox(key="bundles.kind").set_value("no_question").run()
    assert not page.exception and listed(page) == ["alone"]
    page.selectbox(key="bundles.kind").set_value("not asked").run()
    assert listed(page) == ["third"]


def test_rows_without_the_number_of_the_order_come_last(tmp_path: Path) -> None:
    write_bundles(tmp_path)
    page = shown("document_bundles", tmp_path)
    page.selectbox(key="bundles.order").set_value(("least_cosine", False)).run()
    assert not page.exception and listed(page) == ["tide mill", "none"]


def test_what_two_documents_hold_is_marked_beside_the_evidence(tmp_path: Path) -> None:
    joint = "Both offices say that the mill pays for itself by May."
    quoted = "the turbine that Mara Lind designed"
    street, paper = (replace(each, text=f"{each.text} {joint}") for each in (STREET, PAPER))
    write_bundles(tmp_path, documents=(street, paper))
    write_questions(tmp_path)
    text = html_of(shown("document_bundles", tmp_path))
    assert text.count(f'<mark class="shared">{joint[:-1]}</mark>') == 2
    assert f'<mark class="hop0">{quoted}</mark>' in text
    assert "<b>1</b> · news · 2025-05-02" in text and "<b>2</b> · arxiv" in text


def test_a_click_on_the_map_finds_its_bundle_in_whatever_order(tmp_path: Path) -> None:
    write_held(tmp_path)

    def script(folder: str) -> None:
        from pathlib import Path

        import streamlit as st

        from tests.inspector.bundle_run import opened
        from trailforge.inspector.page import show_rows
        from trailforge.inspector.showing import show_of
        from trailforge.inspector.views.picking import go_to

        run = opened(Path(folder))
        st.button("go", on_click=go_to, args=(run, "bundles", "third"))
        show_rows(run, show_of(run.dataset))

    page = AppTest.from_function(script, args=(str(tmp_path),), default_timeout=300).run()
    page.selectbox(key="bundles.order").set_value(("least_cosine", False)).run()
    page.button[0].click().run()
    assert not page.exception and chosen(page) == "third" and listed(page) == ["alone", "third", "b"]


def test_a_run_of_bundles_alone_and_one_without_embeddings_are_shown(tmp_path: Path) -> None:
    write_bundles(tmp_path)
    assert "has no question" in html_of(shown("document_bundles", tmp_path))
    for file in (tmp_path / "embeddings").iterdir():
        file.unlink()
    assert "no map" in html_of(shown("document_bundles", tmp_path))


def test_questions_without_their_bundles_are_shown(tmp_path: Path) -> None:
    write_questions(tmp_path)
    page = shown("document_bundles", tmp_path)
    assert "University of Bergen" in html_of(page)
    assert "does not hold the documents" in html_of(page)


def test_an_episode_is_shown_search_by_search(tmp_path: Path) -> None:
    write_kg(tmp_path)
    page = shown("kg_trajectories", tmp_path)
    text = html_of(page)
    assert "Who directed Metropolis?" in text and "Linz of the graph" not in text
    page.session_state[key_of_choice(page)] = 1
    text = html_of(page.run())
    assert "Linz of the graph" in text and "Vienna of the documents" in text
    triples = next(each.value for each in page.dataframe if "kept" in each.value)
    assert list(triples["kept"]) == [True, False]
    text = html_of(shown("kg_trajectories", tmp_path, tab="Contrast with a bad episode"))
    assert "&#x27;Graz&#x27; instead of &#x27;Vienna&#x27;" in text and "differs from here on" in text
    assert "r_penalty" in html_of(shown("kg_trajectories", tmp_path, tab="Reward 1.50"))


def test_a_question_of_a_graph_is_shown_with_its_facts(tmp_path: Path) -> None:
    write_kg(tmp_path)
    page = shown("kg_questions", tmp_path)
    facts = next(each.value for each in page.dataframe if "left without" in each.value)
    assert list(facts["left without"]) == [9, 9]


@pytest.mark.parametrize(
    ("modules", "meanings"),
    [((bundles, bundle_twins, bundle_readings), BUNDLE_MEANINGS), ((graph_filters,), KG_MEANINGS)],
)
def test_the_score_of_every_filter_has_its_meaning(modules: tuple[ModuleType, ...], meanings: dict[str, str]) -> None:
    reasons = {
        name
        for module in modules
        for name, found in vars(module).items()
        if getattr(found, "__module__", "") == module.__name__
        and getattr(found, "__annotations__", {}).get("return") == "Verdict"
    }
    asked = {name for module in modules for name in getattr(module, "ASKED", ())}  # one reply decides on several
    assert reasons | asked == set(meanings)
