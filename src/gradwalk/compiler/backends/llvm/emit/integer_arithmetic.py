"""Division and powers of integers, with NumPy's answers where C has none.

By zero everything is 0. The smallest number by −1 is itself, with remainder 0: its negative is no
number of the dtype.
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.emit.vector_values import Value


def _is_signed(x: Value) -> bool:
    return x.kind.dtype.kind == "i"


def _safe(x: Value, y: Value) -> tuple[Value, Value]:
    """Where y is 0, and a y that can be divided by: 1 there, and where the quotient overflows."""
    zero = y.compare("eq", 0)
    unsafe = zero
    if _is_signed(x):
        smallest = x.compare("eq", -(1 << (8 * x.kind.dtype.itemsize - 1)))
        unsafe = zero | (smallest & y.compare("eq", -1))
    return zero, unsafe.choose(y.constant(1), y)


def divide(x: Value, y: Value) -> Value:
    """The quotient rounded towards 0."""
    zero, divisor = _safe(x, y)
    quotient = x.instruction("sdiv" if _is_signed(x) else "udiv", divisor)
    return zero.choose(x.constant(0), quotient)


def fmod(x: Value, y: Value) -> Value:
    """What is left, with the sign of x."""
    zero, divisor = _safe(x, y)
    left = x.instruction("srem" if _is_signed(x) else "urem", divisor)
    return zero.choose(x.constant(0), left)


def floor_divide(x: Value, y: Value) -> Value:
    """The quotient rounded down."""
    if not _is_signed(x):
        return divide(x, y)
    quotient = divide(x, y)
    return _is_mixed(fmod(x, y), y).choose(quotient - 1, quotient)


def remainder(x: Value, y: Value) -> Value:
    """What is left, with the sign of y."""
    left = fmod(x, y)
    return _is_mixed(left, y).choose(left + y, left) if _is_signed(x) else left


def _is_mixed(left: Value, y: Value) -> Value:
    """Whether something is left, with another sign than that of y."""
    return left.compare("ne", 0) & ((left ^ y) < 0)


def pow(x: Value, y: Value) -> Value:
    """xʸ by repeated squaring; x⁻ⁿ is 0, but ±1 where x is 1 or −1."""
    function, kind = x.function, x.kind
    negative = y < 0
    start = [(kind.text, v.text) for v in (x.constant(1), x, negative.choose(y.constant(0), y))]
    bits = str(8 * kind.dtype.itemsize)
    with function.loop("0", bits, carried=start, at_least_once=True) as loop:
        out, square, exponent = (Value(function, kind, text) for text in loop.carried)
        odd = (exponent & 1).compare("ne", 0)
        out = odd.choose(out * square, out)
        loop.carry(out.text, (square * square).text, exponent.unsigned_shift(1).text)
    out = Value(function, kind, loop.results[0])
    if not _is_signed(x):
        return out
    odd = (y & 1).compare("ne", 0)
    inverse = x.compare("eq", -1).choose(odd.choose(x, x.constant(1)), x.constant(0))
    inverse = x.compare("eq", 1).choose(x, inverse)
    return negative.choose(inverse, out)
