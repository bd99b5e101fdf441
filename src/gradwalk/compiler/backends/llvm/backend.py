"""The LLVM backend: a program as native code.

    plan (kernels, memory) -> text -> object code -> tape

What has no native kernel runs as NumPy between two stretches of the tape, on the same memory.
"""

from __future__ import annotations

from collections.abc import Callable

from gradwalk.compiler.backends import Lowered, Stages
from gradwalk.compiler.backends.llvm.emit.elementwise_table import is_cheap, is_native
from gradwalk.compiler.backends.llvm.emit.ir_builder import fast_arithmetic
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.executable import Design, NativeExecutable
from gradwalk.compiler.backends.llvm.kernels.select import kernel_of
from gradwalk.compiler.backends.llvm.runtime import thread_pool
from gradwalk.compiler.backends.llvm.runtime.object_code import compile_text
from gradwalk.compiler.backends.llvm.runtime.tape_loop import MOST_THREADS
from gradwalk.compiler.backends.llvm.target import host, usable_cores
from gradwalk.compiler.ir.program import Layout
from gradwalk.compiler.plan.capabilities import Capabilities
from gradwalk.compiler.plan.schedule import place_arrays

PASSES = None  # all
CAPABILITIES = Capabilities(is_native, is_cheap)


def build(
    lower: Callable[[], Lowered], layout: Layout, fast_math: bool, stages: Stages
) -> NativeExecutable:
    """Compile a planned program; `lower` runs again if its design is read later."""
    # Threads have scratch memory of their own: no more than these ever run the program.
    threads = max(thread_pool.get_num_threads(), min(usable_cores(), MOST_THREADS))
    designed = design(lower(), fast_math, threads, stages)
    kernels = [k for k in designed.kernels if k is not None]
    texts = {k.name: k.text for k in kernels}
    declared = {declaration for k in kernels for declaration in k.declarations}
    symbols = {name: address for k in kernels for name, address in k.symbols.items()}
    library = compile_text(texts, declared, symbols)
    stages.done("code")
    made = NativeExecutable(designed, library, stages.seconds, layout, threads)
    made.design_again = lambda: design(lower(), fast_math, threads, Stages())
    stages.done("tape")
    return made


def design(lowered: Lowered, fast_math: bool, threads: int, stages: Stages) -> Design:
    """The kernels of a plan, and memory for its arrays."""
    plan = lowered.plan
    assert plan is not None
    machine = host()
    kernels: list[Kernel | None] = []
    reasons: dict[int, str] = {}
    with fast_arithmetic(fast_math):
        for entry in plan.entries:
            try:
                kernels.append(kernel_of(entry, machine, threads))
            except NoKernel as error:
                reasons[len(kernels)] = str(error)
                kernels.append(None)
    stages.done("text")
    place_arrays(plan)
    stages.done("memory")
    designed = Design(plan.program, plan, kernels, reasons)
    if plan.plain is not None and plan.may_be_larger:
        plain = plan.plain()
        other = design(Lowered(plain.program, plain), fast_math, threads, stages)
        return other if other.plan.arena <= plan.arena else designed
    return designed
