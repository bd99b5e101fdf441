"""PyTorch's places for data and checkpointing, so that changing the name of the import is enough.

>>> from gradwalk.utils.data import DataLoader, TensorDataset
>>> from gradwalk.utils.checkpoint import checkpoint
"""

from gradwalk.utils import _pytree as _pytree
from gradwalk.utils import checkpoint as checkpoint
from gradwalk.utils import data as data
from gradwalk.utils import dlpack as dlpack
from gradwalk.utils import hooks as hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks"]
