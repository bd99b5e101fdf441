"""Defining ops: mistakes are caught and explained, and a right definition gets everything."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.printers.formulas.formula import derivative

BRANCHES = r"rule for input x: a rule may not branch.*Use gradwalk.where"
NO_FORMULA = r"rule for input x: it cannot be read as a formula.*gradwalk.sqrt instead of np.sqrt"

# what was done wrong -> (the definition, what the message says)
AT_DEFINITION: dict[str, tuple[Any, str]] = {
    "if": (lambda: gw.elementwise("f", np.abs, partials=[lambda x: 1 if x > 0 else -1]), BRANCHES),
    "and": (lambda: gw.elementwise("f", np.abs, partials=[lambda x: x > 0 and 1]), BRANCHES),
    "max()": (lambda: gw.elementwise("f", np.abs, vjp=[lambda g, x: g * max(x, 0)]), BRANCHES),
    "while": (
        lambda: gw.elementwise("f", np.abs, partials=[lambda x: [0 for _ in [0] if x == 1]]),
        BRANCHES,
    ),
    "np.sqrt": (lambda: gw.elementwise("f", np.abs, partials=[lambda x: np.sqrt(x)]), NO_FORMULA),
    "np.where": (
        lambda: gw.elementwise("f", np.abs, partials=[lambda x: np.where(x, 1, 0)]), NO_FORMULA,
    ),
    "math.exp": (lambda: gw.elementwise("f", np.abs, partials=[lambda x: math.exp(x)]), NO_FORMULA),
    "float()": (lambda: gw.elementwise("f", np.abs, partials=[lambda x: float(x)]), NO_FORMULA),
    "x.copy()": (lambda: gw.elementwise("f", np.abs, partials=[lambda x: x.copy()]), NO_FORMULA),
    "unknown name": (
        lambda: gw.elementwise("f", np.abs, partials=[lambda z: z]),
        "the rule for input x asks for 'z', which is not available. "
        "Available: out, x, x_shape",
    ),
    "unknown name in define": (
        lambda: gw.define("f", lambda x, *, axis: np.sum(x, axis), vjp=[lambda g, dim: g]),
        "asks for 'dim'.*Available: attrs, axis, g, out, x, x_shape",
    ),
    "too few rules": (
        lambda: gw.elementwise("f", np.add, partials=[1]),
        r"2 input\(s\) \(x, y\) but 1 derivative rule",
    ),
    "too many rules": (
        lambda: gw.define("f", lambda x: x, vjp=[lambda g: g, None]),
        r"1 input\(s\) \(x\) but 2 derivative rule",
    ),
    "no rules": (lambda: gw.elementwise("f", np.abs), "has no derivative: give `partials`"),
    "both kinds": (
        lambda: gw.elementwise("f", np.abs, partials=[1], vjp=[1]), "`partials` or `vjp`, not both",
    ),
    "partial with g": (
        lambda: gw.elementwise("f", np.abs, partials=[lambda g, x: g * x]),
        "the partial for input x asks for g.*as `vjp=` instead",
    ),
    "array from a rule": (
        lambda: gw.elementwise("f", np.abs, partials=[lambda x: np.ones(2) * x]),
        r"it returns an array of shape \(2,\); it must return one number for one number",
    ),
    "nothing from a rule": (
        lambda: gw.elementwise("f", np.abs, partials=[lambda x: None]), "it returns None",
    ),
    "text from a rule": (
        lambda: gw.elementwise("f", np.abs, partials=[lambda x: "2x"]), "it returns '2x'",
    ),
    "residual without expand": (
        lambda: gw.define("f", lambda x: (x, x), vjp=[lambda g, r: g * r], residuals=["r"]),
        "keeps residuals or has a joint rule, so it needs `expand`",
    ),
    "keywords": (
        lambda: gw.elementwise("f", lambda x, **options: x, partials=[1]),
        "must name its attributes",
    ),
    "unreadable forward": (
        lambda: gw.elementwise("f", max, partials=[1]), "cannot be read; wrap it in a lambda",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("definition", "message"), AT_DEFINITION.values(), ids=AT_DEFINITION)
def test_mistakes_at_definition(definition: Any, message: str) -> None:
    with pytest.raises(gw.OpError, match=f"(?s)op 'f'.*{message}"):
        definition()


# what was done wrong -> (the op, what the message says at its first use)
AT_FIRST_USE: dict[str, tuple[Any, str]] = {
    "branch": (
        gw.define("f", lambda x: x, vjp=[lambda g, x: g if x.sum() > 0 else -g]), BRANCHES,
    ),
    "NumPy": (gw.define("f", lambda x: np.exp(x), vjp=[lambda g, x: g * np.exp(x)]), NO_FORMULA),
    "branch, attribute": (
        gw.elementwise("f", lambda x, *, k: x * k, partials=[lambda x, k: k if x > 0 else -k]),
        BRANCHES,
    ),
    "not elementwise": (
        gw.elementwise("f", lambda x: np.sum(x), partials=[lambda x: x]),
        r"forward returned shape \(\) for operands of shape \(3,\); an elementwise op returns "
        r"\(3,\).*gradwalk.define",
    ),
    "nothing from forward": (
        gw.elementwise("f", lambda x: None, partials=[1]),
        r"forward returned NoneType \(None\); it must return an array of real numbers",
    ),
    "complex from forward": (
        gw.elementwise("f", lambda x: x * 1j, partials=[1]), "an array of real numbers",
    ),
    "list from forward": (gw.define("f", lambda x: [1.0], vjp=[lambda g: g]), "returned list"),
    "one of several": (
        gw.define("f", lambda x: x, vjp=[lambda g: g[0]], outputs=("a", "b")), "returns a tuple",
    ),
}  # fmt: skip


@pytest.mark.parametrize("needs", [True, False], ids=["with gradient", "without"])
@pytest.mark.parametrize(("op", "message"), AT_FIRST_USE.values(), ids=AT_FIRST_USE)
def test_mistakes_at_first_use(op: gw.Op, message: str, needs: bool) -> None:
    x = gw.tensor([1.0, 2.0, 3.0], requires_grad=needs)
    attrs = dict.fromkeys(op.attributes, 2.0)
    with pytest.raises(gw.OpError, match=f"(?s)op 'f'.*{message}"):
        op(x, **attrs)


@pytest.mark.parametrize(
    ("op", "shape", "got"),
    [
        (gw.define("total", lambda x: np.sum(x), vjp=[lambda g: g]), (3,), r"\(\)"),
        (gw.define("turned", lambda x: x.T, vjp=[lambda g: g]), (2, 3), r"\(3, 2\)"),
        (gw.define("row", lambda x: x, vjp=[lambda g: gw.sum(g, 0)]), (2, 3), r"\(3,\)"),
    ],
    ids=lambda part: getattr(part, "name", ""),
)
def test_a_gradient_of_the_wrong_shape(op: gw.Op, shape: tuple[int, ...], got: str) -> None:
    x = gw.ones(shape, requires_grad=True)
    out = op(x)
    message = rf"{op.name} returned a gradient of shape {got} for its input x of shape"
    with pytest.raises(gw.AutogradError, match=message):
        out.backward(gradient=gw.ones(out.shape))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gw.tanh(x, x), r"tanh takes 1 operand\(s\) \(x\); it was called with 2"),
        (lambda x: gw.add(x), r"add takes 2 operand\(s\) \(x, y\); it was called with 1"),
        (lambda x: gw.leaky_relu(x, slope=2), r"leaky_relu: unknown argument\(s\) slope"),
        (lambda x: TABLE["power"](x), r"power: missing argument\(s\) exponent"),
    ],
)
def test_wrong_calls(call: Any, message: str) -> None:
    with pytest.raises(gw.OpError, match=message):
        call(gw.ones(2))


# -- a right definition ---------------------------------------------------------------------------

swish = gw.elementwise(
    "swish",
    lambda x: x / (1 + np.exp(-x)),
    partials=[lambda x: gw.sigmoid(x) * (1 + x * (1 - gw.sigmoid(x)))],
)
scaled_distance = gw.elementwise(
    "scaled_distance",
    lambda x, y, *, scale=1.0: scale * np.abs(x - y),
    vjp=[
        lambda g, x, y, scale: g * scale * gw.sign(x - y),
        lambda g, x, y, scale: -g * scale * gw.sign(x - y),
    ],
)
weighted_total = gw.define(
    "weighted_total",
    lambda x, w: np.sum(x * x * w, axis=-1),
    vjp=[
        lambda g, x, w: 2 * gw.unsqueeze(g, -1) * x * w,
        lambda g, x: gw.unsqueeze(g, -1) * x * x,
    ],
    shape=lambda x, w: x[:-1],
)


def test_a_users_op_on_floats_arrays_values_and_tensors() -> None:
    expected = 2 / (1 + math.exp(-2))
    assert swish(2.0) == pytest.approx(expected)
    np.testing.assert_allclose(swish(np.array([2.0, 2.0])), [expected] * 2)
    value = gw.Value(2.0)
    out = swish(value)
    out.backward()
    tensor = gw.tensor([2.0, -1.0], dtype=gw.float64, requires_grad=True)
    swish(tensor).sum().backward()
    assert out.data == pytest.approx(expected)
    assert tensor.grad is not None
    assert value.grad == pytest.approx(tensor.grad[0].item())
    assert repr(out) == f"Value(data={out.data}, grad=1)"
    assert repr(swish(tensor).grad_fn) == "<Swish>"


def test_a_users_op_has_second_derivatives_and_a_formula() -> None:
    x = gw.tensor([0.5, -1.5], dtype=gw.float64, requires_grad=True)
    (slope,) = gw.autograd.grad(swish(x).sum(), x, create_graph=True)
    (bend,) = gw.autograd.grad(slope.sum(), x)
    s = 1 / (1 + np.exp(-x.detach().numpy()))
    expected = s * (1 - s) * (2 + x.detach().numpy() * (1 - 2 * s))
    np.testing.assert_allclose(bend.numpy(), expected, rtol=1e-12)
    assert derivative(swish) == "σ(x) × (1 + x × (1 − σ(x)))"


def test_a_users_op_with_attributes_broadcasts_and_keeps_float32() -> None:
    x = gw.tensor([[1.0], [4.0]], requires_grad=True)
    y = gw.tensor([2.0, 3.0, 5.0], requires_grad=True)
    out = scaled_distance(x, y, scale=0.5)
    assert out.dtype == gw.float32
    out.sum().backward()
    assert x.grad is not None and y.grad is not None
    assert x.grad.tolist() == [[-1.5], [0.5]]
    assert y.grad.tolist() == [0.0, 0.0, 1.0]
    assert scaled_distance(1.0, 3.0, scale=2.0) == 4.0


def test_a_users_op_on_whole_arrays_to_second_order() -> None:
    x = gw.randn(3, 4, dtype=gw.float64, requires_grad=True)
    w = gw.randn(4, dtype=gw.float64, requires_grad=True)
    # w is broadcast inside: the rule must give its own shape, or the op say broadcasts=True
    with pytest.raises(gw.AutogradError, match=r"shape \(3, 4\) for its input w of shape \(4,\)"):
        weighted_total(x, w).sum().backward()
    full = w.broadcast_to(3, 4)
    (slope,) = gw.autograd.grad(weighted_total(x, full).sum(), x, create_graph=True)
    np.testing.assert_allclose(slope.detach().numpy(), (2 * x * w).detach().numpy())
    (mixed,) = gw.autograd.grad(slope.sum(), w)
    np.testing.assert_allclose(mixed.numpy(), (2 * x.sum(0)).detach().numpy())


def test_a_rule_may_pick_by_a_mask() -> None:
    kept = gw.define(
        "kept",
        lambda x, mask: np.where(mask, x, 0),
        vjp=[lambda g, mask, x_shape: gw.where(mask, g, 0), None],
    )
    picked = gw.define(
        "picked", lambda x, mask: x[mask].sum(), vjp=[lambda g, x, mask: g * (x * 0 + mask), None]
    )
    x = gw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    mask = gw.tensor([True, False, True])
    (kept(x, mask).sum() + picked(x, mask)).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 0.0, 2.0]


def test_an_input_without_a_gradient() -> None:
    stop = gw.elementwise("stop", lambda x, y: x * y, partials=[lambda y: y, None])
    x, y = (gw.tensor([2.0], requires_grad=True) for _ in range(2))
    stop(x, y).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0]
    assert y.grad is None
