"""The introspection of a compiled function: explain(), source(), graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.introspect.tensor_names import source_names
from gradwalk.compiler.ir.listing import lines_of, listing
from gradwalk.graph.source import caller, source_line
from gradwalk.tensors.devices import CPU

if TYPE_CHECKING:
    from gradwalk.compiler.call.specialization import Specialization
    from gradwalk.compiler.introspect.explain import Explanation
    from gradwalk.inspect.trace.trace import Trace

FORMS = {"llvm": ("llvm", "assembly"), "xla": ("stablehlo", "hlo")}  # of code, by backend


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
        """The code of the newest program, in one form or, by default, in both.

        Kernels are LLVM text and this machine's assembly (`form` is "llvm" or "assembly"): all, or
        the one with this number in `explain()`. A program on a device is one piece: the StableHLO
        that XLA was given, and the HLO that it made of it ("stablehlo" or "hlo").
        """
        newest = self._newest()
        executable = newest.executable
        backend = self.backend_on(newest.trace.device)
        check_form(form, backend)
        if backend == "xla":
            if kernel is not None:
                raise IndexError(f"there is no kernel {kernel}: XLA compiles the whole step as one")
            return PrintedText(executable.text(form))
        if executable.plan is None:
            return PrintedText(f"; {self.name} is run by {backend}, op by op: there is no code")
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


def check_form(form: str | None, backend: str = "llvm") -> None:
    """Reject forms that the code of a backend does not have."""
    forms = FORMS.get(backend, FORMS["llvm"])
    if form not in (None, *forms):
        raise ValueError(f"form is one of {', '.join(forms)}, not {form!r}")


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
    _warn_at_call(message)
    return True


def warn_of_shapes(name: str, before: Sequence[Any], now: Sequence[Any], names: list[str]) -> None:
    """Warn that XLA compiles a function once more because arguments have other shapes; both
    sequences have the `TensorSignature` of each tensor."""
    changes = [
        f"{argument} is {new.shape}, and was {old.shape}"
        for argument, old, new in zip(names, before, now, strict=True)
        if old.shape != new.shape
    ]
    _warn_at_call(
        f"{name} is compiled once more, for other shapes: {'; '.join(changes)}. On a device each "
        "shape is a program of its own, which takes seconds to compile. Fix: pad to a few sizes; "
        "if the last batch is smaller, DataLoader(..., drop_last=True) leaves it out. This is said "
        "once for each function."
    )


def _warn_at_call(message: str) -> None:
    """Warn at the user's line that called the compiled function."""
    line = source_line(*caller())
    if line is None:
        warnings.warn(message, UserWarning, stacklevel=3)
    else:
        warnings.warn_explicit(message, UserWarning, line.file, line.line)
