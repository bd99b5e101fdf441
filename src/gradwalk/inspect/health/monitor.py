"""Monitor: the health of a model while it is trained, every so many steps."""

from __future__ import annotations

import math
import os
from typing import Any, Self

import numpy as np

from gradwalk.engine.modes import state, switch
from gradwalk.inspect.health.checks import GRADIENTS_READ, RECURRENT, RELUS, SLOPES
from gradwalk.inspect.health.examination import HealthReport, examine
from gradwalk.inspect.health.findings import Limits
from gradwalk.inspect.health.update_history import UpdateHistory
from gradwalk.inspect.report import short
from gradwalk.inspect.trace.array_statistics import norm_of
from gradwalk.inspect.trace.live import is_torch_tensor
from gradwalk.inspect.trace.recorder import LightRecorder
from gradwalk.inspect.trace.saved_for_backward import Holdings
from gradwalk.inspect.trace.trace import Edge

_COUNTED = frozenset((*SLOPES, *RELUS, *RECURRENT, "softmax"))
_ROWS = 4  # of a batch, for what is looked at inside recurrent ops
PANELS = ("gradient", "activation", "update", "dead", "saturated")


class _NoHoldings(Holdings):
    """Ignore what nodes save for backward."""

    def note_memory(self, edge: Edge, array: Any) -> None:
        """Nothing."""

    def note(self, index: int, node: Any) -> None:
        """Nothing."""


class _Step(LightRecorder):
    """Record one step; keep only norms of what the monitor does not read."""

    def __init__(self, monitor: Monitor, step: int) -> None:
        super().__init__(GRADIENTS_READ)
        self.holdings = _NoHoldings(self.trace)
        self.monitor = monitor
        self.step = step

    def _refers(self, what: str, index: int) -> bool:
        node = self.trace.nodes[index]
        if what == "values" and not node.is_leaf:
            return node.op in _COUNTED
        return super()._refers(what, index)

    def made(self, op: Any, args: tuple[Any, ...], *rest: Any, **options: Any) -> None:
        """Record an operation; reference the saved operands of a recurrent op."""
        super().made(op, args, *rest, **options)
        if op.name in RECURRENT:
            node = rest[1][0]._node
            saved = getattr(node, "saved", None)
            for name, edge in zip(op.inputs, args):
                if isinstance(saved, dict) and isinstance(edge, Edge) and name in saved:
                    self.trace.nodes[edge.node].values[edge.output] = saved[name]

    def swept(self) -> None:
        super().swept()
        self.monitor._stop()


class Monitor:
    """Examine every `every`-th training step automatically, and keep the history.

    Give it the model and the optimizer before training; `history` has one dictionary of floats per
    examined step (`HealthReport.metrics()` and the step's number), `report` the last report.
    Training is unaffected; `close()`, or the end of a `with` block, removes the monitor.

    >>> import gradwalk as gw
    >>> _ = gw.manual_seed(0)
    >>> model = gw.nn.Linear(4, 1)
    >>> optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    >>> with Monitor(model, optimizer, every=5) as monitor:
    ...     for _ in range(10):
    ...         optimizer.zero_grad()
    ...         model(gw.ones(8, 4)).square().mean().backward()
    ...         optimizer.step()
    >>> [int(row["step"]) for row in monitor.history]
    [0, 5]
    """

    def __init__(
        self, model: Any, optimizer: Any = None, every: int = 10, limits: Limits | None = None
    ) -> None:
        if every < 1:
            raise ValueError(f"every is a number of steps, at least 1, not {every!r}")
        if any(map(is_torch_tensor, model.parameters())):
            raise TypeError(
                "Monitor examines models of gradwalk. Fix, for a model of PyTorch: "
                "gradwalk.torch.LayerNumbers(model, optimizer) for the numbers of each layer, "
                "gradwalk.torch.watch(model, optimizer) for harmful steps, or gradwalk.health of a "
                "step inside gradwalk.torch.record()"
            )
        self.model = model
        self.optimizer = optimizer
        self.every = every
        self.limits = limits
        self.history: list[dict[str, float]] = []
        self.report: HealthReport | None = None
        self.step = 0
        self._recorder: _Step | None = None
        self._examined: _Step | None = None
        self._weights: dict[int, Any] = {}
        self._trained: set[str] = set()
        self._updates = UpdateHistory()
        self._rate: float | None = None  # of the last examined step
        self._handles = [model.register_forward_pre_hook(self._start)]
        if optimizer is not None:
            self._handles.append(optimizer.register_step_pre_hook(self._before_step))
            self._handles.append(optimizer.register_step_post_hook(self._after_step))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Remove the monitor from the model and the optimizer; the history stays."""
        self._stop()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @property
    def findings(self) -> list[Any]:
        """The findings of the last examined step."""
        return [] if self.report is None else self.report.findings

    # -- one step ----------------------------------------------------------------------------------

    def _start(self, model: Any, args: Any) -> None:
        """Start recording at a model call, if this step is due and nothing else records."""
        if not model.training or not state.here.grad_enabled or self._recorder is not None:
            return
        number = self.step
        if self.optimizer is None:  # without an optimizer, count calls instead of steps
            self.step += 1
        if number % self.every or self._examined is not None or state.here.watcher is not None:
            return
        self._recorder = recorder = _Step(self, number)
        switch(watcher=recorder)
        recorder.entered_module(model)  # so that the modules inside have their full names
        recorder.left()

    def _stop(self) -> None:
        """Stop recording, after backward or without one."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        if state.here.watcher is recorder:
            switch(watcher=None)
        if recorder.trace.sweeps:
            self._examined = recorder
            if self.optimizer is None:
                self._examine(None)

    def _before_step(self, optimizer: Any, args: Any, keywords: Any) -> None:
        """Copy the weights, to measure how far the step moves them."""
        self._stop()
        if self._examined is None:
            return
        trace = self._examined.trace
        self._trained = {
            name for name, p in self.model.named_parameters() if p._grad is not None
        }  # while gradients accumulate, only the first backward pass is recorded
        for parameter in self.model.parameters():
            index = trace.lookup(parameter)
            if index is not None and parameter._grad is not None and parameter._array.ndim > 1:
                before = parameter._array.copy()
                trace.nodes[index].values = [before]
                self._weights[index] = (parameter, before)

    def _after_step(self, optimizer: Any, args: Any, keywords: Any) -> None:
        self.step += 1
        if self._examined is None:
            return
        steps = {
            index: norm_of(parameter._array - before)
            for index, (parameter, before) in self._weights.items()
        }
        self._weights = {}
        self._examine(steps)

    def _examine(self, steps: dict[int, float] | None) -> None:
        assert self._examined is not None
        recorder, self._examined = self._examined, None
        self.report = report = examine(
            self.model,
            recorder.trace,
            self.optimizer,
            limits=self.limits,
            steps=steps or {},
            rows=_ROWS,
            trained=self._trained,
        )
        self._compare(report)
        row = {"step": float(recorder.step), **report.metrics()}
        for finding in report.findings:
            row[f"finding/{finding.kind}"] = row.get(f"finding/{finding.kind}", 0.0) + 1
        self.history.append(row)

    def _compare(self, report: HealthReport) -> None:
        """Say of an update that is too large whether it is a spike, and what made it one."""
        layers = [layer for layer in report.layers if layer.update is not None]
        ratios = [float(layer.update or 0.0) for layer in layers]
        groups = [] if self.optimizer is None else self.optimizer.param_groups
        rate = max((float(group["lr"]) for group in groups if "lr" in group), default=None)
        spikes = {layers[k].name: k for k in self._updates.standing_out(ratios)}
        for finding in report.findings:
            if finding.kind != "update" or finding.layer not in spikes:
                continue
            usual = self._updates.usual
            assert usual is not None
            times = ratios[spikes[finding.layer]] / float(usual[spikes[finding.layer]])
            finding.message += f", {short(times)} times the usual update"
            if rate and self._rate and rate / self._rate >= math.sqrt(times):
                finding.change = (
                    f"look at the schedule or the line that set the learning rate: it went from "
                    f"{short(self._rate)} to {short(rate)}"
                )
        if not spikes:
            self._updates.add(ratios)
            self._rate = rate

    # -- showing it --------------------------------------------------------------------------------

    def __str__(self) -> str:
        if self.report is None:
            return f"Monitor: no step examined yet (every {self.every} steps)"
        first, last = self.history[0], self.history[-1]
        lines = [f"Monitor: {len(self.history)} steps examined, every {self.every}"]
        if "loss" in first and "loss" in last:
            lines.append(f"loss {first['loss']:.4g} -> {last['loss']:.4g}")
        for kind in sorted({key for row in self.history for key in row if "finding/" in key}):
            steps = [int(row["step"]) for row in self.history if kind in row]
            name = kind.removeprefix("finding/")
            lines.append(f"{name}: {len(steps)} times, first at step {steps[0]}")
        return "\n".join([*lines, "", f"at step {int(last['step'])}: {self.report}"])

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the history into a file (.png, .svg, .pdf): one panel per kind of number."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError(
                "Monitor.plot draws with matplotlib, which is not installed. "
                "Fix: pip install 'gradwalk[plot]'; `monitor.history` has the numbers."
            ) from None
        if not self.history:
            raise ValueError("there is no history yet: train at least one step first")
        layers = [key for key in self.history[-1] if not key.startswith("finding/")]
        panels = [p for p in PANELS if any(key.endswith("/" + p) for key in layers)]
        figure = Figure(figsize=(9, 2.4 * (1 + len(panels))), layout="constrained")
        FigureCanvasAgg(figure)
        axes = np.atleast_1d(figure.subplots(1 + len(panels), 1, sharex=True))
        steps = [row["step"] for row in self.history]
        axes[0].plot(steps, [row.get("loss", math.nan) for row in self.history], color="black")
        axes[0].set_ylabel("loss")
        for axis, panel in zip(axes[1:], panels, strict=True):
            for key in (k for k in layers if k.endswith("/" + panel)):
                values = [row.get(key, math.nan) for row in self.history]
                axis.plot(steps, values, label=key.removesuffix("/" + panel), linewidth=1)
            if panel in ("gradient", "activation", "update"):
                axis.set_yscale("log", nonpositive="mask")
            if panel == "update":
                axis.axhspan(1e-3, 1e-2, color="0.9")  # where it should be
            axis.set_ylabel(panel)
        if len(panels) and len(axes[1].lines) <= 12:
            axes[1].legend(fontsize="x-small", ncols=3)
        axes[-1].set_xlabel("step")
        figure.savefig(path)
