"""A softmax of large scores picks one and has no slope."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "saturated", "query"


def sick():
    """The scores are multiplied by the root of the width, not divided."""
    gw.manual_seed(0)
    names = ("query", "key", "value", "out")
    model = nn.ModuleDict({name: nn.Linear(64, 64) for name in names})
    for layer in model.values():
        nn.init.orthogonal_(layer.weight)
    x = gw.randn(4, 16, 64)
    scores = model["query"](x) @ model["key"](x).mT
    weights = (scores * 8).softmax(-1)
    mixed = model["out"](weights @ model["value"](x))
    return model, mixed.square().mean(), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    names = ("query", "key", "value", "out")
    model = nn.ModuleDict({name: nn.Linear(64, 64) for name in names})
    for layer in model.values():
        nn.init.orthogonal_(layer.weight)
    x = gw.randn(4, 16, 64)
    scores = model["query"](x) @ model["key"](x).mT
    weights = (scores / 8).softmax(-1)
    mixed = model["out"](weights @ model["value"](x))
    return model, mixed.square().mean(), None
