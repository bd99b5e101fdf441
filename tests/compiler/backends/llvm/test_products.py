"""Matrix products: every layout, size and epilogue against NumPy in float64, and no bit different
with another number of threads or another width of vectors.

The tolerance is the bound that holds for any sum: so many roundings as numbers are added one after
another (DEPTH in a stretch, then the stretches), each of at most half an epsilon of the sum of the
absolute values.
"""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import gradwalk as gw
from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.backends.llvm.kernels.products import sizes as product_sizes
from gradwalk.compiler.backends.llvm.kernels.products.driver import product_kernel
from gradwalk.compiler.backends.llvm.kernels.products.sizes import product_of, sized
from gradwalk.compiler.backends.llvm.runtime.object_code import compile_text
from tests.compiler.shares import place_of

MOST_THREADS = 4
LIBRARIES = []  # equal texts are compiled once as long as someone holds them
FLOATS = [np.float32, np.float64]
TILES = [0, 1, 7, 11, 12, 13, 17, 31, 32, 33]  # around the 12 rows and 16 or 32 columns of a tile


def aligned(size):
    """Bytes that begin a cache line, filled with NaN: what the kernel must not rely on."""
    whole = np.full(size + 64, 0xFF, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


def prepare(a, b, outputs, extras=(), epilogue=None, host=None):
    """A function of (thread, threads) that runs the kernel of a @ b on these arrays."""
    host = host or target.host()
    batch = outputs[0].shape[:-2]
    a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    shape = outputs[0].shape
    extras = [np.broadcast_to(e, shape) for e in extras]
    places = [list(map(place_of, each)) for each in (outputs, extras)]
    product, numbers = product_of(place_of(a), place_of(b), *places, host)
    kernel = sized(product_kernel(product, host, epilogue), numbers)
    library = compile_text({kernel.name: kernel.text}, kernel.declarations, kernel.symbols)
    LIBRARIES.append(library)
    scratch = aligned(kernel.scratch * MOST_THREADS)
    arrays = [a, b, scratch, *outputs, *extras]
    slots = (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))
    words = [n for j in range(len(arrays)) for n in (j, 0)] + [*kernel.sizes]
    block = (ctypes.c_int64 * len(words))(*words)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    call = library.function(kernel.name, None, pointer, pointer, number, number)

    def run(thread, threads, keep=arrays):
        call(ctypes.addressof(slots), ctypes.addressof(block), thread, threads)

    return run


def run(a, b, outputs, *more, threads=1, **options):
    """All threads in turn."""
    kernel = prepare(a, b, outputs, *more, **options)
    for thread in range(threads):
        kernel(thread, threads)


def matrix(rng, shape, dtype, transposed=False):
    if transposed:
        return (
            rng.standard_normal((*shape[:-2], shape[-1], shape[-2])).astype(dtype).swapaxes(-1, -2)
        )
    return rng.standard_normal(shape).astype(dtype)


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def bound(a, b):
    """The largest error a sum of products in this order can have."""
    depth = a.shape[-1]
    roundings = min(depth, product_sizes.DEPTH) + depth // product_sizes.DEPTH + 1
    return roundings * np.finfo(a.dtype).eps * exact(abs(a), abs(b)) + 1e-300


def check(out, a, b):
    difference = abs(out.astype(np.float64) - exact(a, b))
    assert np.all(difference <= bound(a, b)), (difference - bound(a, b)).max()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("k", [0, 1, 2, 7, 17, 256, 257, 600])
def test_sizes_around_the_tiles(dtype, k):
    rng = np.random.default_rng(k)
    for m in TILES:
        for n in TILES:
            a, b = matrix(rng, (m, k), dtype), matrix(rng, (k, n), dtype)
            out = np.full((m, n), np.nan, dtype)
            run(a, b, [out])
            check(out, a, b)
            if k == 0:
                assert not out.any()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("out_transposed", [False, True])
def test_transposed_operands_give_the_same_bits(dtype, a_transposed, b_transposed, out_transposed):
    rng = np.random.default_rng(0)
    for m, k, n in [(25, 21, 47), (70, 32, 64), (5, 300, 33), (1, 9, 40), (40, 9, 1)]:
        a, b = matrix(rng, (m, k), dtype, a_transposed), matrix(rng, (k, n), dtype, b_transposed)
        out = matrix(rng, (m, n), dtype, out_transposed)
        run(a, b, [out])
        check(out, a, b)
        plain = np.empty((m, n), dtype)
        run(np.ascontiguousarray(a), np.ascontiguousarray(b), [plain])
        np.testing.assert_array_equal(out, plain)


@pytest.mark.parametrize("dtype", FLOATS)
def test_slices_with_any_strides_touch_nothing_beside_them(dtype):
    rng = np.random.default_rng(1)
    for m, k, n in [(17, 7, 33), (26, 40, 50), (1, 3, 2)]:
        a = matrix(rng, (2 * m, 3 * k), dtype)[::2, ::3]
        b = matrix(rng, (3 * k, 2 * n), dtype)[::3, ::2]
        for step in (1, 2):
            whole = np.full((3 * m, step * n + 5), 5, dtype)
            out = whole[1 : 1 + 2 * m : 2, 3 : 3 + step * n : step]
            run(a, b, [out], threads=2)
            check(out, a, b)
            out[:] = 5
            assert (whole == 5).all()


@pytest.mark.parametrize("threads", [2, 3, 4, 40])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_number_of_threads_changes_no_bit(dtype, threads, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "MOST_THREADS", threads)
    rng = np.random.default_rng(2)
    shapes = [(100, 16, 16), (5, 3, 100), (64, 32, 70), (204, 1400, 5), (0, 3, 3), (3, 3, 0)]
    for m, k, n in shapes:
        for b_transposed in (False, True):
            a, b = matrix(rng, (3, m, k), dtype), matrix(rng, (3, k, n), dtype, b_transposed)
            found = []
            for count in (1, threads):
                out = np.full((3, m, n), np.nan, dtype)
                run(a, b, [out], threads=count)
                found.append(out)
            check(found[0], a, b)
            np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("vector_bytes", [16, 32])
@pytest.mark.parametrize("dtype", FLOATS)
def test_narrower_vectors_change_no_bit(dtype, vector_bytes):
    """What a machine with AVX2 or NEON would run, as far as this one can show it."""
    if target.host().vector_bytes < vector_bytes:
        pytest.skip("this machine's vectors are shorter")
    narrow = dataclasses.replace(target.host(), vector_bytes=vector_bytes)
    rng = np.random.default_rng(3)
    for m, k, n in [(1, 1, 1), (13, 9, 17), (31, 300, 40), (6, 64, 16), (50, 4, 7)]:
        for transposed in (False, True):
            a = matrix(rng, (m, k), dtype, transposed)
            b = matrix(rng, (k, n), dtype, transposed)
            found = [np.full((m, n), np.nan, dtype) for _ in range(2)]
            run(a, b, [found[0]])
            run(a, b, [found[1]], host=narrow)
            check(found[0], a, b)
            np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("a_shape", "b_shape", "batch"),
    [
        ((4, 9, 5), (4, 5, 20), (4,)),
        ((2, 3, 9, 5), (2, 3, 5, 20), (2, 3)),
        ((2, 1, 9, 5), (1, 3, 5, 20), (2, 3)),
        ((9, 5), (2, 3, 5, 20), (2, 3)),
        ((2, 3, 9, 5), (5, 20), (2, 3)),  # rows of one long matrix
        ((2, 3, 1, 5), (5, 20), (2, 3)),
        ((2, 1, 3, 9, 5), (1, 4, 1, 5, 20), (2, 4, 3)),
        ((0, 9, 5), (0, 5, 20), (0,)),
    ],
)
def test_batches_and_broadcasting(a_shape, b_shape, batch):
    rng = np.random.default_rng(4)
    a, b = matrix(rng, a_shape, np.float32), matrix(rng, b_shape, np.float32)
    for threads in (1, 3):
        out = np.full((*batch, a_shape[-2], 20), np.nan, np.float32)
        run(a, b, [out], threads=threads)
        check(out, a, b)


def test_heads_of_attention_are_strided_batches():
    rng = np.random.default_rng(5)
    x = matrix(rng, (2, 10, 3 * 4 * 8), np.float32)  # (batch, time, 3 · heads · size)
    query, key, _ = x.reshape(2, 10, 3, 4, 8).transpose(2, 0, 3, 1, 4)  # (batch, heads, time, size)
    scores = np.empty((2, 4, 10, 10), np.float32)
    run(query, key.swapaxes(-1, -2), [scores], threads=2)
    check(scores, query, key.swapaxes(-1, -2))


def test_a_batch_with_one_b_becomes_rows():
    shapes = (12, 64, 1, 128), (128, 384), (12, 64, 1, 384)
    a, b, out = (place_of(np.empty(shape, np.float32)) for shape in shapes)
    _, numbers = product_of(a, b, [out], [], target.host())
    assert numbers[:6] == (1, 1, 1, 768, 384, 128)  # the batch, m, n, k


def test_what_has_too_many_batch_dimensions_is_computed_by_numpy():
    x, weight = np.random.default_rng(0).standard_normal((2, 3, 64, 64)), np.eye(8)[::-1] * 2.0
    bias = np.arange(8.0)

    def patches(x, weight, bias):  # that lie in memory in another order
        rows = x.reshape(2, 3, 8, 8, 8, 8).permute(0, 2, 4, 1, 3, 5)
        return (rows @ weight + bias).relu()

    expected = patches(*map(gw.tensor, (x, weight, bias)))  # the first eager call
    wanted = gw.tensor(x, requires_grad=True), gw.tensor(weight, requires_grad=True)
    for _ in range(3):
        found = patches(*wanted, gw.tensor(bias))
        assert np.array_equal(found.detach(), expected)
        found.sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an op without a native kernel
        assert np.array_equal(gw.compile(patches)(*map(gw.tensor, (x, weight, bias))), expected)


def bias_relu_residual(function, value, load):
    total = value + load(0)
    positive = total > 0
    return [(0, positive.choose(total, total.constant(0)) + load(1)), (1, positive)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bias_along", ["n", "m"])
@pytest.mark.parametrize("step", [1, 2])
def test_an_epilogue_with_operands_of_every_stride_and_two_outputs(dtype, bias_along, step):
    rng = np.random.default_rng(7)
    for m, k, n in [(13, 5, 32), (29, 300, 47), (1, 3, 1), (40, 8, 1), (6, 0, 20)]:
        a, b = matrix(rng, (m, k), dtype), matrix(rng, (k, n), dtype)
        bias = matrix(rng, (1, n) if bias_along == "n" else (m, 1), dtype)
        residual = matrix(rng, (m, step * n), dtype)[:, ::step]
        raw = np.empty((m, n), dtype)
        run(a, b, [raw])
        expected = raw + bias
        for threads in (1, 2):
            out, positive = np.empty((m, step * n), dtype)[:, ::step], np.empty((m, n), bool)
            run(a, b, [out, positive], [bias, residual], bias_relu_residual, threads=threads)
            np.testing.assert_array_equal(out, np.where(expected > 0, expected, 0) + residual)
            np.testing.assert_array_equal(positive, expected > 0)


def test_an_epilogue_sees_the_batch():
    rng = np.random.default_rng(8)
    a, b = matrix(rng, (2, 3, 9, 5), np.float32), matrix(rng, (3, 5, 20), np.float32)
    mask = matrix(rng, (2, 1, 9, 20), np.float32)
    out = np.empty((2, 3, 9, 20), np.float32)
    run(a, b, [out], [mask], lambda f, value, load: [(0, value * 0.5 + load(0))], threads=2)
    raw = np.empty_like(out)
    run(a, b, [raw])
    np.testing.assert_array_equal(out, raw * np.float32(0.5) + mask)


def test_kernels_differ_by_epilogue_and_not_by_size_or_layout():
    texts = set()
    for m, k, n in [(3, 4, 5), (300, 40, 512)]:
        for b in (np.empty((k, n), np.float32), np.empty((n, k), np.float32).T):
            a, out = (place_of(np.empty(shape, np.float32)) for shape in ((m, k), (m, n)))
            product, _ = product_of(a, place_of(b), [out], [], target.host())
            texts.add(product_kernel(product, target.host()).text)
    assert len(texts) == 1
    doubled = product_kernel(product, target.host(), lambda f, v, load: [(0, v + v)])
    assert doubled.text not in texts


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_nan_and_inf_spread_as_far_as_numpy_says(dtype, special, b_transposed):
    rng = np.random.default_rng(9)
    a, b = matrix(rng, (14, 9), dtype), matrix(rng, (9, 37), dtype, b_transposed)
    a[3, 2] = special
    b[4, 36] = special
    out = np.empty((14, 37), dtype)
    run(a, b, [out])
    with np.errstate(invalid="ignore"):
        expected = exact(a, b)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(out[~finite], expected[~finite].astype(dtype))
    np.testing.assert_allclose(out[finite], expected[finite], rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected with Linux's mprotect")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("transposed", [False, True])
def test_nothing_is_read_or_written_past_the_end(dtype, transposed):
    """Each array ends where a page begins that may not be touched."""
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    page = mmap.PAGESIZE
    pages = []

    def guarded(array):
        rows = array.swapaxes(-1, -2) if transposed else array
        length = -(-array.nbytes // page) * page
        memory = mmap.mmap(-1, length + page)
        whole = np.frombuffer(memory, np.uint8)
        assert protect(whole.ctypes.data + length, page, 0) == 0
        pages.append((memory, whole, length))
        copy = whole[length - array.nbytes : length].view(dtype).reshape(rows.shape)
        copy[:] = rows
        return copy.swapaxes(-1, -2) if transposed else copy

    rng = np.random.default_rng(10)
    try:
        for m, k, n in [(1, 1, 1), (13, 9, 17), (7, 33, 5), (24, 16, 32), (60, 2, 1)]:
            a, b = matrix(rng, (m, k), dtype), matrix(rng, (k, n), dtype)
            out, extra = guarded(np.zeros((m, n), dtype)), guarded(matrix(rng, (m, n), dtype))
            run(guarded(a), guarded(b), [out])
            check(out, a, b)
            plain = out.copy()
            run(guarded(a), guarded(b), [out], [extra], lambda f, v, load: [(0, v + load(0))])
            np.testing.assert_array_equal(out, plain + extra)
    finally:
        for _, whole, length in pages:
            assert protect(whole.ctypes.data + length, page, 3) == 0
