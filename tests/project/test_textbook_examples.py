"""Every number in the tables of docs/learn/textbook-examples.md is computed."""

import re
from collections.abc import Iterator

import pytest

import gradwalk as gw
from gradwalk.inspect import expression
from tests.project.checkout import ROOT

PAGE = ROOT / "docs" / "learn" / "textbook-examples.md"


def table(heading: str) -> list[list[str]]:
    """The cells of the rows below a table's heading line."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"{heading}\n")
    assert rest, f"no table starts with {heading}"
    rows = rest.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def numbers(cell: str) -> dict[str, float]:
    """`a 2, b −3` as a dictionary."""
    pairs = (part.split() for part in cell.replace("−", "-").split(","))
    return {name: float(number) for name, number in pairs}


def named(root: gw.Value) -> dict[str, gw.Value]:
    """The labelled nodes of a graph."""

    def nodes(node: gw.Value) -> Iterator[gw.Value]:
        yield node
        for one in node.inputs:
            yield from nodes(one)

    return {node.label: node for node in nodes(root) if node.label}


GRAPHS = table("| graph | leaves | values | gradients |")
ORDERS = table("| graph | of | 15 (right) | 9 | 6 | 0 |")
RECIPES = ("right", "plain recursion", "depth-first", "breadth-first", "overwrite", "twice")
RUNS = table(f"| graph | {' | '.join(RECIPES)} |")


def test_the_tables_are_found() -> None:
    assert (len(GRAPHS), len(ORDERS), len(RUNS)) == (9, 2, 2)


@pytest.mark.parametrize(("source", "leaves", "values", "gradients"), GRAPHS)
def test_a_graph(source: str, leaves: str, values: str, gradients: str) -> None:
    root = expression(source.strip("`"), **numbers(leaves))
    root.backward()
    nodes = named(root)
    assert {n: round(nodes[n].data, 4) for n in numbers(values)} == numbers(values)
    assert {n: round(nodes[n].grad, 4) for n in numbers(gradients)} == numbers(gradients)


@pytest.mark.parametrize(("source", "of", "counts"), [(s, o, c) for s, o, *c in ORDERS])
def test_the_orders(source: str, of: str, counts: list[str]) -> None:
    leaf, value = of.split(" at ")
    root = expression(source.strip("`"), **{leaf: float(value)})
    found = gw.every_order(named(root)[leaf], root, [named(root)[name] for name in "dbca"])
    assert found.counts == dict(zip((15, 9, 6, 0), map(int, counts)))


@pytest.mark.parametrize(("place", "got"), [(place, got) for place, *got in RUNS])
def test_the_recipes(place: str, got: list[str]) -> None:
    source, value = re.fullmatch(r"`(.*)` at (\d)", place).groups()
    root = expression(source, x=float(value))
    x = named(root)["x"]
    found = [gw.run_order(root, recipe)[x].got for recipe in RECIPES]
    assert found == [float(number) for number in got]
