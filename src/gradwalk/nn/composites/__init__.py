"""Composite ops: functions of several ops that are one step in other libraries (PyTorch's ATen).

Importing this package adds them to `gradwalk.ops.TABLE`: a trace in which such a step is one node
can be stepped, opened and explained like any other, also without PyTorch.
"""

from gradwalk.nn.composites import arithmetic, layers, losses, moving, pairs, pulling, routing

__all__ = ["arithmetic", "layers", "losses", "moving", "pairs", "pulling", "routing"]
