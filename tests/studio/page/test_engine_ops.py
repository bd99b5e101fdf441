"""The op table in the page, op by op: the same values, gradients and formulas as Python's."""

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from gradwalk.printers.formulas.formula import derivative, derivative_expression
from gradwalk.printers.formulas.mathml import mathml
from gradwalk.printers.graphs.view import GATES
from gradwalk.printers.scalars import slope
from tests.ops.domains import domain_of
from tests.quick import some_quick
from tests.studio.node import Node
from tools.page import tables as page_tables

# No op on bits means anything for floats.
BITS = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"}
ELEMENTWISE = [op for op in TABLE.values() if op.elementwise and op.name not in BITS]
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1e-300, 1e300, math.inf, -math.inf, math.nan]
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "power": [{"exponent": n} for n in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5)],
    "polygamma": [{"n": n} for n in (0, 1, 2, 3)],
    "clip": [{"min": -0.5, "max": None}, {"min": None, "max": 0.5}, {"min": -0.25, "max": 0.75}],
    "logit": [{"eps": None}, {"eps": 0.1}],
    "leaky_relu": [{"negative_slope": 0.01}, {"negative_slope": 0.2}],
    "round": [{"decimals": 0}, {"decimals": 2}, {"decimals": -1}],
    "softplus": [{"beta": 1.0, "threshold": 20.0}, {"beta": 2.0, "threshold": 3.0}],
    "elu": [
        {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0},
        {"alpha": 1.5, "scale": 2.0, "input_scale": 0.5},
    ],
    "nan_to_num": [
        {"nan": None, "posinf": None, "neginf": None},
        {"nan": 1.0, "posinf": 2.0, "neginf": 3.0},
    ],
}
# SciPy's own values of these are wrong or undefined far to the left and for tiny numbers.
ONLY_DOMAIN = {"lgamma", "digamma", "polygamma", "erfinv"}


def attributes_of(op: Op) -> list[dict[str, Any]]:
    return ATTRIBUTES.get(op.name, [dict(op.defaults)])


def operands_of(op: Op) -> list[list[float]]:
    """Points of the op's domain, and every pair of the edges of the number line."""
    draw = random.Random(op.name)
    bounds = domain_of(op, 4.0)
    found = [[draw.uniform(*b) for b in bounds] for _ in range(60)]
    if op.name in ONLY_DOMAIN:
        return found
    wide = [[draw.gauss(0, 1) * 10 ** draw.uniform(-3, 3) for _ in bounds] for _ in range(60)]
    few = EDGES if len(bounds) < 3 else [0.0, 1.0, -2.0, math.inf, math.nan]
    return found + wide + [list(p) for p in itertools.product(few, repeat=len(bounds))]


def close(found: float, right: float, tolerance: float = 1e-12) -> bool:
    if math.isnan(right) or math.isnan(found):
        return math.isnan(right) and math.isnan(found)
    if math.isinf(right) or math.isinf(found):
        return found == right
    # Below the smallest normal number digits are lost, in any language.
    return abs(found - right) <= tolerance * max(abs(found), abs(right)) + 1e-300


def same_slope(found: float, wanted: float, g: float) -> bool:
    """As above; `out` may differ in its last place, and of that 1 − out² leaves nothing but."""
    return close(found, wanted) or abs(found - wanted) <= 1e-15 * abs(g)


def pulled(op: Op, position: int, operands: list[float], out: float, attrs: Any, g: float) -> Any:
    """The op's rule on doubles, with this gradient coming in."""
    plan = op.plan((True,) * len(op.inputs)).write()
    with np.errstate(all="ignore"):
        saved = plan.save(np.float64(out), *(np.float64(x) for x in operands))
        found = plan.pull(np.float64(g), saved, attrs)[position]
    return None if found is None else float(found)


def test_the_page_knows_every_scalar_op(engine: Node) -> None:
    table = engine("ops.table")
    assert set(table) == {op.name for op in ELEMENTWISE}
    for op in ELEMENTWISE:
        row = table[op.name]
        assert row["inputs"] == list(op.inputs)
        assert list(row["attributes"]) == list(op.attributes)
        assert row.get("symbol") == op.symbol
        assert row.get("gate") == GATES.get(op.name)
        assert row["carries"] == [rule is not None for rule in op.rules]


@pytest.mark.parametrize("op", some_quick(ELEMENTWISE, 6), ids=lambda op: op.name)
def test_values_and_gradients_are_pythons(engine: Node, op: Op) -> None:
    for attrs in attributes_of(op):
        points = operands_of(op)
        for g in (1.0, -2.5, math.inf):
            answers = engine.each("ops.applied", [[op.name, p, attrs, g] for p in points])
            for operands, answer in zip(points, answers):
                right = float(op.on_numbers(operands, attrs))
                assert close(answer["value"], right), (operands, attrs, answer, right)
                if right == 0:
                    signs = math.copysign(1, answer["value"]), math.copysign(1, right)
                    assert signs[0] == signs[1], (operands, attrs)
                if g == 1.0:
                    slopes = [
                        None if rule is None else slope(op, i, operands, right, attrs)
                        for i, rule in enumerate(op.rules)
                    ]
                else:
                    slopes = [
                        pulled(op, i, operands, right, attrs, g) for i in range(len(op.rules))
                    ]
                for found, wanted in zip(answer["pulled"], slopes, strict=True):
                    assert found is wanted is None or same_slope(found, wanted, g), (
                        operands,
                        attrs,
                        g,
                        answer,
                        slopes,
                    )


WITH_FORMULA = [(op, i) for op in ELEMENTWISE for i, rule in enumerate(op.rules) if rule]


@pytest.mark.parametrize(("op", "position"), WITH_FORMULA, ids=lambda x: getattr(x, "name", x))
def test_formulas_are_pythons(engine: Node, op: Op, position: int) -> None:
    names = ["w1", "beta", "z"][: len(op.inputs)]
    for attrs in attributes_of(op):
        nodes = [{"op": "", "args": [], "attrs": {}, "label": name} for name in names]
        args = [{"node": i} for i in range(len(names))]
        nodes.append({"op": op.name, "args": args, "attrs": attrs, "label": "o2"})
        edge = {"node": len(names), "argument": position, "source": position}
        graph = {"nodes": nodes, "root": len(names)}
        text = engine("formulas.localText", graph, edge)
        if op.name == "sinc":
            assert text == "", "a series of eight terms is no formula to read"
            continue
        content = engine("formulas.localFormula", graph, edge)
        written = engine("formulas.markupText", content)
        assert text == derivative(op, position, names, "o2", **attrs)
        wanted = mathml(derivative_expression(op, position, names, "o2", **attrs))
        assert f"<math>{written}</math>" == wanted


def test_no_text_is_executed_in_the_page() -> None:
    for name, text in page_tables.files().items():
        assert "eval(" not in text and "Function(" not in text, name


@pytest.mark.parametrize(
    ("op", "names", "rules"),
    [
        ("matmul", ["X", "W"], ["g @ Wᵀ", "Xᵀ @ g"]),  # dX = dY·Wᵀ, dW = Xᵀ·dY
        ("linear", ["x", "W", "b"], ["g @ W", "gᵀ @ x", "Σ(g)"]),
        ("sum", ["x"], ["g repeated"]),
        ("mean", ["x"], ["g / n repeated"]),
        ("cross_entropy", ["z", "t"], ["g × (softmax(z) − one at t), row by row", ""]),
        ("mul", ["a", "b"], ["g × b", "g × a"]),
        ("sub", ["a", "b"], ["g", "−g"]),
        ("sigmoid", ["x"], ["g × (Y × (1 − Y))"]),
    ],
)
def test_rules_of_ops_on_arrays(engine: Node, op: str, names: list[str], rules: list[str]) -> None:
    found = [engine("rules.ruleText", op, i, names, "Y") for i in range(len(rules))]
    assert found == rules
