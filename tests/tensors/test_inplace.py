"""In-place operations: PyTorch's gradient, or an error; never another gradient."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.tensors.inplace import InPlace
from tests.batches import batched
from tests.ops.oracle import OURS, run
from tests.ops.samples.table import Sample, samples_of_every_op
from tests.ops.test_pytorch_samples import RARE
from tests.tensors.inplace_programs import assert_as_torch, pair_of_leaves

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
    "conj_physical_": lambda t, y: t.conj_physical_(),
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
# Forms of one op, or of a function: where they are defined everywhere, between −1 and 1, above 0.
EVERYWHERE = [
    "absolute_", "negative_", "square_", "sign_", "floor_", "ceil_", "trunc_", "fix_", "frac_",
    "round_", "exp2_", "expm1_", "sin_", "cos_", "tan_", "atan_", "arctan_", "sinh_", "cosh_",
    "sinc_", "deg2rad_", "rad2deg_", "erf_", "erfc_", "nan_to_num_",
]  # fmt: skip
WITHIN_ONE = ["asin_", "arcsin_", "acos_", "arccos_", "atanh_", "arctanh_", "erfinv_"]
ABOVE_ZERO = ["reciprocal_", "rsqrt_", "log2_", "log10_", "log1p_", "lgamma_"]
ABOVE_ONE = ["acosh_", "arccosh_"]
WITH_ANOTHER = [
    "subtract_", "multiply_", "divide_", "true_divide_", "atan2_", "arctan2_", "hypot_",
    "copysign_", "clamp_min_", "clamp_max_", "eq_", "ne_", "not_equal_", "lt_", "less_", "le_",
    "less_equal_", "gt_", "greater_", "ge_", "greater_equal_",
]  # fmt: skip
FORMS: dict[str, Callable[..., Any]] = {
    "fill_diagonal_": lambda t, y: t.fill_diagonal_(0.7),  # PyTorch writes to expanded ones, too
    **{name: lambda t, y, name=name: getattr(t, name)() for name in EVERYWHERE},
    **{name: lambda t, y, name=name: getattr(t.tanh_(), name)() for name in WITHIN_ONE},
    **{name: lambda t, y, name=name: getattr(t.abs_().add_(0.1), name)() for name in ABOVE_ZERO},
    **{name: lambda t, y, name=name: getattr(t.exp_().add_(1), name)() for name in ABOVE_ONE},
    **{name: lambda t, y, name=name: getattr(t, name)(y) for name in WITH_ANOTHER},
    "add_ self": lambda t, y: t.add_(t),
    "logit_": lambda t, y: t.sigmoid_().logit_(),
    "logit_ eps": lambda t, y: t.logit_(0.3),
    "xlogy_": lambda t, y: t.xlogy_(y.abs()),
    "round_ decimals": lambda t, y: t.round_(decimals=1),
    "nan_to_num_ nan": lambda t, y: t.div_(0).nan_to_num_(1.0, posinf=2.0),
    "fmod_": lambda t, y: t.fmod_(y),
    "fmod_ number": lambda t, y: t.fmod_(0.4),
    "remainder_": lambda t, y: t.remainder_(0.4),
    "div_ floor": lambda t, y: t.div_(y, rounding_mode="floor"),
    "div_ trunc": lambda t, y: t.div_(0.3, rounding_mode="trunc"),
    "lerp_": lambda t, y: t.lerp_(y, 0.3),
    "lerp_ tensor": lambda t, y: t.lerp_(y, y * 2),
    "clamp_ tensors": lambda t, y: t.clamp_(y - 0.5, y + 0.2),
    "clamp_ tensor": lambda t, y: t.clamp_(max=y),
    "clip_ tensor": lambda t, y: t.clip_(min=y),
    "addcmul_": lambda t, y: t.addcmul_(y, y, value=0.5),
    "addcmul_ self": lambda t, y: t.addcmul_(t, y),
    "addcdiv_": lambda t, y: t.addcdiv_(y, y.abs() + 1),
    "float_power_": lambda t, y: t.float_power_(2),
    "tril_": lambda t, y: t.tril_(),
    "triu_": lambda t, y: t.triu_(1),
    "cumsum_": lambda t, y: t.cumsum_(0),
    "cumprod_": lambda t, y: t.cumprod_(-1),
    "addr_": lambda t, y: t.addr_(y[:, 0], y[0], beta=0.5, alpha=2),
    "addmm_": lambda t, y: t.addmm_(y @ y.transpose(0, 1), y, beta=0.5),
    "addmv_": lambda t, y: t.addmv_(y[:, None] @ y[None], y),
    "baddbmm_": lambda t, y: t[None].baddbmm_((y @ y.transpose(0, 1))[None], y[None], alpha=3),
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
SOME_TARGETS = ["a result", "every second column", "an element", "a leaf"]


@pytest.mark.filterwarnings("ignore:.*on expanded tensors is deprecated:UserWarning")
@batched("change, target", itertools.product(CHANGES, TARGETS), key=lambda case: case[0])
def test_every_operation_on_every_kind_of_target(change: str, target: str) -> None:
    check(CHANGES[change], TARGETS[target])


@batched("change, target", itertools.product(FORMS, SOME_TARGETS), key=lambda case: case[1])
def test_every_form_that_is_made_of_an_op(change: str, target: str) -> None:
    check(FORMS[change], TARGETS[target])


def check(change: Callable[..., Any], target: Callable[..., Any]) -> None:
    """Compare the gradient after a change with PyTorch's, or that both refuse it."""

    def program(m: Any, x: Any, y: Any) -> Any:
        part, whole = target(x)
        other = y.reshape(-1)[: part.numel()].reshape(part.shape)
        change(part, other)
        return (whole * whole).sum() + (part * 3).sum()

    assert_as_torch(program)


# No gradient passes through these. PyTorch refuses them where one would have to, or is wrong: it
# gives back the gradient of the tensor before the change.
WITHOUT_GRADIENT: dict[str, Callable[..., Any]] = {
    "floor_divide_": lambda t, y: t.floor_divide_(y),
    "heaviside_": lambda t, y: t.heaviside_(y),
    "sgn_": lambda t, y: t.sgn_(),
    "logical_not_": lambda t, y: t.logical_not_(),
    "logical_and_": lambda t, y: t.logical_and_(y),
    "logical_or_": lambda t, y: t.logical_or_(y),
    "logical_xor_": lambda t, y: t.logical_xor_(y),
    "bitwise_and_": lambda t, y: (t > 0).bitwise_and_(y > 0),
    "bitwise_or_": lambda t, y: (t > 0).bitwise_or_(y > 0),
    "bitwise_xor_": lambda t, y: (t > 0).bitwise_xor_(y > 0),
    "bitwise_not_": lambda t, y: (t > 0).bitwise_not_(),
}


@pytest.mark.parametrize("change", WITHOUT_GRADIENT)
def test_operations_without_a_gradient(change: str) -> None:
    source = np.random.default_rng(0)
    arrays = [source.standard_normal((2, 3)) for _ in range(2)]
    results = []
    for m in (gw, torch):
        t, y = (m.from_numpy(array.copy()) for array in arrays)
        results.append(WITHOUT_GRADIENT[change](t, y).tolist())
    assert results[0] == results[1]


# PyTorch cannot differentiate these in place; ours must be that of the plain form.
ONLY_HERE: dict[str, Callable[..., Any]] = {
    "asinh_": lambda t: t.asinh,
    "arcsinh_": lambda t: t.arcsinh,
    "hypot_ self": lambda t: lambda: t.hypot(t),
    "sgn_": lambda t: t.sgn,
    "digamma_": lambda t: t.digamma,  # PyTorch's derivative is exact to ten digits only
    "logical_not_": lambda t: lambda: t.logical_not().to(t.dtype),
}


@pytest.mark.parametrize("change", ONLY_HERE)
def test_operations_that_only_we_differentiate(change: str) -> None:
    x, same = (gw.tensor([1.5, -2.0], dtype=gw.float64, requires_grad=True) for _ in range(2))
    changed = x * 2
    operands = (changed,) if "self" in change else ()
    getattr(changed, change.split()[0])(*operands)
    (changed + x * x).sum().backward()
    (ONLY_HERE[change](same * 2)() + same * same).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), same.grad.numpy(), rtol=1e-14)


RESHAPED: dict[str, tuple[int, ...]] = {
    **{"squeeze_": (1,), "unsqueeze_": (1,), "t_": (), "transpose_": (0, 1)},
    **{"swapdims_": (-1, 0), "swapaxes_": (1, 0)},
}


@pytest.mark.parametrize("name", RESHAPED)
def test_a_tensor_that_is_reshaped_in_place_keeps_its_memory_and_its_history(name: str) -> None:
    results = []
    for m in (gw, torch):
        x = m.arange(3.0).reshape(3, 1).requires_grad_()
        y = x * 2
        same = y.detach()
        assert getattr(y, name)(*RESHAPED[name]) is y
        y *= 3
        (y * y).sum().backward()
        results.append((tuple(y.shape), y.tolist(), same.tolist(), x.grad.tolist()))
        with pytest.raises(RuntimeError, match="leaf"):
            getattr(x, name)(*RESHAPED[name])
    assert results[0] == results[1]


def test_a_view_from_before_a_reshape_in_place_never_has_a_wrong_history() -> None:
    x = gw.eye(2) * gw.ones(2, requires_grad=True)
    row = x[0]
    x.t_()
    x *= 2
    with pytest.raises(gw.AutogradError):
        row.sum().backward()


def test_every_in_place_method_is_in_the_table() -> None:
    classes = (gw.Tensor, *InPlace.__mro__)
    named = {name for owner in classes for name in vars(owner) if _in_place(name)}
    tested = {change.split()[0] for change in CHANGES | FORMS | WITHOUT_GRADIENT | ONLY_HERE}
    memory = {"apply_", "as_strided_", "map_", "map2_", "resize_", "resize_as_", "set_"}
    memory |= {"share_memory_"}  # test_old_programs.py
    rare = {f"{name}_" for name in RARE.split()} | {*RESHAPED, *memory}  # test_storages.py
    rare |= {"polygamma_"}
    assert named - rare == {name for name in tested - rare if name.endswith("_")}


def test_an_in_place_form_keeps_the_dtype_or_refuses() -> None:
    for change in (
        lambda t: t.addcmul_(gw.ones(2), gw.ones(2)),
        lambda t: t.sin_(),
        lambda t: t.lerp_(t, 0.5),
    ):
        with pytest.raises(TypeError, match="in place"):
            change(gw.tensor([1, 2]))
    assert gw.tensor([1, 2]).lt_(2).tolist() == [1, 0]
    with pytest.raises(ValueError, match="rounding_mode"):
        gw.ones(1).div_(2, rounding_mode="up")


def _in_place(name: str) -> bool:
    elsewhere = ("requires_grad_", "detach_")  # they change no element
    return name.endswith("_") and not name.startswith("_") and name not in elsewhere


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


@samples_of_every_op()
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
