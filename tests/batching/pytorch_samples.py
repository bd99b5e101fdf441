"""PyTorch's samples (`op_db`) as batches: the same call in ours and in PyTorch's `vmap`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

import gradwalk as gw
from tests.ops.test_pytorch_samples import (
    KNOWN,
    Known,
    NotOurs,
    compared,
    database,
    drawn,
    full_name,
    our_function,
    quietly,
    translated,
)

MOST = 6  # samples of one function, evenly spread
SAMPLES = 2  # in a batch
# Which tensors of a call are batched, and along which dimension.
CHOICES: dict[str, Callable[[int, int, int], int | None]] = {
    "all": lambda position, count, ndim: 0,
    "first": lambda position, count, ndim: 0 if position == 0 else None,
    "others": lambda position, count, ndim: None if position == 0 else 0,
    "last dimension": lambda position, count, ndim: -1,
}


def flattened(thing: Any, tensors: list[Any]) -> Callable[[Iterator[Any]], Any]:
    """Note the tensors of a sample, and return a function that puts others in their places."""
    if isinstance(thing, torch.Tensor):
        tensors.append(thing)
        return next
    if isinstance(thing, (list, tuple)) and not isinstance(thing, torch.Size):
        kind = list if isinstance(thing, list) else tuple
        parts = [flattened(part, tensors) for part in thing]
        return lambda others: kind(part(others) for part in parts)
    if isinstance(thing, dict):
        named = {key: flattened(part, tensors) for key, part in thing.items()}
        return lambda others: {key: part(others) for key, part in named.items()}
    return lambda others: thing


def varied(tensor: torch.Tensor) -> torch.Tensor:
    """Another sample: other numbers, and valid where the first ones are."""
    if tensor.dtype.is_floating_point:
        return tensor.detach() * 0.9
    return tensor.flip(0) if tensor.ndim else tensor


def stacked(tensor: torch.Tensor, dim: int | None) -> torch.Tensor:
    batch = tensor.detach() if dim is None else torch.stack([tensor.detach(), varied(tensor)], dim)
    return batch.requires_grad_(tensor.requires_grad)


def one_sample(batch: list[Any], dims: tuple[int | None, ...], number: int) -> list[Any]:
    return [t if d is None else t.select(d, number) for t, d in zip(batch, dims, strict=True)]


def expected_of(call: Any, batch: list[Any], dims: Any) -> Any:
    """What PyTorch's vmap gives; where it refuses, its function applied to each sample."""
    try:
        return quietly(torch.func.vmap(call, dims, randomness="different"), *batch)
    except Exception:
        singles = [quietly(call, *one_sample(batch, dims, i)) for i in range(SAMPLES)]
        if not isinstance(singles[0], torch.Tensor):
            return tuple(torch.stack(parts) for parts in zip(*singles, strict=True))
        return torch.stack(singles)


def outcome(description: Any, sample: Any, choice: str) -> tuple[str, str]:
    """How ours does with one call: "equal", "refused", "differs" or "none" (there is nothing to
    compare), and a text."""
    tensors: list[Any] = []
    rebuild = flattened([sample.input, list(sample.args), sample.kwargs], tensors)
    count = len(tensors)
    dims = tuple(CHOICES[choice](i, count, t.ndim) for i, t in enumerate(tensors))
    if all(d is None for d in dims) or (choice in ("first", "others") and count == 1):
        return "none", ""
    theirs, ours = description.get_op(), our_function(description)
    try:
        for t in tensors:
            translated(t, [])
        others = translated(rebuild(iter([None] * count)), [])
        batch = [stacked(t, d) for t, d in zip(tensors, dims, strict=True)]
    except NotOurs:
        return "none", ""
    del others

    def their_call(*given: Any) -> Any:
        first, args, keywords = rebuild(iter(given))
        return theirs(first, *args, **keywords)

    def our_call(*given: Any) -> Any:
        first, args, keywords = mixed(rebuild(iter(given)))
        return ours(first, *args, **keywords)

    leaves: list[Any] = []
    mine = [translated(t, leaves) for t in batch]
    try:
        expected = expected_of(their_call, batch, dims)
    except Exception:
        return "none", ""
    known = KNOWN.get(full_name(description), Known("", ""))
    left = known.left_out if known.when(sample) else ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = gw.vmap(our_call, dims, randomness="different")(*mine)
        finish = sample.output_process_fn_grad
        try:
            found, expected = finish(found), finish(expected)
        except Exception:
            pass
        text = compared(found, expected, leaves, [b for b in batch if b.requires_grad], left)
    except NotOurs:
        return "none", ""
    except gw.VmapError as error:
        return "refused", str(error)
    except Exception as error:
        return "differs", f"{type(error).__name__}: {error}"
    return ("differs", text) if text else ("equal", "")


def mixed(thing: Any) -> Any:
    """A sample with our tensors in it; the rest of it translated."""
    if isinstance(thing, gw.Tensor):
        return thing
    if isinstance(thing, (list, tuple)) and not isinstance(thing, torch.Size):
        return (list if isinstance(thing, list) else tuple)(mixed(part) for part in thing)
    if isinstance(thing, dict):
        return {key: mixed(part) for key, part in thing.items()}
    return translated(thing, [])


def samples_of(name: str) -> Iterator[tuple[Any, Any]]:
    """Every description of a function, and some of its samples of float64."""
    for description in database()[name]:
        dtype = torch.float64
        if not description.supports_dtype(dtype, "cpu"):
            dtype = torch.int64
            if not description.supports_dtype(dtype, "cpu"):
                continue
        needs = dtype.is_floating_point and description.supports_autograd
        samples = quietly(drawn, description, dtype, needs)
        for sample in samples[:: -(-len(samples) // MOST) or 1]:
            yield description, sample
