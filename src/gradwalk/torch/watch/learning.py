"""Find the modules that a program calls and that nobody gave to `watch`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from gradwalk.torch.record.module_calls import ignore_needless_warning, uncompiled
from gradwalk.torch.rerun.rerun import Run
from gradwalk.torch.rerun.snapshots import WatchedModel
from gradwalk.torch.watch.check_step import Checked

LONGEST = 3  # steps to look for modules


class Learning:
    """Until the parameters of the optimizer are covered, look at every module call."""

    def __init__(
        self,
        meets: Callable[[torch.nn.Module, Any], None],  # given the module and its arguments
        known: Mapping[int, WatchedModel],
        given: set[int] | None,  # modules to look for; None: any
    ) -> None:
        self._meets, self._known, self._given = meets, known, given
        self._hook: Any = None

    def begin(self) -> None:
        """Look at every module call for modules not known yet."""
        if self._hook is None:
            ignore_needless_warning()
            self._hook = register_module_forward_pre_hook(self._called)

    def end(self) -> None:
        """Look no longer: it costs time at every call."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def adjust(self, checked: Checked, runs: list[Run]) -> None:
        """After a step: begin while no known module leads to the loss, and end otherwise."""
        if runs and not any(run.calls for run in runs):
            self.begin()  # the program calls another module than it gave, such as an inner one
        elif self._hook is not None and (self._covers(checked) or checked.steps > LONGEST):
            self.end()

    def _covers(self, checked: Checked) -> bool:
        known = {id(p) for model in self._known.values() for p in model.module.parameters()}
        return all(id(p) in known for p in checked.parameters)

    def _called(self, module: torch.nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():  # the compiler must not look into watch
            return
        if (
            id(module) not in self._known
            and (self._given is None or id(module) in self._given)
            and torch.is_grad_enabled()
            and next(module.parameters(), None) is not None
        ):
            self._meets(module, args)
            if uncompiled(module) is not module:
                self.end()  # a hook that goes later would make it compile again
