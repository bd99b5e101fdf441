"""The examples with `--device xla` print what they print on the CPU."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.examples.test_examples import EXAMPLES, run_example

pytestmark = pytest.mark.slow
NUMBER = re.compile(r"\d+\.\d+(?:e[+-]\d+)?")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_same_result(name: str, tmp_path: Path) -> None:
    printed = {
        device: run_example(name, "--quick", "--device", device, cwd=tmp_path)
        for device in ("cpu", "xla")
    }
    words = [NUMBER.sub("#", text) for text in printed.values()]
    assert words[0] == words[1]
    expected, found = ([*map(float, NUMBER.findall(text))] for text in printed.values())
    assert expected
    np.testing.assert_allclose(found, expected, 0.01, 0.002)  # they are printed rounded
