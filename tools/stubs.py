"""Generate stubs (.pyi) for methods and namespaces that are made from registrations.

    python -m tools.stubs

Type checkers and editors read them; tests/ops/test_stubs.py checks that they are up to date.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import gradwalk
from gradwalk.ops import BESIDE, FAMILIES
from gradwalk.ops.core import operators
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.public import Registration, names_of, registered

PACKAGE = Path(gradwalk.__file__).parent
HEAD = "# Written by `python -m tools.stubs`.\n"
DECLARED = inspect.Parameter.empty


def stubs() -> dict[Path, str]:
    """The text of every stub, by its path in the package."""
    found = {
        Path("ops/core/methods.pyi"): methods(),
        Path("ops/names.pyi"): namespace("gradwalk"),
        Path("masked.pyi"): namespace("masked"),
        Path("special.pyi"): namespace("special"),
        Path("linalg.pyi"): namespace("linalg", gradwalk.linalg.LinAlgError),
        Path("fft.pyi"): namespace("fft", gradwalk.fft.fftfreq, gradwalk.fft.rfftfreq),
    }
    return {path: _formatted(text, path) for path, text in found.items()}


# -- methods ---------------------------------------------------------------------------------------


def methods() -> str:
    """The classes that carry the methods of Tensor and Symbol."""
    imports: set[tuple[str, str]] = {("typing", "Self")}
    plain: dict[str, str] = {}
    changing: dict[str, str] = {}
    for registration in registered:
        for name in registration.names:
            if registration.method:
                plain[name] = _method(registration, name, imports)
            if registration.inplace:
                changing[f"{name}_"] = _method(registration, f"{name}_", imports)
    lines = ["# ruff: noqa: E501"]
    lines += [f"from {module} import {name}" for module, name in sorted(imports)]
    parts = {"OperatorMethods": _operators(), "Methods": plain, "InPlaceMethods": changing}
    for title, made in parts.items():
        lines += ["", f"class {title}:", *(f"    {made[name]}" for name in sorted(made))]
    return "\n".join(lines) + "\n"


def _operators() -> dict[str, str]:
    """Python's operators that map to one op each."""
    ignored = "  # type: ignore[override]"
    made = {f"__{n}__": f"def __{n}__(self) -> Self: ..." for n in operators.UNARY}
    two = [*operators.BINARY, *operators.COMPARISONS, *(f"r{n}" for n in operators.BINARY)]
    for n in two:
        note = ignored if n in ("eq", "ne") else ""
        made[f"__{n}__"] = f"def __{n}__(self, other: Any) -> Self: ...{note}"
    return made


def _method(registration: Registration, name: str, imports: set[tuple[str, str]]) -> str:
    call = registration.call
    in_place = name.endswith("_")
    function = call if in_place or registration.method is True else registration.method
    if isinstance(function, Op):
        signature, scope = function.signature(), {}
        returns = "tuple[Self, ...]" if function.multiple else "Self"
    else:
        signature, scope = inspect.signature(function), inspect.unwrap(function).__globals__
        returns = _returned(str(signature.return_annotation))
    first, *others = signature.parameters.values()
    parameters = [first.replace(name="self", annotation=DECLARED), *others]
    written = [_parameter(p, scope, imports) for p in _with_star(parameters)]
    if in_place:
        returns = "Self"
    returns = _spelled(returns, scope, imports)
    summary = f"`{registration.names[0]}`, in place." if in_place else _summary(function)
    return f'def {name}({", ".join(written)}) -> {returns}: """{summary}"""'


def _summary(function: Any) -> str:
    return inspect.cleandoc(function.__doc__ or "").split("\n")[0].replace("\\", "\\\\")


def _with_star(parameters: list[inspect.Parameter]) -> Iterator[inspect.Parameter | str]:
    """The parameters, with a bare `*` before keyword-only ones."""
    before = None
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            yield "*"
        before = p.kind
        yield p


def _parameter(p: inspect.Parameter | str, scope: Any, imports: set[tuple[str, str]]) -> str:
    if isinstance(p, str):
        return p
    star = "*" if p.kind is p.VAR_POSITIONAL else ""
    if p.name == "self":
        return "self"
    kind = "float" if type(p.default) in (int, float) else "Any"
    annotation = kind if p.annotation is DECLARED else str(p.annotation)
    text = f"{star}{p.name}: {_spelled(annotation, scope, imports)}"
    return text if p.default is DECLARED else f"{text} = {p.default!r}"


def _returned(annotation: str) -> str:
    """The return type of a function as a method: `Any` becomes the type of its operands."""
    return {"Any": "Self", "Mixed": "Any", "tuple[Any, ...]": "tuple[Self, ...]"}.get(
        annotation, annotation
    )


def _spelled(annotation: str, scope: Any, imports: set[tuple[str, str]]) -> str:
    """The annotation, with every name a builtin or imported by the stub."""

    def spell(match: re.Match[str]) -> str:
        name = match[0]
        if hasattr(builtins, name) or name == "Self":
            return name
        value = scope.get(name, Any)
        if value is Any or isinstance(value, type) or hasattr(value, "__origin__"):
            imports.add(("typing" if value is Any else value.__module__, name))
            return name
        return str(value)  # a union with a name in its module

    return re.sub(r"[A-Za-z_]\w*", spell, annotation)


# -- namespaces ------------------------------------------------------------------------------------


def namespace(name: str, *others: type) -> str:
    """A module that imports the names of a namespace from where they are defined."""
    names = names_of(name)
    lines = [f"from {o.__module__} import {o.__name__} as {o.__name__}" for o in others]
    for shown, call in names.items():
        module, own = _defined(call)
        lines.append(f"from {module} import {own} as {shown}")
    listed = sorted([*names, *(o.__name__ for o in others)])
    return "\n".join([*sorted(lines), "", f"__all__ = {listed!r}"]) + "\n"


def _defined(call: Callable[..., Any]) -> tuple[str, str]:
    """The module and the name under which an op or a function is defined; a function that takes
    `out=` besides is the one that it wraps."""
    for module in FAMILIES + BESIDE:
        for name in _definitions(module):
            if vars(module)[name] in (call, getattr(call, "__wrapped__", None)):
                return module.__name__, name
    raise LookupError(f"{call!r} is in no file that gradwalk.ops lists")


@cache
def _definitions(module: ModuleType) -> tuple[str, ...]:
    """The names that a module defines itself, in the order of its text."""
    found = []
    for statement in ast.parse(inspect.getsource(module)).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                found.append(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.append(name)
    return tuple(found)


def _formatted(text: str, path: Path) -> str:
    """Format the text as the linter expects it."""
    for command in (["check", "--select", "I,RUF036", "--fix", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(PACKAGE / path)]
        ran = subprocess.run([*ruff, "-"], input=text, capture_output=True, text=True, check=True)
        text = ran.stdout
    return HEAD + text


if __name__ == "__main__":
    for path, text in stubs().items():
        (PACKAGE / path).write_text(text, encoding="utf-8")
        print(f"wrote {path}")
