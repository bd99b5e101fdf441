"""Units with equal weights and equal gradients are one unit."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "initialisation", "0"


def sick():
    """All hidden units start alike, and stay so."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32, bias=False), nn.Tanh(), nn.Linear(32, 1))
    for layer in (model[0], model[2]):
        nn.init.constant_(layer.weight, 0.1)
    x = gw.randn(64, 16)
    return model, (model(x) - x[:, :1]).square().mean(), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32, bias=False), nn.Tanh(), nn.Linear(32, 1))
    for layer in (model[0], model[2]):
        nn.init.xavier_normal_(layer.weight)
    x = gw.randn(64, 16)
    return model, (model(x) - x[:, :1]).square().mean(), None
