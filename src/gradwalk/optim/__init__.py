"""Optimizers under PyTorch's names: the first two; the rest comes with them."""

from gradwalk.optim.optimizers import SGD, AdamW, Optimizer

__all__ = ["SGD", "AdamW", "Optimizer"]
