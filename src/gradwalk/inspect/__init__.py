"""See inside: record a computation, step through it, reorder it, ask why.

Every tool reads a trace (`trace.py`), takes what to explain first and the loss or the trace
second, and returns a small report (`report.py`).
"""

from gradwalk.inspect.diff.diff import diff as diff
from gradwalk.inspect.diff.side_by_side import side_by_side as side_by_side
from gradwalk.inspect.doctor.doctor import doctor
from gradwalk.inspect.expression.parser import expression
from gradwalk.inspect.health.health import health
from gradwalk.inspect.health.monitor import Monitor
from gradwalk.inspect.memory.saved_memory import saved_memory
from gradwalk.inspect.mistakes import bugs
from gradwalk.inspect.mistakes.audit import audit
from gradwalk.inspect.mistakes.compare import compare
from gradwalk.inspect.mistakes.gradcheck import gradcheck, gradgradcheck
from gradwalk.inspect.nan.find_nan import find_nan
from gradwalk.inspect.no_grad.why_no_grad import why_no_grad
from gradwalk.inspect.open.element import element
from gradwalk.inspect.open.open_op import open_op, unfolded
from gradwalk.inspect.order.lab import every_order, run_order, run_recipes
from gradwalk.inspect.show import show
from gradwalk.inspect.trace.file import load_trace, save_trace
from gradwalk.inspect.trace.recorder import record, scope
from gradwalk.inspect.trace.trace import Edge, Group, Sweep, Trace, TraceNode
from gradwalk.inspect.walk.walk import Walk, walk
from gradwalk.inspect.why.derive import derive
from gradwalk.inspect.why.nudge import nudge
from gradwalk.inspect.why.why import why
from gradwalk.nn import composites as _composites  # noqa: F401, a trace may have nodes of these

__all__ = [
    "Edge", "Group", "Monitor", "Sweep", "Trace", "TraceNode", "Walk", "audit", "bugs",
    "compare", "derive", "doctor", "element", "every_order", "expression", "find_nan", "gradcheck",
    "gradgradcheck", "health",
    "load_trace", "nudge", "open_op", "record", "run_order", "run_recipes", "save_trace",
    "saved_memory", "scope", "show", "unfolded", "walk", "why", "why_no_grad",
]  # fmt: skip
