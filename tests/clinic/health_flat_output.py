"""A sigmoid at the end that is flat where it is wrong."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "saturated", "2"


def sick():
    """The squared error of outputs that are 0 or 1 already, half of them wrongly."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    nn.init.normal_(model[2].weight, std=6.0)
    x, y = gw.randn(64, 8), (gw.rand(64, 1) > 0.5).float()
    return model, (model(x).sigmoid() - y).square().mean(), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    nn.init.normal_(model[2].weight, std=0.1)
    x, y = gw.randn(64, 8), (gw.rand(64, 1) > 0.5).float()
    return model, (model(x).sigmoid() - y).square().mean(), None
