"""A convolution leaves the batch last in memory; views of its result are those of rows anyway."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched

# Ways to share the memory of a result of a convolution before its rows are viewed as one.
SHARED: dict[str, Any] = {
    "view": lambda y: y.view(-1),
    "view of a view": lambda y: y.view(8, 6, -1).view(-1),
    "detached": lambda y: (y.detach(), y.view(-1))[1],
    "numpy": lambda y: (y.detach().numpy(), y.view(-1))[1],
    "slice": lambda y: y[2:4].view(-1),
    "squeezed": lambda y: y.unsqueeze(1).squeeze(1).view(-1),
    "flattened": lambda y: y.flatten(2).view(-1, 16),
    "chunk": lambda y: y.chunk(2)[1].view(-1),
}


@batched("name", SHARED)
def test_rows_of_a_convolution_can_be_viewed(name: str) -> None:
    for library in (gw, torch):
        with library.no_grad():
            y = library.nn.functional.conv2d(library.ones(8, 3, 6, 6), library.ones(6, 3, 3, 3))
            viewed = SHARED[name](y)
            viewed[3] = 7.0  # the view has the memory of the result
            if library is gw:
                mine = y
    assert mine.tolist() == y.tolist()


def test_what_programs_ask_of_the_memory_of_a_convolution() -> None:
    found = []
    for library in (gw, torch):
        for shape in ((4, 3, 8), (4, 3, 8, 8), (4, 3, 6, 6, 6)):
            rank = len(shape) - 2
            convolve = getattr(library.nn.functional, f"conv{rank}d")
            weight = library.ones((5, 3) + (3,) * rank)
            y = convolve(library.ones(shape), weight)
            place = y.data_ptr()
            assert place == y.view(-1).data_ptr() == y.data_ptr()
            asked = (
                convolve(library.ones(shape), weight).is_contiguous(),
                convolve(library.ones(shape), weight).stride(),
            )
            found.append(asked)
    assert found[:3] == found[3:]


def test_a_view_does_not_leave_the_memory_of_a_users_array() -> None:
    array = np.zeros((2, 3, 4), np.float32).transpose(2, 0, 1)
    with pytest.raises(RuntimeError, match="view"):
        gw.from_numpy(array).view(-1)
    gw.from_numpy(array)[0].fill_(1)
    assert array[0].all()
