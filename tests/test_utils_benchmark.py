"""Timing statements under PyTorch's names; no test reads how long anything took."""

from __future__ import annotations

import pytest

import gradwalk as gw
from gradwalk.utils.benchmark import Compare, Measurement, Timer


def test_a_run_executes_the_statement_with_its_names_and_threads() -> None:
    seen: list[int] = []
    names = {"seen": seen, "threads": gw.get_num_threads}
    before = gw.get_num_threads()
    timer = Timer("seen.append(threads()); torch.ones(1)", "seen.clear()", globals=names, label="a")
    measured = timer.timeit(5)
    assert seen == [1] * 5 and measured.number_per_run == 5 and len(measured.times) == 1
    assert gw.get_num_threads() == before
    with pytest.raises(ZeroDivisionError):
        Timer("1 / 0").timeit(2)
    assert gw.get_num_threads() == before


def test_a_clock_of_ones_own_says_how_long_runs_are() -> None:
    clock = iter(float(i) for i in range(10_000))
    timer = Timer("pass", timer=lambda: next(clock))  # every run takes a second
    told: list[tuple[int, float]] = []
    measured = timer.blocked_autorange(lambda *one: told.append(one), min_run_time=3)
    assert measured.raw_times == [1.0] * 3 and told == [(1, 1.0)] * 3
    assert timer.adaptive_autorange(min_run_time=2).raw_times == [1.0] * 4


@pytest.mark.parametrize("how", ["timeit", "blocked_autorange", "adaptive_autorange"])
def test_first_calls_are_not_measured(how: str) -> None:
    now = [0.0]

    class Statement:
        calls = 0

        def __call__(self) -> None:
            self.calls += 1
            now[0] += 100 if self.calls < 3 else 1  # what makes kernels

    timer = Timer("run()", timer=lambda: now[0], globals={"run": Statement()})
    measured = getattr(timer, how)(*([4] if how == "timeit" else []))
    assert set(measured.times) == {1.0}


def test_statistics_and_text() -> None:
    measured = Measurement(10, [1e-4, 2e-4, 3e-4, 6e-4], "add", "small", "eager", num_threads=2)
    assert (measured.mean, measured.median) == pytest.approx((3e-5, 2.5e-5))
    assert measured.iqr == pytest.approx(2e-5) and measured.has_warnings
    assert not measured.meets_confidence() and measured.significant_figures == 1
    assert str(measured).splitlines() == [
        "<Measurement>",
        "add: small",
        "eager",
        "  Median: 25.00 us",
        "  IQR:    20.00 us (17.50 to 37.50)",
        "  4 measurements, 10 runs per measurement, 2 threads",
        "  WARNING: the quartiles lie 80% apart.",
    ]
    one = Measurement(1, [0.5], stmt="x + y")
    assert str(one).splitlines()[1:] == [
        "x + y",
        "  500.00 ms",
        "  1 measurement, 1 run, 1 thread",
    ]


def test_a_table_for_each_label_of_what_was_measured_together() -> None:
    found = [
        Measurement(1, [1.004e-3], "norm", "row", "gw"),
        Measurement(1, [3.0e-3], "norm", "column", "gw", num_threads=4),
        Measurement(1, [1.006e-3], "norm", "row", "gw"),
        Measurement(1, [2.0], "other"),
    ]
    assert [len(one.times) for one in Measurement.merge(found)] == [2, 1, 1]
    compare = Compare(found[:2])
    compare.extend_results(found[2:])
    compare.trim_significant_figures()
    assert str(compare).splitlines() == [
        "norm         gw",
        "1 thread:",
        "  row         1",
        "4 threads:",
        "  column      3",
        "Times are in milliseconds (ms).",
        "",
        "other",
        "1 thread:",
        "  [Unknown]  2",
        "Times are in seconds (s).",
    ]


@pytest.mark.parametrize("wrong", [{"language": "c++"}, {"global_setup": "int x;"}])
def test_statements_are_of_python(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="Fix: language='python'"):
        Timer("x", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [0, 1.5])
def test_threads_are_counted(threads: float) -> None:
    with pytest.raises(ValueError, match="num_threads"):
        Timer("x", num_threads=threads)  # type: ignore[arg-type]
