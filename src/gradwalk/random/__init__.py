"""Random numbers: generators, the streams they draw from, and random tensors."""

from gradwalk.random.generator import (
    Generator,
    default_generator,
    get_rng_state,
    manual_seed,
    set_rng_state,
)

__all__ = ["Generator", "default_generator", "get_rng_state", "manual_seed", "set_rng_state"]
