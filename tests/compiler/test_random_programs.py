"""Random programs: what is compiled does exactly what the reference does, call after call."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from gradwalk.compiler.pipeline import build
from tests.compiler.programs import Written, agrees, assert_equal, describe, programs


@given(programs())
def test_compiled_equals_reference(written: Written) -> None:
    try:
        agrees(written, 0.0)
    except Exception as error:
        error.add_note("\n".join(describe(written)))
        raise


@settings(max_examples=30)
@given(programs(most=4))
def test_state_is_carried_from_call_to_call(written: Written) -> None:
    executable = build(written.program)
    for _ in range(3):
        expected = written.expected()
        assert_equal(written.outcome(executable), expected)
        written.memories = expected.memories
        if expected.scalars:
            written.scalars = expected.scalars


@pytest.mark.slow
@settings(max_examples=150)
@given(programs(most=25))
def test_long_programs(written: Written) -> None:
    try:
        agrees(written, 0.0)
    except Exception as error:
        error.add_note("\n".join(describe(written)))
        raise
