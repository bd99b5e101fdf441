"""Functions made of several ops that are one step in programs from elsewhere (PyTorch's ATen).

Importing this adds them to what `gradwalk.ops.TABLE` knows, so that a trace in which such a step is
one node can be stepped, opened and explained like any other, also without PyTorch.
"""

from gradwalk.nn.composites import arithmetic, layers, losses, moving, pulling

__all__ = ["arithmetic", "layers", "losses", "moving", "pulling"]
