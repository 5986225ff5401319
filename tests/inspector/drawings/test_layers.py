"""Places of a graph's nodes: apart, and arrows lead to the right unless they close a circle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from trailforge.inspector.drawings.layers import layered

KEYS = list("ABCDEFGH")


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)), max_size=14, unique=True))
def test_any_graph_has_its_places(edges: list[tuple[str, str]]) -> None:
    layers = layered(KEYS, edges)
    assert set(layers.places) == set(KEYS)
    stops = [stop for edge, route in layers.routes.items() if edge not in layers.turned for stop in route[1:-1]]
    taken = [*layers.places.values(), *stops]
    assert len(set(taken)) == len(taken)
    assert set(layers.routes) == set(edges)
    for (src, dst), route in layers.routes.items():
        assert (route[0], route[-1]) == (layers.places[src], layers.places[dst])
        if (src, dst) not in layers.turned:
            assert [column for column, _ in route] == list(range(route[0][0], route[-1][0] + 1))
    assert all(0 <= column < layers.columns for column, _ in taken)
    assert all(abs(row) <= (layers.rows - 1) / 2 for _, row in taken)


def test_an_edge_past_a_node_goes_round_it() -> None:
    layers = layered(list("ABC"), [("A", "B"), ("B", "C"), ("A", "C")])
    assert not layers.turned and layers.columns == 3
    assert layers.routes["A", "C"][1] != layers.places["B"]


def test_what_closes_a_circle_is_turned() -> None:
    assert layered(list("AB"), [("A", "B"), ("B", "A"), ("A", "A")]).turned == {("B", "A"), ("A", "A")}


def test_a_start_stands_just_before_what_it_leads_to() -> None:
    places = layered(list("ABCX"), [("A", "B"), ("B", "C"), ("X", "C")]).places
    assert places["X"][0] == places["B"][0] == 1
