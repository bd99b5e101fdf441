"""Ctrl-C during a step on a device: donated memory is never lost."""

from __future__ import annotations

from functools import partial

from tests.attack.test_interrupts import Training, problems


def test_an_interrupt_at_any_moment() -> None:
    assert problems(True, partial(Training, device="xla")) == {}
