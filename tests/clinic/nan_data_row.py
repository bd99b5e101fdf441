"""One row of the data is NaN."""

import math

import gradwalk as gw
from gradwalk import nn

KIND, OP, LAYER = "data", "", "Linear"
LINE = "x = gw.tensor(rows)"
INDEX = (17, 1)


def sick():
    """Row 17 was never measured."""
    gw.manual_seed(0)
    rows = [[0.1 * i, 1.0 - 0.1 * i, 1.0] for i in range(20)]
    rows[17][1] = math.nan
    x = gw.tensor(rows)
    model = nn.Linear(3, 1)

    def step():
        model(x).square().mean().backward()

    return step


def healthy():
    """The same, but for one line."""
    gw.manual_seed(0)
    rows = [[0.1 * i, 1.0 - 0.1 * i, 1.0] for i in range(20)]
    rows[17][1] = 0.5
    x = gw.tensor(rows)
    model = nn.Linear(3, 1)

    def step():
        model(x).square().mean().backward()

    return step
