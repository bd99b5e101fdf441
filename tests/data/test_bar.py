"""The progress bar shows on a terminal, and only there."""

import io

import pytest

from gradwalk import data


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_is_silent_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    bar = data.progress([1, 2, 3], "counting")
    for _ in bar:
        bar.note(loss=0.5)
    assert len(bar) == 3
    assert capfd.readouterr() == ("", "")


def test_it_shows_on_a_terminal() -> None:
    screen = Terminal()
    bar = data.progress(range(3), "counting", file=screen)
    seen = []
    for i in bar:
        bar.note(loss=1 / 3, step=i)
        seen.append(i)
    assert seen == [0, 1, 2]
    assert "counting" in screen.getvalue()
    assert "3/3" in screen.getvalue()
    assert "loss 0.3333" in screen.getvalue()


def test_the_bar_ends_when_the_loop_is_left() -> None:
    bar = data.progress(iter([1, 2]), total=2, file=Terminal())
    for _ in bar:
        break
    bar.note(loss=1.0)
