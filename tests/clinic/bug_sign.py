"""A backward with the wrong sign."""

import gradwalk as gw

NAMED, OP = "wrong sign", "Tanh.backward"


def sick():
    """The minus does not belong."""

    class Tanh(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.tanh()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return -g * (1 - x.tanh() ** 2)

    gw.manual_seed(0)
    return (lambda x: Tanh.apply(x * 2)), gw.rand(3, dtype=gw.float64, requires_grad=True)


def healthy():
    """The same, but for one line."""

    class Tanh(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.tanh()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (1 - x.tanh() ** 2)

    gw.manual_seed(0)
    return (lambda x: Tanh.apply(x * 2)), gw.rand(3, dtype=gw.float64, requires_grad=True)
