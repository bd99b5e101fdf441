"""The scalar engine's two loops: the order of the Values, and the visit of one of them.

They know a Value only by its slots (`_left`, `_right`, `_grad`, `data`), and every derivative
only from the op table. This is where a million Values per second are walked, so the loops are
written for speed; value.py reads like the textbook because of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.ops import TABLE
from gradwalk.ops.core.backward_plan import contributions_text
from gradwalk.ops.core.op import Op, OpError

# Where Python's arithmetic raises, IEEE arithmetic has an answer: inf or nan.
NOT_REAL = (ZeroDivisionError, OverflowError, ValueError)
CONSTANT = "constant"  # the mark of a leaf that is a number of an expression, like the 2 of `2 * x`


def inner_first(root: Any) -> list[Any]:
    """The Values with inputs that `root` was computed from, each after its own inputs.

    The same depth-first search as graph.order. Leaves are not listed, since they push nothing,
    and instead of a set of Values seen there is a mark on each: open while its inputs are
    being listed, then done. (So one graph must not be walked by two threads at once.)
    """
    is_open, done = object(), object()
    order: list[Any] = []
    stack = [root] if root._left is not None else []
    while stack:
        v = stack[-1]
        if v._mark is is_open:
            v._mark = done
            order.append(v)
            stack.pop()
        elif v._mark is done:
            stack.pop()
        else:
            v._mark = is_open
            left, right = v._left, v._right
            if right is not None:
                if v._extra is not None and "inputs" in v._extra:  # more than two
                    stack += [i for i in v.inputs[:1:-1] if i._left is not None]
                if right._left is not None:
                    stack.append(right)
            if left._left is not None:
                stack.append(left)
    return order


class _Pushes(dict[Any, Callable[[Any], None]]):
    """Op -> the function that visits a Value made by it, written when first needed.

    For `mul` that is

        def push(v):
            g = v._grad
            in_x = v._left
            in_y = v._right
            try:
                to_x = g * in_y.data
                to_y = g * in_x.data
            except not_real:
                to_x, to_y, = ieee(v, g)
            in_x._grad += to_x
            in_y._grad += to_y

    its partials in the op table being y and x.
    """

    def __missing__(self, op: Any) -> Callable[[Any], None]:
        if not isinstance(op, Op):
            raise OpError(
                f"this Value was made by hand with op {op!r} and has inputs but no `_backward`: "
                "set out._backward to a function that adds to the grad of each input"
            )
        push: Callable[[Any], None] = write_push(op)
        self[op] = push
        return push


pushes = _Pushes()


def write_push(op: Op, arrives: str = "+=") -> Any:
    """The visit of a Value made by `op`; `arrives` is what happens to what an input had before."""
    names = op.inputs
    spelled = {name: f"in_{name}.data" for name in names} | {"out": "v.data"}
    spelled |= {f"{name}_shape": "()" for name in names}
    terms, functions = contributions_text(op, (True,) * len(names), spelled.__getitem__)
    pairs = [(name, term) for name, term in zip(names, terms, strict=True) if term != "None"]
    results = ", ".join(f"to_{name}" for name, _ in pairs)
    lines = ["def push(v):", "    g = v._grad"]
    if len(names) > 2:
        lines += [f"    in_{', in_'.join(names)} = v.inputs"]
    else:
        slots = ("_left", "_right")
        lines += [f"    in_{name} = v.{slot}" for name, slot in zip(names, slots, strict=False)]
    if op.attributes:
        lines += ["    a = v.attrs"]
    lines += ["    try:", *(f"        to_{name} = {term}" for name, term in pairs)]
    if TABLE.get(op.name) is not op:  # a user's x ** 0.5 may turn complex; ours never do
        lines += [f"        if complex in map(type, ({results},)):"]
        lines += ["            raise ValueError"]
    lines += ["    except not_real:", f"        {results}, = ieee(v, g)"]
    lines += [f"    in_{name}._grad {arrives} to_{name}" for name, _ in pairs]
    functions |= {"not_real": NOT_REAL, "ieee": _contributions_ieee}
    exec("\n".join(lines), functions)
    return functions["push"]


def _on_doubles(v: Any, g: float) -> list[float | None]:
    """The contributions on NumPy doubles, whose 1 / 0 is inf and whose log(-1) is nan."""
    plan = v.op.plan((True,) * len(v.inputs))
    with np.errstate(all="ignore"):
        saved = plan.save(np.float64(v.data), *(np.float64(i.data) for i in v.inputs))
        terms = plan.pull(np.float64(g), saved, v.attrs)
    return [None if c is None else float(c) for c in terms]


def _contributions_ieee(v: Any, g: float) -> list[float]:
    """Those of `_on_doubles` that exist."""
    return [c for c in _on_doubles(v, g) if c is not None]


def contributions(v: Any, g: float) -> tuple[float | None, ...]:
    """The contribution of a Value to each input if its gradient were `g`; no `grad` changes.

    One made by hand is asked by running its own `_backward` and looking at what arrived.
    """
    if isinstance(v.op, Op) and "backward" not in (v._extra or {}):
        return tuple(_on_doubles(v, g))
    inputs = v.inputs
    before = [(i, i._grad) for i in {id(i): i for i in inputs}.values()]
    own = v._grad
    try:
        for i, _ in before:
            i._grad = 0
        v._grad = g
        v._backward()
        arrived = {id(i): i._grad for i, _ in before}
    finally:
        v._grad = own
        for i, grad in before:
            i._grad = grad
    # Of an input used twice only the total is known: the first edge carries it.
    return tuple([arrived.pop(id(i), 0.0) for i in inputs])
