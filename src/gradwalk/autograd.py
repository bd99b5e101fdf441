"""PyTorch's `autograd` namespace: `grad`, `backward`, custom Functions, gradcheck."""

from gradwalk.engine.function import Function, once_differentiable
from gradwalk.engine.gradcheck import gradcheck, gradgradcheck
from gradwalk.engine.gradients import backward, grad
from gradwalk.engine.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
]
