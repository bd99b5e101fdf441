"""Tracing: what becomes a call, what is captured, what is refused, and that nothing is left."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.compiler.ir.program import Argument, Constant, Memory, Program, Scalar
from gradwalk.compiler.tracing.aliasing import view_chain
from gradwalk.compiler.tracing.trace_function import trace

Function = Callable[..., Any]


def compiled(function: Function, **options: Any) -> Any:
    return gw.compile(function, backend="numpy", **options)


def names(program: Program) -> list[str]:
    return [call.op.name for call in program.calls]


def vector(*numbers: float) -> gw.Tensor:
    return gw.tensor([float(n) for n in numbers])


def agrees(function: Function, *args: Any, calls: int = 2) -> None:
    """The same results, and the same arguments afterwards, several times."""
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    run = compiled(function)
    for _ in range(calls):
        want, got = function(*ours), run(*theirs)
        for a, b in zip(_listed(want), _listed(got), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


# -- programs ------------------------------------------------------------------------------------


def test_calls_are_in_order_and_only_those_needed() -> None:
    def function(x: gw.Tensor) -> gw.Tensor:
        x.exp()
        return (x * 2).tanh()

    program = trace(function, (vector(1, 2),)).program
    assert names(program) == ["mul", "tanh"]
    (source,) = program.sources()
    assert source.source == Argument(0)
    assert program.calls[0].args[1] == 2


def test_a_call_knows_the_line_it_stands_for() -> None:
    from gradwalk.graph.source import source_line

    def function(x: gw.Tensor) -> gw.Tensor:
        return x.sinh()  # this one

    (call,) = trace(function, (vector(1),)).program.calls
    line = source_line(*call.line)
    assert line is not None
    assert "this one" in line.text


def test_no_call_promotes() -> None:
    def function(x: gw.Tensor, i: gw.Tensor) -> gw.Tensor:
        return x * i + 1

    program = trace(function, (vector(1, 2), gw.tensor([1, 2]))).program
    assert names(program) == ["cast", "mul", "add"]
    assert {t.dtype for t in program.calls[1].terms} == {gw.float32}


def test_arrays_made_inside_are_constants() -> None:
    def function(x: gw.Tensor) -> gw.Tensor:
        return x + gw.tensor([1.0, 2.0]) + gw.zeros(2) + gw.arange(2)

    program = trace(function, (vector(1, 2),)).program
    constants = [t for t in program.sources() if isinstance(t.source, Constant)]
    assert [t.shape for t in constants] == [(2,), (), (2,)]  # zeros are one number, spread


def test_ops_with_residuals_are_traced_through_their_definition() -> None:
    x = gw.randn(3, 4, requires_grad=True)
    program = trace(lambda x: nn.functional.layer_norm(x, (4,)).detach(), (x,)).program
    assert "standardize" not in names(program)


# -- captured memory -----------------------------------------------------------------------------


def test_a_tensor_from_outside_is_memory_and_seen_as_it_is_at_each_call() -> None:
    w = vector(1, 2)
    run = compiled(lambda x: x * w)
    assert run(vector(1, 1)).tolist() == [1, 2]
    w.add_(1)
    assert run(vector(1, 1)).tolist() == [2, 3]
    w.data = vector(7, 8)  # other memory
    assert run(vector(1, 1)).tolist() == [7, 8]
    assert len(run.specializations) == 1
    w.data = gw.tensor([7.0, 8.0], dtype=gw.float64)
    assert run(vector(1, 1)).dtype == gw.float64


def test_an_array_from_outside_is_seen_as_it_is_at_each_call() -> None:
    array = np.ones(2, np.float32)
    run = compiled(lambda x: (x * array, gw.tensor(array), gw.from_numpy(array), x[array > 0]))
    with pytest.raises(gw.TraceError):  # a mask, whose numbers are not known
        run(vector(1, 2))
    run = compiled(lambda x: (x * array, gw.tensor(array), gw.from_numpy(array)))
    run(vector(1, 2))
    array += 1
    product, copied, shared = run(vector(1, 2))
    assert product.tolist() == [2, 4]
    assert copied.tolist() == [2, 2]
    assert np.shares_memory(shared.numpy(), array)
    assert not np.shares_memory(copied.numpy(), array)


def test_tensors_on_one_memory_are_one() -> None:
    w = vector(1, 2, 3, 4)
    rows, alias = w.view(2, 2), w.detach()

    def step(x: gw.Tensor) -> gw.Tensor:
        rows.mul_(x)
        return alias.sum() + rows[1].sum()

    traced = trace(step, (vector(2, 2),))
    assert len(traced.captured) == 1
    run = compiled(step)
    assert run(vector(2, 2)).item() == 2 * 10 + 2 * 7
    assert w.tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a.T,
        lambda a: a[1],
        lambda a: a[1:3],
        lambda a: a.reshape(-1),
        lambda a: a.transpose(2, 0, 1),
        lambda a: a[2].T,
        lambda a: a.reshape(2, 30).T[:, :],
    ],
)
def test_the_way_to_a_block_of_memory(view: Any) -> None:
    owner = np.arange(60.0).reshape(3, 4, 5)
    array = view(owner)
    way = view_chain(owner, array)
    assert way is not None
    found: Any = owner
    for op, attrs, _ in way:
        found = op.forward(found, **attrs)
    np.testing.assert_array_equal(found, array)
    assert np.shares_memory(found, owner)


def test_columns_are_memory_of_their_own() -> None:
    owner = np.arange(6.0).reshape(2, 3)
    assert view_chain(owner, owner[:, 1]) is None
    column, row = gw.from_numpy(owner[:, 1]), gw.from_numpy(owner[0])
    run = compiled(lambda: column + row[:2])
    assert run().tolist() == [1, 5]
    owner += 1
    assert run().tolist() == [3, 7]


def test_overlapping_memory_that_changes_is_refused() -> None:
    owner = np.arange(6.0).reshape(2, 3)
    column, row = gw.from_numpy(owner[:, 1]), gw.from_numpy(owner[0])

    def step() -> gw.Tensor:
        column.add_(1)
        return row.sum()

    with pytest.raises(gw.TraceError, match="share memory"):
        compiled(step)()
    assert owner.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_argument_on_memory_that_changes_is_refused() -> None:
    w = vector(1, 2)

    def step(x: gw.Tensor) -> gw.Tensor:
        w.add_(x)
        return w.sum()

    run = compiled(step)
    assert run(vector(1, 1)).item() == 5
    with pytest.raises(gw.TraceError, match="shares memory"):
        run(w.detach())
    assert w.tolist() == [2, 3]


# -- changes in place ----------------------------------------------------------------------------


def in_place(x: gw.Tensor) -> Any:
    x.add_(1).mul_(2)
    x[0] = 5.0
    x += x
    return x.clone()


def through_views(x: gw.Tensor) -> Any:
    y = x.view(2, 2)
    z = y.t()
    z[0] += 10
    x[3] = -1
    return y.sum(0), z + 0, x[1:3] * 1


def masked(x: gw.Tensor) -> Any:
    x[x > 2] = 0.0
    x.masked_fill_(x == 1, 9.0)
    return x.clone()


def by_index(x: gw.Tensor) -> Any:
    x[gw.tensor([0, 0, 2])] = gw.tensor([5.0, 6.0, 7.0])
    x.index_add_(0, gw.tensor([1, 1]), gw.tensor([1.0, 2.0]))
    return x.clone()


def pieces(x: gw.Tensor) -> Any:
    first, second = x.split(2)
    second.copy_(first)
    first.zero_()
    return x * 1


def swapped(x: gw.Tensor) -> Any:
    before = x.clone()
    x[:2], x[2:] = before[2:], before[:2]
    return before


@pytest.mark.parametrize(
    "function",
    [in_place, through_views, masked, by_index, pieces, swapped],
    ids=lambda f: f.__name__,
)
def test_changes_in_place(function: Function) -> None:
    agrees(function, vector(1, 2, 3, 4))


def test_gradients_of_changes_in_place() -> None:
    def function(x: gw.Tensor) -> Any:
        y = x * 2
        y[1:3] *= x[:2]
        y.view(2, 2).t().tanh_()
        (g,) = gw.autograd.grad(y.sum(), x)
        return g

    agrees(function, gw.tensor([0.1, 0.2, 0.3, 0.4], requires_grad=True))


def test_a_saved_value_that_is_changed_is_caught_while_tracing() -> None:
    def function(x: gw.Tensor) -> Any:
        y = x.exp()
        z = y.sum()
        with gw.no_grad():
            y.add_(1)
        return gw.autograd.grad(z + y.exp().sum(), x)

    with pytest.raises(gw.AutogradError, match="modified in place"):
        compiled(function)(gw.tensor([1.0], requires_grad=True))


def test_a_reshape_that_may_be_a_copy_is_not_written_through() -> None:
    def writes(x: gw.Tensor) -> Any:
        y = x.t().softmax(0).reshape(4)
        y.add_(1)
        return x

    def reads_late(x: gw.Tensor) -> Any:
        z = x.t().softmax(0)
        y = z.reshape(4)
        z.add_(1)
        return y * 1

    for function in (writes, reads_late):
        with pytest.raises(gw.TraceError, match=r"\.clone\(\)"):
            compiled(function)(gw.ones(2, 2))
    agrees(lambda x: x.t().reshape(4) + 1, gw.ones(2, 2))


@pytest.mark.parametrize("shape", [(4,), (2, 2), (2, 1, 2), (1, 2, 2)])
def test_a_reshape_of_known_memory_is_a_copy_or_a_view_as_in_numpy(shape: Any) -> None:
    def function(x: gw.Tensor) -> Any:
        y = x.t().reshape(shape)
        y.add_(1)
        x.mul_(3)
        return y * 1, x * 1

    agrees(function, gw.ones(2, 2))
    agrees(function, gw.arange(4.0).reshape(2, 2))


def test_what_is_repeated_has_memory_of_its_own() -> None:
    def function(x: gw.Tensor) -> Any:
        twice = x.tile(2)
        twice.add_(1)
        each = x.repeat_interleave(2)
        each.mul_(twice)
        return each + x.sum()

    agrees(function, vector(1, 2, 3))
    agrees(function, vector(1, 2, 3).requires_grad_())


def test_results_with_names_keep_them() -> None:
    found = compiled(lambda x: (x.max(0), {"sorted": x.sort()}))(vector(3, 1, 2))
    assert found[0].indices.item() == 0
    assert found[1]["sorted"].values.tolist() == [1, 2, 3]


def test_what_is_expanded_cannot_be_written_to() -> None:
    with pytest.raises(RuntimeError, match="clone"):
        compiled(lambda x: x.expand(2, 2).add_(1))(gw.ones(2))


# -- results -------------------------------------------------------------------------------------


def test_results_share_memory_as_eager_ones_do() -> None:
    def function(x: gw.Tensor) -> Any:
        y = x * 2
        return y, y.view(2, 2), y[0], {"again": y, "none": None, "text": "as it is"}

    y, square, one, more = compiled(function)(vector(1, 2, 3, 4))
    assert more["again"] is y
    assert (more["none"], more["text"]) == (None, "as it is")
    y[0] = 7
    assert square.tolist() == [[7, 4], [6, 8]]
    assert one.item() == 7


def test_results_apart_have_memory_apart() -> None:
    first, second = compiled(lambda x: (x.clone(), x.clone()))(vector(1, 2))
    first.add_(1)
    assert second.tolist() == [1, 2]


def test_a_captured_tensor_is_returned_as_itself() -> None:
    w = gw.ones(2, requires_grad=True)
    x = vector(1, 2)
    same, part, given, piece = compiled(lambda x: (w, w.detach()[:1], x, x[1:]))(x)
    assert same is w
    assert np.shares_memory(part.numpy(), w.detach().numpy())
    assert given is x
    assert np.shares_memory(piece.numpy(), x.numpy())


def test_numbers_are_returned_as_numbers() -> None:
    assert compiled(lambda x, a: (a * 2, 3, a))(vector(1), 0.5) == (1.0, 3, 0.5)


# -- late-bound numbers --------------------------------------------------------------------------


def test_a_float_argument_is_read_at_every_call() -> None:
    run = compiled(lambda x, rate: x * rate + rate**2)
    assert run(vector(1, 2), 0.5).tolist() == [0.75, 1.25]
    assert run(vector(1, 2), 2.0).tolist() == [6, 8]
    assert sum(map(len, run.specializations.values())) == 1


def test_a_branch_on_a_late_number_is_a_condition() -> None:
    run = compiled(lambda x, rate: x * rate if rate > 1 else -x)
    assert run(vector(1), 2.0).item() == 2
    assert run(vector(1), 3.0).item() == 3
    assert run(vector(1), 0.5).item() == -1
    assert sum(map(len, run.specializations.values())) == 2


def test_late_numbers_are_as_weak_as_pythons() -> None:
    for dtype in (gw.float32, gw.float64):
        x = gw.ones(2, dtype=dtype)
        assert compiled(lambda x, a: (x * a, a - x, x.sum() / a))(x, 0.1)[0].dtype == dtype
        assert compiled(lambda x, a: x.sum() * a)(x, 0.1).dtype == dtype
    assert compiled(lambda i, a: i * a)(gw.arange(3), 0.5).dtype == gw.float32


def test_equal_expressions_of_late_numbers_are_one_call() -> None:
    def function(x: gw.Tensor, a: float) -> Any:
        return x * (a**2 + 1), x + (a**2 + 1)

    assert names(trace(function, (vector(1), 0.5)).program).count("power") == 1


def test_static_arguments_compile_anew() -> None:
    def function(x: gw.Tensor, slope: float, *, p: float = 0.5) -> gw.Tensor:
        return nn.functional.leaky_relu(x, slope) * p

    run = compiled(function, static="slope")
    assert run(vector(-1), 0.5).item() == -0.25
    assert run(vector(-1), slope=0.25, p=2.0).item() == -0.5
    with pytest.raises(gw.TraceError, match=r"argument slope(.|\n)*static="):
        compiled(function)(vector(-1), 0.5)
    assert compiled(function, static=(1,))(vector(-1), 0.5).item() == -0.25


# -- randomness ----------------------------------------------------------------------------------


def draws(x: gw.Tensor) -> Any:
    return (
        nn.functional.dropout(x, 0.3), gw.rand(3, dtype=gw.float64), gw.randn(5),
        gw.randint(9, (7,)),
        gw.randperm(6), gw.bernoulli(x), x.clone().normal_(1.0, 2.0), x.clone().exponential_(),
        gw.normal(x, x), x.clone().uniform_(-1, 1), gw.randn(3, 3), gw.rand(0),
    )  # fmt: skip


def test_draws_are_those_of_eager_code() -> None:
    x, run = gw.full((17,), 0.5), compiled(draws)
    gw.manual_seed(2**64 - 3)
    expected = [draws(x) for _ in range(3)]
    after = gw.rand(2)
    gw.manual_seed(2**64 - 3)
    for each in expected:
        for a, b in zip(each, run(x), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    assert gw.rand(2).tolist() == after.tolist()


def test_a_generator_of_ones_own() -> None:
    generator = gw.Generator().manual_seed(1)
    expected = [gw.rand(3, generator=generator).tolist() for _ in range(2)]
    generator.manual_seed(1)
    run = compiled(lambda: gw.rand(3, generator=generator))
    assert [run().tolist() for _ in range(2)] == expected


def test_pytorchs_stream_is_refused() -> None:
    generator = gw.Generator(like="torch").manual_seed(1)
    with pytest.raises(gw.TraceError, match="like='gradwalk'"):
        compiled(lambda: gw.rand(3, generator=generator))()


@pytest.mark.parametrize("draw", [random.random, lambda: np.random.rand()])
def test_random_numbers_of_others_warn(draw: Any) -> None:
    with pytest.warns(UserWarning, match=r"test_tracing\.py.*every later call"):
        compiled(lambda x: x * draw())(vector(1))


def test_sources_are_numbered_from_0() -> None:
    w, b = gw.ones(2, requires_grad=True), gw.ones(2, requires_grad=True)
    optimizer = gw.optim.Adam([w, b], lr=0.5)

    def step(x: gw.Tensor) -> gw.Tensor:
        unused = gw.ones(2) * w[0]
        optimizer.zero_grad()
        loss = (w * x + b).sum()
        loss.backward()
        optimizer.step()
        return loss.detach() + 0 * unused.detach().sum() * 0

    traced = trace(step, (vector(1, 2),))
    kinds = [t.source for t in traced.program.sources()]
    memories = {s.number for s in kinds if isinstance(s, Memory)}
    scalars = {s.number for s in kinds if isinstance(s, Scalar)}
    assert memories == set(range(len(traced.captured)))
    assert scalars == set(range(len(traced.scalars)))
    # lr, betas, eps; weight_decay is a condition only, and the two step counts are one number
    assert len(scalars) == 5
