"""What PyTorch's own tests found (`tools/pytorch_tests`), where nothing else covers it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import gradwalk as gw


def test_bytes_are_a_mask() -> None:
    x, mask = [3.0, 4.0, 5.0], [1, 0, 1]
    with pytest.warns(UserWarning, match="taken as a mask"):
        ours = gw.tensor(x)[gw.tensor(mask, dtype=gw.uint8)]
    with pytest.warns(UserWarning):
        theirs = torch.tensor(x)[torch.tensor(mask, dtype=torch.uint8)]
    assert ours.tolist() == theirs.tolist() == [3.0, 5.0]
    changed = gw.tensor(x)
    with pytest.warns(UserWarning, match="taken as a mask"):
        changed[gw.tensor(mask, dtype=gw.uint8)] = 0.0
    assert changed.tolist() == [0.0, 4.0, 0.0]


def test_an_index_along_a_dimension_holds_integers() -> None:
    x = gw.ones(2, 2)
    for index in (gw.zeros(2, 2), gw.zeros(2, 2, dtype=gw.bool)):
        with pytest.raises(IndexError, match="integers"):
            gw.gather(x, 0, index)
    with pytest.raises(TypeError, match="mask of bool"):
        gw.masked_select(x, gw.zeros(2, 2, dtype=gw.int64))


def test_pieces_of_nothing() -> None:
    shapes = [tuple(piece.shape) for piece in gw.zeros(0, 2).chunk(3)]
    assert shapes == [tuple(piece.shape) for piece in torch.zeros(0, 2).chunk(3)]


def test_each_nan_is_unique() -> None:
    x = [math.nan, 1.0, math.nan]
    assert len(gw.unique(gw.tensor(x), dim=0)) == len(torch.unique(torch.tensor(x), dim=0)) == 3


def test_reversed_is_a_tensor() -> None:
    x = gw.arange(6).reshape(3, 2)
    assert reversed(x).tolist() == reversed(torch.arange(6).reshape(3, 2)).tolist()


@pytest.mark.filterwarnings("ignore:torch.asarray")
@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("asked", [{}, {"requires_grad": False}, {"requires_grad": True}])
@pytest.mark.parametrize("kind", ["plain", "leaf", "node"])
def test_history_of_asarray(kind: str, asked: dict[str, bool], copy: bool | None) -> None:
    """Since 2.13 a tensor keeps its history unless `requires_grad` says otherwise."""
    found = []
    for m in (gw, torch):
        for dtype in (None, m.float64, m.int64):
            x = m.ones(2, requires_grad=kind != "plain") * (1 if kind == "plain" else m.ones(2))
            x = x if kind == "node" else x.detach().requires_grad_(kind == "leaf")
            try:
                y = m.asarray(x, dtype=dtype, copy=copy, **asked)
            except (RuntimeError, ValueError) as error:
                found.append(type(error))
            else:
                found.append((y is x, y.requires_grad, y.is_leaf, x.requires_grad))
    assert found[:3] == found[3:]


def test_arguments_that_mean_nothing_are_refused() -> None:
    x = gw.ones(3, requires_grad=True)
    with pytest.raises(ValueError, match="at least one input"):
        gw.autograd.grad(x.sum(), [])
    with pytest.raises(ValueError, match="materialize_grads"):
        gw.autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)
    with pytest.raises(TypeError, match="flip needs"):
        gw.ones(3).flip()
    with pytest.raises(ValueError, match="minlength"):
        gw.bincount(gw.tensor([1]), minlength=-1)
    with pytest.raises(ValueError, match="clip needs"):
        gw.ones(3).clamp_()


def _both(call: Callable[[Any], Any]) -> tuple[Any, Any]:
    return call(gw).tolist(), call(torch).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_infinities_become_the_largest_number_of_the_dtype(dtype: str) -> None:
    x = [math.inf, -math.inf, math.nan, 2.0]
    ours, theirs = _both(lambda m: m.nan_to_num(m.tensor(x, dtype=getattr(m, dtype))))
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
def test_division_that_truncates(dtype: str) -> None:
    low = 0 if dtype == "uint8" else torch.iinfo(getattr(torch, dtype)).min
    x, y = [low, low, 7, 100, 6], [2, 3, 2, 7, 3]
    signs = [1] if dtype == "uint8" else [1, -1]
    for sign in signs:
        ours, theirs = _both(
            lambda m, sign=sign: m.div(
                m.tensor(x, dtype=getattr(m, dtype)),
                m.tensor([sign * each for each in y], dtype=getattr(m, dtype)),
                rounding_mode="trunc",
            )
        )
        assert ours == theirs


def test_histogram_of_an_empty_range_is_of_the_elements() -> None:
    ours, theirs = _both(lambda m: m.histc(m.tensor([1.0, 2.0, 1.0]), bins=4, min=5, max=5))
    assert ours == theirs


def test_layer_norm_of_halves_beside_float32_parameters() -> None:
    x = gw.ones(2, 3, dtype=gw.float16)
    assert gw.nn.functional.layer_norm(x, (3,), gw.ones(3), gw.zeros(3)).dtype == gw.float16


def test_memory_formats_are_hints() -> None:
    x = gw.arange(24.0).reshape(1, 2, 3, 4)
    assert x.clone(memory_format=gw.preserve_format).equal(x)
    assert x.contiguous(memory_format=gw.channels_last).equal(x)
    assert x.to(memory_format=gw.channels_last).equal(x)
    assert x.is_contiguous(memory_format=gw.contiguous_format)


def test_out_may_be_none() -> None:
    assert gw.sum(gw.ones(2, 2), 0, out=None).tolist() == [2.0, 2.0]
    small = gw.zeros(1, dtype=gw.uint8)
    assert gw.add(gw.tensor([3]), gw.tensor([4]), out=small).tolist() == [7]


def test_promotion_of_two_operands() -> None:
    for first, second in ((1, 2.0), (True, 1), (1.0, 1j)):
        ours = gw.result_type(gw.tensor([first]), second)
        assert str(torch.result_type(torch.tensor([first]), second)) == f"torch.{ours}"
    for m in (gw, torch):
        assert m.can_cast(m.float64, m.float32)
        assert not m.can_cast(m.float32, m.int64)


def test_cells_without_units() -> None:
    for cell in (gw.nn.RNNCell(3, 0), gw.nn.GRUCell(3, 0)):
        assert cell(gw.ones(2, 3)).shape == (2, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.nn.functional.binary_cross_entropy(m.tensor([1.2, 0.3]), m.ones(2)),
        lambda m: m.nn.RNNCell(3, 4)(m.ones(2, 3), m.zeros(1, 4)),
        lambda m: m.nn.functional.group_norm(m.ones(1, 4), 4),
        lambda m: m.nn.functional.nll_loss(m.zeros(2, 3), m.tensor([0, 1]), weight=m.ones(5)),
        lambda m: m.nn.functional.cosine_embedding_loss(m.ones(2, 5), m.ones(2, 5), m.ones(2, 2)),
        lambda m: m.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4])(m.ones(2, 8), m.tensor([3, 12])),
    ],
)
def test_what_pytorch_refuses(call: Callable[[Any], Any]) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        call(torch)
    with pytest.raises((ValueError, IndexError)):
        call(gw)


@pytest.mark.parametrize(
    "shape", [(3, 3), (2, 5), (7, 3), (4, 3), (9, 2), (3, 3, 3), (1, 4), (0, 2)]
)
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape: tuple[int, ...], wrap: bool) -> None:
    ours, theirs = gw.zeros(shape), torch.zeros(shape)
    assert ours.fill_diagonal_(2.5, wrap=wrap) is ours
    assert ours.tolist() == theirs.fill_diagonal_(2.5, wrap=wrap).tolist()


def test_fill_diagonal_stops_the_gradient_there_and_refuses_other_shapes() -> None:
    x, y = gw.ones(3, 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)
    (x * 2).fill_diagonal_(0.0).sum().backward()
    (y * 2).fill_diagonal_(0.0).sum().backward()
    assert y.grad is not None
    assert x.grad.tolist() == y.grad.tolist()
    for shape in ((3,), (2, 2, 3)):
        with pytest.raises(RuntimeError):
            torch.zeros(shape).fill_diagonal_(1.0)
        with pytest.raises(RuntimeError, match="takes a matrix"):
            gw.zeros(shape).fill_diagonal_(1.0)


@pytest.mark.parametrize("n", [None, 0, 1, 2, 5])
@pytest.mark.parametrize("increasing", [False, True])
def test_vander(n: int | None, increasing: bool) -> None:
    for numbers in ([1, 2, 3], [0.5, -2.0]):
        ours = gw.vander(gw.tensor(numbers), n, increasing)
        theirs = torch.vander(torch.tensor(numbers), n, increasing)
        assert ours.tolist() == theirs.tolist() and ours.shape == tuple(theirs.shape)
    with pytest.raises(ValueError, match="vector"):
        gw.vander(gw.ones(2, 2), n)


def test_memory_formats_are_accepted_where_pytorch_accepts_them() -> None:
    for engine in (gw, torch):
        x = engine.ones(1, 2, 3, 4)
        likes = ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")
        for name in likes:
            made = getattr(engine, name)(x, memory_format=engine.preserve_format)
            assert tuple(made.shape) == (1, 2, 3, 4)
        assert engine.full_like(x, 3.0, memory_format=engine.channels_last).sum().item() == 72
        assert engine.randint_like(x, 3, memory_format=engine.preserve_format).dtype == x.dtype
        assert tuple(engine.empty(1, 2, 3, 4, memory_format=engine.channels_last).shape) == x.shape
        with pytest.raises(TypeError):
            engine.zeros(2, memory_format=engine.contiguous_format)


def test_only_inputs_of_grad_is_true() -> None:
    x = gw.ones(2, requires_grad=True)
    (found,) = gw.autograd.grad((x * x).sum(), x, only_inputs=True)
    assert found.tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="backward"):
        gw.autograd.grad((x * x).sum(), x, only_inputs=False)
