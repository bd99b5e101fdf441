"""The functions that return views, under names that return copies: `diagonal_copy` and so on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from gradwalk.ops.core.public import public, public_as
from gradwalk.ops.shape.joining import t
from gradwalk.ops.shape.rearranging import diagonal, narrow, select, unbind, windows
from gradwalk.ops.shape.reshaping import (
    alias,
    chunk,
    clone,
    expand,
    new_result,
    permute_to,
    reshape_to,
    split,
    split_method,
    split_with_sizes,
    squeeze,
    transpose,
    unsqueeze,
)
from gradwalk.ops.shape.strides import as_strided


def _copied(name: str, view: Callable[..., Any], method: bool = False) -> Callable[..., Any]:
    """The public function `name`_copy: a view, or each of several, cloned."""

    @new_result
    @wraps(view)
    def copy(*args: Any, **keywords: Any) -> Any:
        made = view(*args, **keywords)
        return tuple(clone(part) for part in made) if isinstance(made, tuple) else clone(made)

    copy.__module__ = __name__
    return public_as(f"{name}_copy", f"`{name}`, as a copy.", method=method)(copy)


def _itself(input: Any) -> Any:
    return alias(input)


alias_copy = _copied("alias", _itself)
as_strided_copy = _copied("as_strided", as_strided)
diagonal_copy = _copied("diagonal", diagonal)
expand_copy = _copied("expand", expand)
narrow_copy = _copied("narrow", narrow, method=True)
permute_copy = _copied("permute", permute_to)
select_copy = _copied("select", select)
split_copy = _copied("split", split)
split_with_sizes_copy = _copied("split_with_sizes", split_with_sizes)
squeeze_copy = _copied("squeeze", squeeze)
t_copy = _copied("t", t)
transpose_copy = _copied("transpose", transpose)
unbind_copy = _copied("unbind", unbind)
unfold_copy = _copied("unfold", windows)
unsqueeze_copy = _copied("unsqueeze", unsqueeze)
view_copy = _copied("view", reshape_to)

# Names of pieces that may be changed in place each on its own, which here all pieces may.
unsafe_chunk = public(names="unsafe_chunk", method=True, out=False)(chunk)
unsafe_split = public(names="unsafe_split", method=split_method, out=False)(split)


@public(names="clone")
def _clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy that gradients flow through; a memory format is a hint, and changes nothing."""
    return clone(input)
