"""What all tests of the compiler share."""

from collections import Counter
from pathlib import Path

import pytest

# What runs in `make quick`: each test compiles something, so only these files, a case of each test.
QUICK_FILES = {"test_calls.py", "test_kernels.py", "test_passes.py", "test_plan.py"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What `make quick` runs nothing of it need not read."""
    quick = config.getoption("markexpr") == "not slow"
    name = collection_path.name
    return True if quick and name.startswith("test_") and name not in QUICK_FILES else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Most tests are about results, which are the same where NumPy runs a part; the tests of that
    warning ask for it."""
    seen: Counter[str] = Counter()
    for item in items:
        if "tests/compiler/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore:.* have no native kernel"))
            test = item.nodeid.split("[")[0]
            seen[test] += 1
            if seen[test] > 1 or item.path.name not in QUICK_FILES:
                item.add_marker(pytest.mark.slow)
