"""What all tests of the compiler share."""

from collections import Counter

import pytest

QUICK = 8  # of the cases of each test that run in `make quick`: each compiles something


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Most tests are about results, which are the same where NumPy runs a part; the tests of that
    warning ask for it."""
    seen: Counter[str] = Counter()
    for item in items:
        if "tests/compiler/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore:.* have no native kernel"))
            test = item.nodeid.split("[")[0]
            seen[test] += 1
            if seen[test] > QUICK:
                item.add_marker(pytest.mark.slow)
