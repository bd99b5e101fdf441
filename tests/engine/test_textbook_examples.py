"""Every example of docs/learn/textbook-examples.md, on Values and on tensors: exact numbers."""

import math

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk import Value


def tensor(number):
    return gw.tensor(number, dtype=gw.float64, requires_grad=True)


BOTH = pytest.mark.parametrize("make", [Value, tensor], ids=["Value", "Tensor"])


def number(thing):
    return thing.data if isinstance(thing, Value) else thing.item()


def gradients(root, *nodes):
    """d root / d each node, by backward() from the root."""
    for node in nodes:
        if not isinstance(node, Value):
            node.retain_grad()
    root.backward()
    return [node.grad if isinstance(node, Value) else node.grad.item() for node in nodes]


def edges(node):
    """The inputs of a node, one entry per edge."""
    return list(node.inputs if isinstance(node, Value) else node.grad_fn.inputs)


@BOTH
def test_sum_times_c(make):
    a, b, c = make(2.0), make(-3.0), make(10.0)
    e = a + b
    f = e * c
    assert (number(e), number(f)) == (-1.0, -10.0)
    assert gradients(f, f, e, c, a, b) == [1.0, 10.0, -1.0, 10.0, 10.0]


def test_local_derivative_on_the_edge_from_e_to_f():
    a, b, c = Value(2.0), Value(-3.0), Value(10.0)
    e = a + b
    f = e * c
    f.grad = 1.0
    f._backward()  # one visit: 1 × the local derivative arrives
    assert (e.grad, c.grad) == (10.0, -1.0)


@BOTH
def test_product_plus_c_times_f(make):
    a, b, c, f = make(2.0), make(-3.0), make(5.0), make(-2.0)
    e = a * b
    d = e + c
    loss = f * d
    assert (number(e), number(d), number(loss)) == (-6.0, -1.0, 2.0)
    assert gradients(loss, f, d, e, c, a, b) == [-1.0, -2.0, -2.0, -2.0, 6.0, -4.0]


def neuron(make, tanh):
    x1, w1, x2, w2 = make(2.0), make(-3.0), make(0.0), make(1.0)
    b = make(6.8813735870195432)
    x1w1, x2w2 = x1 * w1, x2 * w2
    total = x1w1 + x2w2
    n = total + b
    return (x1w1, x2w2, total, n, tanh(n)), (w1, x1, w2, x2, b)


@BOTH
def test_neuron(make):
    inner, leaves = neuron(make, gw.tanh)
    assert [number(v) for v in inner[:3]] == [-6.0, 0.0, -6.0]
    assert [round(number(v), 4) for v in inner[3:]] == [0.8814, 0.7071]
    *inner, o = inner
    found = gradients(o, *inner, *leaves)
    assert found == pytest.approx([0.5, 0.5, 0.5, 0.5, 1.0, -1.5, 0.0, 0.5, 0.5], abs=1e-12)


@BOTH
def test_tanh_as_one_op_and_taken_apart(make):
    def apart(x):
        power = gw.exp(2 * x)
        return (power - 1) / (power + 1)

    for x in (0.8813735870195432, -2.0, 0.0, 3.5):
        one, other = make(x), make(x)
        whole, parts = gw.tanh(one), apart(other)
        assert number(parts) == pytest.approx(number(whole), abs=1e-15)
        assert gradients(parts, other) == pytest.approx(gradients(whole, one), abs=1e-15)
    _, leaves = first = neuron(make, gw.tanh)
    _, others = second = neuron(make, apart)
    expected = gradients(first[0][-1], *leaves)
    assert gradients(second[0][-1], *others) == pytest.approx(expected, abs=1e-12)


@BOTH
def test_a_times_a(make):
    a = make(3.0)
    f = a * a
    assert number(f) == 9.0
    assert edges(f) == [a, a] if isinstance(a, Value) else all(i is a for i in edges(f))
    assert len(edges(f)) == 2
    assert gradients(f, a) == [6.0]


@BOTH
@pytest.mark.parametrize("x", [3.0, -0.5, 0.0, 1e300])
def test_a_plus_a(make, x):
    a = make(x)
    b = a + a
    assert len(edges(b)) == 2
    assert gradients(b, a) == [2.0]


@BOTH
def test_diamond(make):
    a = make(2.0)
    b = a + 1
    c = 3 * a
    d = b * c
    assert [number(v) for v in (b, c, d)] == [3.0, 6.0, 18.0]
    assert gradients(d, b, c, a) == [6.0, 3.0, 15.0]


@BOTH
def test_cube_plus_five_x(make):
    x = make(2.0)
    y = x**3 + 5 * x
    assert number(y) == 18.0
    assert gradients(y, x) == [17.0]


def test_cube_plus_five_x_prints_as_pytorch_does(capsys):
    x = gw.tensor([2.0], requires_grad=True)
    y = x**3 + 5 * x
    y.backward()
    print(x.grad)
    assert capsys.readouterr().out == "tensor([17.])\n"


@BOTH
def test_maximum(make):
    a, b = make(2.0), make(-3.0)
    winner = gw.maximum(a, b)
    assert number(winner) == 2.0
    assert gradients(winner, a, b) == [1.0, 0.0]
    a, b = make(2.0), make(2.0)
    assert gradients(gw.maximum(a, b), a, b) == [0.5, 0.5]


def test_dense_layer():
    random = np.random.default_rng(0)
    weight, bias = random.normal(size=(4, 3)), random.normal(size=(4, 1))
    a, incoming = random.normal(size=(3, 5)), random.normal(size=(4, 5))  # a batch of 5 columns
    w_, b_, a_ = (gw.tensor(x, dtype=gw.float64, requires_grad=True) for x in (weight, bias, a))
    z = w_ @ a_ + b_
    z.retain_grad()
    gw.sigmoid(z).backward(gw.from_numpy(incoming))
    out = 1 / (1 + np.exp(-(weight @ a + bias)))
    dz = incoming * out * (1 - out)
    np.testing.assert_allclose(z.grad.numpy(), dz, rtol=1e-13)
    np.testing.assert_allclose(a_.grad.numpy(), weight.T @ dz, rtol=1e-12)
    np.testing.assert_allclose(w_.grad.numpy(), dz @ a.T, rtol=1e-12)
    np.testing.assert_allclose(b_.grad.numpy(), dz.sum(axis=1, keepdims=True), rtol=1e-12)


def test_dense_layer_of_values():
    """The same formulas, one number at a time: db of a batch of two is a sum of two."""
    w, b, inputs, incoming = Value(0.7), Value(-0.2), [Value(1.5), Value(-0.4)], [2.0, -3.0]
    loss = sum((gw.sigmoid(w * a + b) * g for a, g in zip(inputs, incoming, strict=True)), Value(0))
    loss.backward()
    outs = [1 / (1 + math.exp(-(0.7 * a.data - 0.2))) for a in inputs]
    dz = [g * out * (1 - out) for g, out in zip(incoming, outs, strict=True)]
    assert b.grad == pytest.approx(sum(dz))
    assert w.grad == pytest.approx(sum(d * a.data for d, a in zip(dz, inputs, strict=True)))
    assert [a.grad for a in inputs] == pytest.approx([0.7 * d for d in dz])


def test_matrix_product():
    random = np.random.default_rng(1)
    x, w, dy = (random.normal(size=shape) for shape in ((2, 3), (3, 2), (2, 2)))
    x_, w_ = (gw.tensor(m, dtype=gw.float64, requires_grad=True) for m in (x, w))
    y = x_ @ w_
    assert y.shape == (2, 2)
    y.backward(gw.from_numpy(dy))
    assert (x_.grad.shape, w_.grad.shape) == ((2, 3), (3, 2))
    np.testing.assert_allclose(x_.grad.numpy(), dy @ w.T, rtol=1e-13)
    np.testing.assert_allclose(w_.grad.numpy(), x.T @ dy, rtol=1e-13)


def test_tied_weight():
    """One weight in two layers: its gradient is what two separate ones would get, added."""
    random = np.random.default_rng(2)
    x, weight = random.normal(size=(5, 3)), random.normal(size=(3, 3))

    def loss(lib, first, second):
        return (lib.tanh(lib.tanh(lib.from_numpy(x) @ first) @ second) ** 2).sum()

    tied, one, two = (gw.tensor(weight, dtype=gw.float64, requires_grad=True) for _ in range(3))
    loss(gw, tied, tied).backward()
    loss(gw, one, two).backward()
    np.testing.assert_allclose(tied.grad.numpy(), (one.grad + two.grad).numpy(), rtol=1e-12)
    theirs = torch.tensor(weight, requires_grad=True)
    loss(torch, theirs, theirs).backward()
    np.testing.assert_allclose(tied.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)


def test_tied_weight_of_values():
    w, x = Value(0.5), Value(2.0)
    (w * gw.tanh(w * x)).backward()
    slope = 1 - math.tanh(1.0) ** 2
    assert w.grad == pytest.approx(math.tanh(1.0) + 0.5 * slope * 2.0)  # outer use + inner use


# -- the facts below the table ---------------------------------------------------------------------


def test_fused_cross_entropy():
    logits = np.random.default_rng(3).normal(size=(4, 3))
    target = np.array([2, 0, 1, 1])
    given = gw.tensor(logits, dtype=gw.float64, requires_grad=True)
    gw.cross_entropy(given, gw.tensor(target)).backward()
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(given.grad.numpy(), (p - np.eye(3)[target]) / 4, rtol=1e-12)


@pytest.mark.parametrize("dtype", [gw.float32, gw.float64])
def test_fused_cross_entropy_is_stable(dtype):
    given = gw.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4]], dtype=dtype, requires_grad=True)
    loss = gw.cross_entropy(given, gw.tensor([1, 2]))
    loss.backward()
    assert loss.item() == pytest.approx((2e4 + math.log(2)) / 2)
    np.testing.assert_allclose(given.grad.numpy(), [[0.5, -0.5, 0], [0, 0.25, -0.25]], atol=1e-7)


def test_the_graph_that_exposes_breadth_first():
    x = Value(1.0)
    a = 2 * x
    b = 3 * a
    (a * (b + 1)).backward()
    assert x.grad == 26.0


def test_backward_twice_adds():
    x = Value(3.0)
    y = x * x + x
    y.backward()
    assert x.grad == 7.0
    y.backward()
    assert x.grad == 14.0
