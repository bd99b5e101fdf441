"""Lines that PyTorch programs are full of mean the same here.

Every line is evaluated with `torch` standing for either library, and must give the same.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch as pytorch

import gradwalk as gw

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
    torch.equal(x, x.clone()), torch.allclose(x, x + 1e-9), torch.is_tensor(x), torch.numel(x)
"""


@pytest.mark.parametrize("line", [line.strip() for line in LINES.strip().split("\n")])
def test_a_line_means_the_same(line: str) -> None:
    assert value_of(line, gw) == value_of(line, pytorch)


def value_of(line: str, torch: ModuleType) -> Any:
    """What the line gives, rounded to what float32 holds."""
    x = torch.tensor([[1.0, 2.0, 3.0], [6.0, 5.0, 4.0]])
    return rounded(eval(line, {"torch": torch, "x": x, "math": math}))


def rounded(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


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
