"""Data for training: datasets, samplers, a resumable loader, and bundled datasets.

>>> import gradwalk as gw
>>> _ = gw.manual_seed(0)
>>> loader = gw.data.DataLoader(gw.data.moons(100), batch_size=32, shuffle=True)
>>> for points, labels in loader:
...     print(points.shape, labels.shape)
(32, 2) (32,)
(32, 2) (32,)
(32, 2) (32,)
(4, 2) (4,)
"""

from gradwalk.data.bar import progress
from gradwalk.data.collate import default_collate, default_convert
from gradwalk.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from gradwalk.data.datasets import Characters, characters, circles, digits, moons, spirals
from gradwalk.data.loader import DataLoader, get_worker_info
from gradwalk.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "Characters", "ConcatDataset", "DataLoader", "Dataset",
    "DistributedSampler", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler",
    "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler",
    "characters", "circles", "default_collate", "default_convert", "digits", "get_worker_info",
    "moons", "progress", "random_split", "spirals",
]  # fmt: skip
