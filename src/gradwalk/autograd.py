"""PyTorch's `autograd` namespace: `grad`, `backward`, custom Functions, gradcheck."""

from typing import TYPE_CHECKING, Any

from gradwalk.engine.function import Function, once_differentiable
from gradwalk.engine.gradients import backward, grad
from gradwalk.engine.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

if TYPE_CHECKING:
    from gradwalk.inspect.mistakes.gradcheck import gradcheck, gradgradcheck

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


def __getattr__(name: str) -> Any:
    if name not in ("gradcheck", "gradgradcheck"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gradwalk.inspect.mistakes import gradcheck  # training needs no checker

    return getattr(gradcheck, name)
