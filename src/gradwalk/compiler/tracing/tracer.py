"""Tracer: takes the place of NumPy while a function is traced.

The engine reaches it as `state.here.tracer`; it is the thread's watcher too (engine/modes.py). It
captures every tensor that an operation meets: a Traced replaces its array until the trace ends,
when everything is put back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from gradwalk.compiler.capture.captured_tensors import CapturedTensor, Storage
from gradwalk.compiler.capture.guards import Variable, hooks_of
from gradwalk.compiler.capture.locations import ArgumentLocation, GradientLocation, TensorLocation
from gradwalk.compiler.capture.modules import CapturedModules
from gradwalk.compiler.capture.runtime_scalars import RuntimeScalar
from gradwalk.compiler.functional.functional_array import FunctionalArray, real_of
from gradwalk.compiler.functional.machine import Machine
from gradwalk.compiler.functional.memory_order import layout_of
from gradwalk.compiler.functional.whole_ops import WHOLE, kept
from gradwalk.compiler.ir.program import Builder, Constant, Memory, Operand, Scalar, Term, forward
from gradwalk.compiler.tracing.aliasing import view_chain
from gradwalk.compiler.tracing.errors import TraceError, numbers_wanted, untraceable
from gradwalk.compiler.tracing.random_calls import TracedStream
from gradwalk.compiler.tracing.traced import Traced, constant_of, leaked
from gradwalk.engine.errors import name_of
from gradwalk.engine.modes import state, switch
from gradwalk.graph.abstract import is_array, traces
from gradwalk.graph.source import caller
from gradwalk.graph.versions import owner_of
from gradwalk.ops.core.dtypes import float64, is_number, result_dtype
from gradwalk.ops.core.op import Op, UnknownShapeError
from gradwalk.ops.core.symbol import output_dtypes, output_shapes
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape import reshaping as shaping
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.devices import CPU, device, device_of

Shape = tuple[int, ...]


class ArgumentIsCaptured(BaseException):
    """A tensor that the function knows by itself is also one of its arguments: begin again."""

    def __init__(self, tensor: Any) -> None:
        super().__init__()
        self.tensor = tensor


class Tracer(Machine):
    """Records the operations of one run of a function as calls on terms."""

    Array, Value = Traced, Term

    def __init__(self, keeps_composites: bool = False) -> None:
        self.closed = False
        self.keeps_composites = keeps_composites  # where no gradient is asked for
        self.thread = threading.get_ident()
        self.device: Any = CPU  # of the arrays that it captures
        self.asked: Any = CPU  # to which the function moves tensors
        # For other threads, by the id of a traced array: itself, and the array that it stands for.
        self.outside: dict[int, tuple[Traced, Any]] = {}
        self._begin()

    def _begin(self) -> None:
        self.build = Builder()
        self.captured: dict[int, CapturedTensor] = {}  # by the id of the tensor
        self.storages: dict[int, Storage] = {}  # by the id of the owning array
        self.kept: list[Any] = []  # objects whose ids are keys
        self.scalars: list[tuple[Term, Any]] = []  # each runtime scalar and its location
        self.expressions: dict[Any, RuntimeScalar] = {}  # of runtime scalars, by key
        self.decisions: dict[Any, tuple[RuntimeScalar, bool]] = {}  # branches taken on them
        self.modules = CapturedModules()
        self.optimizers: dict[int, Any] = {}
        self.streams: dict[int, Any] = {}
        self.undo: list[Callable[[], None]] = []
        self.variables: dict[int, Variable] = {}  # by the id of the tensor that it refers to
        self.refusals: list[TraceError] = []  # raised so far
        self.given: set[int] = set()  # ids of the arguments that have stand-ins
        self.own_memories: set[int] = set()  # ids of arrays that count as owners

    # -- calls -------------------------------------------------------------------------------------

    def call(self, op: Op, args: Sequence[Operand], attrs: dict[str, Any]) -> Any:
        """The output of a new call."""
        self.build.line = caller()
        try:
            shapes = output_shapes(op, tuple(args), attrs)
        except UnknownShapeError as error:
            raise untraceable(
                f"the shape of the result of {op.name} depends on numbers that are only known "
                f"when the compiled function runs ({error}).",
                "keep the shape, with gradwalk.where(mask, x, 0), or compute this outside.",
            ) from None
        dtypes = output_dtypes(op, tuple(args), attrs, len(shapes))
        return self.build.apply_as(op, args, attrs, zip(shapes, dtypes, strict=True))

    def compute(self, op: Op, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Record op(*operands); return traced arrays for what NumPy would have computed."""
        if any(isinstance(o, Traced) and o.real() is not None for o in operands):
            return forward(op, [real_of(o) for o in operands], attrs)
        if self.closed:
            raise leaked(next(o for o in operands if isinstance(o, Traced)))
        for name, value in attrs.items():
            if isinstance(value, (RuntimeScalar, Traced)) and not op.array_only:
                raise untraceable(
                    f"{name}={value!r} of {op.name} must be a plain number.",
                    f"if it is an argument, name it in static= of gradwalk.compile; otherwise "
                    f"compute {name} outside the compiled function.",
                )
        return super().compute(op, operands, attrs)

    def whole(self, op: Op, args: Sequence[Any] = ()) -> Op | None:
        """A device runs some composites whole; code for the CPU is made of their definitions."""
        if self.keeps_composites and not state.here.grad_enabled:
            return kept(op)
        return None if self.device == CPU else WHOLE.get(op)

    def fitted(self, value: Any, shape: Shape, dtype: np.dtype[Any]) -> Term:
        """A value cast and broadcast; a runtime scalar too."""
        if isinstance(value, RuntimeScalar):
            value = Traced(self, self.cast_scalar(value, dtype))
        term: Term = super().fitted(value, shape, dtype)
        return term

    def unknown_function(self, name: str) -> Exception:
        """NumPy would need numbers that do not exist yet."""
        return untraceable(
            f"np.{name} inside a compiled function: NumPy needs values, and a compiled function is "
            "traced without them.",
            "use the gradwalk function on tensors, or call NumPy outside, on the result of the "
            "compiled function.",
        )

    def values(self, op: Op, operands: Sequence[Any]) -> list[Operand]:
        """The operands as terms and plain numbers; runtime scalars in the arrays' dtype."""
        terms: list[Any] = []
        for operand in operands:
            if isinstance(operand, (FunctionalArray, np.ndarray)):
                terms.append(self.array(operand).term)
            elif isinstance(operand, np.generic):
                terms.append(Term((), operand.dtype, source=Constant(np.asarray(operand))))
            else:
                terms.append(operand)
        if any(isinstance(t, RuntimeScalar) for t in terms):
            dtypes = [t.dtype for t in terms if isinstance(t, Term)]
            dtype = np.result_type(*dtypes, 1.0) if dtypes else float64
            terms = [
                self.cast_scalar(t, dtype) if isinstance(t, RuntimeScalar) else t for t in terms
            ]
        return terms

    def cast_scalar(self, scalar: RuntimeScalar, dtype: np.dtype[Any]) -> Term:
        """A runtime scalar in a dtype, as NumPy casts a Python number to that of an array."""
        if scalar.term.dtype == dtype:
            return scalar.term
        term: Term = self.call(shaping.cast, [scalar.term], {"dtype": dtype})
        return term

    # -- arrays ------------------------------------------------------------------------------------

    def array(self, thing: Any) -> Traced:
        """The traced array for an array; a real one is captured memory."""
        if isinstance(thing, Traced):
            if thing.tracer is not self:
                raise leaked(thing)
            return thing
        return self.lifted(thing if is_array(thing) else np.asarray(thing))

    def lifted(self, array: np.ndarray[Any, Any]) -> Traced:
        """Capture the memory that an array is, or is a view of."""
        owner = owner_of(array)
        if not owner.flags.writeable and owner.flags.owndata:  # it cannot change
            return self.constant(array)
        if id(array) in self.own_memories:
            owner = array
        if owner is array:
            chain: Any = []
        elif isinstance(array, FunctionalArray):
            chain = None if array.picked else list(array.chain)
        else:
            chain = view_chain(owner, array)
        if chain is None:  # capture it as memory of its own
            owner, chain = array, []
        traced = self._storage(owner).traced
        for link in chain:
            op, attrs, _ = link
            traced = traced.view_by(link, self.call(op, [traced.term], attrs))
        return traced

    def runs_on(self, where: device) -> None:
        """Note the device of a captured array: a program runs on one."""
        if self.device not in (CPU, where):
            raise untraceable(
                f"a compiled function uses tensors on two devices, {self.device} and {where}.",
                "move them to one device before the call.",
            )
        self.device = where

    def moves_to(self, where: device) -> None:
        """Note that a tensor is moved to a device, or made there: the program's, if at all."""
        if where != CPU:
            self.asked = where
        elif self.device != CPU:
            raise untraceable(
                f"a compiled function that runs on {self.device} moves a tensor to the CPU.",
                "return the tensor, and move it after the call.",
            )

    def check_device(self) -> None:
        """Raise if tensors are moved to another device than that of the captured arrays."""
        if self.asked not in (CPU, self.device):
            raise untraceable(
                f"a compiled function moves tensors to {self.asked}, and what it is given and uses "
                f"is on {self.device}.",
                f"move its arguments with .to({str(self.asked)!r}) before the call.",
            )

    def _storage(self, array: np.ndarray[Any, Any]) -> Storage:
        """The captured memory that an array owns."""
        known = self.storages.get(id(array))
        if known is None:
            if isinstance(array, FunctionalArray):
                self.runs_on(device_of(array))
            self.kept.append(array)
            source = Term(array.shape, array.dtype, source=Memory(len(self.storages)))
            traced = Traced(self, source, layout_of(array))
            traced.writeable = array.flags.writeable
            known = self.storages[id(array)] = Storage(array, traced, source)
        return known

    def constant(self, array: Any) -> Traced:
        """A constant, for an array that the function makes of plain numbers."""
        if isinstance(array, Traced):
            return array
        if array.size > 1 and is_number(array.dtype):
            bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
            if (bits == bits.flat[0]).all():
                return self.filled(array.shape, array.dtype, array.flat[0])
        fixed = array.copy()
        fixed.flags.writeable = False
        return Traced(self, Term(array.shape, array.dtype, source=Constant(fixed)))

    def filled(self, shape: Shape, dtype: np.dtype[Any], number: Any) -> Traced:
        """An array filled with one number: an expanded 0-d constant."""
        if isinstance(number, (RuntimeScalar, Traced)):
            return Traced(self, self.fitted(number, shape, dtype))
        dtype = np.dtype(dtype)
        with np.errstate(all="ignore"):
            one = np.asarray(number).astype(dtype)
        one.flags.writeable = False
        term = Term((), dtype, source=Constant(one))
        if shape != ():
            term = self.call(shaping.expand_op, [term], {"shape": tuple(shape)})
        return Traced(self, term)

    # -- numbers -----------------------------------------------------------------------------------

    def runtime_scalar(self, location: Any, value: Any) -> RuntimeScalar:
        """The number at a location, read at every call."""
        term = Term((), float64, source=Scalar(len(self.scalars)))
        self.scalars.append((term, location))
        key = ("scalar", len(self.scalars))
        return RuntimeScalar(self, str(location), key, term, value, location.get, location)

    def combine(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> RuntimeScalar:
        """Record arithmetic on runtime scalars; equal expressions are one scalar."""
        if self.closed:
            raise TraceError("a number from a traced function was kept and used after the trace")
        keys = tuple(a.key if isinstance(a, RuntimeScalar) else (type(a), a) for a in args)
        key = (op.name, keys, tuple(attrs.items()))
        known = self.expressions.get(key)
        if known is None:
            values = [a.value if isinstance(a, RuntimeScalar) else a for a in args]
            terms = [a.term if isinstance(a, RuntimeScalar) else a for a in args]
            name = next(a.name for a in args if isinstance(a, RuntimeScalar))
            read = partial(_evaluate, op, tuple(args), attrs)
            term = self.call(op, terms, attrs)
            certain = all(a.known for a in args if isinstance(a, RuntimeScalar))
            known = self.expressions[key] = RuntimeScalar(
                self, name, key, term, op.on_numbers(values, attrs), read, known=certain
            )
        return known

    def choose(self, which: Any, one: Any, other: Any) -> RuntimeScalar:
        """One number or another, as the program finds a truth: a tensor or a runtime scalar."""
        truth = which.term if isinstance(which, RuntimeScalar) else which._array.term
        numbers = [n for n in (one, other) if isinstance(n, RuntimeScalar)]
        keys = [n.key if isinstance(n, RuntimeScalar) else n for n in (one, other)]
        key = ("choose", id(truth), *keys)
        known = self.expressions.get(key)
        if known is None:
            terms = [n.term if isinstance(n, RuntimeScalar) else n for n in (one, other)]
            term = self.call(where, [truth, *terms], {})
            first = numbers[0]
            known = self.expressions[key] = RuntimeScalar(
                self, first.name, key, term, first.value, first.read, known=False
            )
        return known

    def decide(self, number: RuntimeScalar) -> bool:
        """The truth of a scalar now, which the program is guarded by."""
        if not number.known:
            raise untraceable(
                f"a branch on {number!r}: it depends on gradients of this call.",
                "decide outside the compiled function; if an optimizer decides, make one step in "
                "each call.",
            )
        truth = bool(number.value)
        self.decisions[number.key] = (number, truth)
        return truth

    def number_beside(self, number: RuntimeScalar, args: Sequence[Any]) -> Any:
        """A runtime scalar as a tensor, in the dtype a Python float takes beside the others."""
        dtype = result_dtype([a._array for a in args if hasattr(a, "_array")] + [1.0])
        return wrap(Traced(self, self.cast_scalar(number, dtype)))

    # -- tensors -----------------------------------------------------------------------------------

    def capture(self, *things: Any) -> None:
        """Capture the tensors that come from outside the trace."""
        for tensor in things:
            array: Any = getattr(tensor, "_array", None)
            if array is None or getattr(array, "depth", 0) > 0:  # what vmap batched is in the trace
                continue
            if isinstance(array, Traced):
                if array.tracer is not self:
                    raise leaked(array)
            else:
                self._capture(tensor, self.variables.get(id(tensor)) or TensorLocation(tensor))

    def _capture(self, tensor: Any, location: Any, traced: Traced | None = None) -> CapturedTensor:
        if id(tensor) in self.given:
            raise ArgumentIsCaptured(tensor)
        captured = self.captured[id(tensor)] = CapturedTensor(tensor, location)
        if isinstance(location, TensorLocation):
            self.modules.hooked.append((tensor, hooks_of(tensor)))
        if traced is None:
            variable = isinstance(location, Variable)  # the next call may find another tensor there
            array = captured.array
            traced = self._storage(array).traced if variable else self.lifted(array)
            if id(array) in self.storages:
                self.storages[id(array)].locations.append(location)
        if not isinstance(location, ArgumentLocation):
            self.outside[id(traced)] = (traced, captured.array)
        captured.traced = tensor._array = traced
        if tensor._node is not None:  # it was computed outside: a leaf to this trace
            tensor._node, tensor._index, tensor._view = None, 0, None
            tensor._requires_grad = True
        return captured

    def capture_at(self, tensor: Any, location: Any) -> None:
        """Capture a tensor that later calls find at a location."""
        if not isinstance(tensor._array, Traced):
            self._capture(tensor, location)

    def _captured_tensor(self, tensor: Any) -> CapturedTensor | None:
        """Capture a tensor; None for one made in the trace."""
        self.capture(tensor)
        return self.captured.get(id(tensor))

    def records_write(self, tensor: Any) -> None:
        """A tensor is about to be changed in place, and backward will follow that."""
        if tensor._array.picked:
            raise tensor._array.unsure("changed in place by something that needs a gradient")

    def reads_grad(self, tensor: Any) -> None:
        """The function looks at `.grad`."""
        captured = self._captured_tensor(tensor)
        if captured is None or captured.grad_was != "untouched":
            return
        captured.grad_was = "read"
        if tensor._grad is not None:
            self.capture_at(tensor._grad, GradientLocation(captured.location))

    def writes_grad(self, tensor: Any) -> None:
        """The function replaces `.grad`: what it was before does not matter unless it was read."""
        captured = self._captured_tensor(tensor)
        if captured is not None and captured.grad_was == "untouched":
            captured.grad_was = "replaced"

    def steps(self, optimizer: Any) -> None:
        """An optimizer is about to make a step."""
        from gradwalk.compiler.capture.optimizers import capture_step

        capture_step(self, optimizer)

    def makes_module(self, module: Any) -> None:
        """The function makes a module of its own."""
        self.modules.new[id(module)] = module

    def sets_attribute(self, module: Any, name: str) -> None:
        """An attribute of a module is about to be set."""
        self.modules.sets(module, name)

    def stream(self, generator: Any) -> TracedStream:
        """The stream that records the draws of a generator."""
        known = self.streams.get(id(generator))
        if known is None:
            known = self.streams[id(generator)] = TracedStream(self, generator)
        return known

    def random_state(self, location: Any) -> Traced:
        """The seed and offset of a generator, as captured memory."""
        storage = self._storage(location.get([])._array)
        storage.locations.append(location)
        return storage.traced

    def refuse(self, what: str, fix: str) -> None:
        """Reject something that would happen once, and not in later calls."""
        raise untraceable(f"{what} inside a compiled function: it would happen only now, while "
                          "the function is traced.", fix)  # fmt: skip

    # -- what a watcher is told --------------------------------------------------------------------

    def operands(self, args: Any) -> Any:
        """The operands of an operation."""
        return args

    def entered_module(self, module: Any) -> None:
        """A module is called."""
        self.modules.enter(module)

    def _ignore(self, *what: Any) -> None:
        pass

    began = made = detached = left = sweeping = swept = _ignore
    visited = None  # it asks for no call after each visit

    def delivered(self, node: Any, g: Any) -> None:
        """A gradient is about to be added to `.grad`."""
        if hasattr(node, "_array"):
            self.reads_grad(node)
            if getattr(node, "original_has_hooks", False):
                raise untraceable(
                    f"a backward inside a compiled function reaches its argument {name_of(node)}, "
                    "which has a hook: the hooks of arguments are not called there.",
                    "change the gradient inside the function, or call backward outside.",
                )

    def taken_out(self, tensor: Any, how: str) -> None:
        """The function reads the numbers of a tensor."""
        array = tensor._array
        if isinstance(array, Traced) and constant_of(array.term) is not None:
            return
        location = (tensor.code, tensor.position)
        if tensor._node is not None:
            location = (tensor._node.code, tensor._node.position)
        raise numbers_wanted(how, f"{name_of(tensor)} ({tensor.dtype})", location)

    def restore(self) -> None:
        """Restore everything outside."""
        for captured in self.captured.values():
            captured.restore()
        for undo in reversed(self.undo):
            undo()
        self.modules.restore()

    def close(self) -> None:
        """Release everything; arrays that still refer to this tracer are leaked, and raise."""
        self._begin()
        self.closed = True


def _evaluate(op: Op, args: tuple[Any, ...], attrs: dict[str, Any], arguments: list[Any]) -> Any:
    """An expression of runtime scalars, computed for a call."""
    numbers = [a.read(arguments) if isinstance(a, RuntimeScalar) else a for a in args]
    return op.on_numbers(numbers, attrs)


@contextmanager
def tracing(tracer: Tracer) -> Iterator[None]:
    """Send this thread's operations to a tracer."""
    switch(tracer=tracer, watcher=tracer)
    traces.on = True
    try:
        yield
    finally:
        switch(tracer=None, watcher=None)
        traces.on = False
        tracer.restore()
        tracer.close()
