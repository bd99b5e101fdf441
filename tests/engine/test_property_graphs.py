"""Random graphs: our gradients are PyTorch's, and those of finite differences."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gradwalk as gw
from gradwalk import Value
from gradwalk.inspect.mistakes.gradcheck import gradcheck, gradgradcheck
from tests.engine.random_graphs import EVERY_OP, programs

pytestmark = pytest.mark.slow  # thorough rather than quick: left out of `make quick`


def torch_leaves(program):
    return [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in program.leaves]


def our_leaves(program):
    return [gw.tensor(x, dtype=gw.float64, requires_grad=True) for x in program.leaves]


def weights_for(shape):
    """Something to weigh the elements of a result with, so that none is like another."""
    return np.asarray(1 + np.arange(np.prod(shape, dtype=int)).reshape(shape) / 7)


def arrays(tensors):
    return [None if t is None else t.detach().numpy() for t in tensors]


def assert_same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


# -- numbers ---------------------------------------------------------------------------------------


@given(programs(tensors=False, kinks=True, longest=15))
def test_values_have_the_gradients_of_torch_at_every_node(program):
    ours = program.nodes(gw, [Value(x) for x in program.leaves])
    theirs = program.nodes(torch, torch_leaves(program))
    for node in theirs:
        if node.requires_grad:
            node.retain_grad()
    ours[-1].backward()
    theirs[-1].backward()
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.data, other.item(), rtol=1e-9, atol=1e-12)
        expected = 0.0 if other.grad is None else other.grad.item()
        np.testing.assert_allclose(one.grad, expected, rtol=1e-8, atol=1e-10)


@given(programs(tensors=False, longest=15))
def test_values_have_the_gradients_of_finite_differences(program):
    assert gradcheck(lambda *leaves: program(gw, leaves), [Value(x) for x in program.leaves])


@given(programs(tensors=False, kinks=True, longest=15))
def test_values_and_zero_dimensional_tensors_agree(program):
    values, tensors = [Value(x) for x in program.leaves], our_leaves(program)
    program(gw, values).backward()
    program(gw, tensors).backward()
    for one, other in zip(values, tensors, strict=True):
        expected = 0.0 if other.grad is None else other.grad.item()
        np.testing.assert_allclose(one.grad, expected, rtol=1e-9, atol=1e-12)


# -- tensors ---------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(programs(tensors=True, kinks=True))
def test_tensors_have_the_values_and_gradients_of_torch(program):
    ours, theirs = our_leaves(program), torch_leaves(program)
    out, expected = program(gw, ours), program(torch, theirs)
    assert_same(arrays([out]), arrays([expected]))
    assert out.requires_grad == expected.requires_grad
    seed = weights_for(out.shape)
    out.backward(gw.from_numpy(seed))
    expected.backward(torch.from_numpy(seed))
    assert_same(arrays([x.grad for x in ours]), arrays([x.grad for x in theirs]))


@settings(max_examples=200)
@given(programs(tensors=True), st.booleans())
def test_tensors_have_the_second_derivatives_of_torch(program, retain):
    found = []
    for lib, leaves in ((gw, our_leaves(program)), (torch, torch_leaves(program))):
        out = program(lib, leaves)
        seed = lib.from_numpy(weights_for(out.shape))
        first = lib.autograd.grad(out, leaves, seed, create_graph=True, allow_unused=True)
        total = sum(
            (g * lib.from_numpy(weights_for(g.shape))).sum() * g.mean()
            for g in first
            if g is not None
        )
        second = [None] * len(leaves)
        if total.requires_grad:
            second = lib.autograd.grad(total, leaves, allow_unused=True, retain_graph=retain)
        # Where nothing depends on a leaf, None and zeros are the same answer.
        zeros = [np.zeros(leaf.shape) for leaf in leaves]
        for kind in (first, second):
            found.append([z if a is None else a for a, z in zip(arrays(kind), zeros, strict=True)])
    ours, theirs = found[:2], found[2:]
    assert_same(ours[0], theirs[0])
    for one, other in zip(ours[1], theirs[1], strict=True):
        size = max(1.0, float(np.abs(other).max(initial=0)))  # terms cancel: errors are theirs
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9 * size)


@given(programs(tensors=True, longest=7))
def test_tensors_have_the_gradients_of_finite_differences(program):
    assert gradcheck(lambda *leaves: program(gw, leaves).sum(), our_leaves(program), rtol=1e-4)


@settings(max_examples=30)
@given(programs(tensors=True, longest=4))
def test_tensors_have_the_second_derivatives_of_finite_differences(program):
    assert gradgradcheck(lambda *leaves: program(gw, leaves).sum(), our_leaves(program))


@given(programs(tensors=True, kinks=True), st.integers(1, 3))
def test_backward_again_adds_the_same_again(program, times):
    leaves = our_leaves(program)
    out = program(gw, leaves).sum()
    out.backward(retain_graph=True)
    once = arrays([x.grad.clone() if x.grad is not None else None for x in leaves])
    for _ in range(times):
        out.backward(retain_graph=True)
    for x, g in zip(leaves, once, strict=True):
        if g is not None:
            np.testing.assert_allclose(x.grad.numpy(), g * (times + 1), rtol=1e-12)


@given(programs(tensors=True, kinks=True))
def test_a_gradient_with_a_graph_is_the_gradient_without(program):
    """The rules read as arrays and as a graph give the same numbers."""
    leaves = our_leaves(program)
    out = program(gw, leaves).sum()
    plain = gw.autograd.grad(out, leaves, retain_graph=True, allow_unused=True)
    graph = gw.autograd.grad(out, leaves, create_graph=True, allow_unused=True)
    assert_same(arrays(plain), arrays(graph))
    assert not any(g is not None and g.requires_grad for g in plain)


def test_the_generator_reaches_what_it_is_for():
    """Shared nodes, double edges, broadcasting, and every op, all come up."""
    seen, double, shared, broadcast = set(), False, False, False

    @settings(max_examples=800, derandomize=True, database=None)
    @given(programs(tensors=True, kinks=True))
    def look(program):
        nonlocal double, shared, broadcast
        nodes = program.nodes(torch, torch_leaves(program))
        used = [i for _, operands, _ in program.steps for i in set(operands)]
        shared = shared or len(used) > len(set(used))
        for name, operands, _ in program.steps:
            seen.add(name)
            double = double or (len(operands) == 2 and operands[0] == operands[1])
            broadcast = broadcast or (
                name == "mul" and nodes[operands[0]].shape != nodes[operands[1]].shape
            )

    look()
    assert set(EVERY_OP) <= seen, set(EVERY_OP) - seen
    assert double and shared and broadcast
