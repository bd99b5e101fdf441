"""The memory that the graph keeps for backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.engine.checkpoint import Recompute, saved_arrays
from gradwalk.engine.tree import leaves
from gradwalk.graph.order import inputs_first
from gradwalk.graph.versions import owner_of


def saved_bytes(root: Any) -> int:
    """Bytes of array memory that the graph behind a tensor keeps for its backward pass.

    Shared memory counts once; leaves that require a gradient (parameters) do not count, because
    they exist anyway. A checkpointed region keeps its arguments.

    >>> import gradwalk as gw
    >>> x = gw.zeros(1000, requires_grad=True)
    >>> gw.saved_bytes(x.tanh().sum())
    4000
    """
    owners: dict[int, Any] = {}
    order = inputs_first([root.grad_fn] if root.grad_fn is not None else [])
    own = {id(owner_of(leaf._array)) for leaf in order if not leaf.inputs}
    for node in order:
        for array in _kept_by(node) if node.inputs else ():
            owner = owner_of(array)
            owners[id(owner)] = owner
    return sum(owner.nbytes for key, owner in owners.items() if key not in own)


def _kept_by(node: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays that one node keeps."""
    if isinstance(node.saved, Recompute):  # the arguments of the region, to run it again
        region = node.saved.region
        tensors = leaves((region.args, region.keywords))
        return [t._array for t in tensors if hasattr(t, "_array")]
    return saved_arrays(node) if isinstance(node.saved, dict) else []
