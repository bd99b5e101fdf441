"""Names of parameters: as in the model, with the model's name if there are several models."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gradwalk.torch.rerun.call_stack import FrameSnapshot


class ModelNames:
    """The names that the program gives its models."""

    def __init__(self) -> None:
        self._called: dict[int, str] = {}

    def note(self, module: torch.nn.Module, frames: list[FrameSnapshot]) -> None:
        """Name a model that is being called: by the variable that holds it, else by its class."""
        if id(module) not in self._called:
            variables = (frames[0].variables or {}) if frames else {}
            own = (name for name, value in variables.items() if value is module)
            self._called[id(module)] = next(own, type(module).__name__)

    def of_parameters(self, modules: Sequence[torch.nn.Module]) -> dict[int, str]:
        """The name of each parameter of these models, by `id`."""
        inner = {id(m) for module in modules for m in module.modules() if m is not module}
        outer = [module for module in modules if id(module) not in inner]
        names: dict[int, str] = {}
        for module in outer:
            called = self._called.get(id(module), type(module).__name__)
            prefix = f"{called}." if len(outer) > 1 else ""
            for name, parameter in module.named_parameters():
                names.setdefault(id(parameter), prefix + name)
        return names
