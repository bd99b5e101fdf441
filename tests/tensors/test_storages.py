"""The memory of tensors, compared with PyTorch: storages, strides, other shapes in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import gradwalk as gw


def _sixteen(m: Any) -> Any:
    return m.arange(16.0).reshape(4, 4)


def _told(thing: Any) -> Any:
    """What both libraries say alike."""
    if hasattr(thing, "stride"):
        facts = tuple(thing.shape), thing.storage_offset(), thing.tolist()
        return (*facts, thing.stride()) if thing.numel() else facts
    if isinstance(thing, tuple):
        return tuple(map(_told, thing))
    return thing


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "offset of a view": lambda m, x: x[1:, 2:],
    "offset of the second part": lambda m, x: m.ones(2, dtype=m.complex64).imag,
    "strides": lambda m, x: x.as_strided((2, 2), (1, 4)),
    "strides of a view from its own begin": lambda m, x: x[1].as_strided((2,), (2,)),
    "strides of a view from the begin of the memory": lambda m, x: x[1].as_strided((2,), (2,), 0),
    "strides of a view beyond its end": lambda m, x: x[1].as_strided((3,), (4,)),
    "strides of a transposed view": lambda m, x: x.T.as_strided((2, 2), (2, 1), 3),
    "strides in place": lambda m, x: x.as_strided_((3,), (5,), 1),
    "empty": lambda m, x: m.empty_strided((2, 3), (1, 2)).fill_(7.0),
    "new empty": lambda m, x: x.new_empty_strided((2, 3), (4, 1), dtype=m.int32).fill_(7),
    "set to a tensor": lambda m, x: m.tensor([]).set_(x[1]),
    "set to a storage": lambda m, x: m.tensor([]).set_(x.storage(), 1, (2, 2), (1, 3)),
    "set to all of a storage": lambda m, x: m.tensor([]).set_(x[1].untyped_storage()),
    "set to nothing": lambda m, x: x.set_(),
    "smaller": lambda m, x: x.resize_(3, 2),
    "smaller view": lambda m, x: x[2].resize_(2),
    "a view of another shape": lambda m, x: x[0].resize_(4, 2),
    "larger": lambda m, x: x.resize_(5, 4)[:4],
    "the same shape keeps its strides": lambda m, x: x.T.resize_(4, 4),
    "like another": lambda m, x: x.resize_as_(m.zeros(2, 5)),
    "bytes": lambda m, x: x.view(m.int32),
    "narrower": lambda m, x: x.view(m.int16)[:, :3],
    "wider": lambda m, x: x.view(m.float64)[1:],
    "sizes": lambda m, x: x[1:].new(2, 3).fill_(1),
    "elements": lambda m, x: x.long().new([1, 2]),
    "one by one": lambda m, x: x.apply_(lambda a: a * 2 + 1),
    "two by two": lambda m, x: x.map_(m.ones(4, 4), lambda a, b: a + b),
    "three by three": lambda m, x: x.map2_(m.ones(4, 1) * 3, m.ones(4), lambda a, b, c: a * b + c),
    "length": lambda m, x: (len(x[1].storage()), x[1].storage().tolist()),
    "number of bytes": lambda m, x: x[1].untyped_storage().nbytes(),
    "order of dimensions": lambda m, x: x.T.dim_order(),
    "is a view": lambda m, x: (x._is_view(), x[1]._is_view(), (x + 1)._is_view()),
    "is set": lambda m, x: (x.is_set_to(x.view(4, 4)), x.is_set_to(x.T)),
    "no elements are set": lambda m, x: m.tensor([]).is_set_to(m.tensor([])),
    "layout": lambda m, x: x.layout == m.strided,
}


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("label", CALLS)
def test_memory_is_pytorchs(label: str) -> None:
    call = CALLS[label]
    found, expected = (_told(call(m, _sixteen(m).contiguous().clone())) for m in (gw, torch))
    assert found == expected


@pytest.mark.parametrize("m", [gw, torch], ids=["gradwalk", "torch"])
def test_what_shares_memory_sees_a_change(m: Any) -> None:
    x = m.zeros(4)
    shown = m.tensor([]).set_(x)
    shrunk = x[:].resize_(2)
    whole = x.view(m.int32)
    x[0] = 1.0
    assert shown[0] == shrunk[0] == 1.0
    whole[1] = 0x40000000
    assert x.tolist() == [1.0, 2.0, 0.0, 0.0]
    assert x[1:]._base is x._base or x[1:]._base is x


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_a_storage_is_memory() -> None:
    x = gw.zeros(3)
    x.storage()[1] = 5.0
    assert x.tolist() == [0.0, 5.0, 0.0]
    assert x.storage()[1:] == [5.0, 0.0]
    assert x.storage().untyped().data_ptr() == x[1:].untyped_storage().data_ptr()


def test_assigning_a_part_of_complex_numbers() -> None:
    for m in (gw, torch):
        z = m.tensor([1 + 2j, 3 + 4j])
        z.real = m.tensor([5.0, 6.0])
        z.imag = 0.0
        assert z.tolist() == [5 + 0j, 6 + 0j]


def test_gradients_of_strides_reach_beyond_the_view() -> None:
    for m in (gw, torch):
        x = m.arange(6.0, requires_grad=True)
        (x * 1)[2:].as_strided((2,), (2,)).sum().backward()
        assert x.grad.tolist() == [0, 0, 1, 0, 1, 0]


REFUSED: dict[str, Callable[[], Any]] = {
    "a view that would grow": lambda: gw.zeros(4)[2:].resize_(3),
    "a leaf": lambda: gw.zeros(4, requires_grad=True).resize_(3),
    "a view of a graph": lambda: gw.zeros(4, requires_grad=True)[:2].set_(gw.zeros(1)),
    "beyond the end": lambda: gw.zeros(4).as_strided((3,), (2,)),
    "strides without sizes": lambda: gw.empty_strided((3,), (2, 1)),
    "memory of another dtype": lambda: gw.zeros(2).set_(gw.zeros(2, dtype=gw.float64)),
    "not where a number begins": lambda: gw.zeros(3)[1:].view(gw.float64),
    "a sparse layout": lambda: gw.zeros(3, layout="sparse_coo"),
}


@pytest.mark.parametrize("label", REFUSED)
def test_what_is_refused(label: str) -> None:
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        REFUSED[label]()


def test_a_parameter_is_set_to_other_memory_in_no_grad() -> None:
    for m in (gw, torch):
        parameter = m.nn.Parameter(m.arange(5.0))
        with m.no_grad():
            parameter.set_(parameter[1:])
        (parameter * 2).sum().backward()
        assert parameter.is_leaf and parameter.tolist() == [1.0, 2.0, 3.0, 4.0]
        assert parameter.grad.tolist() == [2.0] * 4
        with pytest.raises(RuntimeError):
            parameter.set_(m.ones(1))
