"""What printers see of a graph: one view of traces and Values, closed groups, plain data."""

import json
import math

import pytest

import gradwalk as gw
from gradwalk import Value, nn
from gradwalk.inspect import record, scope
from gradwalk.inspect.expression.parser import parse
from gradwalk.printers.graphs.groups import close_groups
from gradwalk.printers.graphs.plain_data import graph_data
from gradwalk.printers.graphs.view import view_of
from tests.printers.neuron import neuron


def test_a_value_and_its_trace_look_the_same() -> None:
    o = neuron()
    o.backward()
    one, other = view_of(o), view_of(record(o))
    assert [n.name for n in one.nodes] == [n.name for n in other.nodes]
    assert [n.grad for n in one.nodes] == [n.grad for n in other.nodes]
    assert [(e.source, e.target, e.slope) for e in one.edges] == [
        (e.source, e.target, e.slope) for e in other.edges
    ]


def test_badges_and_arrows() -> None:
    view = view_of(parse("m = max(a, b); y = m*m + c - 3").build(a=2, b=1, c=-1).trace())
    named = {n.name: n for n in view.nodes}
    assert view.badges(named["m"]) == ("router", "adder")
    assert [view.badges(n)[0] for n in view.nodes if n.op in ("mul", "add")] == [
        "swapper",
        "distributor",
    ]
    assert {name: named[name].raises for name in "abc"} == {"a": -1, "b": 0, "c": -1}
    assert named["3"].constant
    assert named["3"].raises == 0


def test_effects_say_what_an_edge_does() -> None:
    view = view_of(parse("(a - b)/c^n + max(a, d) + tanh(a^2) - 2^a").build().trace())
    said = {view.effect(e) for e in view.edges}
    for text in ("− b", "a −", "^ n", "c ^", "max(…, d)", "tanh", "^2", "2 ^"):
        assert text in said


def test_only_what_the_root_was_computed_from_is_in_the_picture() -> None:
    x = gw.ones(2, requires_grad=True)
    with record() as trace:
        other = x + 5
        (x * 2).sum().backward()
        assert other is not None
    assert [n.op for n in view_of(trace).nodes] == ["", "mul", "sum"]


def test_a_hand_made_value_has_an_op_and_no_formula() -> None:
    a = Value(2.0, label="a")
    out = Value(6.0, (a,), "triple")
    out._backward = lambda: setattr(a, "grad", a.grad + 3 * out.grad)
    out.backward()
    view = view_of(out)
    assert view.computed_as(view.nodes[1]) == "triple(a)"
    assert view.edges[0].slope is None
    traced = view_of(record(out))
    assert traced.edges[0].slope == 3.0


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5))
        self.last = nn.Linear(8, 2)

    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.last(self.first(x)) * 2


def model_trace():  # type: ignore[no-untyped-def]
    gw.manual_seed(0)
    model, x = Model(), gw.ones(3, 4)
    with record() as trace:
        with scope("loss"):
            loss = (model(x) ** 2).mean()
        loss.backward()
    return trace


@pytest.mark.parametrize(
    ("depth", "names"),
    [
        (1, ["loss"]),
        (2, ["Model"]),
        (3, ["first", "last"]),
        (4, ["first.0", "first.1", "first.2", "last"]),
        (9, ["first.0", "first.1", "first.2", "last"]),
    ],
)
def test_groups_close(depth: int, names: list[str]) -> None:
    trace = model_trace()
    view = view_of(trace)
    closed = close_groups(view, trace, depth)
    assert [n.name for n in closed.nodes if n.detail] == names
    for edge in closed.edges:
        assert edge.source < edge.target
    assert closed.nodes[closed.root].value == view.nodes[view.root].value
    shown = sum(1 for n in closed.nodes if not n.detail)
    inside = sum(int(n.detail.split()[0]) for n in closed.nodes if n.detail)
    operations = sum(1 for n in view.nodes if n.op)
    assert inside + sum(1 for n in closed.nodes if n.op and not n.detail) == operations
    assert shown <= len(view.nodes)


def test_a_closed_group_holds_its_parameters_but_not_what_goes_in() -> None:
    trace = model_trace()
    closed = close_groups(view_of(trace), trace, 3)
    first = next(n for n in closed.nodes if n.name == "first")
    assert first.detail.endswith("2 parameters")
    assert [closed.nodes[e.source].shape for e in first.edges] == [(3, 4)]


def test_data_is_json_and_has_the_numbers() -> None:
    data = graph_data(parse("b = a+1; c = 3*a; d = b*c").build(a=2).trace())
    nodes = {n["name"]: n for n in json.loads(json.dumps(data, allow_nan=False))["nodes"]}
    assert nodes["a"]["gradient"] == 15
    assert nodes["a"]["to_lower_the_root"] == "lower"
    assert nodes["d"]["inputs"] == [
        {"node": 2, "argument": 0, "local_derivative": 6.0, "formula": "c", "pushed": 6.0},
        {"node": 4, "argument": 1, "local_derivative": 3.0, "formula": "b", "pushed": 3.0},
    ]
    assert nodes["d"]["gates"] == ["swapper"]
    assert data["visits"] == [5, 4, 2]


def test_numbers_json_does_not_have_are_text() -> None:
    data = graph_data(parse("1/x - log(y) + z").build(x=0, y=0, z=math.nan).trace())
    json.dumps(data, allow_nan=False)
    values = {n["name"]: n["value"] for n in data["nodes"]}
    assert values["z"] == "NaN"
    assert "Infinity" in values.values()
    assert "-Infinity" in values.values()


def test_data_of_tensors_has_shapes_and_norms() -> None:
    data = graph_data(model_trace())
    json.dumps(data, allow_nan=False)
    weight = next(n for n in data["nodes"] if n["name"] == "first.0.weight")
    assert weight["shape"] == [8, 4]
    assert weight["gradient"]["norm"] >= 0
