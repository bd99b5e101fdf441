"""Stamps: which memory was changed in place, shared by views, gone with the memory."""

import gc

import numpy as np

import gradwalk as gw
from gradwalk.graph import versions


def test_views_share_the_stamp_and_copies_do_not() -> None:
    x = gw.zeros(3, 2)
    view, copy = x[1].view(-1), x.clone()
    x.add_(1)
    assert (x._version, view._version, copy._version) == (1, 1, 0)
    view.mul_(2)
    assert x._version == 2
    x.detach().zero_()
    assert x._version == 3


def test_a_stamp_goes_with_its_memory() -> None:
    gc.collect()
    before = len(versions._stamps)
    x = gw.zeros(3)
    x += 1
    assert len(versions._stamps) == before + 1
    del x
    assert len(versions._stamps) == before


def test_a_stamp_remembers_the_line() -> None:
    x = gw.zeros(3)
    x += 1
    stamp = versions.stamp_of(x.numpy())
    assert stamp is not None
    assert stamp.code is test_a_stamp_remembers_the_line.__code__


def test_an_array_that_was_never_changed_has_none() -> None:
    assert versions.stamp_of(np.zeros(2)) is None
