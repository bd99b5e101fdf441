"""What registering a hook returns, where PyTorch has it."""

from gradwalk.engine.hooks import RemovableHandle as RemovableHandle

__all__ = ["RemovableHandle"]
