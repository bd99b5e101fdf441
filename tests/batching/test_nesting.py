"""vmap inside and around transforms, modules, checkpoints, recordings, compiled functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(4, 3)), RNG.normal(size=3)
BOTH = ((gw, gw), (torch, torch.func))


def f(w: Any, x: Any) -> Any:
    return ((w * x).sin() * x.sum()).sum()


def g(w: Any, x: Any) -> Any:
    return (w * x).tanh() * x.sum()


# Each takes the transforms of a library, and w and x.
NESTED = {
    "vmap(grad)": lambda t, w, x: t.vmap(t.grad(f), (None, 0))(w, x),
    "grad(vmap)": lambda t, w, x: t.grad(lambda w: t.vmap(lambda x: f(w, x))(x).sum())(w),
    "vmap(vmap)": lambda t, w, x: t.vmap(t.vmap(f, (None, 0)), (0, None))(x, x),
    "vmap(grad(grad))": lambda t, w, x: t.vmap(
        t.grad(lambda w, x: (t.grad(f)(w, x) ** 2).sum()), (None, 0)
    )(w, x),
    "grad(vmap(grad))": lambda t, w, x: t.grad(
        lambda w: (t.vmap(t.grad(f, argnums=1), (None, 0))(w, x) ** 2).sum()
    )(w),
    "vmap(grad(vmap))": lambda t, w, x: t.vmap(
        t.grad(lambda w, u: t.vmap(lambda v: f(w * u, v))(x).sum()), (None, 0)
    )(w, x),
    "vmap(grad(vmap(grad)))": lambda t, w, x: t.vmap(
        t.grad(lambda w, u: t.vmap(lambda v: t.grad(f)(w * u, v).sum())(x).sum()), (None, 0)
    )(w, x),
    "vmap(jacrev)": lambda t, w, x: t.vmap(t.jacrev(g), (None, 0))(w, x),
    "vmap(jacfwd)": lambda t, w, x: t.vmap(t.jacfwd(g), (None, 0))(w, x),
    "jacrev(vmap)": lambda t, w, x: t.jacrev(lambda w: t.vmap(lambda x: g(w, x))(x))(w),
    "vmap(hessian)": lambda t, w, x: t.vmap(t.hessian(f), (None, 0))(w, x),
    "vmap(jvp)": lambda t, w, x: t.vmap(lambda x: t.jvp(lambda x: g(w, x), (x,), (w,))[1])(x),
    "jvp(vmap)": lambda t, w, x: t.jvp(t.vmap(lambda x: g(w, x)), (x,), (x * 2,))[1],
    "vmap(vjp)": lambda t, w, x: t.vmap(t.vjp(lambda w: g(w, x), w)[1])(
        x.reshape(1, 4, 3).repeat(2, 1, 1)
    )[0],
    "grad, w in the closure": lambda t, w, x: t.vmap(t.grad(lambda x: f(w, x)))(x),
    "value and aux": lambda t, w, x: t.vmap(
        lambda x: t.grad(lambda x: (f(w, x), x.sum()), has_aux=True)(x)
    )(x)[1],
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # PyTorch's own
@pytest.mark.parametrize("name", NESTED)
def test_nesting_as_torch_func(name: str) -> None:
    found, expected = (
        NESTED[name](transforms, library.tensor(W), library.tensor(X))
        for library, transforms in BOTH
    )
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.slow
def test_nesting_compiled(name: str) -> None:
    w, x = gw.tensor(W), gw.tensor(X)
    compiled = gw.compile(lambda w, x: NESTED[name](gw, w, x))
    np.testing.assert_allclose(
        compiled(w, x).numpy(), NESTED[name](gw, w, x).numpy(), rtol=1e-9, atol=1e-12
    )


def test_backward_outside_reaches_what_the_function_captures() -> None:
    w, b = gw.tensor(W, requires_grad=True), gw.tensor(1.5, requires_grad=True)
    gw.vmap(lambda x: f(w * b, x))(gw.tensor(X)).sum().backward()
    tw, tb = torch.tensor(W, requires_grad=True), torch.tensor(1.5, requires_grad=True)
    torch.func.vmap(lambda x: f(tw * tb, x))(torch.tensor(X)).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), tw.grad.numpy())
    assert b.grad.item() == pytest.approx(tb.grad.item())


def test_a_shared_weight_gets_one_gradient_not_one_per_sample() -> None:
    """The batched weight gradient of a linear layer is one product."""
    w = gw.randn(5, 3, requires_grad=True)
    out = gw.vmap(lambda x: gw.nn.functional.linear(x, w, gw.zeros(5)))(gw.randn(7, 2, 3))
    node = out.grad_fn
    assert node.op.name == "linear" and node.metas[1][0] == (5, 3)


@pytest.mark.parametrize("cut", [lambda x: x.detach(), lambda x: x.data])
def test_detach_inside_cuts_transforms_around(cut: Any) -> None:
    x = gw.tensor(X)
    gradient = gw.grad(lambda x: gw.vmap(lambda a: (cut(a) * a).sum())(x).sum())(x)
    np.testing.assert_allclose(gradient.numpy(), X)


def test_no_grad_inside_holds_around() -> None:
    def half(a: Any) -> Any:
        with gw.no_grad():
            fixed = gw.softmax(a, 0) * a
        return (fixed * a).sum()

    x = gw.tensor(X)
    gradient = gw.grad(lambda x: gw.vmap(half)(x).sum())(x)
    np.testing.assert_allclose(gradient.numpy(), (gw.softmax(x, 1) * x).numpy())


@pytest.mark.parametrize("around", [True, False])
def test_checkpoint(around: bool) -> None:
    w, x = gw.tensor(W), gw.tensor(X)
    region = lambda w, x: gw.checkpoint(f, w, x)
    if around:
        found = gw.grad(lambda w: gw.vmap(region, (None, 0))(w, x).sum())(w)
        expected = gw.grad(lambda w: gw.vmap(f, (None, 0))(w, x).sum())(w)
    else:
        found, expected = (gw.vmap(gw.grad(h), (None, 0))(w, x) for h in (region, f))
    np.testing.assert_allclose(found.numpy(), expected.numpy())


def test_checkpoint_around_vmap_draws_the_same_again() -> None:
    gw.manual_seed(0)
    x = gw.ones(4, 30, requires_grad=True)
    drop = gw.vmap(lambda a: gw.nn.functional.dropout(a * 2), randomness="different")
    out = gw.checkpoint(drop, x)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), out.detach().numpy())


def test_a_compiled_function_inside() -> None:
    step = gw.compile(lambda x: x.sin() * 2)
    x = gw.tensor(X)
    np.testing.assert_allclose(gw.vmap(step)(x).numpy(), np.sin(X) * 2)


def test_reductions_of_one_number_for_each_sample_compiled() -> None:
    x = gw.tensor([3.0, -1.0, 0.5])
    for name in ("sum", "mean", "prod", "amax", "amin", "max", "all", "any", "norm"):
        each = gw.vmap(lambda number, name=name: getattr(gw, name)(number))
        found, expected = gw.compile(each)(x), each(x)
        assert found.dtype == expected.dtype and found.tolist() == expected.tolist(), name


def test_a_recording_shows_the_ops_on_all_samples() -> None:
    w = gw.tensor(W, requires_grad=True)
    with gw.record() as trace:
        gw.vmap(lambda x: (x * w).sum())(gw.tensor(X)).sum().backward()
    made = [(node.op, node.metas[0][0]) for node in trace.nodes if node.op]
    assert made == [("mul", (4, 3)), ("sum", (4,)), ("sum", ())]


# -- modules ---------------------------------------------------------------------------------------


def network(library: Any) -> Any:
    nn = library.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3),
    )  # fmt: skip


def test_gradients_of_each_sample_are_those_of_a_loop() -> None:
    gw.manual_seed(0)
    model = network(gw)
    images, labels = gw.randn(5, 1, 8, 8), gw.randint(0, 3, (5,))

    def loss(x: Any, y: Any) -> Any:
        return gw.cross_entropy(model(x.unsqueeze(0)), y.unsqueeze(0))

    found = gw.vmap(gw.grad(loss))(images, labels)
    for i in range(5):
        expected = gw.grad(loss)(images[i], labels[i])
        np.testing.assert_allclose(
            found[i].detach().numpy(), expected.detach().numpy(), rtol=1e-3, atol=1e-6
        )


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("inside", [True, False])
def test_recurrent_networks(kind: str, inside: bool) -> None:
    gw.manual_seed(0)
    model = getattr(gw.nn, kind)(3, 4).double()
    x = gw.randn(3, 5, 2, 3, dtype=gw.float64)  # (sample, time, batch, features)
    loss = lambda x: model(x)[0].sin().sum()
    if inside:
        found = gw.vmap(gw.grad(loss))(x)
    else:
        found = gw.grad(lambda x: gw.vmap(loss)(x).sum())(x)
    for i in range(3):
        np.testing.assert_allclose(
            found[i].detach().numpy(), gw.grad(loss)(x[i]).detach().numpy(), atol=1e-10
        )


def test_a_batch_norm_in_training_explains_itself() -> None:
    model = gw.nn.BatchNorm1d(3)
    with pytest.raises(gw.VmapError, match=r"(?s)differ between samples.*Fix"):
        gw.vmap(model)(gw.randn(4, 5, 3))
    model.eval()
    assert gw.vmap(model)(gw.randn(4, 5, 3)).shape == (4, 5, 3)


# -- custom functions ------------------------------------------------------------------------------


class Cube(gw.autograd.Function):
    """x³ with a wrong derivative, 5 x², which tells that it was used."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 5 * g * x**2


class WithRule(Cube):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        assert info.batch_size == 4 and info.randomness == "error"
        return Cube.apply(x), in_dims[0]


class WithoutRule(Cube):
    generate_vmap_rule = False


def test_a_custom_function_inside() -> None:
    found = gw.vmap(gw.grad(lambda x: Cube.apply(x).sum()))(gw.tensor(X))
    np.testing.assert_allclose(found.numpy(), 5 * X**2)


def test_a_custom_function_with_a_rule() -> None:
    found = gw.grad(lambda x: gw.vmap(WithRule.apply)(x).sum())(gw.tensor(X))
    np.testing.assert_allclose(found.numpy(), 5 * X**2)


def test_a_custom_function_without_a_rule_is_refused() -> None:
    with pytest.raises(gw.VmapError, match=r"(?s)WithoutRule.*generate_vmap_rule.*vmap\(info"):
        gw.vmap(WithoutRule.apply)(gw.tensor(X))
    found = gw.grad(lambda x: gw.vmap(Cube.apply)(x).sum())(gw.tensor(X))  # by a rule of its own
    np.testing.assert_allclose(found.numpy(), 5 * X**2)


def _filled_in(make: Any) -> Any:
    def function(y: Any) -> Any:
        made = make(y)
        made[0] = y[1]
        made += y
        return made.sum()

    return function


@pytest.mark.parametrize(
    "make",
    [
        lambda y: y.new_zeros(2),
        lambda y: y.new_empty((2,)).fill_(0.0),
        lambda y: y.new_ones(2),
        lambda y: y.new_full((2,), 3.0),
        lambda y: (torch if isinstance(y, torch.Tensor) else gw).zeros_like(y),
        lambda y: (torch if isinstance(y, torch.Tensor) else gw).full_like(y, 2.0),
    ],
)
def test_a_tensor_made_like_a_batched_one_is_filled_in_place(make: Any) -> None:
    function = _filled_in(make)
    for transformed in (lambda f, m: m.vmap(f), lambda f, m: m.vmap(m.grad(f))):
        ours = transformed(function, gw.func)(gw.arange(6.0).reshape(3, 2))
        theirs = transformed(function, torch.func)(torch.arange(6.0).reshape(3, 2))
        assert ours.tolist() == theirs.tolist()
    with pytest.raises(gw.VmapError, match="which the samples share"):
        gw.vmap(lambda y: gw.zeros(2).add_(y))(gw.ones(3, 2))
