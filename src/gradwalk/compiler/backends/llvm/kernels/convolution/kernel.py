"""The kernels of convolutions: each calls a shared driver, which calls back the epilogue.

    made = conv_kernel(x, weight, [y], stride=..., padding=..., dilation=..., groups=..., host=...)
    kernel = made.kernel
    compile_text({kernel.name: kernel.text}, kernel.declarations, kernel.symbols)

Arrays of the block: the two operands, scratch memory (`made.scratch` bytes for each thread), the
outputs, the extras. `epilogue(function, value, load)` is as for products: it is given one vector of
finished sums along the pixels; `load(j)` reads extra j at the same place; it returns (output
number, value) pairs to be stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradwalk.compiler.backends.llvm.emit.kernel import Kernel, KernelWriter
from gradwalk.compiler.backends.llvm.kernels.convolution.driver import TYPES, Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.forward import forward_driver
from gradwalk.compiler.backends.llvm.kernels.convolution.input import input_driver
from gradwalk.compiler.backends.llvm.kernels.convolution.layout import (
    Convolution,
    Unsuited,
    convolution_of,
    matrix_strides,
    one_stride,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.narrow import (
    FEW,
    narrow_driver,
    narrow_input_of,
    narrow_of,
    narrow_weight_driver,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.weight import weight_driver
from gradwalk.compiler.backends.llvm.kernels.products.kernel import Epilogue, Finish
from gradwalk.compiler.backends.llvm.kernels.products.layout import Place as Along
from gradwalk.compiler.backends.llvm.kernels.products.layout import Product, first_stride
from gradwalk.compiler.backends.llvm.target import Host
from gradwalk.compiler.plan.buffers import Place

__all__ = ["Made", "Unsuited", "conv_input_kernel", "conv_kernel", "conv_weight_kernel"]


@dataclass(frozen=True)
class Made:
    """A kernel and what it needs."""

    kernel: Kernel
    scratch: int  # bytes for each thread
    conv: Convolution


def conv_kernel(
    x: Place, weight: Place, outputs: Sequence[Place], *, host: Host,
    extras: Sequence[Place] = (), epilogue: Epilogue | None = None, **attrs: Any,
) -> Made:  # fmt: skip
    """y (batch, O, *out) from x (batch, C, *size) and the weight (O, C / groups, *kernel); extras
    are broadcast to the shape of y."""
    conv = convolution_of(x, weight, outputs[0], **attrs)
    narrow = conv.outputs <= FEW
    driver = narrow_driver(narrow_of(conv), host) if narrow else forward_driver(conv, host)
    return _made(conv, driver, outputs, extras, epilogue)


def conv_input_kernel(
    y: Place, weight: Place, outputs: Sequence[Place], *, host: Host,
    extras: Sequence[Place] = (), epilogue: Epilogue | None = None, **attrs: Any,
) -> Made:  # fmt: skip
    """The transpose in x: x from y and the weight."""
    conv = convolution_of(outputs[0], weight, y, **attrs)
    narrow = narrow_input_of(conv) if conv.channels <= FEW else None
    driver = input_driver(conv, host) if narrow is None else narrow_driver(narrow, host)
    return _made(conv, driver, outputs, extras, epilogue)


def conv_weight_kernel(x: Place, y: Place, parts: Place, *, host: Host, **attrs: Any) -> Made:
    """The transpose in the weight: (parts, O, C / groups, *kernel), to be summed over the parts."""
    weight = Place(parts.buffer, parts.dtype, parts.shape[1:], parts.strides[1:], parts.offset)
    conv = convolution_of(x, weight, y, **attrs)
    number = one_stride(parts.shape[2:], parts.strides[2:])
    strides = (parts.strides[0], 0, 0, parts.strides[1], number)
    if conv.outputs <= FEW and (conv.y[4] == 1 or conv.out[2] == 1):
        driver = narrow_weight_driver(narrow_of(conv), conv.y, parts.shape[0], host)
    else:
        driver = weight_driver(conv, host, parts.shape[0])
    return _assembled(conv, driver, [strides], [], [conv.dtype], None)


def _made(
    conv: Convolution, driver: Driver, outputs: Sequence[Place], extras: Sequence[Place],
    epilogue: Epilogue | None,
) -> Made:  # fmt: skip
    shape = outputs[0].shape
    written = [matrix_strides(shape, p.strides) for p in outputs]
    read = [matrix_strides(shape, p.broadcast(shape)) for p in extras]
    dtypes = [p.dtype for p in (*outputs, *extras)]
    return _assembled(conv, driver, written, read, dtypes, epilogue)


def _assembled(
    conv: Convolution, driver: Driver, outputs: list[tuple[int, ...]],
    extras: list[tuple[int, ...]], dtypes: list[Any], epilogue: Epilogue | None,
) -> Made:  # fmt: skip
    strides = [*outputs, *extras]
    places = tuple(
        Along(dtype, s[-1] if s[-1] in (0, 1) else None)
        for dtype, s in zip(dtypes, strides, strict=True)
    )
    count = len(outputs)
    finish = Finish(Product(conv.dtype, places[:count], places[count:]), driver.lanes, epilogue)
    entry = _Entry(len(strides), driver.name)
    text = finish.finish() + "\n" + entry.finish()
    name = "k" + hashlib.sha256(text.encode()).hexdigest()[:20]
    sizes = (*(number for s in strides for number in s), *driver.sizes)
    kernel = Kernel(
        name, text.replace("@NAME", f"@{name}"),
        frozenset(finish.declarations | entry.declarations), sizes, driver.compiled().addresses,
    )  # fmt: skip
    return Made(kernel, driver.scratch_bytes, conv)


class _Entry(KernelWriter):
    """The kernel itself: after its arrays come the strides of outputs and extras over (batch, 1, 1,
    channel, pixel), then the sizes of the driver."""

    def __init__(self, places: int, driver: str) -> None:
        super().__init__(3 + places)
        count = len(self.bases)
        bases = self.set(f"alloca [{count} x ptr], align 8", "bases")
        for number, base in enumerate(self.bases):
            place = self.set(f"getelementptr ptr, ptr {bases}, i64 {number}")
            self.do(f"store ptr {base}, ptr {place}, align 8")
        # The epilogue looks for strides where a product has them among its sizes.
        start = 2 * count - first_stride(0)
        strides = self.set(f"getelementptr i64, ptr %args, i64 {start}")
        sizes = self.set(f"getelementptr i64, ptr %args, i64 {2 * count + 5 * places}")
        given = (bases, sizes, "%thread", "%threads", "@NAME.finish", strides)
        self.call("void", driver, *zip(TYPES, given, strict=True))
