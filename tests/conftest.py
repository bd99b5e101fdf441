"""Shared by all tests: seeds, one thread for arrays, cached bytecode, hypothesis settings."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

# Before numpy or torch is imported: both read this once, when they load. One thread each, because
# the tests already run one process per core and the arrays are small.
os.environ["OMP_NUM_THREADS"] = "1"

# Cache bytecode even if the environment disables it: tests start Python hundreds of times, and each
# worker would compile every test again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import pytest
from hypothesis import HealthCheck, settings

QUICK_CASES = 10
MANY_OBJECTS = 50_000  # what importing a large library leaves behind
# They have tests of 20 seconds, which begin first: at the end the other workers would be idle.
LONG = ("test_translate.py", "test_wheel.py", "test_site.py", "test_walk.py", "test_run.py")
sys.dont_write_bytecode = False  # was set from the environment when this process started

settings.register_profile(
    "gradwalk",
    deadline=None,
    derandomize="CI" in os.environ,  # CI judges the change, not luck
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is not a failure
)
settings.register_profile("quick", settings.get_profile("gradwalk"), max_examples=15)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make devices` runs the tests that need JAX: those in folders named `xla`."""
    parser.addoption("--devices", action="store_true", help="run the tests that need JAX")


def pytest_configure(config: pytest.Config) -> None:
    """`make quick` tries fewer hypothesis examples; `make test` tries all."""
    settings.load_profile("quick" if config.option.markexpr == "not slow" else "gradwalk")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make quick` does not read a file whose tests are all slow, nor the attacks."""
    if collection_path.name == "xla" and not config.getoption("--devices"):
        return True
    if config.option.markexpr != "not slow" or not collection_path.name.startswith("test_"):
        return None
    if collection_path.parent.name == "attack":
        return True
    return "\npytestmark = pytest.mark.slow" in collection_path.read_text("utf-8") or None


@pytest.hookimpl(tryfirst=True)  # before the slow tests are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`make quick` runs QUICK_CASES of a test with many cases, spread evenly."""
    if config.option.markexpr != "not slow":
        items.sort(key=lambda item: item.path.name not in LONG)
        return
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        every = max(1, len(cases) / QUICK_CASES)
        kept = {int(every * i) for i in range(QUICK_CASES)}
        for i, case in enumerate(cases):
            if i not in kept:
                case.add_marker("slow")


@pytest.hookimpl(tryfirst=True)  # before fixtures, which draw too
def pytest_runtest_setup() -> None:
    """Seed the engines that are loaded: no test depends on what another one drew or seeded."""
    if "gradwalk.random.generator" in sys.modules:
        sys.modules["gradwalk.random.generator"].manual_seed(0, like="gradwalk")
    if "torch.random" in sys.modules:
        sys.modules["torch.random"].manual_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Hide the thousands of collected tests from the garbage collector."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after the fixtures of the file are gone
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """After a file, hide the libraries it imported too.

    Every later full collection would walk them, as would what looks for the live modules of a
    program: with PyTorch's compiler and samples loaded, that was half the time of such tests.
    """
    yield
    file_ends = nextitem is not None and nextitem.path != item.path
    if file_ends and len(gc.get_objects()) > MANY_OBJECTS:
        gc.collect()  # or the garbage would be kept
        gc.freeze()
