"""grad, value_and_grad, vjp, jvp, jacrev, jacfwd, hessian, hvp: against torch.func, and nested."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.engine.both import assert_equal
from tests.ops.samples.table import Sample, samples_of_every_op

# torch.func loads a part of PyTorch that PyTorch itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

X = np.array([0.3, -0.7, 1.1])
Y = np.array([0.9, 0.4, -0.5])
M = np.array([[0.2, -0.4, 0.6], [1.0, 0.3, -0.8]])


def plain(tree: Any) -> Any:
    """Containers of tensors as containers of lists."""
    if isinstance(tree, dict):
        return [[key, plain(value)] for key, value in tree.items()]
    if isinstance(tree, (tuple, list)):
        return [plain(part) for part in tree]
    if hasattr(tree, "detach"):
        return [list(tree.shape), tree.detach().tolist()]
    return tree


# Each in both spellings: f is the library's functions, t makes a tensor.
WITH_TORCH: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, t: f.grad(lambda x: (x**3).sum())(t(X)),
    "grad of the second": lambda f, t: f.grad(lambda x, y: (x * y.sin()).sum(), 1)(t(X), t(Y)),
    "grad of both": lambda f, t: f.grad(lambda x, y: (x * y).sum(), (0, 1))(t(X), t(Y)),
    "grad of a dict": lambda f, t: f.grad(lambda p: (p["w"] * p["b"][0] ** 2).sum())(
        {"w": t(X), "b": [t(Y), t(X)]}
    ),
    "grad with aux": lambda f, t: f.grad(lambda x: ((x * x).sum(), x * 2), has_aux=True)(t(X)),
    "value_and_grad": lambda f, t: f.grad_and_value(lambda x: x.exp().sum())(t(X)),
    "value_and_grad with aux": lambda f, t: f.grad_and_value(
        lambda x, y: ((x * y).sum(), {"out": x + y}), (0, 1), has_aux=True
    )(t(X), t(Y)),
    "vjp": lambda f, t: [
        [value, pull(t(Y))] for value, pull in [f.vjp(lambda x: x.sin(), t(X))]
    ],
    "vjp of two": lambda f, t: f.vjp(lambda x, y: x * y, t(X), t(Y))[1](t(Y)),
    "vjp of a pair": lambda f, t: f.vjp(lambda x: (x.sin(), x * x), t(X))[1]((t(Y), t(X))),
    "vjp twice": lambda f, t: [
        pull(v) for pull in [f.vjp(lambda x: x**3, t(X))[1]] for v in (t(Y), t(X))
    ],
    "vjp with aux": lambda f, t: [
        [value, pull(t(Y)), aux]
        for value, pull, aux in [f.vjp(lambda x: (x.sin(), x + 1), t(X), has_aux=True)]
    ],
    "jvp": lambda f, t: f.jvp(lambda x: x.sin() * x, (t(X),), (t(Y),)),
    "jvp of two": lambda f, t: f.jvp(lambda x, y: x * y.exp(), (t(X), t(Y)), (t(Y), t(X))),
    "jvp of a dict": lambda f, t: f.jvp(
        lambda p: {"a": p["x"] * p["y"], "b": p["x"]},
        ({"x": t(X), "y": t(Y)},), ({"x": t(Y), "y": t(X)},),
    ),
    "jvp with aux": lambda f, t: f.jvp(
        lambda x: (x.sin(), x * 2), (t(X),), (t(Y),), has_aux=True
    ),
    "jvp of matmul": lambda f, t: f.jvp(lambda m, x: m @ x, (t(M), t(X)), (t(M) * 2, t(Y))),
    "jvp of an argument changed in place": lambda f, t: f.jvp(
        lambda x, y: x.mul_(y).sum() * x, (t(X), t(Y)), (t(Y), t(X))
    ),
    "jvp of a part changed in place": lambda f, t: f.jvp(
        lambda x: (x[:1].mul_(3), x * x.sum())[1], (t(X),), (t(Y),)
    ),
    "jacrev": lambda f, t: f.jacrev(lambda x: x.sin() * x.sum())(t(X)),
    "jacrev with others": lambda f, t: f.jacrev(lambda x: (x.sin(), x.sum()), has_aux=True)(t(X)),
    "jacrev in chunks": lambda f, t: f.jacrev(lambda x: x.sin(), chunk_size=2)(t(X)),
    "jacfwd with others": lambda f, t: f.jacfwd(lambda x: (x.sin(), x.sum()), has_aux=True)(t(X)),
    "jacrev of a matrix": lambda f, t: f.jacrev(lambda m: m @ m.T)(t(M)),
    "jacrev of both": lambda f, t: f.jacrev(lambda x, y: x * y, (0, 1))(t(X), t(Y)),
    "jacrev of a dict": lambda f, t: f.jacrev(lambda p: p["x"] * p["y"].sum())(
        {"x": t(X), "y": t(Y)}
    ),
    "jacrev of several": lambda f, t: f.jacrev(lambda x: {"a": x.sin(), "b": x.sum()})(t(X)),
    "jacfwd": lambda f, t: f.jacfwd(lambda x: x.sin() * x.sum())(t(X)),
    "jacfwd of a matrix": lambda f, t: f.jacfwd(lambda m: m @ m.T)(t(M)),
    "jacfwd of both": lambda f, t: f.jacfwd(lambda x, y: x * y, (0, 1))(t(X), t(Y)),
    "jacfwd of the second": lambda f, t: f.jacfwd(lambda x, y: x * y, 1)(t(X), t(Y)),
    "jacfwd of several": lambda f, t: f.jacfwd(lambda x: (x.sin(), x.sum()))(t(X)),
    "jacobian of a constant": lambda f, t: f.jacrev(lambda x: (x * 0).detach() + 1)(t(X)),
    "hessian": lambda f, t: f.hessian(lambda x: (x.sin() * x.sum()).sum())(t(X)),
    "hessian of a matrix": lambda f, t: f.hessian(lambda m: ((m @ m.T) ** 2).sum())(t(M)),
    "hessian of both": lambda f, t: f.hessian(lambda x, y: (x**2 * y).sum(), (0, 1))(t(X), t(Y)),
    "jacrev of jacfwd": lambda f, t: f.jacrev(f.jacfwd(lambda x: x**3))(t(X)),
    "jacfwd of jacfwd": lambda f, t: f.jacfwd(f.jacfwd(lambda x: (x**3).sum()))(t(X)),
    "jacrev of jacrev of jacrev": lambda f, t: f.jacrev(
        f.jacrev(f.jacrev(lambda x: (x**4).sum() * x[0]))
    )(t(X)),
    "jvp of grad": lambda f, t: f.jvp(f.grad(lambda x: (x**4).sum()), (t(X),), (t(Y),)),
    "grad of jvp": lambda f, t: f.grad(
        lambda x: f.jvp(lambda u: u.sin() * u.sum(), (x,), (t(Y),))[1].sum()
    )(t(X)),
    "grad of jvp by its tangent": lambda f, t: f.grad(
        lambda v: (f.jvp(lambda u: u**3, (t(X),), (v,))[1] ** 2).sum()
    )(t(Y)),
    "jvp of jvp": lambda f, t: f.jvp(
        lambda x: f.jvp(lambda u: u.exp() * u, (x,), (x * 2,))[1], (t(X),), (t(Y),)
    ),
    "grad of vjp": lambda f, t: f.grad(
        lambda x: f.vjp(lambda u: u**3, x)[1](t(Y))[0].sum()
    )(t(X)),
    "hessian of jvp": lambda f, t: f.hessian(
        lambda x: f.jvp(lambda u: (u**4).sum(), (x,), (t(Y),))[1]
    )(t(X)),
    "grad of grad of grad": lambda f, t: f.grad(
        lambda x: f.grad(lambda y: f.grad(lambda z: z**5)(y))(x)
    )(t(X)[0]),
    # d/dx (x · d/dy (x + y)) must be 1: the inner derivative is not of x.
    "two variables at one point": lambda f, t: f.grad(
        lambda x: x * f.grad(lambda y: x + y)(x)
    )(t(X)[0]),
    "two variables in jvp": lambda f, t: f.jvp(
        lambda x: x * f.jvp(lambda y: x + y, (x,), (t(Y)[0],))[1], (t(X)[0],), (t(Y)[1],)
    ),
    "indexed": lambda f, t: f.hessian(lambda x: (x[[0, 0, 1]] * x[1:].sum() * x[0]).sum())(t(X)),
    "cross entropy": lambda f, t: f.hessian(
        lambda m: -(m.log_softmax(1)[0, 1] + m.softmax(1)[1, 2]).sum()
    )(t(M)),
}  # fmt: skip


class Ours:
    """gradwalk's transforms under torch.func's names."""

    grad, vjp, jvp = staticmethod(gw.grad), staticmethod(gw.vjp), staticmethod(gw.jvp)
    jacrev, jacfwd = staticmethod(gw.jacrev), staticmethod(gw.jacfwd)
    hessian = staticmethod(gw.hessian)

    @staticmethod
    def grad_and_value(function: Any, argnums: Any = 0, has_aux: bool = False) -> Any:
        return lambda *args: gw.value_and_grad(function, argnums, has_aux)(*args)[::-1]


@pytest.mark.parametrize("name", WITH_TORCH)
def test_as_torch_func(name: str) -> None:
    ours = WITH_TORCH[name](Ours, gw.tensor)
    theirs = WITH_TORCH[name](torch.func, torch.tensor)
    assert_equal(plain(ours), plain(theirs))


# -- forward mode of every op --------------------------------------------------------------------


# Where moving an element a little is not what the derivative means. Forward and reverse mode must
# still agree there, and tests/ops compares both with PyTorch.
NOT_BY_DIFFERENCES = {
    "cast": "float32 is too coarse",
    "cummax": "a sample has ties, and all of the gradient goes to one of them",
    "cummin": "the same",
    "cholesky": "one half of the symmetric matrix is read, both halves share the gradient",
    "eigh": "the same",
    "embedding": "the padding row has no gradient on purpose",
}


@samples_of_every_op()
def test_forward_mode_of_every_op(sample: Sample) -> None:
    """⟨u, J v⟩ by jvp, by vjp, and (J v) by finite differences."""
    arrays = sample.arrays()
    floating = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    if not floating:
        return

    def function(*moving: Any) -> tuple[Any, ...]:
        operands = [gw.from_numpy(a) for a in arrays]
        for place, operand in zip(floating, moving, strict=True):
            operands[place] = operand
        found = sample.ours(gw, *operands)
        return found if isinstance(found, tuple) else (found,)

    source = np.random.default_rng(sample.seed)
    primals = tuple(gw.tensor(arrays[i]) for i in floating)
    tangents = tuple(gw.tensor(source.uniform(-1, 1, p.shape)) for p in primals)
    values, moved = gw.jvp(function, primals, tangents)
    also, pull = gw.vjp(function, *primals)
    assert_equal(plain(values), plain(also))
    cotangents = tuple(gw.tensor(source.uniform(0.5, 1.5, v.shape)) for v in values)
    forward = sum(float((u * m).sum()) for u, m in zip(cotangents, moved, strict=True))
    reverse = sum(float((t * p).sum()) for t, p in zip(tangents, pull(cotangents), strict=True))
    for m, v in zip(moved, values, strict=True):
        assert (m.shape, m.dtype) == (v.shape, v.dtype)
    if all(np.isfinite(v.numpy()).all() for v in values):  # the mean of nothing is not
        rounding = 1e-6 if sample.op == "cast" else 1e-10  # through float32
        assert forward == pytest.approx(reverse, rel=rounding, abs=1e-12)
    if sample.op not in NOT_BY_DIFFERENCES:
        assert_moves_as(function, primals, tangents, values, moved)


def assert_moves_as(function: Any, primals: Any, tangents: Any, values: Any, moved: Any) -> None:
    eps = 1e-6
    ahead, behind = (
        function(*(p + sign * eps * t for p, t in zip(primals, tangents, strict=True)))
        for sign in (1, -1)
    )
    for a, b, v, m in zip(ahead, behind, values, moved, strict=True):
        if v.dtype.kind == "f" and np.isfinite(v.numpy()).all():
            slope = (a.numpy() - b.numpy()) / (2 * eps)
            close = dict(rtol=2e-5, atol=2e-5 * (1 + abs(slope).max(initial=0)))
            if v.dtype == gw.float64:
                np.testing.assert_allclose(m.numpy(), slope, **close)


# -- hvp and containers --------------------------------------------------------------------------


def test_hvp_is_the_hessian_times_a_direction() -> None:
    function = lambda x: (x.sin() * x.sum()).sum()
    x, v = gw.tensor(X), gw.tensor(Y)
    np.testing.assert_allclose(gw.hvp(function, x, v), gw.hessian(function)(x) @ v, rtol=1e-12)
    one, other = gw.hvp(lambda x, y: (x * x * y).sum(), (x, v), (v, x))
    np.testing.assert_allclose(one, 2 * v * v + 2 * x * x, rtol=1e-12)
    np.testing.assert_allclose(other, 2 * x * v, rtol=1e-12)
    (nested,) = gw.hvp(lambda p: (p["x"] ** 3).sum(), ({"x": x},), ({"x": v},))
    np.testing.assert_allclose(nested["x"], 6 * x * v, rtol=1e-12)


Point = collections.namedtuple("Point", "x y")


def test_gradients_come_in_the_containers_of_the_arguments() -> None:
    tree = {"a": [gw.tensor(X), (gw.tensor(Y),)], "p": Point(gw.tensor(X), None)}
    function = lambda p: (p["a"][0] * p["a"][1][0]).sum() + (p["p"].x ** 2).sum()
    found = gw.grad(function)(tree)
    assert list(found) == ["a", "p"] and type(found["p"]) is Point and found["p"].y is None
    assert type(found["a"]) is list and type(found["a"][1]) is tuple
    assert_equal(plain(found["a"]), plain([tree["a"][1][0], (tree["a"][0],)]))
    unused = gw.grad(lambda x, y: x.sum(), (0, 1))(gw.tensor(X), gw.tensor(Y))
    assert unused[1].tolist() == [0.0] * 3
    last = gw.grad(lambda x, y: (x * y).sum(), -1)(gw.tensor(X), gw.tensor(Y))
    assert last.tolist() == X.tolist()


def test_numbers_arrays_and_keywords_may_be_arguments() -> None:
    assert gw.grad(lambda x: x**2)(3.0).item() == 6.0
    assert gw.grad(lambda x, k=1: (x**k).sum())(np.array([2.0]), k=3).tolist() == [12.0]
    assert gw.jvp(lambda x: x * x, (3.0,), (1.0,))[1].item() == 6.0
    assert gw.hessian(lambda x: x**3)(2.0).item() == 12.0
    documented = gw.grad(test_numbers_arrays_and_keywords_may_be_arguments)
    assert documented.__name__ == "test_numbers_arrays_and_keywords_may_be_arguments"


# -- the world around ----------------------------------------------------------------------------


def around(m: Any, f: Any) -> list[Any]:
    """A transform whose function uses a tensor of an outer graph."""
    w = m.tensor(Y, requires_grad=True)
    x = m.tensor(X)
    found = []
    for inner in (
        lambda: f.grad(lambda t: (t**2 * w).sum())(x),
        lambda: f.jvp(lambda t: t * w * w, (x,), (x,))[1],
        lambda: f.vjp(lambda t: t**2 * w, x)[1](x)[0],
        lambda: f.jacrev(lambda t: t**2 * w)(x),
        lambda: f.jacfwd(lambda t: t**2 * w)(x),
        lambda: f.hessian(lambda t: (t**3 * w).sum())(x),
        lambda: f.grad(lambda t: (t * w).sum())(w),
        lambda: f.jvp(lambda t: t**3, (w,), (x,))[1],
        lambda: f.jvp(lambda t: t**3, (x,), (w,))[1],
    ):
        out = inner()
        assert out.requires_grad
        found.append(m.autograd.grad((out * out).sum(), w)[0].tolist())
    return found


def test_gradients_of_an_outer_graph_are_not_lost() -> None:
    assert_equal(around(gw, gw), around(torch, torch.func))


def test_the_value_and_aux_stay_tied_to_an_outer_graph() -> None:
    w = gw.tensor(Y, requires_grad=True)
    x = gw.tensor(X)
    value, _ = gw.value_and_grad(lambda t: (t * w).sum())(x)
    assert gw.autograd.grad(value, w)[0].tolist() == X.tolist()
    _, aux = gw.grad(lambda t: ((t * t).sum(), w * 2), has_aux=True)(x)
    assert gw.autograd.grad(aux.sum(), w)[0].tolist() == [2.0] * 3
    _, aux = gw.grad(lambda t: ((t * t).sum(), w * t * t), has_aux=True)(x)
    np.testing.assert_allclose(gw.autograd.grad(aux.sum(), w)[0], X * X)


def test_without_an_outer_graph_results_are_plain_tensors() -> None:
    x = gw.tensor(X)
    (value, aux), g = gw.value_and_grad(lambda t: ((t * t).sum(), {"t": t * 2}), has_aux=True)(x)
    results = [
        value,
        aux["t"],
        g,
        *gw.jvp(lambda t: t * t, (x,), (x,)),
        gw.jacfwd(lambda t: t * t)(x),
    ]
    results += [gw.vjp(lambda t: t * t, x)[0], gw.hessian(lambda t: (t**3).sum())(x)]
    assert not any(r.requires_grad for r in results)
    np.asarray(aux["t"])


def test_arguments_and_their_grad_are_left_alone() -> None:
    w = gw.tensor(X, requires_grad=True)
    w.grad = gw.ones(3, dtype=gw.float64)
    gw.grad(lambda t: (t**2).sum())(w)
    gw.hessian(lambda t: (t**3).sum())(w)
    assert w.grad.tolist() == [1.0] * 3 and w.is_leaf
    x = gw.tensor(X)
    g = gw.grad(lambda t: (t * 1).sum())(x)
    g.zero_()
    assert x.tolist() == X.tolist() and not x.requires_grad


def test_inside_no_grad_transforms_work_and_record_nothing_outside() -> None:
    w = gw.tensor(Y, requires_grad=True)
    found = []
    for m, f in ((gw, gw), (torch, torch.func)):
        w = m.tensor(Y, requires_grad=True)
        x = m.tensor(X)
        with m.no_grad():
            g = f.grad(lambda t, w=w: (t**2 * w).sum())(x)
            h = f.grad(lambda t: f.grad(lambda u: (u**3).sum())(t).sum())(x)  # noqa: B023
            j = f.jvp(lambda t, w=w: t * w, (x,), (x,))[1]
        assert not (g.requires_grad or h.requires_grad or j.requires_grad)

        def cut(t: Any, m: Any = m) -> Any:
            with m.no_grad():
                c = t * t
            return (t * c).sum()

        found.append([g.tolist(), h.tolist(), j.tolist(), f.grad(cut)(x).tolist()])
    assert_equal(*found)


# -- mistakes ------------------------------------------------------------------------------------

x = gw.tensor(X)
MISTAKES: list[tuple[Callable[[], Any], Any, str]] = [
    (lambda: gw.grad(lambda t: t * 2)(x), gw.AutogradError, r"one number.*\(3,\).*jacrev"),
    (lambda: gw.grad(lambda t: (t.sum(), t))(x), gw.AutogradError, r"one number"),
    (lambda: gw.grad(lambda t: 3.0)(x), TypeError, r"returned float"),
    (lambda: gw.grad(lambda t: t.sum())(gw.tensor([1, 2])), RuntimeError, r"int64"),
    (lambda: gw.grad(lambda t: t)(3), TypeError, r"int.*floating-point"),
    (lambda: gw.grad(lambda t: t)("x"), TypeError, r"str"),
    (lambda: gw.grad(lambda t: t.sum(), 1)(x), ValueError, r"argument 1, but there are 1"),
    (lambda: gw.grad(lambda t: t.sum(), (0, 0))(x), ValueError, r"twice"),
    (lambda: gw.jvp(lambda t: t, x, x), TypeError, r"tuples"),
    (lambda: gw.jvp(lambda t: t, (x,), (gw.ones(2),)), ValueError, r"\(2,\).*\(3,\)"),
    (lambda: gw.jvp(lambda t: t, (x,), ()), ValueError, r"1 tangent\(s\) expected, got 0"),
    (lambda: gw.vjp(lambda t: t, x)[1](gw.ones(2)), ValueError, r"\(2,\).*\(3,\)"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), MISTAKES)
def test_mistakes_are_explained(wrong: Callable[[], Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        wrong()


def test_a_gradient_by_the_cotangent() -> None:
    """`vjp`'s pull is a function of its cotangent too, which may itself be differentiated."""
    x, y = gw.tensor(0.3), gw.tensor(2.0)
    _, pull = gw.vjp(gw.sin, x)
    slope = gw.grad(lambda y: pull(y)[0])(y)
    assert slope.item() == pytest.approx(np.cos(0.3))
    cotangent = gw.tensor(2.0, requires_grad=True)
    pull(cotangent)[0].backward()
    assert cotangent.grad.item() == pytest.approx(np.cos(0.3))
    with gw.no_grad():
        assert not pull(cotangent)[0].requires_grad
    tied = gw.tensor(0.3, requires_grad=True)
    out, pull = gw.vjp(gw.sin, tied)
    with gw.no_grad():
        assert not pull(y)[0].requires_grad
    (again,) = gw.autograd.grad(out, tied)
    assert again.item() == pytest.approx(np.cos(0.3))


@pytest.mark.parametrize("transform", [gw.jacrev, gw.jacfwd])
def test_jacobians_with_aux(transform: Any) -> None:
    x = gw.tensor([1.0, 2.0])
    matrix, aux = transform(lambda x: (x**2, {"twice": x * 2}), has_aux=True)(x)
    assert matrix.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert aux["twice"].tolist() == [2.0, 4.0]
    with pytest.raises(TypeError, match="returns a tuple"):
        transform(lambda x: x, has_aux=True)(x)
    with pytest.raises(ValueError, match="no tensor"):
        transform(lambda x: ())(x)
    with pytest.raises(ValueError, match="names no argument"):
        transform(lambda x: x, ())(x)
    with pytest.raises(ValueError, match="twice"):
        transform(lambda x, y: x * y, (0, -2))(x, x)


def test_linearize() -> None:
    runs = []

    def function(x: Any, y: Any) -> Any:
        runs.append(x)
        return {"product": x * y, "sine": x.sin()}

    x, y = gw.tensor([0.5, 1.0]), gw.tensor([2.0, 3.0])
    value, push = gw.func.linearize(function, x, y)
    for direction in ([1.0, 0.0], [0.5, -2.0]):
        tangents = (gw.tensor(direction), gw.tensor([1.0, 1.0]))
        expected_value, expected = gw.jvp(function, (x, y), tangents)
        moved = push(*tangents)
        for name in ("product", "sine"):
            assert value[name].tolist() == expected_value[name].tolist()
            assert moved[name].tolist() == pytest.approx(expected[name].tolist())
    assert len(runs) == 3  # once by itself, twice by jvp


def test_jvp_changes_the_argument_itself_as_pytorch() -> None:
    for library in (gw, torch):
        x = library.tensor(X)
        library.func.jvp(lambda x: x.mul_(2), (x,), (library.tensor(Y),))
        np.testing.assert_allclose(x.numpy(), 2 * X)
        weight = library.tensor(X, requires_grad=True)
        with pytest.raises(RuntimeError):
            library.func.jvp(lambda x: x.mul_(2), (weight,), (library.tensor(Y),))


def test_jvp_says_so_where_a_change_spoils_what_it_needs() -> None:
    with pytest.raises(gw.AutogradError, match="modified in place"):
        gw.func.jvp(lambda x: (x * x, x.add_(1))[0], (gw.tensor(X),), (gw.tensor(Y),))


def test_jvp_of_one_part_of_complex_numbers() -> None:
    found = []
    for library in (gw, torch):
        fixed = library.tensor(Y)
        for function in (
            lambda x, library=library, fixed=fixed: library.complex(fixed, x),
            lambda x, library=library, fixed=fixed: library.complex(x, fixed[:1]),
        ):
            found.append(library.func.jvp(function, (library.tensor(X),), (library.tensor(Y),))[1])
    for ours, theirs in zip(found[:2], found[2:], strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy())


def test_tangents_of_an_operand_without_a_derivative_are_left_out() -> None:
    moved = gw.func.jvp(
        gw.special.chebyshev_polynomial_t, (gw.tensor(0.5), gw.tensor(2.0)), (gw.ones(()),) * 2
    )
    assert [float(t) for t in moved] == [-0.5, 2.0]


def test_what_nested_transforms_return_needs_no_gradient() -> None:
    weight = gw.randn(3, 3)

    def inner(w: Any, x: Any) -> Any:
        return ((x @ w) ** 3).sum()

    def outer(x: Any) -> Any:
        return (gw.grad(inner)(weight, x) ** 2).sum()

    for found in (gw.grad(outer)(gw.ones(3)), gw.func.vjp(outer, gw.ones(3))[0]):
        assert not found.requires_grad
    tied = gw.grad(outer)(gw.ones(3, requires_grad=True))
    assert tied.requires_grad
    (third,) = gw.autograd.grad(tied.sum(), weight.requires_grad_(), allow_unused=True)
    assert third is None  # weight was not followed when tied was made
    assert gw.grad(outer)(gw.ones(3)).requires_grad  # now it is


@pytest.mark.parametrize("library", [gw, torch])
def test_backward_goes_on_from_an_inner_tensor_that_grad_ended_at(library: Any) -> None:
    x = library.ones(3, requires_grad=True)
    inner = x.exp()
    (slope,) = library.autograd.grad(inner.square().sum(), inner)
    (through,) = library.autograd.grad(inner, x, slope)
    assert np.allclose(through, 2 * np.exp(2.0))
    with pytest.raises(RuntimeError):
        library.autograd.grad(inner, x, slope)
