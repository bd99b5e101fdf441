"""The list of the doctor's checks, in order of cost.

To add a check, write a function and add a row. The function takes one observed step (or, with
`of="run"`, the whole run) and returns findings; an empty list rules the fault out. It returns None
if it could not look (no model, no batch). It is given only recorded steps, right after backward
and before the update, so `step.model` is live and `step.batch` is what it was called with. It
leaves the model, the gradients and the random generators as they were
(`testing.restored.restored`).

A finding says in `confidence` how sure it is and in `basis` what that rests on:

- "certain": an experiment or the program's own numbers prove it (an input of the future moved an
  output; a parameter is in no optimizer and its value never changed);
- "likely": measured, and this is its usual cause;
- "possible": a healthy program can look like this.

A check that is only "possible" must be silent while the loss falls.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple

from gradwalk.inspect.doctor.observed import ObservedRun, ObservedStep
from gradwalk.inspect.health.findings import Finding


class Check(NamedTuple):
    """One row of the list."""

    rules_out: str  # what its silence rules out, in the words of a report
    module: str  # imported when used, so that imports point one way
    function: str
    of: str = "step"  # or "run"

    def __call__(self, observed: ObservedStep | ObservedRun) -> list[Finding] | None:
        """Run the check."""
        function: Callable[..., list[Finding] | None]
        function = getattr(importlib.import_module(f"gradwalk.{self.module}"), self.function)
        return function(observed)


_LOOP = "inspect.doctor.training_loop"
_TOOLS = "inspect.doctor.tools"
CHECKS: tuple[Check, ...] = (  # cheapest first
    Check("a learning rate that is 0, dies or grows", "inspect.doctor.rates", "wrong_rates", "run"),
    Check("gradients left over from the step before", _LOOP, "left_over", "run"),
    Check("gradients cleared before step() used them", _LOOP, "erased", "run"),
    Check("steps without a backward pass", _LOOP, "steps_without_backward", "run"),
    Check("an optimizer that forgets its state", _LOOP, "remade", "run"),
    Check("a model that is left in eval mode", _LOOP, "left_in_eval", "run"),
    Check("an eps that is 0 in the parameters' dtype", _LOOP, "vanished_eps", "run"),
    Check("too much clipping, decay or dropout", "inspect.doctor.brakes", "restrained", "run"),
    Check("parameters in no optimizer", "inspect.doctor.held_parameters", "not_held"),
    Check("accumulation without division", "inspect.doctor.loss_scale", "accumulation", "run"),
    Check("a sum over the batch that diverges", "inspect.doctor.loss_scale", "summed_loss", "run"),
    Check("NaN and inf", _TOOLS, "nonfinite"),
    Check("parameters without a gradient", _TOOLS, "without_gradient"),
    Check("vanishing, exploding, dead or saturated layers", _TOOLS, "unhealthy"),
    Check("wrong derivatives", _TOOLS, "wrong_backwards", "run"),
    Check("a loss of the wrong thing", "inspect.silent.of_step", "losses"),
    Check("a softmax over the wrong axis", "inspect.silent.of_step", "softmaxes"),
    Check("weights shared or copied by mistake", "inspect.silent.of_step", "weights"),
    Check("draws that cut the gradient", "inspect.silent.of_step", "draws"),
    Check("a wrong hand-written backward", "inspect.silent.of_step", "backward"),
    Check("rows that influence one another", "inspect.silent.of_step", "rows"),
    Check("predictions that see the future", "inspect.silent.of_step", "future"),
    Check("padding that changes the loss", "inspect.silent.of_step", "pads"),
)
