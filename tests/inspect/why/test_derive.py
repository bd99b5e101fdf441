"""derive: the chain rule written out as text, LaTeX and MathML; and those two printers."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from hypothesis import given

import gradwalk as gw
from gradwalk import Value
from gradwalk.ops import TABLE
from gradwalk.ops.core.symbol import Symbol
from gradwalk.printers.formulas.formula import derivative_expression
from gradwalk.printers.formulas.latex import latex
from gradwalk.printers.formulas.mathml import mathml
from tests.batches import batched
from tests.engine.random_graphs import programs


def neuron() -> tuple[dict[str, Value], Value]:
    numbers = {"x1": 2.0, "w1": -3.0, "x2": 0.0, "w2": 1.0, "b": 6.8813735870195432}
    leaves = {name: Value(number, label=name) for name, number in numbers.items()}
    o = (leaves["x1"] * leaves["w1"] + leaves["x2"] * leaves["w2"] + leaves["b"]).tanh()
    o.label = "o"
    return leaves, o


def evaluated(text: str) -> float:
    """A line of numbers, computed."""
    return float(eval(text.replace("×", "*").replace("−", "-"), {"inf": float("inf")}))


def balanced(text: str) -> bool:
    depth = 0
    for sign in re.sub(r"\\[{}]", "", text):
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return False
    return depth == 0 and text.count(r"\left") == text.count(r"\right")


# -- the textbook examples -------------------------------------------------------------------------


def test_a_chain() -> None:
    a, b, c, f = (Value(v, label=n) for n, v in zip("abcf", (2.0, -3.0, 5.0, -2.0)))
    e = a * b
    d = e + c
    loss = f * d
    e.label, d.label, loss.label = "e", "d", "L"
    found = gw.derive(a, loss)
    assert [(s.left, s.symbols, s.rules, s.numbers, s.gradient) for s in found.steps] == [
        ("dL/dd", "∂L/∂d", "f", "(−2)", -2.0),
        ("dL/de", "dL/dd × ∂d/∂e", "dL/dd × 1", "(−2) × 1", -2.0),
        ("dL/da", "dL/de × ∂e/∂a", "dL/de × b", "(−2) × (−3)", 6.0),
    ]
    assert found.gradient == 6
    assert found.in_one_line == "dL/da = f × 1 × b = (−2) × 1 × (−3) = 6"
    assert found.definitions[-1] == "L = f × d = 2"


def test_the_neuron() -> None:
    leaves, o = neuron()
    found = gw.derive(leaves["x1"], o)
    assert found.gradient == pytest.approx(-1.5)
    assert found.steps[0].rules == "1 − o²"
    assert found.in_one_line == ("do/dx1 = (1 − o²) × 1 × 1 × w1 = 0.5 × 1 × 1 × (−3) = −1.5")
    assert r"\frac{do}{dx_{1}} &= \frac{do}{dv_{1}} \cdot w_{1}" not in found.latex
    assert r"&= \frac{do}{dv_{1}} \cdot w_{1} \\" in found.latex


def test_one_value_used_twice() -> None:
    a = Value(3.0, label="a")
    (step,) = gw.derive(a, a * a).steps
    assert (step.rules, step.numbers, step.gradient) == ("a + a", "3 + 3", 6.0)


def test_shared_nodes_are_used_and_not_repeated() -> None:
    x = Value(1.0, label="x")
    y = x
    for _ in range(60):
        y = y + y
    found = gw.derive(x, y)
    assert found.path_count == 2**60 and len(found.steps) == 60
    assert found.steps[-1].numbers == f"{'5.765e+17'} × (1 + 1)"
    assert found.in_one_line is None
    assert len(str(found)) < 10_000


@pytest.mark.slow
def test_a_long_chain() -> None:
    x = Value(1.0, label="x")
    y = x
    for _ in range(20_000):
        y = y * 1.0001
    found = gw.derive(x, y)
    assert "left out" in str(found) and len(str(found)) < 20_000
    assert len(found.steps) == 20_000


@given(programs(tensors=False, kinks=True, longest=10))
def test_every_line_is_right(program: Any) -> None:
    leaves = [Value(x) for x in program.leaves]
    trace = gw.record(program(gw, leaves))
    if trace.lookup(leaves[0]) is None:
        return
    found = gw.derive(leaves[0], trace)
    assert found.gradient == trace.grad(leaves[0])
    for step in found.steps:
        right = trace.grad(step.node)
        assert step.gradient == right
        size = 1e-3 * (1 + abs(right)) + 1e-3 * sum(
            abs(float(n.replace("−", "-"))) ** 2
            for n in re.findall(r"−?\d+\.?\d*(?:e[+−]?\d+)?", step.numbers)
        )
        assert evaluated(step.numbers) == pytest.approx(right, rel=1e-2, abs=size)
    assert balanced(found.latex), found.latex
    ElementTree.fromstring(found.mathml)
    assert all(len(line) <= 110 for line in str(found).splitlines())


def test_names() -> None:
    a = Value(2.0)
    found = gw.derive(a, (a * 3 + 1) * 2)
    assert found.name == "x" and found.loss == "L"
    assert found.definitions == ["x = 2", "v1 = x × 3 = 6", "v2 = v1 + 1 = 7", "L = v2 × 2 = 14"]
    x, big = Value(1.0, label="v1"), Value(2.0, label="L")
    other = gw.derive(x, (x + 1) * big)
    assert other.loss == "loss"
    assert other.definitions[:2] == ["v1 = 1", "v2 = v1 + 1 = 2"]


def test_a_value_made_by_hand() -> None:
    a = Value(3.0, label="a")
    out = Value(9.0, (a,), "my square")
    out.label = "s"

    def push() -> None:
        a.grad += 6.0 * out.grad

    out._backward = push
    found = gw.derive(a, out * 2)
    assert [s.rules for s in found.steps] == ["2", "dL/ds × ∂s/∂a"]
    assert found.gradient == 12


def test_the_loss_itself_and_what_does_not_lead_to_it() -> None:
    a = Value(3.0, label="a")
    loss = a * 2
    assert gw.derive(loss, loss).gradient == 1
    x = gw.tensor([1.0], requires_grad=True)
    with gw.record() as trace:
        (x * 2).sum().backward()
    with pytest.raises(ValueError, match="element"):
        gw.derive(x, trace)


def test_the_report_travels() -> None:
    leaves, o = neuron()
    found = gw.derive(leaves["w1"], o)
    back = json.loads(json.dumps(found.to_dict()))
    assert back["latex"].startswith(r"\begin{aligned}") and back["steps"][-1]["name"] == "w1"
    assert "<math" in found._repr_html_()


# -- the printers ----------------------------------------------------------------------------------

PLAIN = [
    (op, position)
    for op in TABLE.values()
    if op.elementwise and op.differentiable
    for position in range(len(op.inputs))
]


@batched("op, position", PLAIN)
def test_every_local_derivative_can_be_written(op: Any, position: int) -> None:
    found = derivative_expression(op, position)
    if found is None:
        return
    assert balanced(latex(found)) and "\n" not in latex(found)
    ElementTree.fromstring(mathml(found))


@batched("op", TABLE.values())
def test_every_op_can_be_written(op: Any) -> None:
    args = tuple(Symbol(name, (2, 2)) for name in op.inputs)
    attrs = {name: (0, 1) if name in ("axes", "axis") else 2 for name in op.attributes}
    whole = Symbol(op.name, (2, 2), op=op, args=args, attrs=attrs)
    assert balanced(latex(whole))
    ElementTree.fromstring(mathml(whole))


def test_how_formulas_look() -> None:
    x, y = Symbol("x"), Symbol("y")
    assert latex(gw.exp(-x) / (1 + y)) == r"\frac{e^{-x}}{1 + y}"
    assert latex((x + y) * x) == r"\left(x + y\right) \cdot x"
    assert latex(x - (y - x)) == r"x - \left(y - x\right)"
    assert latex(gw.where(x > 0, x, 0)) == (
        r"\begin{cases} x & \text{if } x > 0 \\ 0 & \text{otherwise} \end{cases}"
    )
    assert latex(gw.sqrt(x) * -1) == r"-\sqrt{x}"
    assert latex(Symbol("a_b%") ** 2) == r"\mathrm{a\_b\%}^{2}"
    assert mathml(x / y) == "<math><mfrac><mi>x</mi><mi>y</mi></mfrac></math>"
    assert mathml(Symbol("<b>")) == "<math><mi>&lt;b&gt;</mi></math>"
    assert "display" in mathml(x, block=True)


@pytest.mark.slow
def test_what_is_printed_stays_small_for_a_long_graph() -> None:
    """Thousands of steps, and one x that is used in each of them."""
    x = Value(1.0, label="x")
    u = x
    for _ in range(2000):
        u = u * 0.999 + x * 0.001
    found = gw.derive(x, u)
    assert found.gradient == pytest.approx(1.0)
    for shown in (str(found), found.latex, found.mathml, found._repr_html_()):
        assert len(shown) < 60_000
    assert "steps left out" in str(found)
    assert r"\vdots" in found.latex and r"\cdots" in found.latex
    assert len(found.steps) == 6000  # the loss itself needs none
    assert max(len(step.symbols) for step in found.steps) < 1000
