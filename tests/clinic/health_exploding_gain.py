"""Weights that are too large make every gradient larger on its way down."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "exploding", "0"


def sick():
    """Weights ten times too large."""
    gw.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))
    for layer in layers:
        nn.init.xavier_normal_(layer.weight, gain=10.0)
    x = gw.randn(64, 64)
    for layer in layers[:-1]:
        x = layer(x).relu()
    return layers, layers[-1](x).mean(), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))
    for layer in layers:
        nn.init.xavier_normal_(layer.weight, gain=1.0)
    x = gw.randn(64, 64)
    for layer in layers[:-1]:
        x = layer(x).relu()
    return layers, layers[-1](x).mean(), None
