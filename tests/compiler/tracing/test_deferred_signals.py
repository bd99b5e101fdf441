"""Signals during a trace wait for its end, once."""

from __future__ import annotations

import signal
from typing import Any

import pytest

import gradwalk as gw


def test_an_interrupt_waits_for_the_end_of_the_trace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def double(x: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        print("after the signal")
        return x * 2

    step = gw.compile(double, check=False)
    with pytest.raises(KeyboardInterrupt):
        step(gw.ones(3))
    assert capsys.readouterr().out == "after the signal\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_is_raised_at_once() -> None:
    def double(x: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")

    with pytest.raises(KeyboardInterrupt):
        gw.compile(double)(gw.ones(3))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_the_function_sets_stays() -> None:
    before = signal.getsignal(signal.SIGUSR1)

    def mine(*_: Any) -> None:
        pass

    def double(x: Any) -> Any:
        signal.signal(signal.SIGINT, mine)
        return x * 2

    try:
        gw.compile(double, check=False)(gw.ones(3))
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert signal.getsignal(signal.SIGUSR1) is before
