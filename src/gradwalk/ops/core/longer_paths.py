"""PyTorch's longer paths to names that a package here has by itself.

PyTorch has `Normal` in `distributions.normal` and in `distributions`; programs import from either.
"""

from __future__ import annotations

import sys

__all__ = ["longer_paths"]


def longer_paths(package: str, *names: str) -> None:
    """Let `package.name` be another name of the package, for the import statement as well."""
    module = sys.modules[package]
    for name in names:
        sys.modules[f"{package}.{name}"] = module
        setattr(module, name.partition(".")[0], module)
