"""The XLA backend: programs and eager ops on jax arrays. Importing it needs JAX.

JAX gets 64-bit dtypes here, because gradwalk's integers have them.
"""

try:
    import jax
except ImportError as _error:
    raise ImportError(
        "tensors on a device need JAX, which is not installed.\n"
        'Fix: pip install "gradwalk[xla]" (for a GPU also: pip install "jax[cuda13]")'
    ) from _error

jax.config.update("jax_enable_x64", True)
# What set_float32_matmul_precision is about has a precision of its own (forwards/linear.py).
jax.config.update("jax_default_matmul_precision", "highest")
