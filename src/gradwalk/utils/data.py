"""`gradwalk.data` under PyTorch's name."""

from gradwalk.data import *  # noqa: F403
from gradwalk.data import __all__ as __all__
