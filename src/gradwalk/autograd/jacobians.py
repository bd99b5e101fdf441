"""Jacobians and Hessians: sweeps of the transforms, many side by side in one `vmap`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.modes import beside, filled
from gradwalk.engine.transforms import (
    Argnums,
    Function,
    TransformRun,
    argument_numbers,
    like_arguments,
    released,
)
from gradwalk.engine.tree import rebuild
from gradwalk.ops.shape.reshaping import cat, reshape, stack

# Elements of the widest tensor of a function, times sweeps at once: 128 MiB of float32
_AT_ONCE = 2**25


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
) -> Function:
    """The Jacobian by reverse sweeps, one for each output element: shape (*output, *input).

    With `has_aux`, `func` returns a pair, and the second of it is passed on. `chunk_size`
    sweeps run at a time; by default as many as fit into some 128 MiB.

    >>> import gradwalk as gw
    >>> gw.jacrev(lambda x: x**2)(gw.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"jacrev: chunk_size is at least 1, not {chunk_size}")

    @functools.wraps(func)
    def jacobian(*args: Any, **keywords: Any) -> Any:
        run = TransformRun(func, args, keywords, argument_numbers(argnums), has_aux)
        _check_ends("jacrev", run)
        blocks = []
        for k, output in enumerate(run.outputs):
            pull = _for_one(lambda seeds: run.pull(seeds, retain=True), run.outputs, k)
            rows = _swept("jacrev", pull, run, output, run.inputs, chunk_size)
            columns = [
                reshape(r, shape=(*output.shape, *t.shape)) for r, t in zip(rows, run.inputs)
            ]
            blocks.append(like_arguments(args, argnums, columns))
        built = rebuild(run.result, iter(blocks))
        return (built, run.aux) if has_aux else built

    return jacobian


def jacfwd(
    func: Function,
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Function:
    """The Jacobian by forward sweeps, one for each input element: shape (*output, *input).

    With `has_aux`, `func` returns a pair, and the second of it is passed on. `randomness`
    is PyTorch's: `func` runs once, so all sweeps see the same random numbers.

    >>> import gradwalk as gw
    >>> gw.jacfwd(lambda x: x.sum())(gw.tensor([1.0, 2.0]))
    tensor([1., 1.])
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **keywords: Any) -> Any:
        run = TransformRun(func, args, keywords, argument_numbers(argnums), has_aux)
        _check_ends("jacfwd", run)
        columns: list[list[Any]] = [[] for _ in run.outputs]  # [output][input]
        for k, variable in enumerate(run.inputs):
            push = _for_one(run.push, run.inputs, k)
            moved = _swept("jacfwd", push, run, variable, run.outputs, None)
            for column, block, output in zip(columns, moved, run.outputs, strict=True):
                last = block.movedim(0, -1)
                column.append(reshape(last, shape=(*output.shape, *variable.shape)))
        blocks = iter([like_arguments(args, argnums, c) for c in columns])
        built = rebuild(run.result, blocks)
        return (built, run.aux) if has_aux else built

    return jacobian


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """All second derivatives: forward over reverse.

    >>> import gradwalk as gw
    >>> gw.hessian(lambda x: (x**3).sum())(gw.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _check_ends(name: str, run: TransformRun) -> None:
    """Raise unless there is something to differentiate, of real numbers."""
    if not run.outputs:
        raise ValueError(f"{name}: the function returned no tensor, so it has no Jacobian")
    if any(t.is_complex() for t in (*run.inputs, *run.outputs)):
        raise TypeError(
            f"{name}: one number per pair of elements does not describe how complex numbers "
            "change.\nFix: take it of the parts (gradwalk.view_as_real), or use vjp or jvp."
        )


def _zeros(like: Any, *front: int) -> Any:
    return gradients.wrap(filled((*front, *like.shape), like.dtype, 0, like._array))


def _for_one(sweep: Callable[..., list[Any]], starts: list[Any], which: int) -> Function:
    """A sweep as a function of the seed of one of its starts; those of the others are zeros."""
    seeds = [_zeros(start) for start in starts]
    return lambda seed: tuple(sweep([*seeds[:which], seed, *seeds[which + 1 :]]))


def _swept(
    name: str,
    sweep: Function,
    run: TransformRun,
    start: Any,
    ends: list[Any],
    chunk_size: int | None,
) -> list[Any]:
    """What sweeps from every element of `start` bring to each of the ends, stacked in front."""
    count = start.numel()
    if not count:
        return [_zeros(end, 0) for end in ends]
    at_once = min(chunk_size or max(_AT_ONCE // max(run.widest(), 1), 1), count)
    parts = []
    for first in range(0, count, at_once):
        units = np.eye(min(at_once, count - first), count, first, dtype=start.dtype)
        seeds = gradients.wrap(beside(units.reshape(-1, *start.shape), start._array))
        parts.append(_side_by_side(name, sweep, seeds))
    joined = [part[0] if len(part) == 1 else cat(part, 0) for part in zip(*parts, strict=True)]
    return joined if run.graph else [released(t) for t in joined]


def _side_by_side(name: str, sweep: Function, seeds: Any) -> Any:
    from gradwalk.batching.vmap import VmapError, vmap  # most programs never need it

    if len(seeds) > 1:
        try:
            return vmap(sweep, randomness="same")(seeds)
        except VmapError as error:
            text = str(error).splitlines()[0]
            warnings.warn(
                f"{name} computes its sweeps one after the other, which takes long: {text}",
                stacklevel=4,
            )
    return [stack(rows, 0) for rows in zip(*(sweep(seed) for seed in seeds), strict=True)]
