"""The XLA backend: programs and eager ops on jax arrays."""
