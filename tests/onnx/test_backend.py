"""The backend tests of ONNX: all cases in dtypes that gradwalk has, but for a list."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import gradwalk as gw
from tests.batches import check_each
from tests.onnx.backend_cases import EXCLUDED, Case, cases, numbers

pytestmark = pytest.mark.slow  # ONNX takes half a minute to make its cases


def check(case: Case, path: Path) -> None:
    """Run the cases's model and compare the outputs, as ONNX's own runner does."""
    path.write_bytes(case.model.SerializeToString())
    net = gw.onnx.load(path)
    for inputs, outputs in case.data:
        arrays = [np.asarray(numbers(stored)) for stored in inputs]
        got = net(*(gw.tensor(array, dtype=array.dtype) for array in arrays))
        for mine, stored in zip(got if isinstance(got, tuple) else (got,), outputs, strict=True):
            found, wanted = mine.detach().numpy(), np.asarray(numbers(stored))
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            if wanted.dtype.kind in "biu":
                np.testing.assert_array_equal(found, wanted)
                continue
            rtol = max(case.rtol, 2**-6) if wanted.dtype.name == "bfloat16" else case.rtol
            wide = found.astype(np.float64), wanted.astype(np.float64)
            np.testing.assert_allclose(*wide, rtol=rtol, atol=case.atol)


def test_every_case_but_the_excluded_ones(tmp_path: Path) -> None:
    held = [case for case in cases() if not case.other_types()]
    assert EXCLUDED.keys() <= {case.name for case in held}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of casts that overflow
        chosen = [case for case in held if case.name not in EXCLUDED]
        check_each(chosen, lambda case: check(case, tmp_path / "case.onnx"))
