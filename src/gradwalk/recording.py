"""Applying ops to tensors: compute the result and, if a gradient may be asked for, record it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from gradwalk.engine.errors import shape_mismatch
from gradwalk.engine.modes import quietly, state
from gradwalk.graph.node import Node
from gradwalk.graph.source import caller
from gradwalk.graph.versions import clock
from gradwalk.ops import TABLE
from gradwalk.ops.dtypes import category, get_default_dtype, result_dtype
from gradwalk.ops.op import Op
from gradwalk.ops.shape import cast

# The class that wraps results; tensor.py, which imports this module, puts it here.
Tensor: Any = None

_NONE: dict[str, Any] = {}  # no attributes; shared, never written to
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class View(NamedTuple):
    """How a view hangs on its base: enough to make its history again if the base changes."""

    base: Any
    base_node: Node | None  # the history of the base when the view was made
    chain: tuple[tuple[Op, dict[str, Any], int], ...]  # (op, attributes, output) from the base


def wrap(array: np.ndarray[Any, Any], node: Any = None, index: int = 0) -> Any:
    """A tensor on an array, as output `index` of a node; of a leaf, that leaf itself."""
    if node is not None and not node.inputs:
        return node
    tensor = Tensor.__new__(Tensor)
    tensor._set(array, node, index)
    return tensor


def refresh(tensor: Any) -> None:
    """Make the history of a view again if its base was changed in place since."""
    view = tensor._view
    if view is None or view.base._node is view.base_node:
        return
    found: Any = view.base
    for op, attrs, index in view.chain:
        found = op(found, **attrs)
        found = found[index] if op.multiple else found
    tensor._node, tensor._index = found._node, found._index
    tensor._view = View(view.base, view.base._node, view.chain)


def operand(value: Any, op: Op) -> Any:
    """An operand that is not a Tensor: a Python number stays weak, an array becomes a tensor."""
    if isinstance(value, np.generic):
        return value.item()  # NumPy scalars are as weak as Python's
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, np.ndarray):
        category(value.dtype)
        return wrap(value)
    if type(value).__name__ == "Value":
        raise TypeError(
            f"{op.name} of a Tensor and a Value{_labelled(value)}: the two engines do not mix.\n"
            "Fix: use value.data for its number (no gradient flows to it), or build both sides "
            "of the same kind."
        )
    if isinstance(value, complex):
        raise TypeError("complex numbers are not supported: gradwalk is about real derivatives")
    raise TypeError(
        f"{op.name} of a Tensor and a {type(value).__name__}: expected a Tensor, a number or an "
        "ndarray"
    )


def _labelled(thing: Any) -> str:
    return f" '{thing.label}'" if thing.label else ""


def _promoted(op: Op, args: Sequence[Any]) -> tuple[Any, ...]:
    """Operands cast to their common dtype, a recorded cast each."""
    positions = range(len(args)) if op.promotes is True else tuple(op.promotes or ())
    dtype = result_dtype(
        args[i]._array if isinstance(args[i], Tensor) else args[i] for i in positions
    )
    if op.to_float and dtype.kind != "f":
        dtype = get_default_dtype()
    found = list(args)
    for i in positions:
        if isinstance(args[i], Tensor):
            if args[i]._array.dtype != dtype:
                found[i] = cast(args[i], dtype=dtype)
        elif dtype.kind == "f" and not isinstance(args[i], float):
            found[i] = float(args[i])
    return tuple(found)


def apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Compute an op on tensors and record it if one of them needs a gradient."""
    quick = _QUICK.get(op)
    if quick is not None:
        return quick(*args)
    return apply_any(op, args, attrs)


def apply_any(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """`apply` for every op and every kind of operand."""
    if op.attributes and not attrs:
        args, attrs = op._bind(args, attrs)
    args = tuple([a if isinstance(a, Tensor) else operand(a, op) for a in args])
    if op.promotes and not _same_float(args):
        args = _promoted(op, args)
    arrays = []
    needs = False
    for argument in args:
        if isinstance(argument, Tensor):
            if argument._view is not None:
                refresh(argument)
            arrays.append(argument._array)
            needs = needs or argument._requires_grad or argument._node is not None
        else:
            arrays.append(argument)
    try:
        result = quietly(op.forward, *arrays, **attrs)
    except ValueError as error:
        raise shape_mismatch(op, args, error) from None
    code, position = caller()
    if needs and state.grad_enabled and op.differentiable:
        return record(op, args, arrays, attrs, result, code, position)
    outputs = []
    for index, array in enumerate(_results(op, result)[: len(result) if op.multiple else 1]):
        tensor = wrap(array)
        tensor.code, tensor.position = code, position
        if op.view:
            _hang_on(tensor, args[0], op, attrs, index)
        outputs.append(tensor)
    return tuple(outputs) if op.multiple else outputs[0]


def _same_float(args: Sequence[Any]) -> bool:
    """Whether all operands are tensors of one float dtype, or plain floats."""
    dtype = None
    for argument in args:
        if isinstance(argument, Tensor):
            if argument._array.dtype not in _FLOATS or dtype not in (None, argument._array.dtype):
                return False
            dtype = argument._array.dtype
        elif argument.__class__ is bool:
            return False
    return dtype is not None


def _results(op: Op, result: Any) -> list[np.ndarray[Any, Any]]:
    """Outputs, then residuals, as arrays (NumPy gives scalars for 0-d)."""
    many = result if op.multiple or op.residuals else (result,)
    return [r if r.__class__ is np.ndarray else np.asarray(r) for r in many]


def _hang_on(tensor: Any, source: Any, op: Op, attrs: dict[str, Any], index: int) -> None:
    """If the result shares memory with its source, remember the base."""
    array, other = tensor._array, source._array
    owner = array.base
    if array is not other and (owner is None or (owner is not other and owner is not other.base)):
        return
    link = ((op, attrs, index),)
    above = source._view
    if above is None:
        tensor._view = View(source, source._node, link)
    else:
        tensor._view = View(above.base, above.base._node, above.chain + link)


def record(
    op: Op,
    args: tuple[Any, ...],
    arrays: list[Any],
    attrs: dict[str, Any],
    result: Any,
    code: CodeType | None,
    position: int,
    target: Any = None,
) -> Any:
    """Make the node of an operation and the tensors of its outputs.

    With `target`, the (only) output is that existing tensor, just changed in place.
    """
    sources: list[Any] = []
    picks = []
    metas: list[Any] = []
    for argument, array in zip(args, arrays, strict=True):
        if array.__class__ is np.ndarray and (
            argument._node is not None or argument._requires_grad
        ):
            sources.append(argument._node or argument)
            picks.append(argument._index)
            metas.append((array.shape, array.dtype))
        else:
            sources.append(None)
            picks.append(0)
            metas.append(None)
    results = [target._array] if target is not None else _results(op, result)
    plan = op.plan(tuple([s is not None for s in sources]))
    node = Node()
    node.op = op
    node.attrs = attrs
    node.inputs = tuple(sources)
    node.picks = tuple(picks)
    node.many = op.multiple
    node.plan = plan
    node.saved = plan.save(arrays, results)
    node.metas = tuple(metas)
    count = len(results) - len(op.residuals)
    node.out_metas = tuple([(r.shape, r.dtype) for r in results[:count]])
    node.hooks = None
    node.label = ""
    node.clock = node.out_clock = clock.now
    node.code = code
    node.position = position
    if state.listener is not None:
        state.listener(node)
    if target is not None:
        target._node, target._index = node, 0
        return target
    outputs = []
    for index, array in enumerate(results[:count]):
        # An integer output, such as the indices of max, has no gradient.
        tensor = wrap(array, node if array.dtype.kind == "f" else None, index)
        if op.view:
            _hang_on(tensor, args[0], op, attrs, index)
        outputs.append(tensor)
    return tuple(outputs) if op.multiple else outputs[0]


# -- the quick path -----------------------------------------------------------------------------
# Most calls are elementwise ops on float tensors of one dtype. For those the general functions
# above spend longer on questions than NumPy on the answer, so here the questions are asked once,
# when the function is made; whatever is not the plain case goes to `apply_any`.


def _quick_unary(op: Op) -> Callable[[Any], Any]:
    forward = op.forward
    plan = op.plan((True,))
    save = plan.save

    def unary(x: Any) -> Any:
        array = x._array
        if array.dtype not in _FLOATS or x._view is not None:
            return apply_any(op, (x,), _NONE)
        out = quietly(forward, array)
        if out.__class__ is not np.ndarray:
            out = np.asarray(out)
        source = x._node or (x if x._requires_grad else None)
        tensor = Tensor.__new__(Tensor)
        if source is None or not state.grad_enabled:
            tensor._set(out, None, 0)
            tensor.code, tensor.position = caller()
            return tensor
        node = Node()
        tensor._set(out, node, 0)
        node.op = op
        node.attrs = _NONE
        node.inputs = (source,)
        node.picks = (x._index,)
        node.many = False
        node.plan = plan
        node.saved = save((array,), (out,))
        node.metas = None
        node.out_metas = ((out.shape, out.dtype),)
        node.hooks = None
        node.label = ""
        node.clock = node.out_clock = clock.now
        node.code, node.position = caller()
        if state.listener is not None:
            state.listener(node)
        return tensor

    return unary


def _quick_binary(op: Op) -> Callable[[Any, Any], Any]:
    forward = op.forward
    plans = {
        (one, other): op.plan((one, other)) for one in (False, True) for other in (False, True)
    }

    def binary(x: Any, y: Any) -> Any:
        source = other = None
        first, second = x, y
        if isinstance(x, Tensor):
            first = x._array
            dtype = first.dtype
            source = x._node or (x if x._requires_grad else None)
            if dtype not in _FLOATS or x._view is not None:
                return apply_any(op, (x, y), _NONE)
            if isinstance(y, Tensor):
                second = y._array
                other = y._node or (y if y._requires_grad else None)
                if second.dtype is not dtype or y._view is not None:
                    return apply_any(op, (x, y), _NONE)
            elif y.__class__ is not float and y.__class__ is not int:
                return apply_any(op, (x, y), _NONE)
        else:
            second = y._array
            other = y._node or (y if y._requires_grad else None)
            number = x.__class__ is float or x.__class__ is int
            if second.dtype not in _FLOATS or y._view is not None or not number:
                return apply_any(op, (x, y), _NONE)
        try:
            out = quietly(forward, first, second)
        except ValueError as error:
            raise shape_mismatch(op, (x, y), error) from None
        if out.__class__ is not np.ndarray:
            out = np.asarray(out)
        tensor = Tensor.__new__(Tensor)
        if (source is None and other is None) or not state.grad_enabled:
            tensor._set(out, None, 0)
            tensor.code, tensor.position = caller()
            return tensor
        node = Node()
        tensor._set(out, node, 0)
        node.op = op
        node.attrs = _NONE
        node.inputs = (source, other)
        node.picks = (
            0 if source is None else x._index,
            0 if other is None else y._index,
        )
        node.many = False
        node.plan = plan = plans[source is not None, other is not None]
        node.saved = plan.save((first, second), (out,))
        shape = out.shape
        one = shape if source is None else first.shape
        two = shape if other is None else second.shape
        dtype = out.dtype
        node.metas = None if one == shape == two else ((one, dtype), (two, dtype))
        node.out_metas = ((shape, dtype),)
        node.hooks = None
        node.label = ""
        node.clock = node.out_clock = clock.now
        node.code, node.position = caller()
        if state.listener is not None:
            state.listener(node)
        return tensor

    return binary


_QUICK: dict[Op, Callable[..., Any]] = {}


def adopt(tensor_class: Any) -> None:
    """Called by tensor.py with its class: from here on ops on tensors work."""
    global Tensor
    Tensor = tensor_class
    Tensor._apply = staticmethod(apply)
    for op in TABLE.values():
        if op.elementwise and op.differentiable and not op.attributes and None not in op.rules:
            _QUICK[op] = _quick_unary(op) if len(op.inputs) == 1 else _quick_binary(op)
    names = {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv"}
    for name, operator in names.items():
        quick = _QUICK[TABLE[name]]
        setattr(Tensor, f"__{operator}__", quick)
        setattr(Tensor, f"__r{operator}__", lambda x, y, quick=quick: quick(y, x))
