"""Explain an out-of-memory error of PyTorch: the line, what the model keeps, what to checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from gradwalk.graph.source import SourceLine, source_line
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.array_statistics import in_bytes
from gradwalk.inspect.trace.routes import labelled, wrapped
from gradwalk.io.atomic import write_atomically
from gradwalk.torch.memory.forward_memory import ForwardMemory, memory_of
from gradwalk.torch.rerun.snapshots import ModelCall
from gradwalk.torch.user_lines import USER, files

_WORDS = ("can't allocate memory", "not enough memory", "out of memory")
_ASKED = re.compile(r"[Tt]ried to allocate ([\d.]+ ?\w+)")
_CALL = torch.nn.Module._call_impl.__code__


@dataclass
class MemoryReport(Report):
    """An out-of-memory error: where it arose, what was asked for, and what the model keeps."""

    line: SourceLine | None
    module: str  # that was running
    asked: str  # bytes of the allocation that failed, in words
    memory: ForwardMemory | None  # None if no model was running
    note: str = ""

    def __str__(self) -> str:
        where = f", at {self.line}" if self.line is not None else ""
        lines = wrapped(f"out of memory{where}", "", "  ")
        lines += labelled(("asked", self.asked), ("in", self.module), ("note", self.note))
        if self.memory is None:
            change = "a smaller batch, or torch.utils.checkpoint around parts of the model."
            return "\n".join([*lines, *wrapped(f"Fix: {change}", "", "     ")])
        text = str(self.memory).splitlines()
        start = next(i for i, row in enumerate(text) if row.startswith("try: "))
        fix = wrapped(f"Fix: {self.memory.try_this}.", "", "     ")
        return "\n".join([*lines, *text[:start], *fix])

    def save_text(self, folder: Path) -> None:
        """Write the report as text."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "report.txt", [f"{self}\n".encode()])


def is_out_of_memory(error: BaseException) -> bool:
    """Whether PyTorch could not allocate memory, on a device or on the CPU."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _WORDS)


def out_of_memory(error: BaseException, calls: Sequence[ModelCall] = ()) -> MemoryReport | None:
    """Explain an out-of-memory error; None for any other error.

    The model that was running runs again on fake tensors, which need no memory. `calls` are model
    calls to ask about if the error arose after them, in backward.

        try:
            train()
        except torch.OutOfMemoryError as error:
            print(gradwalk.torch.out_of_memory(error))
            raise
    """
    if not is_out_of_memory(error):
        return None
    frames = list(_frames(error))
    own = [frame for frame in frames if files[frame.f_code.co_filename] == USER]
    line = _line(error, own[-1]) if own else None
    running = [frame.f_locals for frame in frames if frame.f_code is _CALL]
    asked = _ASKED.search(str(error))
    report = MemoryReport(line, "", _size(asked.group(1)) if asked else "", None)
    if running:
        model = running[0]["self"]
        names = {id(module): name for name, module in model.named_modules()}
        report.module = names.get(id(running[-1]["self"]), "") or type(running[-1]["self"]).__name__
        args, kwargs = running[0]["args"], running[0]["kwargs"]
    elif calls:
        model, args, kwargs = calls[-1].model.module, calls[-1].args, calls[-1].kwargs
        report.note = "it arose after the forward pass of the model"
    else:
        return report
    try:
        report.memory = memory_of(model, lambda: model(*args, **kwargs), real=False)
    except Exception as failed:  # the program's own code, on fake tensors
        report.note = f"the model cannot run on fake tensors: {type(failed).__name__}: {failed}"
    return report


def _size(told: str) -> str:
    """The size in PyTorch's message; the CPU's is a plain number of bytes."""
    number, _, unit = told.partition(" ")
    return in_bytes(int(number)) if unit == "bytes" and number.isdigit() else told


def _frames(error: BaseException) -> Iterator[FrameType]:
    """The frames of an error, outermost first."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _line(error: BaseException, frame: FrameType) -> SourceLine | None:
    """Where an error arose in a frame."""
    trace: Any = error.__traceback__
    while trace.tb_frame is not frame:
        trace = trace.tb_next
    return source_line(frame.f_code, trace.tb_lasti)
