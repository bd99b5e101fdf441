"""The state of what bytecode does not show: weak references, buffers, random generators."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.compiler.capture.guards import is_plain
from gradwalk.compiler.capture.user_code import attributes_of


def state_of(reference: Callable[[], Any]) -> str:
    """The object that a weak reference leads to, and its attributes, as text."""
    thing = reference()
    parts = attributes_of(thing).items()
    return repr((id(thing), type(thing), [(k, v if is_plain(v) else id(v)) for k, v in parts]))


def bytes_of(thing: Any) -> bytes | None:
    """The memory of an array.array, a bytearray, a memoryview or a number of ctypes."""
    try:
        with memoryview(thing) as view:  # released at once: a bytearray in use cannot grow
            return view.tobytes()
    except (TypeError, ValueError, BufferError):
        return None


def numpy_random_state() -> Any:
    module = sys.modules.get("numpy.random")
    if module is None:
        return None
    kind, keys, *rest = module.get_state()
    return kind, keys.tobytes(), rest


def set_numpy_random_state(state: Any) -> None:
    module = sys.modules.get("numpy.random")
    if module is not None and state is not None:
        kind, keys, rest = state
        module.set_state((kind, np.frombuffer(keys, np.uint32), *rest))


def generator_state(bits: Any) -> bytes:
    return pickle.dumps(bits.state)


def set_generator_state(bits: Any, state: bytes) -> None:
    bits.state = pickle.loads(state)
