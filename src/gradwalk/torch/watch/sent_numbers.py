"""Read numbers from a device without waiting for it."""

from __future__ import annotations

from typing import Any

import torch


class Sent:
    """Numbers on their way from a device to the host. Sending them does not wait."""

    def __init__(self, vector: torch.Tensor, before: Sent | None = None) -> None:
        """`before`: an earlier one, read by now, whose memory may be used again."""
        self._event: Any = None
        if vector.is_cpu:
            self._host = vector
            return
        if before is not None and before._fits(vector):
            self._host, self._event = before._host, before._event
        else:
            self._host = torch.empty(vector.shape, dtype=vector.dtype, pin_memory=True)
            self._event = torch.get_device_module(vector.device).Event()
        self._host.copy_(vector, non_blocking=True)
        self._event.record()

    def _fits(self, vector: torch.Tensor) -> bool:
        host = self._host
        return self._event is not None and (host.shape, host.dtype) == (vector.shape, vector.dtype)

    @property
    def has_arrived(self) -> bool:
        """Whether reading the numbers would not wait."""
        return self._event is None or bool(self._event.query())

    def numbers(self) -> list[float]:
        """The numbers."""
        if self._event is not None:
            self._event.synchronize()
        return list(self._host.tolist())
