"""Applying ops to tensors: compute the result and, if a gradient may be needed, record it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from gradwalk.engine.errors import shape_mismatch, stale_view
from gradwalk.engine.modes import current, enable_grad, quietly
from gradwalk.graph.abstract import AbstractArray, AbstractNumber
from gradwalk.graph.node import Node
from gradwalk.graph.source import caller, where_text
from gradwalk.graph.versions import View, clock, owner_of
from gradwalk.ops.core.check import check_use
from gradwalk.ops.core.dtypes import (
    LAST_PLAIN,
    bool_,
    category,
    complex_of,
    float32,
    get_default_dtype,
    has_gradients,
    has_numpy_numbers,
    held_by,
    is_complex_dtype,
    is_floating,
    result_dtype,
)
from gradwalk.ops.core.halves import FACTORS, PRODUCTS, computed, half_of
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.signature import ForeignOperand
from gradwalk.ops.network.convolution import is_batch_last
from gradwalk.ops.shape.reshaping import cast
from gradwalk.scalar.value import Value, value_beside_tensor
from gradwalk.tensors.autocast import autocast_operands

# The class that wraps results; tensor.py, which imports this module, puts it here.
Tensor: Any = None

_new = object.__new__
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def wrap(array: Any, node: Any = None, index: int = 0) -> Any:
    """A tensor on an array, as output `index` of a node; of a leaf, that leaf itself."""
    if node is not None and not node.inputs:
        return node
    tensor = _new(Tensor)
    tensor._array = array
    tensor._node = node
    tensor._index = index
    return tensor


def refresh(tensor: Any) -> None:
    """Make the history of a view again if its base was changed in place since."""
    view = tensor._view
    if view is None or view.base._node is view.base_node:
        return
    if owner_of(view.base._array) is not owner_of(tensor._array):  # x.data = ... moved the base
        tensor._view = None
        return
    if view.base._view is not None or view.lock:
        if current().grad_enabled:
            raise stale_view(tensor, view)
        return
    view_again: Any = view.base
    with enable_grad():  # the base has a history, so the view has one, also inside no_grad
        for op, attrs, index in view.chain:
            view_again = op(view_again, **attrs)
            view_again = view_again[index] if op.multiple else view_again
    move_retained(tensor, view_again._node, view_again._index)
    tensor._node, tensor._index = view_again._node, view_again._index
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
    if isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, AbstractNumber):
        return current().tracer.number_beside(value, args)
    if isinstance(value, AbstractArray):
        return wrap(value)
    if isinstance(value, np.ndarray):
        category(value.dtype)
        return wrap(np.asarray(value))
    if isinstance(value, Value):
        raise value_beside_tensor(op.name, value, next(a for a in args if isinstance(a, Tensor)))
    sparse = getattr(value, "is_sparse", False)  # whose own operators take tensors
    kind = ForeignOperand if sparse or not hasattr(value, "_apply") else TypeError
    raise kind(
        f"{op.name} of a Tensor and a {type(value).__name__}: expected a Tensor, a number or an "
        "ndarray"
    )


def in_common_dtype(op: Op, args: Sequence[Any]) -> tuple[Any, ...]:
    """Operands cast to their common dtype, a recorded cast each."""
    positions = range(len(args)) if op.promotes is True else tuple(op.promotes or ())
    dtype = result_dtype(
        args[i]._array if isinstance(args[i], Tensor) else args[i] for i in positions
    )
    if op.to_float and not has_gradients(dtype):
        dtype = get_default_dtype()
    promoted = list(args)
    if not any(isinstance(args[i], Tensor) for i in positions):  # where(condition, 1.0, 0.0)
        for i in positions:
            promoted[i] = wrap(np.asarray(args[i], dtype))
        return tuple(promoted)
    for i in positions:
        if isinstance(args[i], Tensor):
            if args[i]._array.dtype != dtype:
                promoted[i] = cast(args[i], dtype=dtype)
        elif is_floating(dtype) and not isinstance(args[i], float):
            promoted[i] = float(args[i])
        elif dtype.itemsize < 8 and op.gives is not bool_ and args[i].__class__ is int:
            promoted[i] = held_by(dtype, args[i])  # NumPy refuses uint8 + 300; comparing is exact
    return tuple(promoted)


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
    if has_numpy_numbers(attrs):
        attrs = {k: v.item() if isinstance(v, np.generic) else v for k, v in attrs.items()}
    here = current()
    machine = machine_of(args)
    batched = machine is not None and machine.depth > 0
    if batched:
        args = machine.lifted(args)
    elif here.tracer is not None:
        machine = here.tracer
    elif machine is not None:
        machine.check_devices(op, args)
    try:
        args = tuple([a if isinstance(a, Tensor) else operand(a, op, args) for a in args])
    except ForeignOperand:
        for argument in args:
            if getattr(argument, "is_sparse", False):  # add(tensor, sparse), as the operators
                return argument._apply(op, args, attrs)
        raise
    if here.autocast is not None:
        args = autocast_operands(here, op, args, attrs, machine)
    if op.promotes and not _same_float(args):
        args = in_common_dtype(op, args)
    compute = op.forward
    if machine is not None:
        machine.capture(*args)
        if not op.array_only:
            compute = machine.forward(op)
        elif (whole := machine.whole(op, args)) is not None:
            op, compute = whole, whole.forward  # made of ops of the machine
        else:  # its definition in other ops can be compiled, and differentiated
            return _expanded(machine, op, args, attrs)
    elif op.view:
        row_major(args[0])
    arrays = []
    needs = unusual = False
    for argument in args:
        if isinstance(argument, Tensor):
            if argument._view is not None:
                refresh(argument)
            array = argument._array
            arrays.append(array)
            unusual = unusual or array.dtype.num > LAST_PLAIN
            needs = needs or argument._requires_grad or argument._node is not None
        else:
            arrays.append(argument)
    if op.native is not None and machine is None and op.native.is_large(arrays):
        compute = op.native
    watcher = None if batched else here.watcher  # of vmap, it sees the ops on all samples
    keeper = here.tracer if batched else machine
    real_only = keeper is not None or watcher is not None
    if real_only:
        if op.gives is complex_of:
            raise complex_refused(f"{op.name} makes", keeper is not None)
        _check_real(f"{op.name} of", arrays, keeper)
    if unusual:
        chosen = op.for_operands(arrays)
        if chosen is not op and machine is not None:
            compute = machine.forward(chosen)
        op = chosen
    if watcher is not None:
        watcher.began()
    try:
        if unusual and machine is None:
            result = quietly(computed, op, arrays, attrs)
        else:
            result = quietly(compute, *arrays, **attrs)
    except ValueError as error:
        raise shape_mismatch(op, args, error) from None
    if machine is None and not (op.elementwise or op.keeps_order):
        result = _in_rows(result, arrays[0] if op.view else None)
    if real_only:
        _check_real(f"{op.name} makes", result if op.multiple else (result,), keeper)
    if not op.checked and machine is None:
        check_use(op, arrays, result, attrs)
    code, position = caller()
    edges = () if watcher is None else watcher.operands(args)
    if needs and here.grad_enabled and op.differentiable:
        outputs = record(op, args, arrays, attrs, result, code, position)
    else:
        outputs = _unrecorded(op, args, attrs, result, code, position)
    if watcher is not None:
        watcher.made(op, edges, attrs, outputs if op.multiple else (outputs,), code, position)
    return outputs


def _check_real(what: str, arrays: Iterable[Any], keeper: Any) -> None:
    """Raise for complex operands or results of an op that is compiled, on a device or recorded."""
    if any(is_complex_dtype(a.dtype) for a in arrays if hasattr(a, "dtype")):
        raise complex_refused(what, keeper is not None)


def complex_refused(what: str, compiled: bool) -> NotImplementedError:
    """The error for complex numbers where only real ones can be."""
    where = "compiled code and code on a device" if compiled else "a recording"
    return NotImplementedError(
        f"{what} complex numbers: {where} cannot hold them yet.\n  at:   {where_text(*caller())}\n"
        "Fix: run this part eagerly on the CPU, or compute with pairs of real numbers "
        "(gradwalk.view_as_real)."
    )


def _expanded(machine: Any, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """An op through its definition in other ops: of halves in float32, so that it rounds once.
    Products stay products of halves; what is between those of recurrent layers is float32."""
    half = half_of([a._array for a in args if isinstance(a, Tensor)])
    if half is None or (op.name in PRODUCTS and op.name not in FACTORS):
        return machine.expanded(op, args, attrs)
    machine.capture(*args)
    factors = FACTORS.get(op.name, ())
    wide = tuple([
        cast(a, dtype=float32) if getattr(a, "dtype", None) == half and i not in factors else a
        for i, a in enumerate(args)
    ])  # fmt: skip
    made = machine.expanded(op, wide, attrs)
    several = made if op.multiple else (made,)
    outputs = [cast(t, dtype=half) if is_floating(t.dtype) else t for t in several]
    return tuple(outputs) if op.multiple else outputs[0]


def machine_of(things: Sequence[Any]) -> Any:
    """What computes with batched tensors, of the innermost vmap, or with tensors on a device; None
    if NumPy does."""
    found: Any = None
    for thing in things:
        array: Any = thing._array if isinstance(thing, Tensor) else None
        if array is None or array.__class__ is np.ndarray or isinstance(array, np.generic):
            continue
        deeper = array.depth > (0 if found is None else found.depth)
        if deeper or (found is None and array.on_device):
            found = array.machine
    return found


def _unrecorded(
    op: Op, args: Sequence[Any], attrs: dict[str, Any], result: Any, code: Any, position: int
) -> Any:
    """The outputs of an operation that no gradient flows through."""
    outputs = []
    results = _results(op, result)
    for index, array in enumerate(results[: len(results) - len(op.residuals)]):
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
            own_dtype = argument._array.dtype
            # `is not None`, because to NumPy float64 equals None
            if own_dtype not in FLOATS or (dtype is not None and dtype != own_dtype):
                return False
            dtype = own_dtype
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


def row_major(tensor: Any) -> None:
    """Before others share the memory of a result: a convolution leaves the batch last, and
    PyTorch's programs count on views of rows.

    Every place that hands out the memory of a tensor calls this first: later the tensor cannot
    move without its views. A tensor on the memory of another one has `_view` or `_keeps_layout`.
    """
    array = tensor._array
    if array.__class__ is not np.ndarray or array.ndim < 3 or array.flags.c_contiguous:
        return
    if tensor._view is None and not tensor._keeps_layout and is_batch_last(array):
        tensor._array = np.ascontiguousarray(array)


def _in_rows(result: Any, source: Any = None) -> Any:
    """The outputs of an op with their elements in row-major order, as PyTorch's have them, so that
    `view` works on them; a view of `source` stays as it is. NumPy's follow the order of the
    operands, which PyTorch's do for elementwise ops alone. A convolution's wait until its memory
    is asked for: see `row_major`.
    """
    if result.__class__ is tuple:
        return tuple([_in_rows(array, source) for array in result])
    if result.__class__ is not np.ndarray or result.ndim < 2 or result.flags.c_contiguous:
        return result
    if source is None:
        waits = result.ndim > 2 and is_batch_last(result)
    else:
        waits = owner_of(result) is owner_of(source)
    return result if waits else np.ascontiguousarray(result)


def _hang_on(tensor: Any, source: Any, op: Op, attrs: dict[str, Any], index: int) -> None:
    """If the result shares memory with its source, remember the base."""
    array, other = tensor._array, source._array
    if array is not other and (array.base is None or owner_of(array) is not owner_of(other)):
        return
    link = ((op, attrs, index),)
    above = source._view
    lock = "" if current().grad_enabled else "it was made inside no_grad()"
    if above is None or (source._requires_grad and source._node is None):  # a leaf is a base
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
    listener = current().listener
    if listener is not None:
        listener(node)
    if target is not None:
        target._node, target._index = node, 0
        return target
    outputs = []
    for index, array in enumerate(results[:count]):
        # An integer output, such as the indices of max, has no gradient.
        flows = array.dtype in FLOATS or has_gradients(array.dtype)
        tensor = wrap(array, node if flows else None, index)
        if op.view:
            _hang_on(tensor, args[0], op, attrs, index)
        outputs.append(tensor)
    return tuple(outputs) if op.multiple else outputs[0]


def adopt(tensor_class: Any) -> None:
    """Called by tensor.py with its class: from here on ops on tensors work."""
    global Tensor
    Tensor = tensor_class
    Tensor._apply = staticmethod(apply)
