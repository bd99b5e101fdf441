"""What the parameters of an op's forward say: its inputs, its attributes and their defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class OpError(TypeError):
    """An op was defined or called in a way that cannot work."""


class ForeignOperand(TypeError):
    """An operand that no tensor computes with; its own class may have the reflected operator."""


class OperandError(ValueError, RuntimeError):
    """Operands do not fit the op. PyTorch's error for that is a RuntimeError, NumPy's a ValueError:
    programs catch either."""


class UnknownShapeError(OpError):
    """The shape of a result depends on the numbers, not only on the shapes, of the operands."""


def words(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Names from a list, or from one string with spaces."""
    return tuple(names.split() if isinstance(names, str) else names or ())


def signature_of(
    name: str, forward: Callable[..., Any]
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, Any]]:
    """Input names, attribute names, attribute defaults.

    Positional parameters of the forward are data, keyword-only ones attributes.
    """
    if isinstance(forward, np.ufunc):
        return tuple("xyz"[: forward.nin]), (), {}
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        raise OpError(
            f"op '{name}': the parameters of {forward!r} cannot be read; wrap it in a lambda, "
            "with its inputs as positional and its attributes as keyword-only parameters."
        ) from None
    inputs = []
    attributes = []
    defaults = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            inputs.append("*" + parameter.name)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            attributes.append(parameter.name)
            if parameter.default is not parameter.empty:
                defaults[parameter.name] = parameter.default
        elif parameter.kind is parameter.VAR_KEYWORD:
            raise OpError(f"op '{name}': forward must name its attributes instead of **keywords.")
        else:
            inputs.append(parameter.name)
    return tuple(inputs), tuple(attributes), defaults
