"""no_grad, enable_grad, inference_mode, set_grad_enabled: blocks, decorators, statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import gradwalk as gw
from tests.engine.both import assert_same, leaf


def modes_as_blocks(m: Any) -> Any:
    x, found = leaf(m), []
    for mode in (m.no_grad, m.inference_mode, lambda: m.set_grad_enabled(False)):
        with mode():
            found += [m.is_grad_enabled(), (x * 2).requires_grad, x.requires_grad]
            with m.enable_grad():
                found.append(m.is_grad_enabled())
            with m.set_grad_enabled(True):
                found.append(m.is_grad_enabled())
            found.append(m.is_grad_enabled())
        found.append(m.is_grad_enabled())
    with m.inference_mode(False), m.inference_mode(mode=False):
        found.append((x * 2).requires_grad)
    return found


def modes_as_decorators(m: Any) -> Any:
    found = []
    for mode in (
        m.no_grad, m.no_grad(), m.inference_mode(), m.inference_mode, m.inference_mode(mode=False),
        m.enable_grad(), m.enable_grad, m.set_grad_enabled(False), m.set_grad_enabled(True),
    ):  # fmt: skip

        @mode
        def inside(x: Any, *, factor: float = 2.0) -> Any:
            """Documented."""
            return (x * factor).requires_grad

        found += [m.is_grad_enabled(), inside(leaf(m), factor=3.0), m.is_grad_enabled()]
        with m.no_grad():
            found += [inside(leaf(m)), m.is_grad_enabled()]
        found += [inside.__name__, inside.__doc__]
    return found


def mode_survives_an_error(m: Any) -> Any:
    try:
        with m.no_grad():
            raise KeyError
    except KeyError:
        pass
    return m.is_grad_enabled()


def mode_as_a_statement(m: Any) -> Any:
    m.set_grad_enabled(False)
    inside = m.is_grad_enabled()
    m.set_grad_enabled(True)
    return [inside, m.is_grad_enabled()]


def backward_inside_no_grad(m: Any) -> Any:
    x = leaf(m)
    y = (x * x).sum()
    with m.no_grad():
        y.backward()
    return x.grad


def graph_created_inside_no_grad(m: Any) -> Any:
    x = leaf(m)
    y = (x**3).sum()
    with m.no_grad():
        (g,) = m.autograd.grad(y, x, create_graph=True)
    return [g, m.autograd.grad(g.sum(), x)]


@pytest.mark.parametrize(
    "program",
    [
        modes_as_blocks, modes_as_decorators, mode_survives_an_error, mode_as_a_statement,
        backward_inside_no_grad, graph_created_inside_no_grad,
    ],
    ids=lambda p: p.__name__,
)  # fmt: skip
def test_as_in_pytorch(program: Callable[[Any], Any]) -> None:
    assert_same(program)


def test_one_mode_may_be_entered_twice() -> None:
    """PyTorch forgets here that gradients were on before."""
    mode = gw.no_grad()
    with mode:
        with mode:
            assert not gw.is_grad_enabled()
        assert not gw.is_grad_enabled()
    assert gw.is_grad_enabled()


def test_inference_mode_is_told_from_no_grad() -> None:
    for library in (gw, torch):
        found = [library.is_inference_mode_enabled()]
        with library.no_grad():
            found.append(library.is_inference_mode_enabled())
            with library.inference_mode():
                found.append(library.is_inference_mode_enabled())
                with library.enable_grad():
                    found.append(library.is_inference_mode_enabled())
                with library.inference_mode(False):
                    found.append(library.is_inference_mode_enabled())
        decorated = library.inference_mode()(library.is_inference_mode_enabled)
        assert [*found, decorated()] == [False, False, True, True, False, True]
        assert library.autograd.grad_mode.no_grad is library.no_grad
