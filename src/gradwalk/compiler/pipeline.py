"""The order of the compiler: trace -> passes -> plan -> backend -> call.

No other file knows it. Each stage has a folder of its own: `tracing/` returns a Program, `passes/`
rewrite it, `plan/` decides on kernels and memory, `backends/` make it run, and `call/` generates
the function that a user's call runs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradwalk.compiler.backends import Lowered, Stages, load
from gradwalk.compiler.call.specialization import Specialization
from gradwalk.compiler.ir.loops import body_of, loop
from gradwalk.compiler.ir.program import (
    Args,
    Builder,
    Call,
    Layout,
    Pass,
    Program,
    Rewritten,
    Term,
    copied,
    rewrite,
)
from gradwalk.compiler.passes.expand.advanced_indexing import separate_views
from gradwalk.compiler.passes.expand.composites import open_composites
from gradwalk.compiler.passes.expand.picks import pick_by_comparing
from gradwalk.compiler.passes.finite import gate_updates
from gradwalk.compiler.passes.halves import widen_halves
from gradwalk.compiler.passes.loops import stage_in_loops, trim_loops
from gradwalk.compiler.passes.masks import choose_by_masks
from gradwalk.compiler.passes.products import open_thin_products, stack_products, stage_transposed
from gradwalk.compiler.passes.reductions import keep_dimensions, lift_to_reductions
from gradwalk.compiler.passes.simplify import (
    drop_unused,
    fold_constants,
    merge_equal_calls,
    simplify_algebra,
)
from gradwalk.compiler.passes.views import drop_broadcasts, merge_reshapes
from gradwalk.compiler.plan.schedule import plan
from gradwalk.compiler.tracing.arguments import Arguments
from gradwalk.compiler.tracing.outcome import TracedProgram
from gradwalk.compiler.tracing.trace_function import trace
from gradwalk.tensors.devices import CPU


def rewrite_bodies(program: Program) -> Program:
    """Run all passes on the bodies of loops."""

    def visit(call: Call, args: Args, build: Builder) -> Rewritten:
        body = run_passes(body_of(call))
        metas = [(t.shape, t.dtype) for t in call.outputs]
        made: Sequence[Term] = build.apply_as(loop, args, {**call.attrs, "body": body}, metas)
        return made

    return rewrite(program, visit, (loop,))


PASSES: tuple[Pass, ...] = (
    drop_unused,
    trim_loops,
    rewrite_bodies,
    widen_halves,
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
    stage_in_loops,
    trim_loops,
    drop_unused,
)


@contextmanager
def no_collections() -> Iterator[None]:
    """Suspend the collector: compiling makes many objects that stay, and visiting all of them time
    and again would take a sixth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def specialize(
    name: str,
    function: Callable[..., Any],
    given: Arguments,
    call: tuple[Any, Any],  # positional arguments, and arguments by name
    static: frozenset[Any],
    parameters: list[str],
    build: Callable[[Program, Layout, Any], Any],  # the last is the device
    check: bool | str = True,
    known: Sequence[Specialization] = (),
) -> Specialization:
    """Trace a function for one call, and compile what it did; `check` traces it again later, and
    if it is "finite", a call that would put NaN or infinity into memory changes nothing.

    If that is what one of the known programs does, whose guards did not hold, nothing is compiled.
    """

    def again(args: Any, keywords: Any, memories: Sequence[Any] | None = None) -> TracedProgram:
        with no_collections():
            traced = trace(function, args, keywords, static, parameters, memories)
        return _finite(traced) if check == "finite" else traced

    with no_collections():
        traced = again(*call)

        def on_device(program: Program, layout: Layout) -> Any:
            return build(program, layout, traced.device)

        again_or_never = again if check else None
        same = next((one for one in known if one.runs(traced)), None)
        return Specialization(name, traced, on_device, given, call, static, again_or_never, same)


def _finite(traced: TracedProgram) -> TracedProgram:
    """Ask for gradients and new memory without NaN and infinity."""
    program = traced.program
    written = [new for _, new in program.updates]
    wanted = [*(program.results[n] for n in traced.gradient_results), *written]
    program.must_be_finite = [t for t in dict.fromkeys(wanted) if t.dtype.kind not in "biu"]
    if traced.device == CPU and program.must_be_finite:
        traced.program, traced.tells_finite = gate_updates(program), True
    return traced


def build(
    program: Program,
    layout: Layout | None = None,
    backend: str = "llvm",
    fast_math: bool = False,
) -> Any:
    """Compile a program with a backend; return its `backends.Executable`."""
    chosen, stages = load(backend), Stages()
    return chosen.build(
        lambda: lower(program, layout, backend, stages), layout or {}, fast_math, stages
    )


def lower(
    program: Program,
    layout: Layout | None = None,
    backend: str = "llvm",
    stages: Stages | None = None,
) -> Lowered:
    """Run the passes that a backend wants, then plan if it wants that."""
    stages = stages or Stages()
    chosen = load(backend)
    program = run_passes(program, chosen.PASSES)
    stages.done("passes")
    if chosen.CAPABILITIES is None:
        return Lowered(program, None)
    planned = plan(program, layout or {}, chosen.CAPABILITIES)
    stages.done("plan")
    return Lowered(planned.program, planned)


def run_passes(program: Program, wanted: Collection[str] | None = None) -> Program:
    """Run all passes, or those with these names, in order."""
    passes = [each for each in PASSES if wanted is None or each.__name__ in wanted]
    if passes:
        program = copied(program)
    for each in passes:
        program = each(program)
    return program
