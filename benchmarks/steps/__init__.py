"""The training steps that `compiled.py` races, one file for each library that runs them.

Each file has `prepare`: it makes model, batch and optimizer, and returns a function that begins the
training. That function passes the step to the library's compiler, if there is one, and returns it.
A contestant can thus time building, compiling and running separately.
"""

from __future__ import annotations

from collections.abc import Callable

Answer = Callable[[], float]  # reads the loss, or another number that all must agree on
Step = Callable[[], Answer]
Begin = Callable[[], Step]
