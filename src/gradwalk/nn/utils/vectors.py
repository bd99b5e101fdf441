"""Parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable

from gradwalk.ops.shape.reshaping import cat
from gradwalk.tensors.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate all parameters; gradients flow back to them.

    >>> import gradwalk as gw
    >>> gw.nn.utils.parameters_to_vector([gw.zeros(2), gw.ones(1, 2)])
    tensor([0., 0., 1., 1.])
    """
    vector: Tensor = cat([parameter.reshape(-1) for parameter in parameters])
    return vector


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set the parameters from the elements of a vector: the inverse.

    >>> import gradwalk as gw
    >>> layer = gw.nn.Linear(2, 1)
    >>> gw.nn.utils.vector_to_parameters(gw.tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.weight.tolist(), layer.bias.tolist()
    ([[1.0, 2.0]], [3.0])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters takes a Tensor, not {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        parameter.data = vec[start:end].view(*parameter.shape).data
        start = end
