"""Extract the program's statements from the model call to the end of backward.

They are parsed from the source and compiled with their own file name and line numbers, so that a
recording of the re-run points at the right lines. Statements of the same block before the model
call are dropped, and so are the branches of an enclosing `if` or `try` that were not taken.
"""

from __future__ import annotations

import ast
import copy
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

from gradwalk.torch.rerun.call_stack import FrameSnapshot

LEFT = "__gradwalk_left__"  # raised in place of return, break and continue
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SUSPENDS = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)


class NotRepeatable(Exception):
    """Statements cannot be run again; the message says why."""


class LeftTheBlock(BaseException):
    """The re-run took another branch than the step."""


@dataclass(frozen=True)
class Statements:
    """Statements of one frame to run again."""

    code: CodeType
    needs: frozenset[str]  # variables read before they are set
    first: int  # lines, for the report
    last: int

    def run(self, snapshot: FrameSnapshot) -> None:
        """Run them with copies of the frame's globals and variables."""
        variables = snapshot.variables or {}
        exec(self.code, {**snapshot.globals, **variables, LEFT: LeftTheBlock})


def statements_between(start: FrameSnapshot, end: FrameSnapshot) -> Statements:
    """The statements that the frame ran from `start` (the model call) to `end` (backward)."""
    return _statements(start.code, start.instruction, end.instruction)


@lru_cache(maxsize=64)
def _statements(code: CodeType, start: int, end: int) -> Statements:
    if code.co_name.startswith("<") and code.co_name != "<module>":
        raise NotRepeatable(f"a {code.co_name.strip('<>')} is one expression")
    tree = _tree(code.co_filename)
    first, last = _position(code, start), _position(code, end)
    way, goal = _way(tree.body, first), _way(tree.body, last)
    if not _stands_there(tree, first) or not _stands_there(tree, last):
        raise NotRepeatable(f"{code.co_filename} is not the file that runs; was it changed?")
    shared = 0
    for a, b in zip(way, goal):
        if a.block is not b.block:
            break
        shared += 1
        if a.index != b.index:
            break
    if not shared or way[shared - 1].index > goal[shared - 1].index:
        raise NotRepeatable("backward comes before the call of the model")
    block = way[shared - 1].block
    begin, stop = way[shared - 1].index, goal[shared - 1].index
    if begin == stop:
        body = [block[begin]]  # one simple statement does both
    else:
        body = [
            *_part(block[begin], way[shared:], up_to=False),
            *block[begin + 1 : stop],
            *_part(block[stop], goal[shared:], up_to=True),
        ]
    leaves = _Leaves(_class_around(tree, first))
    again = [leaves.visit(statement) for statement in copy.deepcopy(body)]
    module = ast.Module(body=again, type_ignores=[])
    names = _ReadNames()
    names.visit(module)
    try:
        compiled = compile(ast.fix_missing_locations(module), code.co_filename, "exec")
    except SyntaxError as error:
        raise NotRepeatable(f"its statements cannot be compiled alone: {error.msg}") from error
    return Statements(compiled, frozenset(names.needed), body[0].lineno, last[1])


@lru_cache(maxsize=16)
def _tree(filename: str) -> ast.Module:
    source = "".join(linecache.getlines(filename))
    if not source:
        raise NotRepeatable(f"there is no source of {filename}")
    try:
        return ast.parse(source, filename)
    except SyntaxError as error:
        raise NotRepeatable(f"{filename} is not the file that runs; was it changed?") from error


# -- positions in the source -----------------------------------------------------------------------

_Position = tuple[int, int, int, int]  # line, last line, column, last column


def _position(code: CodeType, instruction: int) -> _Position:
    position = FrameSnapshot(0, code, instruction, {}).position
    if position is None:
        raise NotRepeatable(f"{code.co_filename} has no positions of its expressions")
    return position


@dataclass(frozen=True)
class _At:
    """A statement in a block, on the path from the file to a position."""

    block: list[ast.stmt]
    index: int


def _way(block: list[ast.stmt], position: _Position) -> list[_At]:
    """The statements around a position, outermost first."""
    for index, statement in enumerate(block):
        if _holds(statement, position):
            inner = (_way(b, position) for b in _blocks(statement))
            return [_At(block, index), *next((way for way in inner if way), [])]
    return []


def _holds(node: ast.stmt | ast.ExceptHandler, position: _Position) -> bool:
    decorated = [d.lineno for d in getattr(node, "decorator_list", [])]
    begin = (min([node.lineno, *decorated]), 0 if decorated else node.col_offset)
    end = (node.end_lineno or 0, node.end_col_offset or 0)
    return begin <= (position[0], position[2]) and (position[1], position[3]) <= end


def _blocks(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block
    for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield handler.body


def _stands_there(tree: ast.Module, position: _Position) -> bool:
    """Whether the source has an expression at exactly this position."""
    return any(
        (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == position
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.stmt)
    )


def _class_around(tree: ast.Module, position: _Position) -> str:
    """The innermost class around a position: `self.__name` depends on it."""
    around = [at.block[at.index] for at in _way(tree.body, position)]
    return next((s.name for s in reversed(around) if isinstance(s, ast.ClassDef)), "")


# -- parts of a statement --------------------------------------------------------------------------


def _part(statement: ast.stmt, way: Sequence[_At], up_to: bool) -> list[ast.stmt]:
    """The part of a statement from a position on, or up to it."""
    if not way or isinstance(statement, _LOOPS):  # a loop starts over: its state is unknown
        return [statement]
    inner, index = way[0].block, way[0].index
    here = _part(inner[index], way[1:], up_to)
    part = [*inner[:index], *here] if up_to else [*here, *inner[index + 1 :]]
    if isinstance(statement, ast.With) and inner is statement.body:  # the re-run enters it again
        return [ast.copy_location(ast.With(items=statement.items, body=part), statement)]
    return part


class _Leaves(ast.NodeTransformer):
    """Replace `return`, `break` and `continue` that leave the statements: they were not taken."""

    def __init__(self, class_name: str) -> None:
        self.class_name = class_name.lstrip("_")
        self.loops = 0

    def _left(self, node: ast.stmt) -> ast.stmt:
        raised = ast.Raise(exc=ast.Name(id=LEFT, ctx=ast.Load()), cause=None)
        return ast.fix_missing_locations(ast.copy_location(raised, node))

    def _left_unless_in_loop(self, node: ast.stmt) -> ast.stmt:
        return node if self.loops else self._left(node)

    visit_Return = _left
    visit_Break = visit_Continue = _left_unless_in_loop

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, _SUSPENDS):
            raise NotRepeatable("a yield or an await comes between")
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            return node  # a return inside it stays inside
        loop = isinstance(node, _LOOPS)
        self.loops += loop
        visited = super().generic_visit(node)
        self.loops -= loop
        return visited

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if self.class_name and node.attr.startswith("__") and not node.attr.endswith("__"):
            mangled = f"_{self.class_name}{node.attr}"
            return ast.copy_location(ast.Attribute(node.value, mangled, node.ctx), node)
        return node


_MAY_NOT_RUN = (ast.If, ast.While, ast.For, ast.Try, ast.Match, ast.IfExp, ast.BoolOp)
_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.ClassDef, *_FUNCTIONS)


class _ReadNames(ast.NodeVisitor):
    """Collect the names that statements may read before setting them."""

    def __init__(self) -> None:
        self.needed: set[str] = set()
        self.known: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.known.add(node.id)
        elif node.id not in self.known:
            self.needed.add(node.id)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, _SCOPES):  # any name inside may be one of the block's
            inside = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
            self.needed |= inside - self.known
            self.known.add(getattr(node, "name", ""))
            return
        before = set(self.known)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.needed |= {node.target.id} - self.known
        for inner in sorted(ast.iter_child_nodes(node), key=_time):
            self.visit(inner)
        if isinstance(node, _MAY_NOT_RUN):
            self.known = before


def _time(node: ast.AST) -> int:
    """When a part of a statement runs: expressions first, then targets are set, then blocks."""
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return 1
    return 2 if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case) else 0
