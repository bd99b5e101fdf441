"""`python -m tools.pytorch_tests FILES`: every test of each file, sorted by what became of it."""

from __future__ import annotations

import argparse
import contextlib
import contextvars
import inspect
import io
import json
import pkgutil
import signal
import traceback
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import gradwalk as gw
from tools.pytorch_tests import alias
from tools.pytorch_tests.loading import POISON, functions_as_case, loaded


class TooSlow(BaseException):
    pass


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    # Once more every second: an error in a finalizer stops nothing.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _shown(value: Any) -> str:
    if isinstance(value, alias.Missing):
        return "missing"
    return str(getattr(value, "name", value))[:30]


# Not of the CPU, or skipped or expected to fail in PyTorch as well.
NOT_RUN = ("elsewhere", "__unittest_skip__", "__unittest_expecting_failure__")


def cases(module: types.ModuleType) -> Iterator[tuple[str, type, str, dict[str, Any]]]:
    functions_as_case(module)
    for owner in list(vars(module).values()):
        if not (isinstance(owner, type) and issubclass(owner, unittest.TestCase)):
            continue
        if owner.__module__ != module.__name__:
            continue
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            if not name.startswith("test") or name in POISON or "_cuda" in name:
                continue
            if any(getattr(method, mark, False) for mark in NOT_RUN):
                continue
            names = list(inspect.signature(method).parameters)
            for keywords in alias.combinations(method, names, owner.__name__):
                shown = "-".join(_shown(v) for k, v in keywords.items() if k != "device")
                yield f"{owner.__name__}.{name}[{shown}]", owner, name, keywords


def named(name: str, known: Callable[[str], Any] = pkgutil.resolve_name) -> Any:
    """What `mock.patch("torch...")` of a test means here."""
    return alias.resolve(name) if name.startswith("torch.") else known(name)


def outcome(owner: type, name: str, keywords: dict[str, Any], seconds: int) -> tuple[str, str]:
    """One of passed, missing, differs, lenient, raises, slow, skipped; and the last line of why."""
    test = owner(name)
    test.precision = getattr(getattr(owner, name), "precisions", {}).get(keywords.get("dtype"), 0)
    try:
        with (
            limited(seconds),
            warnings.catch_warnings(record=True),
            mock.patch.object(pkgutil, "resolve_name", named),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("always")
            test.setUp()
            try:
                with alias_defaults():
                    getattr(test, name)(**keywords)
            finally:
                test.tearDown()
                test.doCleanups()
    except unittest.SkipTest as error:
        return "skipped", str(error)
    except TooSlow:
        return "slow", f"more than {seconds} s"
    except alias.MissingName as error:
        return "missing", str(error)
    except BaseException as error:  # a test may raise anything
        if type(error).__name__ == "Skipped":  # pytest's
            return "skipped", str(error)
        place = next(
            (
                f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.line}"
                for frame in reversed(traceback.extract_tb(error.__traceback__))
                if "/test/" in frame.filename
            ),
            "",
        )
        text = f"{type(error).__name__}: {error}"[:600] + f" | {place}"
        if isinstance(error, AssertionError):
            return ("lenient" if "not raised" in str(error) else "differs"), text
        if (
            isinstance(error, AttributeError)
            or "unexpected keyword" in text
            or isinstance(error, NotImplementedError)
            or "complex" in str(error).lower()
        ):
            return "missing", text
        return "raises", text
    return "passed", ""


@contextlib.contextmanager
def alias_defaults() -> Iterator[None]:
    before = gw.get_default_dtype()
    try:
        yield
    finally:
        gw.set_default_dtype(before)
        gw.set_grad_enabled(True)  # a test that was stopped leaves its modes on


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.pytorch_tests", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, help="a line of JSON for every test that did not pass")
    parser.add_argument("-k", default="", help="only tests whose name contains this")
    parser.add_argument("--seconds", type=int, default=20, help="for one test")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    with options.out.open("w") if options.out else contextlib.nullcontext(None) as out:
        for path in options.files:
            counts: Counter[str] = Counter()
            for shown, owner, name, keywords in cases(loaded(path)):
                if options.k not in shown:
                    continue
                # In a context of its own: what a test leaves on (hooks, modes) ends with it.
                alone = contextvars.copy_context()
                became, why = alone.run(outcome, owner, name, keywords, options.seconds)
                counts[became] += 1
                if became != "passed" and out:
                    out.write(
                        json.dumps({"file": path.name, "test": shown, "became": became, "why": why})
                        + "\n"
                    )
                    out.flush()
            print(path.name, dict(counts.most_common()), flush=True)
            total += counts
    print("all", dict(total.most_common()))


if __name__ == "__main__":
    main()
