"""What every printer of scalar graphs needs: names, numbers, local derivatives."""

from __future__ import annotations

from typing import Any


def names_of(order: list[Any]) -> dict[Any, str]:
    """Labels where there are some, else v1, v2, ... in order."""
    unnamed = (f"v{i}" for i in range(1, len(order) + 1))
    return {v: v.label or next(unnamed) for v in order}


def number(value: float) -> str:
    """A number in at most four decimals, with a real minus sign.

    >>> number(-1.5), number(0.70710678)
    ('−1.5', '0.7071')
    """
    text = f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.4g}"
    return "0" if text == "-0" else text.replace("-", "−")


def local_derivative(v: Any, position: int) -> float:
    """d v / d (its input at `position`), everything else held fixed."""
    rule = v.op.rule(position)
    if rule is None:
        return 0.0
    env = {name: i.data for name, i in zip(v.op.inputs, v.inputs, strict=True)}
    env |= {"out": v.data, **v.attrs}
    return float(rule.local(env, 1.0))
