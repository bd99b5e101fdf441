"""Constructors made from annotated attributes, as a dataclass has them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar
from typing import Any, ClassVar, ParamSpec, TypeVar, dataclass_transform, get_origin

from gradwalk.tensors.devices import device as device_named

P = ParamSpec("P")
C = TypeVar("C")


@dataclass_transform(eq_default=False)
def declared(cls: type[C]) -> type[C]:
    """Give a class a constructor whose parameters are its annotated attributes.

    It passes them to `_construct(**options)`. As in a dataclass, a subclass inherits parameters,
    those after `_: KW_ONLY` are keyword-only, and `InitVar` marks those that are not stored. It is
    no `dataclasses.dataclass`, because compiled functions treat one as a tree of arguments.
    """
    parameters: dict[str, inspect.Parameter] = dict(getattr(cls, "_declared", {}))
    unstored: set[str] = set(getattr(cls, "_unstored", ()))
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for name, annotation in inspect.get_annotations(cls, eval_str=True).items():
        if annotation is KW_ONLY:
            kind = inspect.Parameter.KEYWORD_ONLY
        elif ClassVar not in (annotation, get_origin(annotation)):
            default = vars(cls).get(name, inspect.Parameter.empty)
            if isinstance(annotation, InitVar):
                annotation = annotation.type
                unstored.add(name)
            parameters[name] = inspect.Parameter(name, kind, default=default, annotation=annotation)
            if name in vars(cls):
                delattr(cls, name)  # only instances have options
    listed = sorted(parameters.values(), key=lambda parameter: parameter.kind)
    signature = inspect.Signature(listed)

    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        try:
            given = signature.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}") from None
        given.apply_defaults()
        self._construct(**given.arguments)

    if "device" in parameters:
        __init__ = on_device(__init__, signature)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    whole = inspect.Signature([own, *listed], return_annotation=None)
    constructor: Callable[..., None] = __init__
    constructor.__signature__ = whole  # type: ignore[attr-defined]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = constructor  # type: ignore[method-assign]
    cls._declared = parameters  # type: ignore[attr-defined]
    cls._unstored = unstored  # type: ignore[attr-defined]
    return cls


def on_device(
    constructor: Callable[P, None], signature: inspect.Signature | None = None
) -> Callable[P, None]:
    """Decorate a constructor with a parameter `device`: its new tensors are there."""
    names = list((signature or inspect.signature(constructor)).parameters)
    place = names.index("device") + (signature is not None)  # there `self` is not listed

    @functools.wraps(constructor)
    def construct(*args: P.args, **keywords: P.kwargs) -> None:
        where = args[place] if len(args) > place else keywords.get("device")
        if where is None:
            return constructor(*args, **keywords)
        with device_named(where):
            return constructor(*args, **keywords)

    return construct
