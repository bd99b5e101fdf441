"""Function transforms under the names of `torch.func`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from gradwalk.autograd.jacobians import hessian, jacfwd, jacrev
from gradwalk.engine.transforms import (
    Argnums,
    Function,
    grad,
    jvp,
    linearize,
    value_and_grad,
    vjp,
)
from gradwalk.nn.functional_call import (
    combine_state_for_ensemble,
    functional_call,
    make_functional,
    make_functional_with_buffers,
    replace_all_batch_norm_modules_,
    stack_module_state,
)

if TYPE_CHECKING:
    from gradwalk.batching.vmap import vmap

__all__ = [
    "combine_state_for_ensemble", "functional_call", "grad", "grad_and_value", "hessian", "jacfwd",
    "jacrev", "jvp", "linearize", "make_functional", "make_functional_with_buffers",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient first and then the value.

    >>> import gradwalk as gw
    >>> gw.func.grad_and_value(lambda x: x**2)(gw.tensor(3.0))
    (tensor(6.), tensor(9.))
    """
    both = value_and_grad(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient_first(*args: Any, **keywords: Any) -> Any:
        value, gradient = both(*args, **keywords)
        return gradient, value

    return gradient_first


def __getattr__(name: str) -> Any:
    if name != "vmap":
        raise AttributeError(f"module 'gradwalk.func' has no attribute '{name}'")
    from gradwalk.batching.vmap import vmap  # imported when it is asked for, like the compiler

    return vmap
