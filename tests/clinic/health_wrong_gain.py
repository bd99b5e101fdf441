"""Weights that are too small make every layer's output smaller."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "initialisation", "4"


def sick():
    """Weights a tenth of what keeps the size of the activations."""
    gw.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.01)
        nn.init.zeros_(layer.bias)
    x = gw.randn(64, 64)
    for layer in layers[:-1]:
        x = layer(x).relu()
    return layers, layers[-1](x).square().mean(), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
    x = gw.randn(64, 64)
    for layer in layers[:-1]:
        x = layer(x).relu()
    return layers, layers[-1](x).square().mean(), None
