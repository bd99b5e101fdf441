"""Of the tests on PyTorch programs, `make quick` runs one case of each test in these files."""

from collections import Counter
from pathlib import Path

import pytest

QUICK_FILES = {"test_recorder.py", "test_statements.py", "test_check_step.py"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files from which `make quick` runs nothing."""
    quick = config.getoption("markexpr") == "not slow"
    name = collection_path.name
    return True if quick and name.startswith("test_") and name not in QUICK_FILES else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    for item in items:
        if "tests/torch/" in item.path.as_posix():
            test = item.nodeid.split("[")[0]
            seen[test] += 1
            if seen[test] > 1 or item.path.name not in QUICK_FILES:
                item.add_marker(pytest.mark.slow)
