"""The `with no_grad():` or the decorated function that an operation runs in.

A mode does not know where it was entered. The source does: the innermost frame whose running line
lies inside such a block, or whose function has such a decorator.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from functools import cache
from types import FrameType

from gradwalk.graph.source import SourceLine

MODES = ("no_grad", "inference_mode", "set_grad_enabled")


def no_grad_block(frame: FrameType | None, is_own: Callable[[str], bool]) -> SourceLine | None:
    """The line that begins the block; None if it is unknown. `is_own(file)` skips frames."""
    while frame is not None:
        code = frame.f_code
        if not is_own(code.co_filename):
            line = _block_at(code.co_filename, frame.f_lineno, code.co_firstlineno)
            if line is not None:
                text = linecache.getline(code.co_filename, line).strip()
                return SourceLine(code.co_filename, line, text, code.co_name)
        frame = frame.f_back
    return None


@cache
def _block_at(file: str, line: int, first: int) -> int | None:
    """Where the block around a line begins, in the function that begins at `first`."""
    inside = [(start, end) for start, end in _blocks(file) if start <= line <= end]
    start = max((start for start, _ in inside), default=None)
    return start if start is not None and start >= first else None


@cache
def _blocks(file: str) -> tuple[tuple[int, int], ...]:
    """The first and last lines of the blocks of a file in which no gradient is recorded."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(_found(tree))


def _found(tree: ast.AST) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.With | ast.AsyncWith):
            modes = [item.context_expr for item in node.items]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            modes = node.decorator_list
        else:
            continue
        for mode in modes:
            if any(_is_mode(part) for part in ast.walk(mode)):
                yield min(mode.lineno, node.lineno), node.end_lineno or node.lineno


def _is_mode(part: ast.AST) -> bool:
    name = getattr(part, "attr", getattr(part, "id", ""))
    return name in MODES
