"""The programs of `problems.py` in gradwalk, compiled."""

from __future__ import annotations

import os
from typing import Any

import llvmlite.binding  # noqa: F401
from models import start

import gradwalk
import gradwalk.compiler.backends.llvm.backend
import gradwalk.compiler.call.specialization

# Imports of the first compilation, such as llvmlite, count as import time.
import gradwalk.compiler.compiled_function
import gradwalk.compiler.tracing.trace_function

from . import Answer, Begin, Step
from .problems import PROBLEMS


def prepare(name: str, rate: float, *, compiled: bool = True) -> Begin:
    gradwalk.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    problem = PROBLEMS[name]
    model, inputs, labels = start(gradwalk, problem.network, "float32")
    x, y = gradwalk.tensor(inputs), gradwalk.tensor(labels)
    optimizer = problem.network.optimizer(gradwalk, model.parameters(), rate)

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = problem.loss(gradwalk, model, x, y)
        loss.backward()
        optimizer.step()
        return loss

    def begin() -> Step:
        step: Any = gradwalk.compile(train) if compiled else train

        def run() -> Answer:
            return step(x, y).item

        if compiled:  # it keeps its arena between steps
            run.working_memory = lambda: step.explain().programs[0].arena  # type: ignore[attr-defined]
        return run

    return begin
