"""autocast: inside it, ops choose the dtype they run in, as in PyTorch.

Products run in the half dtype, what needs range or precision in float32, and other ops with several
operands in the widest dtype among these. Which op does what is data: the tables below.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

import numpy as np

from gradwalk.engine.modes import Modes, current, switch
from gradwalk.graph.versions import stamp_of
from gradwalk.ops.core import halves
from gradwalk.ops.core.dtypes import bfloat16, float16, float32, is_half
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.op import Op
from gradwalk.ops.shape.reshaping import cast
from gradwalk.tensors.devices import KINDS, device

_IN_HALF = {
    *("matmul", "linear", "einsum", "attention", "lstm", "gru", "rnn"),
    *("conv", "conv_bias", "conv_input"),
}
_IN_FLOAT32 = {
    *("acos", "asin", "cosh", "sinh", "tan", "erfinv", "exp", "expm1", "log", "log10", "log1p"),
    *("log2", "pow", "power", "reciprocal", "rsqrt", "softplus", "sum", "prod", "cumsum"),
    *("cumprod", "vector_norm", "softmax", "log_softmax", "cross_entropy", "logsumexp"),
    *("binary_cross_entropy_logits", "standardize", "standardize_affine"),
}
# PyTorch has other lists for the CPU.
_IN_FLOAT32_ON_CPU = {
    *("prod", "cross_entropy", "binary_cross_entropy", "binary_cross_entropy_logits"),
    *("cholesky", "inv", "certain_inv", "solve", "pinv", "det", "slogdet", "qr", "qr_complete"),
    *("eigh", "svd", "cofactor", "det_twice"),
}
# On the CPU PyTorch computes these in steps, and the state, this operand, decides on the results.
_STATE_ON_CPU = {"gru": 1, "lstm": 2}
_ON_CPU = dict.fromkeys(_IN_HALF, "half") | dict.fromkeys(_IN_FLOAT32_ON_CPU, "float32")
_ON_DEVICES = dict.fromkeys(_IN_HALF, "half") | dict.fromkeys(_IN_FLOAT32, "float32")


# Functions of several ops: whether they run in half precision on the CPU, and on devices.
_AS_ONE = {
    **dict.fromkeys(("addmm", "addbmm", "baddbmm"), (True, True)),
    **dict.fromkeys(("addmv", "addr", "mv"), (False, True)),
    **dict.fromkeys(("dot", "vdot", "bilinear"), (False, False)),
}

F = TypeVar("F", bound=Callable[..., Any])
Key = tuple[tuple[str, np.dtype[Any]], ...]
_NOTHING = (None, None, None, None)


class Casting:
    """The half dtype of each type of device, while autocast is on for one at least."""

    __slots__ = ("dtypes", "key", "known")

    def __init__(self, dtypes: dict[str, np.dtype[Any]], known: dict[Any, Any] | None) -> None:
        self.dtypes = dtypes
        self.key: Key = tuple((kind, dtypes[kind]) for kind in KINDS if kind in dtypes)
        self.known = known  # casts of parameters, None if they are not to be kept

    def without_cache(self) -> Casting:
        """The same, keeping no casts."""
        return Casting(self.dtypes, None)


def autocast_operands(
    here: Modes, op: Op, args: tuple[Any, ...], attrs: dict[str, Any], machine: Any
) -> tuple[Any, ...]:
    """The operands of an op in the dtype that autocast chooses for it."""
    kind = _device_type(args, machine)
    half = here.autocast.dtypes.get(kind)
    if half is None:
        return args
    policy = (_ON_CPU if kind == "cpu" else _ON_DEVICES).get(op.name)
    if policy is None or (op.name == "einsum" and not _contracts(attrs["equation"])):
        return args
    wanted = half if policy == "half" else float32
    made = [_cast(here, a, wanted) if _is_eligible(a, wanted) else a for a in args]
    if kind == "cpu" and op.name in _STATE_ON_CPU:
        state = _STATE_ON_CPU[op.name]
        made[state] = args[state]
    return tuple(made)


def _contracts(equation: str) -> bool:
    """Whether an einsum ends with a product of matrices: PyTorch takes one operand after the other,
    and multiplies element by element where nothing is summed."""
    terms, _, out = equation.partition("->")
    *before, last = terms.split(",")
    return bool({*"".join(before)} & {*last} - {*out})


def _within(function: Callable[..., Any], args: Any, keywords: dict[str, Any]) -> Any:
    """Call one of `_AS_ONE`: with operands in half precision, or as without autocast."""
    here = current()
    if here.autocast is None:
        return function(*args, **keywords)
    given = (*args, *keywords.values())
    kind = _device_type(given, here.tracer)
    half = here.autocast.dtypes.get(kind)
    if half is None:
        return function(*args, **keywords)
    if _AS_ONE[function.__name__][kind != "cpu"]:
        args = [_cast(here, a, half) if _is_eligible(a, half) else a for a in args]
        keywords = {
            name: _cast(here, a, half) if _is_eligible(a, half) else a
            for name, a in keywords.items()
        }
    switch(autocast=None)
    try:
        return function(*args, **keywords)
    finally:
        switch(autocast=here.autocast)


halves.within_autocast = _within


def in_half(tensor: Any) -> Any:
    """A tensor in the dtype of products: the half dtype inside autocast, otherwise its own."""
    here = current()
    if here.autocast is None:
        return tensor
    half = here.autocast.dtypes.get(_device_type([tensor], here.tracer))
    return _cast(here, tensor, half) if half is not None and _is_eligible(tensor, half) else tensor


def _is_eligible(operand: Any, wanted: np.dtype[Any]) -> bool:
    """Whether autocast touches an operand: all floats but float64."""
    array = getattr(operand, "_array", None)
    if array is None or array.dtype == wanted:
        return False
    return array.dtype == float32 or is_half(array.dtype)


def _cast(here: Modes, tensor: Any, wanted: np.dtype[Any]) -> Any:
    """A tensor in another dtype; that of a parameter is made once."""
    known = here.autocast.known
    leaf = tensor._node is None and tensor._requires_grad and tensor._view is None
    if known is None or not leaf or not here.grad_enabled or not is_half(wanted):
        return cast(tensor, dtype=wanted)
    of, array, stamp, made = known.get((id(tensor), wanted), _NOTHING)
    if of is tensor and array is tensor._array and stamp is stamp_of(array):
        return made
    made = cast(tensor, dtype=wanted)  # while a function is traced, this gives it another array
    known[id(tensor), wanted] = tensor, tensor._array, stamp_of(tensor._array), made
    return made


def _device_type(args: Sequence[Any], machine: Any) -> str:
    """The type of the device that an op runs on."""
    for argument in args:
        array = getattr(argument, "_array", None)
        if array is not None and getattr(array, "on_device", False):
            return str(array.machine.device.type)
    return "cpu" if machine is None else str(machine.device.type)


def in_float32(loss: F) -> F:
    """A loss: inside autocast of halves in float32, elsewhere rounded once."""
    rounding = rounds_once(loss)

    @functools.wraps(loss)
    def computed(*args: Any, **keywords: Any) -> Any:
        here = current()
        if here.autocast is None:
            return rounding(*args, **keywords)
        if _device_type((*args, *keywords.values()), here.tracer) not in here.autocast.dtypes:
            return rounding(*args, **keywords)
        wide = {name: _in(float32, value) for name, value in keywords.items()}
        return loss(*[_in(float32, a) for a in args], **wide)

    return computed  # type: ignore[return-value]


def _in(dtype: np.dtype[Any], thing: Any) -> Any:
    return cast(thing, dtype=dtype) if _is_eligible(thing, dtype) else thing


def autocast_key() -> Key | None:
    """What a compiled program depends on of the autocast that holds here."""
    here = current().autocast
    return None if here is None else here.key


@contextlib.contextmanager
def autocast_as(key: Key | None) -> Iterator[None]:
    """The autocast of a key, as it was where a function was compiled or a region recorded."""
    before = current().autocast
    switch(autocast=None if key is None else Casting(dict(key), {}))
    try:
        yield
    finally:
        switch(autocast=before)


class autocast:
    """Inside, ops on a type of device choose their dtype: products run in half precision, what
    needs range or precision in float32. Also a decorator. Call backward outside.

    >>> import gradwalk as gw
    >>> x = gw.ones(2, 2)
    >>> with gw.autocast("cpu", dtype=gw.float16):
    ...     (x @ x).dtype, (x + x).dtype
    (dtype('float16'), dtype('float32'))
    """

    _disabled = 0  # depth of blocks without autocast

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type not in KINDS:
            raise ValueError(
                f"autocast is for a type of device, {', '.join(KINDS)}; not {device_type!r}"
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else np.dtype(dtype)
        if enabled and not is_half(self.fast_dtype):
            raise ValueError(
                f"autocast runs ops in float16 or bfloat16, not in {self.fast_dtype}.\n"
                "Fix: dtype=gradwalk.bfloat16, or enabled=False"
            )
        self._enabled = bool(enabled)
        self._keeps = cache_enabled is not False
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        before = current().autocast
        self._before.append(before)
        dtypes = {} if before is None else dict(before.dtypes)
        dtypes.pop(self.device, None)
        if self._enabled and not autocast._disabled:
            dtypes[self.device] = self.fast_dtype
        known = {} if before is None or before.known is None else before.known
        switch(autocast=Casting(dtypes, known if self._keeps else None) if dtypes else None)
        return self

    def __exit__(self, *_: object) -> None:
        switch(autocast=self._before.pop())

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def inside(*args: Any, **keywords: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled, self._keeps):
                return function(*args, **keywords)

        return inside  # type: ignore[return-value]


@contextlib.contextmanager
def without_autocast() -> Iterator[None]:
    """Inside, autocast does nothing: every op runs in the dtype of its operands."""
    autocast._disabled += 1
    try:
        yield
    finally:
        autocast._disabled -= 1


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on here for a type of device.

    >>> import gradwalk as gw
    >>> gw.is_autocast_enabled("cpu")
    False
    """
    here = current().autocast
    return here is not None and device(device_type).type in here.dtypes


def get_autocast_dtype(device_type: str) -> np.dtype[Any]:
    """The dtype of autocast for a type of device: that of the block we are in, otherwise the one
    that a block without `dtype` uses, float16 on GPUs and bfloat16 elsewhere."""
    here = current().autocast
    kind = device(device_type).type
    if here is not None and kind in here.dtypes:
        dtype: np.dtype[Any] = here.dtypes[kind]
        return dtype
    return float16 if kind == "cuda" else bfloat16()


def is_autocast_cpu_enabled() -> bool:
    """The older name of `is_autocast_enabled("cpu")`."""
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> np.dtype[Any]:
    """The older name of `get_autocast_dtype("cpu")`."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> np.dtype[Any]:
    """The older name of `get_autocast_dtype("cuda")`."""
    return get_autocast_dtype("cuda")
