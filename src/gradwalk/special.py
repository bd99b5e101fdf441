"""Special functions, named as in `torch.special`; `python -m tools.stubs` writes special.pyi."""

from gradwalk.ops.core.public import names_of

__all__ = list(names_of("special"))
globals().update(names_of("special"))
