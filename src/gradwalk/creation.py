"""Making tensors: PyTorch's constructor functions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gradwalk.graph.source import caller
from gradwalk.ops.dtypes import category, get_default_dtype
from gradwalk.ops.shape import sizes_of
from gradwalk.random import Generator, default_generator
from gradwalk.recording import wrap
from gradwalk.scalar import Value
from gradwalk.tensor import Tensor

__all__ = [
    "arange", "as_tensor", "empty", "empty_like", "eye", "from_dlpack", "from_numpy", "full",
    "full_like", "is_tensor", "linspace", "ones", "ones_like", "rand", "rand_like", "randint",
    "randn", "randn_like", "randperm", "tensor", "tril_indices", "triu_indices", "zeros",
    "zeros_like",
]  # fmt: skip

Dtype = Any


def _new(array: np.ndarray[Any, Any], requires_grad: bool = False) -> Tensor:
    category(array.dtype)
    found = wrap(array)
    found.code, found.position = caller()
    if requires_grad:
        found.requires_grad = True
    return found


def _of_data(data: Any, dtype: Dtype, copy: bool) -> np.ndarray[Any, Any]:
    """Numbers, nested lists, arrays or tensors as an array of the dtype PyTorch would choose."""
    if isinstance(data, Tensor):
        data = data._array
    if isinstance(data, np.ndarray):
        array = np.array(data, dtype=dtype) if copy else np.asarray(data, dtype=dtype)
    else:
        data = _plain(data)
        try:
            array = np.array(data, dtype=dtype)
        except ValueError as error:
            raise ValueError(f"this is not a rectangular block of numbers: {error}") from None
        if dtype is None and (array.dtype == np.float64 or array.size == 0):
            numpy_scalar = isinstance(data, np.generic)
            array = array if numpy_scalar and array.size else array.astype(get_default_dtype())
    if array.dtype.kind in "OUSMmV":
        raise TypeError(f"a tensor cannot hold {type(data).__name__} data ({array.dtype})")
    category(array.dtype)
    return array


def _plain(data: Any) -> Any:
    """Tensors inside lists as what they hold."""
    if isinstance(data, (list, tuple)):
        return [_plain(d) for d in data]
    if isinstance(data, Value):
        raise TypeError(
            f"a tensor cannot hold a Value (made at {data.line}): the two engines keep separate "
            "graphs. Fix: use value.data for its number (no gradient flows to it)."
        )
    return data._array if isinstance(data, Tensor) else data


def tensor(data: Any, *, dtype: Dtype = None, requires_grad: bool = False) -> Tensor:
    """A new leaf with a copy of the data; Python floats become float32, integers int64.

    >>> import gradwalk as gw
    >>> gw.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    return _new(_of_data(data, dtype, copy=True), requires_grad)


def as_tensor(data: Any, dtype: Dtype = None) -> Tensor:
    """The data as a tensor, without a copy where that is possible."""
    if isinstance(data, Tensor):
        return data.to(dtype)
    return _new(_of_data(data, dtype, copy=False))


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor on the memory of an ndarray."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy takes an ndarray, not {type(array).__name__}")
    category(array.dtype)
    return _new(np.asarray(array))  # of a memmap or a matrix, the plain array in it


def from_dlpack(other: Any) -> Tensor:
    """A tensor on the memory of any object with `__dlpack__` (PyTorch, JAX, CuPy on CPU...)."""
    return from_numpy(np.from_dlpack(other))


def zeros(*sizes: Any, dtype: Dtype = None, requires_grad: bool = False) -> Tensor:
    """All zeros.

    >>> import gradwalk as gw
    >>> gw.zeros(2, 2)
    tensor([[0., 0.],
            [0., 0.]])
    """
    return _new(np.zeros(sizes_of(sizes), _float(dtype)), requires_grad)


def ones(*sizes: Any, dtype: Dtype = None, requires_grad: bool = False) -> Tensor:
    """All ones."""
    return _new(np.ones(sizes_of(sizes), _float(dtype)), requires_grad)


def empty(*sizes: Any, dtype: Dtype = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised memory; zeros here, so that nothing depends on chance."""
    return _new(np.zeros(sizes_of(sizes), _float(dtype)), requires_grad)


def full(size: Any, fill_value: Any, *, dtype: Dtype = None, requires_grad: bool = False) -> Tensor:
    """Every element `fill_value`; its type decides the dtype unless one is given."""
    if dtype is None:
        dtype = _of_data(fill_value, None, copy=False).dtype
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _new(np.full(sizes_of((size,)), value, dtype), requires_grad)


def zeros_like(like: Tensor, *, dtype: Dtype = None, requires_grad: bool = False) -> Tensor:
    """Zeros with the shape and dtype of another tensor."""
    return _new(np.zeros(like.shape, dtype or like.dtype), requires_grad)


def ones_like(like: Tensor, *, dtype: Dtype = None, requires_grad: bool = False) -> Tensor:
    """Ones with the shape and dtype of another tensor."""
    return _new(np.ones(like.shape, dtype or like.dtype), requires_grad)


def empty_like(like: Tensor, *, dtype: Dtype = None, requires_grad: bool = False) -> Tensor:
    """`empty` with the shape and dtype of another tensor."""
    return zeros_like(like, dtype=dtype, requires_grad=requires_grad)


def full_like(
    like: Tensor, fill_value: Any, *, dtype: Dtype = None, requires_grad: bool = False
) -> Tensor:
    """`full` with the shape and dtype of another tensor."""
    return _new(np.full(like.shape, fill_value, dtype or like.dtype), requires_grad)


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Dtype = None, requires_grad: bool = False
) -> Tensor:
    """start, start + step, ... below `end`.

    >>> import gradwalk as gw
    >>> gw.arange(3)
    tensor([0, 1, 2])
    """
    if end is None:
        start, end = 0, start
    numbers = [n.item() if isinstance(n, Tensor) else n for n in (start, end, step)]
    if dtype is None:
        whole = all(isinstance(n, (int, np.integer)) for n in numbers)
        dtype = np.int64 if whole else get_default_dtype()
    return _new(np.arange(*numbers).astype(dtype), requires_grad)


def linspace(
    start: float, end: float, steps: int, *, dtype: Dtype = None, requires_grad: bool = False
) -> Tensor:
    """`steps` evenly spaced numbers from start to end, both included."""
    steps = operator.index(steps)
    return _new(np.linspace(start, end, steps).astype(_float(dtype)), requires_grad)


def eye(
    n: int, m: int | None = None, *, dtype: Dtype = None, requires_grad: bool = False
) -> Tensor:
    """Ones on the diagonal."""
    return _new(np.eye(n, m, dtype=_float(dtype)), requires_grad)


def rand(
    *sizes: Any,
    generator: Generator | None = None,
    dtype: Dtype = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [0, 1)."""
    draw = (generator or default_generator).numpy
    kind = _float(dtype)
    single = kind == np.float32
    array = draw.random(sizes_of(sizes), dtype=np.float32 if single else np.float64)
    return _new(np.asarray(array, kind), requires_grad)


def randn(
    *sizes: Any,
    generator: Generator | None = None,
    dtype: Dtype = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal.

    >>> import gradwalk as gw
    >>> gw.randn(2, 3).shape
    (2, 3)
    """
    draw = (generator or default_generator).numpy
    kind = _float(dtype)
    single = kind == np.float32
    array = draw.standard_normal(sizes_of(sizes), dtype=np.float32 if single else np.float64)
    return _new(np.asarray(array, kind), requires_grad)


def randint(
    low: int, high: Any = None, size: Any = None, *, generator: Generator | None = None,
    dtype: Dtype = None,
) -> Tensor:  # fmt: skip
    """Integers in [low, high)."""
    if size is None:  # randint(high, size)
        low, high, size = 0, low, high
    draw = (generator or default_generator).numpy
    return _new(np.asarray(draw.integers(low, high, sizes_of((size,)), dtype=dtype or np.int64)))


def randperm(n: int, *, generator: Generator | None = None) -> Tensor:
    """A random order of 0 to n − 1."""
    return _new((generator or default_generator).numpy.permutation(n).astype(np.int64))


def rand_like(like: Tensor, **options: Any) -> Tensor:
    """`rand` with the shape and dtype of another tensor."""
    return rand(like.shape, dtype=options.pop("dtype", like.dtype), **options)


def randn_like(like: Tensor, **options: Any) -> Tensor:
    """`randn` with the shape and dtype of another tensor."""
    return randn(like.shape, dtype=options.pop("dtype", like.dtype), **options)


def is_tensor(thing: Any) -> bool:
    """Whether it is a Tensor."""
    return isinstance(thing, Tensor)


def _float(dtype: Dtype) -> np.dtype[Any]:
    found = get_default_dtype() if dtype is None else np.dtype(dtype)
    category(found)
    return found


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Dtype = np.int64) -> Tensor:
    """The places of the lower triangle of a matrix: a row of rows, a row of columns.

    >>> tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _new(np.stack(np.tril_indices(row, offset, col)).astype(dtype))


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Dtype = np.int64) -> Tensor:
    """The places of the upper triangle of a matrix: a row of rows, a row of columns."""
    return _new(np.stack(np.triu_indices(row, offset, col)).astype(dtype))
