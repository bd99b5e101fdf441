"""Reductions under a mask: `torch.masked`; `python -m tools.stubs` writes masked.pyi."""

from gradwalk.ops.core.public import names_of

__all__ = list(names_of("masked"))
globals().update(names_of("masked"))
