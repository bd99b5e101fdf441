"""The text of a step: gates, formulas, numbers in one line."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradwalk.inspect.report import short
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.trace import Edge, Kept, Trace, TraceNode
from gradwalk.ops.core.check import symbolic_env
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.symbol import Symbol
from gradwalk.printers.formulas.formula import derivative, formula
from gradwalk.printers.scalars import number

# What a node does with its gradient: docs/learn/textbook-examples.md explains the words.
_ROUTERS = (
    "maximum minimum max min amax amin relu leaky_relu where clip clamp_min clamp_max clip_between "
    "max_pool median median_along kthvalue topk sort cummax cummin hardtanh threshold"
)
GATES = {
    "add": "distributor",
    "sum": "distributor",
    "mul": "swapper",
    "matmul": "swapper",
    "linear": "swapper",
    **dict.fromkeys(_ROUTERS.split(), "router"),
}
LONGEST = 60  # characters of a formula on one line
READABLE = 240  # and of one on several


def gates_of(trace: Trace, index: int) -> list[str]:
    """The gate a node's op is, and "adder" if its value is used several times.

    >>> import gradwalk as gw
    >>> a = gw.Value(3.0)
    >>> trace = gw.record(a * a)
    >>> gates_of(trace, 0), gates_of(trace, 1)
    (['adder'], ['swapper'])
    """
    node = trace.nodes[index]
    gates = [GATES[node.op]] if node.op in GATES else []
    return [*gates, "adder"] if len(trace.consumers[index]) > 1 else gates


def operand_name(trace: Trace, argument: Any) -> str:
    """The name of an operand in a formula; a constant is its number."""
    if isinstance(argument, Edge):
        node = trace.nodes[argument.node]
        nameless = node.is_leaf and not node.label and argument.node not in trace.names
        if nameless and replay.is_array(node.value) and np.ndim(node.value) == 0:
            return number(float(node.value))
        name = trace.name(argument.node)
        return name if len(node.metas) == 1 else f"{name}[{argument.output}]"
    if np.ndim(argument) == 0 and isinstance(argument, (int, float, np.generic, np.ndarray)):
        return number(float(argument))
    return "none" if argument is None else f"constant{np.shape(argument)}"


def expression(trace: Trace, node: TraceNode, numbers: bool = False) -> str:
    """How a node was computed: `a × b`, or with numbers `2 × −3`."""
    op = replay.op_of(node)
    symbols: dict[Any, Symbol] = {}  # one per node, so that a × a is a²
    operands = []
    for argument in node.args:
        key = argument if isinstance(argument, Edge) else id(argument)
        name = operand_name(trace, argument)
        if numbers and isinstance(argument, Edge):
            name = number(trace.nodes[argument.node].value)
        shape = trace.shape_of(argument)
        operands.append(symbols.setdefault(key, Symbol(name, shape)))
    if op is not None:
        try:
            result = op(*operands, **node.attrs)
            text = formula(result[0] if isinstance(result, tuple) else result)
            text = text.removesuffix("[0]").replace(", keepdim=False", "")
            if len(text) <= LONGEST and "\n" not in text:
                return text
        except Exception:  # a data-dependent shape, an index array, ...
            pass
    return f"{node.op}({', '.join(s.name for s in operands)})"


def local_formula(trace: Trace, node: TraceNode, argument: int) -> str:
    """The local derivative of an op on numbers, as text; empty if the op table has none."""
    op = replay.op_of(node)
    if op is None:
        return ""
    names = [operand_name(trace, a) for a in node.args]
    return derivative(op, argument, names, trace.name(node.index), **node.attrs)


def rule_text(trace: Trace, node: TraceNode, argument: int) -> str:
    """How the gradient of one operand follows from `g`, that of the output: `xᵀ @ g`."""
    op = replay.op_of(node)
    rule = None if op is None else op.rule(argument)
    if op is None or rule is None:
        return ""
    if isinstance(op.formula, str) and op.elementwise:
        return f"g × ({op.formula})"
    if isinstance(op.formula, Mapping):
        names = {
            name: operand_name(trace, operand) if isinstance(operand, Edge) else name
            for name, operand in zip(op.inputs, node.args)
        }
        operand_of = op.inputs[min(argument, len(op.inputs) - 1)]  # a tail shares its text
        written = op.formula.get(operand_of, "")
        text = written if isinstance(written, str) else written(**node.attrs)
        return text.format(**names, out=trace.name(node.index))
    text, shape = _rule_on_symbols(trace, op, node, argument)
    if not text or len(text) > READABLE or "\n" in text:
        return f"the rule of {op.name}"
    if shape != trace.shape_of(node.args[argument]):
        text = f"{text}, summed over what was broadcast"
    return text


def _rule_on_symbols(
    trace: Trace, op: Op, node: TraceNode, argument: int
) -> tuple[str, tuple[int, ...] | None]:
    """The formula reading of a rule, and the shape of its result."""
    rule = op.rule(argument)
    assert rule is not None
    shapes = tuple(trace.shape_of(a) for a in node.args)
    try:
        env = symbolic_env(op, shapes, node.attrs, tuple(shape for shape, _ in node.metas))
        named = [Symbol(operand_name(trace, a), s) for a, s in zip(node.args, shapes)]
        g = env["g"]  # some ops have an input named g
        env |= dict(zip(op.inputs, named)) | {"g": g}
        if op.variadic:
            env[op.inputs[-1]] = tuple(named[len(op.inputs) - 1 :])
        if not op.multiple:
            env["out"] = Symbol(trace.name(node.index), node.shape)
            env |= {name: Symbol(name, node.shape) for name in op.residuals}
        env["position"] = argument - len(op.inputs) + 1
        result = rule.local(env, g)
        result = g * result if rule.partial else result
        return spelled(result), tuple(getattr(result, "shape", ()))
    except Exception:  # a NumPy call or a data-dependent shape has no formula
        return "", None


def spelled(symbol: Any) -> str:
    """A formula as text: words for the rule of a sum, no shapes in a long one."""
    if isinstance(symbol, Symbol) and symbol.op is not None and symbol.op.name == "expand":
        inner = symbol.args[0]
        while isinstance(inner, Symbol) and inner.op is not None and inner.op.name == "reshape":
            inner = inner.args[0]
        return f"{formula(inner)} repeated to {_shape(symbol.shape)}"
    if (
        isinstance(symbol, Symbol)
        and symbol.op is not None
        and symbol.op.name in ("put", "getitem")
    ):
        inner, place = formula(_without_shapes(symbol.args[0])), _index_text(symbol)
        if symbol.op.name == "getitem":
            return f"{inner}{place}"
        # Index arrays may name an element twice.
        return f"{inner} {'added ' if symbol.args[1:] else ''}at {place}, 0 elsewhere"
    text = formula(symbol).replace(", keepdim=False", "")
    fits = len(text) <= LONGEST and "\n" not in text
    return text if fits else formula(_without_shapes(symbol))


def _index_text(symbol: Symbol) -> str:
    """An index as Python writes it: `[1:3, 0]`; index arrays by name."""
    parts = []
    for part in symbol.attrs["index"]:
        if isinstance(part, tuple) and part[0] == "slice":
            start, stop, step = ("" if n is None else str(n) for n in part[1:])
            parts.append(f"{start}:{stop}" + (f":{step}" if step else ""))
        elif isinstance(part, tuple):
            array = symbol.args[1 + part[1]]
            parts.append(formula(_without_shapes(array)))
        else:
            parts.append("..." if part is Ellipsis else str(part))
    return f"[{', '.join(parts)}]"


def _without_shapes(symbol: Any) -> Any:
    """The formula without shapes, strides and indices."""
    if isinstance(symbol, np.ndarray) and symbol.ndim:
        return Symbol("its places" if symbol.dtype.kind in "iu" else "constant", symbol.shape)
    if not isinstance(symbol, Symbol) or symbol.op is None:
        return symbol
    args = tuple(_without_shapes(a) for a in symbol.args)
    if symbol.op.name in ("reshape", "cast", "expand") and len(args) == 1:
        return args[0]
    attrs = symbol.attrs if symbol.op.name == "permute" else {}  # which is how ᵀ is told
    return Symbol(symbol.name, symbol.shape, op=symbol.op, args=args, attrs=attrs)


def digits(value: float) -> str:
    """A number with four decimals; a nonzero number never shows as 0."""
    text = number(value)
    return short(value) if text == "0" and value else text


def kept_text(kept: Kept) -> str:
    """A value or a gradient in a few characters."""
    if kept is None:
        return "not kept"
    if isinstance(kept, list):
        return ", ".join(kept_text(part) for part in kept if part is not None)
    if isinstance(kept, Statistics):
        if kept.count == 1 and kept.finite:
            return digits(kept.mean)
        return f"{_shape(kept.shape)}, norm {digits(kept.norm)}"
    if np.ndim(kept) == 0:
        return digits(float(kept))
    array = np.asarray(kept)
    if array.ndim == 1 and array.size <= 4:
        return f"[{', '.join(digits(float(x)) for x in array)}]"
    norm = float(np.linalg.norm(array.astype(np.float64).reshape(-1)))
    return f"{_shape(array.shape)}, norm {digits(norm)}"


def _shape(shape: tuple[int, ...]) -> str:
    return "shape " + "×".join(map(str, shape)) if shape else "a number"


def _ups_and_downs(gradient: Kept) -> tuple[int, int] | None:
    if not replay.is_array(gradient):
        return None
    array = np.asarray(gradient)
    return int(np.count_nonzero(array < 0)), int(np.count_nonzero(array > 0))


def way_down(gradient: Kept, loss: str) -> str:
    """Which way to move a leaf to lower the loss, from its gradient; empty if that is not known.

    >>> way_down(2.0, "L"), way_down(-0.5, "L")
    ('lower it to lower L', 'raise it to lower L')
    """
    counts = _ups_and_downs(gradient)
    if counts is None:
        return ""
    up, down = counts
    if up and down:
        return f"raise {up} and lower {down} of its elements to lower {loss}"
    if not (up or down):
        return f"{loss} does not change with it"
    return f"{'lower' if down else 'raise'} it to lower {loss}"


def arrow_down(gradient: Kept) -> str:
    """The same as an arrow, for a table.

    >>> import numpy as np
    >>> arrow_down(2.0), arrow_down(-0.5), arrow_down(0.0), arrow_down(np.array([1.0, -1.0, 2.0]))
    ('lower ↓', 'raise ↑', '—', '1 ↑ 2 ↓')
    """
    counts = _ups_and_downs(gradient)
    if counts is None:
        return ""
    up, down = counts
    if up and down:
        return f"{up} ↑ {down} ↓"
    return "lower ↓" if down else "raise ↑" if up else "—"


def wrapped(lines: list[str]) -> str:
    """Wrap lines at 79 characters."""
    parts: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        parts += textwrap.wrap(line, 79, subsequent_indent=indent, break_long_words=False) or [""]
    return "\n".join(parts)
