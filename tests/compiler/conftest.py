"""Shared by all tests of the compiler."""

from collections import Counter
from pathlib import Path

import pytest

# `make quick` runs one case of each test in these files only, since each test compiles something.
QUICK_FILES = {"test_calls.py", "test_kernels.py", "test_passes.py", "test_plan.py"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files from which `make quick` runs nothing."""
    quick = config.getoption("markexpr") == "not slow"
    name = collection_path.name
    return True if quick and name.startswith("test_") and name not in QUICK_FILES else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the warning that NumPy runs a part, except in its own tests: results are the same."""
    seen: Counter[str] = Counter()
    for item in items:
        if "tests/compiler/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore:.* have no native kernel"))
            test = item.nodeid.split("[")[0]
            seen[test] += 1
            if seen[test] > 1 or item.path.name not in QUICK_FILES:
                item.add_marker(pytest.mark.slow)
