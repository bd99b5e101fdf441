"""Native kernels for single calls of ops, outside a compiled function.

NumPy makes several passes, on one core, where a kernel of the compiler makes one, on all cores. So
an op that does much work in one call (a convolution, a normalization, an activation) has a
`native`. It runs the forward, and the rule on arrays, by a kernel made for the shapes and dtypes of
the operands and for the attributes. The compiler makes it from the op's own forward or rule
(compiler/eager_kernels.py), and is imported when the first kernel is due.

NumPy answers the first call of every signature, calls on few elements, and all that has no kernel.
Which of the two answers depends on the calls alone, never on time: a run can be repeated exactly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gradwalk.engine.guest_loaders import loaders
from gradwalk.graph.abstract import traces
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op

LEAST = 1 << 14  # elements of the first operand, or of any factor, from which a kernel pays
FIRST = 2  # the call of a signature that gets a kernel
MOST = 256  # signatures of one function; further ones stay with NumPy
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
MODES = ("auto", "always", "never")

# The ops with kernels for single calls.
PRODUCTS = ("linear", "matmul")
OPS = (
    *PRODUCTS,
    "conv", "conv_bias", "conv_input", "conv_weight", "gelu", "gelu_tanh", "hardtanh", "leaky_relu",
    "log_softmax", "pool_spread", "pool_sum", "relu", "silu", "softmax", "standardize",
    "standardize_affine",
)  # fmt: skip


class KernelLimits:
    """From how many elements on, and from which call of a signature on, a kernel answers."""

    mode: str
    least: float
    first: int


limits = KernelLimits()


def set_eager_kernels(mode: str) -> None:
    """Choose when ops outside compiled functions run by native kernels instead of NumPy.

    "auto", the default: on large tensors, from the second call with the same shapes on. "always":
    on tensors of any size, from the first call on. "never": NumPy computes every op. The
    environment variable `GRADWALK_EAGER_KERNELS` sets the mode at the start.

    >>> import gradwalk as gw
    >>> gw.set_eager_kernels("never")
    >>> gw.set_eager_kernels("auto")
    """
    if mode not in MODES:
        raise ValueError(f"set_eager_kernels takes {', '.join(map(repr, MODES))}, not {mode!r}")
    limits.least = {"auto": LEAST, "always": 1, "never": float("inf")}[mode]
    limits.first = 1 if mode == "always" else FIRST
    limits.mode = mode


def get_eager_kernels() -> str:
    """The mode that `set_eager_kernels` chose.

    >>> import gradwalk as gw
    >>> gw.get_eager_kernels()
    'auto'
    """
    return limits.mode


set_eager_kernels(os.environ.get("GRADWALK_EAGER_KERNELS", "auto"))


class SingleCall:
    """A function of arrays and static keywords, computed by kernels where they pay.

    `read` is what the compiler traces: a function that returns the same arrays.
    """

    def __init__(
        self, function: Callable[..., Any], read: Callable[..., Any] | None = None
    ) -> None:
        self.function = function
        self.read = read or function
        self.kernels: dict[Any, Any] = {}  # by signature: a kernel, None, or how often it came

    def __call__(self, *arrays: Any, **static: Any) -> Any:
        if self.is_large(arrays):
            return self.answer(arrays, static)
        return self.function(*arrays, **static)

    @staticmethod
    def is_large(arrays: Iterable[Any]) -> bool:
        """Whether a kernel may pay: the first array is large."""
        for array in arrays:
            return array.__class__ is np.ndarray and array.size >= limits.least
        return False

    def answer(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        """The result for large arrays: from the kernel of their signature, or else NumPy's."""
        signature = (*[(a.shape, a.dtype) for a in arrays], *static.items())
        kernel = self.kernels.get(signature, 0)
        if kernel.__class__ is int:
            kernel = self._next(signature, kernel + 1, arrays, static)
        if kernel is not None:
            found = kernel(*arrays)
            if found is not None:  # None: the memory does not suit it
                return found
        return self.function(*arrays, **static)

    def _next(self, signature: Any, came: int, arrays: Any, static: dict[str, Any]) -> Any:
        """What answers a signature that came for this time, if not NumPy."""
        if traces.on or (came == 1 and len(self.kernels) >= MOST):
            return None
        if came < limits.first:
            self.kernels[signature] = came
            return None
        made = None
        if all(a.__class__ is np.ndarray and a.dtype in FLOATS for a in arrays):
            made = loaders["kernels"]().kernel(self.read, arrays, static)
        self.kernels[signature] = made
        return made

    def pulling(self, pull: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
        """The `pull` of a backward plan, with kernels for arrays."""

        def rule(g: Any, *arrays: Any, names: Any, others: Any, attrs: Any) -> Any:
            saved = dict(zip(names, arrays, strict=True)) | dict(others)
            return pull(g, saved, dict(attrs))

        call = type(self)(rule)
        is_large = self.is_large

        def native_pull(g: Any, saved: dict[str, Any], attrs: dict[str, Any]) -> Any:
            if g.__class__ is not np.ndarray or not is_large((g, *saved.values())):
                return pull(g, saved, attrs)
            names = tuple([n for n, value in saved.items() if value.__class__ is np.ndarray])
            others = tuple([pair for pair in saved.items() if pair[0] not in names])
            arrays = [saved[name] for name in names]
            return call(g, *arrays, names=names, others=others, attrs=tuple(attrs.items()))

        return native_pull


class ProductCall(SingleCall):
    """A function that multiplies matrices. BLAS reads a transposed matrix where it lies, so the
    kernels do as well; other memory, such as heads of attention side by side, stays with NumPy."""

    def __init__(
        self, function: Callable[..., Any], read: Callable[..., Any] | None = None
    ) -> None:
        def turning(*arrays: Any, turned: tuple[bool, ...] = (), **static: Any) -> Any:
            return function(*(_turned_back(arrays, turned) if turned else arrays), **static)

        super().__init__(turning)

    @staticmethod
    def is_large(arrays: Iterable[Any]) -> bool:
        """Whether a kernel may pay: any array is large."""
        least = limits.least
        for array in arrays:  # noqa: SIM110, a generator costs every small product more
            if array.__class__ is np.ndarray and array.size >= least:
                return True
        return False

    def answer(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        turned = tuple([
            not a.flags.c_contiguous and a.ndim > 1 and a.mT.flags.c_contiguous for a in arrays
        ])  # fmt: skip
        lying = _turned_back(arrays, turned)
        if not all(a.flags.c_contiguous for a in lying):
            return self.function(*arrays, **static)
        return super().answer(lying, {"turned": turned, **static})


def _turned_back(arrays: Sequence[Any], turned: Sequence[bool]) -> list[Any]:
    """Arrays, some of them transposed."""
    return [a.mT if t else a for a, t in zip(arrays, turned, strict=True)]


def _native(op: Op) -> SingleCall:
    """The forward of an op, and with `pulling` its rules."""

    def forward(*arrays: Any, **attrs: Any) -> Any:
        return op.forward(*arrays, **attrs)

    # What a rule needs from the forward, only the forward itself returns.
    kind = ProductCall if op.name in PRODUCTS else SingleCall
    return kind(forward, forward if op.residuals else op)


for _name in OPS:
    TABLE[_name].native = _native(TABLE[_name])
