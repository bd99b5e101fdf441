"""The plan: which calls become one kernel, where arrays lie, who waits for whom."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwalk.compiler.backends.llvm.backend import CAPABILITIES
from gradwalk.compiler.backends.llvm.runtime import thread_pool
from gradwalk.compiler.pipeline import build, run_passes
from gradwalk.compiler.plan import synchronization
from gradwalk.compiler.plan.arena import place_in_arena
from gradwalk.compiler.plan.buffers import ALIGNMENT, Buffer, Slice
from gradwalk.compiler.plan.fusion import LARGE_SUM, MOST_CALLS, Fusion, FusionGroup
from gradwalk.compiler.plan.loop_kinds import Kind, picking
from gradwalk.compiler.plan.loop_nest import Load, Loops, Store
from gradwalk.compiler.plan.schedule import Entry, Plan, place_arrays
from gradwalk.compiler.plan.sinking import sink
from gradwalk.compiler.plan.synchronization import sharing
from tests.compiler.programs import (
    WHOLE,
    Written,
    agrees,
    assert_same_bits,
    describe,
    plan_of,
    programs,
)

BACKWARDS = ("slice", None, None, -1)


def whole(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def groups(w: Written) -> list[list[str]]:
    """The ops of every kernel, views left out."""
    fusion = Fusion(run_passes(w.program), CAPABILITIES)
    return [
        [call.op.name for call in group.calls]
        for group in fusion.in_order()
        if group.kind is not Kind.VIEW
    ]


def planned(w: Written) -> Plan:
    found = plan_of(w.program)
    place_arrays(found)
    return found


def copies(found: Plan) -> int:
    """How many entries only move an array."""
    return sum(
        isinstance(entry.work, Loops) and [type(step) for step in entry.work.steps] == [Load, Store]
        for entry in found.entries
    )


# -- fusion ----------------------------------------------------------------------------------------


def test_a_chain_of_elementwise_work_is_one_kernel() -> None:
    w = Written()
    x, y = w.argument(whole(5, 7)), w.argument(whole(7))
    total = w.add("add", w.add("mul", x, y), 1.0)
    w.returns(w.add("tanh", total), w.add("neg", total))
    assert groups(w) == [["mul", "add", "tanh", "neg"]]


def test_what_a_kernel_writes_is_listed_once() -> None:
    w = Written()
    x = w.argument(whole(3, 4))
    w.returns(w.add("exp", x), w.add("sum", w.add("exp", x), axis=(1,), keepdim=True))
    for entry in planned(w).entries:
        buffers = [place.buffer for place in entry.writes]
        assert len(buffers) == len(set(map(id, buffers))) > 0


def test_a_softmax_is_one_kernel() -> None:
    w = Written()
    w.returns(w.add("softmax", w.argument(whole(5, 7)), axis=1))
    assert len(groups(w)) == 1


def test_a_normalisation_is_one_kernel() -> None:
    w = Written()
    x, scale = w.argument(whole(5, 7)), w.argument(whole(7))
    centre = w.add("sub", x, w.add("mean", x, axis=(1,), keepdim=True))
    spread = w.add("mean", w.add("mul", centre, centre), axis=(1,), keepdim=True)
    w.returns(w.add("mul", w.add("mul", centre, w.add("rsqrt", w.add("add", spread, 1.0))), scale))
    assert len(groups(w)) == 1


def test_what_is_done_to_a_product_is_part_of_it() -> None:
    w = Written()
    x, y, bias = (w.argument(whole(*s)) for s in ((5, 3), (3, 7), (7,)))
    w.returns(w.add("relu", w.add("add", w.add("matmul", x, y), bias)))
    assert groups(w) == [["matmul", "add", "relu"]]


def test_what_a_product_reads_is_not_part_of_it() -> None:
    w = Written()
    x = w.add("relu", w.argument(whole(5, 5)))
    w.returns(w.add("add", w.add("matmul", x, w.argument(whole(5, 5))), x))
    kinds = groups(w)
    assert kinds[0] == ["relu"] and "matmul" in kinds[1]


def test_what_is_picked_from_is_there_before() -> None:
    w = Written()
    table = w.add("relu", w.argument(whole(4, 5)))
    index = w.argument(np.array([1, 1, 0, 3]))
    w.returns(w.add("add", w.add("embedding", table, index, padding_idx=None), table))
    assert groups(w) == [["relu"], ["embedding", "add"]]


@pytest.mark.parametrize("make", ["columns", "product"])
def test_picks_stay_out_of_kernels_that_cannot_pick(make: str) -> None:
    w = Written()
    index = w.argument(np.array([1, -1, 3, 3]))
    picked = w.add("embedding", w.argument(whole(9, 33)), index, padding_idx=None)
    if make == "columns":
        w.returns(w.add("sum", picked, axis=(0,), keepdim=False))
    else:
        product = w.add("matmul", w.argument(whole(4, 5)), w.argument(whole(5, 33)))
        w.returns(w.add("add", product, picked))
    assert len(groups(w)) == 2
    agrees(w)


def test_the_gradient_of_a_bias_is_summed_where_it_is_made() -> None:
    w = Written()
    g, y = w.argument(whole(5, 7)), w.argument(whole(5, 7))
    dz = w.add("mul", g, y)
    w.returns(dz, w.add("sum", dz, axis=(0,), keepdim=False))
    assert len(groups(w)) == 1


def test_sums_along_columns_are_there_only_at_the_end() -> None:
    w = Written()
    x = w.argument(whole(5, 7))
    w.returns(w.add("sub", x, w.add("sum", x, axis=(0,), keepdim=True)))
    assert groups(w) == [["sum"], ["sub"]]


def test_a_large_sum_is_not_waited_for_in_its_kernel() -> None:
    w = Written()
    x = w.argument(np.ones(LARGE_SUM + 1, np.float32))
    w.returns(w.add("div", x, w.add("sum", x, axis=(0,), keepdim=True)))
    assert groups(w) == [["sum"], ["div"]]


def test_numbers_go_together_though_nothing_connects_them() -> None:
    w = Written()
    for value in (0.5, 0.25):
        late = w.number(value)
        w.becomes(late, w.add("mul", late, 2.0))
    assert groups(w) == [["mul", "mul"]]


def test_kernels_that_would_wait_for_one_another_stay_apart() -> None:
    """s and s + m have one shape, but m is made of h, which is in the kernel of h + s."""
    w = Written()
    x, b = w.argument(whole(6, 6)), w.argument(whole(6, 1))
    h = w.add("relu", x)
    k = w.add("cumsum", h, axis=0)
    m = w.add("cumsum", w.add("getitem", k, index=(WHOLE, ("slice", 0, 1, None))), axis=0)
    s = w.add("neg", b)
    w.returns(w.add("add", h, s), w.add("add", s, m), s)
    agrees(w)


def test_long_chains_are_cut() -> None:
    w = Written()
    x = y = w.argument(whole(5, 40))
    for _ in range(600):
        y = w.add("sub", w.add("maximum", y, x), 1.0)
    total = w.add("clip", w.add("sum", y, axis=(1,), keepdim=True), min=-8.0, max=8.0)
    w.returns(w.add("add", y, total))
    assert max(map(len, groups(w))) <= MOST_CALLS
    agrees(w)


@given(programs(most=14))
def test_every_call_is_in_one_group_and_groups_are_in_order(written: Written) -> None:
    program = run_passes(written.program)
    fusion = Fusion(program, CAPABILITIES)
    _check_groups(fusion, program.calls)
    sink(fusion)
    _check_groups(fusion, program.calls)


def _check_groups(fusion: Fusion, calls: list[Any]) -> None:
    order = fusion.in_order()
    assert sorted(map(id, (c for g in order for c in g.calls))) == sorted(map(id, calls))
    place: dict[FusionGroup, int] = {group: i for i, group in enumerate(order)}
    for group in order:
        for call in group.calls:
            assert fusion.of[call] is group
            made = [fusion.of[t.call] for t in call.terms if t.call is not None]
            assert all(place[g] <= place[group] for g in made)
            if picking(call) is not None or call.op.name == "matmul":
                assert group not in made


# -- sinking ---------------------------------------------------------------------------------------


def _slope(w: Written) -> tuple[Any, Any]:
    """tanh of a product, its slope, and a later product that is multiplied by it."""
    x, y = w.argument(whole(5, 3)), w.argument(whole(3, 5))
    out = w.add("tanh", w.add("matmul", x, y))
    slope = w.add("sub", 1.0, w.add("mul", out, out))
    back = w.add("mul", w.add("matmul", out, w.argument(whole(5, 5))), slope)
    w.returns(out, back)
    return slope, back


def test_what_only_backward_needs_is_computed_there() -> None:
    w = Written()
    slope, back = _slope(w)
    fusion = Fusion(w.program, CAPABILITIES)
    assert fusion.of[slope.call] is not fusion.of[back.call]
    sink(fusion)
    assert fusion.of[slope.call] is fusion.of[back.call]
    assert slope not in fusion.stored(fusion.of[slope.call].calls)
    agrees(w, 1e-5)


def test_what_is_asked_for_stays_where_it_is() -> None:
    w = Written()
    slope, back = _slope(w)
    w.returns(slope)
    fusion = Fusion(w.program, CAPABILITIES)
    sink(fusion)
    assert fusion.of[slope.call] is not fusion.of[back.call]


def test_what_two_kernels_need_stays_where_it_is() -> None:
    w = Written()
    slope, back = _slope(w)
    w.returns(w.add("mul", w.add("matmul", back, back), slope))
    fusion = Fusion(w.program, CAPABILITIES)
    sink(fusion)
    assert fusion.of[slope.call] is not fusion.of[back.call]
    agrees(w, 1e-5)


# -- layouts ---------------------------------------------------------------------------------------


def test_pieces_are_computed_where_they_are_wanted() -> None:
    w = Written()
    x, y = w.argument(whole(5, 7)), w.argument(whole(5, 2))
    w.returns(w.add("concatenate", w.add("neg", x), w.add("abs", y), axis=1))
    assert (copies(planned(w)), len(planned(w).entries)) == (0, 2)
    agrees(w)


def test_a_piece_that_is_there_twice_or_is_a_source_is_copied() -> None:
    w = Written()
    x = w.argument(whole(5, 7))
    y = w.add("neg", x)
    w.returns(w.add("concatenate", y, y, x, axis=0), y)
    agrees(w)


def test_an_empty_piece_is_not_copied() -> None:
    """The piece before it has one element, so that all strides are 0."""
    w = Written()
    x = w.argument(whole(1, 1))
    empty = w.add("getitem", x, index=(("slice", None, None, None), ("slice", 1, 1, None)))
    w.returns(w.add("concatenate", w.add("neg", x), empty, axis=1))
    agrees(w)


def test_a_permutation_before_a_reshape_needs_no_copy() -> None:
    w = Written()
    x = w.add("relu", w.argument(whole(2, 3, 4)))
    turned = w.add("permute", x, axes=(1, 0, 2))
    w.returns(w.add("reshape", turned, shape=(3, 8)))
    w.returns(w.add("neg", w.add("reshape", w.add("permute", w.add("abs", x), axes=(2, 0, 1)),
                                 shape=(4, 6))))  # fmt: skip
    assert copies(planned(w)) == 0
    agrees(w)


def test_two_views_of_one_result() -> None:
    w = Written()
    x = w.add("relu", w.argument(whole(2, 3)))
    w.returns(w.add("reshape", x, shape=(6,)), w.add("permute", x, axes=(1, 0)), x)
    w.returns(w.add("reshape", w.add("permute", x, axes=(1, 0)), shape=(6,)))
    agrees(w)


def test_what_is_padded_is_cleared_around_it() -> None:
    w = Written()
    x = w.add("neg", w.argument(whole(3, 4)))
    w.returns(w.add("pad", x, widths=((1, 0), (2, 3)), value=7.0))
    w.returns(w.add("put", x, index=(("slice", 1, 7, 2), BACKWARDS), shape=(8, 4)))
    agrees(w)


def test_views_backwards() -> None:
    w = Written()
    x = w.add("relu", w.argument(whole(6, 7)))
    back = w.add("getitem", x, index=(BACKWARDS, ("slice", None, None, -2)))
    w.returns(w.add("neg", back), w.add("reshape", back, shape=(24,)))
    w.returns(w.add("getitem", back, index=(("slice", 1, 4, None), BACKWARDS)))
    w.returns(w.add("matmul", w.add("permute", back, axes=(1, 0)), back))
    agrees(w)


def test_results_that_are_sources_are_copies() -> None:
    w = Written()
    x, m = w.argument(whole(3, 4)), w.memory(whole(4))
    w.returns(x, m, w.add("permute", x, axes=(1, 0)), w.add("expand", m, shape=(2, 4)))
    executable = build(w.program)
    results, _ = executable(w.arguments, w.memories, [])
    for one, other in itertools.combinations([*results, *w.arguments, *w.memories], 2):
        assert not np.shares_memory(one, other)
    agrees(w)


def test_equal_results_are_two_arrays() -> None:
    w = Written()
    x = w.argument(whole(3))
    w.returns(w.add("neg", x), w.add("neg", x))
    (first, second), _ = build(w.program)(w.arguments, [], [])
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, second)


def test_results_that_are_known_before_the_call() -> None:
    w = Written()
    c = w.constant(whole(3, 4))
    w.returns(w.add("sum", c, axis=(0,), keepdim=False), w.add("greater", c, 1.0), c)
    w.returns(w.add("expand", w.constant(2.5), shape=(100000,)))
    agrees(w)


def test_a_program_of_nothing() -> None:
    w = Written()
    m = w.memory(whole(0, 3))
    out = w.add("neg", m)
    w.returns(w.add("matmul", out, w.argument(whole(3, 4)))).becomes(m, out)
    assert planned(w).entries == [] or all(not b for b in map(_bytes, planned(w).entries))
    agrees(w)


def _bytes(entry: Entry) -> int:
    return sum(int(np.prod(place.shape)) for place in entry.writes)


# -- memory ----------------------------------------------------------------------------------------


def _lives(found: Plan) -> dict[Buffer, tuple[int, int]]:
    """From when to when each buffer of the arena holds something, from the entries alone."""
    lives: dict[Buffer, tuple[int, int]] = {}
    for position, entry in enumerate(found.entries):
        for place in (*entry.reads, *entry.writes, *entry.operands):
            if place.buffer.in_arena:
                first, _ = lives.get(place.buffer, (position, position))
                lives[place.buffer] = first, position
    return lives


@given(programs(most=14))
def test_buffers_that_live_at_once_lie_apart(written: Written) -> None:
    found = planned(written)
    for (a, (born, dies)), (b, (first, last)) in itertools.combinations(_lives(found).items(), 2):
        if born <= last and first <= dies:
            assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
    for buffer in _lives(found):
        assert buffer.offset % ALIGNMENT == 0 and buffer.offset + buffer.size <= found.arena


@given(programs(most=14))
def test_every_place_lies_in_its_buffer(written: Written) -> None:
    for entry in planned(written).entries:
        for place in (*entry.operands, *entry.reads, *entry.writes):
            low, high = _reach(place)
            if place.buffer.slot != 2:  # the late-bound numbers, of which the plan has no size
                assert low >= 0 and high * place.dtype.itemsize <= max(place.buffer.size, 1)


def _reach(place: Slice) -> tuple[int, int]:
    if 0 in place.shape:
        return 0, 0
    ways = [(n - 1) * s for n, s in zip(place.shape, place.strides, strict=True)]
    low = place.offset + sum(w for w in ways if w < 0)
    return low, place.offset + sum(w for w in ways if w > 0) + 1


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 9), st.integers(0, 5)), max_size=20))
def test_the_arena_is_no_larger_than_all_and_no_smaller_than_what_lives(drawn: Any) -> None:
    buffers = [Buffer(n, writers=[first], readers=[first + more]) for n, first, more in drawn]
    size = place_in_arena(buffers)
    rooms = [-(-b.size // ALIGNMENT) * ALIGNMENT for b in buffers]
    alive = [
        sum(r for r, (_, a, more) in zip(rooms, drawn, strict=True) if a <= now <= a + more)
        for now in range(15)
    ]
    assert max(alive) <= size <= sum(rooms)


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 9), st.integers(0, 5)), max_size=20))
def test_what_lives_at_one_time_lies_apart(drawn: Any) -> None:
    buffers = [Buffer(n, writers=[first], readers=[first + more]) for n, first, more in drawn]
    place_in_arena(buffers)
    for one, other in itertools.combinations(buffers, 2):
        if one.writers[0] <= other.readers[0] and other.writers[0] <= one.readers[0]:
            assert one.offset + one.size <= other.offset or other.offset + other.size <= one.offset


def test_small_buffers_leave_room_for_large_ones() -> None:
    """In the order of time, the small one in the middle would be in the way of the last."""
    lives = [(64, 0, 1), (64, 0, 3), (64, 1, 2), (192, 3, 4)]
    buffers = [Buffer(size, writers=[first], readers=[last]) for size, first, last in lives]
    assert place_in_arena(buffers) == 64 + 192


def test_memory_is_used_again() -> None:
    w = Written()
    x = w.argument(np.ones((64, 64), np.float32))
    for _ in range(10):
        x = w.add("cumsum", x, axis=0)
    assert planned(w.returns(x)).arena == 2 * 64 * 64 * 4


# -- threads ---------------------------------------------------------------------------------------


@pytest.fixture
def several() -> Iterator[None]:
    """Every kernel is shared, however short; afterwards as it was."""
    count, short = thread_pool.get_num_threads(), synchronization.SHORT
    synchronization.SHORT = -1
    yield
    synchronization.SHORT = short
    thread_pool.set_num_threads(count)


@given(programs(most=14), st.sampled_from([-1, 60, 300]))
def test_threads_meet_wherever_one_may_be_behind(written: Written, short: int) -> None:
    """Two entries that touch the same bytes, one of them writing, are run by one thread alone or
    have a meeting between them."""
    found = planned(written)
    before, synchronization.SHORT = synchronization.SHORT, short
    shared = sharing(found.entries, 3)
    synchronization.SHORT = before
    for (i, a), (j, b) in itertools.combinations(enumerate(found.entries), 2):
        if _touch(a, b) and not (shared[i].alone and shared[j].alone):
            assert any(how.meet for how in shared[i + 1 : j + 1])


@given(programs(most=14))
def test_kernels_take_only_what_they_are_known_to_read_and_write(written: Written) -> None:
    assert _unlisted(planned(written)) == []


def test_threads_wait_for_a_copy_of_what_is_scattered() -> None:
    w = Written()
    columns = w.add("permute", w.argument(whole(3, 4)), axes=(1, 0))
    rows = w.argument(np.array([2, 0, 2, 1]))
    w.returns(w.add("put", columns, rows, index=(("array", 0),), shape=(5, 3)))
    assert _unlisted(planned(w)) == []
    agrees(w)


def _unlisted(found: Plan) -> list[Entry]:
    """The entries with an operand that they neither read nor write."""
    return [
        entry
        for entry in found.entries
        if not {place.buffer.memory for place in entry.operands}
        <= {place.buffer.memory for place in (*entry.reads, *entry.writes)}
    ]


def _touch(a: Entry, b: Entry) -> bool:
    pairs = itertools.chain(
        itertools.product(a.writes, (*b.reads, *b.writes)), itertools.product(a.reads, b.writes)
    )
    return any(set(_cells(x)) & set(_cells(y)) for x, y in pairs)


def _cells(place: Slice) -> Iterator[tuple[int, int]]:
    """The words of memory a place covers: its slot, and the number of the word."""
    base = place.buffer.offset if place.buffer.in_arena else 0
    low, high = _reach(place)
    size = place.dtype.itemsize
    slot = max(place.buffer.slot, 0)
    for byte in range(base + low * size, base + high * size, 4):
        yield slot, byte // 4


@pytest.mark.slow
@settings(max_examples=40)
@given(programs(), st.integers(2, 4))
def test_the_number_of_threads_changes_no_bit(written: Written, count: int) -> None:
    before, synchronization.SHORT, used = synchronization.SHORT, -1, thread_pool.get_num_threads()
    found = []
    try:
        for number in (1, count):
            thread_pool.set_num_threads(number)
            executable = build(written.program)
            found += [written.outcome(executable) for _ in range(3)]
    except Exception as error:
        error.add_note("\n".join(describe(written)))
        raise
    finally:
        synchronization.SHORT = before
        thread_pool.set_num_threads(used)
    for each in found:
        assert_same_bits(each, found[0])


@pytest.mark.usefixtures("several")
def test_threads_that_come_later_have_no_scratch_memory() -> None:
    w = Written()
    x, y = w.argument(whole(200, 300)), w.argument(whole(300, 170))
    w.returns(w.add("relu", w.add("matmul", x, y)), w.add("neg", x))
    thread_pool.set_num_threads(2)
    executable = build(w.program)
    thread_pool.set_num_threads(4)
    assert_same_bits(w.outcome(executable), w.expected())
    thread_pool.set_num_threads(1)
    assert_same_bits(w.outcome(executable), w.expected())
