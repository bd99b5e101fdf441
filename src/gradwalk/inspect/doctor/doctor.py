"""doctor: run a training program or a step, observed, and say what is most likely wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from gradwalk.inspect.doctor.diagnosis import Diagnosis, diagnosis
from gradwalk.inspect.doctor.examination import Examination
from gradwalk.inspect.doctor.observed import ObservedStep
from gradwalk.inspect.doctor.observer import Enough, Observer
from gradwalk.inspect.doctor.own_engine import OwnObserver
from gradwalk.inspect.trace.live import guest, is_torch_tensor

STEPS = 30  # of `gw.doctor`
Progress = Callable[[ObservedStep], None]


def doctor(model: Any, step: Callable[[], Any], *, steps: int = STEPS) -> Diagnosis:
    """Find what is most likely wrong with a training step.

    `step()` makes one training step of `model`: forward, backward and the optimizer's step. It is
    called `steps` times, observed, and recorded some of these times: the model is trained. The
    report has at most three findings, most likely first, and what was ruled out; it is false if
    nothing was found. An error of the step is explained, too.

    >>> import gradwalk as gw
    >>> _ = gw.manual_seed(0)
    >>> model = gw.nn.Linear(4, 1)
    >>> optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    >>> x, y = gw.randn(16, 4), gw.randn(16, 1)
    >>> def step():
    ...     (model(x) - y).square().mean().backward()
    ...     optimizer.step()
    >>> found = doctor(model, step)
    >>> found.findings[0].kind
    'left over'
    """
    parameters = list(model.parameters()) if hasattr(model, "parameters") else []

    def program() -> None:
        for _ in range(steps):
            step()

    return examined(program, [any(map(is_torch_tensor, parameters))], model)


def examined(
    program: Callable[[], Any],
    foreign: list[bool],
    model: Any = None,
    told: Progress = lambda _: None,
    most_steps: float = math.inf,
    most_seconds: float = math.inf,
) -> Diagnosis:
    """Run a program, observed in these engines (True: PyTorch), and report."""
    pairs: list[tuple[Observer, Examination]] = []
    error: BaseException | None = None
    with ExitStack() as stack:
        for is_foreign in foreign:
            examination = Examination()
            kind = guest().observer if is_foreign else OwnObserver
            observer = kind(
                examination.of_step, told, most_steps=most_steps, most_seconds=most_seconds
            )
            pairs.append((stack.enter_context(observer), examination))
            if model is not None:
                observer.adopt(model)
        try:
            program()
        except Enough:
            pass
        except (Exception, KeyboardInterrupt) as raised:
            error = raised
    observer, examination = max(pairs, key=lambda pair: pair[0].activity)
    observer.finish(error, examination)
    return diagnosis(observer.run, examination)
