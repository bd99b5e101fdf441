"""Lines that PyTorch programs are full of mean the same here.

Every line is evaluated with `torch` standing for either library, and must give the same.
"""

from __future__ import annotations

import inspect
import math
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch as pytorch
import torch.nn.attention
import torch.utils.checkpoint
import torch.utils.data.distributed

import gradwalk as gw
import gradwalk.utils._pytree
import gradwalk.utils.dlpack
import gradwalk.utils.model_zoo

LINES = """
    torch.device("cuda" if torch.cuda.is_available() else "cpu").type
    str(torch.device("cpu")), torch.device("cpu").index
    torch.cuda.device_count(), torch.cuda.manual_seed_all(3), torch.cuda.manual_seed(3)
    torch.cuda.empty_cache()
    torch.zeros(2, device="cpu").tolist(), torch.zeros(2, device=torch.device("cpu")).tolist()
    torch.ones(2, device="cpu").device.type, torch.rand(2, device="cpu").shape[0]
    torch.tensor([1.0], device="cpu").tolist(), torch.as_tensor([1], device="cpu").tolist()
    torch.full((2,), 3, device="cpu").tolist(), torch.arange(3, device="cpu").tolist()
    torch.zeros_like(x, device="cpu").sum().item(), torch.full_like(x, 2, device="cpu").sum().item()
    torch.randint(0, 1, (2,), device="cpu").tolist(), torch.randperm(1, device="cpu").tolist()
    torch.eye(2, device="cpu").tolist(), torch.tril_indices(2, 2, device="cpu").tolist()
    torch.asarray([1.0, 2.0]).tolist(), torch.asarray(x) is x, torch.asarray(x, copy=True) is x
    torch.logspace(0, 2, 3).tolist(), torch.logspace(1, 3, 3, base=2).tolist()
    torch.inf, torch.pi, torch.e, torch.newaxis is None, math.isnan(torch.nan)
    isinstance(x.shape, torch.Size), torch.Size([2, 3]) == (2, 3), isinstance(x.dtype, torch.dtype)
    float(torch.finfo(torch.float32).eps), torch.iinfo(torch.int64).min, torch.finfo(x.dtype).bits
    torch.tensor([1], dtype=torch.short).short().element_size()
    x.to("cpu") is x, x.to(torch.device("cpu")) is x, x.to(device="cpu", dtype=torch.float64) is x
    x.to("cpu", torch.int32).tolist(), x.to(torch.int64, copy=True).tolist()
    x.to(torch.zeros(1, dtype=torch.int32)).tolist(), x.to(x.dtype, False, True) is x
    x.to("cpu", non_blocking=True) is x, x.cpu() is x
    x.is_cuda, x.is_cpu, x.is_sparse, x.is_quantized, x.is_meta, x.get_device(), x.is_signed()
    x.nelement(), x.ndimension(), x.element_size(), x.stride(0), x.T.stride(), x.stride(-1)
    x.char().tolist(), x.byte().tolist(), x.short().tolist()
    x.data_ptr() == x[:1].data_ptr(), x.data_ptr() == x[1:].data_ptr()
    x.new_zeros(2, 3).tolist(), x.new_ones((2,)).tolist(), x.new_full((1, 2), 7).tolist()
    x.new_tensor([1, 2]).tolist(), x.new_tensor([1, 2], dtype=torch.int64).tolist()
    x.new_zeros(1, requires_grad=True).requires_grad, x.new_empty(2, 5).size(1)
    x.new_zeros(2, dtype=torch.int32, device="cpu").tolist(), x.long().new_zeros(1).tolist()
    x.clone().requires_grad_().numpy(force=True).tolist()
    x.sum(axis=1).tolist(), x.sum(1, keepdims=True).tolist(), x.mean(axis=0, keepdims=True).tolist()
    x.max(axis=1).values.tolist(), x.min(axis=0, keepdims=True).indices.tolist()
    x.argmax(axis=1).tolist(), x.argmin(axis=0).tolist(), x.prod(axis=-1).tolist()
    x.amax(axis=(0, 1)).item(), x.amin(axis=0).tolist(), (x > 1).any(axis=0).tolist()
    (x > 1).all(axis=1, keepdims=True).tolist(), x.cumsum(axis=1).tolist()
    x.var(axis=0, keepdims=True).tolist(), x.std(axis=1, correction=0).tolist()
    x.logsumexp(axis=0).tolist(), torch.sum(x, axis=0).tolist()
    torch.max(x, axis=1).values.tolist(), torch.all(x > 0, axis=0).tolist()
    torch.argmax(x, axis=1).tolist(), torch.mean(x, axis=0).tolist()
    torch.cat([x, x], axis=1).tolist(), torch.stack([x, x], axis=1).tolist()
    torch.concatenate([x, x], axis=0).tolist()
    torch.utils.data.TensorDataset(x)[0][0].tolist(), len(torch.utils.data.Subset([1, 2, 3], [0]))
    len(torch.utils.data.DataLoader(x, 1, num_workers=0, pin_memory=False, timeout=0))
    len(torch.utils.data.DataLoader(x, persistent_workers=False, worker_init_fn=None))
    torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False).shape[0]
    x == None, x != None, x == "text", None == x, x in [None, x]
    torch.cat([x.T, x.T], 1).view(-1).tolist(), torch.stack([x.T, x.T], 1).view(-1).tolist()
    x.T.softmax(1).view(6).tolist(), x.T.cumsum(0).view(-1).tolist(), x[:, [2, 0]].view(4).tolist()
    x.T[:, None].expand(3, 4, 2).sum(-1).view(12).tolist(), x.T.double().T.view(6).tolist()
    x.clone().add_(0.5, x).tolist(), x.add(0.5, x).tolist(), torch.sub(x, 0.5, x).tolist()
    x.clone().addcmul_(0.5, x, x).tolist(), torch.addcdiv(x, 0.5, x, x).tolist()
    torch.addmm(0.5, x, 2.0, x, torch.eye(3)).tolist(), x.addmm(0.5, 2.0, x, torch.eye(3)).tolist()
    x.new(2, 3).shape[1], x.new([1, 2]).tolist(), x.new().shape[0], x.storage_offset()
    x[1].storage_offset(), x.T.storage().tolist(), x[1].storage().size(), len(x.storage())
    x.is_pinned(), x.to_dense() is x, x.is_nested, str(x.layout)
    str(torch.strided), torch.version.cuda
    torch.jit.is_scripting(), torch.compiler.is_compiling(), torch.distributed.is_available()
    torch.detach(x.clone().requires_grad_()).requires_grad, torch.get_default_dtype().itemsize
    isinstance(torch.nn.BatchNorm2d(2), torch.nn.modules.batchnorm._BatchNorm)
    isinstance(torch.nn.Conv1d(1, 1, 1), torch.nn.modules.conv._ConvNd)
    isinstance(torch.nn.GRU(2, 3), torch.nn.RNNBase), torch.nn.modules.utils._pair(3)
    isinstance(torch.nn.Linear(1, 1), torch.jit.ScriptModule)
    torch.nn.modules.loss._Loss().reduction, torch.nn.modules.loss._Loss(False).reduction
    torch.nn.LSTM(2, 3).flatten_parameters(), torch.nn.GRU(2, 3)._flat_weights_names
    [len(row) for row in torch.nn.LSTM(2, 3, 2, bidirectional=True).all_weights]
    torch.nn.Conv2d(1, 1, 3, stride=[2], padding=[1])(torch.ones(1, 1, 5, 5)).shape[-1]
    torch.nn.init.constant_(torch.nn.init.normal(torch.zeros(2)), 1).tolist()
    torch.distributions.normal.Normal(0.0, 1.0).mean.item()
    [v.tolist() for v in torch.distributions.utils.broadcast_all(x, 2)]
    torch.utils.data.get_worker_info(), torch.utils.data.distributed.DistributedSampler is not None
    list(torch.utils.data.DistributedSampler(range(5), 2, 1, shuffle=False))
    torch.utils.checkpoint.get_device_states(x), torch.utils.checkpoint.checkpoint is not None
    torch.utils.checkpoint.checkpoint_sequential([torch.tanh] * 3, 2, x, use_reentrant=False)[0, 0]
    torch.utils._pytree.tree_map(lambda v: v + 1, {"a": [1, (2, 3)]})
    torch.utils._pytree.tree_flatten([1, {"b": None}])[0]
    torch.testing.assert_close(x, x + 1e-7), torch.testing.assert_close([1.0], [1.0])
    torch.backends.mkldnn.is_available() is None, torch.backends.cudnn.flags(enabled=False) is None
    torch.nn.attention.SDPBackend.MATH.name, torch.cuda.OutOfMemoryError is not None
    f"{x.sum()}", f"{x[0, 0]:.2f}", f"{x[0]}", f"{x.sum().requires_grad_()}", f"{(x > 1).any()}"
    f"{torch.nn.Parameter(x[0, 0])}", "{}".format(x[0, 1].long()), "%s %d" % (x[0, 0], x[0, 1])
    x.type(torch.Tensor).tolist(), x.long().type(torch.Tensor).tolist()
    torch.xpu.is_available(), torch.mps.device_count(), torch.xpu.device_count()
    torch.autograd.profiler.profile(enabled=False).__exit__(None, None, None)
    (torch.eye(2) + torch.eye(2).to_sparse()).tolist(), (x + x.long().to_sparse()).tolist()
    (x - x.to_sparse()).tolist(), (x.T @ x.to_sparse()).tolist()
    repr(torch.optim.Adadelta([{"params": [x]}, {"params": [x + 1], "rho": 0.5}])).split(chr(10))
    torch.func.jacfwd(torch.sin, randomness="same")(x[0])[0].tolist()
    torch.utils.data.Dataset[int] is not None, torch.utils.data.Sampler[list[int]] is not None
    torch.equal(x, x.clone()), torch.allclose(x, x + 1e-9), torch.is_tensor(x), torch.numel(x)
    ["fused" in inspect.signature(getattr(torch.optim, n)).parameters for n in ("AdamW", "Muon")]
    isinstance(torch.compile(torch.nn.Linear(2, 1), backend="eager")._orig_mod, torch.nn.Linear)
    [v.tolist() for v in torch._foreach_add([x, x[0]], [x, x[1]], alpha=2)]
    [v.tolist() for v in torch._foreach_mul([x, x[0]], 3)], torch._foreach_norm([x, x[0]])[1]
    [v.item() for v in torch._foreach_norm([x, x[0]], 1)], torch._foreach_sqrt((x, x))[1].tolist()
    torch._foreach_addcdiv_([y], [x], [x + 1], 0.5)[0] is y, y.tolist()
    len(torch._foreach_addcmul_([y, y[0]], [x, x[0]], [x, x[0]], scalars=[0.5, 2.0])), y.tolist()
    torch._foreach_lerp_([y], [x], 0.25)[0] is torch._foreach_copy_([x], [y])[0], x.tolist()
    [v.tolist() for v in torch._foreach_maximum([x, x[0]], [x.mT.mT + 1, x[1]])]
    f"{x.sum()} {x.sum() / 9} {x[0, 0]:.3f} {(x > 1).any()} {x.long().max():4d}", "{}".format(x[0])
    torch.nn.functional.normalize(x, out=y) is y, y.tolist(), torch.cuda.random.manual_seed(3)
    isinstance(3, torch.SymInt), isinstance(x.shape[0], torch.SymInt), x.is_inference()
    torch._assert_async(x.sum(), "zero"), len(torch.nn.ReLU()._backward_hooks)
    torch.utils.data._utils.collate.np_str_obj_array_pattern.pattern, callable(torch.hub.tqdm)
    x.dtype == torch.complex32, torch.float16 == torch.chalf, torch.complex32.itemsize
    "%s %.2f %d" % (x[0, 0], x[0, 1], x[0, 2]), f"{torch.nn.Parameter(x.sum())}"[:9]
"""


@pytest.mark.parametrize("line", [line.strip() for line in LINES.strip().split("\n")])
def test_a_line_means_the_same(line: str) -> None:
    assert value_of(line, gw) == value_of(line, pytorch)


def value_of(line: str, torch: ModuleType) -> Any:
    """What the line gives, rounded to what float32 holds. PyTorch warns of deprecated names."""
    x = torch.tensor([[1.0, 2.0, 3.0], [6.0, 5.0, 4.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rounded(
            eval(line, {"torch": torch, "x": x, "y": x.flip(1), "math": math, "inspect": inspect})
        )


def rounded(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    if isinstance(value, (gw.Tensor, pytorch.Tensor)) and not value.ndim:
        value = value.item()
    return float(f"{value:.5g}") if isinstance(value, float) else value


def test_a_device_that_is_not_here_is_refused_wherever_it_is_named() -> None:
    for ask in (
        lambda: gw.zeros(1, device="cuda:99"),
        lambda: gw.rand(1, device="cuda:99"),
        lambda: gw.ones(1).to("cuda:99"),
        lambda: gw.ones(1).to(99),
        lambda: gw.ones(1).new_zeros(1, device="cuda:99"),
        lambda: gw.nn.Linear(1, 1).to(device="cuda:99"),
    ):
        with pytest.raises((ImportError, RuntimeError), match="JAX"):  # missing, or sees none
            ask()
    with pytest.raises(ValueError, match="no device"):
        gw.tensor([1.0], device="mps")


def test_what_to_does_not_understand_is_refused() -> None:
    with pytest.raises(TypeError, match=r"not 3\.5"):
        gw.ones(1).to(3.5)
    with pytest.raises(TypeError, match="place"):
        gw.ones(1).to(place="cpu")
    with pytest.raises(TypeError, match="no option workers"):
        gw.data.DataLoader([1, 2], workers=3)
    with pytest.raises(TypeError, match="keyword"):
        gw.ones(2).sum(axes=1)  # type: ignore[call-arg]


def test_the_text_of_a_device() -> None:
    assert repr(gw.ones(1).device) == repr(pytorch.ones(1).device)


def detached(torch: Any) -> Any:
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    found = [y.detach_() is y, y.requires_grad, y.is_leaf, y.grad_fn is None]
    with pytest.raises(RuntimeError):
        (x * 2)[0].detach_()
    y.requires_grad_()
    (y * 3).sum().backward()
    return [*found, y.grad.tolist(), x.grad]


def test_detach_in_place() -> None:
    assert detached(gw) == detached(pytorch)


def test_a_new_tensor_is_a_copy() -> None:
    x = gw.zeros(2)
    assert not np.shares_memory(x.new_tensor(x).numpy(), x.numpy())


def test_a_new_tensor_of_a_permuted_one_can_be_viewed() -> None:
    """PyTorch's results are in row-major order, but for elementwise ops."""
    x = gw.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)
    for function in (
        lambda x: gw.cat([x, x], 1),
        lambda x: gw.stack([x, x]),
        lambda x: x.softmax(-1),
        lambda x: x.sum(0),
        lambda x: x.cumsum(1),
        lambda x: gw.nn.functional.layer_norm(x, (3,)),
        lambda x: x[:, [1, 0]],
        lambda x: x.index_select(1, gw.tensor([1])),
    ):
        y = function(x)
        assert y.view(-1).tolist() == y.reshape(-1).tolist()
        y.view(-1)[0] = 7.0
        assert y.reshape(-1)[0].item() == 7.0  # on the same memory


def test_a_module_named_like_a_method_leaves_the_method() -> None:
    def built(torch: Any) -> Any:
        module = torch.nn.Module()
        module.parameters = torch.nn.Linear(1, 2)
        moved = module.to(torch.float64)
        return len(list(module.parameters())), list(moved.state_dict()), len(list(module.modules()))

    assert built(gw) == built(pytorch)


def test_a_default_that_every_group_must_give() -> None:
    from torch.optim.optimizer import required

    def made(torch: Any, **options: Any) -> Any:
        defaults = {"lr": gw.optim.optimizer.required if torch is gw else required}
        weight = torch.ones(1, requires_grad=True)
        return torch.optim.Optimizer([{"params": [weight], **options}], defaults)

    assert made(gw, lr=0.5).param_groups[0]["lr"] == made(pytorch, lr=0.5).param_groups[0]["lr"]
    for library in (gw, pytorch):
        with pytest.raises(ValueError, match="lr"):
            made(library)


def test_what_is_only_for_pytorch_is_refused_with_a_fix(tmp_path: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"onnx\.export"):
        gw.jit.save(gw.nn.Linear(1, 1), "x.pt")
    with pytest.raises(NotImplementedError, match="import_graph"):
        gw.hub.load("pytorch/vision", "resnet18")
    with pytest.raises(FileNotFoundError, match=r"weights\.pth"):
        gw.hub.load_state_dict_from_url("https://a.example/weights.pth", model_dir=str(tmp_path))
    gw.save({"w": gw.ones(2)}, tmp_path / "weights.pth")
    found = gw.utils.model_zoo.load_url("https://a.example/weights.pth", model_dir=str(tmp_path))
    assert found["w"].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"cuda:1"):
        gw.cuda.set_device("cuda:1")
    with pytest.raises(AssertionError, match="1 of 3 elements differ"):
        gw.testing.assert_close(gw.tensor([1.0, 2.0, 3.0]), gw.tensor([1.0, 2.0, 3.5]))


def test_processes_share_a_module_and_train_it_together() -> None:
    """As A3C and Hogwild do, in processes that were forked, and in new ones."""
    import gradwalk.multiprocessing as mp

    for method in ("fork", "spawn"):
        net = gw.nn.Linear(2, 1).share_memory()
        before = net.weight.detach().clone()
        assert net.weight.is_shared() and not before.is_shared()
        processes = [mp.get_context(method).Process(target=descend, args=(net,)) for _ in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0, 0]
        assert (before - net.weight).tolist() == pytest.approx(np.full((1, 2), 0.5))


def descend(net: Any) -> None:
    optimizer = gw.optim.SGD(net.parameters(), lr=0.25)
    net(gw.ones(1, 2)).sum().backward()
    optimizer.step()


def test_a_job_of_one_process_runs_through_its_collectives() -> None:
    from gradwalk import distributed as dist

    x, gathered, objects = gw.ones(2), [gw.zeros(2)], [None]
    dist.all_reduce(x, op=dist.ReduceOp.SUM)
    dist.broadcast(x, 0)
    dist.all_gather(gathered, x)
    dist.all_gather_object(objects, "a")
    dist.barrier(device_ids=[0])
    assert x.tolist() == gathered[0].tolist() == [1.0, 1.0] and objects == ["a"]
    assert dist.get_world_size(group=None) == 1 and dist.get_rank(None) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        "x * x.T", "x @ x", "x.view(4)", "x.reshape(-1, 4)", "torch.cat([x, x.T])",
        "torch.stack([x, x.T])", "x.expand(3, 3)", "x.split([1, 2])", "x.item()", "bool(x)",
        "x.permute(0)", "torch.dot(x, x)", "x.clone().copy_(x.T)", "x[:, 0] - x[0]",
        "x.clone().__setitem__(0, x[:, 0])", "torch.nn.Linear(2, 1)(x)",
        "torch.nn.Conv2d(3, 1, 3)(x[None, None])", "torch.nn.LSTM(2, 3)(x)",
        "torch.nn.functional.mse_loss(x, x.T)",
    ],
)  # fmt: skip
def test_operands_that_do_not_fit_raise_pytorchs_kind_of_error(wrong: str) -> None:
    with pytest.raises(RuntimeError):
        value_of(wrong, pytorch)
    with pytest.raises(RuntimeError) as caught:
        value_of(wrong, gw)
    assert isinstance(caught.value, ValueError)  # which is NumPy's
