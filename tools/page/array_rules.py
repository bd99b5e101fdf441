"""The rules of ops on arrays as text: how the gradient of each input follows from `g`.

For traces of tensors that are read without Python. A rule is run on symbols of a small shape, as
the walk does with the recorded shapes; text that depends on the shape is omitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gradwalk.inspect.walk.wording import spelled as spelled_rule
from gradwalk.ops import TABLE
from gradwalk.ops.core.check import symbolic_env
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.symbol import Symbol

LONGEST = 80
COUNT = 3  # elements that a reduction on these shapes combines
_SHAPES: list[Callable[[int], Any]] = [
    lambda count: ((2, COUNT),) * count,
    lambda count: ((2, COUNT), (COUNT, 4)) if count == 2 else None,
    lambda count: ((2, COUNT), (4, COUNT), (4,)) if count == 3 else None,
]
_ATTRIBUTES: list[dict[str, Any]] = [
    {},
    {"axis": (1,), "keepdim": True},
    {"axis": 1},
    {"axes": (1, 0)},
    {"shape": (2, COUNT)},
]
_OF_A_SHAPE = re.compile(
    r", (?:axis|keepdim|shape)=(?:\(\([\d, ]*\),\)|\([\d, ]*\)|\w+)|to shape 2×3"
)


def array_rules() -> dict[str, list[Any]]:
    """By op: the names of its inputs, then the rule of each ({x} is the name of x) or None."""
    by_op = {}
    for op in (*TABLE.values(), *TABLE.composites.values()):
        if op.elementwise or not op.differentiable:
            continue
        rules = _written(op) if isinstance(op.formula, Mapping) else _read(op)
        if any(rules):
            by_op[op.name] = [list(op.inputs), *rules]
    return by_op


def _written(op: Op) -> list[str | None]:
    """The rules that the op defines as text."""
    assert isinstance(op.formula, Mapping)
    texts = [op.formula.get(name) for name in op.inputs]
    return [text if isinstance(text, str) else None for text in texts]


def _read(op: Op) -> list[str | None]:
    """The rules run on symbols, with the first shapes that fit the op."""
    for shapes in filter(None, (make(len(op.inputs)) for make in _SHAPES)):
        for extra in _ATTRIBUTES:
            given = {name: value for name, value in extra.items() if name in op.attributes}
            attrs = {**op.defaults, **given}
            if len(attrs) < len(op.attributes):
                continue
            try:
                return [_on_symbols(op, i, shapes, attrs) for i in range(len(op.inputs))]
            except Exception:  # these shapes do not fit, or the rule needs numbers
                continue
    return []


def _on_symbols(op: Op, position: int, shapes: Any, attrs: dict[str, Any]) -> str | None:
    rule = op.rule(position)
    if rule is None or op.variadic or op.multiple:
        return None
    env = symbolic_env(op, shapes, attrs)
    g = env["g"]
    env |= {name: Symbol(f"{{{name}}}", shape) for name, shape in zip(op.inputs, shapes)}
    env |= {"g": g, "out": Symbol("{out}", env["out"].shape)}
    local = rule.local(env, g)
    text = spelled_rule(g * local if rule.partial else local)
    text = _OF_A_SHAPE.sub("", text).replace(f"× {1 / COUNT:.6g}", "/ n").strip()
    return text if len(text) <= LONGEST and "[" not in text and "\n" not in text else None
