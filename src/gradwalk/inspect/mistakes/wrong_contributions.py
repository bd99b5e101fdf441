"""What a recorded node handed to its inputs, against central differences.

No rule is trusted: a node's output is computed again with its operands nudged. What is known of a
wrong contribution becomes evidence. Several mistakes may explain one number, so all wrong
contributions of an op are judged together: the mistake that explains most of them is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradwalk.inspect.diff.numbers import precision_of
from gradwalk.inspect.mistakes.diagnosis import Array, Evidence, diagnose, differs, explanations
from gradwalk.inspect.mistakes.differences import nudges
from gradwalk.inspect.trace.replay import NotReplayable, forward, is_array, op_of, operands
from gradwalk.inspect.trace.trace import Trace, TraceNode
from gradwalk.ops.core.dtypes import dtype_named, finfo, is_floating

EPS = 1e-6
ATOL, RTOL = 1e-4, 2e-3  # values are often float32; ATOL is for a gradient of 1
LARGEST = 400  # elements: of larger operands those are looked at that a random direction points to
SUSPECTS = 32  # elements of such an operand
SYSTEMATIC = 0.01  # of the errors that rounding makes in the elements of an array
ROUNDINGS = 8  # of the coarsest dtype that was computed in: the relative difference they may make
FEW = 3  # numbers: fewer are always in some proportion
ALSO = 3  # mistakes that explain the same numbers equally well and are named

Right = set[tuple[str, int]]  # op and input: some contribution there was right, and not 0


@dataclass(frozen=True, eq=False)
class AuditedPush:
    """What a node handed to one of its inputs; the node alone, in float64, tells what it should."""

    trace: Trace
    node: TraceNode
    position: int
    handed: Array
    grads: list[Any]  # of the node's outputs

    @cached_property
    def atol(self) -> float:
        """The smallest difference that counts."""
        sizes = [np.max(np.abs(g), initial=0.0) for g in self.grads if g is not None]
        return ATOL * max(sizes, default=0.0)

    @cached_property
    def rtol(self) -> float:
        """The relative difference that counts: more in half precision."""
        forms = [form for _, form in self.node.metas if "float" in form and form != "float"]
        kept = [a for a in operands(self.trace, self.node) if _is_floating(a)]
        kept += [a for a in (*self.node.values, self.handed) if is_array(a) and _is_floating(a)]
        eps = [float(finfo(dtype_named(form)).eps) for form in forms]
        eps += [precision_of(a, str(a.dtype)) for a in kept]  # bfloat16 is kept as float32
        return max([RTOL, *(ROUNDINGS * least for least in eps)])

    @cached_property
    def args(self) -> list[Any]:
        """The operands; arrays in float64."""
        return [double(a) for a in operands(self.trace, self.node)]

    @cached_property
    def _operand(self) -> Array:
        return np.asarray(self.args[self.position], np.float64)

    def _outputs(self, operand: Array) -> list[Array]:
        args = [operand if i == self.position else a for i, a in enumerate(self.args)]
        if self.trace.scalar:
            args = [float(a) for a in args]
        alone = replace(in_double(self.node), index=0, args=tuple(args))
        return [np.asarray(out, np.float64) for out in forward(self.trace, alone)]

    @cached_property
    def _now(self) -> list[Array]:
        return self._outputs(self._operand)

    @cached_property
    def _noise(self) -> float:
        """How much of a change of g · output may be the rounding of the output."""
        sizes = [g if g is None else np.abs(g) for g in self.grads]
        return 4 * _dot(sizes, [np.spacing(np.abs(out)) for out in self._now])

    @cached_property
    def _direction(self) -> Array:
        """A random direction; an element that is not finite (masked) stays as it is."""
        x = self._operand
        by = np.random.default_rng(self.node.index).uniform(0.5, 1.5, x.shape)
        by *= np.where(np.random.default_rng(self.position).random(x.shape) < 0.5, -1, 1)
        by *= np.maximum(np.abs(x), 1.0)  # a nudge in proportion is not lost in a large number
        return np.where(np.isfinite(x), by, 0.0)

    @cached_property
    def agrees(self) -> bool:
        """A quick look at all elements at once: along a random direction the slopes must agree."""
        handed = self.handed
        if handed.shape != self._operand.shape or not np.isfinite(handed).all():
            return not np.isfinite(handed).all()  # find_nan is about those
        return self._agrees_along(self._direction)

    def _agrees_along(self, by: Array) -> bool:
        x, handed = self._operand, self.handed
        along = nudges(lambda t: self._outputs(x + t * by), self._now, np.zeros(()), np.array(EPS))
        sides = [_dot(self.grads, side) for side in next(along)[1:]]
        slope, noise = float(np.sum(handed * by)), self._noise / EPS
        if not np.isfinite(sum(sides) + noise):
            return False  # look at each element
        # What rounding adds to each element adds up like a random walk; a little is systematic.
        moved = handed * by
        scale = max(float(np.linalg.norm(moved)), *map(abs, sides))
        slack = self.atol + noise + self.rtol * (scale + SYSTEMATIC * float(np.sum(np.abs(moved))))
        return min(sides) - slack <= slope <= max(sides) + slack  # they differ at a kink

    @cached_property
    def _judged(self) -> list[tuple[int, ...]]:
        """The elements to look at one by one: of a large operand those that make it disagree.

        A half of the elements, nudged without the other, agrees or does not; and so on.
        """
        x = self._operand
        places = np.flatnonzero(np.isfinite(x))
        while x.size > LARGEST and places.size > SUSPECTS:
            half = places[: places.size // 2]
            only = np.zeros(x.size)
            only[half] = self._direction.reshape(-1)[half]
            places = places[half.size :] if self._agrees_along(only.reshape(x.shape)) else half
        return [tuple(map(int, np.unravel_index(place, x.shape))) for place in places]

    @cached_property
    def right(self) -> Array:
        """The right contribution, element by element; NaN where it is unknown.

        It is unknown where the slopes on both sides differ, where one does not exist, and where
        the output is so large that a nudge is lost in its last digits.
        """
        x = self._operand
        right, steps = np.full(x.shape, np.nan), EPS * np.maximum(np.abs(x), 1.0)
        for place, *sides in nudges(self._outputs, self._now, x, steps, self._judged):
            ahead, behind = (_dot(self.grads, side) for side in sides)
            slack = self.atol + self.rtol * max(abs(ahead), abs(behind))
            known = abs(ahead - behind) <= slack and self._noise / steps[place] <= slack
            right[place] = (ahead + behind) / 2 if known else np.nan
        return right

    @property
    def is_wrong(self) -> bool:
        """Whether elements whose right contribution is known have another one."""
        if self.agrees:
            return False
        if self.handed.shape != self._operand.shape:
            return True
        return bool(differs(*self.known, self.atol, self.rtol).any())

    @property
    def known(self) -> tuple[Array, Array]:
        """What was handed and what is right, 0 in both where the latter is unknown."""
        return np.where(np.isnan(self.right), 0.0, self.handed), np.nan_to_num(self.right)

    def _jacobian(self) -> Array:
        x = self._operand
        sides = nudges(self._outputs, self._now, x, np.full(x.shape, EPS))
        return np.stack([np.ravel(a[0] + b[0]) / 2 for _, a, b in sides], axis=1)

    def evidence(self, right_ones: Right) -> Evidence:
        """All that is known of it."""
        node, op, grads = self.node, op_of(self.node), self.grads
        elementwise = op is not None and op.elementwise
        small = self.handed.size <= LARGEST
        both = small and len(node.args) == 2 and None not in node.args
        both = both and (op is None or None not in map(op.rule, (0, 1)))
        other = replace(self, position=1 - self.position)
        single = len(grads) == 1 and grads[0] is not None
        like_output = single and grads[0].shape == np.shape(self.handed)
        plain = [x for x in node.attrs.values() if isinstance(x, (int, float))]
        return Evidence(
            *self.known,
            atol=self.atol,
            rtol=self.rtol,
            op=node.op,
            argument=self.position,
            operands=(*self.args, *plain) if elementwise else (),
            output=np.asarray(node.value, np.float64) if is_array(node.value) else None,
            g=grads[0] if single else None,
            others={other.position: np.nan_to_num(other.right)} if both else {},
            jacobian=self._jacobian() if small and like_output and not elementwise else None,
            unsummed=self._first_of_broadcast() if small and elementwise else None,
            right_for=self._right_for(),
            right_elsewhere=(node.op, self.position) in right_ones,
        )

    def _right_for(self) -> str:
        """Another call of the op for which this would be right, "" if there is none."""
        called = self.node.op, self.node.metas, len(self.node.args)
        for other in self.trace.nodes:
            if (other.op, other.metas, len(other.args)) == called and other is not self.node:
                with suppress(NotReplayable, ValueError, TypeError, IndexError):
                    if replace(self, node=other).agrees:
                        return with_line(self.trace, other.index)
        return ""

    def _first_of_broadcast(self) -> tuple[str, Array] | None:
        """Axes the operand was broadcast over; what is handed if only their index 0 arrives."""
        shape, own = self.node.shape, self.handed.shape
        lead = len(shape) - len(own)
        if own == shape or lead < 0:
            return None
        axes = [k for k, n in enumerate(shape) if k < lead or own[k - lead] != n]
        first = tuple(slice(0, 1) if k in axes else slice(None) for k in range(len(shape)))
        only = np.zeros(shape)
        only[first] = self.grads[0][first]
        arriving = replace(self, grads=[only, *self.grads[1:]])
        return ", ".join(map(str, axes)), np.nan_to_num(arriving.right)

    def in_numbers(self) -> str:
        """The wrong numbers beside the right ones."""
        given, right = self.known
        if self.handed.size > LARGEST and self.handed.shape == self._operand.shape:
            known = ~np.isnan(self.right)
            given, right = given[known], right[known]
        told = f"backward gives {_few(given)}, differences give {_few(right)}"
        if right.size == 1 and right.item():
            told += f", a factor of {given.item() / right.item():.4g}"
        return f"{told}."


def _dot(grads: Sequence[Any], outputs: Sequence[Any]) -> float:
    """The sum of g · output. What has no gradient does not count, even if it is −inf (masked)."""
    return sum(
        float(np.sum(np.where(g == 0, 0.0, g * out)))
        for g, out in zip(grads, outputs)
        if g is not None
    )


def double(a: Any) -> Any:
    """An array of floats in float64; anything else as it is."""
    return a.astype(np.float64) if _is_floating(a) else a


def _is_floating(a: Any) -> bool:
    return isinstance(a, np.ndarray) and is_floating(a.dtype)


def in_double(node: TraceNode) -> TraceNode:
    """The same operation in float64: less would round the nudge away."""
    attrs = node.attrs
    if is_floating(np.dtype(attrs.get("dtype", bool))):
        attrs = {**attrs, "dtype": np.dtype(np.float64)}
    metas = tuple((shape, _DOUBLE.get(dtype, dtype)) for shape, dtype in node.metas)
    return replace(node, attrs=attrs, metas=metas)


_DOUBLE = dict.fromkeys(("float16", "bfloat16", "float32"), "float64")


def _few(array: Array) -> str:
    shown = ", ".join(f"{x:.4g}" for x in np.ravel(array)[:3])
    return f"[{shown}, ...]" if array.size > 3 else f"[{shown}]" if array.ndim else shown


def with_line(trace: Trace, index: int) -> str:
    """The name of a node and the line that made it."""
    line = trace.nodes[index].line
    return trace.name(index) if line is None else f"{trace.name(index)} ({line})"


def wrong_pushes(
    trace: Trace, node: TraceNode, right_ones: Right, kind: type[AuditedPush] = AuditedPush
) -> Iterator[AuditedPush]:
    """The contributions of one node that are wrong; right ones are noted in `right_ones`."""
    grads = trace.sweep.grads.get(node.index, [])
    if any(g is not None and not is_array(g) for g in grads):
        raise NotReplayable("only statistics of its gradient were kept")
    grads = [g if g is None else np.asarray(g, np.float64) for g in grads]
    for position, contribution in enumerate(trace.sweep.pushed[node.index]):
        if not is_array(contribution):
            continue
        push = kind(trace, node, position, np.asarray(contribution, np.float64), grads)
        if push.agrees:
            if np.any(np.abs(push.handed) > push.atol):
                right_ones.add((node.op, position))
        elif push.is_wrong:
            yield push


def named(wrong: Sequence[AuditedPush], right_ones: Right) -> Iterator[str]:
    """For each wrong contribution, the mistakes behind it as a sentence or several."""
    told = [explanations(push.evidence(right_ones)) for push in wrong]
    for push, texts in zip(wrong, told):
        together = _together(push, wrong)
        if together is not None:
            texts.setdefault("everywhere", together)
    votes = Counter((push.node.op, key) for push, texts in zip(wrong, told) for key in texts)
    for push, texts in zip(wrong, told):
        most = max((votes[push.node.op, key] for key in texts), default=0)
        likely = [text for key, text in texts.items() if votes[push.node.op, key] == most]
        yield " Or ".join([*dict.fromkeys(likely)][:ALSO]) or push.in_numbers()


def _together(push: AuditedPush, wrong: Sequence[AuditedPush]) -> str | None:
    """What is wrong with all contributions of an op along one input, if each is a number."""
    kind = push.node.op, push.position, 1
    alike = [one for one in wrong if (one.node.op, one.position, one.handed.size) == kind]
    if push not in alike or len(alike) < FEW:
        return None
    given, right = zip(*([number.item() for number in one.known] for one in alike))
    return diagnose(given, right, atol=min(one.atol for one in alike), rtol=RTOL)
