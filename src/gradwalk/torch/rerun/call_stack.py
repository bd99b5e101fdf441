"""Where on the stack a model was called or a backward pass began, and what its frames held.

A snapshot of a frame is what it takes to run some of its statements again (statements.py): its
globals and copies of its variables. Frames themselves are not kept: they would keep alive all that
the program believes to have let go.
"""

from __future__ import annotations

import inspect
import sys
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from gradwalk.torch.user_lines import NOBODY, files

DEEPEST = 12  # frames of the program's that are looked at, the innermost
LONGEST = 256  # elements: longer lists and dicts are not copied
_CONTAINERS = (list, dict, set, deque)
_NOBODY_ELSE = 3  # references to a dictionary: its frame's, ours, and that of the question
_PROXY = sys.version_info >= (3, 13)  # f_locals is a view, not a dictionary kept by the frame


@dataclass(slots=True)
class Place:
    """A frame at one moment."""

    frame: int  # its identity, while it lives
    code: CodeType
    instruction: int  # what it was doing: an offset into the code
    globals: dict[str, Any]
    variables: dict[str, Any] | None = None  # copies, where they were asked for

    @property
    def key(self) -> tuple[CodeType, int]:
        """The same for each pass over the same line."""
        return self.code, self.instruction

    def is_same_frame(self, other: Place) -> bool:
        """Whether both are the same running call of a function."""
        return self.frame == other.frame and self.code is other.code

    @property
    def position(self) -> tuple[int, int, int, int] | None:
        """Where in the file the expression stands: line, last line, column, last column."""
        positions = list(self.code.co_positions())
        found = positions[max(self.instruction, 0) // 2]
        line, last, column, end = found
        if line is None or last is None or column is None or end is None:
            return None
        return line, last, column, end


Wanted = Callable[[int, Place], Container[str] | None]


def places_from(frame: FrameType | None, wanted: Wanted | None = None) -> list[Place]:
    """The program's frames from here outwards, without PyTorch's, Python's and our own.

    `wanted(depth, place)` says which variables of a frame are to be copied; None means none.
    """
    found: list[Place] = []
    while frame is not None and len(found) < DEEPEST:
        code = frame.f_code
        if files[code.co_filename] != NOBODY:
            place = Place(id(frame), code, frame.f_lasti, frame.f_globals)
            names = None if wanted is None else wanted(len(found), place)
            if names is not None:
                _take(frame, place, names)
            found.append(place)
        frame = frame.f_back
    return found


class Everything:
    """All names."""

    def __contains__(self, name: object) -> bool:
        return True


def _take(frame: FrameType, place: Place, names: Container[str]) -> None:
    """Copy variables; a list of the program's may have grown by the time they are needed."""
    variables = frame.f_locals
    place.variables = taken = {}
    for name, value in variables.items():
        if name not in names or name.startswith("__"):
            continue
        if type(value) in _CONTAINERS and len(value) <= LONGEST:
            value = value.copy()
        taken[name] = value
    # Before Python 3.13 the frame keeps the dictionary it has just made, and with it all that the
    # program lets go from now on. But the program (`settings = locals()`) or a debugger may hold
    # it, and `exec` may have put names of its own into it.
    code = place.code
    if not _PROXY and code.co_flags & inspect.CO_OPTIMIZED and sys.gettrace() is None:
        if sys.getrefcount(variables) > _NOBODY_ELSE:
            return
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            variables.pop(name, None)
