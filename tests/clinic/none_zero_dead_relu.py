"""A relu that is flat for all its inputs."""

import gradwalk as gw
from gradwalk import nn
from gradwalk.inspect import record

VERDICT, KIND, OP, LAYER = "zero", "dead relu", "relu", "1"
LINE = "model(x).square().mean().backward()"


def sick():
    """A bias of -10 keeps every unit below zero."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    nn.init.constant_(model[0].bias, -10.0)
    x = gw.randn(8, 3)
    with record() as trace:
        model(x).square().mean().backward()
    return model[0].weight, trace


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    nn.init.constant_(model[0].bias, 1.0)
    x = gw.randn(8, 3)
    with record() as trace:
        model(x).square().mean().backward()
    return model[0].weight, trace
