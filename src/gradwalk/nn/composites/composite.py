"""Composite: a function made of ops, as one op.

PyTorch computes `addmm`, a layer norm or a loss in one step, so a trace of its program has one node
for it. Here such a step is a few ops; `composite` makes one op of them, with the function's value
and the gradients of the ops inside, which `open_op` shows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradwalk.engine.gradients import grad
from gradwalk.engine.modes import enable_grad, no_grad, state, switch
from gradwalk.graph.abstract import is_array
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op, define
from gradwalk.tensors.apply import wrap

FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))


def composite(
    name: str,
    function: Callable[..., Any],
    /,
    outputs: str | Sequence[str] | None = None,
    **formula: str,
) -> Op:
    """Make one op of a function of tensors, and add it to the table.

    Its positional parameters are operands, its keyword-only ones attributes. `formula` is the text
    of the gradient of operands.
    """
    parameters = inspect.signature(function).parameters.values()
    operands = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    attributes = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)

    def forward(*arrays: Any, **attrs: Any) -> Any:
        with _unseen(), no_grad():
            result = function(*(_tensor(a) for a in arrays), **attrs)
        return tuple(part._array for part in result) if outputs is not None else result._array

    def joint(g: Any, *saved: Any, wants: tuple[bool, ...]) -> tuple[Any, ...]:
        arrays = saved[: len(operands)]
        if variadic:
            arrays = (*arrays[:-1], *arrays[-1])
        attrs = dict(zip(attributes, saved[len(operands) :], strict=True))
        return _pulled(function, arrays, attrs, g if outputs is not None else (g,), wants)

    forward.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    joint.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            *(
                inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                for n in ("g", *operands, *attributes)
            ),
            inspect.Parameter("wants", inspect.Parameter.KEYWORD_ONLY),
        ]
    )
    texts = dict.fromkeys(operands, f"through the operations {name} is made of") | formula
    op = define(
        name, forward, joint=joint, expand=function, outputs=outputs, formula=texts, shape=None
    )
    op.checked = True  # the ops inside have been checked
    TABLE.composites[name] = op
    return op


def composed(
    outputs: str | Sequence[str] | None = None, **formula: str
) -> Callable[[Callable[..., Any]], Op]:
    """Make `composite` of the function below, under its name."""
    return lambda function: composite(function.__name__, function, outputs, **formula)


def _tensor(operand: Any, requires_grad: bool = False) -> Any:
    """A leaf on an array; a plain number stays one."""
    if isinstance(operand, (bool, int, float)):
        return operand
    tensor = wrap(operand if is_array(operand) else np.asarray(operand))
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def _pulled(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    attrs: dict[str, Any],
    g: Sequence[Any],
    wants: Sequence[bool],
) -> tuple[Any, ...]:
    """The gradient of each operand: run the function once more, with a graph."""
    wants = [w and getattr(a, "dtype", None) in FLOATS for a, w in zip(arrays, wants, strict=True)]
    with _unseen(), enable_grad():
        leaves = [_tensor(a, wanted) for a, wanted in zip(arrays, wants, strict=True)]
        result = function(*leaves, **attrs)
        ends = [
            (out, wrap(np.asarray(part, out.dtype)))
            for out, part in zip(result if isinstance(result, tuple) else (result,), g, strict=True)
            if part is not None and out.requires_grad
        ]
        wanted = [leaf for leaf, wants_it in zip(leaves, wants, strict=True) if wants_it]
        if not ends or not wanted:
            gradients: Any = [wrap(np.zeros(leaf.shape, leaf.dtype)) for leaf in wanted]
        else:
            outs, seeds = zip(*ends, strict=True)
            gradients = grad(outs, wanted, seeds, materialize_grads=True)
    given = iter(gradients)
    return tuple(next(given)._array if wants_it else None for wants_it in wants)


@contextmanager
def _unseen() -> Iterator[None]:
    """Hide the operations inside from watchers, tracers and listeners."""
    here = state.here
    switch(watcher=None, tracer=None, listener=None)
    try:
        yield
    finally:
        switch(watcher=here.watcher, tracer=here.tracer, listener=here.listener)
