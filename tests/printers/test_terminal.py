"""The tables of a walk: the numbers of the neuron, readable at 80 columns."""

import io

import pytest
from rich.console import Console

from gradwalk import Value
from gradwalk.cli import neuron
from gradwalk.printers.scalars import local_derivative, number
from gradwalk.printers.terminal import show_walk


def printed(root: Value, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    root.backward()
    show_walk(root, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_neuron_shows_every_value_derivative_and_gradient() -> None:
    text = printed(neuron())
    for row in (
        "x1w1   x1 × w1           −6",
        "n      sum + b       0.8814",
        "o      tanh(n)       0.7071",
        "o        1   n      1 − o² = 0.5        0.5",
        "x1w1   0.5   x1     w1 = −3            −1.5   swapper",
        "w1     x1 = 2                1",
        "distributor",
        "x1          2       −1.5   raise ↑",
        "w2          1          0   —",
    ):
        assert row in text
    assert max(map(len, text.splitlines())) <= 80


def test_nodes_without_a_label_are_numbered_and_both_edges_are_shown() -> None:
    a = Value(3.0, label="a")
    text = printed(a * a)
    assert "a²" in text
    assert text.count("a = 3") == 2


@pytest.mark.parametrize(
    ("make", "slope"),
    [
        (lambda v: v**3, 12.0),
        (lambda v: v.relu(), 1.0),
        (lambda v: 1 / v, -0.25),
        (lambda v: v.log(), 0.5),
    ],
)
def test_local_derivative_as_a_number(make, slope) -> None:  # type: ignore[no-untyped-def]
    v = Value(2.0)
    out = make(v)
    assert local_derivative(out, out.inputs.index(v)) == pytest.approx(slope)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.00001, "0"), (1e9, "1e+09"), (float("nan"), "nan"), (float("inf"), "inf")],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text
