"""Reading the pickles that `torch.save` writes, without executing anything.

A pickle is a program for a small stack machine. This module runs the instructions that build
containers, numbers and text. Where a pickle names a class or a function, `KNOWN` says what stands
for it; any other name is refused. Nothing is imported and nothing of the file is called.
"""

from __future__ import annotations

import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import IO, Any

_LITERAL = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINSTRING", "SHORT_BINSTRING",
}  # fmt: skip
_FIXED: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NOTHING = {"PROTO", "FRAME", "STOP"}


class PickleRefused(ValueError):
    """A pickle asks for something that is not data."""


# What pickles of data besides tensors name. Others are added by the reader of a format.
KNOWN: dict[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "builtins.set": set,
    "builtins.complex": complex,
    "__builtin__.set": set,
    "__builtin__.complex": complex,
    "_codecs.encode": lambda text, how="latin1": text.encode("latin1"),
}


def unpickled(file: IO[bytes], known: dict[str, Any], storage: Callable[[Any], Any]) -> Any:
    """The object that the next pickle of a file describes.

    `known` has what stands for each name; `storage` gets the persistent ids.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def taken(at: int) -> list[Any]:
        """Everything from a place of the stack on."""
        if not 0 <= at <= len(stack):
            raise ValueError("the pickle takes more than there is")
        found = stack[at:]
        del stack[at:]
        return found

    argument: Any
    for code, argument, _ in pickletools.genops(file):
        name = code.name
        if name in _LITERAL:
            stack.append(argument)
        elif name in _FIXED:
            stack.append(_FIXED[name]())
        elif name in _TUPLES:
            stack.append(tuple(taken(len(stack) - _TUPLES[name])))
        elif name == "MARK":
            marks.append(len(stack))
        elif name == "TUPLE":
            stack.append(tuple(taken(marks.pop())))
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in ("SETITEM", "SETITEMS"):
            pairs = taken(len(stack) - 2 if name == "SETITEM" else marks.pop())
            _of(stack[-1], dict).update(zip(pairs[::2], pairs[1::2], strict=True))
        elif name in ("APPEND", "APPENDS"):
            items = taken(len(stack) - 1 if name == "APPEND" else marks.pop())
            _of(stack[-1], list).extend(items)
        elif name == "ADDITEMS":
            items = taken(marks.pop())
            _of(stack[-1], set).update(items)
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            module, _, own = (
                argument.partition(" ") if name == "GLOBAL" else (stack.pop(-2), "", stack.pop())
            )
            stack.append(_named(f"{module}.{own}", known))
        elif name == "REDUCE":
            arguments = _of(stack.pop(), tuple)
            function = stack.pop()
            if not callable(function) or not any(function is one for one in known.values()):
                raise PickleRefused(f"it calls {function!r:.60}, which is no constructor of data")
            stack.append(function(*arguments))
        elif name == "BUILD":
            state = stack.pop()
            if not isinstance(stack[-1], OrderedDict) or not isinstance(state, dict):
                raise PickleRefused(f"it sets attributes of a {type(stack[-1]).__name__}")
            # A state dict notes the versions of its modules here. Nothing else has a use.
            versions = state.get("_metadata")
            if isinstance(versions, dict) and all(isinstance(v, dict) for v in versions.values()):
                stack[-1]._metadata = versions  # type: ignore[attr-defined]
        elif name == "BINPERSID":
            stack.append(storage(stack.pop()))
        elif name not in _NOTHING:
            raise PickleRefused(f"it uses the instruction {name}, which plain data does not need")
    if len(stack) != 1:
        raise ValueError("the pickle leaves more than one object")
    return stack[0]


def _named(name: str, known: dict[str, Any]) -> Any:
    if name not in known:
        raise PickleRefused(
            f"it has a {name}, and making one could execute code. Fix: in PyTorch, save only "
            "tensors and numbers: torch.save(model.state_dict(), path)"
        )
    return known[name]


def _of(thing: Any, kind: type) -> Any:
    if not isinstance(thing, kind):
        raise ValueError(f"a {type(thing).__name__} where a {kind.__name__} belongs")
    return thing
