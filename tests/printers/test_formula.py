"""Formulas: every op prints, and the ones people look at print as in a textbook."""

import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.ops.core.symbol import Symbol
from gradwalk.printers.formulas.formula import derivative, formula
from gradwalk.printers.formulas.latex import latex, latex_name
from gradwalk.printers.formulas.mathml import mathml

x, y = Symbol("x"), Symbol("y")
W = Symbol("W", (2, 3))

LOCAL_DERIVATIVES = [
    ("add", 0, "1"),
    ("sub", 1, "−1"),
    ("mul", 0, "y"),
    ("mul", 1, "x"),
    ("div", 0, "1 / y"),
    ("div", 1, "−(x / y / y)"),
    ("exp", 0, "out"),
    ("log", 0, "1 / x"),
    ("tanh", 0, "1 − out²"),
    ("sigmoid", 0, "out × (1 − out)"),
    ("relu", 0, "0 if out ≤ 0 else 1"),
    ("square", 0, "2 × x"),
    ("sqrt", 0, "1 / (2 × out)"),
    ("sin", 0, "cos(x)"),
    ("cos", 0, "−sin(x)"),
    ("power", 0, "exponent × x^(exponent − 1)"),
    ("floor", 0, "0"),
]


@pytest.mark.parametrize(("name", "position", "text"), LOCAL_DERIVATIVES)
def test_local_derivative(name: str, position: int, text: str) -> None:
    assert derivative(TABLE[name], position) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (x - (y - x), "x − (y − x)"),
        ((x - y) - x, "x − y − x"),
        (x / (y * x), "x / (y × x)"),
        ((x + y) * x, "(x + y) × x"),
        (-(x + y), "−(x + y)"),
        ((x + y) ** 2, "(x + y)²"),
        (x ** (-1), "x⁻¹"),
        (x ** y, "x ^ y"),
        (x * 1, "x"),
        (-1 * x, "−x"),
        (x * x, "x²"),
        (-2 * x, "−2 × x"),
        (W @ W.mT, "W @ Wᵀ"),
        (gw.where(x > 0, x, y), "x if x > 0 else y"),
        (gw.sigmoid(x), "σ(x)"),
        (gw.leaky_relu(x, 0.2), "leaky_relu(x, negative_slope=0.2)"),
    ],
)  # fmt: skip
def test_formula(expression: Symbol, text: str) -> None:
    assert formula(expression) == text
    assert repr(expression) == text


@pytest.mark.parametrize("op", [op for op in TABLE.values() if op.elementwise], ids=str)
def test_every_elementwise_op_prints(op: gw.Op) -> None:
    attributes = {name: op.defaults.get(name, 2.0) for name in op.attributes}
    text = formula(op(*(Symbol(name) for name in op.inputs), **attributes))
    assert all(name in text for name in op.inputs)
    for position in range(len(op.inputs)):
        assert derivative(op, position)


def test_a_users_op_prints_without_further_work() -> None:
    cube = gw.elementwise("cube", lambda x: x**3, partials=[lambda x: 3 * x * x])
    assert derivative(cube) == "3 × x × x"
    assert formula(cube(x)) == "cube(x)"
    told = gw.elementwise("told", np.sin, partials=[lambda x: gw.cos(x)], formula="cos x")
    assert derivative(told) == "cos x"


NEGATIVE = {
    "x × (−3)": (x * -3, r"x \cdot \left(-3\right)"),
    "x − (−3)": (x - -3, r"x - \left(-3\right)"),
    "x + (−y)": (x + -y, r"x + \left(-y\right)"),
    "−3 × x": (-3 * x, r"-3 \cdot x"),
    "x^inf": (x**math.inf, r"x^{\infty}"),
    "x^1e+20": (x**1e20, r"x^{1 \cdot 10^{20}}"),
    "x⁻²": (x**-2, "x^{-2}"),
}


@pytest.mark.parametrize("text", NEGATIVE)
def test_signs_and_exponents_are_not_misread(text: str) -> None:
    """No two signs in a row, and nothing set as an exponent that cannot be raised."""
    expression, set_in_latex = NEGATIVE[text]
    assert formula(expression) == text
    assert latex(expression) == set_in_latex
    markup = mathml(expression)
    ElementTree.fromstring(markup)
    signs = re.sub(r"</?m(row|n|i|math)>", "", markup)
    assert not re.search(r"<mo>[+⋅−]</mo><mo>−", signs)


@pytest.mark.parametrize(
    ("name", "expected"), [("σ", r"\sigma"), ("σ1", r"\sigma_{1}"), ("Ω", r"\Omega"), ("Α", "A")]
)
def test_greek_letters_are_commands_in_latex(name: str, expected: str) -> None:
    assert latex_name(name) == expected
