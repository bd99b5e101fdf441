"""An input that was not scaled makes tanh flat."""

import gradwalk as gw
from gradwalk import nn
from gradwalk.inspect import record

KIND, LAYER = "saturated", "0"


def sick():
    """The input has pixels from 0 to 255."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 4))
    pixels = gw.randint(0, 256, (128, 64))
    x = pixels.float()
    with record() as trace:
        nn.functional.cross_entropy(model(x), gw.randint(0, 4, (128,))).backward()
    return model, trace, None


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 4))
    pixels = gw.randint(0, 256, (128, 64))
    x = pixels.float() / 255
    with record() as trace:
        nn.functional.cross_entropy(model(x), gw.randint(0, 4, (128,))).backward()
    return model, trace, None
