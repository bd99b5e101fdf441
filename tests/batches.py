"""Run many small cases as one test: pytest and xdist spend 2 ms on each, most of ours take less."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]
TOGETHER = 12


def batched(
    names: str,
    cases: Iterable[Any],
    key: Callable[[Any], str] = lambda case: "all",
    quick: int | None = None,
) -> Callable[[Test], Test]:
    """Like `parametrize(names, cases)`, but the cases with the same `key` are one test.

    All of them run, and the failure names and shows every case that failed. `make quick` runs the
    first `quick` cases of each key, if given, and skips the others; those of
    TOGETHER keys are one test.
    """
    arguments = names.replace(",", " ").split()
    batches: dict[str, list[Any]] = {}
    for case in cases:
        batches.setdefault(key(case), []).append(case)
    if quick is None:
        parameters = [pytest.param(batch, id=label) for label, batch in batches.items()]
    else:
        labels, slow = list(batches), pytest.mark.slow
        parameters = [
            pytest.param([c for one in some for c in batches[one][:quick]], id="+".join(some))
            for some in (labels[i : i + TOGETHER] for i in range(0, len(labels), TOGETHER))
        ] + [
            pytest.param(batch[quick:], id=f"{label}-others", marks=slow)
            for label, batch in batches.items()
            if batch[quick:]
        ]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run_batch(batch: list[Any], **fixtures: Any) -> None:
            def check(case: Any) -> None:
                values = case if len(arguments) > 1 else (case,)
                _run(test, fixtures | dict(zip(arguments, values, strict=True)))

            check_each(batch, check)

        own = inspect.signature(test).parameters
        fixtures = [own[name].replace(kind=own[name].KEYWORD_ONLY) for name in own]
        run_batch.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter("batch", inspect.Parameter.POSITIONAL_OR_KEYWORD),
                *(parameter for parameter in fixtures if parameter.name not in arguments),
            ]
        )
        return pytest.mark.parametrize("batch", parameters)(run_batch)

    return decorate


def check_each(cases: Iterable[Any], check: Callable[[Any], None]) -> None:
    """Call `check` with every case; one failure names and shows all cases that failed."""
    count, names, errors = 0, [], []
    for case in cases:
        count += 1
        try:
            check(case)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            name = " ".join(map(str, case)) if isinstance(case, tuple) else str(case)
            names.append(name[:100])
            error.add_note(f"in the case {names[-1]}")
            errors.append(error)
    if errors:
        message = f"{len(errors)} of {count} cases failed: {', '.join(names)}"
        raise BaseExceptionGroup(message, errors)


def _run(test: Test, arguments: dict[str, Any]) -> None:
    """Run one case; its patches are undone before the next one."""
    if "monkeypatch" not in arguments:
        return test(**arguments)
    with arguments["monkeypatch"].context() as patch:
        return test(**{**arguments, "monkeypatch": patch})
