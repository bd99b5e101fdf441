"""What to call parameters: their names in the model, and which model where there are several."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gradwalk.torch.rerun.call_stack import Place


class Names:
    """What the program calls its models."""

    def __init__(self) -> None:
        self._called: dict[int, str] = {}

    def met(self, module: torch.nn.Module, places: list[Place]) -> None:
        """A model is called: its name is the variable that holds it, or else its class."""
        if id(module) not in self._called:
            variables = (places[0].variables or {}) if places else {}
            own = (name for name, value in variables.items() if value is module)
            self._called[id(module)] = next(own, type(module).__name__)

    def of_parameters(self, modules: Sequence[torch.nn.Module]) -> dict[int, str]:
        """The name of each parameter of these models, by its identity."""
        inner = {id(m) for module in modules for m in module.modules() if m is not module}
        outer = [module for module in modules if id(module) not in inner]
        found: dict[int, str] = {}
        for module in outer:
            called = self._called.get(id(module), type(module).__name__)
            prefix = f"{called}." if len(outer) > 1 else ""
            for name, parameter in module.named_parameters():
                found.setdefault(id(parameter), prefix + name)
        return found
