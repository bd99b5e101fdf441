"""In-place operations: PyTorch's gradient, or an error; never another gradient."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.ops import TABLE
from tests.engine.inplace_programs import assert_as_torch, pair_of_leaves
from tests.ops.oracle import OURS, run
from tests.ops.samples import Sample, all_samples

# -- each operation, on each kind of target ------------------------------------------------------

INDICES: list[Any] = [
    0, -1, slice(None), slice(1, None), slice(None, None, 2), ..., None, (0, 1), (..., 0),
    (slice(None), 1), (None, 0), (slice(None), slice(0, 2)), [1, 0], (slice(None), [2, 0]),
    ([0, 1], [2, 2]), [[True, False, True], [False, True, False]], [True, False], True,
]  # fmt: skip


def _places(y: Any) -> Any:
    """0, 1, 2, ... down every column: an index that names each element once."""
    return (y == y).long().cumsum(0) - 1


def _rows(y: Any) -> Any:
    """0, 1, 2, ... once."""
    return _places(y).reshape(len(y) if y.ndim else 1, -1)[:, 0]


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
    "masked_fill_": lambda t, y: t.masked_fill_(y > 0, 0.5),
    "scatter_": lambda t, y: t.scatter_(0, _places(y), y),
    "scatter_add_": lambda t, y: t.scatter_add_(0, _places(y), y),
    "index_add_": lambda t, y: t.index_add_(0, _rows(y), y),
    "index_add_ alpha": lambda t, y: t.index_add_(0, _rows(y), y, alpha=0.5),
    "index_copy_": lambda t, y: t.index_copy_(0, _rows(y), y),
    "index_fill_": lambda t, y: t.index_fill_(0, _rows(y)[:1], 0.5),
    "index_put_": lambda t, y: t.index_put_((_rows(y)[:1],), y[:1]),
    "index_put_ accumulate": lambda t, y: t.index_put_((_rows(y),), y, accumulate=True),
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


@pytest.mark.filterwarnings("ignore:.*on expanded tensors is deprecated:UserWarning")
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


# -- where PyTorch refuses or is wrong, and we are right -----------------------------------------


def test_a_piece_of_a_split_may_be_changed() -> None:
    x = gw.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    base = x * 1
    first, second = base.split(2)
    first.mul_(second.clone())
    second.add_(first)
    (base * gw.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    # base = (x0 x2, x1 x3, x2 + x0 x2, x3 + x1 x3)
    assert x.grad.tolist() == [3 + 300, 40 + 4000, 1 + 200, 20 + 3000]


def test_a_tensor_may_be_multiplied_by_itself() -> None:
    x = gw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    y.mul_(y)
    y[1:] *= y[:2]  # (x0², x0² x1², x1² x2²)
    y.sum().backward()
    assert x.grad.tolist() == [2 + 8, 4 + 36, 24]


def test_views_of_a_plain_base_get_its_history() -> None:
    w = gw.tensor([2.0, 3.0], requires_grad=True)
    base = gw.ones(4)
    first, both = base[:2], base[1:3]
    assert not first.requires_grad
    base[1] = w[0]
    assert first.requires_grad and both.requires_grad and not first.is_leaf
    first.mul_(w[1])
    both += w[1]
    # base = (w1, w0 w1 + w1, 1 + w1, 1)
    ((base * base).sum() + first.sum() * 10 + both.sum() * 100).backward()
    first_slot, second_slot, third_slot = 6 + 10, 18 + 110, 8 + 100
    assert w.grad.tolist() == [3 * second_slot, first_slot + 3 * second_slot + third_slot]


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
        (lambda t: t.add_(gw.arange(4)), "does not fit"),
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
        x, _ = pair_of_leaves(m)
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
        x, _ = pair_of_leaves(m)
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
