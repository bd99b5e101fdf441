"""A matrix product whose backward forgets a transpose."""

import gradwalk as gw

NAMED, OP = "transposed", "MatMul.backward"


def sick():
    """X·G is not G·Xᵀ."""

    class MatMul(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w)
            return w @ x

        @staticmethod
        def backward(ctx, g):
            (w,) = ctx.saved_tensors
            return w @ g, None

    gw.manual_seed(0)
    w = gw.rand(3, 3, dtype=gw.float64)
    return (lambda x: MatMul.apply(x, w)), gw.rand(3, 3, dtype=gw.float64, requires_grad=True)


def healthy():
    """The same, but for one line."""

    class MatMul(gw.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w)
            return w @ x

        @staticmethod
        def backward(ctx, g):
            (w,) = ctx.saved_tensors
            return w.mT @ g, None

    gw.manual_seed(0)
    w = gw.rand(3, 3, dtype=gw.float64)
    return (lambda x: MatMul.apply(x, w)), gw.rand(3, 3, dtype=gw.float64, requires_grad=True)
