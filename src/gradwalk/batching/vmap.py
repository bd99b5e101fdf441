"""vmap: apply a function of one sample to all samples of a batch, at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gradwalk.batching.dims import Dims, flat_dims, flat_out_dims, from_front, to_front
from gradwalk.batching.errors import VmapError
from gradwalk.batching.lanes import Lanes, spread
from gradwalk.batching.level import Level, tensor_of
from gradwalk.engine.modes import current, switch
from gradwalk.engine.tree import leaves, rebuild
from gradwalk.ops.shape.reshaping import cat, clone, getitem_slice
from gradwalk.random.generator import get_rng_state, set_rng_state
from gradwalk.tensors.apply import wrap

__all__ = ["VmapError", "vmap"]

FlatDims = list[int | None]  # for each leaf of arguments or results
_RANDOMNESS = ("error", "same", "different")


def vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that applies `func`, written for one sample, to all samples of a batch.

    `in_dims` says along which dimension of each argument the samples lie, `None` for an argument
    that they share; `out_dims` where they lie in the results. Both may be containers that match
    those of the arguments or results. Keyword arguments are shared. The function runs once, and
    its ops work on all samples; with `chunk_size`, on so many at a time.

    `randomness` says what random numbers in the function are: an "error", the "same" for all
    samples, or "different" for each.

    >>> import gradwalk as gw
    >>> gw.vmap(gw.dot)(gw.tensor([[1.0, 2.0], [3.0, 4.0]]), gw.ones(2, 2))
    tensor([3., 7.])
    >>> gw.vmap(gw.grad(lambda w, x: (w @ x) ** 2), in_dims=(None, 0))(gw.ones(2), gw.eye(2))
    tensor([[2., 0.],
            [0., 2.]])
    """
    if randomness not in _RANDOMNESS:
        raise ValueError(f"vmap: randomness is one of {_RANDOMNESS}, not {randomness!r}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size is at least 1, not {chunk_size}")
    name = getattr(func, "__name__", type(func).__name__)

    def batched(*args: Any, **keywords: Any) -> Any:
        dims = _argument_dims(name, in_dims, args)
        tensors = leaves(args)
        size = _size(name, dims, tensors)
        if chunk_size is None or chunk_size >= size:
            return run(args, tensors, dims, keywords, size)
        parts = []
        drawn = get_rng_state()
        for start in range(0, size, chunk_size):
            if randomness == "same":
                set_rng_state(drawn)
            stop = min(start + chunk_size, size)
            some = [_cut(t, d, start, stop) for t, d in zip(tensors, dims, strict=True)]
            parts.append(run(args, some, dims, keywords, stop - start))
        return _joined(f"vmap({name}): out_dims", parts, out_dims)

    def run(
        args: Any, tensors: list[Any], dims: FlatDims, keywords: dict[str, Any], size: int
    ) -> Any:
        outer = current().level
        level = Level(size, randomness, outer)
        inside = [_batched(level, t, d) for t, d in zip(tensors, dims, strict=True)]
        arrays: list[Any] = [getattr(stand_in, "_array", None) for stand_in in inside]
        switch(level=level)
        try:
            result = func(*rebuild(args, iter(inside)), **keywords)
            out = flat_out_dims(f"vmap({name}): out_dims", out_dims, result)
            mapped = {  # but for those that the function gave another shape in place
                id(stand_in): (tensor, dim)
                for stand_in, array, tensor, dim in zip(inside, arrays, tensors, dims, strict=True)
                if getattr(stand_in, "_array", None) is array
            }
            made = []
            for r, d in zip(leaves(result), out, strict=True):
                given = _given(r, d, mapped)
                made.append(_outside(name, level, r, d) if given is None else given)
            for tensor, dim, array in zip(tensors, dims, arrays, strict=True):
                if dim is not None and array.version:  # the function changed it in place
                    tensor.copy_(from_front(_every(array.term, size), dim))
        finally:
            switch(level=outer)
        return rebuild(result, iter(made))

    functools.update_wrapper(batched, func, updated=())
    return batched


# -- arguments -------------------------------------------------------------------------------------


def _argument_dims(name: str, in_dims: Dims, args: tuple[Any, ...]) -> FlatDims:
    """The dimension of every leaf among the arguments."""
    if isinstance(in_dims, list):
        in_dims = tuple(in_dims)
    if isinstance(in_dims, tuple) and len(in_dims) != len(args):
        raise ValueError(
            f"vmap({name}): in_dims {in_dims} has {len(in_dims)} entries, and the function was "
            f"called with {len(args)} positional argument(s).\n"
            "Fix: one entry for each of them, None where the samples share it."
        )
    if not isinstance(in_dims, tuple):
        if not isinstance(in_dims, int):
            raise ValueError(
                f"vmap({name}): in_dims is an integer, or a tuple with one entry for each "
                f"argument, not {in_dims!r}"
            )
        in_dims = (in_dims,) * len(args)
    flat = []
    for number, (dims, argument) in enumerate(zip(in_dims, args, strict=True)):
        flat += flat_dims(f"vmap({name}): in_dims", f"argument {number}", dims, argument)
    return flat


def _size(name: str, dims: FlatDims, tensors: list[Any]) -> int:
    """The number of samples, equal in all mapped tensors."""
    found: list[tuple[tuple[int, ...], int, int]] = []  # shape, dimension, samples
    for tensor, dim in zip(tensors, dims, strict=True):
        if dim is None:
            continue
        if not hasattr(tensor, "_array"):
            raise ValueError(
                f"vmap({name}): in_dims has {dim} for {tensor!r}, and only tensors have "
                f"dimensions; this is a {type(tensor).__name__}.\n"
                "Fix: None in in_dims, if the samples share it; otherwise make a tensor of it."
            )
        if not -tensor.ndim <= dim < tensor.ndim:
            raise ValueError(
                f"vmap({name}): in_dims has {dim} for a tensor of shape {tuple(tensor.shape)}, "
                f"which has {tensor.ndim} dimension(s).\n"
                "Fix: the dimension along which the samples lie, or None if they share it."
            )
        found.append((tuple(tensor.shape), dim, tensor.shape[dim]))
    if not found:
        raise ValueError(
            f"vmap({name}): there is no tensor to map over.\n"
            "Fix: a tensor among the positional arguments, and in_dims with the dimension of its "
            "samples."
        )
    if len({size for *_, size in found}) > 1:
        listed = ", ".join(f"{size} (dimension {dim} of {shape})" for shape, dim, size in found)
        raise ValueError(
            f"vmap({name}): the mapped tensors have different numbers of samples: {listed}.\n"
            "Fix: in_dims with the dimension of the samples of each, None for what they share."
        )
    return found[0][2]


def _batched(level: Level, tensor: Any, dim: int | None) -> Any:
    """The stand-in for one sample; what the samples share stays as it is."""
    if dim is None:
        return tensor
    level.device = tensor.device
    stand_in = wrap(level.batched(level.inner_of(to_front(tensor, dim))))
    stand_in.code, stand_in.position, stand_in.label = tensor.code, tensor.position, tensor.label
    return stand_in


def _cut(tensor: Any, dim: int | None, start: int, stop: int) -> Any:
    """Some samples of an argument."""
    return tensor if dim is None else getitem_slice(tensor, dim % tensor.ndim, start, stop)


# -- results ---------------------------------------------------------------------------------------


def _given(result: Any, dim: int | None, mapped: dict[int, tuple[Any, int | None]]) -> Any:
    """The argument that the function returned as it is, its samples along the same dimension;
    `mapped` has the arguments by the ids of their stand-ins."""
    tensor, own = mapped.get(id(result), (None, None))
    if dim is None or own is None:
        return None
    same = -tensor.ndim <= dim < tensor.ndim and dim % tensor.ndim == own % tensor.ndim
    return tensor if same else None


def _outside(name: str, level: Level, result: Any, dim: int | None) -> Any:
    """A result outside of the vmap: the values of all samples along `dim`."""
    if not hasattr(result, "_array"):
        if dim is None:
            return result
        raise ValueError(
            f"vmap({name}): the function returned {result!r} ({type(result).__name__}), and only "
            "tensors have a value for each sample.\n"
            "Fix: return a tensor, or out_dims with None for what the samples share."
        )
    lanes = level.lift(result)._array.term
    if dim is None:
        if lanes.batched:
            raise ValueError(
                f"vmap({name}): out_dims has None for a result that differs between samples.\n"
                "Fix: the dimension along which its samples shall lie."
            )
        return tensor_of(lanes.inner)
    values = _every(lanes, level.size)
    if not -values.ndim <= dim < values.ndim:
        raise ValueError(
            f"vmap({name}): out_dims has {dim} for a result that has {values.ndim} dimension(s) "
            f"with the samples: {-values.ndim} to {values.ndim - 1}."
        )
    return from_front(values, dim)


def _every(lanes: Lanes, size: int) -> Any:
    """The values of all samples, also where they share one."""
    return tensor_of(lanes.inner if lanes.batched else clone(spread(lanes, size)))


def _joined(what: str, parts: Sequence[Any], out_dims: Dims) -> Any:
    """The results of chunks, as one."""
    dims = flat_out_dims(what, out_dims, parts[0])
    columns = zip(*[leaves(part) for part in parts], strict=True)
    joined = [
        column[0] if dim is None else cat(column, dim)
        for dim, column in zip(dims, columns, strict=True)
    ]
    return rebuild(parts[0], iter(joined))
