"""Linear algebra under the names of `torch.linalg`; `python -m tools.stubs` writes linalg.pyi."""

from gradwalk.ops.core.public import names_of
from gradwalk.ops.linear.decompositions import LinAlgError as LinAlgError

__all__ = ["LinAlgError", *names_of("linalg")]
globals().update(names_of("linalg"))
