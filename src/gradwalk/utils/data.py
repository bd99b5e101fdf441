"""`gradwalk.data` under PyTorch's name."""

import re as _re
from collections.abc import Callable as _Callable
from types import GeneratorType as _GeneratorType
from typing import Any as _Any

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

np_str_obj_array_pattern = _re.compile(r"[SaUO]")  # dtypes of arrays that are not collated

# What packages annotate with, and ask for: a loader gives a generator, in the same process.
_collate_fn_t, _worker_init_fn_t = _Callable[[list[_Any]], _Any], _Callable[[int], None]
_BaseDataLoaderIter = _SingleProcessDataLoaderIter = _GeneratorType


class _MultiProcessingDataLoaderIter:
    """What reads in processes in PyTorch."""
