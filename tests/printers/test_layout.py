"""Where nodes are drawn: to the right of their inputs, none on another, lines that lead there."""

import random
from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given, settings

from gradwalk.printers.graphs.layout import BEND, Arc, layout


def graph(picks: list[tuple[int, int]]) -> tuple[int, list[Arc]]:
    arcs = []
    for node, (one, other) in enumerate(picks, 2):
        arcs += [(one % node, node), (other % node, node)]
    return len(picks) + 2, arcs


GRAPHS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=40).map(graph)


@given(GRAPHS)
@settings(deadline=None)
def test_arcs_lead_right_and_nothing_overlaps(found: tuple[int, list[Arc]]) -> None:
    count, arcs = found
    placed = layout(count, arcs)
    stands: dict[int, list[tuple[float, float]]] = {}  # column -> row and half the room it takes
    for column, row in zip(placed.columns, placed.rows):
        stands.setdefault(column, []).append((row, 0.5))
    bends = {place for route in placed.routes for place in route}
    for column, row in bends:
        stands.setdefault(column, []).append((row, BEND / 2))
    for column in stands.values():
        column.sort()
        for (row, room), (other, more) in pairwise(column):
            assert other - row >= room + more - 1e-6
    for (source, target), route in zip(arcs, placed.routes):
        between = [column for column, _ in route]
        assert between == list(range(placed.columns[source] + 1, placed.columns[target]))
        assert placed.columns[source] < placed.columns[target]
    assert placed.width == max(placed.columns) + 1
    assert 0 <= min(placed.rows) <= max(placed.rows) <= placed.height - 1 + 1e-9


@given(GRAPHS)
@settings(deadline=None)
def test_the_same_graph_is_placed_the_same(found: tuple[int, list[Arc]]) -> None:
    assert layout(*found) == layout(*found)


def test_a_tree_is_drawn_without_crossings_in_the_order_of_its_operands() -> None:
    #  ((0 1) (2 3)) as nodes 0 1 4, 2 3 5, 6
    placed = layout(7, [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)])
    assert placed.columns == [0, 0, 0, 0, 1, 1, 2]
    assert placed.rows == [0, 1, 2, 3, 0.5, 2.5, 1.5]


def test_a_leaf_stands_beside_its_first_use_and_leaves_the_main_line_straight() -> None:
    chain = [(0, 1), (1, 2), (2, 4), (3, 4)]  # node 3 is a leaf used at the end
    placed = layout(5, chain)
    assert placed.columns[3] == placed.columns[2] == 2
    assert len({round(placed.rows[node], 1) for node in (0, 1, 2)}) == 1


def test_two_arcs_between_the_same_nodes_have_bends_of_their_own() -> None:
    placed = layout(3, [(0, 1), (1, 2), (0, 2), (0, 2)])
    one, other = placed.routes[2], placed.routes[3]
    assert len(one) == len(other) == 1
    assert one != other


def test_arcs_of_one_node_share_their_bends() -> None:
    chain = [(i, i + 1) for i in range(1, 9)]
    placed = layout(10, [*chain, *((0, target) for target in range(3, 10))])
    assert len({place for route in placed.routes for place in route}) <= 8


def test_large_and_empty_graphs() -> None:
    assert layout(0, []).columns == []
    assert layout(1, []).rows == [0.0]
    numbers = random.Random(0)
    arcs = [(numbers.randrange(node), node) for node in range(1, 3000) for _ in range(2)]
    placed = layout(3000, arcs)
    assert len(placed.rows) == 3000
