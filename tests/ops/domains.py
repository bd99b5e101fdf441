"""Where tests draw the operands of elementwise ops: intervals in which they are smooth."""

from __future__ import annotations

from gradwalk.ops.core.op import Op

Interval = tuple[float, float]
_STEP, _INSIDE, _POSITIVE, _QUADRANT = (0.2, 0.8), (-0.8, 0.8), (0.2, 4.0), ((0.3, 3.0), (0.3, 3.0))
# Op -> the interval of each of its operands, or one for all of them.
DOMAINS: dict[str, Interval | tuple[Interval, ...]] = {
    **dict.fromkeys(("floor", "ceil", "trunc", "frac", "clip"), _STEP),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), _INSIDE),
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log2", "log10"), _POSITIVE),
    **dict.fromkeys(("abs", "sign", "relu", "leaky_relu"), _POSITIVE),
    **dict.fromkeys(("reciprocal", "lgamma", "digamma", "polygamma"), (0.3, 4.0)),
    **dict.fromkeys(("atan2", "hypot", "copysign"), _QUADRANT),
    **dict.fromkeys(("div", "floor_divide"), ((-4.0, 4.0), (0.5, 4.0))),
    **dict.fromkeys(("div_floor", "div_trunc"), ((1.2, 1.6), (0.9, 1.0))),
    **dict.fromkeys(("remainder", "fmod"), ((0.6, 0.9), (1.0, 2.0))),
    "pow": ((0.3, 3.0), (-2.0, 3.0)),
    "power": (0.3, 3.0),
    "round": (0.1, 0.4),
    "log1p": (-0.5, 4.0),
    "tan": (-1.2, 1.2),
    "acosh": (1.2, 4.0),
    "xlogy": ((-2.0, 2.0), (0.3, 3.0)),
    "logit": (0.15, 0.85),
}


def domain_of(op: Op, width: float) -> tuple[Interval, ...]:
    """The interval of each operand; −width to width if the op is smooth everywhere."""
    domain = DOMAINS.get(op.name, (-width, width))
    return domain if isinstance(domain[0], tuple) else (domain,) * len(op.inputs)  # type: ignore[return-value]
