"""Recorded graphs of Values as native code: steps, rows of lanes, a tape of kernel calls."""

from gradwalk.compiler.scalars.replay import Replay, compile_values

__all__ = ["Replay", "compile_values"]
