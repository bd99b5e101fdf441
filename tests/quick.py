"""Select the cases that `make quick` runs; `make test` runs them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def some_quick(cases: Iterable[Any], every: int) -> list[Any]:
    """The cases of a parametrized test; the first and every n-th after it are quick."""
    return [case if i % every == 0 else _slow(case) for i, case in enumerate(cases)]


def first_quick(cases: Iterable[Any], kind: Callable[[Any], str], count: int = 1) -> list[Any]:
    """The cases of a parametrized test; the first `count` of each kind are quick."""
    seen: Counter[str] = Counter()
    found = []
    for case in cases:
        seen[kind(case)] += 1
        found.append(case if seen[kind(case)] <= count else _slow(case))
    return found


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
