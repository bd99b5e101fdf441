"""An LSTM, one op for the whole sequence, whose forget gate is closed."""

import gradwalk as gw
from gradwalk import nn

KIND, LAYER = "vanishing", "lstm"


def sick():
    """The forget gate keeps a fiftieth of the state; the loss reads the last of 60 outputs."""
    gw.manual_seed(0)
    model = nn.ModuleDict({"lstm": nn.LSTM(8, 16), "head": nn.Linear(16, 3)})
    nn.init.constant_(model["lstm"].bias_hh_l0[16:32], -4.0)
    x, y = gw.randn(60, 24, 8), gw.randint(0, 3, (24,))
    out, _ = model["lstm"](x)
    return model, nn.functional.cross_entropy(model["head"](out[-1]), y), None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.ModuleDict({"lstm": nn.LSTM(8, 16), "head": nn.Linear(16, 3)})
    nn.init.constant_(model["lstm"].bias_hh_l0[16:32], 4.0)
    x, y = gw.randn(60, 24, 8), gw.randint(0, 3, (24,))
    out, _ = model["lstm"](x)
    return model, nn.functional.cross_entropy(model["head"](out[-1]), y), None
