"""PyTorch's `autograd.function`: custom Functions and their context."""

from gradwalk.engine.function import Context as FunctionCtx
from gradwalk.engine.function import Function, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
