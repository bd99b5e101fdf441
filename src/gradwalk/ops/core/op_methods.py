"""Methods made from ops: functions of a tensor, under the op's name and with its parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwalk.ops.core.op import Op

_NONE: dict[str, Any] = {}  # no attributes; shared, never written to


def method_of(op: Op, quick: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The op as a method of everything with `_apply`, or of tensors by way of `quick`.

    For `atan2` that is

        def atan2(self, other):
            return self._apply(op, (self, other,), NONE)
    """
    if quick is None:
        plain = "self._apply(op, ({operands},), {attrs})"
    else:
        plain = "quick({operands}, {attrs})" if op.attributes else "quick({operands})"
    return _written(op, op.name, op.__doc__, plain, "op({given})", quick=quick)


def in_place_method_of(op: Op, write: Callable[..., Any]) -> Callable[..., Any]:
    """The op as a method that writes its result into the tensor, by way of `write`."""
    plain, otherwise = "write(self, op, ({operands},), {attrs})", "write(self, *op.change({given}))"
    return _written(op, f"{op.name}_", f"`{op.name}`, in place.", plain, otherwise, write=write)


def _written(
    op: Op, name: str, doc: str | None, plain: str, otherwise: str, **used: Any
) -> Callable[..., Any]:
    """Compile a method from its text; `otherwise` is its body if an option is not the default."""
    given = list(op.signature().parameters.values())[1:]
    head, by_name = ["self"], False
    for p in given:
        if p.kind is p.KEYWORD_ONLY and not by_name:
            head.append("*")
            by_name = True
        head.append(p.name if p.default is p.empty else f"{p.name}=default_{p.name}")
    passed = (f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name for p in given)
    attrs = ", ".join(f"{name!r}: {name}" for name in op.attributes)
    parts = {
        "operands": ", ".join(["self", *(p.name for p in given[: len(op.inputs) - 1])]),
        "attrs": f"{{{attrs}}}" if attrs else "NONE",
        "given": ", ".join(["self", *passed]),
    }
    body = plain.format(**parts)
    if op.options:
        test = " and ".join(f"{option} == default_{option}" for option in op.options)
        body = f"{body} if {test} else {otherwise.format(**parts)}"
    text = f"def {name}({', '.join(head)}):\n    return {body}"
    scope = {"__name__": __name__, "op": op, "NONE": _NONE, **used}
    scope |= {f"default_{p.name}": p.default for p in given}
    # A file name inside gradwalk: the search for the user's line skips it.
    exec(compile(text, f"{__file__}, {name}", "exec"), scope)
    scope[name].__doc__ = doc
    return scope[name]
