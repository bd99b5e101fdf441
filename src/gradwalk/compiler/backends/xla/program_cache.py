"""XLA's programs kept on disk by JAX, so that the next process loads what this one compiled.

They are code, as object code is: they lie in a folder beside it, `xla` in `$GRADWALK_CACHE`, which
must be trusted in the same way, and an empty `$GRADWALK_CACHE` switches both off. A folder that the
user gave to JAX (`jax_compilation_cache_dir`, `$JAX_COMPILATION_CACHE_DIR`) is left as it is. JAX
keeps what took it a second to compile (`jax_persistent_cache_min_compile_time_secs`).

Jobs of several processes do without, unless the user gives JAX a folder that all of them see: XLA
shares the tuning of kernels out among them, and one that loads its program would not do its share.
"""

from __future__ import annotations

from contextlib import suppress

import jax

from gradwalk.compiler.backends.llvm.runtime import object_cache

LIMIT = 2 * 2**30  # bytes; JAX removes nothing by itself


def keep_programs() -> None:
    """Let JAX keep programs on disk, before it compiles the first one."""
    kept = object_cache.directory()
    given = jax.config.jax_compilation_cache_dir is not None
    if kept is None or given or jax.process_count() > 1:
        return
    place = kept / "xla"
    with suppress(OSError):  # a cache that cannot be used is no cache
        if object_cache.trusted(place, make=True):
            object_cache.sweep(place, LIMIT, "-cache")
            jax.config.update("jax_compilation_cache_dir", str(place))
