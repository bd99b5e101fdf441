"""A product whose two gradients are swapped."""

import gradwalk as gw

NAMED, OP = "swapped", "Mul.backward"


def sick():
    """Each input gets its own value instead of the other's."""

    class Mul(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * x, g * y

    gw.manual_seed(0)
    inputs = [gw.rand(3, dtype=gw.float64, requires_grad=True) for _ in range(2)]
    return (lambda x, y: Mul.apply(x, y).tanh()), inputs


def healthy():
    """The same, but for one line."""

    class Mul(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x

    gw.manual_seed(0)
    inputs = [gw.rand(3, dtype=gw.float64, requires_grad=True) for _ in range(2)]
    return (lambda x, y: Mul.apply(x, y).tanh()), inputs
