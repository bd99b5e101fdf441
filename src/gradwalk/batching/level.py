"""Level: one running vmap. It takes the place of NumPy for the ops on its batched arrays.

Inside a vmap a tensor holds a BatchedArray, which holds `Lanes`. An op on it goes to the batching
rule of its family, which calls ops on the lanes. Gradients need nothing else: rules are arithmetic,
so backward inside the function runs on batched arrays, and backward outside of it through the
tensors that the lanes are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from gradwalk.batching.dims import flat_dims, to_front
from gradwalk.batching.errors import VmapError, numbers_wanted, refused
from gradwalk.batching.lanes import Lanes, Shape, spread
from gradwalk.batching.rules import rule_of
from gradwalk.batching.streams import BatchedStream
from gradwalk.batching.whole import WHOLE
from gradwalk.batching.whole_recurrent import RECURRENT, shares_weights
from gradwalk.compiler.functional.functional_array import Chain, FunctionalArray
from gradwalk.compiler.functional.machine import Machine
from gradwalk.compiler.functional.memory_order import CONTIGUOUS, MemoryLayout
from gradwalk.engine.errors import name_of
from gradwalk.engine.modes import current, set_grad_enabled, switch
from gradwalk.engine.tree import leaves, rebuild
from gradwalk.graph.abstract import AbstractArray, is_array
from gradwalk.ops.core.op import Op
from gradwalk.ops.network.recurrent import unrolled
from gradwalk.ops.shape.reshaping import reshape
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.devices import device_of


class BatchedArray(FunctionalArray):
    """The array of a tensor inside vmap: it has the shape of one sample."""

    __slots__ = ()
    machine: Any

    @property
    def depth(self) -> int:
        """How many vmaps are around the one that it belongs to, and that one."""
        return self.machine.depth

    def check_usable(self) -> None:
        self.machine.check_open()

    @property
    def is_constant(self) -> bool:
        lanes = self._term
        inner = getattr(lanes.inner, "_array", lanes.inner)
        return not lanes.batched and (isinstance(inner, np.ndarray) or inner.is_constant)

    def numbers(self, how: str) -> np.ndarray[Any, Any]:
        """The values, if all samples share them."""
        lanes = self.term
        if lanes.batched:
            raise numbers_wanted(how)
        inner = getattr(lanes.inner, "_array", lanes.inner)
        return inner if isinstance(inner, np.ndarray) else inner.numbers(how)

    def detached(self) -> BatchedArray:
        """The same values, which no transform around the vmap follows."""
        view = self.view()
        lanes = view._term
        view._term = Lanes(getattr(lanes.inner, "_array", lanes.inner), lanes.batched)
        return view

    def scan(
        self, step: Any, x: Any, state: tuple[Any, ...], weights: tuple[Any, ...], reverse: bool
    ) -> tuple[Any, ...]:
        """`ops.network.recurrent.scan`, step by step."""
        out, last = unrolled(step, x, state, weights, reverse)
        return out, *last

    def unsure(self, what: str) -> Exception:
        return refused(f"a tensor that may share memory with another is {what}", ".clone() it.")

    def _layout_through(self, op: Op, attrs: dict[str, Any], index: int) -> MemoryLayout:
        return CONTIGUOUS

    # The engine adds to gradients in place, where it owns them; here each sum is a new array, which
    # may belong to an inner vmap.
    def __iadd__(self, other: Any) -> Any:
        return self + other

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.numbers("NumPy"), dtype)

    def __repr__(self) -> str:
        return f"<one of {self.machine.size} samples: {self.dtype.name}{list(self.shape)}>"


class VmapInfo(NamedTuple):
    """What the static method `vmap` of a Function learns."""

    batch_size: int
    randomness: str


def tensor_of(inner: Any) -> Any:
    """What lanes hold, as a tensor."""
    return inner if hasattr(inner, "_array") else wrap(inner)


def _followed(operand: Any) -> Any:
    """An operand beside one that an outer transform follows: a tensor as well."""
    if operand.__class__ is not Lanes:
        return operand
    return Lanes(tensor_of(operand.inner), operand.batched)


class Level(Machine):
    """The vmap that runs around a function: the number of samples, and how they draw."""

    Array, Value = BatchedArray, Lanes

    def __init__(self, size: int, randomness: str, outer: Level | None) -> None:
        self.size = size
        self.randomness = randomness
        self.outer = outer
        self.depth: int = 1 if outer is None else outer.depth + 1
        self.recording = current().grad_enabled  # whether a transform around this vmap records
        self.device: Any = device_of(None)
        # Whether all lanes so far are NumPy's arrays, which no transform around this vmap follows.
        self.plain = True

    def check_open(self) -> None:
        """Raise if the vmap is over."""
        level = current().level
        if level is self:
            return
        while level is not None and level.depth > self.depth:
            level = level.outer
        if level is not self:
            raise VmapError(
                "vmap: a tensor of the function was kept and is used after vmap returned. Only "
                "results that the function returns have a value for every sample.\n"
                "Fix: return it from the function."
            )

    # -- arrays --------------------------------------------------------------------------------

    def array(self, thing: Any) -> BatchedArray:
        """The batched array for an array of any kind; one from outside is shared by all samples."""
        if isinstance(thing, BatchedArray) and thing.machine is self:
            return thing
        return BatchedArray(self, self._lanes(thing))

    def _lanes(self, thing: Any) -> Lanes:
        if isinstance(thing, BatchedArray):
            if thing.machine is self:
                return thing.term
            if thing.depth > self.depth:
                raise refused(
                    "a tensor of an inner vmap is used outside of it",
                    "return it from the function of that vmap.",
                )
        if not isinstance(thing, AbstractArray):
            return Lanes(np.asarray(thing), False)
        self.plain = False
        return Lanes(thing, False)

    def batched(self, inner: Any) -> BatchedArray:
        """The array of values that differ between samples, along the first axis of `inner`."""
        self.plain = self.plain and inner.__class__ is np.ndarray
        return BatchedArray(self, Lanes(inner, True))

    def check_target(self, target: Any, op: Op) -> None:
        """Raise if a batched value is about to be written to a tensor that is not batched."""
        if getattr(target._array, "depth", 0) < self.depth:
            raise refused(
                f"{op.name} writes values that differ between samples into {name_of(target)}, "
                "which the samples share.",
                "the out-of-place form (y = y + x instead of y += x), or make the tensor of a "
                "batched one (gradwalk.zeros_like(x)).",
            )

    def check_leaf(self, tensor: Any) -> None:
        """Raise if a tensor from outside is about to become a leaf of the function."""
        if getattr(tensor._array, "depth", 0) < self.depth:
            raise refused(
                f"requires_grad_() on {name_of(tensor)}, which is not batched and may be from "
                "outside of the function.",
                "gradwalk.grad(f)(x) inside the function differentiates with respect to x.",
            )

    def lifted(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Operands of an op: tensors from outside as tensors of this vmap, which stay tied to
        their graph."""
        return tuple([self.lift(t) if hasattr(t, "_array") else t for t in tensors])

    def lift(self, tensor: Any) -> Any:
        """A tensor of this vmap; one from outside is shared by all samples."""
        array = tensor._array
        if isinstance(array, BatchedArray) and array.machine is self:
            return tensor
        if isinstance(array, BatchedArray) and array.depth > self.depth:
            self._lanes(array)  # raises
        lifted = wrap(BatchedArray(self, Lanes(self.inner_of(tensor), False)))
        lifted.code, lifted.position = tensor.code, tensor.position
        return lifted

    def inner_of(self, result: Any) -> Any:
        """What lanes hold of a tensor or array: the tensor only if something follows it."""
        if result.__class__ is np.ndarray:
            return result
        if hasattr(result, "_array"):
            here = current()
            if here.tracer is not None:
                here.tracer.capture(result)
            elif here.watcher is not None:
                self.plain = False
                return result
            result = result if result.requires_grad else result._array
        elif not is_array(result):
            result = np.asarray(result)
        self.plain = self.plain and result.__class__ is np.ndarray
        return result

    def filled(self, shape: Shape, dtype: np.dtype[Any], number: Any) -> BatchedArray:
        """An array filled with one number, or with one of each sample."""
        if isinstance(number, FunctionalArray):
            return BatchedArray(self, self.fitted(number, shape, dtype))
        return BatchedArray(self, Lanes(np.full(shape, number, dtype), False))

    def values(self, op: Op, operands: Sequence[Any]) -> list[Any]:
        """The operands of an op as lanes and plain numbers."""
        found = []
        self.check_open()
        for o in operands:
            if o.__class__ is BatchedArray and o.base is None and o.machine is self:
                o = o._term  # a view asks its owner, and an array of another vmap whether it may
            elif isinstance(o, (AbstractArray, np.ndarray, np.generic)):
                o = self._lanes(o)
            found.append(o)
        return found

    def layout(
        self, op: Op, attrs: dict[str, Any], arrays: Sequence[FunctionalArray], shape: Shape
    ) -> MemoryLayout:
        """Memory order means nothing inside vmap."""
        return CONTIGUOUS

    def unknown_function(self, name: str) -> Exception:
        """NumPy would need the numbers."""
        return refused(f"np.{name} of a batched tensor", "use the gradwalk function of that name.")

    # -- ops -----------------------------------------------------------------------------------

    def forward(self, op: Op) -> Callable[..., Any]:
        """The function that replaces `op.forward` for tensors; `no_grad` in the function holds for
        the transforms around the vmap, too."""
        return lambda *operands, **attrs: self._compute(op, operands, attrs)

    def compute(self, op: Op, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """An op on arrays, as the engine computes while it records nothing; the transforms around
        the vmap follow it all the same."""
        if self.plain or current().grad_enabled is self.recording:
            return self._compute(op, operands, attrs)
        with set_grad_enabled(self.recording):
            return self._compute(op, operands, attrs)

    def _compute(self, op: Op, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Arrays for what NumPy would have computed; those that share no memory in short."""
        if op.view or op.array_only:
            return Machine.compute(self, op, operands, attrs)
        if op.attributes and len(attrs) < len(op.attributes):
            attrs = {**op.defaults, **attrs}
        made = self.call(op, self._common(op, self.values(op, operands)), attrs)
        return self._arrays(op, made)

    def _arrays(self, op: Op, made: Any) -> Any:
        if not op.multiple:
            return BatchedArray(self, made)
        return tuple([BatchedArray(self, part) for part in made])

    def call(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Lanes of op(*args), by the batching rule of its family."""
        lanes = [a for a in args if a.__class__ is Lanes]
        batched = any(a.batched for a in lanes)
        if not self.plain and any(hasattr(a.inner, "_array") for a in lanes):
            args = [_followed(a) for a in args]
        if not batched:
            made = op(*[a.inner if a.__class__ is Lanes else a for a in args], **attrs)
        elif (rule := rule_of(op)) is not None:
            made = rule(op, args, attrs, self.size)
        elif op.expand is not None:
            return self._lanes_of_expansion(op, args, attrs)
        else:
            raise refused(
                f"the op '{op.name}' has no batching rule and no definition in other ops.",
                "give its definition `expand=`, a function made of other ops.",
            )
        if made is NotImplemented:
            return self._lanes_of_expansion(op, args, attrs)
        if not op.multiple:
            return Lanes(self.inner_of(made), batched)
        return tuple([Lanes(self.inner_of(part), batched) for part in made])

    def whole(self, op: Op, args: Sequence[Any] = ()) -> Op | None:
        """A composite that a transform inside the vmap records, and NumPy computes."""
        here = current()
        if here.tracer is not None or not (here.grad_enabled and op in WHOLE):
            return None
        lanes = [a._array.term for a in args if hasattr(a, "_array")]
        plain = all(lane.inner.__class__ is np.ndarray for lane in lanes)
        if op in RECURRENT and not shares_weights(op, lanes):
            return None
        recorded = any(getattr(a, "requires_grad", False) for a in args)
        return WHOLE[op] if plain and recorded else None

    def _lanes_of_expansion(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Lanes of the definition of an op in other ops."""
        tensors = [wrap(BatchedArray(self, a)) if a.__class__ is Lanes else a for a in args]
        made = op.expand(*tensors, **attrs)  # type: ignore[misc]
        if not op.multiple:
            return self._lanes(made._array)
        return tuple([self._lanes(part._array) for part in made])

    def _expanded(self, op: Op, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """A composite, by its batching rule if it has one."""
        made = self.call(op, self._common(op, self.values(op, operands)), attrs)
        return self._arrays(op, made)

    def expanded(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """A composite on tensors: its definition in other ops where a transform inside the vmap
        records it, otherwise its batching rule."""
        if current().grad_enabled and any(getattr(a, "requires_grad", False) for a in args):
            return super().expanded(op, args, attrs)
        made = self._expanded(op, [getattr(a, "_array", a) for a in args], attrs)
        return tuple([wrap(part) for part in made]) if op.multiple else wrap(made)

    def follow(self, term: Lanes, chain: Chain) -> Any:
        for op, attrs, index in chain:
            outputs = self.call(op, [term], attrs)
            term = outputs[index] if op.multiple else outputs
        return term

    def apply_function(self, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """A custom Function on all samples, by its static method `vmap`; NotImplemented if its
        forward can run on batched tensors."""
        # Tensors in lists and dictionaries too, each with its dimension in the same place.
        flat = self.lifted(leaves(args))
        lanes = [t._array.term if hasattr(t, "_array") else t for t in flat]
        # By a transform inside; what is from outside stays a tensor of the transforms around.
        needed = current().grad_enabled and any(
            getattr(getattr(a, "_array", None), "machine", None) is self and a.requires_grad
            for a in args
        )
        followed = any(hasattr(getattr(a, "inner", None), "_array") for a in lanes)
        if hasattr(function, "vmap") and not needed and not keywords:
            inner = [_followed(a).inner if a.__class__ is Lanes else a for a in lanes]
            dims = [0 if a.__class__ is Lanes and a.batched else None for a in lanes]
            with self._left():
                made, out_dims = function.vmap(
                    VmapInfo(self.size, self.randomness),
                    rebuild(tuple(args), iter(dims)),
                    *rebuild(tuple(args), iter(inner)),
                )
            out = flat_dims(f"{function.__name__}.vmap: out_dims", "the result", out_dims, made)
            parts = [self._rewrapped(t, d) for t, d in zip(leaves(made), out, strict=True)]
            return rebuild(made, iter(parts))
        if function.generate_vmap_rule and not (followed and self.recording):
            return NotImplemented
        if function.generate_vmap_rule and not needed and not keywords and len(flat) == len(args):
            return self._function_on_all(function, lanes)
        name = function.__name__
        raise refused(
            f"{name}, an autograd.Function, has no rule for batched tensors here.",
            f"generate_vmap_rule = True in {name}, if its forward and backward are made of "
            "operations on tensors, and transforms inside the vmap or around it differentiate it, "
            "not both; or a static method vmap(info, in_dims, *args), if only transforms around "
            "the vmap do.",
        )

    def _function_on_all(self, function: Any, lanes: Sequence[Any]) -> Any:
        """A custom Function that a transform around the vmap differentiates."""
        from gradwalk.batching.custom_functions import (
            on_all_samples,  # made of vmaps, and so of levels
        )

        given = [_followed(a).inner if a.__class__ is Lanes else a for a in lanes]
        dims = [0 if a.__class__ is Lanes and a.batched else None for a in lanes]
        with self._left():
            if 0 in dims:
                made, outputs = on_all_samples(function, given, dims, self.randomness)
            else:
                made = outputs = function.apply(*given)
        dim = 0 if 0 in dims else None
        return rebuild(made, iter([self._rewrapped(t, dim) for t in leaves(outputs)]))

    @contextmanager
    def _left(self) -> Iterator[None]:
        """Compute on the values of all samples: outside of this vmap, inside those around it."""
        before = current().level
        switch(level=self.outer)
        try:
            yield
        finally:
            switch(level=before)

    def _rewrapped(self, tensor: Any, dim: int | None) -> Any:
        """A tensor that has its samples along `dim` as a tensor of this vmap."""
        if not hasattr(tensor, "_array"):
            return tensor
        if dim is None:
            return self.lift(tensor)
        return wrap(self.batched(self.inner_of(to_front(tensor, dim))))

    # -- random numbers ------------------------------------------------------------------------

    def stream(self, stream: Any) -> Any:
        """The stream that samples draw from."""
        if self.outer is not None:
            stream = self.outer.stream(stream)
        return BatchedStream(self, stream)

    def check_draws(self, *parameters: Any) -> None:
        """Raise if the function may not draw random numbers, or not with these parameters."""
        if self.randomness == "error":
            raise refused(
                "the function draws random numbers, and vmap was not told whether the samples "
                "share them.",
                'vmap(f, randomness="different") draws for each sample, "same" once for all.',
            )
        if self.randomness == "same" and any(self.lift(t)._array.term.batched for t in parameters):
            raise refused(
                'the samples draw by numbers of their own, and randomness is "same".',
                'vmap(f, randomness="different")',
            )

    def drawn_by_row(self, draw: Callable[[Any], Any], tensor: Any) -> Any:
        """What a function draws for each row of a matrix, for the rows of all samples."""

        def of_rows(rows: Any) -> Any:
            if rows.ndim < 3:
                return draw(rows)
            drawn = draw(reshape(rows, shape=(math.prod(rows.shape[:-1]), rows.shape[-1])))
            return reshape(drawn, shape=(*rows.shape[:-1], drawn.shape[-1]))

        return self.drawn(of_rows, tensor)

    def drawn(self, draw: Callable[..., Any], *parameters: Any) -> Any:
        """What a function draws by parameters of one shape, for those of all samples."""
        self.check_draws(*parameters)
        lanes = [self.lift(t)._array.term for t in parameters]
        same = self.randomness == "same"
        with self._left():
            given = [each.inner if same else spread(each, self.size) for each in lanes]
            made = draw(*[tensor_of(inner) for inner in given])
        return made if same else wrap(self.batched(self.inner_of(made)))
