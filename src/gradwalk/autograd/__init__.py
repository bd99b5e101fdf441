"""PyTorch's `autograd` namespace: `grad`, `backward`, custom Functions, anomalies, gradcheck."""

import importlib
from typing import TYPE_CHECKING, Any

from gradwalk.autograd import forward_ad as forward_ad
from gradwalk.autograd import function as function
from gradwalk.autograd import functional as functional
from gradwalk.autograd import grad_mode as grad_mode
from gradwalk.autograd import graph as graph
from gradwalk.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from gradwalk.autograd.batched_grad import grad
from gradwalk.engine.function import Function, once_differentiable
from gradwalk.engine.gradients import backward
from gradwalk.engine.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from gradwalk.tensors.legacy import Variable

if TYPE_CHECKING:
    from gradwalk.inspect.mistakes.gradcheck import gradcheck, gradgradcheck

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def __getattr__(name: str) -> Any:
    if name == "profiler":  # PyTorch's older place of it
        return importlib.import_module("gradwalk.autograd.profiler")
    if name not in ("gradcheck", "gradgradcheck"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gradwalk.inspect.mistakes import gradcheck  # training needs no checker

    return getattr(gradcheck, name)
