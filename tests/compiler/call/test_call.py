"""The written-out call of a program: every condition holds, and what users kept stays theirs.

Each test calls twice first, so that the program that ran last is tried first, then changes one
thing. What is right is what the same function does when it is not compiled.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from tests.compiler.models import classes, numbers

optim = gw.optim
F = nn.functional


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    gw.set_default_dtype(gw.float64)
    yield
    gw.set_default_dtype(gw.float32)


@pytest.fixture(params=["numpy", "llvm"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def programs(run: Any) -> int:
    return sum(map(len, run.specializations.values()))


class Training:
    """A model, its optimizer, and a step of them."""

    def __init__(self, use: Callable[[Any], Any]) -> None:
        gw.manual_seed(3)
        self.model = nn.Sequential(
            nn.Linear(2, 8), nn.Dropout(0.0), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)
        )
        self.optimizer = optim.AdamW(self.model.parameters(), lr=0.05)
        self.scale = 1.0
        scale = 1.0

        def step(x: Any, y: Any) -> Any:
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y) * scale
            loss.backward()
            self.optimizer.step()
            return loss

        def rescale(to: float) -> None:
            nonlocal scale
            scale = to

        self.rescale = rescale
        self.run = use(step)
        self.given = [numbers(10, 2, seed=1), classes(2, 10, seed=2)]

    def state(self) -> list[Any]:
        kept = self.optimizer.state
        found = [p.detach() for p in self.model.parameters()]
        found += [p.grad for p in self.model.parameters()]
        found += [kept[p]["exp_avg"] for p in self.model.parameters() if p in kept]
        steps = [kept[p]["step"] for p in self.model.parameters() if p in kept]
        return [*[None if f is None else f.numpy().copy() for f in found], *steps]


def lr(t: Training) -> None:
    t.optimizer.param_groups[0]["lr"] = 0.5


def betas(t: Training) -> None:
    t.optimizer.param_groups[0]["betas"] = (0.5, 0.9)


def no_decay(t: Training) -> None:
    t.optimizer.param_groups[0]["weight_decay"] = 0


def maximize(t: Training) -> None:
    t.optimizer.param_groups[0]["maximize"] = True


def evaluation(t: Training) -> None:
    t.model.eval()


def dropout(t: Training) -> None:
    t.model[1].p = 1.0


def other_layer(t: Training) -> None:
    t.model[3] = nn.ReLU()


def frozen(t: Training) -> None:
    t.model[0].weight.requires_grad = False


def data_replaced(t: Training) -> None:
    t.model[2].weight.data = gw.full((8, 8), 0.25)


def data_in_another_order(t: Training) -> None:
    t.model[2].weight.data = t.model[2].weight.data.clone().T


def weights_changed(t: Training) -> None:
    with gw.no_grad():
        t.model[2].weight.mul_(0.5)


def state_loaded(t: Training) -> None:
    saved = copy.deepcopy(t.optimizer.state_dict())
    for kept in saved["state"].values():
        kept["step"] = 20
        kept["exp_avg"] = kept["exp_avg"] * 3
    t.optimizer.load_state_dict(saved)


def moment_replaced(t: Training) -> None:
    weight = t.model[0].weight
    t.optimizer.state[weight]["exp_avg"] = gw.ones(8, 2)


def one_step_count(t: Training) -> None:
    t.optimizer.state[t.model[0].weight]["step"] = 7


def state_dropped(t: Training) -> None:
    t.optimizer.state.clear()


def no_gradients(t: Training) -> None:
    t.optimizer.zero_grad()


def batch(t: Training) -> None:
    t.given = [numbers(7, 2, seed=5), classes(2, 7, seed=6)]


def strides(t: Training) -> None:
    t.given[0] = gw.from_numpy(np.asfortranarray(t.given[0].numpy()))


def dtype(t: Training) -> None:
    t.given[1] = t.given[1].int()


def part_of_a_tensor(t: Training) -> None:
    t.given = [numbers(20, 2, seed=5)[5:15], classes(2, 20, seed=6)[5:15]]


def closure_value(t: Training) -> None:
    t.rescale(3.0)


def parameter_added(t: Training) -> None:
    t.optimizer.add_param_group({"params": [gw.ones(2, requires_grad=True)], "lr": 0.1})


def parameter_removed(t: Training) -> None:
    t.optimizer.param_groups[0]["params"].pop()


def state_of_another(t: Training) -> None:
    t.optimizer.state[gw.ones(1)] = {"step": 1}


CHANGES: dict[Any, int] = {  # and how many programs there are afterwards
    lr: 1, betas: 1, no_decay: 2, maximize: 2, evaluation: 1, dropout: 2, other_layer: 2,
    frozen: 2, data_replaced: 1, data_in_another_order: 2, weights_changed: 1, state_loaded: 1,
    moment_replaced: 1, one_step_count: 2, state_dropped: 2, no_gradients: 1, batch: 2,
    strides: 2, dtype: 2, part_of_a_tensor: 1, closure_value: 2, parameter_added: 2,
    parameter_removed: 2, state_of_another: 1,
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_between_calls(change: Any, backend: str) -> None:
    one = Training(lambda step: step)
    other = Training(lambda step: gw.compile(step, backend=backend))
    for call in range(5):
        for training in (one, other):
            if call == 2:
                change(training)
            training.loss = training.run(*training.given)  # type: ignore[attr-defined]
        np.testing.assert_allclose(other.loss.item(), one.loss.item(), 1e-9)  # type: ignore[attr-defined]
        for expected, found in zip(one.state(), other.state(), strict=True):
            if expected is None:
                assert found is None
            else:
                np.testing.assert_allclose(found, expected, 1e-7, 1e-9)
    assert programs(other.run) == CHANGES[change]


def check(function: Any, calls: list[Any], backend: str) -> Any:
    """Compiled and not, call by call; returns the compiled function."""
    run = gw.compile(function, backend=backend)
    for args, keywords in calls:
        np.testing.assert_allclose(
            run(*args, **keywords).numpy(), function(*args, **keywords).numpy(), 1e-12
        )
    return run


def test_floats_plain_values_and_names(backend: str) -> None:
    x = numbers(4, seed=1)
    calls = [
        ((x, 2.0), {}), ((x, 3.0), {}), ((x, 3), {}), ((x, True), {}), ((x, 1), {}),
        ((x,), {"power": 2.0}), ((x,), {"power": 4.0}), ((x,), {"power": 2.0, "sign": "-"}),
        ((x,), {"sign": "-", "power": 2.0}), ((), {"x": x, "power": 1.5}), ((x,), {}),
    ]  # fmt: skip

    def function(x: Any, power: float = 1.0, sign: str = "+") -> Any:
        return (x.abs() + 1) ** power * (1 if sign == "+" else -1)

    run = check(function, calls, backend)
    before = programs(run)
    for args, keywords in calls[:5]:
        run(*args, **keywords)
    assert programs(run) <= max(before, 8)


def test_nested_arguments_and_the_same_tensor_twice(backend: str) -> None:
    x, y = numbers(4, seed=1), numbers(4, seed=2)

    def function(pair: Any, more: Any) -> Any:
        return pair[0] * pair[1] + more["z"]

    calls = [(([x, y], {"z": x}), {}), (([x, y], {"z": y}), {}), (([y, x], {"z": y}), {})]
    check(function, calls + calls, backend)
    check(lambda a, b: a * b, [((x, y), {}), ((x, x), {}), ((y, y), {}), ((x, y), {})], backend)


def test_modes_and_the_default_dtype(backend: str) -> None:
    w = gw.ones(3, requires_grad=True)
    run = gw.compile(lambda x: w * x + gw.ones(3), backend=backend)
    x = gw.zeros(3, dtype=gw.float32)
    for _ in range(2):
        assert run(x).requires_grad
    with gw.no_grad():
        assert not run(x).requires_grad
    assert run(x).requires_grad
    gw.set_default_dtype(gw.float32)
    w.data = w.data.float()
    assert run(x).dtype == gw.float32
    needing = gw.zeros(3, dtype=gw.float32, requires_grad=True)
    run(needing).sum().backward()
    assert needing.grad.tolist() == [1, 1, 1]


def test_only_the_default_dtype_changes(backend: str) -> None:
    run = gw.compile(lambda x: x + gw.ones(3), backend=backend)
    x = gw.zeros(3, dtype=gw.float32)
    assert [run(x).dtype, run(x).dtype] == [gw.float64, gw.float64]
    gw.set_default_dtype(gw.float32)
    assert run(x).dtype == gw.float32


def test_one_tensor_as_two_arguments_of_which_one_changes(backend: str) -> None:
    run = gw.compile(lambda a, b: a.zero_().add_(b), backend=backend)
    for _ in range(2):
        assert run(gw.ones(2), gw.full((2,), 3.0)).tolist() == [3, 3]
    a = gw.ones(2)
    assert run(a, a).tolist() == [0, 0]


def test_arguments_that_overlap(backend: str) -> None:
    run = gw.compile(lambda a, b: a.zero_().add_(b), backend=backend)
    whole = gw.ones(6)
    for _ in range(2):
        assert run(whole[:2], whole[3:5]).tolist() == [1, 1]
    with pytest.raises(gw.TraceError, match=r"argument 1 .* shares memory with argument 0"):
        run(whole[1:3], whole[2:4])
    assert whole.tolist() == [1, 1, 1, 1, 1, 1]


def test_whether_there_is_a_gradient(backend: str) -> None:
    found = []
    for use in (lambda f: f, lambda f: gw.compile(f, backend=backend)):
        w = gw.full((3,), 2.0, requires_grad=True)

        def accumulate(w: Any = w) -> None:
            (w * w).sum().backward()

        run = use(accumulate)
        for call in range(5):
            if call == 3:
                w.grad = None
            run()
            found.append(w.grad.tolist())
    assert found[:5] == found[5:]


def test_an_attribute_of_a_result_that_was_set(backend: str) -> None:
    w = gw.ones(2, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)

    @gw.compile(backend=backend)
    def step() -> Any:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(6):
        loss = step()
        assert not loss.requires_grad
        assert loss.label == w.grad.label == ""
        loss.label = "mine"
        w.grad.requires_grad = True
        w.grad.label = "mine"
        w.grad.data = gw.ones(2, dtype=gw.float32)
        del loss


@pytest.mark.parametrize("held", ["tensor", "array", "view", "memory"])
def test_what_was_kept_stays(held: str, backend: str) -> None:
    """Of each call's loss and gradients something is kept: later calls leave it alone."""
    hold: Callable[[Any], Any] = {
        "tensor": lambda t: t,
        "array": lambda t: t.numpy(),
        "view": lambda t: t.reshape(-1)[:1],
        "memory": lambda t: memoryview(t.numpy()),
    }[held]
    training = Training(lambda step: gw.compile(step, backend=backend))
    kept: list[tuple[Any, Any]] = []
    for call in range(12):
        results = [training.run(*training.given)]
        results += [p.grad for p in training.model.parameters()]
        if call % 3:  # otherwise nothing is kept, and memory can be used again
            kept += [(hold(r), np.array(hold(r)).copy()) for r in results]
        del results
    assert len({float(before.ravel()[0]) for _, before in kept[::7]}) == 8  # each its own loss
    for now, before in kept:
        np.testing.assert_array_equal(np.array(now), before)


def test_a_graph_from_before_notices_the_change_and_says_where(backend: str) -> None:
    training = Training(lambda step: gw.compile(step, backend=backend))
    weight = training.model[0].weight
    for _ in range(2):
        training.run(*training.given)
    versions = weight._version
    waiting = (weight * weight).sum()
    training.run(*training.given)
    assert weight._version == versions + 1
    with pytest.raises(gw.AutogradError, match=r"modified in place(.|\n)*optimizer\.step\(\)"):
        waiting.backward()
    (weight * weight).sum().backward()  # one from afterwards is as good as any


def test_two_functions_that_change_some_of_the_same() -> None:
    a, b, c = (gw.ones(2, requires_grad=True) for _ in range(3))

    def stepper(*tensors: Any) -> Any:
        optimizer = optim.SGD(tensors, lr=0.1)

        @gw.compile(backend="numpy")
        def step() -> None:
            optimizer.zero_grad()
            sum((t * t).sum() for t in tensors).backward()
            optimizer.step()

        return step

    first, second = stepper(a, b), stepper(b, c)
    for step in (first, second, first, first, second):
        waiting = [(t * t).sum() for t in (a, b, c)]
        step()
        for tensor, graph in zip((a, b, c), waiting, strict=True):
            changed = tensor is b or tensor is (a if step is first else c)
            if changed:
                with pytest.raises(gw.AutogradError, match="modified in place"):
                    graph.backward()
            else:
                graph.backward()
    assert [t._version for t in (a, b, c)] == [3, 5, 2]


# -- errors --------------------------------------------------------------------------------------


def test_an_error_in_the_run_leaves_everything_as_it_was() -> None:
    training = Training(lambda step: gw.compile(step, backend="llvm"))
    twin = Training(lambda step: step)
    for _ in range(2):
        training.run(*training.given)
        twin.run(*twin.given)
    before = training.state()
    wrong = training.given[1].clone()
    wrong[3] = 2  # there are two classes
    for _ in range(2):
        with pytest.raises(IndexError, match="2"):
            training.run(training.given[0], wrong)
    for expected, found in zip(before, training.state(), strict=True):
        np.testing.assert_array_equal(found, expected)
    training.run(*training.given)
    twin.run(*twin.given)
    for expected, found in zip(twin.state(), training.state(), strict=True):
        np.testing.assert_allclose(found, expected, 1e-7, 1e-9)


def test_an_error_while_several_threads_run() -> None:
    weight = gw.zeros(300, 400, requires_grad=True)
    optimizer = optim.SGD([weight], lr=0.1)

    @gw.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(x @ weight, y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = numbers(500, 300, seed=1), classes(400, 500, seed=2)
    wrong = y.clone()
    wrong[499] = 400
    first = step(x, y).item()
    for _ in range(20):
        before = weight.detach().clone()
        with pytest.raises(IndexError, match="400"):
            step(x, wrong)
        np.testing.assert_array_equal(weight.detach().numpy(), before.numpy())
        assert step(x, y).item() < first


def test_a_number_that_is_none() -> None:
    training = Training(lambda step: gw.compile(step, backend="llvm"))
    training.run(*training.given)
    before = training.state()
    training.optimizer.param_groups[0]["lr"] = "fast"
    with pytest.raises(TypeError):
        training.run(*training.given)
    training.optimizer.param_groups[0]["lr"] = 0.05
    for expected, found in zip(before, training.state(), strict=True):
        np.testing.assert_array_equal(found, expected)
    training.run(*training.given)
    assert programs(training.run) == 1


def test_read_only_memory() -> None:
    x = gw.from_numpy(np.ones(3))
    run = gw.compile(lambda x: x.add_(1), backend="llvm")
    for _ in range(2):
        run(x)
    locked = np.ones(3)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        run(gw.from_numpy(locked))
    assert locked.tolist() == [1, 1, 1]


# -- threads -------------------------------------------------------------------------------------


def in_threads(count: int, work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_eight_threads_train_one_model() -> None:
    """800 calls on one batch, in whatever order: as 800 calls of one thread."""
    together = Training(lambda step: gw.compile(step, backend="llvm"))
    alone = Training(lambda step: gw.compile(step, backend="llvm"))
    losses: list[float] = []

    def work(number: int) -> None:
        for _ in range(100):
            losses.append(together.run(*together.given).item())

    in_threads(8, work)
    expected = [alone.run(*alone.given).item() for _ in range(800)]
    assert sorted(losses) == sorted(expected)
    for one, other in zip(alone.state(), together.state(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_threads_with_arguments_of_their_own() -> None:
    """Each thread gets the results of its own arguments, of several shapes and programs."""
    w = numbers(5, seed=9)
    known = w.numpy()  # before a trace, in whichever thread, puts a stand-in there
    run = gw.compile(lambda x, k: (x * w * k).sum(1), backend="llvm")

    def work(number: int) -> None:
        for call in range(50):
            x = numbers(1 + number % 3, 5, seed=number * 100 + call)
            expected = (x.numpy() * known * float(number)).sum(1)
            found = run(x, float(number))
            np.testing.assert_allclose(found.numpy(), expected, 1e-12)

    in_threads(6, work)
    assert programs(run) == 3


def test_more_threads_than_a_program_was_made_for() -> None:
    from gradwalk.compiler.backends.llvm.runtime import thread_pool

    before = thread_pool.get_num_threads()
    x = numbers(300, 200, seed=1)
    run = gw.compile(lambda x: (x @ x.T).exp().sum(0) * 1e-3, backend="llvm")
    try:
        gw.set_num_threads(1)
        expected = run(x).numpy().copy()
        for count in (8, 64, 2):
            gw.set_num_threads(count)
            for _ in range(3):
                np.testing.assert_array_equal(run(x).numpy(), expected)
    finally:
        gw.set_num_threads(before)


# -- the text ------------------------------------------------------------------------------------


def test_the_text_can_be_read() -> None:
    training = Training(lambda step: gw.compile(step, backend="llvm"))
    training.run(*training.given)
    (specialization,) = next(iter(training.run.specializations.values()))
    compile(specialization.text, "text", "exec")
    assert "def call(args, keywords, here, look=False):" in specialization.text
    assert "['weight_decay']" in specialization.text
    assert specialization.count == 1


def test_random_streams_go_on(backend: str) -> None:
    found = []
    for use in (lambda f: f, lambda f: gw.compile(f, backend=backend)):
        gw.manual_seed(5)
        run = use(lambda x: F.dropout(x, 0.5) + gw.rand(8))
        x = gw.ones(8)
        drawn = []
        for call in range(6):
            if call == 4:
                gw.manual_seed(5)
            drawn.append(run(x).numpy().copy())
        drawn.append(gw.rand(3).numpy())
        found.append(drawn)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, 1e-12)
    np.testing.assert_array_equal(found[1][0], found[1][4])


def test_hidden_state_of_a_module(backend: str) -> None:
    """An attribute that every call replaces is memory of the next call."""

    class Memory(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen = gw.zeros(3)

        def forward(self, x: Any) -> Any:
            self.seen = self.seen * 0.5 + x
            return self.seen.sum()

    found = []
    for use in (lambda f: f, lambda f: gw.compile(f, backend=backend)):
        module = Memory()
        run = use(module)
        kept = [(run(gw.full((3,), float(i))).item(), module.seen) for i in range(6)]
        found.append([(loss, seen.tolist()) for loss, seen in kept])
    assert found[0] == found[1]


# -- old gradients ---------------------------------------------------------------------------------


def large(use: Callable[[Any], Any]) -> tuple[Any, Any]:
    """A weight whose gradient is too large to be used again, and a step of it."""
    weight = gw.tensor(numbers(300, 200).numpy(), requires_grad=True)
    optimizer = optim.SGD([weight], lr=0.1)

    def step(rows: Any) -> Any:
        optimizer.zero_grad()
        loss = (weight[rows] ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return weight, use(step)


def test_a_gradient_that_is_kept_outlives_the_next_step(backend: str) -> None:
    compiled, step = large(gw.compile(backend=backend))
    eager, eagerly = large(lambda function: function)
    rows = gw.tensor([3, 1, 299])
    step(rows), eagerly(rows)
    kept, expected = compiled.grad, eager.grad.numpy().copy()
    step(rows), eagerly(rows)
    np.testing.assert_array_equal(kept.numpy(), expected)
    np.testing.assert_array_equal(compiled.grad.numpy(), eager.grad.numpy())


def test_a_step_that_fails_has_forgotten_the_old_gradient_as_in_eager_mode() -> None:
    compiled, step = large(gw.compile)
    eager, eagerly = large(lambda function: function)
    for run in (step, eagerly):
        run(gw.tensor([3, 1, 299]))
        with pytest.raises(IndexError):
            run(gw.tensor([3, 1, 300]))
    assert compiled.grad is None and eager.grad is None
    np.testing.assert_array_equal(compiled.detach().numpy(), eager.detach().numpy())


def test_an_old_gradient_that_is_read_is_there() -> None:
    def summed(use: Callable[[Any], Any]) -> Any:
        weight = gw.tensor(numbers(300, 200).numpy(), requires_grad=True)
        (weight * 2).sum().backward()

        def step() -> Any:
            before = weight.grad
            weight.grad = None
            (weight * weight).sum().backward()
            return (before * weight.grad).sum()

        run = use(step)
        return [run().item() for _ in range(3)]

    np.testing.assert_allclose(summed(gw.compile), summed(lambda function: function))
