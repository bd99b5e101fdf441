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
from gradwalk.ops.core.dtypes import constant
from gradwalk.ops.core.op import Op
from gradwalk.ops.network.recurrent import PARTS

LEAST = 1 << 14  # elements of any operand from which a kernel pays
LEAST_ARITHMETIC = 1 << 16  # of ops that are one quick pass in NumPy
FIRST = 2  # the call of a signature that gets a kernel
MOST = 256  # signatures of one function; further ones stay with NumPy
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
PLAIN = (*FLOATS, *map(np.dtype, (np.int64, np.int32, np.int8, np.bool_)))  # of other operands
MODES = ("auto", "always", "never")

# The ops with kernels for single calls.
PRODUCTS = ("attention", "linear", "matmul")
ARITHMETIC = ("add", "div", "mul", "sub", "where")
ELEMENTWISE = (
    "abs", "binary_cross_entropy", "binary_cross_entropy_logits", "clip", "elu", "exp", "gelu",
    "gelu_tanh", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log", "logsigmoid",
    "maximum", "minimum", "mish", "power", "relu", "sigmoid", "silu", "softplus", "sqrt", "square",
    "tanh",
)  # fmt: skip
FORWARDS = ("concatenate", "mean", "sum")
OPS = (
    *PRODUCTS, *ARITHMETIC, *ELEMENTWISE, *FORWARDS,
    "conv", "conv_bias", "conv_input", "conv_weight", "cross_entropy", "log_softmax", "max_pool",
    "pool_spread", "pool_sum", "softmax", "standardize", "standardize_affine",
    "sum_rows",
)  # fmt: skip


Pull = Callable[[Any, dict[str, Any], dict[str, Any]], Any]  # of g, what was saved, attributes


class Limit:
    """From how many elements of an operand on a kernel answers."""

    __slots__ = ("least",)
    least: float


class KernelLimits:
    """From which sizes, and from which call of a signature on, a kernel answers."""

    mode: str
    first: int
    work = Limit()
    arithmetic = Limit()  # of ops that are one quick pass in NumPy


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
    limits.work.least = {"auto": LEAST, "always": 1, "never": float("inf")}[mode]
    limits.arithmetic.least = LEAST_ARITHMETIC if mode == "auto" else limits.work.least
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

    limit = limits.work
    in_place: InPlaceCall | None = None  # of an elementwise op
    reads: tuple[type, ...] = (np.ndarray,)  # what a rule's kernel is given of what was saved
    spread = False  # whether the result has as many elements as the largest operand

    def __init__(
        self, function: Callable[..., Any], read: Callable[..., Any] | None = None
    ) -> None:
        self.function = function
        self.read = read or function
        self.kernels: dict[Any, Any] = {}  # by signature: a kernel, None, or how often it came
        self.latest: Callable[..., Any] | None = None  # the kernel that was used last

    def __call__(self, *arrays: Any, **static: Any) -> Any:
        if self.is_large(arrays):
            return self.answer(arrays, static)
        return self.function(*arrays, **static)

    def is_large(self, arrays: Iterable[Any]) -> bool:
        """Whether a kernel may pay: any array is large."""
        least = self.limit.least
        for array in arrays:  # noqa: SIM110, a generator costs every small call more
            if array.__class__ is np.ndarray and array.size >= least:
                return True
        return False

    def answer(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        """The result for large arrays: from the kernel of their signature, or else NumPy's."""
        signature = (*[(a.shape, a.dtype) for a in arrays], *static.items())
        return self.answer_as(signature, arrays, static)

    def answer_as(self, signature: Any, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        """`answer`, for arrays of this signature."""
        kernel = self.kernels.get(signature, 0)
        if kernel.__class__ is int:
            kernel = self._next(signature, kernel + 1, arrays, static)
        if kernel is not None:
            self.latest = kernel
            found = kernel(*self.lying(arrays))
            if found is not None:  # None: the memory does not suit it
                return found
        return self.function(*arrays, **static)

    def lying(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The arrays as kernels read them: in row-major order."""
        return [a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in arrays]

    def _next(self, signature: Any, came: int, arrays: Any, static: dict[str, Any]) -> Any:
        """What answers a signature that came for this time, if not NumPy."""
        if traces.on or (came == 1 and len(self.kernels) >= MOST):
            return None
        if "kernels" not in loaders:  # while gradwalk is imported
            return None
        if came < limits.first:
            self.kernels[signature] = came
            return None
        made = None
        plain = all(a.__class__ is np.ndarray and a.dtype in PLAIN for a in arrays)
        if plain and any(a.dtype in FLOATS for a in arrays):
            made = loaders["kernels"]().kernel(self.read, self.lying(arrays), static)
        self.kernels[signature] = made
        return made

    def pulling(self, text: str, scope: dict[str, Any], file: str) -> Pull:
        """The `pull` of a backward plan, with kernels for arrays. `text` is that of the function by
        NumPy; `scope` has the functions that it calls."""
        pull: Pull = eval(compile(text, file, "eval"), scope)

        def rule(g: Any, *arrays: Any, names: Any, others: Any, attrs: Any) -> Any:
            saved = dict(zip(names, arrays, strict=True)) | dict(others)
            return pull(g, saved, dict(attrs))

        call, reads = type(self)(rule), self.reads

        def native_pull(g: Any, saved: dict[str, Any], attrs: dict[str, Any]) -> Any:
            names = tuple([n for n, value in saved.items() if value.__class__ in reads])
            others = tuple([pair for pair in saved.items() if pair[0] not in names])
            arrays = [saved[name] for name in names]
            return call(g, *arrays, names=names, others=others, attrs=tuple(attrs.items()))

        # The test stands in the same function: one more call costs a small step 2 % of its time.
        small = "g.size < limit.least" + ("" if self.spread else " and not is_large(s.values())")
        text = f"{text} if g.__class__ is not array or {small} else native(g, s, a)"
        scope = scope | {"array": np.ndarray, "is_large": self.is_large, "limit": self.limit}
        chosen: Pull = eval(compile(text, file, "eval"), scope | {"native": native_pull})
        return chosen


class ElementwiseCall(SingleCall):
    """A function of arrays and numbers, element by element. NumPy reads arrays that do not lie in
    row-major order where they lie, which takes less time than to copy them."""

    reads = (np.ndarray, float)
    spread = True

    def answer(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        dtype: Any = None
        for a in arrays:
            if a.__class__ is np.ndarray:
                if not a.flags.c_contiguous:
                    return self.function(*arrays, **static)
                dtype = a.dtype if a.dtype in FLOATS else dtype
        if dtype is None:
            return self.function(*arrays, **static)
        # A number is read when the kernel runs: another one needs no new kernel.
        arrays = [constant(a, dtype) if a.__class__ in (int, float) else a for a in arrays]
        return super().answer(arrays, static)


class ArithmeticCall(ElementwiseCall):
    """One quick pass in NumPy."""

    limit = limits.arithmetic


class InPlaceCall(ElementwiseCall):
    """An elementwise op that changes its first operand, in one pass; without a kernel it writes
    nothing and returns False."""

    def __init__(self, op: Op, limit: Limit) -> None:
        def written(out: Any, *others: Any, reads_out: bool, **attrs: Any) -> None:
            out[...] = op(*((out, *others) if reads_out else others), **attrs)

        super().__init__(lambda *arrays, **static: False, written)
        self.limit = limit

    def writes(self, out: np.ndarray[Any, Any], arrays: Sequence[Any], attrs: Any) -> bool:
        """Whether a kernel wrote the result of the op on these operands to `out`."""
        reads_out = arrays[0] is out  # backward may need it as it was: then this is a copy
        others = arrays[1:] if reads_out else arrays
        for a in others:
            if a.__class__ is np.ndarray:
                if a.dtype != out.dtype or np.may_share_memory(a, out):
                    return False
                if a.shape != out.shape and np.broadcast_shapes(a.shape, out.shape) != out.shape:
                    return False
            elif a.__class__ not in (int, float):
                return False
        return out.flags.writeable and bool(self(out, *others, reads_out=reads_out, **attrs))


class ForwardCall(SingleCall):
    """Of an op whose rule returns views, which need no kernel."""

    def pulling(self, text: str, scope: dict[str, Any], file: str) -> Pull:
        pull: Pull = eval(compile(text, file, "eval"), scope)
        return pull


class StridedCall(SingleCall):
    """A function whose kernels read and write arrays where they lie."""

    def answer(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        signature = [(a.shape, a.dtype, a.flags.c_contiguous or a.strides) for a in arrays]
        return self.answer_as((*signature, *static.items()), arrays, static)

    def lying(self, arrays: Sequence[Any]) -> Sequence[Any]:
        return arrays


class RepeatedCall(StridedCall):
    """A function of arrays alone that is called time and again for arrays alike: it tries the
    kernel of the last call before it asks for their signature."""

    def answer(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        if self.latest is not None:
            found = self.latest(*arrays)
            if found is not None:
                return found
        return super().answer(arrays, static)


class ProductCall(StridedCall):
    """A function that multiplies matrices. BLAS reads transposed matrices, and matrices side by
    side such as heads of attention, where they lie, so the kernels do as well; other memory stays
    with NumPy."""

    def answer(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        for a in arrays:
            if not a.flags.c_contiguous and a.itemsize not in a.strides[-2:]:
                return self.function(*arrays, **static)
        return super().answer(arrays, static)


KINDS = {
    ProductCall: PRODUCTS,
    ArithmeticCall: ARITHMETIC,
    ElementwiseCall: ELEMENTWISE,
    ForwardCall: FORWARDS,
}


def _native(op: Op) -> SingleCall:
    """The forward of an op, and with `pulling` its rules."""

    def forward(*arrays: Any, **attrs: Any) -> Any:
        return op.forward(*arrays, **attrs)

    # What a rule needs from the forward, only the forward itself returns.
    kind = next((kind for kind, names in KINDS.items() if op.name in names), SingleCall)
    native = kind(forward, forward if op.residuals else op)
    if issubclass(kind, ElementwiseCall):
        native.in_place = InPlaceCall(op, kind.limit)
    return native


for _name in OPS:
    TABLE[_name].native = _native(TABLE[_name])
for _part in PARTS:
    _part.native = RepeatedCall(_part.function)
