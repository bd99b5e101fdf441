"""`gradwalk.checkpoint` where PyTorch has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from gradwalk.engine.checkpoint import checkpoint as checkpoint

__all__ = ["checkpoint", "checkpoint_sequential", "get_device_states", "set_device_states"]


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]], segments: int, input: Any, **options: Any
) -> Any:
    """Checkpoint a chain of functions in parts of equal length, the last one excepted.

    >>> import gradwalk as gw
    >>> x = gw.ones(2, requires_grad=True)
    >>> layers = gw.nn.Sequential(*(gw.nn.Tanh() for _ in range(4)))
    >>> gw.utils.checkpoint.checkpoint_sequential(layers, 2, x).shape
    (2,)
    """
    chain = list(functions)
    if not 0 < segments <= len(chain):
        raise ValueError(f"segments must be between 1 and {len(chain)}, not {segments}")
    rest = iter(chain)
    for _ in range(segments - 1):
        input = checkpoint(_in_turn, list(islice(rest, len(chain) // segments)), input, **options)
    return _in_turn(list(rest), input)


def _in_turn(functions: list[Callable[[Any], Any]], value: Any) -> Any:
    for function in functions:
        value = function(value)
    return value


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Nothing: devices draw from the stream of the CPU, see `gradwalk.get_rng_state`."""
    return [], []


def set_device_states(devices: Any, states: Any, **options: Any) -> None:
    """Nothing: devices draw from the stream of the CPU, see `gradwalk.set_rng_state`."""
