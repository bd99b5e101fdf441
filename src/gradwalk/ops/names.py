"""The functions of `gradwalk` that ops offer; `python -m tools.stubs` writes names.pyi."""

from gradwalk.ops.core.public import names_of

__all__ = list(names_of("gradwalk"))
globals().update(names_of("gradwalk"))
