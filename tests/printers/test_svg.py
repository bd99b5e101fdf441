"""The drawing of a scalar graph: well-formed, complete, nothing on top of anything else."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import hypothesis.strategies as st
from hypothesis import given

from gradwalk import Value
from gradwalk.cli import neuron
from gradwalk.printers.svg import HEIGHT, WIDTH, graph_svg


def boxes(svg: str) -> list[tuple[int, int]]:
    return [
        (int(x), int(y)) for x, y in re.findall(r'<g transform="translate\((\d+) (\d+)\)"><', svg)
    ]


def test_the_neuron_shows_its_numbers() -> None:
    o = neuron()
    o.backward()
    svg = graph_svg(o)
    ElementTree.fromstring(svg)
    for text in ("x1w1", "0.7071", "grad −1.5", "×−3", "×0.5"):
        assert text in svg
    assert len(boxes(svg)) == 10


def test_two_edges_from_one_node_are_two_curves() -> None:
    a = Value(3.0, label="a")
    svg = graph_svg(a * a)
    curves = re.findall(r'class="edge" d="([^"]*)"', svg)
    assert len(set(curves)) == 2


def test_labels_are_escaped() -> None:
    svg = graph_svg(Value(1.0, label="<script>") + 1)
    assert "<script>" not in svg
    ElementTree.fromstring(svg)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=12))
def test_no_two_nodes_overlap(picks: list[tuple[int, int]]) -> None:
    values = [Value(1.0), Value(2.0)]
    for one, other in picks:
        values.append(values[one % len(values)] * values[other % len(values)])
    places = boxes(graph_svg(values[-1]))
    for (x, y), (other_x, other_y) in combinations(places, 2):
        assert abs(x - other_x) >= WIDTH or abs(y - other_y) >= HEIGHT
