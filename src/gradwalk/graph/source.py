"""Where in the user's code a node was made.

Recording is cheap because it keeps only the code object and the position of the instruction in it.
They become a file, a line and the text of that line on demand.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import CodeType

from gradwalk.graph.fork_locks import BRIEF, fork_safe

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep


class _OwnFiles(dict[str, bool]):
    """File name -> whether it belongs to gradwalk itself; filled on demand."""

    recording = True  # whether source lines are recorded
    watchers = 0  # recordings under way, in any thread (inspect/trace/recorder.py)
    alone = True  # recording without watchers: the one flag that an operation on Values reads

    def __missing__(self, filename: str) -> bool:
        own = filename.startswith(_PACKAGE)
        self[filename] = own
        return own


own_files = _OwnFiles()
_counting = fork_safe(threading.Lock(), BRIEF)


def set_source_lines(on: bool) -> None:
    """Switch the recording of source lines on (the default) or off.

    Off saves a little time per operation; errors then cannot say where a tensor was made.

    >>> import gradwalk
    >>> gradwalk.set_source_lines(True)
    """
    own_files.recording = bool(on)
    own_files.alone = own_files.recording and not own_files.watchers


def watched(more: int) -> None:
    """Count recordings that begin (1) or end (-1): operations on Values report to them."""
    with _counting:
        own_files.watchers += more
        own_files.alone = own_files.recording and not own_files.watchers


def caller() -> tuple[CodeType | None, int]:
    """The innermost place outside gradwalk that led here: (code object, instruction position)."""
    if not own_files.recording:
        return None, -1
    frame = sys._getframe(2)
    while own_files[frame.f_code.co_filename]:
        if frame.f_back is None:
            return None, -1
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


@dataclass(frozen=True)
class SourceLine:
    """One place in a program; `str()` gives `file.py:12: y = x * w`."""

    file: str
    line: int
    text: str
    function: str
    caller: SourceLine | None = None  # for a line inside a library: the user's line that called it

    def __str__(self) -> str:
        place = f"{Path(self.file).name}:{self.line}"
        text = f"{place}: {self.text}" if self.text else place
        return text if self.caller is None else f"{text} [from {self.caller}]"


def source_line(code: CodeType | None, position: int) -> SourceLine | None:
    """Turn what `caller` recorded into file, line and text; None if nothing was recorded."""
    if code is None:
        return None
    lines = next(islice(code.co_positions(), max(position, 0) // 2, None), (None,))
    line = lines[0] or code.co_firstlineno
    text = linecache.getline(code.co_filename, line).strip()
    return SourceLine(code.co_filename, line, text, code.co_name)


def where_text(code: CodeType | None, position: int) -> str:
    """The place as text for an error message."""
    line = source_line(code, position)
    return "an unrecorded line" if line is None else str(line)
