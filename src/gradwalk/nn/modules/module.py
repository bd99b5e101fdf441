"""`nn.modules.module`, where PyTorch has the base class."""

from gradwalk.nn.module import Module as Module
from gradwalk.nn.state import IncompatibleKeys as _IncompatibleKeys  # noqa: F401

__all__ = ["Module"]
