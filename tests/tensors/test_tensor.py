"""Tensor: PyTorch's constructors, attributes and conversions."""

from __future__ import annotations

import array
import copy
import io
import itertools
import pickle
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched


def kind(tensor: Any) -> str:
    """The dtype's name, without the library's."""
    return str(tensor.dtype).removeprefix("torch.")


def facts(tensor: Any) -> tuple[Any, ...]:
    return kind(tensor), tuple(tensor.shape), tensor.tolist(), tensor.requires_grad


# -- the first thing anyone tries ---------------------------------------------------------------

SNIPPET = """
x = torch.tensor([2.0], requires_grad=True)
y = x**3 + 5*x
y.backward()
print(x.grad)
"""


@pytest.mark.parametrize("library", ["torch", "gradwalk as torch"])
def test_a_pytorch_snippet_prints_the_same(library: str) -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(f"import {library}\n{SNIPPET}", {})
    assert printed.getvalue() == "tensor([17.])\n"


# -- making tensors -----------------------------------------------------------------------------

FLOATS = array.array("f", [1, 2, 3])
CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {
    "tensor int": lambda m: m.tensor(3),
    "tensor float": lambda m: m.tensor(3.5),
    "tensor bool": lambda m: m.tensor(True),
    "tensor list": lambda m: m.tensor([[1, 2], [3, 4]]),
    "tensor mixed": lambda m: m.tensor([1, 2.5]),
    "tensor bools and ints": lambda m: m.tensor([True, 2]),
    "tensor tuple": lambda m: m.tensor((1.0, 2.0)),
    "tensor empty": lambda m: m.tensor([]),
    "tensor empty rows": lambda m: m.tensor([[], []]),
    "tensor of an array": lambda m: m.tensor(np.array([1.0, 2.0])),
    "tensor of an int32 array": lambda m: m.tensor(np.array([1, 2], np.int32)),
    "tensor of a NumPy number": lambda m: m.tensor(np.float64(2.5)),
    "tensor of NumPy numbers": lambda m: m.tensor([np.float32(1), np.float32(2)]),
    "tensor dtype": lambda m: m.tensor([1, 2], dtype=m.float64),
    "tensor down": lambda m: m.tensor([1.7, -1.7], dtype=m.int64),
    "tensor to bool": lambda m: m.tensor([0.0, 2.0], dtype=m.bool),
    "tensor requires_grad": lambda m: m.tensor([1.0], requires_grad=True),
    "tensor of tensors": lambda m: m.tensor([m.tensor(1.0), m.tensor(2.0)]),
    "as_tensor": lambda m: m.as_tensor([1, 2]),
    "as_tensor dtype": lambda m: m.as_tensor(np.ones(2, np.float32), dtype=m.float64),
    "from_numpy": lambda m: m.from_numpy(np.array([1.0, 2.0])),
    "frombuffer": lambda m: m.frombuffer(FLOATS, dtype=m.float32, requires_grad=True),
    "frombuffer part": lambda m: m.frombuffer(FLOATS, dtype=m.float32, count=1, offset=8),
    "zeros": lambda m: m.zeros(2, 3),
    "zeros tuple": lambda m: m.zeros((2, 3), dtype=m.int32),
    "zeros nothing": lambda m: m.zeros(0, 3),
    "zeros 0-d": lambda m: m.zeros(()),
    "ones": lambda m: m.ones([2], requires_grad=True),
    "full": lambda m: m.full((2,), 7),
    "full float": lambda m: m.full((2, 1), 7.5),
    "full bool": lambda m: m.full((2,), True),
    "full dtype": lambda m: m.full((2,), 7, dtype=m.float64),
    "zeros_like": lambda m: m.zeros_like(m.ones(2, dtype=m.int32)),
    "ones_like": lambda m: m.ones_like(m.zeros(2), dtype=m.float64),
    "full_like": lambda m: m.full_like(m.zeros(2), 3, requires_grad=True),
    "arange": lambda m: m.arange(4),
    "arange two": lambda m: m.arange(1, 4),
    "arange step": lambda m: m.arange(1, 8, 3),
    "arange float": lambda m: m.arange(0.0, 1.0, 0.25),
    "arange down": lambda m: m.arange(3, 0, -1),
    "arange dtype": lambda m: m.arange(3, dtype=m.float32),
    "linspace": lambda m: m.linspace(0, 1, 5),
    "linspace one": lambda m: m.linspace(2, 3, 1),
    "arange by name": lambda m: m.arange(end=3),
    "arange of fractions": lambda m: m.arange(0.5, 3.0, 0.7, dtype=m.int32),
    "arange of tensors": lambda m: m.arange(m.tensor(1), m.tensor(4)),
    "linspace of tensors": lambda m: m.linspace(m.tensor(0.3), 2, 4, dtype=m.float64),
    "linspace of integers": lambda m: m.linspace(4.3, -3, 6, dtype=m.int64),
    "logspace of tensors": lambda m: m.logspace(m.tensor(0.5), m.tensor(2.0), 3, base=2),
    "size by name": lambda m: (
        m.zeros(size=(2, 3)) + m.ones(size=[3]) + m.zeros(1).new_ones(size=())
    ),
    "eye": lambda m: m.eye(2),
    "eye wide": lambda m: m.eye(2, 3),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructors_as_in_pytorch(name: str) -> None:
    make = CONSTRUCTORS[name]
    assert facts(make(gw)) == facts(make(torch))
    assert repr(make(gw)).replace("gradwalk.", "torch.") == repr(make(torch))


def test_tensor_copies_and_from_numpy_shares() -> None:
    array = np.zeros(3)
    copied, shared, also = gw.tensor(array), gw.from_numpy(array), gw.as_tensor(array)
    array[0] = 7
    assert (copied[0].item(), shared[0].item(), also[0].item()) == (0, 7, 7)
    shared[1] = 5
    assert array[1] == 5
    source = gw.tensor([1.0, 2.0])
    assert gw.as_tensor(source) is source
    again = gw.tensor(source)
    again[0] = 9
    assert source.tolist() == [1.0, 2.0]
    assert gw.is_tensor(source) and not gw.is_tensor(array)


def test_buffers_are_shared() -> None:
    memory = bytearray(8)
    shared = gw.frombuffer(memory, dtype=gw.int32)
    shared[1] = 258
    assert bytes(memory) == b"\0\0\0\0\2\1\0\0"
    view = shared.__buffer__(0)  # what memoryview(shared) calls, from Python 3.12 on
    assert (view.tolist(), view.format) == ([0, 258], "i")
    if sys.version_info >= (3, 12):
        assert memoryview(shared).tolist() == [0, 258]  # type: ignore[arg-type]
    view[0] = 7
    assert shared.tolist() == [7, 258]
    with pytest.raises(RuntimeError, match="needs a gradient"):
        gw.ones(2, requires_grad=True).__buffer__(0)
    with pytest.raises(RuntimeError, match="read-only"):
        gw.frombuffer(b"four", dtype=gw.uint8).add_(1)


def test_subclasses_of_ndarray_become_plain_arrays(tmp_path: Path) -> None:
    stored = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=(3,))
    stored[:] = [1.0, 2.0, 3.0]
    for make in (gw.from_numpy, gw.as_tensor, gw.tensor):
        x = make(stored).requires_grad_()
        (x[1:] * stored[1:] * x[0]).sum().backward()
        assert x.grad.tolist() == [13.0, 2.0, 3.0]
    gw.from_numpy(stored)[0] = 7
    assert stored[0] == 7


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: gw.Tensor([2], [3]), TypeError, "sizes or one block"),
        (lambda: gw.tensor([[1], [1, 2]]), ValueError, "rectangular"),
        (lambda: gw.tensor("text"), TypeError, "cannot hold"),
        (lambda: gw.zeros(2, size=(3,)), TypeError, "twice"),
        (lambda: gw.arange(0, 3, 0), ValueError, "no steps of 0"),
        (lambda: gw.arange(0, -3, 2), ValueError, "no steps of 2"),
        (lambda: gw.linspace(gw.zeros(2), 1, 3), ValueError, "0-d"),
        (lambda: gw.linspace(0, 1, -1), ValueError, "must be at least 0, not -1"),
        (lambda: gw.cat([gw.ones(1), None]), TypeError, "NoneType"),
        (lambda: gw.cat([gw.tensor(1.0)]), ValueError, "use stack"),
        (lambda: gw.roll(gw.tensor(1.0), 0, 0), IndexError, "no dimensions"),
        (lambda: gw.narrow(gw.ones(3), 0, gw.tensor(True), 1), TypeError, "integer"),
        (
            lambda: gw.index_add(gw.ones(3, 2), 0, gw.tensor([0, 1]), gw.ones(2)),
            ValueError,
            "shape",
        ),
        (lambda: gw.ones(3).index_copy_(0, gw.tensor([0]), gw.ones(2)), ValueError, "shape"),
        (lambda: gw.add(gw.ones(1), gw.ones(1), into=gw.ones(1)), TypeError, "into"),
        (lambda: gw.add(input=gw.ones(1)), TypeError, "2 operand"),
        (lambda: gw.tensor([None]), TypeError, "cannot hold"),
        (lambda: gw.from_numpy([1.0]), TypeError, "ndarray"),
        (lambda: gw.arange(3, requires_grad=True), RuntimeError, "integer"),
        (lambda: gw.tensor([1, 2], requires_grad=True), RuntimeError, "integer"),
        (lambda: gw.tensor([1, 2]).requires_grad_(), RuntimeError, "integer"),
    ],
)
def test_what_cannot_be_a_tensor(wrong: Callable[[], Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        wrong()


def test_the_default_dtype_can_be_changed() -> None:
    assert gw.get_default_dtype() == gw.float32
    try:
        gw.set_default_dtype(gw.float64)
        assert gw.tensor([1.0]).dtype == gw.zeros(2).dtype == gw.float64
        assert (gw.tensor([1, 2]) / 2).dtype == gw.float64
        assert repr(gw.ones(1)) == "tensor([1.])"
        with pytest.raises(TypeError, match="floating-point"):
            gw.set_default_dtype(gw.int64)
    finally:
        gw.set_default_dtype(gw.float32)


def test_random_numbers_follow_the_seed() -> None:
    gw.manual_seed(3)
    first = [gw.rand(2, 3), gw.randn(4), gw.randint(0, 10, (5,)), gw.randperm(6)]
    state = gw.get_rng_state()
    more = gw.rand(2)
    gw.manual_seed(3)
    again = [gw.rand(2, 3), gw.randn(4), gw.randint(0, 10, (5,)), gw.randperm(6)]
    assert [t.tolist() for t in first] == [t.tolist() for t in again]
    gw.set_rng_state(state)
    assert gw.rand(2).tolist() == more.tolist()
    own = gw.Generator().manual_seed(1)
    before = str(gw.get_rng_state())
    assert gw.rand(2, generator=own).tolist() != gw.rand(2, generator=own).tolist()
    assert str(gw.get_rng_state()) == before
    assert first[0].dtype == gw.float32 and gw.rand(2, dtype=gw.float64).dtype == gw.float64
    assert sorted(first[3].tolist()) == list(range(6))
    assert gw.rand_like(first[0]).shape == gw.randn_like(first[0]).shape == (2, 3)
    draws = gw.rand(1000)
    assert draws.min() >= 0 and draws.max() < 1 and abs(draws.mean() - 0.5) < 0.1


# -- attributes ---------------------------------------------------------------------------------

ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "shape": lambda t: tuple(t.shape),
    "size()": lambda t: tuple(t.size()),
    "size(-1)": lambda t: t.size(-1),
    "ndim": lambda t: t.ndim,
    "dim()": lambda t: t.dim(),
    "numel()": lambda t: t.numel(),
    "len": len,
    "stride()": lambda t: t.stride(),
    "is_contiguous()": lambda t: t.is_contiguous(),
    "is_floating_point()": lambda t: t.is_floating_point(),
    "itemsize": lambda t: t.itemsize,
    "nbytes": lambda t: t.nbytes,
    "device": lambda t: str(t.device),
    "requires_grad": lambda t: t.requires_grad,
    "is_leaf": lambda t: t.is_leaf,
    "grad": lambda t: t.grad if t.is_leaf else None,
    "grad_fn": lambda t: t.grad_fn is None,
    "data": lambda t: facts(t.data),
    "detach()": lambda t: facts(t.detach()),
    "clone()": lambda t: facts(t.clone()),
    "contiguous()": lambda t: t.contiguous().is_contiguous(),
    "T": lambda t: facts(t.T),
    "mT": lambda t: facts(t.mT),
}
KINDS: dict[str, Callable[[Any], Any]] = {
    "a leaf": lambda m: m.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True),
    "a result": lambda m: m.tensor([[1.0, 2.0, 3.0]], requires_grad=True) * 2,
    "integers": lambda m: m.arange(6).reshape(2, 3),
    "turned": lambda m: m.arange(6.0).reshape(2, 3).T,
    "double": lambda m: m.zeros(1, 2, dtype=m.float64),
    "booleans": lambda m: m.ones(2, 2) > 0,
}


@batched("attribute, name", itertools.product(ATTRIBUTES, KINDS), key=lambda case: case[1])
def test_attributes_as_in_pytorch(attribute: str, name: str) -> None:
    read, make = ATTRIBUTES[attribute], KINDS[name]
    assert read(make(gw)) == read(make(torch))


CASTS: list[Callable[[Any, Any], Any]] = [
    lambda m, t: t.float(), lambda m, t: t.double(), lambda m, t: t.long(), lambda m, t: t.int(),
    lambda m, t: t.bool(), lambda m, t: t.to(m.float64), lambda m, t: t.to(dtype=m.int32),
    lambda m, t: t.type(m.float64), lambda m, t: t.type_as(m.zeros(1, dtype=m.float64)),
    lambda m, t: t.to("cpu"), lambda m, t: t.cpu(), lambda m, t: t.to(m.zeros(1, dtype=m.int64)),
]  # fmt: skip


@pytest.mark.parametrize("cast", CASTS)
def test_casts_as_in_pytorch(cast: Callable[..., Any]) -> None:
    for values in ([-1.7, 0.0, 2.5], [1, 0, 3]):
        ours, theirs = cast(gw, gw.tensor(values)), cast(torch, torch.tensor(values))
        assert facts(ours) == facts(theirs)
    x = gw.tensor([1.0])
    assert x.to(gw.float32) is x and x.to(gw.float32, copy=True) is not x
    with pytest.raises(
        (ImportError, RuntimeError), match="JAX"
    ):  # not installed, or it sees no such device
        x.to("cuda:99")
    for name in ("mps", "gpu", "float33"):
        with pytest.raises(ValueError, match=f"no device '{name}'"):
            x.to(name)


# -- views --------------------------------------------------------------------------------------

VIEWS: dict[str, Callable[[Any], Any]] = {
    "x[0]": lambda t: t[0], "x[:, 1]": lambda t: t[:, 1], "x[::2]": lambda t: t[::2],
    "x[..., None]": lambda t: t[..., None], "T": lambda t: t.T, "mT": lambda t: t.mT,
    "permute": lambda t: t.permute(1, 0), "transpose": lambda t: t.transpose(0, 1),
    "reshape": lambda t: t.reshape(-1), "view": lambda t: t.view(3, 2),
    "view_as": lambda t: t.view_as(t), "flatten": lambda t: t.flatten(),
    "detach": lambda t: t.detach(), "data": lambda t: t.data,
    "contiguous": lambda t: t.contiguous(),
    "expand": lambda t: t.expand(2, 2, 3), "broadcast_to": lambda t: t.broadcast_to((4, 2, 3)),
    "squeeze": lambda t: t.squeeze(), "unsqueeze": lambda t: t.unsqueeze(0),
    "split": lambda t: t.split(1)[1], "chunk": lambda t: t.chunk(3, 1)[2],
    "iteration": lambda t: list(t)[1],
}  # fmt: skip
COPIES: dict[str, Callable[[Any], Any]] = {
    "clone": lambda t: t.clone(), "x[[0]]": lambda t: t[[0]], "mask": lambda t: t[t > 1],
    "flip": lambda t: t.flip(0), "T.reshape": lambda t: t.T.reshape(-1),
    "T.contiguous": lambda t: t.T.contiguous(), "to": lambda t: t.double(), "+": lambda t: t + 0,
}  # fmt: skip


@pytest.mark.parametrize("name", [*VIEWS, *COPIES])
def test_views_share_memory_and_copies_do_not(name: str) -> None:
    take = {**VIEWS, **COPIES}[name]
    for m in (gw, torch):
        x = m.arange(6.0).reshape(2, 3)
        part = take(x)
        before = part.tolist()
        x += 100
        assert (part.tolist() != before) is (name in VIEWS), m.__name__


def test_view_refuses_to_copy() -> None:
    for m in (gw, torch):
        with pytest.raises(RuntimeError):
            m.arange(6.0).reshape(2, 3).T.view(6)


# -- out of the world of tensors ----------------------------------------------------------------


def test_numpy_shares_memory_and_asarray_too() -> None:
    x = gw.tensor([1.0, 2.0])
    for shared in (x.numpy(), np.asarray(x), x.__array__()):
        assert np.shares_memory(shared, x._array)
    assert not np.shares_memory(np.array(x), x._array)
    assert np.asarray(x, np.float64).dtype == np.float64
    assert np.array(x, copy=False) is not None
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, np.float64, copy=False)
    assert np.stack([gw.ones(2), gw.zeros(2)]).tolist() == [[1, 1], [0, 0]]


def test_dlpack_both_ways() -> None:
    for other in (torch.tensor([1.0, 2.0]), np.array([1.0, 2.0])):
        mine = gw.from_dlpack(other)
        assert mine.tolist() == [1.0, 2.0] and kind(mine) == kind(other)
        mine[0] = 7
        assert other[0] == 7  # the same memory
    x = gw.tensor([[1.0, 2.0], [3.0, 4.0]])
    for theirs in (torch.from_dlpack(x.T), np.from_dlpack(x.T)):
        assert theirs.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    torch.from_dlpack(x)[0, 0] = 9
    assert x[0, 0].item() == 9
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(RuntimeError, match="detach"):
        torch.from_dlpack(x.requires_grad_())


UFUNCS: list[Callable[[Any, Any], Any]] = [
    lambda a, t: a * t, lambda a, t: t * a, lambda a, t: a + t, lambda a, t: a - t,
    lambda a, t: a / t, lambda a, t: a**t, lambda a, t: t**a, lambda a, t: a[0] @ t,
    lambda a, t: t @ a[0], lambda a, t: a @ t, lambda a, t: np.float64(2) * t,
    lambda a, t: t / np.int64(2), lambda a, t: np.float32(2) ** t,
    lambda a, t: (np.array(2.0) if type(t) is gw.Tensor else 2.0) - t,
]  # fmt: skip


@pytest.mark.parametrize("function", UFUNCS)
def test_arrays_and_tensors_mix_on_either_side(function: Callable[..., Any]) -> None:
    array = np.array([[1.0, 2.0], [3.0, 0.5]])
    ours = gw.tensor([[0.5, 1.5], [2.5, 1.0]], dtype=gw.float64, requires_grad=True)
    theirs = torch.tensor(ours.tolist(), dtype=torch.float64, requires_grad=True)
    mine = function(array, ours)
    other = function(torch.tensor(array), theirs)
    assert type(mine) is gw.Tensor and facts(mine)[:2] == facts(other)[:2]
    np.testing.assert_allclose(mine.detach(), other.detach(), rtol=1e-14)
    mine.sum().backward()
    other.sum().backward()
    np.testing.assert_allclose(ours.grad, theirs.grad, rtol=1e-13)


@pytest.mark.parametrize("name", ["tanh", "exp", "log", "sqrt", "sin", "abs", "negative", "square"])
def test_numpy_functions_of_tensors_are_tensors(name: str) -> None:
    x = gw.tensor([0.5, 2.0], requires_grad=True)
    out = getattr(np, name)(x)
    assert type(out) is gw.Tensor and out.requires_grad
    np.testing.assert_allclose(out.detach(), getattr(np, name)(x.detach().numpy()), rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.nextafter(x, x),
        lambda x: np.add.reduce(x),
        lambda x: np.sin(x, out=np.zeros(2)),
    ],
)
def test_numpy_functions_that_are_no_op_of_ours_are_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="__array_ufunc__"):
        call(gw.tensor([1.0, 2.0], requires_grad=True))


def test_numbers() -> None:
    x = gw.tensor([[2.5]], requires_grad=True)
    assert (x.item(), float(x), int(x), bool(x)) == (2.5, 2.5, 2, True)
    assert f"{gw.tensor(2.5):.2f}" == "2.50"
    assert type(gw.tensor(3).item()) is int and type(gw.tensor(True).item()) is bool
    assert gw.tensor([[1, 2]]).tolist() == [[1, 2]] and gw.tensor(2.0).tolist() == 2.0
    assert [10, 20, 30][gw.tensor(1)] == 20 and list(range(gw.tensor(2))) == [0, 1]
    assert 2.5 in x and 3 not in gw.tensor([1, 2])
    assert not gw.tensor(0.0)
    for wrong, error in [
        (lambda: bool(gw.ones(2)), ValueError), (lambda: gw.ones(2).item(), ValueError),
        (lambda: [1][gw.tensor(0.0)], TypeError), (lambda: len(gw.tensor(1.0)), TypeError),
        (lambda: list(gw.tensor(1.0)), TypeError), (lambda: float(gw.ones(2)), ValueError),
    ]:  # fmt: skip
        with pytest.raises(error):
            wrong()


def test_iteration_unpacks_rows_that_gradients_flow_through() -> None:
    x = gw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    first, second = x
    (first * second).sum().backward()
    assert x.grad.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert [row.tolist() for row in x] == x.tolist()
    assert [i for i, _ in enumerate(gw.zeros(0, 2))] == []


# -- text ---------------------------------------------------------------------------------------


def test_repr_names_the_op() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    for made, text in [
        (x, "tensor([1., 2.], requires_grad=True)"),
        (x * 2, "tensor([2., 4.], grad_fn=<Mul>)"),
        (x.log_softmax(0).exp(), "tensor([0.2689, 0.7311], grad_fn=<Exp>)"),
        (x.log_softmax(0) * 0, "tensor([-0., -0.], grad_fn=<Mul>)"),
        (x.double(), "tensor([1., 2.], dtype=gradwalk.float64, grad_fn=<Cast>)"),
        (x.detach(), "tensor([1., 2.])"),
        (x.sum(), "tensor(3., grad_fn=<Sum>)"),
        (gw.nn.Parameter(gw.zeros(1)), "Parameter containing:\ntensor([0.], requires_grad=True)"),
    ]:
        assert repr(made) == str(made) == text
        assert f"{made}" == (text if made.ndim else "3.0")  # a number, as in PyTorch
    assert repr(x.log_softmax(0).grad_fn) == "<LogSoftmax>"
    sources = [source for source, _ in (x * 2 + x).grad_fn.next_functions]
    assert [repr(s) for s in sources] == ["<Mul>", "<AccumulateGrad>"]


# -- copies -------------------------------------------------------------------------------------


def test_copy_deepcopy_and_pickle() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    x.label = "weights"
    (x * x).sum().backward()
    shallow, deep, pickled = copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))
    for other in (shallow, deep, pickled):
        assert facts(other) == facts(x) and other.label == "weights" and other.is_leaf
    assert np.shares_memory(shallow._array, x._array)
    for other in (deep, pickled):
        assert not np.shares_memory(other._array, x._array)
    assert deep.grad.tolist() == [2.0, 4.0] and pickled.grad is None
    assert not np.shares_memory(deep.grad._array, x.grad._array)
    both = copy.deepcopy([x, x])
    assert both[0] is both[1]
    parameter = gw.nn.Parameter(gw.zeros(2))
    for other in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert type(other) is gw.nn.Parameter and other.requires_grad
    part = pickle.loads(pickle.dumps(gw.arange(10)[2:4]))
    assert part.tolist() == [2, 3]
    for refuse in (copy.copy, copy.deepcopy):
        with pytest.raises(RuntimeError, match=r"(?s)only leaf.*test_tensor\.py.*detach"):
            refuse(x * 2)
