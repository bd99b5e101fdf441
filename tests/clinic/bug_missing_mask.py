"""A relu whose backward lets everything through."""

import gradwalk as gw

NAMED, OP = "too much", "Relu.backward"


def sick():
    """The mask is missing."""

    class Relu(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.relu()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * gw.ones_like(x)

    gw.manual_seed(0)
    x = gw.randn(6, dtype=gw.float64, requires_grad=True)
    return (lambda x: Relu.apply(x * 2)), x


def healthy():
    """The same, but for one line."""

    class Relu(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.relu()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x > 0)

    gw.manual_seed(0)
    x = gw.randn(6, dtype=gw.float64, requires_grad=True)
    return (lambda x: Relu.apply(x * 2)), x
