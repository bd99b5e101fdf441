"""Timing a statement under the names of `torch.utils.benchmark`.

>>> from gradwalk.utils.benchmark import Timer
>>> Timer("torch.ones(2) + 1").timeit(10).number_per_run  # `torch` is gradwalk here
10
"""

from gradwalk.utils.benchmark.compare import Compare as Compare
from gradwalk.utils.benchmark.timer import Measurement as Measurement
from gradwalk.utils.benchmark.timer import Timer as Timer

__all__ = ["Compare", "Measurement", "Timer"]
