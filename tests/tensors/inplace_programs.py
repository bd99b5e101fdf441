"""Random programs of in-place, view and plain operations, and their correct gradients.

A program is a list of steps; every step is written once and runs on gradwalk, on PyTorch and on
`Dual`, NumPy arrays that carry a tangent beside every number. Views share the memory and tangents
of a Dual, and in-place operations overwrite them, so its derivative is right whatever the order of
changes. It gives the reference also for programs that PyTorch refuses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

import gradwalk as gw

Step = tuple[int, int, int, int]  # the kind of step, two operands, one choice
SHAPES = [(2, 3), (3,), (3, 2), (4,), (2, 3), ()]
FLAT = 2  # this many of the last ones need no gradient


class DifferentLayout(Exception):
    """Two engines disagree about which results are views, so they cannot be compared."""


# -- the right answer ---------------------------------------------------------------------------


class Dual:
    """An array and its tangent. Inside `no_grad` only the array is written to."""

    recording = True

    def __init__(self, value: np.ndarray, tangent: np.ndarray) -> None:
        self.value = value
        self.tangent = tangent

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    def detach(self) -> Dual:
        return Dual(self.value, np.zeros_like(self.value))

    data = property(detach)

    def _made(self, value: Any, tangent: Any) -> Dual:
        value = np.asarray(value)
        found = Dual(value, np.zeros_like(value))
        if Dual.recording:
            found.tangent[...] = tangent
        return found

    def _view(self, of: Callable[[np.ndarray], np.ndarray]) -> Dual:
        value = of(self.value)
        shared = np.shares_memory(value, self.value)
        if not Dual.recording:
            return Dual(value, np.zeros_like(value))
        tangent = of(self.tangent)
        if not shared:
            return Dual(value, tangent.copy())
        if value.size and not np.shares_memory(tangent, self.tangent):
            raise DifferentLayout
        return Dual(value, tangent)

    def _write(self, other: Dual, where: Any = ...) -> Dual:
        if Dual.recording:
            self.tangent[where] = other.tangent
        self.value[where] = other.value
        return self

    def _unary(self, value: Any, slope: Any) -> Dual:
        return self._made(value, slope * self.tangent)

    def sin(self) -> Dual:
        return self._unary(np.sin(self.value), np.cos(self.value))

    def tanh(self) -> Dual:
        return self._unary(np.tanh(self.value), 1 - np.tanh(self.value) ** 2)

    def sigmoid(self) -> Dual:
        out = 1 / (1 + np.exp(-self.value))
        return self._unary(out, out * (1 - out))

    def exp(self) -> Dual:
        return self._unary(np.exp(self.value), np.exp(self.value))

    def relu(self) -> Dual:
        return self._unary(np.maximum(self.value, 0), self.value > 0)

    def abs(self) -> Dual:
        return self._unary(np.abs(self.value), np.sign(self.value))

    def clip(self, low: float, high: float) -> Dual:
        inside = (self.value >= low) & (self.value <= high)
        return self._unary(np.clip(self.value, low, high), inside)

    def __neg__(self) -> Dual:
        return self._unary(-self.value, -1)

    def __pow__(self, n: int) -> Dual:
        return self._unary(self.value**n, n * self.value ** (n - 1))

    def clone(self) -> Dual:
        return self._made(np.copy(self.value, order="C"), self.tangent)

    def sum(self) -> Dual:
        return self._made(self.value.sum(), self.tangent.sum())

    def __add__(self, other: Any) -> Dual:
        other = _dual(other)
        return self._made(self.value + other.value, self.tangent + other.tangent)

    def __sub__(self, other: Any) -> Dual:
        return self + -_dual(other)

    def __mul__(self, other: Any) -> Dual:
        other = _dual(other)
        moved = self.tangent * other.value + self.value * other.tangent
        return self._made(self.value * other.value, moved)

    def __truediv__(self, other: Any) -> Dual:
        return self * _dual(other) ** -1

    def __gt__(self, number: float) -> np.ndarray:
        return self.value > number

    def __getitem__(self, index: Any) -> Dual:
        index = index if isinstance(index, tuple) else (index,)
        return self._view(lambda a: a[index if ... in index else (*index, ...)])

    def reshape(self, *shape: int) -> Dual:
        return self._view(lambda a: a.reshape(shape))

    def unsqueeze(self, dim: int) -> Dual:
        return self._view(lambda a: np.expand_dims(a, dim))

    def permute(self, *dims: int) -> Dual:
        return self._view(lambda a: a.transpose(dims))

    def expand(self, *shape: int) -> Dual:
        return self._view(lambda a: np.broadcast_to(a, shape))

    def split(self, size: int) -> list[Dual]:
        return [self[i : i + size] for i in range(0, max(self.shape[0], 1), size)]

    def __setitem__(self, index: Any, other: Any) -> None:
        self._write(_dual(other), index)

    def copy_(self, other: Any) -> Dual:
        return self._write(_dual(other))

    fill_ = copy_

    def zero_(self) -> Dual:
        return self.fill_(0.0)


def _dual(thing: Any) -> Dual:
    if isinstance(thing, Dual):
        return thing
    return Dual(np.asarray(thing, np.float64), np.zeros(np.shape(thing)))


def _in_place(name: str) -> None:
    plain = getattr(Dual, {"neg": "__neg__", "pow": "__pow__"}.get(name, name), None)
    plain = plain or getattr(Dual, f"__{ {'div': 'truediv'}.get(name, name) }__")
    setattr(Dual, f"{name}_", lambda x, *args: x._write(plain(x, *args)))


for _name in (
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "neg",
    "abs",
    "exp",
    "relu",
    "sigmoid",
    "tanh",
    "clip",
):
    _in_place(_name)


@contextlib.contextmanager
def _dual_no_grad() -> Iterator[None]:
    before, Dual.recording = Dual.recording, False
    try:
        yield
    finally:
        Dual.recording = before


# -- the steps ----------------------------------------------------------------------------------


def fitting(x: Any, y: Any) -> Any:
    """y if it broadcasts to the shape of x, or else a number made from it."""
    try:
        fits = np.broadcast_shapes(tuple(x.shape), tuple(y.shape)) == tuple(x.shape)
    except ValueError:
        fits = False
    return y if fits else y.sum()


def subscript(x: Any, k: int) -> Any:
    """One of several ways to take a part of x without a copy."""
    if not x.ndim:
        return [..., None][k % 2]
    return [0, -1, slice(0, 1), slice(None, None, 2), (..., 0), None, slice(1, None)][k % 7]


def turned(x: Any) -> Any:
    return x.permute(*range(x.ndim)[::-1])


PLAIN: list[Callable[..., Any]] = [
    lambda x, y, k: x.sin(),
    lambda x, y, k: x.tanh(),
    lambda x, y, k: x.tanh().exp(),
    lambda x, y, k: x.sigmoid(),
    lambda x, y, k: x**2,
    lambda x, y, k: -x,
    lambda x, y, k: x.clone(),
    lambda x, y, k: x + fitting(x, y),
    lambda x, y, k: x - fitting(x, y),
    lambda x, y, k: x * fitting(x, y),
    lambda x, y, k: x * x,
    lambda x, y, k: x * 0.5,
    lambda x, y, k: x / (fitting(x, y) ** 2 + 1.0),
    lambda x, y, k: x[[0, 0, 1]] if x.ndim else x + 1.0,
]
VIEWS: list[Callable[..., Any]] = [
    *[lambda x, y, k: x[subscript(x, k)]] * 3,
    lambda x, y, k: turned(x),
    lambda x, y, k: x.reshape(-1),
    lambda x, y, k: turned(x).reshape(-1),
    lambda x, y, k: x.unsqueeze(k % (x.ndim + 1)),
    lambda x, y, k: x.expand(2, *x.shape),
    lambda x, y, k: x.split(2)[k % 2 if x.shape[0] > 2 else 0] if x.ndim else x[...],
    lambda x, y, k: x.detach(),
]
CHANGES: list[Callable[..., Any]] = [
    lambda x, y, k: x.add_(fitting(x, y)),
    lambda x, y, k: x.sub_(fitting(x, y)),
    lambda x, y, k: x.mul_(fitting(x, y)),
    lambda x, y, k: x.div_(fitting(x, y) ** 2 + 1.0),
    lambda x, y, k: x.mul_(0.5),
    lambda x, y, k: x.add_(1.5),
    lambda x, y, k: x.pow_(2),
    lambda x, y, k: x.neg_(),
    lambda x, y, k: x.abs_(),
    lambda x, y, k: x.tanh_().exp_(),
    lambda x, y, k: x.relu_(),
    lambda x, y, k: x.sigmoid_(),
    lambda x, y, k: x.tanh_(),
    lambda x, y, k: x.clip_(-0.7, 0.7),
    lambda x, y, k: x.fill_(0.3),
    lambda x, y, k: x.zero_(),
    lambda x, y, k: x.copy_(fitting(x, y)),
    *[lambda x, y, k: x.__setitem__(subscript(x, k), fitting(x[subscript(x, k)], y))] * 3,
    lambda x, y, k: x.__setitem__([1, 0], y.sum()) if x.ndim else x.add_(y.sum()),
    lambda x, y, k: x.__setitem__(x > 0.1, 0.2),
    lambda x, y, k: x.__setitem__(x > 0.1, y.sum()),
]


def quietly(step: Callable[..., Any]) -> Callable[..., Any]:
    """Run a step inside no_grad."""

    def inside(x: Any, y: Any, k: int) -> Any:
        with no_grad_of(x):
            return step(x, y, k)

    return inside


def no_grad_of(x: Any) -> Any:
    if isinstance(x, Dual):
        return _dual_no_grad()
    return torch.no_grad() if isinstance(x, torch.Tensor) else gw.no_grad()


STEPS = [
    *PLAIN,
    *VIEWS,
    *VIEWS,
    *CHANGES,
    *CHANGES,
    quietly(lambda x, y, k: x.mul_(0.5)),
    quietly(lambda x, y, k: x.add_(fitting(x, y))),
    quietly(lambda x, y, k: x[subscript(x, k)]),
    lambda x, y, k: x.detach().mul_(0.5),
]
# PyTorch does not detect changes through `.data`; gradwalk does.
THROUGH_DATA = lambda x, y, k: x.data.mul_(0.5)


# -- running a program --------------------------------------------------------------------------


def leaves() -> list[np.ndarray]:
    source = np.random.default_rng(5)
    return [np.asarray(source.uniform(-1.5, 1.5, shape)) for shape in SHAPES]


def run(
    tensors: list[Any], steps: Sequence[Step], menu: Sequence[Callable[..., Any]] = STEPS
) -> tuple[list[bool], Any]:
    """Run the steps; return which of them gave views, and a sum over all final tensors.

    The first tensors are the leaves. Leaves that require a gradient may not be changed in place, so
    a step then changes another tensor.
    """
    views = []
    fixed = len(SHAPES) - FLAT
    for which, a, b, k in steps:
        step = menu[which % len(menu)]
        first = fixed if step in CHANGES else 0
        x, y = tensors[first + a % (len(tensors) - first)], tensors[b % len(tensors)]
        found = step(x, y, k)
        if found is not None and found is not x:
            tensors.append(found)
            views.append(_shares(found, x))
    total = None
    for position, tensor in enumerate(tensors):
        term = (tensor * (1.0 + 0.1 * position)).sum()
        total = term if total is None else total + term
    return views, total


def _shares(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    name = "value" if isinstance(one, Dual) else "_array"
    return bool(np.shares_memory(getattr(one, name), getattr(other, name)))


def tensors(engine: Any) -> list[Any]:
    """The leaves, of gradwalk or torch."""
    return [engine.tensor(a, requires_grad=i < len(SHAPES) - FLAT) for i, a in enumerate(leaves())]


def run_on(
    engine: Any, steps: Sequence[Step], **options: Any
) -> tuple[list[bool], float, list[np.ndarray]]:
    """The views, the value and the gradients by gradwalk or torch."""
    starts = tensors(engine)
    views, total = run(list(starts), steps, **options)
    gradients = engine.autograd.grad(total, starts[:-FLAT], materialize_grads=True)
    return views, total.item(), [g.numpy() for g in gradients]


def run_dual(
    steps: Sequence[Step], directions: Sequence[np.ndarray], **options: Any
) -> tuple[list[bool], float, float]:
    """The views, the value, and its derivative when the leaves move along `directions`."""
    still = [np.zeros(shape) for shape in SHAPES[-FLAT:]]
    starts = [Dual(a, d.copy()) for a, d in zip(leaves(), [*directions, *still], strict=True)]
    views, total = run(list(starts), steps, **options)
    return views, float(total.value), float(total.tangent)


# -- programs written out ------------------------------------------------------------------------

START = np.array([[0.5, -1.2, 0.8], [1.5, 0.3, -0.7]])
OTHER = np.array([[0.9, 0.4, -1.1], [0.2, 1.3, 0.6]])


def pair_of_leaves(m: Any) -> tuple[Any, Any]:
    return m.tensor(START, requires_grad=True), m.tensor(OTHER, requires_grad=True)


def outcome(m: Any, program: Callable[..., Any]) -> Any:
    """The gradients by both leaves, or the error."""
    x, y = pair_of_leaves(m)
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
