"""What all tests of the compiler share."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Most tests are about results, which are the same where NumPy runs a part; the tests of that
    warning ask for it."""
    for item in items:
        if "tests/compiler/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore:.* have no native kernel"))
