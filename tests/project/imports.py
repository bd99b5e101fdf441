"""The imports of a module, read from its source.

Every import counts, also inside a function, except those under `if TYPE_CHECKING:`, which never
run.
"""

import ast
import functools
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One name that a module imports."""

    line: int
    target: str  # absolute and dotted: gradwalk.ops.table, numpy.linalg
    lazy: bool  # inside a function


class ImportFinder(ast.NodeVisitor):
    """Collect the imports of one module, relative ones made absolute."""

    def __init__(self, package: list[str]) -> None:
        self.package = package
        self.depth = 0
        self.found: list[Import] = []

    def add(self, node: ast.stmt | ast.expr, target: str) -> None:
        self.found.append(Import(node.lineno, target, lazy=self.depth > 0))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self.package[: len(self.package) - node.level + 1] if node.level else []
        module = [node.module] if node.module else []
        for alias in node.names:
            self.add(node, ".".join([*base, *module, alias.name]))

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                self.add(node, name)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        match node.test:
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                for statement in node.orelse:
                    self.visit(statement)
            case _:
                self.generic_visit(node)

    def visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_function


@functools.cache  # the same for every test that asks
def imports(path: Path, package: Path) -> list[Import]:
    """What the module at `path` imports; `package` is the folder of the whole package."""
    inside = [package.name, *path.relative_to(package).parent.parts]
    finder = ImportFinder(inside)
    finder.visit(ast.parse(path.read_text(encoding="utf-8")))
    return finder.found
