"""Snapshots of the program's frames at a model call or a backward pass.

A snapshot has what running some statements of the frame again takes (statements.py): its globals
and copies of its variables. It does not hold the frame, which would keep alive objects that the
program has released.
"""

from __future__ import annotations

import inspect
import sys
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from gradwalk.graph.source import SourceLine, source_line
from gradwalk.torch.user_lines import INTERNAL, files

DEEPEST = 12  # innermost frames of the program to look at
LONGEST = 256  # elements: longer lists and dicts are not copied
_CONTAINERS = (list, dict, set, deque)
_OUR_REFERENCES = 3  # to a dictionary: the frame's, ours, and the argument of getrefcount
_PROXY = sys.version_info >= (3, 13)  # f_locals is a view, not a dictionary kept by the frame


@dataclass(slots=True)
class FrameSnapshot:
    """A snapshot of a frame."""

    frame: int  # its `id`, valid while it runs
    code: CodeType
    instruction: int  # offset into the code
    globals: dict[str, Any]
    variables: dict[str, Any] | None = None  # copies, if requested

    @property
    def key(self) -> tuple[CodeType, int]:
        """The same at each execution of the same expression."""
        return self.code, self.instruction

    def line(self) -> SourceLine | None:
        """The source line."""
        return source_line(*self.key)

    def is_same_frame(self, other: FrameSnapshot) -> bool:
        """Whether both belong to the same running call."""
        return self.frame == other.frame and self.code is other.code

    @property
    def position(self) -> tuple[int, int, int, int] | None:
        """The expression in the file: line, last line, column, last column."""
        position = list(self.code.co_positions())[max(self.instruction, 0) // 2]
        return None if None in position else position  # type: ignore[return-value]


Wanted = Callable[[int, FrameSnapshot], Container[str] | None]


def frames_from(
    frame: FrameType | None, wanted: Wanted | None = None, deepest: int = DEEPEST
) -> list[FrameSnapshot]:
    """Snapshots of the program's frames, innermost first, without those of libraries.

    `wanted(depth, place)` returns which variables of a frame to copy; None means none.
    """
    frames: list[FrameSnapshot] = []
    while frame is not None and len(frames) < deepest:
        code = frame.f_code
        if files[code.co_filename] != INTERNAL:
            snapshot = FrameSnapshot(id(frame), code, frame.f_lasti, frame.f_globals)
            names = None if wanted is None else wanted(len(frames), snapshot)
            if names is not None:
                _take(frame, snapshot, names)
            frames.append(snapshot)
        frame = frame.f_back
    return frames


class Everything:
    """All names."""

    def __contains__(self, name: object) -> bool:
        return True


def _take(frame: FrameType, snapshot: FrameSnapshot, names: Container[str]) -> None:
    """Copy variables, and containers too: the program may append to them later."""
    variables = frame.f_locals
    snapshot.variables = taken = {}
    for name, value in variables.items():
        if name not in names or name.startswith("__"):
            continue
        if type(value) in _CONTAINERS and len(value) <= LONGEST:
            value = value.copy()
        taken[name] = value
    # Before Python 3.13 the frame keeps the dictionary that f_locals made, and with it every object
    # that the program releases from now on, so empty it. But the program (`settings = locals()`)
    # or a debugger may hold it, and `exec` may have added names.
    code = snapshot.code
    if not _PROXY and code.co_flags & inspect.CO_OPTIMIZED and sys.gettrace() is None:
        if sys.getrefcount(variables) > _OUR_REFERENCES:
            return
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            variables.pop(name, None)
