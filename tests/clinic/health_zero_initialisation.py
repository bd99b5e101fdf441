"""With all weights 0, no layer passes a gradient on."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "initialisation", "0"


def sick():
    """All weights start at 0."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    x = gw.randn(64, 16)
    loss = nn.functional.cross_entropy(model(x), gw.randint(0, 4, (64,)))
    return model, loss, None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    x = gw.randn(64, 16)
    loss = nn.functional.cross_entropy(model(x), gw.randint(0, 4, (64,)))
    return model, loss, None
