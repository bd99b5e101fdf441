"""The training steps that `compiled.py` races, one file for each library that runs them.

Each file has `prepare`: it makes model, batch and optimizer, and returns what begins the training.
Beginning hands the step to the library's compiler, where there is one, and returns it. So a
contestant can tell building from compiling from running.
"""

from __future__ import annotations

from collections.abc import Callable

Answer = Callable[[], float]  # reads the loss, or whatever shows that all do the same work
Step = Callable[[], Answer]
Begin = Callable[[], Step]
