"""The call of one program, written out as Python text.

A small training step takes a few microseconds, and loops over lists of conditions, places and
results would take three times that. So they are written out once per program, as `ops/core/plan.py`
does for one op: everything the text names stands in its globals, and `Variant.text` shows it.
For w *= x, with x given and w captured, it begins

    def call(args, keywords, here, look=False):
        try:
            x0, = args
            if (
                (keywords)
                or (here.grad_enabled is not True)
                or (dtypes._default is not fixed0 and dtypes._default != fixed0)
                ...
            ):
                return MISS
            moved = (
                (tensor0._array is not array0)
            )
        except NOT_THERE:
            return MISS
        if moved and not find_again((x0,)):
            return MISS
        ...

It returns MISS, with nothing done, if the program is not right for the call. Its parts, in order:
arguments, conditions, where captured arrays are (`find_again` is the way for those that moved),
late numbers, the run, which memory changed, tensors of the results and where they go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwalk.compiler.call import guards, run
from gradwalk.compiler.call.writer import MISS, CallText

if TYPE_CHECKING:
    from gradwalk.compiler.call.specialization import Variant

__all__ = ["MISS", "CallText", "write_call"]


def write_call(variant: Variant, args: Any, keywords: Any, static: frozenset[Any]) -> CallText:
    """The text of a variant's call, for arguments nested like these."""
    text = CallText(variant)
    guards.write_arguments(text, args, keywords, static)
    guards.write_conditions(text)
    guards.write_finding(text)
    guards.write_numbers(text)
    run.write_apart(text)
    run.write_copies(text)
    run.write_run(text)
    run.write_changes(text)
    run.write_tensors(text)
    return text
