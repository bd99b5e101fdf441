"""Which of many cases run in `make quick`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some_quick(cases: Iterable[Any], every: int) -> list[Any]:
    """All cases of a parametrized test; the first and every so many after it are quick."""
    return [
        case
        if i % every == 0
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for i, case in enumerate(cases)
    ]
