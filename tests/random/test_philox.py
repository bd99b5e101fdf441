"""The definition of the library's random numbers, written out a second time in plain Python.

It is slow and takes no short cuts; a compiler's kernels must agree with it as the arrays do.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.random import philox
from gradwalk.random.philox import PhiloxStream

ALL = 2**64 - 1
COUNTS = [0, 1, 2, 3, 4, 5, 8, 9, 33]


def philox4x64(counter: list[int], key: list[int]) -> list[int]:
    """Ten rounds of Philox, as in the paper of Salmon and others (2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [second >> 64 ^ c[1] ^ k[0], second & ALL, first >> 64 ^ c[3] ^ k[1], first & ALL]
        k = [(k[0] + 0x9E3779B97F4A7C15) & ALL, (k[1] + 0xBB67AE8584CAA73B) & ALL]
    return c


class Reference:
    """One draw: the words and halves from an offset on, and what is made of element i."""

    def __init__(self, seed: int, offset: int) -> None:
        self.seed, self.offset = seed, offset

    def word(self, w: int) -> int:
        block = self.offset + w // 4
        return philox4x64([block % 2**64, 0, 0, 0], [self.seed % 2**64, 0])[w % 4]

    def half(self, h: int) -> int:
        return self.word(h // 2) >> 32 * (h % 2) & 0xFFFFFFFF

    def u(self, i: int, dtype: Any) -> Any:
        if dtype == np.float32:
            return np.float32((self.half(i) >> 8) * 2.0**-24)
        return np.float64((self.word(i) >> 11) * 2.0**-53)

    def v(self, i: int, dtype: Any) -> Any:
        if dtype == np.float32:
            return np.float32(self.half(i) * 2.0**-32) + np.float32(2.0**-33)
        return np.float64((self.word(i) >> 11) * 2.0**-53) + np.float64(2.0**-54)

    def normal(self, i: int, dtype: Any) -> float:
        j = i // 2
        radius = math.sqrt(-2 * math.log(self.v(2 * j, dtype)))
        angle = float(dtype(2 * math.pi) * self.u(2 * j + 1, dtype))
        return radius * (math.sin(angle) if i % 2 else math.cos(angle))


@pytest.mark.parametrize(
    "counter, key, expected",
    [  # the known answers of Random123, where Philox comes from
        (
            [0, 0, 0, 0],
            [0, 0],
            "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b",
        ),
        (
            [ALL, ALL, ALL, ALL],
            [ALL, ALL],
            "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0",
        ),
        (
            [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89],
            [0x452821E638D01377, 0xBE5466CF34E90C6C],
            "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
        ),
    ],
)
def test_the_reference_is_philox(counter: list[int], key: list[int], expected: str) -> None:
    assert [f"{word:016x}" for word in philox4x64(counter, key)] == expected.split()


@pytest.mark.parametrize("seed, offset", [(0, 0), (1, 7), (-1, 3), (2**63 + 5, 2**40)])
def test_the_words_of_a_stream(seed: int, offset: int) -> None:
    stream, expected = PhiloxStream(seed, offset), Reference(seed, offset)
    assert stream.words(10).tolist() == [expected.word(w) for w in range(10)]
    assert stream.offset == offset + 3  # the rest of a begun block is left out
    assert stream.words(1).tolist() == [expected.word(12)]


DRAWS: dict[str, tuple[Any, Callable[[Reference, int, Any], Any]]] = {
    "uniform": (lambda s, n, d: s.uniform((n,), d), lambda r, i, d: r.u(i, d)),
    "uniform from -0.3 to 0.7": (
        lambda s, n, d: s.uniform((n,), d, -0.3, 0.7),
        lambda r, i, d: r.u(i, d) * (d(0.7) - d(-0.3)) + d(-0.3),
    ),
    "bernoulli": (
        lambda s, n, d: s.bernoulli(0.3, (n,)),
        lambda r, i, d: r.half(i) < 0.3 * 2**32,
    ),
    "bernoulli of an array": (
        lambda s, n, d: s.bernoulli(np.linspace(0, 1, n, dtype=d), (n,)),
        lambda r, i, d: None,  # filled in by the test, which knows n
    ),
    "integers": (
        lambda s, n, d: s.integers(-5, 12, (n,)),
        lambda r, i, d: -5 + (r.word(i) * 17 >> 64),
    ),
    "integers of a large range": (
        lambda s, n, d: s.integers(3, 2**45 + 7, (n,)),
        lambda r, i, d: 3 + (r.word(i) * (2**45 + 4) >> 64),
    ),
    "integers of all 64 bits": (
        lambda s, n, d: s.integers(-(2**63), 2**63, (n,)),
        lambda r, i, d: r.word(i) - 2**63,
    ),
    "integers of all 64 bits but one": (
        lambda s, n, d: s.integers(-(2**63), 2**63 - 1, (n,)),
        lambda r, i, d: (r.word(i) * (2**64 - 1) >> 64) - 2**63,
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("draw", DRAWS)
def test_these_draws_are_defined_to_the_bit(draw: str, dtype: Any) -> None:
    drawn, element = DRAWS[draw]
    for count in COUNTS:
        stream, expected = PhiloxStream(11, 5), Reference(11, 5)
        found = drawn(stream, count, dtype).tolist()
        if "array" in draw:
            chances = np.linspace(0, 1, count, dtype=dtype).tolist()
            assert found == [expected.half(i) < p * 2.0**32 for i, p in enumerate(chances)]
        else:
            assert found == [element(expected, i, dtype) for i in range(count)]
        per_word = 2 if "bernoulli" in draw or ("uni" in draw and dtype == np.float32) else 1
        assert stream.offset == 5 + math.ceil(math.ceil(count / per_word) / 4)


@pytest.mark.parametrize("dtype, ulps", [(np.float32, 8), (np.float64, 8)])
def test_normals_and_exponentials_are_defined_to_a_few_ulps(dtype: Any, ulps: int) -> None:
    for count in COUNTS:
        expected = Reference(11, 5)
        normals = PhiloxStream(11, 5).normal((count,), dtype)
        waits = PhiloxStream(11, 5).exponential((count,), dtype)
        assert normals.dtype == waits.dtype == dtype
        for i in range(count):
            for found, exact in [
                (normals[i], expected.normal(i, dtype)),
                (waits[i], -math.log(expected.v(i, dtype))),
            ]:
                assert abs(float(found) - exact) <= ulps * np.spacing(dtype(abs(exact))), (count, i)
    scaled = PhiloxStream(11, 5).normal((count,), dtype, 2.0, 0.5)
    np.testing.assert_array_equal(scaled, normals * dtype(0.5) + dtype(2))


@pytest.mark.parametrize("count", COUNTS)
def test_a_permutation_sorts_the_words(count: int) -> None:
    words = PhiloxStream(4).words(count).tolist()
    expected = sorted(range(count), key=lambda i: (words[i], i))
    assert PhiloxStream(4).permutation(count).tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_draws_are_made_in_pieces_that_join(dtype: Any) -> None:
    n = 2 * philox._CHUNK + 3
    for draw in (
        lambda s, k: s.uniform((k,), dtype),
        lambda s, k: s.normal((k,), dtype),
        lambda s, k: s.exponential((k,), dtype),
        lambda s, k: s.bernoulli(0.4, (k,)),
        lambda s, k: s.bernoulli(np.full(k, 0.4, dtype), (k,)),
        lambda s, k: s.integers(0, 99, (k,)),
    ):
        whole, first = draw(PhiloxStream(2), n), PhiloxStream(2)
        parts = [draw(first, philox._CHUNK), draw(first, philox._CHUNK), draw(first, 3)]
        # Not bit by bit: NumPy may take another path for the last elements of an array.
        np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-5, atol=1e-6)


def test_extreme_words_give_numbers_within_their_bounds() -> None:
    class Engine:
        def __init__(self, word: int) -> None:
            self.word = word

        def random_raw(self, count: int) -> np.ndarray:
            return np.full(count, self.word, np.uint64)

    for word in (0, ALL):
        stream = PhiloxStream(0)
        stream.engine = Engine(word)  # type: ignore[assignment]
        for dtype in (np.float32, np.float64):
            assert 0 <= stream.uniform((1,), dtype)[0] < 1
            wait = stream.exponential((1,), dtype)[0]
            assert 0 <= wait < 40 and not np.signbit(wait)
            assert np.isfinite(stream.normal((2,), dtype)).all()
            for p in (0.0, 1.0):
                assert stream.bernoulli(p, (1,))[0] == stream.bernoulli(np.array([p]), (1,))[0] == p
        assert stream.integers(-4, 4, (1,))[0] in (-4, 3)


def test_tensors_are_drawn_by_the_definition() -> None:
    generator = gw.Generator().manual_seed(9)
    expected = Reference(9, 0)
    found = gw.rand(3, generator=generator)
    assert found.tolist() == [expected.u(i, np.float32) for i in range(3)]
    state = generator.get_state()
    assert state == {"like": "gradwalk", "seed": 9, "offset": 1}
    later = gw.rand(2, generator=gw.Generator().set_state({**state, "offset": 10**6}))
    assert later.tolist() == [Reference(9, 10**6).u(i, np.float32) for i in range(2)]


def test_ten_and_twenty_are_not_thirty() -> None:
    parts, whole = PhiloxStream(1), PhiloxStream(1)
    ten, twenty = parts.uniform((10,), np.float32), parts.uniform((20,), np.float32)
    thirty = whole.uniform((30,), np.float32)
    np.testing.assert_array_equal(ten, thirty[:10])
    assert (twenty != thirty[10:]).all()  # 10 took two blocks of 8: the second draw begins at 16
    np.testing.assert_array_equal(twenty[:14], thirty[16:])
