"""BackwardPlan: what to save and what to compute, for one op and the inputs that want a gradient.

A rule's parameter names say what it needs. From them small functions are written out as Python
text, once per op and choice, so that nothing is looked up or looped over per call. For `mul`
with both inputs wanted they are

    save:  lambda o, i0, i1: {'y': i1, 'x': i0}
    pull:  lambda g, s, a: (g * s['y'], g * s['x'],)

where o is the result of the forward (all of them, if there are several), i0, i1 its inputs, s
what was saved and a the attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gradwalk.ops.core.op import Op

Needs = tuple[bool, ...]


class BackwardPlan:
    """What one op does for one choice of inputs: `save` in the forward, `pull` in the backward.

    Its functions are written at the first use: most plans are never used.
    """

    __slots__ = (
        "_needs", "_op", "holds", "names", "pull", "pull_text", "save", "save_text", "verified",
        "written",
    )  # fmt: skip

    def __init__(self, op: Op, needs: Needs) -> None:
        self._op = op
        self._needs = needs
        self.save: Callable[..., dict[str, Any]] = self._first_save
        self.pull: Callable[[Any, Any, Any], tuple[Any, ...]] = self._first_pull
        self.written = False
        self.verified = False  # whether the shapes its rules return have been looked at once

    def _first_save(self, *results_and_inputs: Any) -> dict[str, Any]:
        return self.write().save(*results_and_inputs)

    def _first_pull(self, g: Any, saved: Any, attrs: Any) -> tuple[Any, ...]:
        return self.write().pull(g, saved, attrs)

    def write(self) -> BackwardPlan:
        """Write the two functions, if they are not yet."""
        if self.written:
            return self
        op = self._op
        results = (*op.outputs, *op.residuals)
        wanted: dict[str, str] = {}  # name in a rule -> where it comes from

        def saved(name: str) -> str:
            wanted[name] = _origin(op, name, results)
            return f"s[{name!r}]"

        terms, functions = contributions_text(op, self._needs, saved)
        if op.array_only:  # graph readings go through the expansion and need every input
            wanted.update({name: _origin(op, name, results) for name in op.inputs})
        self.names = tuple(wanted)
        # Whether it saves arrays, which backward frees; shapes need not be freed.
        self.holds = any("shape(" not in origin for origin in wanted.values())
        entries = ", ".join(f"{name!r}: {origin}" for name, origin in wanted.items())
        inputs = [f"i{k}" for k in range(len(op.inputs))]
        inputs[-1:] = ["*" + i if op.variadic else i for i in inputs[-1:]]
        self.save_text = f"lambda o, {', '.join(inputs)}: {{{entries}}}"
        self.pull_text = f"lambda g, s, a: ({', '.join(terms)},)"
        # A file name inside gradwalk: the search for the user's line skips it.
        file = f"{__file__}, {op.name}"
        self.save = eval(compile(self.save_text, file, "eval"), {"shape": _shape})
        if op.native is None or all(r is None or r.constant is not None for r in op.rules):
            self.pull = eval(compile(self.pull_text, file, "eval"), functions)
        else:
            self.pull = op.native.pulling(self.pull_text, functions, file)
        self.written = True  # last: another thread may be here as well, and writes the same
        return self


def _shape(x: Any) -> tuple[int, ...]:
    return x.shape if x.__class__ is np.ndarray else np.shape(x)


def contributions_text(
    op: Op, needs: Needs, spell: Callable[[str], str]
) -> tuple[list[str], dict[str, Any]]:
    """The contribution to each input as Python text ("None" where none is wanted).

    `spell` says how to write a name that a rule asks for; g and the attributes (`a[...]`) are
    the same everywhere. Also returns the functions that the text calls.
    """
    terms = []
    functions: dict[str, Any] = {}
    if op.joint is not None:
        functions |= {"joint": op.joint, "wants": needs}
        arguments = _arguments(op, op.rules[0], 0, spell)
        call = f"joint({', '.join(arguments)}, wants=wants)"
        return [f"*[c if wanted else None for c, wanted in zip({call}, wants)]"], functions
    for position, needed in enumerate(needs):
        rule = op.rule(position)
        if not needed or rule is None:
            terms.append("None")
            continue
        arguments = _arguments(op, rule, position, spell)
        if rule.partial and _is_its_argument(rule):
            call = arguments[0]
        else:
            functions[f"r{position}"] = rule.function
            call = f"r{position}({', '.join(arguments)})"
        terms.append(_term(rule, call, functions))
    return terms, functions


def _arguments(op: Op, rule: Any, position: int, spell: Callable[[str], str]) -> list[str]:
    """The arguments of a rule, as text."""
    arguments = []
    for name in rule.names:
        if name == "g":
            arguments.append("g")
        elif name in op.attributes:
            arguments.append(f"a[{name!r}]")
        elif name == "attrs":  # all of them, as a dictionary
            arguments.append("a")
        elif name == "position":
            arguments.append(str(position - len(op.inputs) + 1))
        else:
            arguments.append(spell(name))
    return arguments


def _is_its_argument(rule: Any) -> bool:
    """Whether a rule returns its only argument, like those of mul: then it is not called."""
    thing = object()
    try:
        return len(rule.names) == 1 and rule.function(thing) is thing
    except Exception:  # it computes with its argument
        return False


def _origin(op: Op, name: str, results: tuple[str, ...]) -> str:
    """The text that fetches a name from the result or the inputs of a forward."""
    if name in results:
        return f"o[{results.index(name)}]" if op.multiple or op.residuals else "o"
    of_shape = name not in op.inputs
    place = op.inputs.index(name[: -len("_shape")] if of_shape else name)
    if of_shape and op.variadic and place == len(op.inputs) - 1:
        return f"tuple([shape(x) for x in i{place}])"
    return f"shape(i{place})" if of_shape else f"i{place}"


def _term(rule: Any, call: str, functions: dict[str, Any]) -> str:
    """The contribution to one input. A bare 1 costs no multiplication."""
    if rule.constant is None:
        return f"g * {call}" if rule.partial else call
    if rule.constant == 0:
        from gradwalk.ops.elementwise.arithmetic import zero

        functions["zero"] = zero
        return "zero(g)"
    return {1: "g", -1: "-g"}.get(rule.constant, f"g * {rule.constant!r}")
