"""Programs with a loop, written by hand or drawn at random (of small integers: exact)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.ir.loops import add_loop
from gradwalk.compiler.ir.program import Argument, Builder, Term
from gradwalk.ops import TABLE
from tests.compiler.programs import WHOLE, Written

Add = Callable[..., Any]
# Of one iteration: given rows, states and a function that adds calls, it returns rows and states.
Body = Callable[[Add, Sequence[Term], Sequence[Term]], tuple[Sequence[Term], Sequence[Term]]]


def looped(
    w: Written,
    body: Body,
    rows: Sequence[Term],
    states: Sequence[Term],
    *,
    count: int,
    reverse: bool = False,
    histories: Sequence[bool] = (),
) -> tuple[Term, ...]:
    """Add a loop; return the arrays that it makes, and its states."""
    taken = [Term(t.shape[1:], t.dtype, source=Argument(0)) for t in rows]
    before = [Term(t.shape, t.dtype, source=Argument(0)) for t in states]
    inner = Builder()

    def add(op: str, *args: Any, **attrs: Any) -> Any:
        return inner.apply(TABLE[op], args, attrs)

    outputs, new = body(add, taken, before)
    whole = histories or (False,) * len(states)
    carried = list(zip(before, states, new, whole, strict=True))
    pairs = list(zip(taken, rows, strict=True))
    arrays, last = add_loop(w.build, inner.calls, (count, reverse), pairs, carried, list(outputs))
    return *arrays, *last


def whole(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def bounded(add: Add, x: Term) -> Term:
    """Small numbers again, so that every iteration is exact."""
    return add("minimum", add("maximum", x, -4.0), 4.0)


def random_loop(seed: int) -> Written:
    """A loop of random shape with a random body, beside other calls that use the same arrays."""
    draw = np.random.default_rng(seed)
    w = Written()
    count, n, m = int(draw.integers(1, 7)), *(int(k) for k in draw.choice([1, 2, 3, 5, 17], 2))
    rows = [w.argument(whole(count, n, m, seed=seed + i)) for i in range(int(draw.integers(1, 4)))]
    states = [w.argument(whole(n, m, seed=seed + 9 + i)) for i in range(int(draw.integers(1, 4)))]
    fixed = w.argument(whole(m, m, seed=seed + 20))
    if draw.random() < 0.5:  # rows in another order of memory
        turned = w.add("permute", rows[0], axes=(0, 2, 1))
        rows[0] = w.add("permute", w.add("mul", turned, 2.0), axes=(0, 2, 1))

    def body(add: Add, taken: Sequence[Term], before: Sequence[Term]) -> Any:
        known = [*taken, *before]

        def one() -> Term:
            return known[int(draw.integers(len(known)))]

        for _ in range(int(draw.integers(1, 9))):
            match int(draw.integers(6)):
                case 0:
                    made = add("add", one(), one())
                case 1:
                    made = add("matmul", one(), fixed)
                case 2:
                    made = add("matmul", one(), add("permute", fixed, axes=(1, 0)))
                case 3:
                    made = add("mul", one(), add("sum", one(), axis=(1,), keepdim=True))
                case 4:
                    joined = add("concatenate", one(), one(), axis=1)
                    half = ("slice", m // 2, m // 2 + m, None)
                    made = add("getitem", joined, index=(WHOLE, half))
                case _:
                    made = add("maximum", one(), one())
            known.append(bounded(add, made))
        return [one() for _ in range(int(draw.integers(3)))], [one() for _ in before]

    histories = [bool(draw.random() < 0.5) for _ in states]
    made = looped(
        w, body, rows, states,
        count=count, reverse=bool(draw.random() < 0.5), histories=histories,
    )  # fmt: skip
    used = [t for t in made if draw.random() < 0.8] or [made[-1]]
    return w.returns(*used, *(w.add("add", t, 1.0) for t in (*used, *rows)))
