"""Numbers drawn from a text: the same on every machine and in every release.

The words come from the library's own counter-based generator (`gradwalk/random/philox.py`), whose
integers are the same bits everywhere; a text such as a student's name becomes a seed by a hash.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from typing import TypeVar

from gradwalk.random.philox import PhiloxStream

T = TypeVar("T")


class ChoiceStream:
    """A stream of choices.

    >>> draw = ChoiceStream("Ada")
    >>> [draw.integer(1, 6) for _ in range(5)]
    [1, 4, 2, 3, 1]
    >>> ChoiceStream("Ada").shuffled("abcd") == ChoiceStream("Ada").shuffled("abcd")
    True
    """

    def __init__(self, seed: str) -> None:
        # The same name typed on another keyboard may be spelled with other code points.
        text = unicodedata.normalize("NFC", seed).encode()
        key = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        self._stream = PhiloxStream(key)
        self._words: list[int] = []

    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        if not self._words:
            self._words = [int(word) for word in self._stream.words(64)][::-1]
        return low + (self._words.pop() * (high - low + 1) >> 64)

    def choice(self, things: Sequence[T]) -> T:
        """One of the things."""
        return things[self.integer(0, len(things) - 1)]

    def shuffled(self, things: Sequence[T]) -> list[T]:
        """All of the things, in some order."""
        left = list(things)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(len(left))]
