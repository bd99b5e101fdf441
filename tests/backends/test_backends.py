"""PyTorch's `backends` and longer paths: what programs set, ask for and import."""

from __future__ import annotations

import torch

import gradwalk as gw
import gradwalk.backends.cudnn as cudnn
import gradwalk.nn.modules as modules
from gradwalk.nn.modules.module import Module


def test_the_switches_are_pytorchs() -> None:
    for name in cudnn.__all__:
        assert hasattr(torch.backends.cudnn, name)
    assert (cudnn.benchmark, cudnn.deterministic, cudnn.enabled) == (False, False, True)
    assert not cudnn.is_available() and cudnn.version() is None
    assert not gw.backends.mps.is_available() and not gw.backends.mps.is_built()
    assert not gw.backends.cuda.is_built()


def test_tf32_is_the_precision_of_products() -> None:
    before = gw.get_float32_matmul_precision()
    try:
        gw.backends.cuda.matmul.allow_tf32 = True
        assert gw.get_float32_matmul_precision() == "high"
        gw.set_float32_matmul_precision("highest")
        assert gw.backends.cuda.matmul.allow_tf32 is False
    finally:
        gw.set_float32_matmul_precision(before)


def test_deterministic_algorithms() -> None:
    assert not gw.are_deterministic_algorithms_enabled()
    gw.use_deterministic_algorithms(True, warn_only=True)
    assert gw.are_deterministic_algorithms_enabled()
    gw.use_deterministic_algorithms(False)


def test_longer_paths() -> None:
    assert Module is gw.nn.Module and modules.Linear is gw.nn.Linear
    assert gw.cuda.amp.GradScaler is gw.amp.GradScaler
    with gw.cuda.amp.autocast(enabled=True, dtype=gw.float16):  # of ops on a GPU, not on the CPU
        assert (gw.ones(2, 2) @ gw.ones(2, 2)).dtype == gw.float32


def test_the_cpu_as_any_device() -> None:
    from gradwalk.cpu.amp import autocast

    for library in (gw, torch):
        device = library.cpu
        assert device.is_available() and device.is_initialized() and device.device_count() == 1
        assert device.current_device() == "cpu"
        device.set_device("cpu")
        device.synchronize()
        with device.stream(device.current_stream()):
            pass
    with autocast(dtype=gw.bfloat16):
        assert (gw.ones(2, 2) @ gw.ones(2, 2)).dtype == gw.bfloat16
    with gw.cpu.amp.autocast(enabled=False):
        assert (gw.ones(2, 2) @ gw.ones(2, 2)).dtype == gw.float32
