"""See inside: record a computation, step through it, reorder it, ask why.

Every tool reads a trace (`trace.py`), takes what to explain first and the loss or the trace
second, and returns a small report (`report.py`).
"""

from gradwalk.inspect import bugs
from gradwalk.inspect.audit import audit
from gradwalk.inspect.compare import compare
from gradwalk.inspect.derive import derive
from gradwalk.inspect.elements import element
from gradwalk.inspect.expressions import expression
from gradwalk.inspect.files import load_trace, save_trace
from gradwalk.inspect.find_nan import find_nan
from gradwalk.inspect.health import Monitor, health
from gradwalk.inspect.nudge import nudge
from gradwalk.inspect.opening import open_op, unfolded
from gradwalk.inspect.order import every_order, run_order, run_recipes
from gradwalk.inspect.recorder import record, scope
from gradwalk.inspect.saved_memory import saved_memory
from gradwalk.inspect.show import show
from gradwalk.inspect.trace import Edge, Group, Sweep, Trace, TraceNode
from gradwalk.inspect.walk import Walk, walk
from gradwalk.inspect.why import why
from gradwalk.inspect.why_no_grad import why_no_grad
from gradwalk.nn import composites as _composites  # noqa: F401, a trace may have nodes of these

__all__ = [
    "Edge", "Group", "Monitor", "Sweep", "Trace", "TraceNode", "Walk", "audit", "bugs",
    "compare", "derive", "element", "every_order", "expression", "find_nan", "health",
    "load_trace", "nudge", "open_op", "record", "run_order", "run_recipes", "save_trace",
    "saved_memory", "scope", "show", "unfolded", "walk", "why", "why_no_grad",
]  # fmt: skip
