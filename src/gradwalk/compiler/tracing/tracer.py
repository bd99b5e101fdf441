"""Tracer: what the engine meets in place of NumPy while a function is traced.

It is found as `state.here.tracer`, and is the thread's watcher too (engine/modes.py). Every tensor
that an operation meets is *held*: its array is replaced by a Traced one until the trace ends, when
everything is put back as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradwalk.compiler.capture.captured import Held, Storage
from gradwalk.compiler.capture.locations import OfGradient, OfTensor
from gradwalk.compiler.capture.modules import HeldModules, hooks_of
from gradwalk.compiler.capture.runtime_scalars import Number
from gradwalk.compiler.capture.variables import Variable
from gradwalk.compiler.ir.program import Builder, Constant, Late, Memory, Operand, Term
from gradwalk.compiler.tracing.array_layout import way_to
from gradwalk.compiler.tracing.errors import TraceError, numbers_wanted, untraceable
from gradwalk.compiler.tracing.random_calls import TracedStream
from gradwalk.compiler.tracing.traced import Chain, Traced, constant_of, leaked
from gradwalk.engine.errors import name_of
from gradwalk.engine.modes import no_grad, state
from gradwalk.graph.abstract import is_array, traces
from gradwalk.graph.source import caller
from gradwalk.graph.versions import owner_of
from gradwalk.ops.core.dtypes import float64, result_dtype
from gradwalk.ops.core.op import Op, UnknownShapeError
from gradwalk.ops.core.symbol import output_dtypes, output_shapes
from gradwalk.ops.shape import reshaping as shaping
from gradwalk.tensors.apply import wrap

Shape = tuple[int, ...]


class GivenToo(BaseException):
    """A tensor that the function knows by itself is one of its arguments, too: begin again."""

    def __init__(self, tensor: Any) -> None:
        super().__init__()
        self.tensor = tensor


class Tracer:
    """Notes the operations of one run of a function as calls on terms."""

    def __init__(self) -> None:
        self.closed = False
        self._begin()

    def _begin(self) -> None:
        self.build = Builder()
        self.held: dict[int, Held] = {}  # by the id of the tensor
        self.storages: dict[int, Storage] = {}  # by the id of the owning array
        self.kept: list[Any] = []  # what must live as long as its id is a key
        self.lates: list[tuple[Term, Any]] = []  # (term, place) of each late-bound number
        self.numbers: dict[Any, Number] = {}  # by the expression they are
        self.decisions: dict[Any, tuple[Number, bool]] = {}  # which way branches on them went
        self.modules = HeldModules()
        self.optimizers: dict[int, Any] = {}
        self.streams: dict[int, Any] = {}
        self.undo: list[Callable[[], None]] = []
        self.variables: dict[int, Variable] = {}  # by the id of the tensor that it holds
        self.refusals: list[TraceError] = []  # that were raised so far
        self.given: set[int] = set()  # ids of the tensors that stand-ins stand for

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
                "keep the shape, with gradwalk.where(mask, x, 0), or do this outside.",
            ) from None
        dtypes = output_dtypes(op, tuple(args), attrs, len(shapes))
        return self.build.apply_as(op, args, attrs, zip(shapes, dtypes, strict=True))

    def forward(self, op: Op) -> Callable[..., Any]:
        """What takes the place of `op.forward`."""

        def compute(*operands: Any, **attrs: Any) -> Any:
            return self.compute(op, operands, attrs)

        return compute

    def compute(self, op: Op, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """op(*operands) as traced arrays: what NumPy would have computed."""
        if self.closed:
            raise leaked(next(o for o in operands if isinstance(o, Traced)))
        if op.array_only:
            return self._expanded(op, operands, attrs)
        if op is shaping.alias:
            return self.array(operands[0])
        for name, value in attrs.items():
            if isinstance(value, (Number, Traced)):
                raise untraceable(
                    f"{name}={value!r} of {op.name} must be a plain number.",
                    f"if it is an argument, name it in static= of gradwalk.compile; otherwise "
                    f"compute {name} outside the compiled function.",
                )
        if op.attributes and len(attrs) < len(op.attributes):
            attrs = {**op.defaults, **attrs}
        args = self._common(op, self._terms(op, operands))
        source = operands[0]
        if op.view and len(operands) == 1:
            viewed = self.array(source)
            found = self.call(op, args, attrs)
            if viewed.copied_by(op, attrs):
                return Traced(self, found)
            parts = found if op.multiple else (found,)
            views = [viewed.view_by((op, attrs, i), t) for i, t in enumerate(parts)]
            return tuple(views) if op.multiple else views[0]
        found = self.call(op, args, attrs)
        arrays = [o for o in operands if isinstance(o, Traced)]
        straight = op is shaping.clone or (
            all(a.contiguous for a in arrays) and not op.name.startswith("conv")
        )
        if op.multiple:
            return tuple(Traced(self, t, straight) for t in found)
        return Traced(self, found, straight)

    def _expanded(self, op: Op, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """An op whose own rule or residuals have no meaning here, through its definition."""
        with no_grad():
            tensors = [wrap(self.array(o)) if is_array(o) else o for o in operands]
            found = op.expand(*tensors, **attrs)  # type: ignore[misc]
        return tuple(t._array for t in found) if op.multiple else found._array

    def _terms(self, op: Op, operands: Sequence[Any]) -> list[Operand]:
        """The operands as terms and plain numbers; late-bound numbers in the arrays' dtype."""
        found: list[Any] = []
        for operand in operands:
            if isinstance(operand, (Traced, np.ndarray)):
                found.append(self.array(operand).term)
            elif isinstance(operand, np.generic):
                found.append(Term((), operand.dtype, source=Constant(np.asarray(operand))))
            else:
                found.append(operand)
        if any(isinstance(f, Number) for f in found):
            dtypes = [f.dtype for f in found if isinstance(f, Term)]
            dtype = np.result_type(*dtypes, 1.0) if dtypes else float64
            found = [self.number_term(f, dtype) if isinstance(f, Number) else f for f in found]
        return found

    def number_term(self, number: Number, dtype: np.dtype[Any]) -> Term:
        """A late-bound number in a dtype, as NumPy casts a Python number to that of an array."""
        if number.term.dtype == dtype:
            return number.term
        found: Term = self.call(shaping.cast, [number.term], {"dtype": dtype})
        return found

    def _common(self, op: Op, args: list[Operand]) -> list[Operand]:
        """The operands in one dtype, as NumPy chooses it, so that no call promotes."""
        if not op.promotes:
            return args
        positions = range(len(args)) if op.promotes is True else tuple(op.promotes)
        mixed = [args[i] for i in positions]
        dtypes = {a.dtype for a in mixed if isinstance(a, Term)}
        plain = all(isinstance(a, Term) or (type(a) is int) for a in mixed)
        if len(dtypes) == 1 and (next(iter(dtypes)).kind == "f" or (plain and not op.to_float)):
            return args
        dtype = np.result_type(*(a.dtype if isinstance(a, Term) else a for a in mixed))
        if op.to_float and dtype.kind != "f":
            dtype = float64
        found = list(args)
        for i in positions:
            operand = args[i]
            if isinstance(operand, Term) and operand.dtype != dtype:
                found[i] = self.call(shaping.cast, [operand], {"dtype": dtype})
        return found

    def follow(self, term: Term, chain: Chain) -> Term:
        """What a view shows of the term its owner holds now."""
        for op, attrs, index in chain:
            found = self.call(op, [term], attrs)
            term = found[index] if op.multiple else found
        return term

    def fitted(self, value: Any, shape: Shape, dtype: np.dtype[Any]) -> Term:
        """A value cast and broadcast, as NumPy does on assignment."""
        if isinstance(value, Number):
            term = self.number_term(value, dtype)
        elif isinstance(value, (Traced, np.ndarray)):
            term = self.array(value).term
        else:
            return self.filled(shape, dtype, value)._term
        if term.dtype != dtype:
            term = self.call(shaping.cast, [term], {"dtype": dtype})
        if term.shape != shape:
            if len(term.shape) > len(shape) and term.size == np.prod(shape):
                term = self.call(shaping.reshape, [term], {"shape": shape})  # leading ones
            if np.broadcast_shapes(term.shape, shape) != shape:
                raise ValueError(f"shape {term.shape} does not fit {shape}")
            if term.shape != shape:
                term = self.call(shaping.expand_op, [term], {"shape": shape})
        return term

    # -- arrays ------------------------------------------------------------------------------------

    def array(self, thing: Any) -> Traced:
        """What stands for an array: captured memory, if it is a real one."""
        if isinstance(thing, Traced):
            if thing.tracer is not self:
                raise leaked(thing)
            return thing
        return self.lifted(np.asarray(thing))

    def lifted(self, array: np.ndarray[Any, Any]) -> Traced:
        """The captured memory that an array is, or is a view of."""
        owner = owner_of(array)
        if not owner.flags.writeable and owner.flags.owndata:  # nobody can change it
            return self.constant(array)
        known = self.storages.get(id(owner))
        if known is not None and owner is array:
            return known.traced
        if owner is not array:
            way = way_to(owner, array)
            if way is None:  # it cannot be said as a view: memory of its own
                owner = array
            else:
                traced = (known or self._captured(owner)).traced
                for link in way:
                    op, attrs, _ = link
                    traced = traced.view_by(link, self.call(op, [traced.term], attrs))
                return traced
        known = self.storages.get(id(owner))
        return (known or self._captured(owner)).traced

    def _captured(self, array: np.ndarray[Any, Any]) -> Storage:
        self.kept.append(array)
        source = Term(array.shape, array.dtype, source=Memory(len(self.storages)))
        traced = Traced(self, source, array.flags.c_contiguous)
        traced.writeable = array.flags.writeable
        storage = self.storages[id(array)] = Storage(array, traced, source)
        return storage

    def constant(self, array: Any) -> Traced:
        """A new array that the function made of plain numbers."""
        if isinstance(array, Traced):
            return array
        if array.size > 1 and array.dtype.kind in "fiub":
            bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
            if (bits == bits.flat[0]).all():
                return self.filled(array.shape, array.dtype, array.flat[0])
        fixed = array.copy()
        fixed.flags.writeable = False
        return Traced(self, Term(array.shape, array.dtype, source=Constant(fixed)))

    def filled(self, shape: Shape, dtype: np.dtype[Any], number: Any) -> Traced:
        """One number everywhere: a 0-d constant, spread out."""
        if isinstance(number, (Number, Traced)):
            return Traced(self, self.fitted(number, shape, dtype))
        dtype = np.dtype(dtype)
        with np.errstate(all="ignore"):
            one = np.asarray(number).astype(dtype)
        one.flags.writeable = False
        term = Term((), dtype, source=Constant(one))
        if shape != ():
            term = self.call(shaping.expand_op, [term], {"shape": tuple(shape)})
        return Traced(self, term)

    def holding(self, term: Term) -> Traced:
        """An array of its own that holds a term."""
        return Traced(self, term)

    def known_array(self, array: Traced) -> np.ndarray[Any, Any] | None:
        """The numbers of a traced array, if they are the same in every call."""
        return constant_of(array.term)

    # -- numbers -----------------------------------------------------------------------------------

    def late(self, place: Any, value: Any) -> Number:
        """The number at a place, read at every call."""
        term = Term((), float64, source=Late(len(self.lates)))
        self.lates.append((term, place))
        return Number(self, str(place), ("late", len(self.lates)), term, value, place.get)

    def combine(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> Number:
        """Arithmetic on late-bound numbers; equal expressions are one number."""
        if self.closed:
            raise TraceError("a number of a traced function was kept and used after the trace")
        keys = tuple(a.key if isinstance(a, Number) else (type(a), a) for a in args)
        key = (op.name, keys, tuple(attrs.items()))
        known = self.numbers.get(key)
        if known is None:
            value = op.on_numbers([a.value if isinstance(a, Number) else a for a in args], attrs)
            terms = [a.term if isinstance(a, Number) else a for a in args]
            name = next(a.name for a in args if isinstance(a, Number))
            read = partial(_evaluate, op, tuple(args), attrs)
            term = self.call(op, terms, attrs)
            known = self.numbers[key] = Number(self, name, key, term, value, read)
        return known

    def decide(self, number: Number) -> bool:
        """The truth of a number, now; the program is right only where it is the same."""
        truth = bool(number.value)
        self.decisions[number.key] = (number, truth)
        return truth

    def number_beside(self, number: Number, args: Sequence[Any]) -> Any:
        """A late-bound number as a tensor, in the dtype a Python float takes beside the others."""
        dtype = result_dtype([a._array for a in args if hasattr(a, "_array")] + [1.0])
        return wrap(Traced(self, self.number_term(number, dtype)))

    # -- tensors -----------------------------------------------------------------------------------

    def hold(self, *things: Any) -> None:
        """Replace the arrays of tensors that come from outside the trace."""
        for tensor in things:
            array = getattr(tensor, "_array", None)
            if array is None:
                continue
            if isinstance(array, Traced):
                if array.tracer is not self:
                    raise leaked(array)
            else:
                self._hold(tensor, self.variables.get(id(tensor)) or OfTensor(tensor))

    def _hold(self, tensor: Any, place: Any, traced: Traced | None = None) -> Held:
        if id(tensor) in self.given:
            raise GivenToo(tensor)
        held = self.held[id(tensor)] = Held(tensor, place)
        if isinstance(place, OfTensor):
            self.modules.hooked.append((tensor, hooks_of(tensor)))
        if traced is not None:
            held.traced = tensor._array = traced
        elif isinstance(place, Variable):  # the next call may find another, somewhere else
            known = self.storages.get(id(held.array))
            held.traced = tensor._array = (known or self._captured(held.array)).traced
        else:
            held.traced = tensor._array = self.lifted(held.array)
        storage = self.storages.get(id(held.array))
        if storage is not None and traced is None:
            storage.places.append(place)
        if tensor._node is not None:  # what made it lies outside: a leaf to this trace
            tensor._node, tensor._index, tensor._view = None, 0, None
            tensor._requires_grad = True
        return held

    def hold_at(self, tensor: Any, place: Any) -> None:
        """Replace the array of a tensor that is found again at a place."""
        if not isinstance(tensor._array, Traced):
            self._hold(tensor, place)

    def _held(self, tensor: Any) -> Held | None:
        """How a tensor from outside was before; None for one made in the trace."""
        self.hold(tensor)
        return self.held.get(id(tensor))

    def reads_grad(self, tensor: Any) -> None:
        """The function looks at `.grad`."""
        held = self._held(tensor)
        if held is None or held.grad_was != "untouched":
            return
        held.grad_was = "read"
        if tensor._grad is not None:
            self.hold_at(tensor._grad, OfGradient(held.place))

    def writes_grad(self, tensor: Any) -> None:
        """The function replaces `.grad`: what it was before does not matter unless it was read."""
        held = self._held(tensor)
        if held is not None and held.grad_was == "untouched":
            held.grad_was = "replaced"

    def steps(self, optimizer: Any) -> None:
        """An optimizer is about to make a step."""
        from gradwalk.compiler.capture.optimizers import hold_optimizer

        hold_optimizer(self, optimizer)

    def makes_module(self, module: Any) -> None:
        """The function makes a module of its own."""
        self.modules.new[id(module)] = module

    def sets_attribute(self, module: Any, name: str) -> None:
        """An attribute of a module is about to be set."""
        self.modules.sets(module, name)

    def stream(self, generator: Any) -> TracedStream:
        """What draws random numbers in place of a generator's own stream."""
        found = self.streams.get(id(generator))
        if found is None:
            found = self.streams[id(generator)] = TracedStream(self, generator)
        return found

    def random_state(self, place: Any) -> Traced:
        """The seed and offset of a generator, as captured memory that is found at its place."""
        storage = self._captured(place.get([])._array)
        storage.places.append(place)
        return storage.traced

    def refuse(self, what: str, fix: str) -> None:
        """Somebody does something that would happen once, and not in later calls."""
        raise untraceable(f"{what} inside a compiled function: only this once, while it is traced, "
                          "it would be done.", fix)  # fmt: skip

    # -- what a watcher is told --------------------------------------------------------------------

    def began(self) -> None:
        """An operation begins."""

    def operands(self, args: Any) -> Any:
        """The operands of an operation."""
        return args

    def made(self, *what: Any) -> None:
        """An operation was done."""

    def detached(self, *what: Any) -> None:
        """A tensor was cut off."""

    def entered_module(self, module: Any) -> None:
        """A module is called."""
        self.modules.enter(module)

    def left(self) -> None:
        """A module returns."""

    def sweeping(self, *what: Any) -> None:
        """A backward pass begins."""

    visited = None  # nothing to be told after each visit

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

    def swept(self) -> None:
        """A backward pass has ended."""

    def taken_out(self, tensor: Any, how: str) -> None:
        """Somebody wants the numbers of a tensor."""
        array = tensor._array
        if isinstance(array, Traced) and self.known_array(array) is not None:
            return
        place = (tensor.code, tensor.position)
        if tensor._node is not None:
            place = (tensor._node.code, tensor._node.position)
        raise numbers_wanted(how, f"{name_of(tensor)} ({tensor.dtype})", place)

    def restore(self) -> None:
        """Put everything outside back as it was."""
        for held in self.held.values():
            held.restore()
        for undo in reversed(self.undo):
            undo()
        self.modules.restore()

    def close(self) -> None:
        """Let go of everything; what still knows this tracer is leaked, and says so."""
        self._begin()
        self.closed = True


def _evaluate(op: Op, args: tuple[Any, ...], attrs: dict[str, Any], arguments: list[Any]) -> Any:
    """An expression of late-bound numbers, computed for a call."""
    return op.on_numbers([a.read(arguments) if isinstance(a, Number) else a for a in args], attrs)


class tracing:
    """Let this thread's operations go to a tracer, inside a `with`."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def __enter__(self) -> Tracer:
        here = state.here
        here.tracer = here.watcher = self.tracer
        traces.on = True
        return self.tracer

    def __exit__(self, *error: object) -> None:
        here = state.here
        here.tracer = here.watcher = None
        traces.on = False
        self.tracer.restore()
        self.tracer.close()
