"""Functions beyond arithmetic, written as arithmetic on vectors: fused polynomials, no tables.

How each is computed, in float32:

    own polynomial     exp exp2 expm1 sigmoid tanh log log2 log10 log1p sin cos erf ndtr
    through float64    sinh cosh asinh acosh atanh tan asin acos atan atan2 erfc pow hypot erfinv
                       digamma polygamma
    C library          lgamma (in float64); sin, cos and tan of vectors with |x| > 100,000

and in float64:

    own polynomial     exp exp2 expm1 sigmoid tanh log log1p erfinv digamma polygamma
                       sin and cos of normal random numbers, whose angles are below 2π
    C library          all others, one call per lane

Zeros keep their sign, subnormal numbers are not flushed, and NaN and infinities come out as NumPy
has them. Below are the largest errors found, in units in the last place, of float32 and float64,
rounded up. Arguments were, in float32, one in 32 of all bit patterns, and for the own polynomials
all numbers of ordinary size; in float64 the 30,000 of
tests/compiler/backends/llvm/test_functions.py. That test fails where an error is exceeded.
"""

ERRORS: dict[str, tuple[float, float]] = {
    "exp": (0.9, 0.9),
    "exp2": (0.9, 0.9),
    "expm1": (1.5, 1.8),
    "sigmoid": (2.0, 2.0),
    "tanh": (1.6, 1.4),
    "sinh": (0.51, 2.0),
    "cosh": (0.51, 2.0),
    "log": (1.0, 0.9),
    "log2": (1.6, 1.0),
    "log10": (1.7, 2.0),
    "log1p": (1.6, 1.5),
    "asinh": (0.51, 2.0),
    "acosh": (0.51, 2.0),
    "atanh": (0.51, 2.0),
    "sin": (1.6, 1.0),
    "cos": (1.6, 1.0),
    "tan": (1.4, 1.0),
    "asin": (0.51, 1.0),
    "acos": (0.51, 1.0),
    "atan": (0.51, 1.0),
    "atan2": (0.51, 1.0),
    "erf": (1.9, 1.0),
    "erfc": (0.51, 5.0),
    # Left of −0.8 its float32 goes through five roundings; NumPy's own definition is 68 ulp off.
    "ndtr": (4.0, 5.0),
    "erfinv": (0.51, 5.0),
    "digamma": (0.51, 8.0),
    "lgamma": (0.51, 5.0),
    "pow": (0.51, 1.0),
    "hypot": (0.51, 1.0),
}
