"""`nn.modules.module`, where PyTorch has the base class."""

from gradwalk.nn.module import Module as Module

__all__ = ["Module"]
