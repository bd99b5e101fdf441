"""Numbers and local derivatives of scalar graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op


def number(value: float) -> str:
    """A number in at most four decimals, with a real minus sign.

    Small numbers have four significant digits, so that small gradients do not read as zero.

    >>> number(-1.5), number(0.70710678), number(0.00061234), number(-2.5e-7)
    ('−1.5', '0.7071', '0.0006123', '−2.5e−07')
    """
    size = abs(value)
    if 0 < size < 0.01 or size >= 1e6:
        text = f"{value:.4g}"
    else:
        text = f"{value:.4f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")


def slope(
    op: Op, position: int, operands: Sequence[float], out: float, attrs: dict[str, Any]
) -> float:
    """The local derivative of an op on numbers, by IEEE rules: 1/0 is inf.

    >>> from gradwalk.ops.elementwise.arithmetic import div
    >>> slope(div, 0, [1.0, 0.0], float("inf"), {})
    inf
    """
    rule = op.rule(position)
    if rule is None:
        return 0.0
    names = dict(zip(op.inputs, operands, strict=True))
    shapes = {f"{name}_shape": () for name in op.inputs}
    try:  # Python's numbers are faster, but raise where IEEE arithmetic has a result
        return float(rule.local({**names, **shapes, "out": out, **attrs}, 1.0))
    except (ArithmeticError, ValueError, TypeError):
        doubles = {name: np.float64(x) for name, x in names.items()}
        env = {**doubles, **shapes, "out": np.float64(out), **attrs}
        with np.errstate(all="ignore"):
            return float(rule.local(env, np.float64(1.0)))
