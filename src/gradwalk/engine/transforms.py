"""Function transforms: grad, vjp, jvp. They nest to any order.

Each runs the function once on fresh stand-ins for its arguments and differentiates the recorded
graph. A stand-in for a tensor that itself needs a gradient stays tied to it, so an outer transform
(or backward) differentiates through the inner one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.allocator import keep_freed_memory
from gradwalk.engine.backward import walk
from gradwalk.engine.errors import AutogradError, made_at, name_of
from gradwalk.engine.jvp import push
from gradwalk.engine.modes import beside, enable_grad, filled, inside_vmap, no_grad, state
from gradwalk.engine.tree import leaves, mapped, rebuild
from gradwalk.graph.abstract import own_copy
from gradwalk.graph.order import inputs_first
from gradwalk.ops.core.dtypes import get_default_dtype
from gradwalk.ops.elementwise.complex_numbers import turned
from gradwalk.ops.shape.reshaping import alias

Function = Callable[..., Any]
Argnums = int | Sequence[int]


class TransformRun:
    """One run of a function on stand-ins: its outputs, and how to differentiate them."""

    def __init__(self, function: Function, args: tuple[Any, ...], keywords: dict[str, Any],
                 argnums: tuple[int, ...], has_aux: bool, *, forward: bool = False,
                 ) -> None:  # fmt: skip
        recording = state.here.grad_enabled  # inside no_grad nothing is tied to the outer graph
        if len({number % len(args) for number in argnums if args}) != len(argnums):
            raise ValueError(f"argnums {argnums} names one of {len(args)} argument(s) twice")
        arguments = list(args)
        with enable_grad():
            for number in argnums:
                arguments[number] = mapped(lambda t: _stand_in(t, recording), _at(args, number))
            self.inputs = [t for number in argnums for t in leaves(arguments[number])]
            self.starts = self.inputs
            if forward:  # which follows the function also where it changes an argument
                for number in argnums:
                    arguments[number] = mapped(changeable, arguments[number])
                moving = [t for number in argnums for t in leaves(arguments[number])]
                self.starts = [gradients.wrap(t._array, t.grad_fn, t._index) for t in moving]
            result = function(*arguments, **keywords)
        for stand_in in self.inputs:
            stand_in._over = True
        self.aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(
                    f"has_aux=True: the function returns a tuple (result, aux), not {_what(result)}"
                )
            result, self.aux = result
        self.result = result
        self.outputs = [_checked_output(o) for o in leaves(result)]
        self.graph = recording and self._reaches_outside()
        if not self.graph:  # no outer transform uses the graph: detach other results
            self.aux = mapped(lambda t: released(t) if hasattr(t, "_array") else t, self.aux)

    def _reaches_outside(self) -> bool:
        """Whether an outer transform may differentiate through this run: then keep the graph.

        The stand-ins of runs inside this one are over, and no one differentiates by them.
        """
        if any(i._node is not None for i in self.inputs):
            return True
        ours = set(self.inputs)
        results = [*self.outputs, *(t for t in leaves(self.aux) if hasattr(t, "_array"))]
        roots = [o.grad_fn or o for o in results if o.requires_grad]
        ends = (n for n in inputs_first(roots, ours) if not n.inputs and n not in ours)
        return not all(getattr(n, "_over", False) for n in ends)

    def pull(self, cotangents: Sequence[Any], retain: bool) -> list[Any]:
        """Cotangents of the outputs to gradients of the inputs, zeros where nothing arrives."""
        keep_freed_memory()
        arrived: dict[Any, Any] = {}
        roots = []
        # The gradients are functions of the cotangents too, which may need a gradient themselves.
        tied = self.graph or any(cotangent.requires_grad for cotangent in cotangents)
        graph = tied and state.here.grad_enabled
        for output, cotangent in zip(self.outputs, cotangents, strict=True):
            if output.requires_grad:
                seed = turned(cotangent if graph else cotangent._array)
                roots.append((output.grad_fn or output, output._index, seed))
        ends = {i._node or i for i in self.inputs}
        with enable_grad() if graph else no_grad(), np.errstate(all="ignore"):
            walk(
                roots, arrived.__setitem__, gradients.wrap, wanted=ends, stop=ends,
                graph=graph, retain=retain or self.graph,
            )  # fmt: skip
        pulled = [turned(arrived.get(i._node or i)) for i in self.inputs]
        return [_gradient(g, i, graph) for g, i in zip(pulled, self.inputs, strict=True)]

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the inputs to tangents of the outputs, zeros where nothing arrives."""
        with enable_grad(), np.errstate(all="ignore"):
            moved = push(self.outputs, self.starts, tangents)
        tied = state.here.grad_enabled and any(t.requires_grad for t in tangents)
        keep = self.graph or tied
        return [
            gradients.wrap(filled(o.shape, o.dtype, 0, o._array))
            if t is None
            else (t if keep else released(t))
            for o, t in zip(self.outputs, moved, strict=True)
        ]

    def widest(self) -> int:
        """How many elements the largest tensor between inputs and outputs has."""
        roots = [o.grad_fn or o for o in self.outputs if o.requires_grad]
        passed = inputs_first(roots, set(self.inputs))
        return max((math.prod(node.shape) for node in passed), default=1)

    def value(self) -> Any:
        """The result; detached if no outer transform needs its graph."""
        return self.result if self.graph else mapped(released, self.result)


def _gradient(g: Any, of: Any, graph: bool) -> Any:
    """What arrived at an input, as a tensor of its own."""
    if g is None:
        return gradients.wrap(filled(of.shape, of.dtype, 0, of._array))
    return g if graph else gradients.wrap(own_copy(g))


def _what(result: Any) -> str:
    several = isinstance(result, (tuple, list))
    return f"a {type(result).__name__}" + (f" of {len(result)}" if several else "")


def _at(args: tuple[Any, ...], number: int) -> Any:
    if not -len(args) <= number < len(args):
        raise ValueError(f"argnums names argument {number}, but there are {len(args)}")
    return args[number]


def _stand_in(argument: Any, recording: bool) -> Any:
    if not hasattr(argument, "_array"):
        if isinstance(argument, (bool, int)) or not isinstance(argument, (float, np.ndarray)):
            raise TypeError(
                f"cannot differentiate with respect to {argument!r} ({type(argument).__name__}); "
                "expected a floating-point tensor or a float"
            )
        dtype = argument.dtype if isinstance(argument, np.ndarray) else get_default_dtype()
        argument = gradients.wrap(np.array(argument, dtype))
    argument = inside_vmap(argument)
    if argument.requires_grad and recording:
        return alias(argument)
    fresh = gradients.wrap(argument._shared())
    fresh._keeps_layout = True  # on the memory of the argument
    fresh.code, fresh.position, fresh.label = argument.code, argument.position, argument.label
    fresh.requires_grad = True  # raises for integers
    return fresh


def changeable(stand_in: Any) -> Any:
    """A stand-in that may be changed in place: not the leaf itself, whose old value a gradient
    would belong to. One that is tied to a graph outside stays as it is."""
    if stand_in._node is not None:
        return stand_in
    tensor = alias(stand_in)
    tensor._view = None
    tensor._keeps_layout = True  # on the memory of the argument
    return tensor


def released(tensor: Any) -> Any:
    """A result without the graph of this transform; a transform around a vmap still follows it."""
    return tensor.detach() if state.here.level is None else gradients.wrap(tensor._array)


def _checked_output(output: Any) -> Any:
    if not hasattr(output, "_array"):
        raise TypeError(
            f"the function returned {type(output).__name__}; a transform needs tensors "
            "(for other results use has_aux=True)"
        )
    return output


def argument_numbers(argnums: Argnums) -> tuple[int, ...]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not numbers:
        raise ValueError("argnums names no argument. Fix: an integer, or a tuple of them.")
    return numbers


def like_arguments(args: tuple[Any, ...], argnums: Argnums, results: list[Any]) -> Any:
    """Results in the containers of the arguments; a tuple if argnums is one."""
    parts = iter(results)
    built = tuple(rebuild(args[n], parts) for n in argument_numbers(argnums))
    return built[0] if isinstance(argnums, int) else built


def value_and_grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that returns both the value and the gradient of `func`.

    >>> import gradwalk as gw
    >>> gw.value_and_grad(lambda x: x**2)(gw.tensor(3.0))
    (tensor(9.), tensor(6.))
    """

    @functools.wraps(func)
    def both(*args: Any, **keywords: Any) -> Any:
        run = TransformRun(func, args, keywords, argument_numbers(argnums), has_aux)
        if len(run.outputs) != 1 or run.outputs[0].numel() != 1 or run.outputs[0].is_complex():
            shapes = [tuple(o.shape) for o in run.outputs]
            name = getattr(func, "__name__", repr(func))
            raise AutogradError(
                f"grad needs a function that returns one number, a real one; {name} returned "
                f"shape(s) {shapes}. Fix: reduce the result (.sum(), .mean()), or use jacrev."
            )
        (output,) = run.outputs
        one = gradients.wrap(filled(output.shape, output.dtype, 1, output._array))
        gradient = like_arguments(args, argnums, run.pull([one], retain=False))
        value = run.value()
        return ((value, run.aux), gradient) if has_aux else (value, gradient)

    return both


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of `func`, in the containers of its argument.

    >>> import gradwalk as gw
    >>> gw.grad(gw.grad(lambda x: x**3))(gw.tensor(2.0))
    tensor(12.)
    """
    both = value_and_grad(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args: Any, **keywords: Any) -> Any:
        value, gradients = both(*args, **keywords)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value, and a function from cotangents of the result to those of the arguments.

    >>> import gradwalk as gw
    >>> value, pull = gw.vjp(lambda x: x**2, gw.tensor([1.0, 2.0]))
    >>> pull(gw.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    run = TransformRun(func, primals, {}, tuple(range(len(primals))), has_aux)

    def pull(cotangents: Any) -> tuple[Any, ...]:
        listed = _matching("cotangent", leaves(cotangents), run.outputs)
        gradients = iter(run.pull(listed, retain=True))
        return tuple(rebuild(p, gradients) for p in primals)

    return (run.value(), pull, run.aux) if has_aux else (run.value(), pull)


def jvp(
    func: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The value, and how it moves when the arguments move along `tangents`.

    >>> import gradwalk as gw
    >>> gw.jvp(lambda x: x**2, (gw.tensor(3.0),), (gw.tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("jvp takes tuples: jvp(f, (x,), (direction,))")
    numbers = tuple(range(len(primals)))
    run = TransformRun(func, tuple(primals), {}, numbers, has_aux, forward=True)
    if not run.inputs or not run.outputs:
        raise ValueError("jvp: the function takes and returns at least one tensor")
    listed = _matching("tangent", leaves(tangents), run.inputs)
    moved = rebuild(run.result, iter(run.push(listed)))
    return (run.value(), moved, run.aux) if has_aux else (run.value(), moved)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """The value, and a function from tangents of the arguments to those of the result.

    `func` runs once, here; each call of what is returned is one forward sweep.

    >>> import gradwalk as gw
    >>> value, push = gw.func.linearize(lambda x: x**2, gw.tensor(3.0))
    >>> push(gw.tensor(1.0)), push(gw.tensor(2.0))
    (tensor(6.), tensor(12.))
    """
    run = TransformRun(func, primals, {}, tuple(range(len(primals))), False)
    if not run.inputs or not run.outputs:
        raise ValueError("linearize: the function takes and returns at least one tensor")

    def push_tangents(*tangents: Any) -> Any:
        listed = _matching("tangent", leaves(tangents), run.inputs)
        return rebuild(run.result, iter(run.push(listed)))

    return run.value(), push_tangents


def _matching(what: str, given: list[Any], expected: list[Any]) -> list[Any]:
    if len(given) != len(expected):
        raise ValueError(f"{len(expected)} {what}(s) expected, got {len(given)}")
    listed = []
    for g, e in zip(given, expected, strict=True):
        if not hasattr(g, "_array"):
            g = gradients.wrap(beside(np.asarray(g, e.dtype), e._array))
        if g.shape != e.shape:
            raise ValueError(
                f"a {what} of shape {g.shape} for {name_of(e)}: they must be equal "
                f"(made at {made_at(e._node or e)})"
            )
        listed.append(g.to(e.dtype))
    return listed


def hvp(func: Function, primals: Any, tangents: Any) -> Any:
    """The Hessian times a direction, without forming the Hessian: forward over reverse.

    >>> import gradwalk as gw
    >>> gw.hvp(lambda x: (x**3).sum(), gw.tensor([1.0, 2.0]), gw.tensor([1.0, 0.0]))
    tensor([6., 0.])
    """
    several = isinstance(primals, (tuple, list))
    points = tuple(primals) if several else (primals,)
    directions = tuple(tangents) if several else (tangents,)
    gradient = grad(func, tuple(range(len(points))))
    moved = jvp(gradient, points, directions)[1]
    return moved if several else moved[0]
