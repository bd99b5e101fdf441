"""The introspection of a compiled function: explain(), source(), graph."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.introspect.tensor_names import source_names
from gradwalk.compiler.ir.listing import lines_of, listing
from gradwalk.graph.source import caller, source_line
from gradwalk.tensors.devices import CPU

if TYPE_CHECKING:
    from gradwalk.compiler.call.specialization import Specialization
    from gradwalk.compiler.introspect.explain import Explanation
    from gradwalk.inspect.trace.trace import Trace

FORMS = ("llvm", "assembly")


class PrintedText(str):
    """A string that a prompt shows as it is printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Introspection:
    """The part of `Compiled` that shows what was compiled: its newest program."""

    function: Any
    backend: str
    name: str
    names: list[str]
    specializations: dict[Any, list[Specialization]]
    newest: Specialization | None

    def _newest(self) -> Specialization:
        if self.newest is None:
            raise RuntimeError(
                f"{self.name} has not been compiled yet: its first call compiles it. "
                "Fix: call it once."
            )
        return self.newest

    def explain(self, *, time: bool = False) -> Explanation:
        """What was captured, and what runs: kernels, the ops fused into each, memory, FLOPs.

        With `time`, each kernel runs by itself on copies and made-up arguments; the shortest of
        five runs counts. Nothing of yours changes.

        >>> import gradwalk as gw
        >>> @gw.compile
        ... def f(x):
        ...     return (x * 2).exp().sum()
        >>> y = f(gw.ones(3))
        >>> f.explain().programs[0].kernels[0].ops
        ['mul', 'exp', 'sum']
        """
        from gradwalk.compiler.introspect.explain import explain

        return explain(self, self._newest(), time)  # type: ignore[arg-type]

    def backend_on(self, device: Any) -> str:
        """The backend of programs that run on a device."""
        return self.backend if device == CPU else "xla"

    def source(self, kernel: int | None = None, form: str | None = None) -> PrintedText:
        """The kernels as LLVM text and as this machine's assembly: all, or the one with this number
        in `explain()`. `form` is "llvm" or "assembly"; by default both."""
        check_form(form)
        newest = self._newest()
        executable = newest.executable
        if executable.plan is None:
            backend = self.backend_on(newest.trace.device)
            how = "its code is not shown yet" if backend == "xla" else "op by op: there is no code"
            return PrintedText(f"; {self.name} is run by {backend}, {how}")
        kernels = executable.kernels
        if kernel is not None and not -len(kernels) <= kernel < len(kernels):
            raise IndexError(f"there is no kernel {kernel}: explain() has {len(kernels)}")
        chosen = range(len(kernels)) if kernel is None else [kernel % len(kernels)]
        parts: dict[str, str] = {}  # by function: several kernels may be one
        for number in chosen:
            one = kernels[number]
            if one is None:
                reason = executable.reasons[number]
                parts[f"NumPy {number}"] = f"; kernel {number} runs in NumPy: {reason}"
            elif one.name not in parts:
                same = [k for k in chosen if getattr(kernels[k], "name", None) == one.name]
                head = f"; kernel {', '.join(map(str, same))}\n"
                parts[one.name] = head + code_of(one, form)
        return PrintedText("\n\n".join(parts.values()))

    @property
    def graph(self) -> Trace:
        """The program as a trace, for `gradwalk.studio.show` and the tools of `inspect`.

        It is the program that runs, after all passes: forward, backward and optimizer in one
        graph, and every kernel a group. Its arrays have shapes and no numbers, since no call is
        recorded; those of `graph_of(*arguments)` have.
        """
        from gradwalk.compiler.introspect.program_trace import trace_of

        return trace_of(self, self._newest())  # type: ignore[arg-type]

    def graph_of(self, *args: Any, **keywords: Any) -> Trace:
        """The same with the numbers of one call, computed op by op by NumPy. Nothing changes that
        the function would change."""
        from gradwalk.compiler.introspect.program_trace import trace_of

        return trace_of(self, self._newest(), (args, keywords))  # type: ignore[arg-type]

    @property
    def program(self) -> PrintedText:
        """The traced program, before all passes, as text."""
        trace = self._newest().trace
        return PrintedText(listing(trace.program, source_names(self, trace)))


def check_form(form: str | None) -> None:
    """Reject unknown forms."""
    if form not in (None, *FORMS):
        raise ValueError(f"form is one of {', '.join(FORMS)}, not {form!r}")


def code_of(kernel: Any, form: str | None) -> str:
    """One function as LLVM text, as assembly, or as both."""
    from gradwalk.compiler.backends.llvm.runtime.object_code import assembly

    parts = [] if form == "assembly" else [kernel.text]
    if form != "llvm":
        parts.append(assembly({kernel.name: kernel.text}, kernel.declarations))
    return "\n".join(part.rstrip("\n") for part in parts)


def warn_of_numpy(name: str, executable: Any) -> bool:
    """Warn of ops that have no native kernel; return whether there are some."""
    reasons: dict[int, str] = getattr(executable, "reasons", {})
    if not reasons:
        return False
    lines = []
    for number, reason in reasons.items():
        locations = lines_of(executable.plan.entries[number].calls)
        lines += [f"  {location}\n    {reason}" for location in locations] or [f"  {reason}"]
    message = "\n".join(
        [
            f"{name} needs ops that have no native kernel:",
            *dict.fromkeys(lines),
            "NumPy runs them between the native kernels, with the same results "
            "(docs/compile/native-ops.md).",
        ]
    )
    line = source_line(*caller())
    if line is None:
        warnings.warn(message, UserWarning, stacklevel=2)
    else:
        warnings.warn_explicit(message, UserWarning, line.file, line.line)
    return True
