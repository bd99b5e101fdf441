"""Apple's GPUs, which are not used here: programs ask whether they are there."""

from gradwalk.xpu import device_count, empty_cache, is_available, manual_seed, synchronize

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]
