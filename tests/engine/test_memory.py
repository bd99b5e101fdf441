"""Who owns which memory, when it is freed, and what threads have for themselves."""

from __future__ import annotations

import gc
import itertools
import threading
import tracemalloc
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradwalk as gw


def leaf(*values: float) -> gw.Tensor:
    return gw.tensor(list(values) or [0.5, -1.5, 2.0], requires_grad=True)


# -- a gradient owns its memory ----------------------------------------------------------------

# Each has contributions that could be one array: the same for several leaves, or a saved one.
ALIASING: dict[str, Callable[..., Any]] = {
    "a + b": lambda a, b, c: a + b + c,
    "a + b - c": lambda a, b, c: a + b - c,
    "leaves met late": lambda a, b, c: a + (b + c.tanh()),
    "leaves met later": lambda a, b, c: a + (b - (-c).tanh().exp()),
    "one leaf twice": lambda a, b, c: a + a + b + c,
    "clones": lambda a, b, c: a.clone() + b.clone() * c,
    "reshapes": lambda a, b, c: a.reshape(3, 1) + b.reshape(3, 1) + c.unsqueeze(1),
    "a stack": lambda a, b, c: gw.stack([a, b, c]),
    "a concatenation": lambda a, b, c: gw.cat([a, b, c]),
    "expanded": lambda a, b, c: a.expand(2, 3) + b + c,
    "a product": lambda a, b, c: a * b * c,
    "pieces": lambda a, b, c: gw.cat(gw.cat([a, b + c]).split(2)),
    "indexed": lambda a, b, c: a[...] + b[[0, 1, 2]] + c[None],
    "where": lambda a, b, c: gw.where(a > 0, b, c) + a,
    "in place": lambda a, b, c: (a * 1).add_(b).sub_(c),
}


def gradients_of(out: gw.Tensor, leaves: list[gw.Tensor], way: str, seed: gw.Tensor) -> list[Any]:
    if way == "backward":
        out.backward(seed)
    elif way == "backward of a sum":  # no seed of the user's that would hold the arrays as well
        (out * 2.0).sum().backward()
    elif way == "create_graph":
        with warnings.catch_warnings(action="ignore"):
            out.backward(seed, create_graph=True)
    elif way == "inputs":
        out.backward(seed, inputs=leaves)
    else:
        return list(gw.autograd.grad(out, leaves, seed, create_graph=way == "grad, create_graph"))
    found = [t.grad for t in leaves]
    for t in leaves:
        t.grad = None
    return found


@pytest.mark.parametrize(
    "way",
    ["backward", "backward of a sum", "create_graph", "inputs", "grad", "grad, create_graph"],
)
@pytest.mark.parametrize("name", ALIASING)
def test_changing_one_gradient_changes_nothing_else(name: str, way: str) -> None:
    leaves = [leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0, 6.0), leaf(0.5, 0.25, 0.125)]
    out = ALIASING[name](*leaves)
    seed = gw.ones(*out.shape)
    gradients = gradients_of(out, leaves, way, seed)
    held = [seed, *leaves, *gradients]
    for one, other in itertools.combinations(held, 2):
        assert not np.shares_memory(one._array, other._array)
    before = [t.tolist() for t in held]
    with gw.no_grad():
        for index, gradient in enumerate(gradients):
            gradient.mul_(100)
            gradient.add_(1)
            before[len(held) - len(gradients) + index] = gradient.tolist()
            assert [t.tolist() for t in held] == before


def test_a_gradient_is_kept_without_a_copy_where_that_is_safe() -> None:
    """The walk's last array becomes .grad itself: one gradient in memory, not two."""
    x = gw.zeros(500_000, requires_grad=True)  # 2 MB
    y = (x * 3.0).sum()
    tracemalloc.start()
    try:
        y.backward()
        assert tracemalloc.get_traced_memory()[1] < 1.5 * x.nbytes
    finally:
        tracemalloc.stop()


def test_what_a_hook_sees_cannot_be_changed_in_place() -> None:
    """Others may receive the same array; PyTorch only asks users not to."""
    for create_graph in (False, True):
        a, b = leaf(), leaf()
        a.register_hook(lambda g: g.mul_(2))
        with pytest.raises(RuntimeError, match=r"\.clone\(\)"):
            gw.autograd.grad(((a + b) * 2.0).sum(), [a, b], create_graph=create_graph)


def test_a_retained_gradient_is_its_own() -> None:
    x = leaf(1.0, 2.0)
    y = x.clone()
    y.retain_grad()
    (y * 3).sum().backward()
    y.grad.zero_()
    assert x.grad.tolist() == [3.0, 3.0]


def test_accumulating_into_grad_is_seen_by_who_saved_it() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x * x).sum().backward()
    later = (x.grad * w * w).sum()
    (x * x).sum().backward()
    with pytest.raises(gw.AutogradError, match="modified in place"):
        later.backward()


def test_a_leaf_that_changed_its_shape_gets_no_gradient_of_the_old_one() -> None:
    x = leaf(1.0, 2.0)
    y = (x + 1).sum()
    x.data = gw.zeros(3)
    with pytest.raises(gw.AutogradError, match=r"shape \(2,\) arrived at .* of shape \(3,\)"):
        y.backward()


# -- nothing waits for the garbage collector ---------------------------------------------------


@pytest.fixture(scope="module")
def frozen() -> Iterator[None]:
    """What is there already is not looked at: thousands of collected tests, again and again."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def no_collector(frozen: None) -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Cube(gw.autograd.Function):
    """Saves its input, its output, and something of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        out = x * x * x
        ctx.save_for_backward(x, out, x * x)
        ctx.out = out  # in PyTorch this would be a leak
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, _, _ = ctx.saved_tensors
        return g * 3 * x * x


def second_order(x: gw.Tensor) -> Any:
    (g,) = gw.autograd.grad((x**3).sum(), x, create_graph=True)
    return (g * g).sum()


GRAPHS: dict[str, Callable[[gw.Tensor], Any]] = {
    "elementwise": lambda x: (x.tanh() * x.exp() + x).sum(),
    "in place": lambda x: (x * 1).mul_(x).add_(1).tanh_().sum(),
    "views": lambda x: ((b := x * 1)[:2].mul_(2), b.reshape(3, 1).sum())[1],
    "pieces": lambda x: sum(p.sum() for p in (x * 2).split(1)),
    "max": lambda x: (x * 2).max(0)[0],
    "softmax": lambda x: x.log_softmax(0)[0],
    "matmul": lambda x: (x[None] @ x[:, None]).sum(),
    "function": lambda x: Cube.apply(x).sum(),
    "checkpoint": lambda x: gw.checkpoint(lambda t: (t * 2).tanh().exp(), x * 1).sum(),
    "nested checkpoint": lambda x: gw.checkpoint(
        lambda t: gw.checkpoint(lambda u: u.exp() * u, t.tanh()).sum(), x * 1
    ),
    "second order": second_order,
    "transform": lambda x: (gw.grad(lambda t: (t**3).sum())(x) * x).sum(),
    "jvp": lambda x: gw.jvp(lambda t: t.tanh() * t, (x,), (x * 2,))[1].sum(),
    "hook": lambda x: ((y := x * 2).register_hook(lambda g: g * 2), y.retain_grad(), y.sum())[2],
}


@pytest.mark.parametrize("walked", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_freed_with_its_loss(name: str, walked: bool, no_collector: None) -> None:
    x = leaf()
    loss = GRAPHS[name](x)
    if walked:
        loss.backward()
    nodes = reachable(loss)
    assert nodes
    watched = [weakref.ref(node) for node in nodes]
    del loss, nodes
    assert [w() for w in watched if w() is not None] == []
    assert not garbage()


def reachable(loss: gw.Tensor) -> list[Any]:
    found, stack = [], [loss.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node.inputs and not any(node is f for f in found):
            found.append(node)
            stack += node.inputs
    return found


def garbage() -> list[Any]:
    """What of ours only the collector could free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return [o for o in gc.garbage if type(o).__module__.startswith("gradwalk")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_backward_frees_what_was_saved(no_collector: None) -> None:
    x = gw.zeros(1000, requires_grad=True)
    loss = (x.tanh() * x.exp()).sum()
    assert gw.saved_bytes(loss) == 2 * x.nbytes
    loss.backward(retain_graph=True)
    assert gw.saved_bytes(loss) == 2 * x.nbytes
    loss.backward()
    assert gw.saved_bytes(loss) == 0


def test_a_deep_graph_of_tensors_walks_and_is_freed(no_collector: None) -> None:
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    y.backward()
    assert x.grad.tolist() == [1.0]
    inner = weakref.ref(y.grad_fn.inputs[0])
    del y
    assert inner() is None


def test_a_tensor_that_retains_its_gradient_is_not_kept_alive_by_the_graph() -> None:
    x = leaf()
    y = x * 2
    y.retain_grad()
    loss = y.sum()
    seen = weakref.ref(y)
    del y
    assert seen() is None
    loss.backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


# -- threads ---------------------------------------------------------------------------------------


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What `work` returned in each thread, all started at once; the first error is raised."""
    results: list[Any] = [None] * count
    start = threading.Barrier(count)

    def run(index: int) -> None:
        start.wait()
        try:
            results[index] = work(index)
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def build_and_walk(index: int) -> list[Any]:
    found = []
    for step in range(60):
        x = gw.tensor([1.0 + index, 2.0, 3.0], dtype=gw.float64, requires_grad=True)
        h = (x * x).tanh() if step % 2 else x.exp()
        h = h * 1.5
        h += x  # moves the clock that all threads share
        h[0] *= 2
        with gw.no_grad():
            assert not (x * 2).requires_grad
        v = gw.Value(0.5 + index)
        (v * v + v.tanh()).backward()
        (g,) = gw.autograd.grad((h * h).sum(), x, create_graph=True)
        (g * g).sum().backward()
        found += [x.grad.tolist(), v.grad, gw.grad(lambda t: (t**3).sum())(x.detach()).tolist()]
    return found


def test_threads_with_graphs_of_their_own_get_right_answers() -> None:
    alone = [build_and_walk(index) for index in range(4)]
    assert in_threads(4, build_and_walk) == alone


def test_the_grad_mode_belongs_to_the_thread() -> None:
    inside, done = threading.Event(), threading.Event()

    def work(index: int) -> Any:
        if index == 0:
            with gw.no_grad():
                inside.set()
                done.wait()
                return gw.is_grad_enabled(), (leaf() * 2).requires_grad
        inside.wait()
        found = gw.is_grad_enabled(), (leaf() * 2).requires_grad
        done.set()
        return found

    assert in_threads(2, work) == [(False, False), (True, True)]
    with gw.no_grad():
        assert in_threads(1, lambda _: gw.is_grad_enabled()) == [True]  # a new thread starts afresh


def test_a_change_is_caught_while_other_threads_change_their_own() -> None:
    def work(index: int) -> int:
        caught = 0
        for _ in range(200):
            x = leaf()
            h = x * 1
            out = (h * h).sum()
            h.add_(1)
            try:
                out.backward()
            except gw.AutogradError:
                caught += 1
        return caught

    assert in_threads(4, work) == [200] * 4
