"""Matrix products: thin ones are opened, sums of them become one, transposed factors are copied."""

from __future__ import annotations

from collections import Counter

from gradwalk.compiler.ir.program import (
    Args,
    Builder,
    Call,
    Operand,
    Program,
    Rewritten,
    Term,
    in_order,
    replaced,
    rewrite,
    rewrites,
)
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.ops.elementwise.arithmetic import add, mul
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.reduce.reduction import sum_op
from gradwalk.ops.shape.reshaping import clone, concatenate, permute, reshape

Stacks = dict[Call, dict[Term, int]]  # concatenations of equal pieces, and the positions of those

FEWEST = 4  # products that are worth stacking
OFTEN = 4  # products that are worth copying a factor for


@rewrites(matmul_op)
def open_thin_products(call: Call, args: Args, build: Builder) -> Rewritten:
    """Replace thin products by multiplications and sums.

    With an inner dimension of 1 a product is a multiplication that broadcasts; with a single row or
    column it is a multiplication and a sum. Both can be fused with the kernels around them, which a
    product cannot.
    """
    if not is_floating(call.outputs[0].dtype):
        return None
    x, y = args
    assert isinstance(x, Term) and isinstance(y, Term)
    out = call.outputs[0]
    if x.shape[-1] == 1:
        result = build.apply(mul, (x, y))
    elif y.shape[-1] == 1 and x.ndim >= y.ndim:
        before = _before_turning(x)
        if before is None:
            result = _summed(build, x, _turned(build, y), x.ndim - 1)
        else:  # its columns are contiguous: add up rows of them
            result = _turned(build, _summed(build, before, y, x.ndim - 2))
    elif x.shape[-2] == 1 and y.ndim >= x.ndim:
        before = _before_turning(y)
        if before is None:
            result = _summed(build, _turned(build, x), y, y.ndim - 2)
        else:
            result = _turned(build, _summed(build, before, x, y.ndim - 1))
    else:
        return None
    return [result] if result.shape == out.shape else None


def _before_turning(x: Term) -> Term | None:
    """A matrix before its last two dimensions were exchanged; None if they were not."""
    call = x.call
    if call is None or call.op is not permute:
        return None
    return call.terms[0] if call.attrs["axes"] == _exchanged(x.ndim) else None


def _summed(build: Builder, x: Term, y: Term, axis: int) -> Term:
    product = build.apply(mul, (x, y))
    return build.apply(sum_op, (product,), {"axis": (axis,), "keepdim": True})


def _turned(build: Builder, x: Term) -> Term:
    """The last two dimensions exchanged; of a single row or column that is a reshape."""
    if 1 in x.shape[-2:]:
        return build.reshape(x, (*x.shape[:-2], x.shape[-1], x.shape[-2]))
    return build.apply(permute, (x,), {"axes": _exchanged(x.ndim)})


def _exchanged(count: int) -> tuple[int, ...]:
    """So many dimensions with the last two exchanged."""
    return (*range(count - 2), count - 1, count - 2)


# -- staging ---------------------------------------------------------------------------------------


def stage_transposed(program: Program) -> Program:
    """Copy transposed right factors that are used often.

    A product whose second factor is not in row order copies it into panels first. A recurrent
    network would do so with the same weight at every time step.
    """
    used = Counter(call.args[1] for call in program.calls if call.op is matmul_op)
    often = {t for t, count in used.items() if count >= OFTEN and is_turned(t)}
    if not often:
        return program

    def visit(call: Call, args: Args, build: Builder) -> Rewritten:
        if call.op is not permute or call.outputs[0] not in often:
            return None
        (turned,) = build.again(call, args)
        return [build.apply(clone, (turned,))]

    return rewrite(program, visit)


def is_turned(operand: Operand) -> bool:
    """Whether an operand is a transpose."""
    if not isinstance(operand, Term) or operand.call is None or operand.call.op is not permute:
        return False
    axes = operand.call.attrs["axes"]
    return bool(axes[-1] != len(axes) - 1)


# -- stacking --------------------------------------------------------------------------------------


def stack_products(program: Program) -> Program:
    """Replace sums of products of one shape by one product of stacked factors:

        Σ_t x_tᵀ @ g_t   is   [x_1; x_2; ...]ᵀ @ [g_1; g_2; ...]

    The gradient of a weight that is used at every time step is such a sum. One long product runs at
    full speed, and nothing is added up afterwards. The kernels that compute the pieces write them
    into the stack, so stacking costs nothing. (The order of the sum changes.)
    """
    if sum(_is_transposed_product(call.outputs[0]) for call in program.calls) < FEWEST:
        return program
    users = program.consumers()
    ends = set(program.ends())
    stacks = _stacks(program)
    positions = {call: i for i, call in enumerate(program.calls)}
    build = Builder()
    now: dict[Term, Term] = {}
    for position, call in enumerate(program.calls):
        build.line = call.line
        out = call.outputs[0]
        last = call.op is add and (out in ends or not _goes_on(out, users))
        leaves = _leaves(out, users, ends) if last else []
        products = [t for t in leaves if _is_transposed_product(_straight(t))]
        forms = {(_shapes(_straight(t)), _straight(t) is t) for t in products}
        if len(products) >= FEWEST and len(forms) == 1:
            others = [now.get(t, t) for t in leaves if t not in set(products)]
            turned = _straight(products[0]) is not products[0]
            known = _ready(stacks, positions, position)
            total = _stacked(build, [_straight(t) for t in products], turned, known, now)
            for other in others:
                total = build.apply(add, (total, other))
            made: tuple[Term, ...] = (total,)
        else:
            made = build.again(call, replaced(call, now))
        if made is not call.outputs:
            now |= zip(call.outputs, made, strict=True)
    if not now:
        return program
    return program.with_calls(in_order(build.calls), now)


def _goes_on(term: Term, users: dict[Term, list[Call]]) -> bool:
    """Whether a sum is only a part of a longer one."""
    calls = users.get(term, [])
    return len(calls) == 1 and calls[0].op is add and calls[0].outputs[0].shape == term.shape


def _leaves(term: Term, users: dict[Term, list[Call]], ends: set[Term]) -> list[Term]:
    """The terms that a chain of additions adds up, in order."""
    leaves: list[Term] = []
    waiting = [term]
    while waiting:
        here = waiting.pop()
        inner = here is term or (len(users.get(here, ())) == 1 and here not in ends)
        if inner and here.call is not None and here.call.op is add and _same_shapes(here):
            waiting += [a for a in reversed(here.call.args) if isinstance(a, Term)]
        else:
            leaves.append(here)
    return leaves


def _same_shapes(term: Term) -> bool:
    assert term.call is not None
    return all(isinstance(a, Term) and a.shape == term.shape for a in term.call.args)


def _straight(term: Term) -> Term:
    """A matrix before it was transposed: a sum of transposes is the transpose of a sum."""
    return (_before_turning(term) if term.ndim == 2 else None) or term


def _is_transposed_product(term: Term) -> bool:
    """Whether a term is xᵀ @ g of two matrices."""
    call = term.call
    if call is None or call.op is not matmul_op or term.ndim != 2:
        return False
    return _before_turning(call.terms[0]) is not None


def _operands(term: Term) -> tuple[Term, Term]:
    """x and g of xᵀ @ g."""
    assert term.call is not None
    turned, g = term.call.terms
    return _straight(turned), g


def _shapes(term: Term) -> tuple[object, ...]:
    return tuple((t.shape, t.dtype) for t in _operands(term))


def _stacked(
    build: Builder, products: list[Term], turned: bool, stacks: Stacks, now: dict[Term, Term]
) -> Term:
    """One product for several, or its transpose; in the order of an existing stack, if there is
    one."""
    pairs = [_operands(t) for t in products]
    for side in (1, 0):
        known = _common_stack([p[side] for p in pairs], stacks)
        if known is not None:
            positions = stacks[known]
            pairs.sort(key=lambda pair: positions[pair[side]])
            break
    x, g = (_stack(build, [p[side] for p in pairs], stacks, now) for side in (0, 1))
    left, right = (g, x) if turned else (x, g)
    return build.apply(matmul_op, (build.apply(permute, (left,), {"axes": (1, 0)}), right))


def _common_stack(pieces: list[Term], stacks: Stacks) -> Call | None:
    """A concatenation that joins all of these pieces, perhaps among others."""
    joining = (call for call, positions in stacks.items() if positions.keys() >= set(pieces))
    return next(joining, None)


def _stack(build: Builder, pieces: list[Term], stacks: Stacks, now: dict[Term, Term]) -> Term:
    """The pieces one below the other: a part of an existing stack, or a new one."""
    rows, *rest = pieces[0].shape
    known = _common_stack(pieces, stacks)
    if known is not None:
        positions = [stacks[known][piece] for piece in pieces]
        first = positions[0]
        if positions == list(range(first, first + len(pieces))):
            whole = known.outputs[0]
            flat = (len(known.args) * rows, *rest)
            stack = build.reshape(now.get(whole, whole), flat)
            part = ("slice", first * rows, (first + len(pieces)) * rows, None)
            return build.apply(getitem, (stack,), {"index": (part,)})
    return build.apply(concatenate, [now.get(p, p) for p in pieces], {"axis": 0})


def _stacks(program: Program) -> Stacks:
    """The concatenations of pieces of one shape."""
    stacks: Stacks = {}
    for call in program.calls:
        if call.op is concatenate and call.attrs["axis"] == 0 and len(call.args) >= FEWEST:
            pieces = [_piece(a) for a in call.args if isinstance(a, Term)]
            if len({p.shape for p in pieces}) == 1:
                stacks[call] = {piece: position for position, piece in enumerate(pieces)}
    return stacks


def _ready(stacks: Stacks, positions: dict[Call, int], position: int) -> Stacks:
    """The concatenations whose pieces are all computed before this position: a later piece may
    depend on the very sum that would read it."""
    return {
        call: pieces
        for call, pieces in stacks.items()
        if all(p.call is None or positions[p.call] < position for p in pieces)
    }


def _piece(term: Term) -> Term:
    """The matrix that is stacked, without a leading dimension of length 1."""
    call = term.call
    if call is not None and call.op is reshape and term.shape[0] == 1:
        before = call.terms[0]
        if before.shape == term.shape[1:]:
            return before
    return term
