"""Errors for what cannot be traced, with the user's line and a fix."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.engine.modes import state
from gradwalk.graph.source import own_files, where_text

_NUMPY = str(Path(np.__file__).resolve().parent) + os.sep


class TraceError(RuntimeError):
    """A function that `gradwalk.compile` cannot follow without freezing a value."""


class LeakedError(TraceError):
    """The use of an array that an earlier trace made."""


class StaleError(TraceError):
    """A compiled program that is no longer what its function does."""


def _asked_at() -> tuple[Any, int]:
    """The innermost line outside gradwalk and NumPy that led here."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not own_files[name] and not name.startswith(_NUMPY):
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None, -1


def untraceable(
    what: str, fix: str, kind: Any = TraceError, **lines: tuple[Any, int]
) -> TraceError:
    """The error with the line that asked, further lines by name, and what to do instead."""
    text = [f"{what}\n  at:        {where_text(*_asked_at())}"]
    text += [f"  {name + ':':<11}{where_text(*line)}" for name, line in lines.items()]
    error: TraceError = kind("\n".join(text) + f"\nFix: {fix}")
    tracer = state.here.tracer
    if tracer is not None:  # the function may catch it, and must not go on
        tracer.refusals.append(error)
    return error


def numbers_wanted(how: str, thing: Any, line: tuple[Any, int]) -> TraceError:
    """The error for reading the numbers of an abstract array."""
    return untraceable(
        f"{how} of {thing}: a compiled function is traced without values, and every later call "
        "would repeat what Python decides now.",
        "choose with gradwalk.where(condition, a, b) instead of `if`; return the tensor and look "
        "at it outside; or, if it is the same in every call, compute it outside.",
        **{"made at": line},
    )
