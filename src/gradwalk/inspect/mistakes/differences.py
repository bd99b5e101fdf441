"""Jacobians two ways: by backward, and by nudging the inputs (central differences).

One row per output element: walk backward from it alone. One column per input element: nudge it and
see how the outputs move. Tensors and Values alike; a Value is one element. A complex tensor counts
as a pair of real numbers for each element: its gradient is, in PyTorch's convention, that of the
pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.modes import beside, enable_grad, filled
from gradwalk.graph.abstract import is_array
from gradwalk.graph.order import inputs_first
from gradwalk.inspect.mistakes.diagnosis import Array, Evidence, Mask, differs, explanations
from gradwalk.ops.core.dtypes import has_gradients, is_complex_dtype
from gradwalk.ops.elementwise.complex_numbers import as_pairs, view_as_real
from gradwalk.scalar.value import Value
from gradwalk.tensors.tensor import Tensor

Function = Callable[..., Any]


@dataclass(frozen=True)
class Tolerance:
    """How far to nudge an input, and how much the two derivatives may differ."""

    eps: float = 1e-6
    atol: float = 1e-5
    rtol: float = 1e-3


@dataclass(frozen=True, kw_only=True)
class WrongJacobian(Evidence):
    """A Jacobian by backward, `given`, that is not the one by central differences, `right`."""

    place: int  # of the output; that of the input is `argument`
    ahead: Array  # one-sided differences: (f(x + eps) - f(x)) / eps
    behind: Array  # (f(x) - f(x - eps)) / eps
    noise: Array  # per element, what rounding of f(x) alone does to these

    @cached_property
    def wrong(self) -> Mask:
        """Where the two disagree."""
        return differs(self.given, self.right, self.atol, self.rtol)

    @cached_property
    def kinks(self) -> Mask:
        """Where they disagree because the slopes on the two sides of the input do.

        What backward gives then lies between the two; elsewhere it is wrong, kink or not.
        """
        low, high = np.minimum(self.ahead, self.behind), np.maximum(self.ahead, self.behind)
        slack = self.atol + self.rtol * np.maximum(np.abs(low), np.abs(high))
        between = (self.given >= low - slack) & (self.given <= high + slack)
        return np.asarray(self.wrong & between & (high - low > slack + self.noise))

    @property
    def only_kinks(self) -> bool:
        """Whether kinks explain all of the disagreement."""
        return bool((self.wrong == self.kinks).all())

    @cached_property
    def errors(self) -> Array:
        """How far the two are apart; inf where one of them is not finite."""
        apart = np.abs(self.given - self.right)
        return np.where(np.isfinite(apart), apart, np.inf)

    @property
    def only_rounding(self) -> bool:
        """Whether all of the disagreement is no larger than the rounding of the outputs."""
        return not (self.wrong & ~(self.errors <= self.noise)).any()

    @cached_property
    def worst(self) -> tuple[int, ...]:
        """The element that is furthest off; a kink only if there is no other."""
        considered = self.wrong if self.only_kinks else self.wrong & ~self.kinks
        at = int(np.argmax(np.where(considered, self.errors, -1)))
        return tuple(map(int, np.unravel_index(at, self.wrong.shape)))

    @property
    def badness(self) -> tuple[bool, float]:
        """For the choice of the Jacobian to report: a wrong rule before a kink, then by size."""
        error = self.errors[self.worst] / (self.atol + self.rtol * abs(self.right[self.worst]))
        return not self.only_kinks, np.inf if np.isnan(error) else float(error)

    def named(self, among: Iterable[WrongJacobian] = ()) -> str | None:
        """The mistakes that it may show, kinks left out; `among` has the other wrong ones."""
        alike = (o for o in among if (o.place, o.right.shape) == (self.place, self.right.shape))
        evidence = replace(
            self,
            given=np.where(self.kinks, 0, self.given),
            right=np.where(self.kinks, 0, self.right),
            others={other.argument: other.right for other in alike},
        )
        return "\n  Or ".join(explanations(evidence).values()) or None


def wrong_jacobians(
    func: Function, inputs: Sequence[Any], tolerance: Tolerance
) -> list[WrongJacobian]:
    """The wrong Jacobians of every output in every input to be checked, the worst first."""
    checked = [i for i, x in enumerate(inputs) if is_checked(x)]
    pairs = []
    with np.errstate(all="ignore"):
        outputs = outputs_of(func, inputs)
        now = [numbers(out) for out in outputs]
        by_backward = [jacobians(out, [inputs[i] for i in checked]) for out in outputs]
        for column, position in enumerate(checked):
            x = numbers(inputs[position])
            with _settable(inputs[position]) as put:

                def run(at: Array) -> list[Array]:
                    put(at)
                    return [numbers(out) for out in outputs_of(func, inputs)]

                steps = np.full(x.shape, tolerance.eps)
                slopes = [sides for _, *sides in nudges(run, now, x, steps)]
            for k, value in enumerate(now if x.size else ()):
                shape = value.shape + x.shape
                ahead, behind = (
                    np.stack([sides[s][k] for sides in slopes], axis=-1).reshape(shape)
                    for s in range(2)
                )
                rounding = 4 * np.spacing(np.abs(value)) / tolerance.eps
                pair = WrongJacobian(
                    by_backward[k][column].reshape(shape),
                    (ahead + behind) / 2,
                    value.shape,
                    tolerance.atol,
                    tolerance.rtol,
                    argument=position,
                    output=value,
                    g=np.eye(value.size).reshape(2 * value.shape),
                    place=k,
                    ahead=ahead,
                    behind=behind,
                    noise=rounding.reshape(value.shape + (1,) * x.ndim),
                )
                pairs.append(pair)
        wrong = [pair for pair in pairs if pair.wrong.any()]
        worst = max(wrong, key=lambda pair: pair.badness, default=None)
    return sorted(wrong, key=lambda pair: pair is not worst)


def nudges(
    run: Callable[[Array], list[Array]],
    now: list[Array],
    x: Array,
    steps: Array,
    places: Iterable[tuple[int, ...]] | None = None,
) -> Iterator[tuple[tuple[int, ...], list[Array], list[Array]]]:
    """Nudge each element of x: its place, and the slopes of every output ahead and behind.

    `now` has the outputs as they are, without a nudge; `places` limits the elements.
    """
    for place in np.ndindex(x.shape) if places is None else places:
        by = np.zeros(x.shape)
        by[place] = step = steps[place]
        after, before = run(x + by), run(x - by)
        ahead = [(up - out) / step for up, out in zip(after, now, strict=True)]
        yield place, ahead, [(out - down) / step for out, down in zip(now, before, strict=True)]


@contextmanager
def _settable(x: Any) -> Iterator[Callable[[Array], None]]:
    """A function that gives x other numbers; at the end it has its own again."""
    before = x.data if isinstance(x, Value) else x._array.copy()

    def put(numbers: Any) -> None:
        if isinstance(x, Value):
            x.data = numbers if numbers is before else numbers.item()
        else:
            as_pairs(x._array)[...] = numbers if numbers is not before else as_pairs(numbers)

    try:
        yield put
    finally:
        put(before)


def jacobians(output: Any, inputs: Sequence[Any]) -> list[Array]:
    """The Jacobian of one output in each input by backward: zeros where nothing arrives."""
    if isinstance(output, Value):
        with grads_put_back({*inputs_first([output]), *inputs}):
            output.backward()
            return [np.array([[x.grad]], np.float64) for x in inputs]
    rows = [np.zeros((output.numel(), numbers(x).size)) for x in inputs]
    for row in range(output.numel() if output.requires_grad else 0):
        seed = np.zeros(output.shape, output.dtype)
        seed.flat[row] = 1
        seeds = gradients.wrap(beside(seed, output._array))
        got = gradients.grad(output, inputs, seeds, retain_graph=True, allow_unused=True)
        for jacobian, g in zip(rows, got, strict=True):
            if g is not None:
                jacobian[row] = numbers(g).ravel()
    return rows


def gradient_of(
    func: Function, inputs: Sequence[Any], weights: Sequence[Any] | None = None
) -> tuple[Function, tuple[Any, ...]]:
    """The gradient of `func` as a function of its inputs and of a weight per output, and those."""
    count = len(inputs)
    checked = [i for i, x in enumerate(inputs) if is_checked(x)]
    if weights is None:
        random = np.random.default_rng(0)
        weights = [
            gradients.wrap(beside(random.standard_normal(out.shape).astype(out.dtype), out._array))
            for out in outputs_of(func, inputs)
        ]
        for weight in weights:
            weight.requires_grad = True

    def gradient(*args: Any) -> tuple[Any, ...]:
        outputs = outputs_of(func, args[:count])
        pairs = [(o, w) for o, w in zip(outputs, args[count:], strict=True) if o.requires_grad]
        wanted = [args[i] for i in checked]
        if not pairs:
            return tuple(gradients.wrap(filled(x.shape, x.dtype, 0, x._array)) for x in wanted)
        used, seeds = zip(*pairs)
        kept = {"create_graph": True, "allow_unused": True, "materialize_grads": True}
        return gradients.grad(used, wanted, seeds, **kept)

    return gradient, (*inputs, *weights)


@contextmanager
def grads_put_back(values: Iterable[Any]) -> Iterator[None]:
    """Begin with every grad at 0, and end with those the caller had."""
    kept = {v: v.grad for v in values}
    try:
        for v in kept:
            v.grad = 0
        yield
    finally:
        for v, grad in kept.items():
            v.grad = grad


# -- inputs and outputs, tensors and Values alike -------------------------------------------------


def listed(things: Any) -> tuple[Any, ...]:
    """One thing or several, as a tuple."""
    return tuple(things) if isinstance(things, (tuple, list)) else (things,)


def is_checked(thing: Any) -> bool:
    """Whether derivatives in this input are asked for."""
    return isinstance(thing, Value) or (isinstance(thing, Tensor) and bool(thing.requires_grad))


def numbers(thing: Any) -> Array:
    """The elements of a tensor or Value as they are now: a copy, for inputs are nudged in place."""
    return np.array(thing.data if isinstance(thing, Value) else as_pairs(thing._array), np.float64)


def in_float64(thing: Any) -> Any:
    """A tensor or array of floats as a float64 leaf of its own; anything else as it is."""
    array = thing._array if isinstance(thing, Tensor) else thing
    if not is_array(array) or not has_gradients(array.dtype):
        return thing
    wide = np.complex128 if is_complex_dtype(array.dtype) else np.float64
    leaf = gradients.wrap(array.astype(wide))
    leaf.requires_grad = not isinstance(thing, Tensor) or thing.requires_grad
    leaf.label = getattr(thing, "label", "")
    return leaf


def outputs_of(func: Function, inputs: Sequence[Any]) -> list[Any]:
    """What func returns, as a list; integer results, such as indices, have no derivative."""
    with enable_grad():
        outputs = listed(func(*inputs))
    for out in outputs:
        if not isinstance(out, (Tensor, Value)):
            raise TypeError(
                f"func returned a {type(out).__name__}, which carries no gradient; it must return "
                "a tensor (or Value), or a tuple of them. Look for an item(), float() or numpy() "
                "in it."
            )
    checked = [out for out in outputs if isinstance(out, Value) or has_gradients(out.dtype)]
    return [
        view_as_real(out) if isinstance(out, Tensor) and out.is_complex() else out
        for out in checked
    ]
