"""The XLA backend: programs and eager ops on jax arrays. Importing it needs JAX.

JAX gets 64-bit dtypes here, because gradwalk's integers have them.
"""

import random as _random

import numpy as _np

# Importing JAX may draw from NumPy's global generator, which a program has seeded.
_numpy_state, _python_state = _np.random.get_state(), _random.getstate()
try:
    import jax
except ImportError as _error:
    raise ImportError(
        "tensors on a device need JAX, which is not installed.\n"
        'Fix: pip install "gradwalk[xla]" (for a GPU also: pip install "jax[cuda13]")'
    ) from _error
finally:
    _np.random.set_state(_numpy_state)
    _random.setstate(_python_state)

jax.config.update("jax_enable_x64", True)
# What set_float32_matmul_precision is about has a precision of its own (forwards/linear.py).
jax.config.update("jax_default_matmul_precision", "highest")
