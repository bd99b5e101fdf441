"""PyTorch's own samples in bfloat16 and float16, as functions and in place, with gradients.

A result has PyTorch's dtype and is within one unit in the last place of PyTorch's, or nearer to
what PyTorch computes in float64: PyTorch rounds after each step of many gradients and of some
forwards; we compute in float32 and round once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched
from tests.ops import test_pytorch_samples as samples
from tests.ops.half_units import wrong

pytestmark = pytest.mark.slow

HALVES = {torch.bfloat16: gw.bfloat16, torch.float16: gw.float16}
MOST = 10  # samples of one function and dtype, evenly spread
TIES = "of equal elements, which halves often are, we name the first, PyTorch any of them"
ROUNDED, REFUSED = "values and gradients", "refused"
KNOWN = {  # what is not compared, and why
    "sort": ("gradients", TIES),
    "msort": ("gradients", TIES),
    "topk": ("gradients", TIES),
    "nn.functional.poisson_nll_loss": ("gradients", "PyTorch's is NaN where a target is 0"),
    "linalg.multi_dot": ("gradients", "the products inside are rounded, in another order"),
    "nn.functional.linear_cross_entropy": (ROUNDED, "the product is rounded before the loss"),
    "nn.functional.linear_cross_entropy.chunked": (ROUNDED, "as above"),
    "nn.functional.linear_cross_entropy.chunked_none": (ROUNDED, "as above"),
    "nn.functional.grid_sample": ("gradients", "jump at the border, which rounding crosses"),
    "complex": (ROUNDED, "gradwalk has no complex numbers of two halves: the result is complex64"),
    "view_as_complex": (REFUSED, "there are none, and a view cannot widen its numbers"),
}


def array_of(tensor: torch.Tensor) -> Any:
    """A PyTorch tensor as an array."""
    tensor = tensor.detach().resolve_neg()
    if tensor._is_zerotensor():
        tensor = tensor.clone()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(gw.bfloat16)
    return tensor.numpy()


def tensor_of(array: Any, dtype: torch.dtype) -> torch.Tensor:
    """Float64 numbers as a PyTorch tensor."""
    return torch.from_numpy(np.asarray(array, np.float64)).to(dtype)


class NotOurs(Exception):
    """The sample has something that is not compared."""


def mapped(thing: Any, change: Any) -> Any:
    """A sample with its tensors and dtypes changed."""
    if isinstance(thing, (torch.Tensor, torch.dtype)):
        return change(thing)
    if isinstance(thing, (torch.memory_format, torch.layout, torch.Generator, complex)):
        raise NotOurs
    if isinstance(thing, torch.Size):
        return thing
    if isinstance(thing, torch.nn.Module):
        raise NotOurs
    if isinstance(thing, (list, tuple)):
        return (list if isinstance(thing, list) else tuple)(mapped(t, change) for t in thing)
    if isinstance(thing, dict):
        return {key: mapped(value, change) for key, value in thing.items()}
    return str(thing) if isinstance(thing, torch.device) else thing


class Run:
    """One call of one sample: in gradwalk, in PyTorch's half or in its float64."""

    def __init__(self, sample: Any, how: str) -> None:
        self.how = how
        self.leaves: list[Any] = []
        self.given = mapped([sample.input, list(sample.args), dict(sample.kwargs)], self._tensor)
        self.finish = sample.output_process_fn_grad

    def _tensor(self, thing: Any) -> Any:
        half = (thing.dtype if isinstance(thing, torch.Tensor) else thing) in HALVES
        if isinstance(thing, torch.dtype):
            if self.how == "ours":
                return HALVES.get(thing) or samples.NUMPY[thing]
            return torch.float64 if half and self.how == "float64" else thing
        if thing.layout is not torch.strided or thing.numel() > samples.LARGEST:
            raise NotOurs
        if self.how == "ours":
            if not half and thing.dtype not in samples.NUMPY:
                raise NotOurs
            made: Any = gw.from_numpy(array_of(thing))
        else:
            made = thing.detach().to(torch.float64) if half and self.how == "float64" else thing
            made = made.detach()
        if thing.requires_grad:
            self.leaves.append(made.requires_grad_())
        return made

    def __call__(self, function: Any, in_place: bool) -> list[Any]:
        first, rest, keywords = self.given
        first = first.clone() if in_place else first
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = function(first, *rest, **keywords)
        try:
            found = self.finish(found)
        except Exception:
            pass
        return samples.flat(found)


def wide(x: Any) -> Any:
    return (array_of(x) if isinstance(x, torch.Tensor) else x._array).astype(np.float64)


def difference(one: Any, other: Any, true: Any, what: str) -> str:
    """How a result differs from PyTorch's, "" if it does not; `true` is from float64."""
    kind = HALVES.get(other.dtype) or samples.NUMPY.get(other.dtype)
    if tuple(one.shape) != tuple(other.shape) or one.dtype != kind:
        return f"{what}: {one.dtype} {one.shape}, in PyTorch {other.dtype} {tuple(other.shape)}"
    if other.dtype not in HALVES:
        return samples.difference(one._array, array_of(other), what)
    ours, theirs = wide(one), wide(other)
    apart = wrong(ours, theirs, None if true is None else wide(true), kind)
    if not apart.any():
        return ""
    at = tuple(np.argwhere(apart)[0].tolist())
    exactly = f" (exactly {wide(true)[at]:.6g})" if true is not None else ""
    return f"{what} at {at}: {ours[at]:.6g}, in PyTorch {theirs[at]:.6g}{exactly}"


def outcome(sample: Any, ours: Any, theirs: Any, in_place: bool, left: str) -> str:
    """What is wrong with one call, "" if nothing is."""
    try:
        mine, half, double = (Run(sample, how) for how in ("ours", "half", "float64"))
        expected = half(theirs, in_place)
    except Exception:
        return ""  # not ours, or PyTorch refuses it
    try:
        true: list[Any] = double(theirs, in_place)
    except Exception:
        true = []
    true = true if len(true) == len(expected) else [None] * len(expected)
    try:
        found = mine(ours, in_place)
    except Exception as error:
        return "" if "refused" in left else f"{type(error).__name__}: {error}"
    if len(found) != len(expected):
        return f"{len(found)} outputs, in PyTorch {len(expected)}"
    roots = []
    for position, (one, other, exact) in enumerate(zip(found, expected, true)):
        if not isinstance(other, torch.Tensor) or "values" in left:
            continue
        if "indices" in left and position:
            continue
        text = difference(one, other, exact, f"output {position}")
        if text:
            return text
        if other.requires_grad:
            roots.append((one, other, exact))
    return "" if "gradients" in left else gradients(roots, mine, half, double)


def gradients(roots: list[Any], mine: Run, half: Run, double: Run) -> str:
    if not roots or not mine.leaves:
        return ""
    source = np.random.default_rng(0)
    seeds = [source.integers(2, 7, one.shape) / 4 for one, _, _ in roots]  # which halves hold

    def theirs(of: int, leaves: list[Any]) -> Any:
        outputs = [root[of] for root in roots]
        given = [tensor_of(s, o.dtype) for s, o in zip(seeds, outputs)]
        return torch.autograd.grad(outputs, leaves, given, allow_unused=True)

    try:
        expected = theirs(1, half.leaves)
    except (RuntimeError, NotImplementedError):
        return ""  # PyTorch has no derivative of it
    try:
        true = theirs(2, double.leaves)
    except Exception:
        true = [None] * len(expected)
    given = [gw.tensor(s, dtype=one.dtype) for s, (one, _, _) in zip(seeds, roots)]
    found = gw.autograd.grad([r[0] for r in roots], mine.leaves, given, allow_unused=True)
    for position, (one, other, exact) in enumerate(zip(found, expected, true)):
        if other is None:
            continue
        one = gw.zeros_like(mine.leaves[position]) if one is None else one
        text = difference(one, other, exact, f"gradient {position}")
        if text:
            return text
    return ""


def wrong_of(name: str) -> Iterator[str]:
    for description in samples.database()[name]:
        full = samples.full_name(description)
        known = samples.KNOWN.get(full)
        for dtype in HALVES:
            if not description.supports_dtype(dtype, "cpu"):
                continue
            drawn = samples.quietly(
                samples.drawn, description, dtype, description.supports_autograd
            )
            for sample in drawn[:: -(-len(drawn) // MOST) or 1]:
                left = known.left_out if known and known.when(sample) else ""
                left += KNOWN.get(full, ("", ""))[0]
                for ours, theirs, kind in samples.variants(description):
                    if kind == "method":
                        continue
                    text = outcome(sample, ours, theirs, kind == "in place", left)
                    if text:
                        yield f"{full} {kind} {dtype}: {text}\n  {sample.summary()}"


@batched("name", samples.NAMES, key=lambda name: name[0])
def test_as_pytorch_in_half_precision(name: str) -> None:
    found = list(wrong_of(name))
    assert not found, f"{len(found)} samples differ:\n" + "\n".join(found[:5])
