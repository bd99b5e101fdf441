"""autograd.Function: an operation with its own backward, written in Python."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.errors import AutogradError, made_at, name_of
from gradwalk.engine.hooks import read_only
from gradwalk.engine.modes import enable_grad, filled, no_grad, state
from gradwalk.engine.pull import fit
from gradwalk.graph.node import Node
from gradwalk.graph.source import caller
from gradwalk.graph.versions import View, clock
from gradwalk.ops.core.dtypes import has_gradients
from gradwalk.ops.elementwise.complex_numbers import turned


class Context:
    """`ctx`: what forward passes to backward. Any attribute may be set on it."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._to_save: tuple[Any, ...] = ()
        self._for_forward: tuple[Any, ...] | None = None
        self._flat: set[int] = set()
        self._dirty: set[int] = set()
        self._materialize = True
        self._restore: Callable[[], tuple[Any, ...]] | None = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (inputs, outputs or others) for backward, guarded against changes."""
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept."""
        return self._to_save if self._restore is None else self._restore()

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """PyTorch's older name of `saved_tensors`."""
        return self.saved_tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`, which also reads them as `saved_tensors`."""
        self._for_forward = tensors

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Declare outputs that have no gradient."""
        self._flat |= {id(o) for o in outputs}

    def mark_dirty(self, *inputs: Any) -> None:
        """Declare inputs that forward changes in place and returns: they go on as its results."""
        self._dirty |= {id(i) for i in inputs}

    def set_materialize_grads(self, value: bool) -> None:
        """Whether unused outputs give zeros (the default) or None to backward."""
        self._materialize = value


class _FunctionOp:
    """The op of a node made by a Function: its rule is the class's `backward`."""

    elementwise = False
    broadcasts = True  # a gradient of the shape that an input is repeated to is summed
    variadic = True
    array_only = False
    multiple = True
    inputs = ("input",)
    outputs: tuple[str, ...] = ()

    def __init__(self, function: type[Function], context: Context) -> None:
        self.function = function
        self.context = context
        self.name = function.__name__

    def pull(self, node: Any, g: list[Any], wrap: Callable[..., Any] | None) -> list[Any]:
        """Run the user's backward and check what it returns."""
        graph = wrap is not None
        tensors = []
        given = next(part for part in g if part is not None)
        beside = getattr(given, "_array", given)
        for part, (shape, dtype) in zip(g, node.out_metas, strict=True):
            if part is None and self.context._materialize and has_gradients(dtype):
                part = filled(shape, dtype, 0, beside)
            tensors.append(None if part is None else read_only(turned(part), gradients.wrap))
        context = self.context
        context._restore = functools.partial(_restore, node)
        try:
            # Inside vmap, a transform around it may follow what this one does not.
            with enable_grad() if graph or state.here.level is not None else no_grad():
                result = self.function._pull()(context, *tensors)
        finally:
            context._restore = None
        listed = list(result) if isinstance(result, (tuple, list)) else [result]
        while len(listed) > len(node.inputs) and listed[-1] is None:
            listed.pop()
        if len(listed) != len(node.inputs):
            raise AutogradError(
                f"{self.name}.backward returned {len(listed)} gradient(s) for "
                f"{len(node.inputs)} input(s) of forward; return one each, None where there is "
                f"none.\n  made at:   {made_at(node)}"
            )
        return [self._checked(node, i, c, graph) for i, c in enumerate(listed)]

    @property
    def pushes(self) -> bool:
        """Whether the class says itself how its outputs move."""
        return self.function.jvp is not Function.jvp

    def push(self, node: Any, tangents: list[Any]) -> list[Any]:
        """Run the user's jvp: the tangents of the outputs from those of the inputs."""
        context, moving = self.context, list(tangents)
        for place, meta in enumerate(node.metas):
            if moving[place] is None and meta is not None and context._materialize:
                shape, dtype = meta
                moving[place] = gradients.wrap(filled(shape, dtype, 0))
        context._restore = functools.partial(_restore, node, forward=True)
        try:
            result = self.function.jvp(context, *moving)
        finally:
            context._restore = None
        moved = list(result) if isinstance(result, (tuple, list)) else [result]
        for place, (tangent, (shape, _)) in enumerate(zip(moved, node.out_metas, strict=False)):
            if tangent is not None and tuple(tangent.shape) != shape:
                raise AutogradError(
                    f"{self.name}.jvp returned a tangent of shape {tuple(tangent.shape)} for "
                    f"output {place}, which has shape {shape}.\n  made at:   {made_at(node)}"
                )
        if len(moved) != len(node.out_metas):
            raise AutogradError(
                f"{self.name}.jvp returned {len(moved)} tangent(s) for {len(node.out_metas)} "
                f"output(s) of forward; return one each.\n  made at:   {made_at(node)}"
            )
        return moved

    def _checked(self, node: Any, position: int, contribution: Any, graph: bool) -> Any:
        if contribution is None or node.inputs[position] is None:
            return None
        if not hasattr(contribution, "_node"):
            contribution = gradients.wrap(np.asarray(contribution))
        contribution = fit(contribution, node, position)
        return turned(contribution if graph else contribution._array)


def _restore(node: Any, forward: bool = False) -> tuple[Any, ...]:
    """The saved tensors, tied to the graph again; those for `jvp`, if there are any, for it."""
    saved = node.saved
    restore, arrays = saved.get("tensors", ()), saved.get("saved_tensors", ())
    if forward and "saved_for_forward" in saved:
        restore, arrays = saved["forward"], saved["saved_for_forward"]
    return tuple(restored(node, array) for restored, array in zip(restore, arrays, strict=True))


class Function:
    """A differentiable operation with its own `forward` and `backward`, called by `apply`.

    >>> import gradwalk as gw
    >>> class Double(gw.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> x = gw.tensor([1.0], requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor([2.])

    Inside `vmap`, `generate_vmap_rule = True` runs forward and backward on batched tensors; they
    must be made of operations on tensors. Or a static method `vmap(info, in_dims, *args)` computes
    all samples, and returns the outputs and along which dimensions their samples lie.
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(ctx: Any, *args: Any, **keywords: Any) -> Any:
        """Compute the result; `ctx` takes notes for backward."""
        raise NotImplementedError("a Function needs a static method forward(ctx, ...)")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Take notes for backward, if `forward` takes no `ctx`: PyTorch's second style."""

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """One gradient per input of forward, None where there is none."""
        raise NotImplementedError("a Function needs a static method backward(ctx, ...)")

    vjp = backward  # another name for it

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """One tangent per output, from one per input. Without it, forward mode uses `backward`."""
        raise NotImplementedError("a Function needs a static method jvp(ctx, ...)")

    @classmethod
    def _forward(cls, context: Context, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if cls.setup_context is Function.setup_context:
            return cls.forward(context, *args, **keywords)
        result = cls.forward(*args)
        cls.setup_context(context, args, result)
        return result

    @classmethod
    def _pull(cls) -> Callable[..., Any]:
        """The class's `backward`, or its `vjp`."""
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise TypeError(f"{cls.__name__} defines both backward and vjp: keep one of them")
        return cls.vjp

    @classmethod
    def apply(cls, *args: Any, **keywords: Any) -> Any:
        """Run forward without recording it, and record this function in its place."""
        if cls.setup_context is not Function.setup_context:
            # Its inputs are all of forward's, by position, defaults included.
            bound = inspect.signature(cls.forward).bind(*args, **keywords)
            bound.apply_defaults()
            args, keywords = bound.args, {}
        needs = tuple(getattr(a, "requires_grad", False) for a in args)
        for name, value in keywords.items():
            if getattr(value, "requires_grad", False):
                raise TypeError(
                    f"{cls.__name__}.apply: '{name}' needs a gradient and must be passed by "
                    "position: backward returns one gradient per positional argument"
                )
        levels = [a._array.machine for a in args if getattr(_array_of(a), "depth", 0) > 0]
        if levels:  # inside vmap
            innermost = max(levels, key=lambda level: level.depth)
            made = innermost.apply_function(cls, args, keywords)
            if made is not NotImplemented:
                return made
        context = Context(needs)
        with no_grad():
            result = cls._forward(context, args, keywords)
        several = isinstance(result, (tuple, list))
        outputs = list(result) if several else [result]
        op = _FunctionOp(cls, context)
        watcher = state.here.watcher
        edges = () if watcher is None else watcher.operands(args)
        if not (any(needs) and state.here.grad_enabled):
            if watcher is not None:
                watcher.made(op, edges, {}, tuple(outputs), *caller())
            return result
        node = Node()
        node.op = op
        sources = [(a.grad_fn or a) if n else None for a, n in zip(args, needs, strict=True)]
        node.inputs = tuple(sources)
        node.picks = tuple([a._index if n else 0 for a, n in zip(args, needs, strict=True)])
        node.metas = tuple(
            [(a.shape, a.dtype) if n else None for a, n in zip(args, needs, strict=True)]
        )
        node.many = True
        node.plan = None
        metas = [
            (o.shape, o.dtype) if hasattr(o, "_array") else ((), np.dtype(object)) for o in outputs
        ]
        (node.shape, node.dtype), *others = metas
        node.other_metas = tuple(others)
        node.clock = clock.now
        node.code, node.position = caller()
        tied = [_tied(o, index, node, args, context) for index, o in enumerate(outputs)]
        node.saved = {}
        if context._to_save:
            node.saved["tensors"] = [_kept(t, args, outputs) for t in context._to_save]
            node.saved["saved_tensors"] = tuple(
                None if t is None else t._array for t in context._to_save
            )
        if context._for_forward is not None:
            kept = context._for_forward
            node.saved["forward"] = [_kept(t, args, outputs) for t in kept]
            node.saved["saved_for_forward"] = tuple(None if t is None else t._array for t in kept)
        context._to_save, context._for_forward = (), None
        if state.here.listener is not None:
            state.here.listener(node)
        if watcher is not None:
            watcher.made(op, edges, {}, tuple(tied), node.code, node.position)
        return (tied if isinstance(result, list) else tuple(tied)) if several else tied[0]


def _array_of(argument: Any) -> Any:
    return getattr(argument, "_array", None)


def _tied(output: Any, index: int, node: Any, args: tuple[Any, ...], context: Context) -> Any:
    """Tie an output of forward to the node; keep anything that is not a tensor."""
    if not hasattr(output, "_array"):
        return output
    if id(output) in context._dirty and any(output is a for a in args):
        return _moved_on(output, index, node)
    flat = not has_gradients(output.dtype) or id(output) in context._flat
    # A new tensor: a result that is one of the inputs must not keep that input's history.
    array = output._shared() if any(output is a for a in args) else output._array
    tensor = gradients.wrap(array, None if flat else node, index)
    for argument in args:
        if hasattr(argument, "_array") and np.may_share_memory(argument._array, output._array):
            base = argument if argument._view is None else argument._view.base
            lock = f"it was made inside {node.op.name}.forward"
            tensor._view = View(base, base._node, (), lock)
    return tensor


def _moved_on(tensor: Any, index: int, node: Any) -> Any:
    """An input that forward changed in place, with the history of a result."""
    if tensor._requires_grad and tensor._node is None:
        raise AutogradError(
            f"{node.op.name}.forward changed {name_of(tensor)} in place, a leaf that requires a "
            "gradient: its old value is what the gradient belongs to.\nFix: .clone() it first."
        )
    if tensor._view is not None:
        raise NotImplementedError(
            f"mark_dirty: {name_of(tensor)}, which {node.op.name}.forward changed in place, shares "
            "memory with another tensor.\nFix: .clone() it first."
        )
    tensor._node, tensor._index = node, index
    return tensor


def _kept(tensor: Any, args: tuple[Any, ...], outputs: list[Any]) -> Callable[..., Any]:
    """A function of a node and a saved array that restores the tensor, without a reference to it.

    A tensor of this graph would refer back to its own node, and one of a checkpointed region
    belongs to another run.
    """
    if tensor is None:
        return lambda node, array: None
    for index, output in enumerate(outputs):
        if tensor is output:
            return lambda node, array: gradients.wrap(array, node, index)
    for index, argument in enumerate(args):
        if tensor is argument:
            return lambda node, array: gradients.wrap(array, node.inputs[index], node.picks[index])
    if not tensor.requires_grad:
        return lambda node, array: gradients.wrap(array)
    own, pick = tensor.grad_fn or tensor, tensor._index
    return lambda node, array: gradients.wrap(array, own, pick)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `backward` that is not itself differentiable: a second derivative is an error."""

    @functools.wraps(backward)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        twice = state.here.grad_enabled
        with no_grad():
            result = backward(ctx, *grads)
        if not twice:
            return result
        several = isinstance(result, tuple)
        listed = list(result) if several else [result]
        refused = [r if r is None else _Refuse.apply(r, *grads) for r in listed]
        return tuple(refused) if several else refused[0]

    return wrapped


class _Refuse(Function):
    """Passes a gradient on and raises if it is differentiated."""

    @staticmethod
    def forward(ctx: Any, value: Any, *grads: Any) -> Any:
        return value

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise AutogradError(
            "a second derivative was asked of a Function whose backward is marked "
            "@once_differentiable. Fix: write that backward in differentiable operations and "
            "remove the mark."
        )
