"""`watch` and per-layer numbers in HF Trainer, Lightning and Accelerate, in three lines each.

Each name imports its package when it is first used: `pip install 'gradwalk[trainers]'`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradwalk.torch.trainers.accelerate_watch import AccelerateWatch
    from gradwalk.torch.trainers.huggingface_watch import HuggingFaceWatch
    from gradwalk.torch.trainers.lightning_watch import LightningWatch

__all__ = ["AccelerateWatch", "HuggingFaceWatch", "LightningWatch"]

_PLACES = {
    "AccelerateWatch": ("accelerate_watch", "Accelerate"),
    "HuggingFaceWatch": ("huggingface_watch", "the Trainer of transformers"),
    "LightningWatch": ("lightning_watch", "Lightning"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file, package = _PLACES[name]
    try:
        return getattr(import_module(f"{__name__}.{file}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("gradwalk"):
            raise
        raise ModuleNotFoundError(
            f"{name} is for programs that use {package}, and {error.name} is not installed. "
            "Fix: pip install 'gradwalk[trainers]'",
            name=error.name,
        ) from None
