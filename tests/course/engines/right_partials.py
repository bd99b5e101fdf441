"""Right: partials kept beside the inputs. wrong.py breaks it in one place at a time."""

import math


class Value:
    def __init__(self, data, inputs=(), partials=()):
        self.data = data
        self.grad = 0.0
        self.inputs = inputs
        self.partials = partials

    def __add__(self, other):
        other = lift(other)
        return Value(self.data + other.data, (self, other), (1.0, 1.0))

    def __sub__(self, other):
        other = lift(other)
        return Value(self.data - other.data, (self, other), (1.0, -1.0))

    def __mul__(self, other):
        other = lift(other)
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    def __truediv__(self, other):
        other = lift(other)
        out = self.data / other.data
        return Value(out, (self, other), (1 / other.data, -out / other.data))

    def __pow__(self, n):
        return Value(self.data**n, (self,), (n * self.data ** (n - 1),))

    def __neg__(self):
        return Value(-self.data, (self,), (-1.0,))

    def exp(self):
        out = math.exp(self.data)
        return Value(out, (self,), (out,))

    def tanh(self):
        out = math.tanh(self.data)
        return Value(out, (self,), (1 - out * out,))

    def relu(self):
        return Value(max(0.0, self.data), (self,), (1.0 if self.data > 0 else 0.0,))

    def __radd__(self, other):
        return lift(other) + self

    def __rsub__(self, other):
        return lift(other) - self

    def __rmul__(self, other):
        return lift(other) * self

    def __rtruediv__(self, other):
        return lift(other) / self

    def backward(self):
        order = inputs_first(self)
        for v in order:
            if v.inputs:
                v.grad = 0.0
        self.grad = 1.0
        for v in reversed(order):
            for i, partial in zip(v.inputs, v.partials):
                i.grad += v.grad * partial


def lift(x):
    return x if isinstance(x, Value) else Value(x)


def inputs_first(root):
    order, seen = [], set()
    stack = [(root, False)]
    while stack:
        v, inputs_done = stack.pop()
        if inputs_done:
            order.append(v)
        elif v not in seen:
            seen.add(v)
            stack.append((v, True))
            stack.extend((i, False) for i in v.inputs)
    return order
