"""Lines of the program that no recording has: where attributes are assigned, lists repeated."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.trace import Trace

_WRITES = ("copy_", "load_state_dict")


def assignment(trace: Trace, path: str) -> SourceLine | None:
    """The last line that writes what a path names: `self.head.weight = ...`, `....copy_(...)`."""
    names = path.split(".")
    for first in range(len(names)):
        wanted = ".".join(names[first:])
        for file, tree in _sources(trace):
            lines = [line for line, name in _written(tree) if f".{name}".endswith(f".{wanted}")]
            if lines:
                return _line(file, max(lines))
    return None


def repetition(trace: Trace) -> SourceLine | None:
    """The one line that repeats a list of layers: `[layer] * 3`; None if there are several."""
    found = [
        (file, node.lineno)
        for file, tree in _sources(trace)
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        if any(
            isinstance(side, ast.List | ast.Tuple)
            and any(isinstance(item, ast.Call | ast.Name) for item in side.elts)
            for side in (node.left, node.right)
        )
    ]
    return _line(*found[0]) if len(found) == 1 else None


def _written(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines that write attributes, and the attributes, without a final `.data`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            targets = [node.func.value] if node.func.attr in _WRITES else []
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Attribute):
                yield node.lineno, ast.unparse(target).removesuffix(".data")


def _sources(trace: Trace) -> Iterator[tuple[str, ast.AST]]:
    """The files of the program's own lines."""
    lines = (node.line for node in trace if node.line is not None)
    for file in dict.fromkeys(_outermost(line).file for line in lines):
        try:
            yield file, ast.parse("".join(linecache.getlines(file)))
        except SyntaxError:
            continue


def _outermost(line: SourceLine) -> SourceLine:
    while line.caller is not None:
        line = line.caller
    return line


def _line(file: str, number: int) -> SourceLine:
    return SourceLine(file, number, linecache.getline(file, number).strip(), "")
