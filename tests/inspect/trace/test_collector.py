"""The garbage collector during a recording."""

from __future__ import annotations

import gc
import weakref

import torch

import gradwalk.torch
from gradwalk.inspect.trace.collector import seldom_collecting


class Cycle:
    def __init__(self) -> None:
        self.me = self


def test_a_recording_leaves_the_collector_as_it_was() -> None:
    before = gc.get_threshold()
    with gradwalk.torch.record(), gradwalk.torch.record():
        (torch.ones(2, requires_grad=True) * 2).sum().backward()
        assert gc.get_threshold()[0] > before[0]
        garbage = weakref.ref(Cycle())
        gc.collect()
        assert garbage() is None
    assert gc.get_threshold() == before


def test_what_the_program_sets_stays() -> None:
    before = gc.get_threshold()
    try:
        with seldom_collecting():
            gc.set_threshold(123, 4, 5)
        assert gc.get_threshold() == (123, 4, 5)
        gc.set_threshold(0)
        with seldom_collecting():
            assert gc.get_threshold()[0] == 0  # the program has switched it off
    finally:
        gc.set_threshold(*before)
