"""Devices of JAX by our names.

"cuda" and "tpu" are JAX's "gpu" and "tpu"; "xla" is XLA on the CPU, for tests and for machines
without an accelerator.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import Any

import jax

from gradwalk.graph.source import caller, where_text
from gradwalk.tensors.devices import device

# The kind of device that a function of JAX is being traced for: some have kernels of their own.
traced_for: ContextVar[str] = ContextVar("traced_for", default="xla")
PLATFORMS = {"cuda": "gpu", "tpu": "tpu", "xla": "cpu"}


_first_use: list[str] = []


def first_use() -> str:
    """The user's line that first asked for devices, which starts JAX; "" before it."""
    return _first_use[0] if _first_use else ""


def _note_use() -> None:
    if not _first_use:
        _first_use.append(where_text(*caller()))


def devices_of(kind: str) -> list[Any]:
    """JAX's devices of one of our kinds; none if this machine has none."""
    _note_use()
    try:
        return list(jax.local_devices(backend=PLATFORMS[kind]))
    except RuntimeError:
        return []


def devices_everywhere(kind: str) -> list[Any]:
    """The devices of a kind in all processes, in JAX's order."""
    _note_use()
    try:
        return list(jax.devices(PLATFORMS[kind]))
    except RuntimeError:
        return []


@functools.cache
def jax_device(where: device) -> Any:
    """The device of JAX; raises if this machine does not have it."""
    found = devices_of(where.type)
    index = where.index or 0
    if index >= len(found):
        has = f"{len(found)} of them" if found else "none"
        kinds = [kind for kind in PLATFORMS if devices_of(kind)]
        fix = f"use {' or '.join(repr(k) for k in ['cpu', *kinds])}"
        extra = {"cuda": "cuda13", "tpu": "tpu"}.get(where.type)
        if extra and not found:
            fix += f', or install JAX for it: pip install "jax[{extra}]"'
        raise RuntimeError(f"no device {str(where)!r} here: JAX sees {has}.\nFix: {fix}")
    return found[index]
