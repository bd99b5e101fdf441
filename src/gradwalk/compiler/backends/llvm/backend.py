"""The LLVM backend: a program as native code.

    plan (kernels, memory) -> text -> object code -> tape

What has no native kernel runs as NumPy between two stretches of the tape, on the same memory.
"""

from __future__ import annotations

from collections.abc import Callable

from gradwalk.compiler.backends import Lowered, Stages
from gradwalk.compiler.backends.llvm.assemble import assemble
from gradwalk.compiler.backends.llvm.emit.elementwise_table import is_cheap, is_native
from gradwalk.compiler.backends.llvm.emit.ir_builder import fast_arithmetic
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.executable import Design, NativeExecutable
from gradwalk.compiler.backends.llvm.kernels.products.driver import driver
from gradwalk.compiler.backends.llvm.kernels.select import kernel_of
from gradwalk.compiler.backends.llvm.runtime import thread_pool
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text
from gradwalk.compiler.backends.llvm.runtime.tape_loop import MOST_THREADS
from gradwalk.compiler.backends.llvm.target import Host, host, usable_cores
from gradwalk.compiler.ir.program import Layout
from gradwalk.compiler.plan.capabilities import Capabilities
from gradwalk.compiler.plan.lowering import ProductSteps
from gradwalk.compiler.plan.schedule import Plan, place_arrays

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
    drivers = _drivers(designed.plan, host())
    symbols = {name: each[name] for name, each in drivers.items()}
    for kernel in kernels:
        symbols |= kernel.symbols
    library = compile_text(texts, declared, symbols)
    stages.done("code")
    made = NativeExecutable(designed, library, stages.seconds, layout)
    made.kept += drivers.values()
    assemble(made, designed, threads)
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


def _drivers(plan: Plan, machine: Host) -> dict[str, Library]:
    """The functions that the kernels of products call, by name."""
    dtypes = {e.work.left.dtype for e in plan.entries if isinstance(e.work, ProductSteps)}
    libraries: dict[str, Library] = {}
    for dtype in sorted(dtypes, key=str):
        name, text, declarations = driver(dtype, machine)
        libraries[name] = compile_text({name: text}, declarations)
    return libraries
