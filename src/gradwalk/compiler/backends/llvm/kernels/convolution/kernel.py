"""The kernels of convolutions: each calls a shared driver, which calls back the epilogue.

    kernel = conv_kernel(conv, x, weight, [y], attrs, host)
    compile_text({kernel.name: kernel.text}, kernel.declarations, kernel.symbols)

Arrays of the block: the two operands, scratch memory (`kernel.scratch` bytes for each thread), the
outputs, the extras. The epilogue is as for products (products/epilogue.py), on vectors of finished
sums along the pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.kernels.convolution.driver import Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.narrow import (
    FEW,
    narrow_driver,
    narrow_weight_driver,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import (
    convolution_of,
    matrix_strides,
    transposed,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.wide import (
    forward_driver,
    input_driver,
    weight_driver,
)
from gradwalk.compiler.backends.llvm.kernels.products.epilogue import Epilogue, driver_kernel
from gradwalk.compiler.backends.llvm.kernels.products.sizes import (
    DIMENSIONS,
    Product,
    epilogue_array,
    first_stride,
)
from gradwalk.compiler.backends.llvm.target import Host
from gradwalk.compiler.plan.buffers import Slice
from gradwalk.ops.core.op import Op
from gradwalk.ops.network.convolution import conv


def conv_kernel(
    op: Op, left: Slice, weight: Slice, outputs: Sequence[Slice], attrs: Mapping[str, Any],
    host: Host, extras: Sequence[Slice] = (), epilogue: Epilogue | None = None,
) -> Kernel:  # fmt: skip
    """y (batch, O, *out) from x (batch, C, *size) and the weight (O, C / groups, *kernel), or its
    transpose: x from y. Extras are broadcast to the shape of the outputs."""
    if op is conv:
        given = convolution_of(left, weight, outputs[0], attrs)
        write = narrow_driver if given.outputs <= FEW else forward_driver
        return _calling(write(given, host), outputs, extras, epilogue)
    given = convolution_of(outputs[0], weight, left, attrs)
    narrow = transposed(given) if given.channels <= FEW else None
    driver = input_driver(given, host) if narrow is None else narrow_driver(narrow, host)
    return _calling(driver, outputs, extras, epilogue)


def conv_weight_kernel(
    x: Slice, y: Slice, parts: Slice, attrs: Mapping[str, Any], host: Host
) -> Kernel:
    """The transpose in the weight: (parts, O, C / groups, *kernel), to be summed over the parts."""
    weight = Slice(parts.buffer, parts.dtype, parts.shape[1:], parts.strides[1:], parts.offset)
    given = convolution_of(x, weight, y, attrs)
    narrow = given.outputs <= FEW and (given.y[4] == 1 or given.out[2] == 1)
    write = narrow_weight_driver if narrow else weight_driver
    return _calling(write(given, host, parts.shape[0]), [parts])


def _calling(
    driver: Driver, outputs: Sequence[Slice], extras: Sequence[Slice] = (),
    epilogue: Epilogue | None = None,
) -> Kernel:  # fmt: skip
    """The kernel that calls a driver. After its arrays come the strides of outputs and extras over
    (batch, 1, 1, channel, pixel), then the sizes of the driver."""
    shape, count = outputs[0].shape, len(outputs)
    strides = [matrix_strides(shape, p.strides) for p in outputs]
    strides += [matrix_strides(shape, p.broadcast(shape)) for p in extras]
    arrays = [epilogue_array(p.dtype, s) for p, s in zip((*outputs, *extras), strides, strict=True)]
    product = Product(driver.vector.dtype, tuple(arrays[:count]), tuple(arrays[count:]))
    # The epilogue looks for strides where a product has them among its sizes.
    return driver_kernel(
        driver.name, product, driver.lanes, epilogue, DIMENSIONS * len(strides),
        ("ptr", -first_stride(0)),
        sizes=(*(number for s in strides for number in s), *driver.sizes),
        scratch=driver.scratch_bytes, symbols=driver.compiled().addresses,
    )  # fmt: skip
