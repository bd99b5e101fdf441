"""Try float32 where half precision may be the fault: the line, its module, then everything.

The step runs again, with the operations of some lines in float32: autocast is off for them, and
their half operands are widened. What that does to the fault is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.report import short
from gradwalk.inspect.trace.routes import group_name
from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch import private
from gradwalk.torch.rerun.rerun import Rerun, Run
from gradwalk.torch.user_lines import caller, line_at
from gradwalk.torch.watch.gradient_checks import exact_norm

HALVES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
_HALF_NAMES = frozenset(("float16", "bfloat16"))
Place = tuple[str, int]  # file and line


class InFloat32(TorchFunctionMode):
    """Run the operations of these lines in float32; of all lines if None."""

    def __init__(self, lines: frozenset[Place] | None) -> None:
        super().__init__()
        self.lines = lines

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if self.lines is not None and _place(line_at(*caller())) not in self.lines:
            return func(*args, **kwargs)
        devices = {"cpu", *(t.device.type for t in _tensors((args, kwargs)))} - {"meta"}
        casts = any(torch.is_autocast_enabled(kind) for kind in devices)
        halves = {t.dtype for t in _tensors((args, kwargs))} & HALVES.keys()
        if not casts and not halves:
            return func(*args, **kwargs)
        with ExitStack() as stack:
            for kind in devices:
                stack.enter_context(torch.autocast(kind, enabled=False))
            wide_args, wide_kwargs = _mapped(_widened, (args, kwargs))
            result = func(*wide_args, **wide_kwargs)
        if casts or self.lines is None:
            return result
        # Without autocast, the rest of the model expects its own dtype.
        (half,) = halves if len(halves) == 1 else (torch.float16,)
        return _mapped(lambda t: t.to(half) if t.dtype == torch.float32 else t, result)


@dataclass
class Float32Trial:
    """The step with some lines in float32."""

    what: str  # which lines
    cured: bool
    norm: float  # of the gradients, without the scale of a GradScaler

    def __str__(self) -> str:
        if not self.cured:
            return f"{self.what} in float32: the fault is still there"
        return f"{self.what} in float32: the gradients are finite (norm {short(self.norm)})"


def half_is_involved(trace: Trace, node: int | None) -> bool:
    """Whether the operation at fault, or one of its operands, is in half precision."""
    if node is None:
        return False
    here = trace.nodes[node]
    forms = [*here.metas, *(m for _, edge in here.edges for m in trace.nodes[edge.node].metas)]
    return any(dtype in _HALF_NAMES for _, dtype in forms)


def uses_half(run: Run) -> bool:
    """Whether the models of a backward pass run in half precision, by autocast or by themselves."""
    parameters = (p for call in run.calls for p in call.model.module.parameters())
    return any(call.autocast for call in run.calls) or any(p.dtype in HALVES for p in parameters)


def try_float32(
    again: Rerun,
    run: Run,
    how: str,
    trace: Trace,
    line: SourceLine | None,
    module: str,
    shows: Callable[[list[torch.Tensor]], bool],
    parameters: list[torch.Tensor],
    scale: float = 1.0,
) -> list[Float32Trial]:
    """Run the step with the line, its module and everything in float32, until one cures it."""
    trials: list[Float32Trial] = []

    def look(what: str, losses: list[torch.Tensor]) -> None:
        norm = exact_norm([p.grad for p in parameters if p.grad is not None])
        trials.append(Float32Trial(what, not shows(losses), norm / scale))

    for what, lines in _candidates(trace, line, module):
        ran = again.changed(run, how, InFloat32(lines), partial(look, what))
        if ran is None or trials[-1].cured:
            break
    return trials


def _candidates(
    trace: Trace, line: SourceLine | None, module: str
) -> Iterator[tuple[str, frozenset[Place] | None]]:
    at_fault = _place(line)
    if at_fault is not None:
        yield "that line", frozenset((at_fault,))
    inside = [node for node in trace if module and group_name(trace, node.index) == module]
    places = frozenset(place for node in inside if (place := _place(node.line)) is not None)
    if len(places | {at_fault}) > 1:
        yield f"all of {module}", places | ({at_fault} if at_fault is not None else frozenset())
    yield "every operation", None


def _place(line: SourceLine | None) -> Place | None:
    return None if line is None else (line.file, line.line)


def _mapped(change: Callable[[torch.Tensor], Any], given: Any) -> Any:
    leaves, spec = private.flattened(given)
    return private.rebuilt([change(t) if isinstance(t, torch.Tensor) else t for t in leaves], spec)


def _tensors(given: Any) -> list[torch.Tensor]:
    return [leaf for leaf in private.flattened(given)[0] if isinstance(leaf, torch.Tensor)]


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in HALVES else tensor
