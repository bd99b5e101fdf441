"""Gates inside an LSTM that are all open or all closed."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "saturated", "lstm"


def sick():
    """An input in the hundreds."""
    gw.manual_seed(0)
    model = nn.ModuleDict({"lstm": nn.LSTM(8, 16), "head": nn.Linear(16, 3)})
    x = 300 * gw.randn(12, 24, 8)
    y = gw.randint(0, 3, (24,))
    with gw.record() as trace:
        nn.functional.cross_entropy(model["head"](model["lstm"](x)[0][-1]), y).backward()
    return model, trace, None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.ModuleDict({"lstm": nn.LSTM(8, 16), "head": nn.Linear(16, 3)})
    x = 1.0 * gw.randn(12, 24, 8)
    y = gw.randint(0, 3, (24,))
    with gw.record() as trace:
        nn.functional.cross_entropy(model["head"](model["lstm"](x)[0][-1]), y).backward()
    return model, trace, None
