"""Constructors and names of PyTorch's first years, which programs still use."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gradwalk as gw
from tests.batches import batched

CALLS: dict[str, Any] = {
    "sizes": lambda t: t.Tensor(2, 3).fill_(1),
    "elements": lambda t: t.Tensor([2, 3]),
    "nothing": lambda t: t.Tensor(),
    "float": lambda t: t.FloatTensor([[1, 2], [3, 4]]),
    "double": lambda t: t.DoubleTensor([1.5]),
    "half": lambda t: t.HalfTensor([1.5]),
    "long": lambda t: t.LongTensor([1, 2]),
    "int": lambda t: t.IntTensor(2).zero_(),
    "bool": lambda t: t.BoolTensor([True, False]),
    "byte": lambda t: t.ByteTensor([1, 0]),
    "type by class": lambda t: t.ones(2).type(t.LongTensor),
    "type by name": lambda t: t.ones(2).type("torch.DoubleTensor"),
    "type by dtype": lambda t: t.ones(2).type(t.int32),
    "variable": lambda t: t.autograd.Variable(t.ones(2), requires_grad=True),
}


@batched("name", CALLS)
def test_a_tensor_is_pytorchs(name: str) -> None:
    ours, theirs = CALLS[name](gw), CALLS[name](torch)
    assert ours.tolist() == theirs.tolist() and ours.requires_grad == theirs.requires_grad
    assert ours.type() == theirs.type()
    assert isinstance(ours, gw.autograd.Variable)
    assert isinstance(ours, gw.LongTensor) == isinstance(theirs, torch.LongTensor)


def test_names_of_a_gpu_ask_for_one() -> None:
    assert not isinstance(gw.ones(2), gw.cuda.FloatTensor)
    if not gw.cuda.is_available():
        with pytest.raises(Exception, match=r"cuda|JAX|jax"):
            gw.ones(2).type("torch.cuda.FloatTensor")


def test_the_accelerator_is_the_gpu_or_tpu_that_jax_sees() -> None:
    here = gw.accelerator.current_accelerator()
    assert gw.accelerator.is_available() == (here is not None)
    assert (gw.accelerator.device_count() > 0) == (here is not None)
