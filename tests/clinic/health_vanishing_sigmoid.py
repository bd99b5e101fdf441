"""Every sigmoid multiplies the gradient by at most 0.25."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "vanishing", "0"


def sick():
    """Eight sigmoid layers, one behind the other."""
    gw.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(8))
    for layer in layers:
        nn.init.orthogonal_(layer.weight)
    h = gw.randn(64, 32)
    for layer in layers:
        h = layer(h).sigmoid()
    return layers, h.square().mean(), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(8))
    for layer in layers:
        nn.init.orthogonal_(layer.weight)
    h = gw.randn(64, 32)
    for layer in layers:
        h = layer(h).tanh()
    return layers, h.square().mean(), None
