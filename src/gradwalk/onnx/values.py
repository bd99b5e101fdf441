"""The values of a running graph: tensors, and arrays of numbers that are known before it runs."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.engine.modes import no_grad, state, switch
from gradwalk.onnx.operators.table import OnnxNode, Operator, constant
from gradwalk.tensors.tensor import Tensor


def tensor_of(value: Any) -> Any:
    """A value as a tensor."""
    return constant(value) if isinstance(value, np.ndarray) else value


def numbers_of(value: Any) -> Any:
    """A value as an array."""
    return value.detach().numpy() if isinstance(value, Tensor) else value


def evaluate(operator: Operator, node: OnnxNode, given: list[Any]) -> list[Any]:
    """The outputs of a node, as many as it names."""
    if operator.values:
        outputs = operator.function(node, *given)
    elif operator.varies or any(isinstance(value, Tensor) for value in given):
        outputs = operator.function(node, *_arguments(operator, given))
    else:
        outputs = _outside(lambda: _numbers(operator.function(node, *_arguments(operator, given))))
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _arguments(operator: Operator, given: list[Any]) -> list[Any]:
    numbers = operator.numbers
    return [numbers_of(v) if i in numbers else tensor_of(v) for i, v in enumerate(given)]


def _numbers(outputs: Any) -> Any:
    several = isinstance(outputs, (tuple, list))
    return tuple(map(numbers_of, outputs)) if several else numbers_of(outputs)


def _outside(function: Callable[[], Any]) -> Any:
    """Compute what is known outside of recordings and of programs that are being traced."""
    here = state.here
    if here.watcher is None and here.autocast is None:
        with no_grad():
            return function()
    return contextvars.copy_context().run(_without_modes, function)


def _without_modes(function: Callable[[], Any]) -> Any:
    switch(grad_enabled=False, watcher=None, tracer=None, autocast=None)
    return function()
