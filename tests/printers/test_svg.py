"""The drawing of a scalar graph: well-formed, complete, nothing on top of anything else."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import hypothesis.strategies as st
import pytest
from hypothesis import given

import gradwalk as gw
from gradwalk import Value
from gradwalk.inspect import record
from gradwalk.inspect.expression.parser import parse
from gradwalk.printers.graphs.svg import HEIGHT, WIDTH, graph_svg
from tests.printers.neuron import neuron


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


def test_both_drawings_gates_arrows_and_constants() -> None:
    trace = parse("m = max(a, b); y = m*m + 3*c").build(a=2, b=1, c=-1).trace()
    nodes, edges = graph_svg(trace), graph_svg(trace, "edges")
    for svg in (nodes, edges):
        ElementTree.fromstring(svg)
        assert "↓ lower" in svg
        assert 'class="pill adder"' in svg
    for gate in ("router", "swapper", "distributor"):
        assert f'class="pill {gate}"' in nodes
        assert f'class="pill {gate}"' not in edges
    assert ">constant<" in nodes
    assert ">constant<" not in edges
    assert 'class="does">× 3</tspan> ∂ 3<' in edges
    with pytest.raises(ValueError, match="'nodes', 'edges'"):
        graph_svg(trace, "both")


def test_tensors_show_shapes_and_norms() -> None:
    x = gw.tensor([[3.0, 4.0]], requires_grad=True)
    x.label = "x"
    with record() as trace:
        (x * x).sum().backward()
    svg = graph_svg(trace)
    for text in ("(1, 2)", "norm 5", "grad norm 10", ">25<", "scalar"):
        assert text in svg


def test_long_names_are_cut_in_front_and_told_in_full() -> None:
    name = "blocks.11.attention.projection.weight.of.everything"
    svg = graph_svg(Value(1.0, label=name) * 2)
    assert f"{name} = leaf" in svg
    assert ">…" in svg


def test_a_node_with_many_inputs_has_no_text_between_its_edges() -> None:
    parts = [gw.ones(1, requires_grad=True) for _ in range(12)]
    with record() as trace:
        gw.cat(parts).sum().backward()
    assert graph_svg(trace).count('class="slope"') == 1


def test_graphs_of_two_thousand_nodes_are_drawn() -> None:
    v = Value(1.0, label="x")
    values = [v]
    for i in range(1, 2000):
        values.append(values[i // 2] * values[i - 1])
    svg = graph_svg(values[-1])
    assert svg.count('class="edge"') > 3000
    ElementTree.fromstring(svg)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=12))
def test_no_two_nodes_overlap(picks: list[tuple[int, int]]) -> None:
    values = [Value(1.0), Value(2.0)]
    for one, other in picks:
        values.append(values[one % len(values)] * values[other % len(values)])
    places = boxes(graph_svg(values[-1]))
    for (x, y), (other_x, other_y) in combinations(places, 2):
        assert abs(x - other_x) >= WIDTH or abs(y - other_y) >= HEIGHT
