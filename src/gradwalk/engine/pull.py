"""One visit: from the gradient of a node's output to the contributions to its inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from gradwalk.engine.errors import modified, second_time, wrong_gradient_shape
from gradwalk.engine.modes import filled
from gradwalk.graph.abstract import is_array
from gradwalk.graph.node import Freed
from gradwalk.graph.versions import changed_since, clock
from gradwalk.ops.core.dtypes import float32, has_gradients, is_complex_dtype, is_half
from gradwalk.ops.core.halves import PRODUCTS
from gradwalk.ops.elementwise.complex_numbers import real_part
from gradwalk.ops.reduce.reduction import sum_op
from gradwalk.ops.shape.reshaping import alias, cast, reshape


def pull(
    node: Any, g: Any, needed: Collection[Any] | None, wrap: Callable[..., Any] | None
) -> Sequence[Any]:
    """The contribution to each input, None where none is wanted.

    With `wrap` the rules are read as a graph: saved arrays become tensors again, tied to the
    inputs they came from, so that the result can itself be differentiated.
    """
    saved, plan = node.saved, node.plan
    plain = node.metas is None and wrap is None and needed is None
    if plain and node.clock == clock.now and saved.__class__ is dict and plan.verified:
        return plan.pull(g, saved, node.attrs)
    op = node.op
    saved = saved_of(node)
    if plan is None:  # a custom Function: its own backward
        return op.pull(node, g, wrap)
    if node.many:
        g = _filled(node, g, wrap)
    if needed is not None:
        wants = tuple([i is not None and i in needed for i in node.inputs])
        plan = op.plan(wants)
    if wrap is not None:
        if op.array_only:
            return _pull_expanded(node, g, saved, needed, wrap)
        saved = {name: tied(node, name, value, wrap) for name, value in saved.items()}
    if node.dtype.itemsize == 2 and not (op.name in PRODUCTS and g.__class__ is not np.ndarray):
        g, saved = _widened(g), {name: _widened(value) for name, value in saved.items()}
    contributions = plan.pull(g, saved, node.attrs)
    if node.metas is not None or not plan.verified:
        contributions = [
            c if c is None else fit(c, node, position) for position, c in enumerate(contributions)
        ]
        plan.verified = True
    return contributions


def _widened(value: Any) -> Any:
    """Halves in float32, in which rules are computed; the contributions are rounded once."""
    if isinstance(value, tuple):
        return tuple(map(_widened, value))
    dtype = getattr(value, "dtype", None)
    return cast(value, dtype=float32) if dtype is not None and is_half(dtype) else value


def saved_of(node: Any) -> dict[str, Any]:
    """The saved arrays of a node, checked to exist and to be unchanged."""
    saved = node.saved
    if saved.__class__ is not dict:
        if saved.__class__ is Freed:
            raise second_time(node)
        saved = node.saved = saved.take(node)  # in a checkpointed region: recomputed
    if node.clock != clock.now:
        _check_unchanged(node, saved)
    return saved


def _check_unchanged(node: Any, saved: dict[str, Any]) -> None:
    """Raise if memory that the node saved was changed in place since."""
    for name, value in saved.items():
        # The output of an in-place operation was itself written after the node's time.
        written = node.out_clock is not None and name in node.op.outputs
        limit = node.out_clock if written else node.clock
        for array in value if isinstance(value, tuple) else (value,):
            if is_array(array):
                stamp = changed_since(array, limit)
                if stamp is not None:
                    raise modified(node, name, array.shape, stamp)


def fit(contribution: Any, node: Any, position: int) -> Any:
    """Sum over broadcast dimensions, and cast to the dtype of the input."""
    metas = node.metas
    shape, dtype = (node.shape, node.dtype) if metas is None else metas[position]
    given = getattr(contribution, "shape", None)
    if given is None:  # a bare number: only right for an input that is one
        contribution = np.asarray(contribution, dtype)
        given = ()
    if given != shape:
        lead = len(given) - len(shape)
        fits = lead >= 0 and all(n in (1, given[lead + i]) for i, n in enumerate(shape))
        if not fits or not (node.op.elementwise or node.op.broadcasts):
            raise wrong_gradient_shape(node, position, given, shape)
        ones = (lead + i for i, n in enumerate(shape) if n == 1 and given[lead + i] != 1)
        contribution = sum_op(contribution, axis=(*range(lead), *ones), keepdim=False)
        if contribution.shape != shape:
            contribution = reshape(contribution, shape=shape)
    if contribution.dtype != dtype:
        if is_complex_dtype(contribution.dtype) and not is_complex_dtype(dtype):
            contribution = real_part(contribution)  # a real number moves along the real axis only
        contribution = cast(contribution, dtype=dtype)
    return contribution


def _filled(node: Any, g: list[Any], wrap: Callable[..., Any] | None) -> tuple[Any, ...]:
    """Zeros for unused outputs, so that rules need not check; integer outputs stay None."""
    full = []
    given = next(part for part in g if part is not None)
    beside = getattr(given, "_array", given)
    for part, (shape, dtype) in zip(g, node.out_metas, strict=True):
        if part is None and has_gradients(dtype):
            zeros = filled(shape, dtype, 0, beside)
            part = zeros if wrap is None else wrap(zeros)
        full.append(part)
    return tuple(full)


def tied(node: Any, name: str, value: Any, wrap: Callable[..., Any]) -> Any:
    """A saved array as a tensor of the graph it came from."""
    op = node.op
    if name in op.inputs:
        position = op.inputs.index(name)
        if isinstance(value, tuple):  # the tail of a variadic op
            return tuple(_tied_input(node, position + i, v, wrap) for i, v in enumerate(value))
        return _tied_input(node, position, value, wrap)
    if name in op.outputs:
        return wrap(value, node, op.outputs.index(name))
    return value  # a shape


def _tied_input(node: Any, position: int, value: Any, wrap: Callable[..., Any]) -> Any:
    if not is_array(value):
        return value  # a Python number
    return wrap(value, node.inputs[position], node.picks[position])


def expanded(node: Any, saved: dict[str, Any], wrap: Callable[..., Any]) -> tuple[list[Any], Any]:
    """The inputs of a node as tensors, and its op's definition in other ops applied to them."""
    inputs: list[Any] = []
    for name in node.op.inputs:
        value = tied(node, name, saved[name], wrap)
        inputs += list(value) if isinstance(value, tuple) else [value]
    # An alias each: an input used twice must receive two separate contributions.
    inputs = [alias(i) if getattr(i, "requires_grad", False) else i for i in inputs]
    return inputs, node.op.expand(*inputs, **node.attrs)


def _pull_expanded(
    node: Any,
    g: Any,
    saved: dict[str, Any],
    needed: Collection[Any] | None,
    wrap: Callable[..., Any],
) -> list[Any]:
    """Differentiate the op's definition in other ops instead of its own rule."""
    from gradwalk.engine.backward import walk

    op = node.op
    inputs, out = expanded(node, saved, wrap)
    gradients: dict[Any, Any] = {}
    ends = [i._node for i in inputs if getattr(i, "requires_grad", False)]
    outs, gs = (out, g) if op.multiple else ((out,), (g,))
    roots = [(o._node, o._index, gk) for o, gk in zip(outs, gs, strict=True) if o.requires_grad]
    walk(roots, gradients.__setitem__, wrap, wanted=ends, stop=ends, graph=True, retain=True)
    wanted = [s is not None and (needed is None or s in needed) for s in node.inputs]
    return [
        gradients.get(i._node) if wants else None for i, wants in zip(inputs, wanted, strict=True)
    ]
