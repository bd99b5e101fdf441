"""Moving tensors between devices: gradients flow back to where the tensor was."""

from __future__ import annotations

from typing import Any

from gradwalk.engine.function import Function
from gradwalk.engine.modes import state
from gradwalk.graph.source import caller
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.devices import device, numbered, placed


class ToDevice(Function):
    """A copy on another device."""

    @staticmethod
    def forward(ctx: Any, x: Any, where: device) -> Any:
        ctx.source = x.device
        return wrap(placed(x._array, where))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return move(g, ctx.source), None


def move(tensor: Any, where: device) -> Any:
    """The tensor on a device; itself if it is there, and in a compiled function, which runs on one
    device as a whole."""
    wanted, tracer = numbered(where), state.here.tracer
    if tracer is not None:
        tracer.moves_to(wanted)
        return tensor
    if tensor.device == wanted:
        return tensor
    if tensor.requires_grad and state.here.grad_enabled:
        return ToDevice.apply(tensor, where)
    moved = wrap(placed(tensor._array, where))
    moved.code, moved.position = caller()
    return moved
