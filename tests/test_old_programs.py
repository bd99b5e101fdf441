"""What programs of PyTorch's first years and of today write around the mathematics."""

from __future__ import annotations

import importlib
import io
import warnings
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch as pytorch

import gradwalk as gw

# Every line is evaluated with `torch` standing for either library, and must give the same.
LINES = """
    torch.Tensor(x.size()).shape, torch.FloatTensor(x.shape).shape
    torch.LongTensor((2, 3)).tolist()
    x.size().numel(), x.shape[:1].numel(), (x.shape + (4,)).numel(), (2 * x.shape[1:]).numel()
    isinstance(x.shape, torch.Size), isinstance(x.size()[1:], torch.Size), torch.Size([2]) == (2,)
    x.new(x.size()).shape, x.new(2, 1).shape, x.new([1, 2]).tolist(), x.new().numel()
    x.clone().add_(2, x).tolist(), x.add(2, x).tolist(), torch.add(x, 2, x).tolist()
    x.clone().sub_(0.5, x).tolist(), torch.sub(x, 3, x).tolist()
    x.clone().addcmul_(0.5, x, x).tolist(), x.addcdiv(2, x, x + 1).tolist()
    torch.addcmul(x, 3, x, x).tolist(), torch.addcdiv(x, -1, x, x).tolist()
    nn.MSELoss(size_average=False)(x, 0 * x).item(), nn.L1Loss(reduce=False)(x, 0 * x).tolist()
    nn.CrossEntropyLoss(size_average=False)(x, torch.tensor([0, 1])).item()
    nn.NLLLoss(size_average=True)(x, torch.tensor([0, 1])).item()
    nn.PoissonNLLLoss(reduce=False)(x, x).tolist()
    nn.TripletMarginLoss(size_average=False).reduction
    nn.MarginRankingLoss(size_average=False)(x, x, x.sign()).item()
    torch.relu_(x - 3).tolist(), torch.clamp_(x.clone(), 2, 3).tolist()
    torch.zero_(x.clone()).tolist()
    torch.chain_matmul(x, x.T, x).tolist()
    nn.modules.utils._pair(3), nn.modules.utils._triple((1, 2, 3)), nn.modules.utils._single(2)
    isinstance(nn.Conv2d(1, 1, 1), nn.modules.conv._ConvNd)
    isinstance(nn.ConvTranspose1d(1, 1, 1), nn.modules.conv._ConvNd)
    isinstance(nn.BatchNorm2d(1), nn.modules.batchnorm._BatchNorm)
    isinstance(nn.InstanceNorm2d(1), nn.modules.batchnorm._BatchNorm)
    isinstance(nn.Dropout(0.1), nn.modules.dropout._DropoutNd)
    nn.modules.linear.Linear is nn.Linear
    torch.version.cuda, torch.jit.is_scripting()
    torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    torch.distributed.is_available(), torch.distributed.is_initialized()
    x.clone().share_memory_().is_shared(), x.is_shared(), x.clone().share_memory_().tolist()
    nn.Linear(2, 1).share_memory().weight.is_shared()
    torch.nn.init.constant(torch.zeros(2), 3.0).tolist()
    torch.nn.init.eye(torch.zeros(2, 2)).tolist()
    torch.utils.data.get_worker_info(), torch.utils.data.dataloader.DataLoader.__name__
    list(torch.utils.data.distributed.DistributedSampler(range(7), 3, 1, shuffle=False))
    list(torch.utils.data.distributed.DistributedSampler(range(7), 3, 1, False, drop_last=True))
    list(torch.utils.data.distributed.DistributedSampler(range(2), 5, 4, shuffle=False))
    [len(torch.utils.data.DistributedSampler(range(7), 3, r)) for r in range(3)]
    torch.utils.hooks.RemovableHandle.__name__, torch.utils.dlpack.from_dlpack(x).tolist()
    torch.nn.attention.SDPBackend.MATH.name, torch.typename(torch.ones(1, dtype=torch.int64))
    torch.fx.wrap("len"), torch._assert(x.ndim == 2, "a matrix"), torch._check(x.ndim == 2)
    torch.jit.isinstance([x], list[torch.Tensor]), torch.jit.isinstance([1], list[torch.Tensor])
    torch.jit.isinstance({"a": 1}, dict[str, int]), torch.jit.isinstance((x, 1), tuple[int, int])
    torch.jit.isinstance(None, int | None), torch.jit._script_if_tracing(len)([1, 2])
    torch.hub.HASH_REGEX.search("net-12ab.pth").group(1), torch.hub._get_torch_home()
    torch.onnx.is_in_onnx_export(), torch.serialization.DEFAULT_PROTOCOL
    torch.distributed.ProcessGroup.__name__, torch.distributed.get_rank.__name__
    torch._C._log_api_usage_once("event"), torch._C._get_tracing_state()
    torch._C._are_functorch_transforms_active(), torch.compiler.is_compiling()
    torch.clone(x, memory_format=torch.preserve_format).tolist()
    np.arctan2(x, 2).tolist(), np.arctan2(x, 2).dtype == x.dtype, np.modf(x)[1].tolist()
    [c[int] is not None for c in (torch.utils.data.Dataset, torch.utils.data.Sampler)]
    torch.utils.data.DataLoader[int] is not None, torch.utils.data.Subset[int] is not None
    list(nn.Linear(1, 1).state_dict()._metadata.items())
    repr(nn.MultiheadAttention(4, 2)), repr(nn.TransformerEncoderLayer(4, 2, 8))
    repr(nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)))
    repr(nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3)))
    repr(nn.utils.parametrizations.orthogonal(nn.Linear(2, 3)))
    repr(nn.Linear(1, 1).load_state_dict({"x": x}, strict=False))
    repr(nn.ReLU().load_state_dict({}))
    nn.modules.module._IncompatibleKeys([], ["a"]).unexpected_keys
    issubclass(nn.modules.linear.NonDynamicallyQuantizableLinear, nn.Linear)
    len(nn.modules.transformer._get_clones(nn.Linear(1, 1), 3))
    nn.modules.transformer._get_activation_fn("gelu")(x).tolist()
    nn.init._no_grad_fill_(torch.zeros(2), 3.0).tolist(), nn.init._no_grad_zero_(x.clone()).tolist()
    [torch.amp.is_autocast_available(d) for d in ("cpu", "cuda")]
    torch.jit.wait(torch.jit.fork(len, "ab")), torch.jit.fork(len, "ab").wait()
    issubclass(torch.jit.TracerWarning, Warning), torch.jit.script_if_tracing(len)([1])
    torch.overrides.has_torch_function((x,)), torch.overrides.is_tensor_like(x)
    torch.overrides.handle_torch_function(torch.sum, (x,), x).item()
    torch.overrides.is_tensor_like([1])
    torch.functional.norm(x).item(), torch.types.Number is not None, torch.Event is not None
    [p.tolist() for p in torch.split_with_sizes(x, [1, 2], 1)]
    torch._dynamo.is_compiling()
    x.view(dtype=torch.int32).tolist(), torch.tensordot(x, x, dims=([1], [1])).tolist()
    torch.distributed.Backend.NCCL == "nccl", torch.distributed.ReduceOp.BOR is not None
    torch.broadcast_to(x[:1], (2, -1)).tolist(), x[:1].broadcast_to(2, -1).tolist()
    nn.functional.normalize(x, dim=0, out=torch.empty(2, 3)).tolist()
    [isinstance(nn.MSELoss(), b) for b in (nn.modules.loss._Loss, nn.modules.loss._WeightedLoss)]
    [isinstance(nn.NLLLoss(), b) for b in (nn.modules.loss._Loss, nn.modules.loss._WeightedLoss)]
    isinstance(nn.L1Loss(), nn.NLLLoss), isinstance(nn.CELU(), nn.ELU), str(nn.CELU(0.5))
    isinstance(nn.Hardswish(), nn.Hardsigmoid), isinstance(nn.Softshrink(), nn.Hardshrink)
    isinstance(nn.ReflectionPad2d(1), nn.ReflectionPad1d), str(nn.Softshrink(0.25))
    isinstance(nn.ZeroPad2d(1), nn.ConstantPad2d), isinstance(nn.ZeroPad2d(1), nn.ZeroPad1d)
    nn.ZeroPad2d((1, 0, 0, 0))(x[None]).tolist(), nn.ConstantPad2d(1, 2.0)(x[None]).sum().item()
    isinstance(nn.CircularPad3d(1), nn.modules.padding._CircularPadNd)
    isinstance(nn.ReplicationPad1d(1), nn.modules.padding._ReplicationPadNd)
    isinstance(nn.AvgPool2d(2), nn.modules.pooling._AvgPoolNd), str(nn.AvgPool2d(2))
    isinstance(nn.MaxPool1d(2), nn.modules.pooling._MaxPoolNd), str(nn.AdaptiveMaxPool2d(1))
    isinstance(nn.AdaptiveAvgPool1d(2), nn.modules.pooling._AdaptiveAvgPoolNd)
    isinstance(nn.AdaptiveMaxPool3d(2), nn.modules.pooling._AdaptiveMaxPoolNd)
    isinstance(x.untyped_storage(), torch.UntypedStorage), isinstance(torch.__config__.show(), str)
    str(torch.sparse_csc), x.layout == torch.sparse_bsr
    torch.serialization.MAP_LOCATION is not None, isinstance(x, torch.distributed.tensor.DTensor)
    torch.distributed.is_gloo_available() in (True, False), x._cdata == x.T._cdata
    isinstance(nn.Linear(1, 1), torch.fx.GraphModule), torch.fx.Tracer.__name__
    torch.autograd.profiler.EventList.__name__ is not None
    torch.utils.data.dataloader._BaseDataLoaderIter is not None
    torch.distributions.transforms._InverseTransform.__name__
    torch.profiler.ProfilerAction.RECORD.name
    callable(torch.profiler.tensorboard_trace_handler("."))
"""


@pytest.mark.parametrize("line", [line.strip() for line in LINES.strip().split("\n")])
def test_a_line_means_the_same(line: str) -> None:
    assert value_of(line, gw) == value_of(line, pytorch)


def value_of(line: str, torch: ModuleType) -> Any:
    x = torch.tensor([[1.0, 2.0, 3.0], [6.0, 5.0, 4.0]])
    for name in (
        "_dynamo",
        "distributed.tensor",
        "fx",
        "nn.attention",
        "utils.data.distributed",
        "utils.dlpack",
    ):
        importlib.import_module(f"{torch.__name__}.{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(eval(line, {"torch": torch, "nn": torch.nn, "x": x, "np": np}))


def plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


@pytest.mark.parametrize(
    "path",
    [
        "jit",
        "hub",
        "multiprocessing",
        "nn.common_types",
        "nn.modules.batchnorm",
        "nn.modules.conv",
        "nn.modules.loss",
        "nn.modules.utils",
        "utils.data.dataset",
        "utils.data.sampler",
        "utils.hooks",
        "utils.model_zoo",
        "version",
        "_dynamo",
        "_dynamo.config",
        "_inductor.config",
        "autograd.profiler",
        "cuda.random",
        "functional",
        "futures",
        "nn.attention.flex_attention",
        "overrides",
        "types",
    ],
)
def test_a_place_of_pytorchs_can_be_imported(path: str) -> None:
    assert importlib.import_module(f"gradwalk.{path}").__doc__


@pytest.mark.parametrize(
    "where",
    [lambda storage, location: storage, lambda storage, location: None, {"cuda:0": "cpu"}, "cpu"],
)
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_load_takes_pytorchs_forms_of_map_location(tmp_path: Path, where: Any, suffix: str) -> None:
    path = tmp_path / f"w{suffix}"
    gw.save({"w": gw.ones(2)}, path)
    assert gw.load(path, map_location=where)["w"].tolist() == [1, 1]


def test_a_shape_is_saved_as_pytorchs() -> None:
    buffer = io.BytesIO()
    gw.save({"shape": gw.ones(2, 3).shape, "w": gw.ones(1)}, buffer)
    buffer.seek(0)
    assert type(pytorch.load(buffer)["shape"]) is pytorch.Size
    buffer.seek(0)
    assert type(gw.load(buffer)["shape"]) is gw.Size


def test_the_legacy_factor_has_a_gradient() -> None:
    x, y = gw.ones(2, requires_grad=True), gw.ones(2, requires_grad=True)
    (gw.add(x, 3, y) + gw.zeros(2).addcmul(2, y, y)).sum().backward()
    assert x.grad.tolist() == [1, 1] and y.grad.tolist() == [7, 7]


def test_the_default_tensor_type() -> None:
    try:
        for name in ("torch.DoubleTensor", gw.DoubleTensor):
            gw.set_default_tensor_type(name)
            assert gw.zeros(1).dtype == gw.float64
    finally:
        gw.set_default_tensor_type(gw.FloatTensor)
    with pytest.raises(TypeError, match="takes one of"):
        gw.set_default_tensor_type("Float")


def test_the_options_of_torch_compile() -> None:
    layer = gw.nn.Linear(2, 2)
    x = gw.ones(1, 2)
    for options in (
        {"mode": "reduce-overhead", "fullgraph": True},
        {"backend": "inductor", "dynamic": False},
        {"backend": "eager"},
    ):
        made = gw.compile(layer, **options)
        np.testing.assert_allclose(made(x).detach(), layer(x).detach(), rtol=1e-6)
    assert gw.compile(layer, disable=True) is layer
    assert gw.compile(disable=True)(len) is len


def test_one_process_as_a_group() -> None:
    group = gw.distributed
    group.init_process_group("gloo", timeout=timedelta(seconds=5))
    try:
        assert group.is_initialized() and group.get_rank() == 0
        group.all_reduce(gw.ones(1))
        group.broadcast(gw.ones(1), src=0)
    finally:
        group.destroy_process_group()
    with pytest.raises(ValueError, match="init_method"):
        group.init_process_group(init_method="file:///tmp/x")


@pytest.mark.parametrize("torch", [gw, pytorch])
def test_futures(torch: Any) -> None:
    first, second = torch.futures.Future(), torch.futures.Future()
    sums = torch.futures.collect_all([first, second.then(lambda done: 2 * done.value())])
    second.set_result(3)
    assert not sums.done()
    first.set_result(1)
    assert torch.futures.wait_all(sums.wait()) == [1, 6]
    failed = first.then(lambda done: done.value() / 0)
    with pytest.raises((ZeroDivisionError, RuntimeError)):  # PyTorch's is of its own
        failed.wait()


@pytest.mark.parametrize("torch", [gw, pytorch])
def test_a_programs_own_parameters_and_tensors_are_made_by_new(torch: Any) -> None:
    class Tagged(torch.nn.Parameter):
        def __new__(cls, data: Any, requires_grad: bool = True, *, tag: str) -> Any:
            self = super().__new__(cls, data, requires_grad)
            self.tag = tag
            return self

    class Point(torch.Tensor):
        def __new__(cls, data: Any, space: int) -> Any:
            made = torch.Tensor._make_subclass(cls, data, True)
            made.space = space
            return made

    class PointParameter(Point, torch.nn.Parameter):
        pass

    data = torch.ones(2, 3)
    module = torch.nn.Module()
    module.first, module.second = Tagged(data, tag="a"), PointParameter(data, 5)
    assert [name for name, _ in module.named_parameters()] == ["first", "second"]
    assert (module.first.tag, module.second.space) == ("a", 5)
    assert isinstance(module.second, Point) and module.second.is_leaf
    (module.first * module.second).sum().backward()
    assert module.second.grad.tolist() == data.tolist()
    with torch.no_grad():
        module.first.mul_(2)
    assert module.second.tolist() == [[2.0] * 3] * 2  # on the same memory
    assert torch.Tensor.__new__(Point, [1.0, 2.0]).tolist() == [1, 2]


def test_decorators_of_jit_leave_functions_as_they_are() -> None:
    for decorate in (gw.jit.script, gw.jit.trace, gw.jit.ignore, gw.jit.unused, gw.jit.ignore()):
        assert decorate(plain) is plain


def test_the_network_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="runs the code of owner/repo"):
        gw.hub.load("owner/repo", "model")
    with pytest.raises(FileNotFoundError, match="downloads nothing"):
        gw.hub.load_state_dict_from_url("https://example.org/w.pt")


def test_a_shuffled_order_is_divided_among_processes() -> None:
    def drawn(epoch: int) -> list[list[int]]:
        samplers = [gw.data.DistributedSampler(range(9), 3, rank) for rank in range(3)]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        return [list(sampler) for sampler in samplers]

    assert sorted(i for part in drawn(0) for i in part) == list(range(9))
    assert drawn(0) == drawn(0) != drawn(1)
    with pytest.raises(ValueError, match="rank is from 0 to 1"):
        gw.data.DistributedSampler(range(9), 2, 2)


def test_forked_processes_train_one_model() -> None:
    from gradwalk import multiprocessing

    model = gw.nn.Linear(2, 1).share_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        fork = multiprocessing.get_context("fork")
        started = [fork.Process(target=train, args=(model,)) for _ in range(2)]
        for process in started:
            process.start()
    for process in started:
        process.join()
        assert process.exitcode == 0
    np.testing.assert_allclose(model(gw.ones(1, 2)).item(), 3, atol=1e-3)


def train(model: Any) -> None:
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(40):
        optimizer.zero_grad()
        ((model(gw.ones(4, 2)) - 3) ** 2).mean().backward()
        optimizer.step()


def test_spawned_processes_that_fail_are_told() -> None:
    from gradwalk import multiprocessing

    multiprocessing.spawn(works, args=(2,), nprocs=2, start_method="fork")
    with pytest.raises(RuntimeError, match="process 1 ended with 3"):
        multiprocessing.spawn(fails, nprocs=2, start_method="fork")


def works(index: int, count: int) -> None:
    assert index < count


def fails(index: int) -> None:
    raise SystemExit(3 * index)


def test_settings_of_the_compiler_are_kept_and_change_nothing() -> None:
    settings = importlib.import_module("gradwalk._inductor.config")
    settings.triton.unique_kernel_names = True
    assert settings.triton.unique_kernel_names is True and not settings.fx_graph_cache
    with gw._dynamo.config.patch(suppress_errors=True):
        assert not gw._dynamo.config.verbose and repr(gw._dynamo.config.verbose) == "False"
    gw._dynamo.mark_dynamic(gw.ones(2), 0)
    gw._dynamo.graph_break()
    for mark in (gw._dynamo.optimize("inductor"), gw._dynamo.allow_in_graph, gw._dynamo.disable):
        assert mark(len) is len


def test_no_stream_is_captured() -> None:
    assert not gw.cuda.is_current_stream_capturing()  # PyTorch without CUDA raises an error


def test_the_older_place_of_the_profiler() -> None:
    with gw.autograd.profiler.profile(use_cuda=False) as prof:
        gw.ones(2).sum()
    assert prof.events() == [] and prof.self_cpu_time_total == 0
    assert prof.total_average().table() == prof.key_averages().table()


def test_numpys_name_of_paired_dimensions() -> None:
    """opt_einsum calls it so of arrays that it does not know."""
    x = gw.arange(6.0).reshape(2, 3)
    assert gw.equal(gw.tensordot(x, x, axes=((1,), (1,))), x @ x.T)
