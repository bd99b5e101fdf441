"""`gradwalk.data` under PyTorch's name."""

from gradwalk.data import *  # noqa: F403
from gradwalk.data import __all__ as __all__
from gradwalk.ops.core.longer_paths import longer_paths

longer_paths(
    __name__,
    "dataset",
    "dataloader",
    "distributed",
    "sampler",
    "_utils",
    "collate",
    "_utils.collate",
)
