"""Bars, histograms and maps hold what they are drawn from; graphs come whole, and nothing in their texts acts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trailforge.inspector.charts import bars, dot, draw_stacked, funnel, histogram, point_map
from trailforge.inspector.views.overview import terms_between
from trailforge.pipelines.search.evaluate import bind_search
from trailforge.pipelines.search.query import write_search
from trailforge.pipelines.show.parts import Diagram, DiagramEdge, DiagramNode, MapPoint
from trailforge.schemas import Count, StageCount


def traces(figure: Any) -> tuple[Any, ...]:
    """What is drawn: Plotly's types do not tell."""
    return figure.data


def test_the_funnel_shows_shares_and_counts() -> None:
    rest = {"rejected": (Count(reason="r", count=2),), "failed": (Count(reason="f", count=3),)}
    books = (
        StageCount(name="solve", inputs=34, accepted=27, rejected=(Count(reason="r", count=7),)),
        StageCount(name="empty", inputs=0, accepted=0),
        StageCount(name="filter", inputs=10, accepted=5, **rest),
    )
    figure = funnel(books)
    assert [(bar.name, list(bar.text)) for bar in traces(figure)] == [
        ("passed on", ["27", "5"]), ("rejected", ["7", "2"]), ("failed", ["", "3"]),
    ]  # fmt: skip
    assert list(traces(figure)[0].y) == ["solve: 34 in", "filter: 10 in"]
    shares = np.sum([bar.x for bar in traces(figure)], axis=0)
    assert np.allclose(shares, 1.0)
    layout: Any = figure.layout
    assert 1 % layout.xaxis.dtick == 0 and layout.xaxis.range[1] >= 1 and layout.margin.r >= 30, "room for 100%"


def test_bars_stand_by_size_and_show_names_as_text() -> None:
    (bar,) = traces(bars({"a": 1, "<b>": 3}))
    assert list(bar.y) == ["&lt;b&gt;", "a"] and list(bar.x) == [3, 1] and list(bar.customdata) == ["<b>", "a"]


def test_parts_of_a_bar_are_counted_by_name() -> None:
    kept, lost = traces(draw_stacked({"kept": ("green", {"x": 2}), "rejected": ("red", {"x": 1, "y": 4})}))
    assert (list(kept.y), list(kept.x), list(lost.x)) == (["x", "y"], [2, 0], [1, 4])


def test_no_axis_of_few_counts_is_told_in_halves() -> None:
    few: list[Any] = [bars({"a": 2}), draw_stacked({"kept": ("green", {"x": 1}), "rejected": ("red", {"x": 2})})]
    assert [figure.layout.xaxis.dtick for figure in few] == [1, 1]
    hops: Any = histogram(np.array([2.0, 3.0, 3.0]), "hops")
    assert (hops.layout.xaxis.dtick, hops.layout.yaxis.dtick) == (1, 1)
    many: Any = bars({"a": 2000})
    assert many.layout.xaxis.dtick is None


@given(arrays.arrays(np.float64, st.integers(1, 50), elements=st.floats(-1e6, 1e6)), st.integers(0, 3))
@example(np.array([5e-324, 0.0]), 0)
def test_every_value_is_in_one_bar(values: np.ndarray, missing: int) -> None:
    (bar,) = traces(histogram(np.append(values, [np.nan] * missing), "tokens"))
    assert sum(bar.y) == len(values)


@given(arrays.arrays(np.float64, st.integers(1, 50), elements=st.floats(-1e6, 1e6)))
def test_the_search_of_a_bar_finds_its_rows(values: np.ndarray) -> None:
    (bar,) = traces(histogram(values, "tokens"))
    schema = pa.schema([("n", pa.float64())])
    batch = pa.RecordBatch.from_arrays([pa.array(values)], schema=schema)
    for between, count in zip(bar.customdata, bar.y, strict=True):
        search = write_search(terms_between("n", *between))
        assert len(bind_search(search, schema, ["n"], lambda _: values).rows(0, batch)) == count


def test_few_whole_numbers_get_a_bar_each() -> None:
    (bar,) = traces(histogram(np.array([2.0, 2.0, 5.0]), "hops"))
    assert (list(bar.x), list(bar.y)) == ([2, 3, 4, 5], [2, 0, 0, 1])


EVIL = '<b onmouseover=alert(1)>bold</b> <a href="javascript:x">l</a> \\" \\ \x1b[31m \u202e “q" & 1 < 2'
"""Nothing of it may act in a label."""


def point(title: str, x: float = 0.0, source: str = "news", group: str = "b") -> MapPoint:
    return MapPoint(x=x, y=-x, hover=(f"Title {title}", source), source=source, group=group)


def test_a_point_has_its_group_and_its_title() -> None:
    points = [point("1"), point("2", 1.0), point("3", 2.0, group="")]
    drawn = traces(point_map(points, points[:2], by_group=False, height=200))
    assert list(drawn[0].customdata) == ["b", "b", ""] and "Title 1" in drawn[0].hovertext[0]
    assert list(drawn[-1].x) == [0.0, 1.0]


def test_colours_are_those_of_sources_or_of_groups() -> None:
    points = [
        point("1", source="a", group="p"), point("2", source="b", group="p"),
        point("3", source="a", group=""), point("4", source="b", group="q"),
    ]  # fmt: skip
    drawn = traces(point_map(points, [], by_group=False, height=200))
    one, two, three, four = drawn[0].marker.color
    assert one == three != two == four
    assert [trace.name for trace in drawn[1:]] == ["a", "b"]
    one, two, three, four = traces(point_map(points, [], by_group=True, height=200))[0].marker.color
    assert one == two and len({one, three, four}) == 3


def test_more_sources_than_colours_are_told_apart_and_the_chosen_ones_are_named() -> None:
    points = [point(str(n), source=f"office {n:03}") for n in range(200)]
    drawn = traces(point_map(points, points[150:152], by_group=False, height=200))
    marker = drawn[0].marker
    assert len(set(zip(marker.color, marker.symbol, strict=True))) == 200
    names = [trace.name for trace in drawn[1:-2]]
    assert names[:2] == ["office 150", "office 151"] and len(names) == 9
    assert names[-1] == "and 192 more, named under the pointer"
    for trace in drawn[1:3]:
        number = int(trace.name[-3:])
        assert (trace.marker.color, trace.marker.symbol) == (marker.color[number], marker.symbol[number])


def test_texts_of_a_map_command_nothing() -> None:
    drawn = traces(point_map([point(EVIL, source=EVIL)], [], by_group=False, height=200))
    texts = [*drawn[0].hovertext, drawn[1].name]
    assert {part.split(">")[0] for text in texts for part in text.split("<")[1:]} <= {"br"}


names = st.sampled_from("ABCDEF")


@given(st.lists(st.tuples(names, names), max_size=9, unique=True))
def test_every_box_and_every_arrow_of_a_graph_is_in_its_dot(pairs: list[tuple[str, str]]) -> None:
    graph = Diagram(
        [DiagramNode(name, (name,)) for name in "ABCDEF"], [DiagramEdge(*pair) for pair in pairs], "A graph"
    )
    text = dot(graph)
    assert len(re.findall(r"^n\d+ \[", text, re.M)) == 6
    found = re.findall(r"^n(\d) -> n(\d) ", text, re.M)
    assert [("ABCDEF"[int(source)], "ABCDEF"[int(target)]) for source, target in found] == pairs


def test_looks_tell_boxes_and_arrows_apart() -> None:
    nodes = [DiagramNode("a", ("Lang", "start"), "right", is_strong=True), DiagramNode("b", ("Vienna",), "gold")]
    edges = [DiagramEdge("a", "b", "born in", "right"), DiagramEdge("b", "a", "of", is_dashed=True, is_backward=True)]
    box, other, born, of = dot(Diagram(nodes, edges, "x")).splitlines()[4:8]
    assert 'label="Lang\\nstart"' in box and 'penwidth="2.5"' in box and 'penwidth="1"' in other
    assert 'label="born in"' in born and 'style="solid"' in born and "dir=" not in born
    assert 'style="dashed"' in of and 'dir="back"' in of


def test_a_long_text_is_cut_in_its_box_and_whole_under_the_pointer() -> None:
    query = "which " + "very " * 30 + "long query"
    text = dot(Diagram([DiagramNode("a", (query,), hover=query)], [], "x"))
    label, tooltip = re.findall(r'(?:label|tooltip)="([^"]*)"', text)[:2]
    assert "…" in label and tooltip == query


def test_texts_of_a_graph_stay_within_their_quotes() -> None:
    nodes = [DiagramNode(EVIL, (EVIL, EVIL), hover=EVIL), DiagramNode("b", ("b",))]
    text = dot(Diagram(nodes, [DiagramEdge(EVIL, "b", EVIL, hover=EVIL)], "x"))
    assert not {"\x1b", "\u202e"} & set(text)
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    assert "javascript" not in outside and "bold" not in outside and '"' not in outside
    assert "& " not in text.replace("&amp;", "")  # Graphviz reads entities of HTML
