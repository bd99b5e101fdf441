"""How many references there are to objects: whether one may be used again or given away."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any


def references(things: Iterable[Any]) -> list[int]:
    """The counts of the elements of a list."""
    return list(map(sys.getrefcount, things))


def _measured() -> int | None:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    holder = SimpleNamespace(attribute=object())
    return references([holder.attribute])[0]


# What is counted for an object that only that list and one attribute refer to; None where counts
# say nothing, without the GIL.
LIST_AND_ATTRIBUTE = _measured()
