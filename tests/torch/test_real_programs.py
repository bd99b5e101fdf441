"""What people's programs do besides layers and losses: nothing changes, and the trace adds up."""

import threading
import warnings
import weakref
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import gradwalk
from gradwalk.torch.values import array_of

BATCH = torch.linspace(-1.5, 1.5, 48).reshape(6, 8)


def mlp():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4))


def went_back(model, loss):
    loss.backward()
    return model, loss


class Two(torch.autograd.Function):
    """Several outputs, one of which has no gradient; an operand that is no tensor."""

    @staticmethod
    def forward(ctx, x, y, factor):
        positive = x > 0
        ctx.save_for_backward(y)
        ctx.factor = factor
        ctx.mark_non_differentiable(positive)
        return positive, x * y * factor, x + y

    @staticmethod
    def backward(ctx, _, first, second):
        (y,) = ctx.saved_tensors
        return first * y * ctx.factor + second, None, None


def two_outputs():
    model = mlp()
    hidden = model[0](BATCH)
    positive, first, second = Two.apply(hidden, hidden.tanh(), 3.0)
    return went_back(model, first.sum() + second.square().sum() + (positive * first).sum())


def transformed():
    model = nn.Linear(8, 1)
    parameters = dict(model.named_parameters())

    def loss(parameters, x):
        return functional_call(model, parameters, (x,)).square().mean()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, BATCH)
    slopes = torch.func.jacrev(lambda x: model(x).tanh())(BATCH[0])
    bent = torch.func.hessian(lambda x: model(x).tanh().sum())(BATCH[0])
    return went_back(
        model, sum(g.square().sum() for g in each.values()) + slopes.sum() + bent.sum()
    )


def forward_mode():
    model = nn.Linear(8, 4)
    with torch.autograd.forward_ad.dual_level():
        given = torch.autograd.forward_ad.make_dual(BATCH, torch.ones_like(BATCH))
        slope = torch.autograd.forward_ad.unpack_dual(model(given)).tangent
    return went_back(model, slope.square().sum())


def stood_in_for():
    model = nn.Linear(8, 2)
    fast = {name: parameter * 0.5 for name, parameter in model.named_parameters()}
    return went_back(model, functional_call(model, fast, (BATCH,)).square().sum())


def batched_gradients():
    model = nn.Linear(8, 3)
    out = model(BATCH[0])
    (rows,) = torch.autograd.grad(
        out, model.weight, torch.eye(3), is_grads_batched=True, retain_graph=True
    )
    return went_back(model, out.sum() + rows.sum())


def with_spectral_norm():
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
    return went_back(
        model := nn.Sequential(spectral, nn.Linear(8, 3)), model(BATCH).square().mean()
    )


class NeverCalled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.rows = nn.ParameterList([nn.Parameter(torch.ones(8))])


def never_called():
    model = NeverCalled()
    return went_back(model, ((BATCH * model.rows[0]).sum() * model.scale).exp())


def complex_numbers():
    model = nn.Linear(8, 8)
    spectrum = torch.fft.rfft(model(BATCH)) * 1j
    turned = spectrum * torch.exp(1j * spectrum.imag)
    return went_back(model, torch.fft.irfft(turned, n=8).square().mean() + spectrum.abs().sum())


def complex_parameter():
    model = nn.ParameterList([nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))])
    return went_back(model, (model[0] @ model[0].mH).abs().sum())


def ragged():
    model = nn.Linear(8, 4)
    rows = torch.nested.nested_tensor([BATCH[:2], BATCH[2:]], layout=torch.jagged)
    return went_back(model, model(rows).values().square().sum())


def lazy():
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2))
    return went_back(model, model(BATCH).square().mean())


def in_two_threads():
    model, found = mlp(), {}

    def work(factor):
        found[factor] = model[0](BATCH * factor).sum()

    for factor in (1, 2):
        thread = threading.Thread(target=work, args=(factor,))
        thread.start()
        thread.join()
    return went_back(model, found[1] + found[2] * 3 + model(BATCH).sum())


def compiled_eager():
    torch._dynamo.reset()
    model = mlp()
    return went_back(model, torch.compile(model, backend="eager")(BATCH).square().mean())


def compiled_loss():
    torch._dynamo.reset()
    model = mlp()
    loss = torch.compile(lambda x: model(x).square().mean(), backend="aot_eager")
    return went_back(model, loss(BATCH))


def packed_sequence():
    model = nn.LSTM(8, 5, 2, bidirectional=True, batch_first=True)
    given = nn.utils.rnn.pack_padded_sequence(
        BATCH.view(2, 3, 8), torch.tensor([3, 2]), batch_first=True
    )
    out, (last, _) = model(given)
    padded, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    return went_back(model, padded.square().mean() + last.sum())


def nested_checkpoints():
    model = mlp()

    def inner(x):
        return model[0](x).tanh()

    def outer(x):
        return model[2](checkpoint(inner, x, use_reentrant=False) * 2)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model[3](checkpoint(outer, BATCH, use_reentrant=False))
    return went_back(model, out.float().square().mean())


def written_between():
    model = mlp()
    before = (BATCH + model[0].bias).sum()
    with torch.no_grad():
        model[0].bias.mul_(2)
    return went_back(model, before + (BATCH * 3 + model[0].bias).sum())


def data_swapped():
    model = nn.Linear(8, 4)
    before = (model.bias + 1).sum()
    model.bias.data = torch.ones(4)
    return went_back(model, before + (model.bias * 2).sum())


def statistics_moved():
    model = nn.BatchNorm1d(8)
    trained = model(BATCH).tanh().sum()
    model.eval()
    return went_back(model, trained + model(BATCH).tanh().sum())


PROGRAMS = [
    two_outputs, transformed, forward_mode, stood_in_for, batched_gradients, with_spectral_norm,
    never_called, complex_numbers, complex_parameter, ragged, lazy, in_two_threads, compiled_eager,
    compiled_loss, packed_sequence, nested_checkpoints, written_between, data_swapped,
    statistics_moved,
]  # fmt: skip


def run(program, recording):
    torch.manual_seed(1)
    with recording as trace:
        model, loss = program()
    return model, loss, trace, torch.get_rng_state()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch.func calls it
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_program_as_people_have_it(program, tmp_path):
    bare, without, _, numbers = run(program, nullcontext())
    model, loss, trace, numbers_then = run(program, gradwalk.torch.record())

    assert torch.equal(without, loss) and torch.equal(numbers, numbers_then)
    pairs = zip(bare.state_dict().values(), model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)

    (sweep,) = trace.sweeps
    arrived = dict(sweep.seeds)
    for index in sweep.visits:
        for position, edge in trace.nodes[index].edges:
            part = sweep.pushed[index][position]
            if part is not None:
                arrived[edge] = arrived[edge] + part if edge in arrived else part
    received = {i for i, grads in sweep.grads.items() if any(g is not None for g in grads)}
    assert {edge.node for edge in arrived} == received
    for (index, output), total in arrived.items():
        np.testing.assert_allclose(sweep.grads[index][output], total, 1e-4, 1e-6)

    found = {trace.names[i]: grads[0] for i, grads in sweep.grads.items() if i in trace.names}
    for (name, before), after in zip(bare.named_parameters(), model.parameters(), strict=True):
        assert (before.grad is None) == (after.grad is None)
        if after.grad is not None:
            assert torch.equal(before.grad, after.grad)
            if program not in (written_between, data_swapped):  # there it is that of the last use
                np.testing.assert_array_equal(found[name], array_of(after.grad))

    used = next(p for p in model.parameters() if p.grad is not None)
    for tool in (gradwalk.why, gradwalk.why_no_grad, gradwalk.run_recipes):
        assert str(tool(used, trace))
    assert not gradwalk.audit(trace) and not gradwalk.find_nan(trace)
    assert gradwalk.health(model, trace).metrics()
    gradwalk.save_trace(trace, tmp_path / "a.gwt")


def test_leaves_written_between_two_uses_are_told_apart():
    _, _, trace, _ = run(data_swapped, gradwalk.torch.record())
    leaves = [node for node in trace if node.is_leaf and node.index in trace.sweep.grads]
    assert [node.value.mean() for node in leaves] == [pytest.approx(0, abs=0.4), 1.0]
    assert [trace.sweep.grad(node.index)[0] for node in leaves] == [1.0, 2.0]


def test_the_gradient_of_a_parameter_that_was_used_again_after_its_step():
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with gradwalk.torch.record() as trace:
        model(BATCH).square().mean().backward()
        optimizer.step()
        model(BATCH)
    np.testing.assert_array_equal(trace.grad(model.weight), model.weight.grad.numpy())
    np.testing.assert_array_equal(gradwalk.why(model.weight, trace).gradient, model.weight.grad)


def test_a_nan_in_an_imaginary_part_is_found():
    given = torch.ones(3, dtype=torch.complex64, requires_grad=True)
    with gradwalk.torch.record() as trace:
        (given * torch.complex(torch.tensor(1.0), torch.tensor(np.nan))).real.sum().backward()
    assert gradwalk.find_nan(trace)


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_what_the_program_watches_itself_with_sees_only_the_program():
    def program():
        model, count, unpacked = mlp(), Count(), []

        def unpack(tensor):
            unpacked.append(tensor.shape)
            return tensor

        with count, torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            loss = model(BATCH).square().mean()
        with count:
            loss.backward()
        return count.seen, unpacked

    bare = program()
    with gradwalk.torch.record():
        recorded = program()
    assert recorded == bare


class Boxed(torch.Tensor):
    """A tensor that stands for another one, as quantised and distributed ones do."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        given = [a.inner if isinstance(a, Boxed) else a for a in args]
        return Boxed(func(*given, **(kwargs or {})))


def test_tensors_that_only_stand_for_others_have_no_numbers():
    with gradwalk.torch.record() as trace:
        weight = Boxed(torch.ones(4)).requires_grad_()
        (weight * 2 + 1).sum().backward()
    assert torch.equal(weight.grad.inner, torch.full((4,), 2.0))
    assert [node.op for node in trace] == ["", "mul", "add", "sum"]
    assert all(node.value is None for node in trace)


def test_recordings_inside_one_another_around_compiled_code():
    torch._dynamo.reset()
    model = mlp()
    compiled = torch.compile(model, backend="eager")
    with gradwalk.torch.record() as outer, gradwalk.torch.record() as inner:
        compiled(BATCH).square().mean().backward()
    for trace in (outer, inner):
        np.testing.assert_array_equal(trace.grad(model[3].weight), model[3].weight.grad.numpy())
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


def test_a_step_that_fails_does_not_end_the_recording():
    class Fails(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("no step")

    model = mlp()
    with gradwalk.torch.record() as trace:
        with pytest.raises(ValueError, match="no step"):
            Fails(model.parameters(), 0.1).step()
        model(BATCH).sum().backward()
    assert len(trace.sweeps) == 1


def test_an_error_of_backward_stays_the_error_it_is():
    hidden = mlp()[0](BATCH).relu()
    with gradwalk.torch.record(), pytest.raises(RuntimeError, match="inplace operation"):
        first = hidden.exp()  # freed before PyTorch finds out what is wrong
        second = F.relu(hidden * 2)
        second.mul_(3)
        (first.sum() + second.sum()).backward()


def test_an_inf_that_a_gradient_scaler_skips_is_no_fault():
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(scale, factor=1.0):
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        with gradwalk.torch.record() as trace:
            optimizer.zero_grad()
            loss = model(BATCH).square().mean() * factor * 1e4
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return trace

    skipped = step(2.0**126)
    assert skipped.sweep.thrown_away and not np.isfinite(skipped.grad("0.weight")).all()
    assert not gradwalk.find_nan(skipped)
    assert not gradwalk.health(model, skipped).findings
    assert gradwalk.find_nan(step(2.0**10, factor=torch.nan))  # the scaler skips that as well
    assert not step(1.0).sweep.thrown_away


def test_warnings_are_told_as_often_as_without():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")  # each line once
        for _ in range(2):
            with gradwalk.torch.record():
                warnings.warn("mind the gap", stacklevel=1)
    assert len(told) == 1


def test_recordings_of_two_threads_leave_nothing_behind():
    before = vars(torch._dynamo.eval_frame).copy(), torch.autograd._engine_run_backward
    first, second = gradwalk.torch.record(), gradwalk.torch.record()
    entered, left = threading.Event(), threading.Event()

    def other():
        with second as trace:
            entered.set()
            assert left.wait(10)
            mlp()(BATCH).sum().backward()
        assert len(trace.sweeps) == 1

    thread = threading.Thread(target=other)
    with first:
        thread.start()
        assert entered.wait(10)
    left.set()
    thread.join()
    assert before == (vars(torch._dynamo.eval_frame), torch.autograd._engine_run_backward)


def test_nothing_is_kept_alive():
    model = mlp()
    with gradwalk.torch.record() as trace:
        out = model(BATCH)
        loss = out.square().mean()
        loss.backward()
    gradwalk.why(model[0].weight, trace)
    held = [
        weakref.ref(thing) for thing in (model, model[0].weight, model[0].weight.grad, out, loss)
    ]
    del model, out, loss
    assert [reference() for reference in held] == [None] * 5

    asked = mlp()
    loss = asked(BATCH).square().mean()
    gradwalk.why(asked[0].weight, loss)  # of a graph that nobody recorded
    held = [weakref.ref(thing) for thing in (asked, asked[0].weight, loss)]
    del asked, loss
    assert [reference() for reference in held] == [None] * 3


def test_a_deep_graph():
    weight = torch.ones(2, requires_grad=True)

    def deep():
        value = weight
        for _ in range(2000):
            value = value * 1.0001
        return value.sum()

    with gradwalk.torch.record() as trace:
        deep().backward()
    np.testing.assert_array_equal(trace.grad(weight), weight.grad.numpy())
    loss = deep()
    assert gradwalk.why_no_grad(weight, loss).verdict == "flows"
    loss.backward()
    assert gradwalk.why_no_grad(weight, loss).verdict == "flows"
