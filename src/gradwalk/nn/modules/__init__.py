"""PyTorch's longer path to the layers: `nn.modules` has the classes of `nn`."""

from gradwalk.nn import *  # noqa: F403
from gradwalk.nn import __all__ as __all__
from gradwalk.nn.modules import module as module
