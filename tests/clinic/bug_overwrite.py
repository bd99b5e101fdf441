"""A _backward of a Value that assigns where it must add."""

import gradwalk as gw

NAMED, OP = "overwritten instead of accumulated", "'a'"


def sick():
    """= instead of +=."""

    def double(x):
        out = gw.Value(2 * x.data, (x,), "double")

        def push():
            x.grad = 2 * out.grad

        out._backward = push
        return out

    def func(a):
        a.label = "a"
        return double(a) + a * a

    return func, gw.Value(3.0)


def healthy():
    """The same, but for one line."""

    def double(x):
        out = gw.Value(2 * x.data, (x,), "double")

        def push():
            x.grad += 2 * out.grad

        out._backward = push
        return out

    def func(a):
        a.label = "a"
        return double(a) + a * a

    return func, gw.Value(3.0)
