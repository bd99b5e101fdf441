"""Recording PyTorch programs: their results stay the same, and the trace adds up."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import gradwalk
from gradwalk.inspect.trace.trace import Trace

BATCH = torch.linspace(-1.5, 1.5, 48).reshape(6, 8)
INDICES = torch.arange(18).reshape(6, 3) % 10


def mlp():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4))


def backward_of(loss):
    loss.backward()
    return loss


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class WithSquare(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(Square.apply(self.norm(torch.tanh(self.first(x)))))


class Looked(nn.Module):
    def __init__(self, sparse=False, tied=False):
        super().__init__()
        self.table = nn.Embedding(10, 8, sparse=sparse)
        self.last = nn.Linear(8, 10, bias=False)
        if tied:
            self.last.weight = self.table.weight

    def forward(self, indices):
        return self.last(self.table(indices).mean(1))


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.twice, self.last = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.twice(self.twice(x).relu()).relu())


def plain(model):
    return backward_of(model(BATCH).square().mean())


def classified(model):
    return backward_of(F.cross_entropy(model(INDICES), torch.arange(6)))


def checkpointed(reentrant):
    def run(model):
        given = BATCH.clone().requires_grad_(reentrant)
        hidden = checkpoint(model[0:3], given, use_reentrant=reentrant)
        return backward_of(model[3](hidden).square().mean())

    return run


def in_bfloat16(model):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(BATCH)
    return backward_of(out.float().square().mean())


def scaled(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    loss = model(BATCH).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss


def accumulated(model):
    losses = [backward_of(model(BATCH + i).square().mean() / 3) for i in range(3)]
    return torch.stack([loss.detach() for loss in losses])


def three_steps(model):
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = plain(model)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    return loss


def two_losses(model):
    out = model(BATCH)
    out.square().mean().backward(retain_graph=True)
    return backward_of(out.abs().mean())


def second_order(model):
    given = BATCH.clone().requires_grad_()
    out = model(given).sum()
    (slope,) = torch.autograd.grad(out, given, create_graph=True)
    return backward_of(slope.square().mean() + out)


def closure(model):
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def loss_again():
        optimizer.zero_grad()
        return plain(model)

    with warnings.catch_warnings():  # PyTorch 2.8 about its own optimizer
        warnings.filterwarnings("ignore", "Converting a tensor with requires_grad=True")
        return optimizer.step(loss_again)


def in_place(model):
    hidden = model[0](BATCH) * 2
    hidden[0].add_(1.0)
    hidden[:, 2:4] = 0.5
    view = hidden[1]
    hidden.mul_(1.5)
    return backward_of(hidden.relu_().sum() + (view * view).sum() + model[3](hidden).sum())


def without_gradient(model):
    with torch.no_grad():
        fixed = model[0](BATCH).t()
    out = model(BATCH) + fixed.t()[:, :4]
    return backward_of((out * out.detach()).mean())


def compiled(model):
    inner = torch.compile(model[0], backend="aot_eager")
    return backward_of(model[3](inner(BATCH).relu()).square().mean())


def bent(a, w):
    hidden = torch.tanh(a @ w)
    return hidden * hidden + hidden


def with_script(model):
    with warnings.catch_warnings():  # newer versions of PyTorch deprecate it
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        scripted = torch.jit.script(bent)
    for _ in range(3):
        model.zero_grad()
        loss = backward_of(scripted(BATCH, model[0].weight).sum())
    return loss


def several_outputs(model):
    first, second = model(BATCH).split([1, 3], dim=1)
    values, _ = second.max(dim=1)
    top = second.topk(2, dim=1).values
    return backward_of(first.sum() + values.square().sum() + top.sum())


PROGRAMS = {
    "plain": (mlp, plain),
    "checkpoint": (mlp, checkpointed(False)),
    "reentrant checkpoint": (mlp, checkpointed(True)),
    "bfloat16": (mlp, in_bfloat16),
    "gradient scaler": (mlp, scaled),
    "accumulated": (mlp, accumulated),
    "three steps": (mlp, three_steps),
    "two losses": (mlp, two_losses),
    "second order": (mlp, second_order),
    "closure": (mlp, closure),
    "in place": (mlp, in_place),
    "no_grad": (mlp, without_gradient),
    "compiled part": (mlp, compiled),
    "scripted": (mlp, with_script),
    "several outputs": (mlp, several_outputs),
    "custom function": (WithSquare, plain),
    "shared module": (Shared, plain),
    "sparse gradient": (lambda: Looked(sparse=True), classified),
    "tied weights": (lambda: Looked(tied=True), classified),
    "lstm": (
        lambda: nn.LSTM(8, 5, 2, batch_first=True),
        lambda model: backward_of(model(BATCH.view(2, 3, 8))[0].square().mean()),
    ),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        lambda model: backward_of(model(BATCH.view(2, 3, 8)).square().mean()),
    ),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
        ),
        lambda model: backward_of(
            model(torch.linspace(-1, 1, 288).view(2, 1, 12, 12)).square().mean()
        ),
    ),
}  # fmt: skip


SEVERAL_SWEEPS = {"accumulated", "three steps", "two losses", "second order", "closure", "scripted"}


def dense(tensor):
    return tensor.to_dense() if tensor.layout != torch.strided else tensor


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    """A program run twice from the same start, bare and recorded."""
    build, run = PROGRAMS[request.param]
    torch.manual_seed(0)
    bare = build()
    torch.manual_seed(1)
    without = run(bare)
    torch.manual_seed(0)
    model = build()
    torch.manual_seed(1)
    with gradwalk.torch.record() as trace:
        result = run(model)
    return SimpleNamespace(
        name=request.param, bare=bare, without=without, model=model, result=result, trace=trace
    )


def test_recording_changes_no_bit(program):
    assert torch.equal(program.without.detach(), program.result.detach())
    pairs = zip(program.bare.parameters(), program.model.parameters(), strict=True)
    for before, after in pairs:
        assert torch.equal(before, after)
        assert (before.grad is None) == (after.grad is None)
        if before.grad is not None:
            assert torch.equal(dense(before.grad), dense(after.grad))


def test_what_a_node_received_is_what_was_pushed_to_it(program):
    trace = program.trace
    for sweep in trace.sweeps:
        arrived = dict(sweep.seeds)
        inside = [trace.nodes[i].op.startswith("CheckpointFunction") for i in sweep.visits]
        for index in sweep.visits:
            node = trace.nodes[index]
            for position, edge in node.edges:
                part = sweep.pushed[index][position]
                if part is not None:
                    arrived[edge] = arrived[edge] + part if edge in arrived else part
        for index, grads in sweep.grads.items():
            for output, gradient in enumerate(grads):
                total = arrived.get((index, output))
                if any(inside) and total is None:
                    continue  # a region that PyTorch runs again as a whole is one opaque node
                assert (gradient is None) == (total is None), trace.name(index)
                if gradient is not None:
                    np.testing.assert_allclose(gradient, total, 1e-4, 1e-6)


def test_parameters_have_the_gradients_they_have(program):
    trace = program.trace
    if len(trace.sweeps) > 1:  # in .grad they accumulate, or are cleared in between
        assert program.name in SEVERAL_SWEEPS
        return
    scale = 65536.0 if program.name == "gradient scaler" else 1.0  # unscaled after backward
    found = {trace.names[i]: grads[0] for i, grads in trace.sweep.grads.items() if i in trace.names}
    for name, parameter in program.model.named_parameters():
        if parameter.grad is not None:
            np.testing.assert_array_equal(found[name], dense(parameter.grad).numpy() * scale)


def test_nodes_come_after_their_inputs(program):
    for node in program.trace:
        assert all(i < node.index for i in node.inputs)


def test_modules_lines_and_names():
    model = WithSquare()
    with gradwalk.torch.record() as trace:
        plain(model)
    assert isinstance(trace, Trace)
    layer = trace["norm.weight"]
    user = next(n for n in trace if n.index > layer.index and layer.index in n.inputs)
    assert [g.path for g in trace.group_path(user.index)] == ["WithSquare", "norm"]
    assert user.line.text == "return self.last(Square.apply(self.norm(torch.tanh(self.first(x)))))"
    square = next(n for n in trace if n.op == "Square")
    assert square.line.text == "return x * x"
    assert set(trace.names.values()) == {name for name, _ in model.named_parameters()}


def test_calls_of_a_shared_module_are_told_apart():
    model = Shared()
    with gradwalk.torch.record() as trace:
        plain(model)
    assert [g.name for g in trace.groups if g.path == "twice"] == ["twice", "twice (call 2)"]


def test_keep_and_budget():
    with gradwalk.torch.record(keep="stats") as trace:
        plain(mlp())
    assert trace.bytes_kept == 0 and trace.sweep.grads
    with gradwalk.torch.record(budget=300) as trace:
        plain(mlp())
    assert trace.bytes_kept <= 300 and trace.reduced["values"]
    with pytest.raises(ValueError, match="keep is one of"):
        gradwalk.torch.record(keep="everything")


def test_an_operation_we_do_not_know_is_opaque():
    given = torch.linspace(0.1, 1, 4).requires_grad_()
    with gradwalk.torch.record() as trace:
        torch.special.i0(given).sum().backward()
    opaque = next(n for n in trace if n.op.startswith("aten."))
    assert opaque.op == "aten.special_i0" or "i0" in opaque.op
    np.testing.assert_array_equal(trace.grad(given), given.grad.numpy())
    np.testing.assert_array_equal(trace.sweep.pushed[opaque.index][0], given.grad.numpy())


def test_what_was_overwritten_is_told():
    model = mlp()
    with gradwalk.torch.record(), pytest.raises(RuntimeError) as caught:
        hidden = model[0](BATCH).sigmoid()
        hidden.mul_(2)
        hidden.sum().backward()
    (note,) = caught.value.__notes__
    assert "sigmoid" in note and "keeps its result" in note
    assert "hidden.mul_(2)" in note and "Fix:" in note


def test_data_that_is_written_in_place_keeps_its_way():
    model = nn.Linear(8, 1)
    with gradwalk.torch.record() as trace:
        given = BATCH * 1
        given.log_()
        given.mul_(2)
        backward_of(model(given).sum())
    ops = [node.op for node in trace.nodes if node.op]
    assert ops == ["mul", "log", "mul", "permute", "addmm", "sum"]
    found = gradwalk.find_nan(trace)
    assert (found.op, found.line.text) == ("log", "given.log_()")


def test_numbers_that_leave_the_graph():
    weight = torch.ones(3, requires_grad=True)
    with gradwalk.torch.record() as trace:
        (weight * 2).sum().item()
        weight.detach()
    (exit,) = trace.exits
    assert exit.how == "item()" and exit.line.text == "(weight * 2).sum().item()"
    assert all(n.op != "detach" for n in trace)  # nobody used it


def test_a_tensor_without_a_graph_is_a_trace_of_one_leaf():
    trace = gradwalk.record(torch.ones(2, requires_grad=True))
    assert [node.op for node in trace.nodes] == [""] and not trace.sweeps


def test_nothing_is_left_behind():
    before = torch.autograd._engine_run_backward
    with gradwalk.torch.record():
        assert torch.autograd._engine_run_backward is not before
    assert torch.autograd._engine_run_backward is before
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


def test_an_array_that_travels_along_an_edge_is_kept_once_unless_it_is_added_to():
    x = torch.arange(3.0, requires_grad=True)
    with gradwalk.torch.record() as trace:
        y = x.exp()
        loss = (y.sin() + y).sum()  # y receives two gradients, and exp their sum
        loss.backward()
    sweep = trace.sweep
    sin, exp = (next(n.index for n in trace if n.op == op) for op in ("sin", "exp"))
    add = next(n.index for n in trace if n.op == "add")
    assert any(sweep.grad(sin) is pushed for pushed in sweep.pushed[add])
    both = sweep.pushed[sin][0] + sweep.pushed[add][1]
    np.testing.assert_array_equal(sweep.grad(exp), both)
    assert sweep.grad(exp) is not sweep.pushed[sin][0]


def test_an_axis_that_is_not_there_is_an_error_of_pytorch():
    with pytest.raises(IndexError, match="Dimension out of range"), gradwalk.torch.record():
        torch.ones(3).mean(1)
