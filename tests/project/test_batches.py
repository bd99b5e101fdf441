"""A batch of cases hides none of them."""

import os

import pytest

from tests.batches import TOGETHER, batched, check_each


def test_every_case_runs_and_each_that_fails_is_named() -> None:
    met = []

    def check(case: tuple[int, str]) -> None:
        met.append(case)
        if case[0] == 2:
            pytest.fail("no")
        if case[0] == 3:
            pytest.skip("not here")
        assert case[0] != 1

    cases = [(number, "x") for number in range(5)]
    with pytest.raises(BaseExceptionGroup, match="3 of 5 cases failed: 1 x, 2 x, 3 x") as failure:
        check_each(cases, check)
    assert met == cases
    assert [e.__notes__ for e in failure.value.exceptions] == [
        [f"in the case {n} x"] for n in "123"
    ]


def test_no_case_is_left_out_and_quick_ones_are_not_slow() -> None:
    cases = [f"{letter}{number}" for letter in "abcdefghijklmnop" for number in range(3)]

    @batched("case", cases, key=lambda case: case[0], quick=1)
    def test(case: str) -> None: ...

    ((names, parameters),) = [mark.args for mark in test.pytestmark]  # type: ignore[attr-defined]
    assert names == "batch"
    quick = [p for p in parameters if not p.marks]
    slow = [p for p in parameters if p.marks]
    assert [case for p in quick for case in p.values[0]] == cases[::3]
    assert sorted(case for p in quick + slow for case in p.values[0]) == cases
    assert (len(quick), len(slow)) == (-(-16 // TOGETHER), 16)
    assert quick[0].id == "a+b+c+d+e+f+g+h+i+j+k+l" and slow[0].id == "a-others"


@batched("first, second", [(1, 2), (3, 4)])
def test_what_a_case_patches_is_taken_back(
    first: int, second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert second == first + 1
    assert "GRADWALK_BATCH" not in os.environ
    monkeypatch.setenv("GRADWALK_BATCH", "1")
