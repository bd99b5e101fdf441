"""The number of threads that matrix products run on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw


@pytest.fixture(autouse=True)
def as_before() -> Any:
    before = gw.get_num_threads()
    yield
    gw.set_num_threads(before)


def test_what_is_set_is_used() -> None:
    for count in (1, 2, 1):
        gw.set_num_threads(count)
        assert gw.get_num_threads() == count


def test_products_do_not_depend_on_it() -> None:
    x = np.random.default_rng(0).standard_normal((300, 300))
    found = []
    for count in (1, 2):
        gw.set_num_threads(count)
        found.append((gw.tensor(x) @ gw.tensor(x)).numpy())
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None])
def test_a_number_that_is_none(count: Any) -> None:
    with pytest.raises(ValueError, match="an integer of at least 1"):
        gw.set_num_threads(count)
