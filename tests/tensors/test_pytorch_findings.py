"""What PyTorch's own tests found (`tools/pytorch_tests`), where nothing else covers it."""

from __future__ import annotations

import math

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
