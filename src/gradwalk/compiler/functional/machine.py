"""Machine: what computes with the values of functional arrays.

A subclass says what an op makes of values (`call`), and how arrays and numbers become values.
Views, promotion and assignment are the same for all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.functional.functional_array import Chain, FunctionalArray
from gradwalk.compiler.functional.memory_order import result_layout
from gradwalk.engine.modes import no_grad
from gradwalk.graph.abstract import is_array
from gradwalk.ops.core.dtypes import float64, has_gradients, is_floating, is_half, promote_types
from gradwalk.ops.core.op import Op
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.shape import reshaping as shaping
from gradwalk.tensors.apply import wrap

Shape = tuple[int, ...]


class Machine:
    """Takes the place of NumPy for the ops on its arrays."""

    depth = 0  # of a vmap: how many vmaps are around it, and itself
    Array: type[FunctionalArray]  # the class of its arrays
    Value: Any  # the class of what they hold

    # -- what a kind of machine decides --------------------------------------------------------

    def call(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """The value of op(*args), or a tuple of them; operands are values and plain numbers."""
        raise NotImplementedError

    def array(self, thing: Any) -> Any:
        """An array of this machine for an array of any kind."""
        raise NotImplementedError

    def filled(self, shape: Shape, dtype: np.dtype[Any], number: Any) -> Any:
        """An array filled with one number."""
        raise NotImplementedError

    def filled_like(self, x: Any, dtype: np.dtype[Any], number: Any) -> Any:
        """An array of the shape of another, filled with one number."""
        return self.filled(x.shape, dtype, number)

    def values(self, op: Op, operands: Sequence[Any]) -> list[Any]:
        """The operands of an op as values and plain numbers."""
        raise NotImplementedError

    def whole(self, op: Op, args: Sequence[Any] = ()) -> Op | None:
        """The form of a composite that runs whole on tensors; None if its definition in other ops
        runs."""
        return None

    def capture(self, *tensors: Any) -> None:
        """Tensors are about to be used in an operation."""

    def unknown_function(self, name: str) -> Exception:
        """The error for a NumPy function that has no op."""
        raise NotImplementedError

    # -- ops -----------------------------------------------------------------------------------

    def forward(self, op: Op) -> Callable[..., Any]:
        """The function that replaces `op.forward`."""
        return lambda *operands, **attrs: self.compute(op, operands, attrs)

    def compute(self, op: Op, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Arrays for what NumPy would have computed."""
        if op.array_only:
            return self._expanded(op, operands, attrs)
        if op is shaping.alias:
            return self.array(operands[0])
        if op.attributes and len(attrs) < len(op.attributes):
            attrs = {**op.defaults, **attrs}
        args = self._common(op, self.values(op, operands))
        source = operands[0]
        if op.view and len(operands) == 1:
            viewed = self.array(source)
            outputs = self.call(op, args, attrs)
            if viewed.copied_by(op, attrs):
                return self.Array(self, outputs)
            parts = outputs if op.multiple else (outputs,)
            views = [viewed.view_by((op, attrs, i), t) for i, t in enumerate(parts)]
            return tuple(views) if op.multiple else views[0]
        outputs = self.call(op, args, attrs)
        if op is getitem and any(
            part[0] == "array" and not getattr(operands[1 + part[1]], "shape", ())
            for part in attrs["index"]
            if isinstance(part, tuple)
        ):
            return self.array(source).part_at(attrs["index"], tuple(args[1:]), outputs)
        arrays = [o for o in operands if isinstance(o, FunctionalArray)]
        made = [
            self.Array(self, value, self.layout(op, attrs, arrays, value.shape))
            for value in (outputs if op.multiple else (outputs,))
        ]
        return tuple(made) if op.multiple else made[0]

    def layout(
        self, op: Op, attrs: dict[str, Any], arrays: Sequence[FunctionalArray], shape: Shape
    ) -> Any:
        """The memory layout of a new array."""
        return result_layout(op, attrs, arrays, shape)

    def _expanded(self, op: Op, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Record an op through its definition, where its own forward works on arrays only."""
        with no_grad():
            tensors = [wrap(self.array(o)) if is_array(o) else o for o in operands]
            outputs = self.expanded(op, tensors, attrs)
        return tuple(t._array for t in outputs) if op.multiple else outputs._array

    def expanded(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """The definition of an op in other ops, applied to tensors. The op itself makes new arrays,
        so an operand that the definition returns, or a view of one, is copied."""
        self.capture(*args)
        outputs = op.expand(*args, **attrs)  # type: ignore[misc]
        given = {id(a._array.owner) for a in args if hasattr(a, "_array")}
        made = [
            shaping.clone(t) if id(t._array.owner) in given else t
            for t in (outputs if op.multiple else (outputs,))
        ]
        return tuple(made) if op.multiple else made[0]

    def _common(self, op: Op, args: list[Any]) -> list[Any]:
        """Cast the operands to one dtype, as NumPy chooses it, so that no call promotes."""
        if not op.promotes:
            return args
        positions = range(len(args)) if op.promotes is True else tuple(op.promotes)
        mixed = [args[i] for i in positions]
        dtypes = {a.dtype for a in mixed if isinstance(a, self.Value)}
        plain = all(isinstance(a, self.Value) or (type(a) is int) for a in mixed)
        if len(dtypes) == 1 and (is_floating(next(iter(dtypes))) or (plain and not op.to_float)):
            return args
        if any(map(is_half, dtypes)):  # NumPy has no common dtype of bfloat16 and integers
            dtype = functools.reduce(promote_types, dtypes)
        else:
            dtype = np.result_type(*(a.dtype if isinstance(a, self.Value) else a for a in mixed))
        if op.to_float and not has_gradients(dtype):
            dtype = float64
        promoted = list(args)
        for i in positions:
            operand = args[i]
            if isinstance(operand, self.Value) and operand.dtype != dtype:
                promoted[i] = self.call(shaping.cast, [operand], {"dtype": dtype})
        return promoted

    def follow(self, term: Any, chain: Chain) -> Any:
        """Apply the view ops of a chain to the current value of its owner."""
        for op, attrs, index in chain:
            outputs = self.call(op, [term], attrs)
            term = outputs[index] if op.multiple else outputs
        return term

    def fitted(self, value: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """A value cast and broadcast, as NumPy does on assignment."""
        if isinstance(value, (FunctionalArray, np.ndarray)):
            term = self.array(value).term
        else:
            return self.filled(shape, dtype, value)._term
        if term.dtype != dtype:
            term = self.call(shaping.cast, [term], {"dtype": dtype})
        if term.shape != shape:
            extra = len(term.shape) - len(shape)
            if extra > 0 and set(term.shape[:extra]) == {1}:  # which NumPy leaves out
                term = self.call(shaping.reshape, [term], {"shape": term.shape[extra:]})
            if np.broadcast_shapes(term.shape, shape) != shape:
                raise ValueError(f"shape {term.shape} does not fit {shape}")
            if term.shape != shape:
                term = self.call(shaping.expand_op, [term], {"shape": shape})
        return term
