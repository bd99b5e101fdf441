"""`gradwalk.checkpoint` where PyTorch has it."""

from gradwalk.engine.checkpoint import checkpoint as checkpoint

__all__ = ["checkpoint"]
