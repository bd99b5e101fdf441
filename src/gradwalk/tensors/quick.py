"""The quick path: elementwise ops on float tensors of one dtype, which most calls are.

For them the checks of apply.py take longer than NumPy's arithmetic. So each such op gets a
function, written out as text, that assumes the plain case: it reads the operands, computes and
records. Any other case goes to `apply_any`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, update_wrapper
from types import CodeType
from typing import Any

import numpy as np

from gradwalk.engine.errors import shape_mismatch
from gradwalk.engine.modes import current, quietly
from gradwalk.graph.node import Node
from gradwalk.graph.source import caller, own_files
from gradwalk.graph.versions import clock
from gradwalk.ops import TABLE
from gradwalk.ops.core.dtypes import constant, has_numpy_numbers
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.operators import method_of, or_declines
from gradwalk.ops.core.public import registered
from gradwalk.tensors.apply import FLOATS, apply_any
from gradwalk.tensors.single_calls import limits

_NONE: dict[str, Any] = {}  # no attributes; shared, never written to

_READ_ONE = """
def quick(x{attrs_parameter}):
    first = x._array
    plain = first.__class__ is ndarray and first.dtype in FLOATS{python_numbers}
    if not plain or x._view is not None{large}:
        return apply_any(op, (x,), {attrs})
    source = x._node or (x if x._requires_grad else None)
"""
_READ_TWO = """
def quick(x, other):
    if isinstance(x, Tensor):
        first = x._array
        dtype = first.dtype
        source = x._node or (x if x._requires_grad else None)
        if isinstance(other, Tensor):
            second = other._array
            other_source = other._node or (other if other._requires_grad else None)
            plain = second.__class__ is ndarray and second.dtype is dtype
            if not plain or other._view is not None{large}:
                return apply_any(op, (x, other), NONE)
        else:
            if other.__class__ is not float and other.__class__ is not int:
                return apply_any(op, (x, other), NONE)
            second = constant(other, dtype)
            other_source = None
        if first.__class__ is not ndarray or dtype not in FLOATS or x._view is not None:
            return apply_any(op, (x, other), NONE)
    else:
        second = other._array
        dtype = second.dtype
        number = x.__class__ is float or x.__class__ is int
        plain = second.__class__ is ndarray and number
        if dtype not in FLOATS or other._view is not None or not plain:
            return apply_any(op, (x, other), NONE)
        first = constant(x, dtype)
        source = None
        other_source = other._node or (other if other._requires_grad else None)
"""
_COMPUTE_AND_RECORD = """
    here = current()
    if here.watcher is not None:
        return apply_any(op, ({operands},), {attrs})
    try:
        out = here.run(forward, {arrays}{keywords})
    except ValueError as error:
        raise shape_mismatch(op, ({operands},), error) from None
    except RuntimeError:  # perhaps a forward inside a forward
        out = quietly(forward, {arrays}{keywords})
    if out.__class__ is not ndarray:
        out = asarray(out)
    tensor = new(Tensor)
    tensor._array = out
    tensor._index = 0
    if not ({recorded} and here.grad_enabled):
        tensor._node = None
        tensor.code, tensor.position = caller()
        return tensor
    tensor._node = node = Node()
    node.op = op
    node.inputs = {sources}
    node.plan = plan = {plan}
    node.saved = plan.save(out, {arrays})
    node.shape = shape = out.shape
    node.dtype = out.dtype
    node.metas = {metas}
    node.clock = clock.now
    node.code = None
    node.position = -1
    if own_files.recording:
        frame = getframe(1)
        if own_files[frame.f_code.co_filename]:
            node.code, node.position = caller()
        else:
            node.code = frame.f_code
            node.position = frame.f_lasti
    {own}
    if here.listener is not None:
        here.listener(node)
    return tensor
"""
_ONE = {
    "operands": "x",
    "arrays": "first",
    "recorded": "source is not None",
    "sources": "(source,)",
    "plan": "both",
    "metas": "None",
}
_TWO = {
    "operands": "x, other",
    "arrays": "first, second",
    "recorded": "(source is not None or other_source is not None)",
    "sources": "(source, other_source)",
    "plan": "right if source is None else left if other_source is None else both",
    "metas": """None
    if (source is not None and first.shape != shape) or (
        other_source is not None and second.shape != shape
    ):
        node.metas = ((first.shape, dtype), (second.shape, dtype))""",
    "own": """if (source is not None and x._index) or (other_source is not None and other._index):
        node.picks = (
            0 if source is None else x._index,
            other._index if other_source is not None else 0,
        )""",
    "attrs": "NONE",
    "keywords": "",
}
_PICKS = """if x._index:
        node.picks = (x._index,)"""


@cache
def _quick_code(inputs: int, attributes: bool, native: bool) -> CodeType:
    """The code of `quick`; every op of its kind runs it with its own globals."""
    if inputs == 2:
        read, parts = _READ_TWO, _TWO
    elif attributes:
        read, parts = _READ_ONE, _ONE | {"attrs": "attrs", "keywords": ", **attrs"}
        parts |= {"attrs_parameter": ", attrs", "own": "node.attrs = attrs\n    " + _PICKS}
        parts["python_numbers"] = " and not has_numpy_numbers(attrs)"
    else:
        read, parts = _READ_ONE, _ONE | {"attrs": "NONE", "keywords": "", "own": _PICKS}
        parts["attrs_parameter"] = parts["python_numbers"] = ""
    parts = parts | {"large": " or first.size >= limit.least" if native else ""}
    text = (read + _COMPUTE_AND_RECORD.lstrip("\n")).format(**parts)
    return compile(text, f"{__file__}, quick", "exec")


def _quick(
    op: Op, tensor_class: Any, otherwise: Callable[..., Any] = apply_any
) -> Callable[..., Any]:
    """A function that applies an elementwise op with one or two inputs."""
    scope: dict[str, Any] = {
        **{"Node": Node, "Tensor": tensor_class, "apply_any": otherwise, "asarray": np.asarray},
        **{"caller": caller, "clock": clock, "constant": constant, "forward": op.forward},
        **{"getframe": sys._getframe, "ndarray": np.ndarray, "new": object.__new__, "op": op},
        **{"own_files": own_files, "quietly": quietly, "shape_mismatch": shape_mismatch},
        **{"current": current, "FLOATS": FLOATS, "NONE": _NONE},
        "limit": limits.arithmetic if len(op.inputs) == 2 else limits.work,
        "has_numpy_numbers": has_numpy_numbers,
        "both": op.plan((True,) * len(op.inputs)),
    }
    if len(op.inputs) == 2:
        scope |= {"left": op.plan((True, False)), "right": op.plan((False, True))}
    exec(_quick_code(len(op.inputs), bool(op.attributes), op.native is not None), scope)
    return scope["quick"]


def equip(tensor_class: Any) -> None:
    """Give ops their quick functions, and the class of tensors the methods made of them."""
    for op in TABLE.values():
        if not op.elementwise or None in op.rules or len(op.inputs) > 2:
            continue
        if len(op.inputs) == 2 and op.attributes:
            continue
        op.quick[tensor_class] = _quick(op, tensor_class)
    for registration in registered:
        op = registration.call
        if registration.method is True and isinstance(op, Op) and tensor_class in op.quick:
            method = method_of(op, op.quick[tensor_class])
            if not (op.attributes or op.options) and op.inputs[1:] in ((), ("y",)):
                # The method would only forward its arguments; it lends its name and signature.
                method = update_wrapper(op.quick[tensor_class], method)
            for name in registration.names:
                setattr(tensor_class, name, method)
    for name, operator in {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv"}.items():
        quick = _quick(TABLE[name], tensor_class, or_declines(apply_any))
        setattr(tensor_class, f"__{operator}__", quick)
        setattr(tensor_class, f"__r{operator}__", lambda x, y, quick=quick: quick(y, x))
    for name in ("neg", "abs"):
        setattr(tensor_class, f"__{name}__", TABLE[name].quick[tensor_class])
