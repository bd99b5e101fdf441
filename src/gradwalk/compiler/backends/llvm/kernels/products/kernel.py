"""The kernel of a product: a call of the shared driver, and the epilogue it calls back.

Arrays of the block: a, b, scratch memory (`Schedule.scratch` bytes for each thread), the outputs,
the extras. After them the numbers of `block_sizes`.

    product, sizes = product_of(dtype, batch, m, n, k, ...)
    kernel = product_kernel(product, sizes, host, epilogue)
    name, text, declarations = driver(product.dtype, host)
    shared = compile_text({name: text}, declarations)  # must live as long as the kernel
    compile_text({kernel.name: kernel.text}, kernel.declarations, {name: shared[name]})
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.kernels.products.driver import TYPES, driver_name
from gradwalk.compiler.backends.llvm.kernels.products.epilogue import (
    FINISH,
    DriverCall,
    Epilogue,
    EpilogueBuilder,
)
from gradwalk.compiler.backends.llvm.kernels.products.sizes import (
    EpilogueArray,
    Product,
    Sizes,
    block_sizes,
    tiling,
)
from gradwalk.compiler.backends.llvm.target import Host


def product_kernel(
    product: Product, sizes: Sizes, host: Host, epilogue: Epilogue | None = None
) -> Kernel:
    """The kernel of a product; without an epilogue the product itself is the only output."""
    finish = EpilogueBuilder(product, tiling(product.dtype, host).lanes, epilogue)
    f = DriverCall(3 + len(product.outputs) + len(product.extras))
    plain = epilogue is None and product.outputs == (EpilogueArray(product.dtype, 1),)
    pointers = f.list, f.numbers(0)
    given = (*pointers, "%thread", "%threads", f"@{FINISH}", "true" if plain else "false")
    f.call("void", driver_name(product.dtype, host), *zip(TYPES, given, strict=True))
    return f.kernel(finish, sizes=block_sizes(product, sizes, host))
