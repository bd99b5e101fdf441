"""Batches of a mesh: each process reads its own rows, and together they are one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any
from zlib import crc32

import numpy as np

from gradwalk.distributed.mesh import Mesh
from gradwalk.engine.guest_loaders import loaders
from gradwalk.engine.tree import mapped
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor


class GlobalBatches:
    """Forms batches whose rows are divided over the axis "data" of a mesh, or its first axis.

    Every process goes through the same indices and reads the samples of its own rows, so the batch
    is that of one process, row by row.
    """

    def __init__(self, mesh: Mesh) -> None:
        if not isinstance(mesh, Mesh):
            raise TypeError(f"mesh is a gw.Mesh, not {mesh!r}")
        self.mesh = mesh
        self.axis = "data" if "data" in mesh.shape else next(iter(mesh.shape))
        self.machine = loaders["xla"]().machine(mesh)

    def check_sizes(self, batch_size: int | None, samples: int | None, drop_last: bool) -> None:
        """Raise now if a batch of an epoch cannot be divided, not when it comes."""
        if batch_size is None:
            raise ValueError("mesh divides batches. Fix: set batch_size")
        self._check(batch_size, "batch_size", "Fix: a multiple of it.")
        rest = 0 if samples is None or drop_last else samples % batch_size
        self._check(rest, "the size of the last batch", "Fix: drop_last=True.")

    def _check(self, rows: int, what: str, fix: str) -> None:
        parts = self.mesh.parts(self.axis)
        if rows % parts:
            raise ValueError(
                f"{what}, {rows}, cannot be divided by axis {self.axis!r} of {self.mesh!r} into "
                f"{parts} equal parts.\n{fix}"
            )

    def of(self, groups: Iterator[Any], make: Callable[[Any], Any]) -> Iterator[Any]:
        """A batch for each group of indices or samples; `make` makes it of the rows here."""
        if self.machine.processes > 1:
            groups = self._compared(groups)
        return (self._formed(group, make) for group in groups)

    def _compared(self, groups: Iterator[Any]) -> Iterator[Any]:
        """Raise if another process begins with other indices."""
        first = list(islice(groups, 1))
        if first and all(isinstance(index, int) for index in first[0]):
            found = self.machine.from_every_process(crc32(repr(first[0]).encode()))
            if len(set(found)) > 1:
                raise RuntimeError(
                    "the processes visit the samples in different orders, so their rows do not "
                    "make up batches.\nFix: call gw.manual_seed with the same number in all of "
                    "them, or give the loaders generators with one seed."
                )
        return chain(first, groups)

    def _formed(self, group: Any, make: Callable[[Any], Any]) -> Any:
        count = len(group)
        self._check(count, "the size of a batch", "Fix: drop_last=True, or other batches.")
        rows = self.machine.rows_here(count, self.axis)
        here = sum(stop - start for start, stop in rows)
        made = make(group if here == count else list(_rows(group, rows)))

        def placed(part: Any) -> Any:
            if not isinstance(part, Tensor):
                return part
            local = np.asarray(part._array)
            if not local.ndim or len(local) != here:
                raise ValueError(
                    f"a batch of {here} samples has a tensor of shape {tuple(part.shape)}, whose "
                    "first dimension is not the samples.\nFix: a collate_fn that puts it first."
                )
            return wrap(self.machine.from_rows(local, rows, count, self.axis))

        return mapped(placed, made)


def _rows(group: Any, rows: Iterable[tuple[int, int]]) -> Iterator[Any]:
    for start, stop in rows:
        yield from group[start:stop]
