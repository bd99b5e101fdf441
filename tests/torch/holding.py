"""Compare the per-node gradients of a trace with PyTorch's own."""

import numpy as np
import torch

from gradwalk.torch.record.recorder import TorchRecorder
from gradwalk.torch.values import array_of


class Holding(TorchRecorder):
    """A recorder that keeps every tensor, so that PyTorch can compute the gradient of each."""

    def __init__(self):
        super().__init__()
        self.held = {}

    def note(self, tensor, edge):
        super().note(tensor, edge)
        self.held[edge] = tensor, tensor._version


def compare_with_autograd(trace, loss):
    """Compare every held tensor bit for bit; return how many have a gradient.

    The graph of the loss must have been retained.
    """
    asked = {
        edge: tensor
        for edge, (tensor, version) in trace.recorder.held.items()
        if tensor.requires_grad  # the workspace of an LSTM does not
        and trace.nodes[edge.node].needs_grad
        and tensor._version == version  # not overwritten since
        and trace.recorder.known(tensor) == edge
    }
    found = torch.autograd.grad(loss, list(asked.values()), retain_graph=True, allow_unused=True)
    for edge, gradient in zip(asked, found, strict=True):
        kept = trace.sweep.grad(*edge)
        assert (kept is None) == (gradient is None), trace.name(edge.node)
        if gradient is not None:
            np.testing.assert_array_equal(kept, array_of(gradient), trace.name(edge.node))
    return sum(gradient is not None for gradient in found)
