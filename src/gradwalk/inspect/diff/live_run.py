"""Run a model or a function for diff: recorded, from given inputs, and left as it was."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradwalk.inspect.trace.live import guest, is_tensor, is_torch_tensor, numbers_of
from gradwalk.inspect.trace.recorder import Recorder
from gradwalk.inspect.trace.trace import Trace
from gradwalk.random.generator import default_generator
from gradwalk.tensors.creation import tensor

ROOM = 2 << 30  # bytes of arrays to keep of one run


def recorded(run: Callable[..., Any], inputs: Any, loss: Callable[..., Any] | None) -> Trace:
    """The trace of one call and of its backward pass; the same random numbers each time."""
    given = _converted(inputs, run)
    with _same_randomness(), _left_as_it_was(run):
        foreign = "torch" in sys.modules
        recorder: Recorder = guest().recorder(ROOM) if foreign else Recorder(budget=ROOM)
        with recorder as trace:
            result = _called(run, given)
            if loss is not None:
                result = loss(result)
            out = _first_tensor(result)
            if out is not None and out.requires_grad and not trace.sweeps:
                _backward(out)
        if not trace.sweeps and out is not None:
            end = trace.lookup(out)
            if end is not None:  # what the function returns is the end, whatever it did after
                trace.nodes = trace.nodes[: end + 1]
    return trace


def _called(run: Callable[..., Any], inputs: Any) -> Any:
    if inputs is None:
        return run()
    if isinstance(inputs, Mapping):
        return run(**inputs)
    return run(*inputs) if isinstance(inputs, list | tuple) else run(inputs)


def _backward(out: Any) -> None:
    """Start from 1, or from the same random numbers in both runs if there are several outputs."""
    if out.numel() == 1:
        out.backward()
        return
    seed = np.random.default_rng(0).standard_normal(tuple(out.shape)).astype(np.float32)
    if is_torch_tensor(out):
        out.backward(guest().tensor_of(seed).to(out))
    else:
        out.backward(tensor(seed, dtype=out.dtype))


def _first_tensor(result: Any) -> Any:
    """The tensor that a model returns: of several, `.loss` or the first."""
    if is_tensor(result):
        return result
    loss = getattr(result, "loss", None)
    if is_tensor(loss):
        return loss
    inner = result.values() if isinstance(result, Mapping) else result
    if isinstance(result, Mapping | list | tuple):
        return next((found for found in map(_first_tensor, inner) if found is not None), None)
    return None


def _converted(inputs: Any, run: Any) -> Any:
    """The inputs as tensors of the engine of a model; a function gets them as they are."""
    parameters = list(run.parameters()) if hasattr(run, "parameters") else []
    if isinstance(inputs, Mapping):
        return {name: _converted(value, run) for name, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return tuple(_converted(value, run) for value in inputs)
    array = inputs if isinstance(inputs, np.ndarray) else numbers_of(inputs)
    if array is None or not parameters:
        return inputs
    if not is_torch_tensor(parameters[0]):
        return inputs if hasattr(inputs, "_array") else tensor(array)
    moved = inputs if is_torch_tensor(inputs) else guest().tensor_of(array)
    dtype = parameters[0].dtype if moved.is_floating_point() else moved.dtype
    return moved.to(device=parameters[0].device, dtype=dtype)


@contextmanager
def _left_as_it_was(run: Any) -> Iterator[None]:
    """Restore gradients and buffers."""
    parameters = list(run.parameters()) if hasattr(run, "parameters") else []
    grads = [parameter.grad for parameter in parameters]
    buffers = list(run.buffers()) if hasattr(run, "buffers") else []
    values = [buffer.detach().clone() for buffer in buffers]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, grad in zip(parameters, grads):
            parameter.grad = grad
        for buffer, value in zip(buffers, values):
            buffer.data.copy_(value)


@contextmanager
def _same_randomness() -> Iterator[None]:
    """Restore the global generators, so that the next run draws the same numbers."""
    ours, python, numpy = default_generator.get_state(), random.getstate(), np.random.get_state()
    theirs = guest().randomness() if "torch" in sys.modules else None
    try:
        yield
    finally:
        default_generator.set_state(ours)
        random.setstate(python)
        np.random.set_state(numpy)
        if theirs is not None:
            theirs.restore()
