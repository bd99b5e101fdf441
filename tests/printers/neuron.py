"""The classic neuron, which several tests draw."""

from gradwalk import Value


def neuron() -> Value:
    """o = tanh(x1·w1 + x2·w2 + b), at the usual numbers."""
    x1, w1 = Value(2.0, label="x1"), Value(-3.0, label="w1")
    x2, w2 = Value(0.0, label="x2"), Value(1.0, label="w2")
    b = Value(6.8813735870195432, label="b")
    first, second = x1 * w1, x2 * w2
    total = first + second
    n = total + b
    o = n.tanh()
    first.label, second.label, total.label = "x1w1", "x2w2", "sum"
    n.label, o.label = "n", "o"
    return o
