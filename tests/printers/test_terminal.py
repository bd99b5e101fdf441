"""The tables of a walk: the numbers of the neuron, readable at 80 columns."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

import gradwalk as gw
from gradwalk import Value
from gradwalk.cli import neuron
from gradwalk.inspect import record
from gradwalk.inspect.expression.parser import parse
from gradwalk.printers.graphs.terminal import show_tree, show_walk
from gradwalk.printers.scalars import number, slope


def printed(graph: Any, width: int = 80, tree: bool = False, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width)
    if isinstance(graph, Value):
        graph.backward()
    (show_tree if tree else show_walk)(graph, console, **options)
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
    ("make", "expected"),
    [
        (lambda v: v**3, 12.0),
        (lambda v: v.relu(), 1.0),
        (lambda v: 1 / v, -0.25),
        (lambda v: v.log(), 0.5),
    ],
)
def test_local_derivative_as_a_number(make, expected) -> None:  # type: ignore[no-untyped-def]
    v = Value(2.0)
    out = make(v)
    operands = [i.data for i in out.inputs]
    found = slope(out.op, out.inputs.index(v), operands, out.data, out.attrs)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (-0.00001, "−1e−05"),
        (1e9, "1e+09"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_the_tree_shows_slopes_values_gradients_and_each_node_once() -> None:
    text = printed(neuron(), tree=True)
    assert "├── ×−3 x1  2  grad −1.5" in text
    assert text.splitlines()[0] == "o = tanh(n)  0.7071  grad 1"
    shared = printed(parse("h = a*b; y = h*h + tanh(h)").build(a=2, b=3).trace(), tree=True)
    assert shared.count("h = a × b") == 1
    assert shared.count("h (above)") == 2


def test_markup_in_a_name_is_text() -> None:
    a = Value(1.0, label="[red]a[/red]")
    assert "[red]a[/red]" in printed(a * 2)
    assert "[red]a[/red]" in printed(a * 2, tree=True)


def long_trace() -> Any:
    """A program whose names, formulas and numbers are as long as they may be."""
    name = "a_name_of_forty_letters_" + "x" * 16
    lines = [f"h1 = {name}*123456.789123", "h2 = max(h1, h1*h1)", "h3 = h2/(h1 - 1e-9)"]
    lines += [f"h{i} = tanh(h{i - 1}) + pow(h{i - 1}, h1)" for i in range(4, 30)]
    return parse("\n".join(lines)).build().trace()


@pytest.mark.parametrize("tree", [False, True])
def test_nothing_is_wider_than_the_terminal(tree: bool) -> None:
    assert max(map(len, printed(long_trace(), tree=tree).splitlines())) <= 80
    assert max(map(len, printed(tensor_trace(), tree=tree).splitlines())) <= 80


def test_numbers_are_never_cut() -> None:
    text = printed(long_trace(), rows=500)
    assert "123456.7891" in text
    assert "0.5 if h1 = v1" in text  # a long rule takes two lines instead
    assert re.search(r"[0-9]…", text) is None


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_narrow_terminal_gets_a_list_in_which_nothing_is_cut(width: int) -> None:
    for graph in (neuron(), long_trace(), tensor_trace()):
        lines = printed(graph, width).splitlines()
        assert max(map(len, lines)) <= width
        assert re.search(r"[0-9]…", "\n".join(lines)) is None
    text = " ".join(printed(neuron(), 40).split())
    assert "g 0.5, to x1, local derivative w1 = −3, adds −1.5, gate swapper" in text
    assert "more rows" in printed(long_trace(), 40, rows=5)


def test_many_rows_are_cut_and_counted() -> None:
    text = printed(long_trace(), rows=5)
    assert "more rows" in text
    assert text.count("\n") < 40
    assert "more nodes below" in printed(long_trace(), rows=5, tree=True)


def tensor_trace() -> Any:
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(4, 8), gw.nn.Tanh(), gw.nn.Linear(8, 3))
    x = gw.ones(5, 4)
    with record() as trace:
        gw.nn.functional.cross_entropy(model(x), gw.tensor([0, 1, 2, 0, 1])).backward()
    return trace


def test_a_graph_of_tensors_shows_shapes_and_norms() -> None:
    trace = tensor_trace()
    text = printed(trace)
    norm = float(abs(trace.grad("0.weight") ** 2).sum() ** 0.5)
    for part in ("0.weight", "(8,4)", "(5,8)", "data", "int64", number(norm)):
        assert part in text
    tree = printed(trace, tree=True)
    assert "mean#" in tree.splitlines()[0]
    assert "0.weight (8,4)" in tree


def test_a_trace_without_a_backward_pass_shows_forward_only() -> None:
    with record() as trace:
        gw.ones(2, requires_grad=True) * 2
    text = printed(trace)
    assert "Forward" in text
    assert "Backward" not in text


def test_constants_are_no_leaves_to_move_unless_there_are_no_others() -> None:
    text = printed(parse("3*a").build(a=2).trace())
    assert "constant" in text
    assert text.count("lower") == 2  # in the heading, and for a
    assert printed(Value(3.0) * Value(2.0)).count("constant") >= 2
