"""Making tensors: PyTorch's constructor functions. The random ones are in `sampling.py`."""

from __future__ import annotations

import builtins
import math
import operator
from array import array
from functools import partial
from typing import Any, Unpack

import numpy as np

from gradwalk.engine.modes import state
from gradwalk.graph.abstract import is_unknown
from gradwalk.graph.storage import UntypedStorage, imported, is_exported, strided_zeros
from gradwalk.ops.core.dtypes import (
    category,
    complex_of,
    get_default_dtype,
    has_gradients,
    is_complex_dtype,
    is_floating,
    unsigned,
)
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape.reshaping import sizes_of
from gradwalk.scalar.value import Value
from gradwalk.tensors.apply import is_sparse
from gradwalk.tensors.devices import CPU
from gradwalk.tensors.leaves import LeafOptions, filled, leaf, like, makes_leaf
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "empty_permuted", "empty_strided",
    "eye", "from_dlpack", "from_numpy", "frombuffer", "full", "full_like", "is_tensor", "linspace",
    "logspace", "ones", "ones_like", "range", "scalar_tensor", "tensor", "tril_indices",
    "triu_indices", "zeros", "zeros_like",
]  # fmt: skip

Dtype = Any


def _of_data(data: Any, dtype: Dtype, copy: bool) -> np.ndarray[Any, Any]:
    """Numbers, nested lists, arrays or tensors as an array of the dtype PyTorch would choose."""
    if isinstance(data, Tensor):
        data._leaves_as("tensor(...)")
        data = data._array
    if isinstance(data, np.ndarray) and state.here.tracer is not None:
        array = state.here.tracer.array(data)  # its numbers may be others at the next call
        array = array.astype(array.dtype if dtype is None else dtype, copy=copy)
    elif isinstance(data, np.ndarray):
        array = np.array(data, dtype=dtype) if copy else np.asarray(data, dtype=dtype)
    elif is_exported(data):
        return _of_data(imported(data), dtype, copy)
    elif isinstance(data, UntypedStorage):  # its bytes are those of the elements
        return _of_data(_of_storage(data, dtype), dtype, copy)
    else:
        data = _plain(data)
        try:
            array = np.array(data, dtype=dtype)
        except OverflowError:
            array = _wrapped(data, np.dtype(dtype))
        except ValueError as error:
            raise ValueError(f"this is not a rectangular block of numbers: {error}") from None
        if dtype is None and array.size == 0:
            array = array.astype(get_default_dtype())
        elif dtype is None and array.dtype in _WIDE and not _has_wide(data):
            usual = get_default_dtype()
            array = array.astype(complex_of(usual) if is_complex_dtype(array.dtype) else usual)
    if array.dtype.kind in "OUSMmV" and not is_floating(array.dtype):
        raise TypeError(f"a tensor cannot hold {type(data).__name__} data ({array.dtype})")
    category(array.dtype)
    return array


def _of_storage(storage: UntypedStorage, dtype: Dtype) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype or get_default_dtype())
    held = getattr(storage, "dtype", kind)
    if dtype is not None and held != kind:
        raise TypeError(f"a storage of {held} is no storage of {kind}. Fix: storage.untyped()")
    return storage._elements.view(held)


def _wrapped(data: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Integers that NumPy refuses for a dtype; negative ones of an unsigned dtype count from its
    end."""
    wide = np.array(data)
    if dtype.kind == "u" and wide.dtype.kind == "i" and np.all(abs(wide) <= np.iinfo(dtype).max):
        return wide.astype(dtype)
    raise OverflowError(f"numbers from {wide.min()} to {wide.max()} do not fit {dtype}")


def _plain(data: Any) -> Any:
    """Tensors inside lists as what they hold."""
    if isinstance(data, (list, tuple)):
        return data if _NUMBERS.issuperset(map(type, data)) else [_plain(d) for d in data]
    if isinstance(data, Value):
        raise TypeError(
            f"a tensor cannot hold a Value (made at {data.line}): the two engines keep separate "
            "graphs. Fix: use value.data for its number (no gradient flows to it)."
        )
    if isinstance(data, Tensor):
        data._leaves_as("tensor([...])")
        # One element is a number, whatever its shape is.
        return data._array.reshape(()) if data._array.size == 1 else data._array
    return data


# Python's numbers, and what NumPy makes of them; PyTorch makes the default dtype.
_NUMBERS = frozenset((bool, int, float, complex))
_WIDE = (np.dtype(np.float64), np.dtype(np.complex128))


def _has_wide(data: Any) -> bool:
    """Whether an array or a number of NumPy's in nested lists is so wide itself."""
    if isinstance(data, (list, tuple)):
        return not _NUMBERS.issuperset(map(type, data)) and any(map(_has_wide, data))
    return hasattr(data, "dtype") and data.dtype in _WIDE


@makes_leaf
def tensor(data: Any, **options: Unpack[LeafOptions]) -> Tensor:
    """A new leaf with a copy of the data; Python floats become float32, integers int64.

    >>> import gradwalk as gw
    >>> gw.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    return leaf(_of_data(data, options.get("dtype"), copy=True), **options)


def as_tensor(data: Any, dtype: Dtype = None, device: Any = None) -> Tensor:
    """The data as a tensor, without a copy where that is possible."""
    if is_tensor(data):  # a sparse one as well
        made: Tensor = data.to(dtype, device=device)
        return made
    return leaf(_of_data(data, dtype, copy=False), dtype=dtype, device=device)


@makes_leaf
def asarray(obj: Any, *, copy: bool | None = None, **options: Unpack[LeafOptions]) -> Tensor:
    """The data as a tensor; copied if `copy` is true, otherwise only if necessary.

    A buffer, such as a `bytearray`, holds the bytes of numbers of the dtype.
    A tensor that changes in nothing is returned itself. It needs a gradient as before, unless
    `requires_grad` says otherwise.
    """
    dtype = options.get("dtype")
    if isinstance(obj, Tensor):
        wanted = options.get("requires_grad", obj.requires_grad)
        made = obj.to(dtype, device=options.get("device"), copy=bool(copy))
        if copy is False and made is not obj:
            raise ValueError("asarray: another dtype or device needs a copy, and copy is False")
        if wanted == made.requires_grad:
            return made
        return made.requires_grad_(wanted) if made.is_leaf else made.detach()
    if isinstance(obj, (array, bytes, bytearray, memoryview)):  # bytes of the dtype, as in PyTorch
        obj = np.frombuffer(obj, dtype or get_default_dtype())
    if is_exported(obj):
        obj = imported(obj)
    number = isinstance(obj, np.ndarray) and not obj.ndim  # which PyTorch copies here
    held = _of_data(obj, dtype, copy=bool(copy) or (number and copy is None))
    if copy is False and not _shows(held, obj):
        raise ValueError(
            f"asarray: {type(obj).__name__} data as a tensor of {held.dtype} needs a copy, and "
            "copy is False"
        )
    return leaf(held, **options)


def _shows(array: np.ndarray[Any, Any], data: Any) -> bool:
    """Whether an array shows the memory of an ndarray."""
    if not isinstance(data, np.ndarray) or array.dtype != data.dtype:
        return False
    return not data.size or np.may_share_memory(array, data)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor on the memory of an ndarray."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy takes an ndarray, not {type(array).__name__}")
    category(array.dtype)
    plain = np.asarray(array)  # of a memmap or a matrix, the plain array in it
    return leaf(plain if state.here.tracer is None else state.here.tracer.array(plain), device=CPU)


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector on the memory of bytes, an `array.array` or anything else that is a buffer.

    >>> import array, gradwalk as gw
    >>> gw.frombuffer(array.array("i", [1, 2, 3]), dtype=gw.int32, offset=4)
    tensor([2, 3], dtype=gradwalk.int32)
    """
    if not count or not 0 <= offset < memoryview(buffer).nbytes:
        raise ValueError(f"frombuffer: no elements lie at {offset} (count={count})")
    array = np.frombuffer(buffer, np.dtype(dtype), count, offset)
    return from_numpy(array).requires_grad_(requires_grad)


def from_dlpack(other: Any) -> Tensor:
    """A tensor on the memory of any object with `__dlpack__` (PyTorch, JAX, CuPy on CPU...), or of
    the capsule that it gives."""
    return from_numpy(imported(other))


@makes_leaf
def zeros(*sizes: Any, size: Any = None, **options: Unpack[LeafOptions]) -> Tensor:
    """All zeros.

    >>> import gradwalk as gw
    >>> gw.zeros(2, 2)
    tensor([[0., 0.],
            [0., 0.]])
    """
    return filled(np.zeros, sizes_of(sizes, size), **options)


@makes_leaf
def ones(*sizes: Any, size: Any = None, **options: Unpack[LeafOptions]) -> Tensor:
    """All ones."""
    return filled(np.ones, sizes_of(sizes, size), **options)


@makes_leaf
def empty(
    *sizes: Any, size: Any = None, memory_format: Any = None, **options: Unpack[LeafOptions]
) -> Tensor:
    """Uninitialised memory; zeros here, so that nothing depends on chance."""
    return zeros(*sizes, size=size, **options)


@makes_leaf
def empty_strided(size: Any, stride: Any, **options: Unpack[LeafOptions]) -> Tensor:
    """`empty` with elements that lie `stride` apart in memory, along each dimension.

    >>> empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    kind = options.get("dtype") or get_default_dtype()
    return leaf(strided_zeros(size, stride, kind), **options)


@makes_leaf
def empty_permuted(size: Any, physical_layout: Any, **options: Unpack[LeafOptions]) -> Tensor:
    """`empty`, whose dimensions lie in memory in the order of `physical_layout`.

    >>> import gradwalk as gw
    >>> gw.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    shape, order = sizes_of((size,)), sizes_of((physical_layout,))
    if sorted(order) != list(builtins.range(len(shape))):
        raise ValueError(
            f"empty_permuted: physical_layout {order} is no order of {len(shape)} dimensions"
        )
    stride, step = [0] * len(shape), 1
    for dim in reversed(order):
        stride[dim], step = step, step * max(shape[dim], 1)
    return empty_strided(shape, stride, **options)


@makes_leaf
def full(size: Any, fill_value: Any, **options: Unpack[LeafOptions]) -> Tensor:
    """Every element `fill_value`; its type decides the dtype unless one is given."""
    value = _number("full", fill_value)
    if options.get("dtype") is None:
        options["dtype"] = _of_data(value, None, copy=False).dtype
    value = unsigned(np.dtype(options["dtype"]), value)
    return filled(partial(np.full, fill_value=value), sizes_of((size,)), **options)


@makes_leaf
def scalar_tensor(s: Any, **options: Unpack[LeafOptions]) -> Tensor:
    """A 0-d tensor of one number, a float unless `dtype` says otherwise."""
    options.setdefault("dtype", get_default_dtype())
    return full((), s, **options)


@makes_leaf
def zeros_like(
    input: Tensor, *, memory_format: Any = None, **options: Unpack[LeafOptions]
) -> Tensor:
    """Zeros with the shape and dtype of another tensor; of a sparse one, a sparse one."""
    if is_sparse(input):
        return _sparse_like(input, **options)
    return filled(np.zeros, input.shape, **like(input, options))


def _sparse_like(
    input: Any, *, dtype: Dtype = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> Any:
    return input._empty().to(dtype, device=device).requires_grad_(requires_grad)


@makes_leaf
def ones_like(
    input: Tensor, *, memory_format: Any = None, **options: Unpack[LeafOptions]
) -> Tensor:
    """Ones with the shape and dtype of another tensor."""
    return filled(np.ones, input.shape, **like(input, options))


@makes_leaf
def empty_like(
    input: Tensor, *, memory_format: Any = None, **options: Unpack[LeafOptions]
) -> Tensor:
    """`empty` with the shape and dtype of another tensor."""
    return zeros_like(input, **options)


@makes_leaf
def full_like(
    input: Tensor, fill_value: Any, *, memory_format: Any = None, **options: Unpack[LeafOptions]
) -> Tensor:
    """`full` with the shape and dtype of another tensor."""
    return filled(partial(np.full, fill_value=fill_value), input.shape, **like(input, options))


@makes_leaf
def arange(
    start: Any = None, end: Any = None, step: Any = 1, **options: Unpack[LeafOptions]
) -> Tensor:
    """start, start + step, ... below `end`.

    >>> import gradwalk as gw
    >>> gw.arange(3)
    tensor([0, 1, 2])
    """
    if start is None or end is None:
        start, end = 0, end if start is None else start
    numbers = [_number("arange", n) for n in (start, end, step)]
    dtype = options.get("dtype")
    if dtype is None:
        whole = all(isinstance(n, (int, np.integer)) for n in numbers)
        dtype = np.int64 if whole else get_default_dtype()
    kind = np.dtype(dtype)
    if kind == np.int64:  # PyTorch cuts fractions off first, of this dtype only
        numbers = [int(n) for n in numbers]
    first, last, by = numbers
    if not by or (last - first) * by < 0 or not np.isfinite(numbers).all():
        raise ValueError(f"arange: no steps of {by} lead from {first} to {last}")
    exact = all(isinstance(n, int) for n in numbers)
    count = -((first - last) // by) if exact else math.ceil((last - first) / by)
    if not is_floating(kind):
        first, by = int(first), int(by)
    return leaf((first + by * np.arange(count)).astype(kind), **options)


@makes_leaf
def range(start: Any = 0, end: Any = None, step: Any = 1, **options: Unpack[LeafOptions]) -> Tensor:
    """`arange` with `end` included and floats for integers, as programs of PyTorch's first years
    use it.

    >>> import gradwalk as gw
    >>> gw.range(0, 2)
    tensor([0., 1., 2.])
    """
    if end is None:
        raise TypeError("range takes start and end. Fix: arange(end)")
    options.setdefault("dtype", get_default_dtype())
    first, last, by = (_number("range", n) for n in (start, end, step))
    if not by or (last - first) * by < 0 or not np.isfinite([first, last, by]).all():
        raise ValueError(f"range: no steps of {by} lead from {first} to {last}")
    beyond = by if isinstance(first, int) and isinstance(by, int) else by / 2
    return arange(first, first + by * math.floor((last - first) / by) + beyond, by, **options)


def _number(name: str, given: Any) -> Any:
    """A Python number, or the one in a 0-d tensor."""
    if getattr(given, "ndim", 0):
        raise ValueError(f"{name} takes numbers and 0-d tensors, not shape {tuple(given.shape)}")
    return given.item() if isinstance(given, (Tensor, np.ndarray, np.generic)) else given


def _end(name: str, given: Any, kind: np.dtype[Any]) -> Any:
    """One end of evenly spaced numbers: a number, or an array if the samples of a batch differ."""
    if getattr(given, "ndim", 1) == 0 and is_unknown(given):
        array = given.detach()._array
        array = array if has_gradients(kind) else array.astype(np.dtype(np.int64))
        return array.astype(np.dtype(np.complex128 if kind.kind == "c" else np.float64))
    number = _number(name, given)
    return number if has_gradients(kind) else int(number)


def _spaced(name: str, start: Any, end: Any, steps: int, kind: np.dtype[Any]) -> Any:
    """Evenly spaced numbers, counted from the nearer end as in PyTorch; of integers whole ends."""
    first, last = (_end(name, given, kind) for given in (start, end))
    count = operator.index(steps)
    if count < 0:
        raise ValueError(f"{name}: the number of steps must be at least 0, not {count}")
    by, place = (last - first) / max(count - 1, 1), np.arange(count)
    from_end = last - by * (count - 1 - place).astype(np.float64)
    return where(place < max(count // 2, 1), first + by * place, from_end)


def _is_complex(end: Any) -> bool:
    dtype = getattr(end, "dtype", None)
    return isinstance(end, complex) if dtype is None else is_complex_dtype(dtype)


def _spaced_dtype(dtype: Dtype, *ends: Any) -> np.dtype[Any]:
    """The dtype of spaced numbers: complex if an end is, unless another one is given."""
    if not any(_is_complex(end) for end in ends):
        return _float(dtype)
    if dtype is not None and not is_complex_dtype(np.dtype(dtype)):
        raise TypeError(f"numbers between {ends[0]} and {ends[1]} are complex, not {dtype}")
    return complex_of(get_default_dtype()) if dtype is None else np.dtype(dtype)


@makes_leaf
def linspace(start: Any, end: Any, steps: int, **options: Unpack[LeafOptions]) -> Tensor:
    """`steps` evenly spaced numbers from start to end, both included."""
    kind = _spaced_dtype(options.get("dtype"), start, end)
    return leaf(_spaced("linspace", start, end, steps, kind).astype(kind), **options)


@makes_leaf
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, **options: Unpack[LeafOptions]
) -> Tensor:
    """`steps` numbers from base ** start to base ** end, evenly spaced by their ratio.

    >>> logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    kind = _spaced_dtype(options.get("dtype"), start, end)
    with np.errstate(all="ignore"):  # inf is an answer
        numbers = (float(base) ** _spaced("logspace", start, end, steps, kind)).astype(kind)
    return leaf(numbers, **options)


@makes_leaf
def fftfreq(n: int, d: float = 1.0, **options: Unpack[LeafOptions]) -> Tensor:
    """The frequencies of `fft.fft` of n samples that are `d` apart: 0, 1, ..., −1 over n·d.

    >>> fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return leaf(np.fft.fftfreq(n, d).astype(_float(options.get("dtype"))), **options)


@makes_leaf
def rfftfreq(n: int, d: float = 1.0, **options: Unpack[LeafOptions]) -> Tensor:
    """The frequencies of `fft.rfft` of n samples that are `d` apart."""
    return leaf(np.fft.rfftfreq(n, d).astype(_float(options.get("dtype"))), **options)


@makes_leaf
def eye(n: int, m: int | None = None, **options: Unpack[LeafOptions]) -> Tensor:
    """Ones on the diagonal."""
    return leaf(np.eye(n, m, dtype=_float(options.get("dtype"))), **options)


def is_tensor(thing: Any) -> bool:
    """Whether it is a Tensor, or a sparse one."""
    return isinstance(thing, Tensor) or is_sparse(thing)


def _float(dtype: Dtype) -> np.dtype[Any]:
    chosen = get_default_dtype() if dtype is None else np.dtype(dtype)
    category(chosen)
    return chosen


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Dtype = np.int64, device: Any = None
) -> Tensor:
    """The places of the lower triangle of a matrix: a row of rows, a row of columns.

    >>> tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return leaf(np.stack(np.tril_indices(row, offset, col)).astype(dtype), False, device)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Dtype = np.int64, device: Any = None
) -> Tensor:
    """The places of the upper triangle of a matrix: a row of rows, a row of columns."""
    return leaf(np.stack(np.triu_indices(row, offset, col)).astype(dtype), False, device)
