"""`autograd.functional` and `func`: their results have PyTorch's numbers and containers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched
from tests.engine.both import assert_same

# torch.func loads a part of PyTorch that PyTorch itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")


def square(x: Any) -> Any:
    return x**2 + x.sum()


def product(x: Any, y: Any) -> Any:
    return x * y.exp(), (x * x * y).sum()


def number(x: Any, y: Any) -> Any:
    return (x**3 * y.sin()).sum()


# Each with f = autograd.functional and t = a tensor.
CASES: dict[str, Callable[[Any, Any], Any]] = {
    "jacobian": lambda f, t: f.jacobian(square, t([1.0, 2.0])),
    "jacobian forward": lambda f, t: f.jacobian(
        square, t([1.0, 2.0]), vectorize=True, strategy="forward-mode"
    ),
    "jacobian of several": lambda f, t: f.jacobian(product, (t([1.0, 2.0]), t([0.5, 0.1]))),
    "hessian": lambda f, t: f.hessian(lambda x: (x**3).sum(), t([1.0, 2.0])),
    "hessian of several": lambda f, t: f.hessian(number, (t([1.0, 2.0]), t([0.5, 0.1]))),
    "vjp": lambda f, t: f.vjp(square, t([1.0, 2.0]), t([3.0, 4.0])),
    "vjp of a number": lambda f, t: f.vjp(number, (t([1.0, 2.0]), t([0.5, 0.1]))),
    "jvp": lambda f, t: f.jvp(product, (t([1.0, 2.0]), t([0.5, 0.1])), (t([1.0, 0.0]),) * 2),
    "hvp": lambda f, t: f.hvp(number, (t([1.0, 2.0]), t([0.5, 0.1])), (t([1.0, 0.3]),) * 2),
    "vhp": lambda f, t: f.vhp(lambda x: (x**3).sum(), t([1.0, 2.0]), t([1.0, 0.3])),
}


@batched("name", CASES)
def test_results_are_pytorchs(name: str) -> None:
    assert_same(lambda m: CASES[name](m.autograd.functional, partial(m.tensor, dtype=m.float64)))


def test_a_result_keeps_its_history_if_asked() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    gw.autograd.functional.jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6.0, 12.0]


def test_strict_refuses_an_output_that_does_not_depend_on_the_inputs() -> None:
    with pytest.raises(RuntimeError, match="strict=True"):
        gw.autograd.functional.jacobian(lambda x: gw.ones(2), gw.ones(2), strict=True)
    with pytest.raises(RuntimeError, match="needs v"):
        gw.autograd.functional.vjp(square, gw.ones(2))


def gradient_of_parameters(m: Any) -> Any:
    """The gradient and the value of a loss, and what the module keeps."""
    module = m.nn.BatchNorm1d(3).eval()
    x = m.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]])
    given = {"weight": m.tensor([1.0, 2.0, 3.0]), "bias": m.tensor([0.5, 0.0, 0.1])}
    loss = lambda given: (m.func.functional_call(module, given, (x,)) ** 3).sum()
    gradient, value = m.func.grad_and_value(loss)(given)
    assert isinstance(module.weight, m.nn.Parameter)
    return [value, gradient["weight"], gradient["bias"], module.weight, module.running_mean]


def test_the_gradient_of_a_module_as_a_function_of_its_parameters() -> None:
    for ours, theirs in zip(*map(gradient_of_parameters, (gw, torch)), strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-6)


def test_functional_call_ties_weights_and_names_what_it_does_not_know() -> None:
    model = gw.nn.Sequential(gw.nn.Linear(2, 2, bias=False), gw.nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    given = {"0.weight": 2 * gw.eye(2)}
    x = gw.ones(1, 2)
    assert gw.func.functional_call(model, given, x).tolist() == [[4.0, 4.0]]
    untied = gw.func.functional_call(model, given, x, tie_weights=False)
    assert gw.allclose(untied, 2 * model[1](x))
    with pytest.raises(RuntimeError, match=r"it has no 7\.weight"):
        gw.func.functional_call(model, {"7.weight": x}, x)
    with pytest.raises(RuntimeError, match=r"missing 0\.weight"):
        gw.func.functional_call(model[:1], {}, x, strict=True)


def test_functional_call_compiles() -> None:
    layer = gw.nn.Linear(2, 1, bias=False)
    call = gw.compile(lambda weight, x: gw.func.functional_call(layer, {"weight": weight}, x))
    for scale in (1.0, 2.0):
        assert call(scale * gw.ones(1, 2), gw.ones(2)).tolist() == [2 * scale]


def test_models_are_stacked() -> None:
    models = [gw.nn.BatchNorm1d(3) for _ in range(2)]
    parameters, buffers = gw.func.stack_module_state(models)
    assert parameters["weight"].shape == (2, 3) and parameters["weight"].requires_grad
    assert buffers["running_mean"].shape == (2, 3)


def test_functorchs_older_names() -> None:
    model, x = gw.nn.Sequential(gw.nn.Linear(3, 2), gw.nn.BatchNorm1d(2)), gw.randn(4, 3)
    function, parameters, buffers = gw.func.make_functional_with_buffers(model.eval())
    assert [p.shape for p in parameters] == [p.shape for p in model.parameters()]
    assert all(p.requires_grad for p in parameters)
    assert gw.equal(function(parameters, buffers, x), model(x))
    doubled = [2 * b for b in buffers]
    assert not gw.equal(function(parameters, doubled, x), model(x))
    layer, weights = gw.func.make_functional(model[0], disable_autograd_tracking=True)
    assert not any(w.requires_grad for w in weights) and model[0].weight.requires_grad
    assert gw.equal(layer(weights, x), model[0](x))
    with pytest.raises(ValueError, match="function of 2 parameters was given 1"):
        layer(weights[:1], x)
    models = [gw.nn.Linear(3, 2) for _ in range(5)]
    one, *stacked = gw.func.combine_state_for_ensemble(models)
    each = gw.vmap(one, in_dims=(0, 0, None))(*stacked, x)
    assert gw.allclose(each, gw.stack([model(x) for model in models]))


def _apart(x: Any) -> Any:
    """A result that requires a gradient, and does not depend on x."""
    return x.long().float().requires_grad_().clone()


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "hvp", "vhp"])
def test_strict_finds_what_does_not_depend_on_the_inputs(name: str) -> None:
    function = getattr(gw.autograd.functional, name)
    second = name in ("hessian", "hvp", "vhp")
    x, one = gw.tensor([1.5, 2.5]), gw.ones(2)
    direction = () if name in ("jacobian", "hessian") else (one,)
    wrong = [lambda x: x.detach().sum() if second else x.detach()]
    wrong.append(lambda x: _apart(x).sum() if second else _apart(x))
    if second:
        wrong.append(lambda x: (3 * x).sum())  # its gradient is constant
    for func in wrong:
        with pytest.raises(RuntimeError, match=r"strict=True: .* does not depend on input 0"):
            function(func, x, *direction, strict=True)
        derivative = function(func, x, *direction)
        derivative = derivative[1] if direction else derivative
        assert not derivative.any()


def test_a_graph_is_created_inside_no_grad() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    with gw.no_grad():
        matrix = gw.autograd.functional.jacobian(lambda x: x**2, x, create_graph=True)
    (slope,) = gw.autograd.grad(matrix.sum(), x)
    assert slope.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="the derivative does not depend on the inputs"):
        gw.autograd.functional.jacobian(lambda x: 2 * x, x, create_graph=True, strict=True)
