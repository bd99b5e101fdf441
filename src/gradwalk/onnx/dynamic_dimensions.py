"""Which dimensions of the inputs a file leaves open, and sizes to trace them at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradwalk.engine.tree import leaves, rebuild
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor

MOST_NAMES = 3  # a program is traced 2ⁿ + 1 times
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)

Dimensions = dict[tuple[int, int], str]  # (number of the input, axis) to a name
Point = dict[str, int]  # a size for each name


def dynamic_dimensions(
    dynamic_axes: Any, dynamic_shapes: Any, names: Sequence[str], args: tuple[Any, ...]
) -> Dimensions:
    """The open dimensions, from PyTorch's `dynamic_axes` (by name of the input) or
    `dynamic_shapes` (by name, or in the order of the arguments)."""
    if dynamic_axes and dynamic_shapes:
        raise ValueError("onnx.save takes dynamic_axes or dynamic_shapes, not both")
    tensors = [leaf for leaf in leaves(list(args)) if isinstance(leaf, Tensor)]
    given = dynamic_axes or dynamic_shapes or {}
    if not isinstance(given, Mapping):  # one entry for each argument
        given = dict(zip(names, given, strict=False))
    found: Dimensions = {}
    for name, axes in given.items():
        if name not in names:
            if dynamic_axes:  # of an output, whose dimensions follow
                continue
            raise ValueError(f"dynamic_shapes: no input is called {name!r}: {', '.join(names)}")
        number = list(names).index(name)
        for axis, label in _labelled(axes, name):
            ndim = tensors[number].ndim
            if not -ndim <= axis < ndim:
                raise ValueError(f"input {name!r} has {ndim} dimensions, and no dimension {axis}")
            if not tensors[number].shape[axis]:
                raise ValueError(f"dimension {axis} of {name!r} is empty. Fix: pass an example.")
            found[number, axis % ndim] = label
    if len(set(found.values())) > MOST_NAMES:
        labels = ", ".join(sorted(set(found.values())))
        raise ValueError(
            f"onnx.save: {labels} are more than {MOST_NAMES} dynamic dimensions. Fix: give "
            "dimensions that are always equal one name."
        )
    return found


def _labelled(axes: Any, name: str) -> Iterator[tuple[int, str]]:
    """(axis, its name) for each open dimension of an input."""
    if axes is None:
        return
    pairs: Any
    if isinstance(axes, Mapping):
        pairs = axes.items()
    elif all(isinstance(axis, int) for axis in axes):  # without names
        pairs = [(axis, f"{name}_{axis}") for axis in axes]
    else:  # a name, or None, for each dimension
        pairs = list(enumerate(axes))
    for axis, label in pairs:
        if label is not None:  # text, or a Dim of torch.export
            yield axis, label if isinstance(label, str) else getattr(label, "__name__", str(label))


def points(dimensions: Dimensions, args: tuple[Any, ...]) -> Iterator[list[Point]]:
    """Ways to choose sizes: the corners of a cube, and one point beyond it to check with.

    Prime sizes coincide with no other size of the program. A function may need a size of a certain
    kind, even or at most the one that it was given; so multiples and smaller sizes follow.
    """
    tensors = [leaf for leaf in leaves(list(args)) if isinstance(leaf, Tensor)]
    present = {n for tensor in tensors for n in tensor.shape}
    sizes = {name: tensors[i].shape[axis] for (i, axis), name in dimensions.items()}
    primes = iter([p for p in _PRIMES if p not in present])
    yield _cube({name: (next(primes), next(primes), next(primes)) for name in sizes})
    for low, high, beyond in ((2, 3, 5), (1, 2, 3)):
        yield _cube({name: (low * n, high * n, beyond * n) for name, n in sizes.items()})
    if all(n > 3 for n in sizes.values()):
        yield _cube({name: (n - 1, n - 2, n) for name, n in sizes.items()})


def _cube(sizes: dict[str, tuple[int, int, int]]) -> list[Point]:
    corners = itertools.product(*[(low, high) for low, high, _ in sizes.values()])
    return [
        *(dict(zip(sizes, corner, strict=True)) for corner in corners),
        {name: beyond for name, (_, _, beyond) in sizes.items()},
    ]


def resized(args: tuple[Any, ...], dimensions: Dimensions, point: Point) -> tuple[Any, ...]:
    """Arguments of other sizes: slices are left out or repeated."""
    parts, number = [], 0
    for leaf in leaves(list(args)):
        if isinstance(leaf, Tensor):
            array = leaf.detach().numpy()
            for (i, axis), name in dimensions.items():
                if i == number:
                    array = np.take(array, np.arange(point[name]) % array.shape[axis], axis)
            parts.append(wrap(array))
            number += 1
        else:
            parts.append(leaf)
    return tuple(rebuild(list(args), iter(parts)))
