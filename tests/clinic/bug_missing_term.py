"""A softmax whose backward forgets the normaliser."""

import gradwalk as gw

NAMED, OP = "a term is missing", "Softmax.backward"


def sick():
    """Treated as if it were elementwise."""

    class Softmax(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            p = x.softmax(1)
            ctx.save_for_backward(p)
            return p

        @staticmethod
        def backward(ctx, g):
            (p,) = ctx.saved_tensors
            return g * p

    gw.manual_seed(0)
    return (lambda x: Softmax.apply(x * 2)), gw.rand(2, 4, dtype=gw.float64, requires_grad=True)


def healthy():
    """The same, but for one line."""

    class Softmax(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            p = x.softmax(1)
            ctx.save_for_backward(p)
            return p

        @staticmethod
        def backward(ctx, g):
            (p,) = ctx.saved_tensors
            return p * (g - (g * p).sum(1, keepdim=True))

    gw.manual_seed(0)
    return (lambda x: Softmax.apply(x * 2)), gw.rand(2, 4, dtype=gw.float64, requires_grad=True)
