"""Training steps written by hand in NumPy: the cost of each network without an engine.

Each file is one network on plain arrays, with its backward pass derived on paper. `networks.py`
races them; `tests/benchmarks/test_floor.py` checks that they do all the work that gradwalk does.
"""

from __future__ import annotations

from .cnn import CnnFloor
from .gpt import GptFloor
from .lstm import LstmFloor
from .mlp import MlpFloor

FLOORS = {"cnn": CnnFloor, "gpt": GptFloor, "lstm": LstmFloor, "mlp": MlpFloor}
