"""Without a normalisation every layer makes its outputs larger."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "initialisation", "4"


def sick():
    """Ten layers whose outputs grow, with nothing to bring them back."""
    gw.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(10))
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.5)
    x = gw.randn(64, 64)
    for layer in layers:
        x = layer(x).relu()
    return layers, x.mean(), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(10))
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.5)
    x = gw.randn(64, 64)
    for layer in layers:
        x = nn.functional.layer_norm(layer(x), (64,)).relu()
    return layers, x.mean(), None
