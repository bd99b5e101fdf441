"""How much the graph keeps for backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.graph.order import inputs_first
from gradwalk.graph.versions import owner_of


def saved_bytes(root: Any) -> int:
    """Bytes of array memory that the graph behind a tensor keeps for its backward pass.

    Memory that several nodes keep counts once; leaves (parameters, data) do not count, they
    would be there anyway.

    >>> import gradwalk as gw
    >>> x = gw.zeros(1000, requires_grad=True)
    >>> gw.saved_bytes(x.tanh().sum())
    4000
    """
    owners: dict[int, Any] = {}
    order = inputs_first([root.grad_fn] if root.grad_fn is not None else [])
    own = {id(owner_of(leaf._array)) for leaf in order if not leaf.inputs}
    for node in order:
        if node.inputs and isinstance(node.saved, dict):
            for value in node.saved.values():
                for array in value if isinstance(value, tuple) else (value,):
                    if isinstance(array, np.ndarray):
                        owner = owner_of(array)
                        owners[id(owner)] = owner
    return sum(owner.nbytes for key, owner in owners.items() if key not in own)
