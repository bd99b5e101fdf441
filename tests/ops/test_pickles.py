"""Functions and ops are pickled and copied by name, as functions are."""

from __future__ import annotations

import copy
import pickle
import types

import pytest

import gradwalk as gw
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.public import registered
from tests.batches import check_each


def test_public_functions_are_pickled_by_name() -> None:
    names = [name for name in dir(gw) if not name.startswith("_")]
    offered = [getattr(gw, name) for name in names]
    functions = [each for each in offered if isinstance(each, types.FunctionType | Op)]
    functions += [each.call for each in registered if each.namespaces]

    def check(function: object) -> None:
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is copy.copy(function) is function

    check_each(functions, check)


def test_a_module_with_a_function_is_copied_and_pickled() -> None:
    net = gw.nn.Linear(2, 2)
    net.act = gw.tanh
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.act is gw.tanh
        assert other.weight.dtype is gw.float32


def test_an_op_of_ones_own_is_refused_by_name() -> None:
    double = gw.elementwise("doubled for a pickle", lambda x: 2 * x, partials=[lambda: 2])
    assert copy.deepcopy([double])[0] is double
    with pytest.raises(pickle.PicklingError, match="doubled for a pickle"):
        pickle.dumps(double)


def test_a_pickled_result_is_a_leaf() -> None:
    x = gw.ones(2, requires_grad=True) * 2
    again = pickle.loads(pickle.dumps(x))
    assert again.is_leaf
    assert again.requires_grad
    assert again.dtype is gw.float32
    assert again.tolist() == [2.0, 2.0]
