"""saved_memory for PyTorch: which lines and modules hold what, and what to checkpoint.

The model runs on fake tensors, which have shapes and no memory: so it can be asked about a model
that does not fit. The advice is checked the same way, by running the model with its checkpoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils.checkpoint import checkpoint

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.array_statistics import in_bytes
from gradwalk.inspect.trace.routes import wrapped
from gradwalk.torch import private
from gradwalk.torch.memory.saved_tensors import SavedTensors
from gradwalk.torch.watch.active_watches import aside

ROWS = 6  # lines and modules to show
ALONE = 0.5  # a tensor with this part of what remains is what to get rid of
WORTH = 0.1  # a checkpoint must free this part of what is kept


@dataclass
class CheckpointAdvice(Report):
    """Modules to checkpoint, what is then kept, and what a run with the checkpoints kept."""

    modules: list[str]
    kept: int  # bytes, predicted
    largest: int  # bytes that backward computes again at once
    measured: int | None = None  # bytes kept by a run with these checkpoints
    why_not: str = ""  # it was not measured

    def __str__(self) -> str:
        first, last = self.modules[0], self.modules[-1]
        names = first if len(self.modules) == 1 else f"{first} … {last} ({len(self.modules)} calls)"
        text = (
            f"torch.utils.checkpoint.checkpoint around {names}: keeps {in_bytes(self.kept)}, and "
            f"computes {in_bytes(self.largest)} again at a time"
        )
        if self.measured is not None:
            return f"{text} (checked: a run with these checkpoints keeps {in_bytes(self.measured)})"
        return f"{text} (not checked: {self.why_not})"


@dataclass
class ForwardMemory(Report):
    """What a forward pass keeps for backward when it ends: in total, by line and by module."""

    total: int
    by_line: dict[str, int]
    by_module: dict[str, int]
    parameters: int  # bytes of the weights; their gradients take as much again
    largest: tuple[int, tuple[int, ...], SourceLine | None]  # one tensor: bytes, shape, line
    advice: CheckpointAdvice | None = None
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"kept for backward: {in_bytes(self.total)}, beside weights of "
            f"{in_bytes(self.parameters)}"
        ]
        for head, groups in (("line", self.by_line), ("module", self.by_module)):
            lines += ["", f"by {head}"]
            for name, size in list(groups.items())[:ROWS]:
                lines += wrapped(name, f"  {in_bytes(size):>10}  ", " " * 14)
        size, shape, _ = self.largest
        lines += ["", f"largest tensor: {in_bytes(size)}, {' × '.join(map(str, shape))}"]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, *wrapped(f"try: {self.try_this}", "", "     ")])

    @property
    def try_this(self) -> str:
        """What to change."""
        if self.advice is None:
            return "a smaller batch: no checkpoint of a module frees a tenth of what is kept"
        size, _, line = self.largest
        if size < ALONE * (self.advice.kept + self.advice.largest):
            return str(self.advice)
        at = "" if line is None else f" ({Path(line.file).name}:{line.line})"
        return (
            f"{self.advice}; the largest tensor{at} remains: a smaller batch, shorter sequences, "
            "or an operation that does not form it"
        )


def saved_memory(model: torch.nn.Module, *args: Any, **kwargs: Any) -> ForwardMemory:
    """Report what `model(*args, **kwargs)` keeps for backward, and what to checkpoint.

    Nothing is allocated: the model runs on fake tensors. If it cannot (it reads numbers, as
    `.item()` does), it runs as it is.

    >>> import torch
    >>> from gradwalk.torch.memory.forward_memory import saved_memory
    >>> nn = torch.nn
    >>> model = nn.Sequential(nn.Linear(100, 50), nn.Tanh(), nn.Linear(50, 1))
    >>> saved_memory(model, torch.ones(10, 100)).total
    6000
    """
    return memory_of(model, lambda: model(*args, **kwargs))


def memory_of(
    model: torch.nn.Module, forward: Callable[[], Any], real: bool = True
) -> ForwardMemory:
    """The same for any forward pass of a model; `real`: with real tensors if fake ones fail."""
    notes: list[str] = []
    fake = True
    try:
        measured = _measured(model, forward, (), fake)
    except Exception as error:  # the model's own code may raise anything about fake tensors
        if not real:
            raise
        fake = False
        kind = type(error).__name__
        notes.append(f"measured with real tensors, because on fake ones {kind} arose")
        measured = _measured(model, forward, (), fake)
    advice = best_checkpoints(model, measured)
    if advice is not None:
        try:
            again = _measured(model, forward, advice.modules, fake)
        except Exception as error:
            advice.why_not = f"the run failed with {type(error).__name__}: {error}"
        else:
            advice.measured = again.total + _held(again, set(advice.modules))
    return _report(model, measured, advice, notes)


def _held(measured: SavedTensors, modules: set[str]) -> int:
    """Bytes of arguments that checkpoints keep besides what was saved."""
    held: dict[int, int] = {}
    for call in measured.calls:
        if call.name in modules:
            held.update(measured.alive(call.given))
    return sum(size for key, size in held.items() if key not in measured.saved)


def _report(
    model: torch.nn.Module,
    measured: SavedTensors,
    advice: CheckpointAdvice | None,
    notes: list[str],
) -> ForwardMemory:
    by_line: Counter[str] = Counter()
    by_module: Counter[str] = Counter()
    for storage in measured.saved.values():
        by_line[str(storage.line or "(no line)")] += storage.bytes
        saver = min((s for s in storage.savers if s is not None), default=None)
        name = "(no module)" if saver is None else measured.calls[saver].name
        by_module[name or type(model).__name__] += storage.bytes
    largest = max(measured.saved.values(), key=lambda s: s.bytes, default=None)
    return ForwardMemory(
        measured.total,
        dict(by_line.most_common()),
        dict(by_module.most_common()),
        sum(p.nbytes for p in model.parameters()),
        (0, (), None) if largest is None else (largest.bytes, largest.shape, largest.line),
        advice,
        notes,
    )


def _measured(
    model: torch.nn.Module, forward: Callable[[], Any], modules: Sequence[str], fake: bool
) -> SavedTensors:
    """Measure a forward pass with some modules checkpointed."""
    with ExitStack() as stack:
        own: list[torch.Tensor] = list(model.parameters())
        if fake:
            mode = stack.enter_context(private.fake_tensors())
            own += [mode.from_tensor(parameter) for parameter in own]  # their views are fake
        measured = SavedTensors(model, own)
        stack.enter_context(checkpointed(model, modules))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(aside())
        stack.enter_context(measured.measured())
        measured.output = forward()  # type: ignore[attr-defined]  # alive, and with it its graph
    return measured


@contextmanager
def checkpointed(model: torch.nn.Module, modules: Sequence[str]) -> Iterator[None]:
    """Checkpoint some modules of a model, by name."""
    with ExitStack() as stack:
        for name in dict.fromkeys(modules):
            module = model.get_submodule(name)
            again = partial(checkpoint, module.forward, use_reentrant=False)
            stack.enter_context(mock.patch.object(module, "forward", again))
        yield


def best_checkpoints(model: torch.nn.Module, measured: SavedTensors) -> CheckpointAdvice | None:
    """The modules whose checkpoints leave least memory at once; None if none is worth it.

    Each alternative is one module, or all members of a ModuleList or Sequential.
    """
    by_name: dict[str, list[int]] = {}
    for number, call in enumerate(measured.calls):
        by_name.setdefault(call.name, []).append(number)
    groups: dict[str, list[str]] = {}
    for name in by_name:
        groups.setdefault(name.rpartition(".")[0], []).append(name)
    alternatives = [[name] for name in by_name if name]
    for outer, members in groups.items():
        kind = type(model.get_submodule(outer)) if outer or len(members) > 1 else None
        members = [name for name in members if name]
        if kind in (torch.nn.ModuleList, torch.nn.Sequential) and len(members) > 1:
            alternatives.append(members)
    best: CheckpointAdvice | None = None
    for names in alternatives:
        chosen = {number for name in names for number in by_name[name]}
        kept, largest = _kept(measured, chosen)
        if best is None or kept + largest < best.kept + best.largest:
            best = CheckpointAdvice(names, kept, largest)
    if best is None or best.kept + best.largest > (1 - WORTH) * measured.total:
        return None
    return best


def _kept(measured: SavedTensors, chosen: set[int]) -> tuple[int, int]:
    """The bytes kept if some calls are checkpointed, and the most that one of them saves inside."""
    kept = {key: size for number in chosen for key, size in measured.calls[number].given.items()}
    inside: Counter[int] = Counter()
    for key, storage in measured.saved.items():
        for saver in storage.savers:
            owner = next((c for c in measured.inside(saver) if c in chosen), None)
            if owner is None:
                kept[key] = storage.bytes
            elif key not in measured.calls[owner].given:
                inside[owner] += storage.bytes
    return sum(kept.values()), max(inside.values(), default=0)
