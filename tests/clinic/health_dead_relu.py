"""ReLU units that are always off have no gradient."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "dead", "0"


def sick():
    """A bias of -10 keeps every unit below zero."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    nn.init.constant_(model[0].bias, -10.0)
    x = gw.randn(64, 16)
    return model, model(x).square().mean(), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    nn.init.constant_(model[0].bias, 0.1)
    x = gw.randn(64, 16)
    return model, model(x).square().mean(), None
