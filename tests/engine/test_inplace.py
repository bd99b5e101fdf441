"""In-place operations: PyTorch's gradient, or an error; never another gradient."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gradwalk as gw
from gradwalk.ops import TABLE
from tests.engine import inplace_programs as programs
from tests.ops.oracle import OURS, run
from tests.ops.samples import Sample, all_samples

START = np.array([[0.5, -1.2, 0.8], [1.5, 0.3, -0.7]])
OTHER = np.array([[0.9, 0.4, -1.1], [0.2, 1.3, 0.6]])


def leaves(m: Any) -> tuple[Any, Any]:
    return m.tensor(START, requires_grad=True), m.tensor(OTHER, requires_grad=True)


def outcome(m: Any, program: Callable[..., Any]) -> Any:
    """The gradients by both leaves, or the error."""
    x, y = leaves(m)
    try:
        total = program(m, x, y)
        gradients = m.autograd.grad(total, [x, y], materialize_grads=True)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return error
    return [g.numpy() for g in gradients]


def assert_as_torch(program: Callable[..., Any]) -> None:
    ours, theirs = outcome(gw, program), outcome(torch, program)
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"PyTorch refuses: {theirs}"
        return
    assert not isinstance(ours, Exception), ours
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


# -- each operation, on each kind of target ------------------------------------------------------

INDICES: list[Any] = [
    0, -1, slice(None), slice(1, None), slice(None, None, 2), ..., None, (0, 1), (..., 0),
    (slice(None), 1), (None, 0), (slice(None), slice(0, 2)), [1, 0], (slice(None), [2, 0]),
    ([0, 1], [2, 2]), [[True, False, True], [False, True, False]], [True, False], True,
]  # fmt: skip
CHANGES: dict[str, Callable[..., Any]] = {
    "add_": lambda t, y: t.add_(y),
    "add_ alpha": lambda t, y: t.add_(y, alpha=0.3),
    "+=": lambda t, y: t.__iadd__(y),
    "sub_": lambda t, y: t.sub_(y),
    "sub_ alpha": lambda t, y: t.sub_(y, alpha=2),
    "-=": lambda t, y: t.__isub__(y),
    "mul_": lambda t, y: t.mul_(y),
    "*=": lambda t, y: t.__imul__(y),
    "*= number": lambda t, y: t.__imul__(3),
    "div_": lambda t, y: t.div_(y),
    "/=": lambda t, y: t.__itruediv__(y),
    "pow_ number": lambda t, y: t.pow_(3),
    "**=": lambda t, y: t.__ipow__(2),
    "pow_ tensor": lambda t, y: t.abs_().pow_(y),
    "neg_": lambda t, y: t.neg_(),
    "abs_": lambda t, y: t.abs_(),
    "sqrt_": lambda t, y: t.abs_().sqrt_(),
    "exp_": lambda t, y: t.exp_(),
    "log_": lambda t, y: t.abs_().log_(),
    "relu_": lambda t, y: t.relu_(),
    "sigmoid_": lambda t, y: t.sigmoid_(),
    "tanh_": lambda t, y: t.tanh_(),
    "clip_": lambda t, y: t.clip_(-0.6, 0.9),
    "clamp_": lambda t, y: t.clamp_(min=0.0),
    "fill_": lambda t, y: t.fill_(0.7),
    "fill_ tensor": lambda t, y: t.fill_(y.sum()),
    "zero_": lambda t, y: t.zero_(),
    "copy_": lambda t, y: t.copy_(y),
    "copy_ broadcast": lambda t, y: t.copy_(y.sum()),
    "itself": lambda t, y: t.mul_(t),
}
TARGETS: dict[str, Callable[..., Any]] = {  # what is changed, and what it is part of
    "a result": lambda x: (x * 2,) * 2,
    "a clone": lambda x: (x.clone(),) * 2,
    "a whole view": lambda x: ((b := x * 2)[...], b),
    "a row": lambda x: ((b := x * 2)[1], b),
    "every second column": lambda x: ((b := x * 2)[:, ::2], b),
    "a transpose": lambda x: ((b := x * 2).T, b),
    "a reshape": lambda x: ((b := x * 2).reshape(-1), b),
    "a view of a view": lambda x: ((b := x * 2).T[1:].reshape(-1, 1), b),
    "a reshape of a transpose": lambda x: ((b := x.T * 2).T.reshape(-1), b),
    "an element": lambda x: ((b := x * 2)[0, 1], b),
    "a leaf": lambda x: (x, x),
    "a row of a leaf": lambda x: (x[0], x),
    "an expanded row": lambda x: ((b := x * 2)[0].expand(2, 3), b),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("change", CHANGES)
def test_every_operation_on_every_kind_of_target(change: str, target: str) -> None:
    def program(m: Any, x: Any, y: Any) -> Any:
        part, whole = TARGETS[target](x)
        other = y.reshape(-1)[: part.numel()].reshape(part.shape)
        CHANGES[change](part, other)
        return (whole * whole).sum() + (part * 3).sum()

    assert_as_torch(program)


def test_every_in_place_method_is_in_the_table() -> None:
    named = {name for name in vars(gw.Tensor) | vars(gw.Tensor.__mro__[1]) if _in_place(name)}
    assert named == {change.split()[0] for change in CHANGES if change.split()[0].endswith("_")}


def _in_place(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_") and name != "requires_grad_"


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("value", ["number", "tensor", "row", "one"])
def test_assigning_to_every_kind_of_index(index: Any, value: str) -> None:
    if isinstance(index, list) and isinstance(index[0], (list, bool)):
        index = np.array(index)

    def program(m: Any, x: Any, y: Any) -> Any:
        whole = x * 2
        key = index if not isinstance(index, np.ndarray) else m.tensor(index)
        shape = tuple(whole[key].shape)
        several = np.prod(shape, dtype=int)
        values = {
            "number": lambda: 1.5,
            "tensor": lambda: y.reshape(-1)[:1].expand(several).reshape(shape) * 2,
            "row": lambda: y.reshape(-1)[: shape[-1]] if shape and shape[-1] <= 6 else y.sum(),
            "one": lambda: y[0, 0].reshape((1,) * (len(shape) + 1)),
        }
        whole[key] = values[value]()
        return (whole * whole).sum()

    assert_as_torch(program)


# -- histories ------------------------------------------------------------------------------------


def detached_zero(m: Any, x: Any, y: Any) -> Any:
    a = x * 2
    a.detach().zero_()
    return a.sum()


def detached_zero_of_saved(m: Any, x: Any, y: Any) -> Any:
    a = x * 2
    b = a * y
    a.detach().zero_()
    return b.sum()


def inside_no_grad(m: Any, x: Any, y: Any) -> Any:
    a = x * 2
    with m.no_grad():
        a.mul_(5)
        x.add_(1)
    return (a * 3).sum() + (x * x).sum()


def leaf_saved_then_updated(m: Any, x: Any, y: Any) -> Any:
    a = (x * y).sum()
    with m.no_grad():
        x.sub_(0.1)
    return a


def plain_leaf_filled(m: Any, x: Any, y: Any) -> Any:
    a = m.zeros(2, 3, dtype=m.float64)
    a[0] = x[0] * 2
    a[:, 1] += y[:, 1]
    a.T[2] = x[:, 0]
    return (a * a).sum()


def views_made_before(m: Any, x: Any, y: Any) -> Any:
    base = x * 2
    row, turned, corner = base[0], base.T, base.T[1:][:, 0]
    base.mul_(y)
    row.add_(1)
    return (row * 2).sum() + (turned * turned).sum() + corner.sum() * 3


def view_of_plain_base(m: Any, x: Any, y: Any) -> Any:
    base = m.zeros(4, dtype=m.float64)
    first, both = base[:2], base[1:3]
    base[1] = x[0, 0]
    first.mul_(y[0, 0])
    both += x[1, 1]
    return (base * base).sum() + first.sum() * 2 + both.sum() * 3


def view_first_asked_for_in_no_grad(m: Any, x: Any, y: Any) -> Any:
    base = x * 2
    row = base[0]
    base.mul_(3)
    with m.no_grad():
        row + 1
    return (row * row).sum()


def chain_of_changes(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    a += y
    a *= 2
    a[0] *= a[1]
    a.tanh_()
    a[:, 0] = a[:, 1] * y[:, 2]
    return (a * a).sum()


def output_needed(m: Any, x: Any, y: Any) -> Any:
    a = x.tanh()
    a.mul_(2)
    return a.sum()


def output_not_needed(m: Any, x: Any, y: Any) -> Any:
    a = x.sin()
    a.mul_(2)
    quotient = x / y
    quotient += 1
    return (a * quotient).sum()


def input_needed(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    b = a * a
    a.add_(1)
    return b.sum()


def input_needed_through_a_view(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    b = a[1].exp() + a[0].sin()
    a[0, 2] = 0
    return b.sum()


def a_view_made_in_no_grad(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    with m.no_grad():
        v = a[0]
    v.mul_(2)
    return a.sum()


def a_view_made_in_no_grad_gets_a_history(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    with m.no_grad():
        v = a[0]
    v[0] = y[0, 0]
    return a.sum()


def a_view_made_in_no_grad_used_after_a_change(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    with m.no_grad():
        v = a[0]
    a.mul_(2)
    return (v * y[0]).sum()


def a_view_of_what_became_a_leaf(m: Any, x: Any, y: Any) -> Any:
    z = m.zeros(3, dtype=m.float64)
    v = z[0]
    z.requires_grad_()
    v.add_(1)
    return (z * x[0]).sum()


def an_alias_by_a_function(m: Any, x: Any, y: Any) -> Any:
    class Same(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Any) -> Any:
            return t

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    a = x * 1
    b = Same.apply(a)
    b.mul_(2)
    return a.sum()


def a_part_by_a_function(m: Any, x: Any, y: Any) -> Any:
    class First(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Any) -> Any:
            return t[0]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return m.stack([g, g * 0])

    a = x * 1
    b = First.apply(a)
    a.mul_(2)
    return (b * 3).sum()


def wider_float(m: Any, x: Any, y: Any) -> Any:
    a = m.zeros(2, 3)  # float32
    a += x
    a[0] = y[0]
    return (a * a).sum().to(m.float64)


def integers_have_no_history(m: Any, x: Any, y: Any) -> Any:
    a = m.zeros(2, 3, dtype=m.int64)
    a[0] = y[0]
    a.copy_(x)
    assert not a.requires_grad
    return (a * x).sum()


PROGRAMS = [
    detached_zero, detached_zero_of_saved, inside_no_grad, leaf_saved_then_updated,
    plain_leaf_filled, views_made_before, view_of_plain_base, view_first_asked_for_in_no_grad,
    chain_of_changes, output_needed, output_not_needed, input_needed, input_needed_through_a_view,
    a_view_made_in_no_grad, a_view_made_in_no_grad_gets_a_history,
    a_view_made_in_no_grad_used_after_a_change, a_view_of_what_became_a_leaf,
    an_alias_by_a_function, a_part_by_a_function, integers_have_no_history,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_histories_as_in_pytorch(program: Callable[..., Any]) -> None:
    assert_as_torch(program)


def test_a_wider_float_is_cast() -> None:
    ours, theirs = outcome(gw, wider_float), outcome(torch, wider_float)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


# -- where PyTorch refuses or is wrong, and we are right -----------------------------------------


def test_a_piece_of_a_split_may_be_changed() -> None:
    x = gw.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    base = x * 1
    first, second = base.split(2)
    first.mul_(second)
    second.add_(first)
    (base * gw.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    # base = (x0 x2, x1 x3, x2 + x0 x2, x3 + x1 x3)
    assert x.grad.tolist() == [3 + 300, 40 + 4000, 1 + 200, 20 + 3000]


def test_of_two_writes_to_one_element_only_the_last_counts() -> None:
    values = gw.tensor([5.0, 7.0, 9.0], requires_grad=True)
    x = gw.zeros(2)
    x[[0, 0, 1]] = values
    x.sum().backward()
    assert x.tolist() == [7.0, 9.0]
    assert values.grad.tolist() == [0.0, 1.0, 1.0]  # PyTorch gives the lost 5 a gradient of 1


def test_a_change_through_data_is_seen() -> None:
    """PyTorch computes a wrong gradient here, without a word."""
    x = gw.tensor([2.0], requires_grad=True)
    y = (x * 3) ** 2
    x.data.mul_(10)
    y.backward()  # x itself is not needed
    assert x.grad.tolist() == [36.0]
    z = x * x
    x.data.mul_(10)
    with pytest.raises(gw.AutogradError, match="modified in place"):
        z.backward()


def test_new_data_are_seen() -> None:
    x = gw.tensor([2.0], requires_grad=True)
    y = x * x
    x.data = gw.tensor([3.0])
    with pytest.raises(gw.AutogradError, match="modified in place"):
        y.backward()
    base = x * 1
    part = base[0]
    base.data = gw.tensor([5.0])
    part.mul_(2)  # the old memory: base has nothing to do with it any more
    base.sum().backward()
    assert x.grad.tolist() == [1.0]
    with pytest.raises(RuntimeError, match="cannot hold int64"):
        x.data = gw.tensor([1])
    with pytest.raises(RuntimeError, match=r"cannot get the shape \(2,\)"):
        base.data = gw.zeros(2)


def test_nothing_is_written_when_a_change_is_refused() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(gw.AutogradError, match="leaf"):
        x.view(2)[0].mul_(100)
    with pytest.raises(gw.AutogradError, match="leaf"):
        x.add_(gw.ones(2))
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", ["__iand__", "__ior__", "__ixor__"])
def test_bits_change_in_place(name: str) -> None:
    one, other = np.array([True, True, False]), np.array([True, False, False])
    ours, theirs = gw.tensor(one), torch.tensor(one)
    same = ours
    found = getattr(ours, name)(gw.tensor(other))
    assert found is same
    assert same.tolist() == getattr(theirs, name)(torch.tensor(other)).tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.div_(2), "integers"),
        (lambda t: t.add_(0.5), "cannot be stored in place"),
        (lambda t: t.add_(gw.ones(4)), "does not fit"),
        (lambda t: t.__setitem__(0, gw.ones(4)), "does not fit"),
        (lambda t: t.expand(2, 3).add_(1), r"\.clone\(\) it first"),
    ],
)
def test_what_does_not_fit_is_refused(change: Callable[..., Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        change(gw.tensor([1, 2, 3]))


def test_a_label_and_a_retained_gradient_go_with_the_tensor() -> None:
    found = []
    for m in (gw, torch):
        x, _ = leaves(m)
        base = x * 2
        row = base[0]
        base.retain_grad()
        row.retain_grad()
        base.mul_(3)
        (row * 5).sum().backward()
        found.append([base.grad.tolist(), row.grad.tolist()])
    assert found[0] == found[1]
    x = gw.tensor([1.0], requires_grad=True) * 1
    x.label = "activations"
    x += 1
    assert x.label == "activations"


def test_hooks_stay_with_the_value_they_were_put_on() -> None:
    found = []
    for m in (gw, torch):
        seen: list[Any] = []
        x, _ = leaves(m)
        a = x[0] * 1
        a.register_hook(lambda g, seen=seen: seen.append(("old", g.tolist())))
        a.mul_(2)
        a.register_hook(lambda g, seen=seen: seen.append(("new", g.tolist())))
        (a * 3).sum().backward()
        found.append(seen)
    assert found[0] == found[1]


def test_every_change_counts_as_a_version() -> None:
    x = gw.zeros(3)
    assert x._version == 0
    x.add_(1)
    x[0] = 2
    x.detach().zero_()
    x.view(3).fill_(4)
    assert x._version == x.detach()._version == x[1:]._version == 4
    assert x.clone()._version == copy.deepcopy(x)._version == 0


# -- shared memory that nobody declared ----------------------------------------------------------


@pytest.mark.parametrize("sample", all_samples(), ids=str)
def test_a_result_in_the_memory_of_its_operand_is_known_as_a_view(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = gw.Tensor._apply

    def noting(op: Any, args: Any, attrs: Any) -> Any:
        result = apply(op, args, attrs)
        for output in result if isinstance(result, tuple) else (result,):
            for argument in args:
                if isinstance(argument, gw.Tensor) and output.numel():
                    shared = np.shares_memory(output._array, argument._array)
                    assert not shared or output._view is not None, op.name
        return result

    for op in TABLE.values():
        monkeypatch.setattr(op, "quick", {})
    monkeypatch.setattr(gw.Tensor, "_apply", staticmethod(noting))
    run(OURS, sample.ours, sample.arrays(), order=0)


# -- random programs ------------------------------------------------------------------------------

number = st.integers(0, 999)
steps = st.lists(st.tuples(number, number, number, number), min_size=2, max_size=10)
DIRECTIONS = [
    np.random.default_rng(1).uniform(-1, 1, shape) for shape in programs.SHAPES[: -programs.FLAT]
]


def attempt(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return call(*args, **options)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return error


@settings(max_examples=400)
@given(steps, st.booleans())
@example([(9, 1, 2, 0), (578, 856, 302, 539), (665, 197, 464, 756)], False)
def test_a_random_program_has_the_right_gradient_or_raises(program: Any, data: bool) -> None:
    options = {"menu": [*programs.STEPS, *[programs.THROUGH_DATA] * 3] if data else programs.STEPS}
    ours = attempt(programs.run_on, gw, program, **options)
    if isinstance(ours, Exception):
        return
    try:
        views, value, moved = programs.run_dual(program, DIRECTIONS, **options)
    except programs.DifferentLayout:
        return
    got = sum(float((g * d).sum()) for g, d in zip(ours[2], DIRECTIONS, strict=True))
    scale = max(1 + abs(value) + abs(moved), *(np.abs(g).max() for g in ours[2]))
    assert ours[0] == views
    assert abs(ours[1] - value) <= 1e-9 * scale
    assert abs(got - moved) <= 1e-8 * scale
    theirs = attempt(programs.run_on, torch, program, **options)
    if not data and not isinstance(theirs, Exception) and theirs[0] == views:
        for one, other in zip(ours[2], theirs[2], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9 * scale)
