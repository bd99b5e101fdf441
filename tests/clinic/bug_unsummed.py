"""A bias whose gradient is not summed over the batch."""

import gradwalk as gw

NAMED, OP = "not summed over a broadcast axis", "AddBias.backward"


def sick():
    """Backward returns only the first row of g."""

    class AddBias(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x, b):
            return x + b

        @staticmethod
        def backward(ctx, g):
            return None, g[0]

    gw.manual_seed(0)
    x = gw.rand(4, 3, dtype=gw.float64)
    return (lambda b: AddBias.apply(x, b).tanh()), gw.rand(3, dtype=gw.float64, requires_grad=True)


def healthy():
    """The same, but for one line."""

    class AddBias(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x, b):
            return x + b

        @staticmethod
        def backward(ctx, g):
            return None, g.sum(0)

    gw.manual_seed(0)
    x = gw.rand(4, 3, dtype=gw.float64)
    return (lambda b: AddBias.apply(x, b).tanh()), gw.rand(3, dtype=gw.float64, requires_grad=True)
