"""Applying ops to tensors: compute the result and, if a gradient may be asked for, record it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from gradwalk.engine.errors import mixed, shape_mismatch, stale_view
from gradwalk.engine.modes import enable_grad, quietly, state
from gradwalk.graph.abstract import AbstractArray, AbstractNumber
from gradwalk.graph.node import Node
from gradwalk.graph.source import caller, own_files
from gradwalk.graph.versions import View, clock, owner_of
from gradwalk.ops import TABLE
from gradwalk.ops.core.check import check_use
from gradwalk.ops.core.dtypes import (
    bool_,
    category,
    constant,
    get_default_dtype,
    held_by,
    result_dtype,
)
from gradwalk.ops.core.op import Op
from gradwalk.ops.shape.reshaping import cast
from gradwalk.tensors.devices import device

# The class that wraps results; tensor.py, which imports this module, puts it here.
Tensor: Any = None

_new = object.__new__
_getframe = sys._getframe
_NONE: dict[str, Any] = {}  # no attributes; shared, never written to
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def wrap(array: Any, node: Any = None, index: int = 0) -> Any:
    """A tensor on an array, as output `index` of a node; of a leaf, that leaf itself."""
    if node is not None and not node.inputs:
        return node
    tensor = _new(Tensor)
    tensor._array = array
    tensor._node = node
    tensor._index = index
    return tensor


def leaf(array: Any, requires_grad: bool = False, place: Any = None) -> Any:
    """A new tensor for the user, who is told the line it was made at if something goes wrong."""
    category(array.dtype)
    if state.here.tracer is not None:
        array = state.here.tracer.constant(array)
    if place is not None:
        device(place)  # raises unless it is the CPU
    tensor = wrap(array)
    tensor.code, tensor.position = caller()
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def refresh(tensor: Any) -> None:
    """Make the history of a view again if its base was changed in place since."""
    view = tensor._view
    if view is None or view.base._node is view.base_node:
        return
    if owner_of(view.base._array) is not owner_of(tensor._array):  # x.data = ... moved the base
        tensor._view = None
        return
    if view.lock:
        if state.here.grad_enabled:
            raise stale_view(tensor, view)
        return
    found: Any = view.base
    with enable_grad():  # this history is due whoever asks first, also inside no_grad
        for op, attrs, index in view.chain:
            found = op(found, **attrs)
            found = found[index] if op.multiple else found
    move_retained(tensor, found._node, found._index)
    tensor._node, tensor._index = found._node, found._index
    tensor._view = View(view.base, view.base._node, view.chain)


def move_retained(tensor: Any, node: Node | None, index: int) -> None:
    """`retain_grad` goes with a tensor that gets a new history; hooks stay with the old one."""
    old = tensor._node
    kept = (
        old.hooks.get(tensor._index, {}).pop(None, None) if old is not None and old.hooks else None
    )
    if kept is not None and node is not None:
        node.hooks = node.hooks or {}
        node.hooks.setdefault(index, {})[None] = kept


def operand(value: Any, op: Op, args: Sequence[Any]) -> Any:
    """An operand that is not a Tensor: a Python number stays weak, an array becomes a tensor."""
    if isinstance(value, np.generic):
        value = value.item()  # NumPy scalars are as weak as Python's
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, AbstractNumber):
        return state.here.tracer.number_beside(value, args)
    if isinstance(value, AbstractArray):
        return wrap(value)
    if isinstance(value, np.ndarray):
        category(value.dtype)
        return wrap(np.asarray(value))
    if hasattr(value, "_apply") and hasattr(value, "data"):  # a Value
        raise mixed(op.name, value, next(a for a in args if isinstance(a, Tensor)))
    if isinstance(value, complex):
        raise TypeError("complex numbers are not supported: gradwalk is about real derivatives")
    raise TypeError(
        f"{op.name} of a Tensor and a {type(value).__name__}: expected a Tensor, a number or an "
        "ndarray"
    )


def _promoted(op: Op, args: Sequence[Any]) -> tuple[Any, ...]:
    """Operands cast to their common dtype, a recorded cast each."""
    positions = range(len(args)) if op.promotes is True else tuple(op.promotes or ())
    dtype = result_dtype(
        args[i]._array if isinstance(args[i], Tensor) else args[i] for i in positions
    )
    if op.to_float and dtype.kind != "f":
        dtype = get_default_dtype()
    found = list(args)
    if not any(isinstance(args[i], Tensor) for i in positions):  # where(condition, 1.0, 0.0)
        for i in positions:
            found[i] = wrap(np.asarray(args[i], dtype))
        return tuple(found)
    for i in positions:
        if isinstance(args[i], Tensor):
            if args[i]._array.dtype != dtype:
                found[i] = cast(args[i], dtype=dtype)
        elif dtype.kind == "f" and not isinstance(args[i], float):
            found[i] = float(args[i])
        elif dtype.itemsize < 8 and op.gives is not bool_ and args[i].__class__ is int:
            found[i] = held_by(dtype, args[i])  # NumPy refuses uint8 + 300; comparing is exact
    return tuple(found)


def apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Compute an op on tensors and record it if one of them needs a gradient."""
    quick = op.quick.get(args[0].__class__)
    if quick is not None:
        return quick(*args, attrs) if attrs else quick(*args)
    return apply_any(op, args, attrs)


def apply_any(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """`apply` for every op and every kind of operand."""
    if op.attributes and not attrs:
        args, attrs = op._bind(args, attrs)
    args = tuple([a if isinstance(a, Tensor) else operand(a, op, args) for a in args])
    if op.promotes and not _same_float(args):
        args = _promoted(op, args)
    tracer = state.here.tracer
    if tracer is not None:
        if op.array_only:  # its definition in other ops can be compiled, and differentiated
            return op.expand(*args, **attrs)  # type: ignore[misc]
        tracer.capture(*args)
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
    if state.here.watcher is not None:
        state.here.watcher.began()
    try:
        compute = op.forward if tracer is None else tracer.forward(op)
        result = quietly(compute, *arrays, **attrs)
    except ValueError as error:
        raise shape_mismatch(op, args, error) from None
    if not op.checked and tracer is None:
        check_use(op, arrays, result, attrs)
    code, position = caller()
    if state.here.watcher is not None:
        return _watched(op, args, arrays, attrs, result, code, position, needs)
    if needs and state.here.grad_enabled and op.differentiable:
        return record(op, args, arrays, attrs, result, code, position)
    return _unrecorded(op, args, attrs, result, code, position)


def _unrecorded(
    op: Op, args: Sequence[Any], attrs: dict[str, Any], result: Any, code: Any, position: int
) -> Any:
    """The outputs of an operation through which no gradient will be asked for."""
    outputs = []
    results = _results(op, result)
    for index, array in enumerate(results[: len(results) - len(op.residuals)]):
        tensor = wrap(array)
        tensor.code, tensor.position = code, position
        if op.view:
            _hang_on(tensor, args[0], op, attrs, index)
        outputs.append(tensor)
    return tuple(outputs) if op.multiple else outputs[0]


def _watched(
    op: Op,
    args: tuple[Any, ...],
    arrays: list[Any],
    attrs: dict[str, Any],
    result: Any,
    code: Any,
    position: int,
    needs: bool,
) -> Any:
    """The same, and tell the recorder."""
    watcher = state.here.watcher
    edges = watcher.operands(args)
    if needs and state.here.grad_enabled and op.differentiable:
        found = record(op, args, arrays, attrs, result, code, position)
    else:
        found = _unrecorded(op, args, attrs, result, code, position)
    watcher.made(op, edges, attrs, found if op.multiple else (found,), code, position)
    return found


def _same_float(args: Sequence[Any]) -> bool:
    """Whether all operands are tensors of one float dtype, or plain floats."""
    dtype = None
    for argument in args:
        if isinstance(argument, Tensor):
            found = argument._array.dtype
            # `is not None`, because to NumPy float64 equals None
            if found not in _FLOATS or (dtype is not None and dtype != found):
                return False
            dtype = found
        elif argument.__class__ is bool:
            return False
    return dtype is not None


def _results(op: Op, result: Any) -> list[Any]:
    """Outputs, then residuals, as arrays (NumPy gives scalars for 0-d)."""
    many = result if op.multiple or op.residuals else (result,)
    return [
        r if r.__class__ is np.ndarray or isinstance(r, AbstractArray) else np.asarray(r)
        for r in many
    ]


def _hang_on(tensor: Any, source: Any, op: Op, attrs: dict[str, Any], index: int) -> None:
    """If the result shares memory with its source, remember the base."""
    array, other = tensor._array, source._array
    if array is not other and (array.base is None or owner_of(array) is not owner_of(other)):
        return
    link = ((op, attrs, index),)
    above = source._view
    lock = "" if state.here.grad_enabled else "it was made inside no_grad()"
    if above is None:
        tensor._view = View(source, source._node, link, lock)
    else:
        lock = above.lock or lock
        tensor._view = View(above.base, above.base._node, above.chain + link, lock)


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
        if isinstance(argument, Tensor) and (argument._node is not None or argument._requires_grad):
            sources.append(argument._node or argument)
            picks.append(argument._index)
            metas.append((array.shape, array.dtype))
        else:
            sources.append(None)
            picks.append(0)
            metas.append(None)
    results = [target._array] if target is not None else _results(op, result)
    plan = op.plan(tuple([s is not None for s in sources]))
    count = len(results) - len(op.residuals)
    node = Node()
    node.op = op
    node.inputs = tuple(sources)
    node.plan = plan
    several = op.multiple or op.residuals
    node.saved = plan.save(results if several else results[0], *arrays)
    node.metas = tuple(metas)
    node.shape, node.dtype = results[0].shape, results[0].dtype
    node.clock = clock.now
    node.code = code
    node.position = position
    node.picks = tuple(picks)
    if attrs:
        node.attrs = attrs
    if op.multiple:
        node.many = True
        node.other_metas = tuple([(r.shape, r.dtype) for r in results[1:count]])
    if state.here.listener is not None:
        state.here.listener(node)
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


def _quick_unary(op: Op) -> Callable[..., Any]:
    forward = op.forward
    plan = op.plan((True,))

    def unary(x: Any, attrs: dict[str, Any] = _NONE) -> Any:
        array = x._array
        if array.dtype not in _FLOATS or x._view is not None:
            return apply_any(op, (x,), attrs)
        here = state.here
        if here.watcher is not None:
            return apply_any(op, (x,), attrs)
        try:
            out = here.run(forward, array, **attrs) if attrs else here.run(forward, array)
        except RuntimeError:  # perhaps a forward inside a forward
            out = quietly(forward, array, **attrs)
        if out.__class__ is not np.ndarray:
            out = np.asarray(out)
        source = x._node or (x if x._requires_grad else None)
        tensor = _new(Tensor)
        tensor._array = out
        tensor._index = 0
        if source is None or not here.grad_enabled:
            tensor._node = None
            tensor.code, tensor.position = caller()
            return tensor
        tensor._node = node = Node()
        node.op = op
        node.inputs = (source,)
        node.plan = plan
        node.saved = plan.save(out, array)
        node.metas = None
        node.shape = out.shape
        node.dtype = out.dtype
        node.clock = clock.now
        node.code = None
        node.position = -1
        if own_files.recording:
            frame = _getframe(1)
            if own_files[frame.f_code.co_filename]:
                node.code, node.position = caller()
            else:
                node.code = frame.f_code
                node.position = frame.f_lasti
        if attrs:
            node.attrs = attrs
        if x._index:
            node.picks = (x._index,)
        if here.listener is not None:
            here.listener(node)
        return tensor

    return unary


def _quick_binary(op: Op) -> Callable[[Any, Any], Any]:
    forward = op.forward
    both, left, right = op.plan((True, True)), op.plan((True, False)), op.plan((False, True))

    def binary(x: Any, other: Any) -> Any:
        if isinstance(x, Tensor):
            first = x._array
            dtype = first.dtype
            source = x._node or (x if x._requires_grad else None)
            if isinstance(other, Tensor):
                second = other._array
                other_source = other._node or (other if other._requires_grad else None)
                if second.dtype is not dtype or other._view is not None:
                    return apply_any(op, (x, other), _NONE)
            else:
                if other.__class__ is not float and other.__class__ is not int:
                    return apply_any(op, (x, other), _NONE)
                second = constant(other, dtype)
                other_source = None
            if dtype not in _FLOATS or x._view is not None:
                return apply_any(op, (x, other), _NONE)
        else:
            second = other._array
            dtype = second.dtype
            number = x.__class__ is float or x.__class__ is int
            if dtype not in _FLOATS or other._view is not None or not number:
                return apply_any(op, (x, other), _NONE)
            first = constant(x, dtype)
            source = None
            other_source = other._node or (other if other._requires_grad else None)
        here = state.here
        if here.watcher is not None:
            return apply_any(op, (x, other), _NONE)
        try:
            out = here.run(forward, first, second)
        except ValueError as error:
            raise shape_mismatch(op, (x, other), error) from None
        except RuntimeError:
            out = quietly(forward, first, second)
        if out.__class__ is not np.ndarray:
            out = np.asarray(out)
        tensor = _new(Tensor)
        tensor._array = out
        tensor._index = 0
        if (source is None and other_source is None) or not here.grad_enabled:
            tensor._node = None
            tensor.code, tensor.position = caller()
            return tensor
        tensor._node = node = Node()
        node.op = op
        node.inputs = (source, other_source)
        node.plan = plan = right if source is None else left if other_source is None else both
        node.saved = plan.save(out, first, second)
        node.shape = shape = out.shape
        node.dtype = dtype
        node.metas = None
        if (source is not None and first.shape != shape) or (
            other_source is not None and second.shape != shape
        ):
            node.metas = ((np.shape(first), dtype), (np.shape(second), dtype))
        node.clock = clock.now
        node.code = None
        node.position = -1
        if own_files.recording:
            frame = _getframe(1)
            if own_files[frame.f_code.co_filename]:
                node.code, node.position = caller()
            else:
                node.code = frame.f_code
                node.position = frame.f_lasti
        if (source is not None and x._index) or (other_source is not None and other._index):
            node.picks = (
                0 if source is None else x._index,
                other._index if other_source is not None else 0,
            )
        if here.listener is not None:
            here.listener(node)
        return tensor

    return binary


def adopt(tensor_class: Any) -> None:
    """Called by tensor.py with its class: from here on ops on tensors work."""
    global Tensor
    Tensor = tensor_class
    Tensor._apply = staticmethod(apply)
    for op in TABLE.values():
        if not op.elementwise or None in op.rules or len(op.inputs) > 2:
            continue
        if len(op.inputs) == 2 and op.attributes:
            continue
        quick = _quick_unary(op) if len(op.inputs) == 1 else _quick_binary(op)
        op.quick[Tensor] = quick
        method = getattr(Tensor, op.name, None)
        # `add`, `sub`, `div`, `pow` and what has attributes take more than operands as methods;
        # where the second operand is not `other` (clamp_min), the method has its name.
        more = op.attributes or op.name in ("add", "sub", "div", "pow")
        if method is not None and not more and op.inputs[1:] in ((), ("y",)):
            quick.__name__, quick.__doc__ = op.name, method.__doc__
            setattr(Tensor, op.name, quick)
    for name, operator in {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv"}.items():
        quick = TABLE[name].quick[Tensor]
        setattr(Tensor, f"__{operator}__", quick)
        setattr(Tensor, f"__r{operator}__", lambda x, y, quick=quick: quick(y, x))
    for name in ("neg", "abs"):
        setattr(Tensor, f"__{name}__", TABLE[name].quick[Tensor])
