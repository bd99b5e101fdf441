"""One rule, four readings: numbers, arrays, graphs and formulas say the same."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.ops.core.check import check_elementwise
from gradwalk.ops.core.op import Op, OpError
from gradwalk.printers.formulas.formula import derivative
from tests.batches import batched
from tests.ops.samples.table import attributes_of

ELEMENTWISE = [op for op in TABLE.values() if op.elementwise]
ON_FLOATS = [op for op in ELEMENTWISE if not op.name.startswith("bitwise_")]
CASES = [(op, attrs) for op in ON_FLOATS for attrs in attributes_of(op)]
every_case = pytest.mark.parametrize(
    ("op", "attrs"), CASES, ids=lambda part: str(getattr(part, "name", part))
)
# math's and NumPy's functions may differ in the last bits; erf is ours.
CLOSE = dict(rtol=1e-13, atol=1e-300)
NUMBERS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 40.0, -800.0, 1e300]


def as_array(op: Op, attrs: dict[str, Any], numbers: tuple[float, ...], value: Any) -> list[Any]:
    """Value and local derivatives (None where there is none), read as arrays.

    Rules that use the op's result get `value` instead: on some processors NumPy's tanh(9.0) is one
    bit off math's, and 1 - out**2 turns that bit into the ninth digit.
    """
    inputs = [
        gw.tensor(np.array(n), requires_grad=op.rules[i] is not None) for i, n in enumerate(numbers)
    ]
    out = op(*inputs, **attrs)
    result = out.item()
    if out.requires_grad:
        out._array[...] = value
        out.backward()
    return [result, *(None if x.grad is None else x.grad.item() for x in inputs)]


def as_number(op: Op, attrs: dict[str, Any], numbers: tuple[float, ...]) -> list[Any]:
    """The same, read as Python numbers by the scalar engine."""
    inputs = [gw.Value(n) for n in numbers]
    out = op(*inputs, **attrs)
    if not op.differentiable:
        return [out, *(None for _ in inputs)]
    out.backward()
    return [out.data, *(None if r is None else x.grad for x, r in zip(inputs, op.rules))]


def assert_readings_agree(op: Op, attrs: dict[str, Any], numbers: tuple[float, ...]) -> None:
    number = as_number(op, attrs, numbers)
    array = as_array(op, attrs, numbers, number[0])
    for one, other in zip(number, array, strict=True):
        assert (one is None) == (other is None), f"{op.name}{numbers}: {number} {array}"
        if one is not None:
            assert type(one) in (float, int, bool)
            message = f"{op.name}{numbers}: {number} as numbers, {array} as arrays"
            np.testing.assert_allclose(one, other, equal_nan=True, err_msg=message, **CLOSE)
    plain = op(*numbers, **attrs)
    np.testing.assert_equal(plain, number[0])  # floats without any graph


@pytest.mark.parametrize(
    ("op", "attrs"),
    [  # all triples of the numbers take long
        pytest.param(*case, marks=pytest.mark.slow if len(case[0].inputs) > 2 else ())
        for case in CASES
    ],
    ids=lambda part: str(getattr(part, "name", part)),
)
def test_special_numbers(op: Op, attrs: dict[str, Any]) -> None:
    for numbers in itertools.product(NUMBERS, repeat=len(op.inputs)):
        if op.name == "where":
            numbers = (bool(numbers[0] > 0), *numbers[1:])
        assert_readings_agree(op, attrs, numbers)


@pytest.mark.slow
@every_case
@settings(max_examples=25)
@given(data=st.data())
def test_any_numbers(op: Op, attrs: dict[str, Any], data: st.DataObject) -> None:
    floats = st.floats(-1e6, 1e6, allow_subnormal=False)
    numbers = tuple(data.draw(floats, name) for name in op.inputs)
    if op.name == "where":
        numbers = (numbers[0] > 0, *numbers[1:])
    assert_readings_agree(op, attrs, numbers)


# What IEEE says where Python's math raises or turns complex: (call, value, gradients).
NAN, INF = math.nan, math.inf
IEEE = {
    "log 0": (lambda x: gw.log(x), (0.0,), -INF, (INF,)),
    "log -1": (lambda x: gw.log(x), (-1.0,), NAN, (-1.0,)),
    "1 / 0": (lambda x, y: x / y, (1.0, 0.0), INF, (INF, -INF)),
    "0 / 0": (lambda x, y: x / y, (0.0, 0.0), NAN, (INF, NAN)),
    "1 / -0": (lambda x: 1 / x, (-0.0,), -INF, (-INF,)),
    "exp 710": (lambda x: gw.exp(x), (710.0,), INF, (INF,)),
    "exp -800": (lambda x: gw.exp(x), (-800.0,), 0.0, (0.0,)),
    "sqrt -1": (lambda x: gw.sqrt(x), (-1.0,), NAN, (NAN,)),
    "sqrt 0": (lambda x: gw.sqrt(x), (0.0,), 0.0, (INF,)),
    "rsqrt 0": (lambda x: gw.rsqrt(x), (0.0,), INF, (-INF,)),
    "cube root of -8": (lambda x: x ** (1 / 3), (-8.0,), NAN, (NAN,)),
    "0 ** 0": (lambda x, y: x**y, (0.0, 0.0), 1.0, (0.0, 0.0)),
    "0 ** 0, constant": (lambda x: x**0, (0.0,), 1.0, (0.0,)),
    "0 ** -1": (lambda x: x**-1.0, (0.0,), INF, (-INF,)),
    "10 ** 400": (lambda x: x**400, (10.0,), INF, (INF,)),
    "2 ** 5000": (lambda x: 2.0**x, (5000.0,), INF, (INF,)),
    "inf - inf": (lambda x, y: x - y, (INF, INF), NAN, (1.0, -1.0)),
    "inf * 0": (lambda x, y: x * y, (INF, 0.0), NAN, (0.0, INF)),
    "cosh 1000": (lambda x: gw.cosh(x), (1000.0,), INF, (INF,)),
    "sinh -1000": (lambda x: gw.sinh(x), (-1000.0,), -INF, (INF,)),
    "asin 2": (lambda x: gw.asin(x), (2.0,), NAN, (NAN,)),
    "log1p -1": (lambda x: gw.log1p(x), (-1.0,), -INF, (INF,)),
    "sin inf": (lambda x: gw.sin(x), (INF,), NAN, (NAN,)),
    "floor inf": (lambda x: gw.floor(x), (INF,), INF, (0.0,)),
    "round nan": (lambda x: gw.round(x), (NAN,), NAN, (0.0,)),
    "sigmoid -1000": (lambda x: gw.sigmoid(x), (-1000.0,), 0.0, (0.0,)),
    "1e200 squared": (lambda x: gw.square(x), (1e200,), INF, (2e200,)),
}


@pytest.mark.parametrize(("call", "numbers", "value", "gradients"), IEEE.values(), ids=IEEE)
@pytest.mark.parametrize("kind", ["Value", "Tensor"])
def test_ieee(kind: str, call: Any, numbers: Any, value: float, gradients: Any) -> None:
    if kind == "Value":
        inputs: Any = [gw.Value(n) for n in numbers]
        out = call(*inputs)
        out.backward()
        found = [out.data, *(v.grad for v in inputs)]
    else:
        inputs = [gw.tensor(np.array(n), requires_grad=True) for n in numbers]
        out = call(*inputs)
        out.backward()
        found = [out.item(), *(x.grad.item() for x in inputs)]
    np.testing.assert_allclose(found, [value, *gradients], rtol=1e-12)


def test_integers_stay_exact_in_values() -> None:
    a = gw.Value(3)
    out = a * a + a
    out.backward()
    assert (out.data, a.grad) == (12, 7)
    assert type(out.data) is int


@batched("op", ELEMENTWISE)
def test_every_elementwise_definition_passes_its_check(op: Op) -> None:
    for attrs in attributes_of(op):
        check_elementwise(op, {**op.defaults, **attrs})


@batched("op, attrs", CASES)
def test_every_local_derivative_prints(op: Op, attrs: dict[str, Any]) -> None:
    for position in range(len(op.inputs)):
        assert derivative(op, position, **attrs)


MADE_OF_ELEMENTWISE = ("gelu", "gelu_tanh")  # on whole arrays for speed only


@batched("op", [op for op in TABLE.values() if not op.elementwise])
def test_ops_on_whole_arrays_refuse_plain_numbers(op: Op) -> None:
    attrs = dict.fromkeys(op.attributes, 0)
    numbers = [1.0] * len(op.inputs)
    with pytest.raises(OpError, match="has no meaning for plain numbers"):
        op(*numbers, **attrs)
    if op.name in MADE_OF_ELEMENTWISE:
        return
    with pytest.raises(OpError, match="works on whole arrays; a Value is one number"):
        op(*map(gw.Value, numbers), **attrs)


def test_a_value_goes_through_what_an_op_is_made_of() -> None:
    x = gw.Value(0.7)
    out = gw.nn.functional.gelu(x)
    out.backward()
    t = gw.tensor(0.7, dtype=gw.float64, requires_grad=True)
    other = gw.nn.functional.gelu(t)
    other.backward()
    assert math.isclose(out.data, other.item()) and math.isclose(x.grad, t.grad.item())
