"""The same call in gradwalk and in PyTorch: values, first and second derivatives as arrays."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import gradwalk as gw

# The engines sum the same float64 numbers in different orders: a few dozen roundings.
TIGHT = dict(rtol=1e-11, atol=1e-13)
TIGHT_SECOND = dict(rtol=1e-10, atol=1e-12)
SINGLE = dict(rtol=2e-5, atol=2e-5)


@dataclass
class Result:
    """The results of one engine, as arrays; None if an output has no gradient."""

    outputs: list[np.ndarray]
    recorded: list[bool]  # whether each output requires a gradient
    gradients: list[np.ndarray] = field(default_factory=list)
    second: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class Engine:
    """What differs between the two: how to make a tensor, and how to read one."""

    module: types.ModuleType
    tensor: Callable[[np.ndarray], Any]
    array: Callable[[Any], np.ndarray]


OURS = Engine(gw, gw.from_numpy, lambda t: t.detach().numpy())
# PyTorch has no negative strides and warns about read-only memory, so it gets a copy.
THEIRS = Engine(torch, lambda a: torch.from_numpy(np.array(a)), lambda t: t.numpy(force=True))


def run(
    engine: Engine,
    call: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    *,
    order: int = 1,
    seed: int = 0,
    layout: Callable[[np.ndarray], np.ndarray] = lambda array: array,
) -> Result:
    """Call and differentiate `order` times, with cotangents that `seed` fixes.

    The second derivatives are those of Σ weight × gradient, by the inputs and by the cotangents
    (the latter is the forward derivative: it shows whether the rule is linear in g).
    """
    with warnings.catch_warnings():
        if engine is THEIRS:
            warnings.simplefilter("ignore")  # it warns of NaNs in var; we compare them
        return _run(engine, call, arrays, order, seed, layout)


def _run(
    engine: Engine, call: Any, arrays: Sequence[np.ndarray], order: int, seed: int, layout: Any
) -> Result:
    source = np.random.default_rng(seed)
    inputs = [engine.tensor(a) for a in arrays]
    leaves = [x.requires_grad_() for x, a in zip(inputs, arrays) if a.dtype.kind == "f"]
    found = call(engine.module, *inputs)
    outputs = list(found) if isinstance(found, tuple) else [found]
    result = Result([engine.array(o) for o in outputs], [o.requires_grad for o in outputs])
    roots = [o for o in outputs if o.requires_grad]
    if not order or not roots or not leaves:
        return result

    def cotangents(like: Sequence[Any], kind: Any) -> list[Any]:
        draws = [np.asarray(source.uniform(0.5, 1.5, tuple(t.shape)), kind) for t in like]
        return [engine.tensor(layout(d) if d.ndim else d) for d in draws]

    def grad(roots: list[Any], by: list[Any], seeds: list[Any], create: bool) -> list[Any]:
        gradients = engine.module.autograd.grad(
            roots, by, seeds, create_graph=create, allow_unused=True
        )
        zeros = engine.module.zeros_like
        return [zeros(x) if g is None else g for x, g in zip(by, gradients)]

    kind = engine.array(roots[0]).dtype
    seeds = cotangents(roots, kind)
    if order == 1:
        result.gradients = [engine.array(g) for g in grad(roots, leaves, seeds, False)]
        return result
    seeds = [s.requires_grad_() for s in seeds]
    first = grad(roots, leaves, seeds, True)
    result.gradients = [engine.array(g) for g in first]
    again = [g for g in first if g.requires_grad]
    weights = [w for w, g in zip(cotangents(first, kind), first) if g.requires_grad]
    if again:
        second = grad(again, [*leaves, *seeds], weights, False)
        result.second = [engine.array(g) for g in second]
    else:
        result.second = [np.zeros(tuple(x.shape), kind) for x in [*leaves, *seeds]]
    return result


def assert_same(ours: Result, theirs: Result, tolerance: dict[str, float]) -> None:
    """Equal outputs, equal gradients, gradients at the same outputs; NaN equals NaN."""
    assert len(ours.outputs) == len(theirs.outputs)
    assert ours.recorded == theirs.recorded
    for what in ("outputs", "gradients", "second"):
        pairs = zip(getattr(ours, what), getattr(theirs, what), strict=True)
        for position, (one, other) in enumerate(pairs):
            where = f"{what}[{position}]"
            assert one.__class__ is np.ndarray
            assert one.shape == other.shape, where
            assert one.dtype == other.dtype, where
            np.testing.assert_allclose(one, other, equal_nan=True, err_msg=where, **tolerance)
