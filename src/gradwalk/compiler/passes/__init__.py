"""The passes, in the order in which they run; each takes a program and returns another."""

from __future__ import annotations

from collections.abc import Callable

from gradwalk.compiler.ir.program import Program, copied
from gradwalk.compiler.passes.algebra import simplify_algebra
from gradwalk.compiler.passes.broadcasts import drop_broadcasts
from gradwalk.compiler.passes.canonical_reductions import keep_dimensions
from gradwalk.compiler.passes.common_subexpressions import merge_equal_calls
from gradwalk.compiler.passes.constant_folding import fold_constants
from gradwalk.compiler.passes.dead_code import drop_unused
from gradwalk.compiler.passes.expand.advanced_indexing import separate_views
from gradwalk.compiler.passes.expand.composites import open_composites
from gradwalk.compiler.passes.expand.picks import pick_by_comparing
from gradwalk.compiler.passes.lifting import lift_to_reductions
from gradwalk.compiler.passes.masks import choose_by_masks
from gradwalk.compiler.passes.reshapes import merge_reshapes
from gradwalk.compiler.passes.stacked_products import stack_products
from gradwalk.compiler.passes.staging import stage_transposed
from gradwalk.compiler.passes.thin_products import open_thin_products

Pass = Callable[[Program], Program]

PASSES: tuple[Pass, ...] = (
    drop_unused,
    open_composites,
    separate_views,
    open_thin_products,
    keep_dimensions,
    fold_constants,
    pick_by_comparing,
    simplify_algebra,
    merge_reshapes,
    drop_broadcasts,
    lift_to_reductions,
    merge_reshapes,
    merge_equal_calls,
    choose_by_masks,
    stack_products,
    stage_transposed,
    drop_unused,
)


def run_passes(program: Program) -> Program:
    """All passes, one after the other."""
    program = copied(program)
    for each in PASSES:
        program = each(program)
    return program
