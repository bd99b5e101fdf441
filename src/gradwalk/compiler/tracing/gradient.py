"""The gradient of a compiled function whose result is differentiated outside of it.

When the function returns tensors with a graph, the walk runs once more on abstract gradients of
its results. Everything it computes is a second program; what it needs of the first (its residuals)
are sources or further results of that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.ir.program import (
    Argument,
    Builder,
    Call,
    Constant,
    Operand,
    Program,
    Term,
    rewrite,
)
from gradwalk.compiler.passes.simplify import drop_unused
from gradwalk.compiler.tracing.traced import Traced
from gradwalk.engine import gradients
from gradwalk.engine.backward import walk
from gradwalk.engine.errors import AutogradError
from gradwalk.engine.modes import no_grad
from gradwalk.ops.shape.reshaping import clone

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.tracer import Tracer


@dataclass(eq=False)
class Gradient:
    """How to differentiate: the second program, and what goes in and out of it."""

    program: Program  # its arguments: the residuals, then the gradients of the outputs
    leaves: list[Any]  # locations of the tensors that receive its results
    residuals: list[Term]  # terms of the first program
    outputs: list[int]  # slots of the tensors whose gradients go in
    reached: list[frozenset[int]]  # of each leaf: the outputs (positions) that depend on it
    # Of each residual that is no source as it is before the call: which result it is.
    among_results: dict[int, int] = field(default_factory=dict)
    # Outputs whose backward raises, as it would without compiling: the slot and the error.
    broken: list[tuple[int, str]] = field(default_factory=list)
    reachable: list[Any] = field(default_factory=list)  # locations of all that need a gradient


def differentiate(tracer: Tracer, outputs: list[tuple[int, Any]]) -> Gradient:
    """Walk from the outputs (slot, tensor) to the tensors from outside that need a gradient.

    An output that cannot be differentiated, since the function changed in place what its gradient
    needs, fails only if backward is called on it.
    """
    wanted = {
        captured.tensor: captured.location
        for captured in tracer.captured.values()
        if captured.tensor._requires_grad and captured.tensor._node is None
    }
    try:
        return _gradient(tracer, outputs, wanted)
    except AutogradError:
        sound: list[tuple[int, Any]] = []
        broken: list[tuple[int, str]] = []
    for output in outputs:
        try:
            _gradient(tracer, [output], wanted)
        except AutogradError as error:
            broken.append((output[0], str(error)))
        else:
            sound.append(output)
    gradient = _gradient(tracer, sound, wanted)
    gradient.broken, gradient.reachable = broken, list(wanted.values())
    return gradient


def _gradient(tracer: Tracer, outputs: list[tuple[int, Any]], wanted: dict[Any, Any]) -> Gradient:
    first = len(tracer.build.calls)
    seeds = [Term(t.shape, t.dtype, source=Argument(i)) for i, (_, t) in enumerate(outputs)]
    roots = [
        (tensor._node, tensor._index, Traced(tracer, seed))
        for (_, tensor), seed in zip(outputs, seeds, strict=True)
    ]
    arrived: dict[Any, Any] = {}  # gradients, by tensor
    hooks = {tensor: tensor.hooks for tensor in wanted if tensor.hooks}
    for tensor in hooks:  # to be called when the gradient arrives there, outside
        tensor.hooks = None
    try:
        with no_grad(), _unchanged(tracer):
            walk(roots, arrived.__setitem__, gradients.wrap, wanted=set(wanted), retain=True)
    except AutogradError:
        del tracer.build.calls[first:]
        raise
    finally:
        for tensor, functions in hooks.items():
            tensor.hooks = functions
    terms: list[Term] = []
    for g in arrived.values():  # each result is made by this program, in memory of its own
        made = g.term.call in tracer.build.calls[first:] and g.term not in terms
        terms.append(g.term if made else tracer.call(clone, [g.term], {}))
    calls = tracer.build.calls[first:]
    del tracer.build.calls[first:]
    program = drop_unused(Program(calls, terms))
    residuals = [t for t in _given(program) if t not in seeds]
    sources = {
        term: Term(term.shape, term.dtype, source=Argument(position))
        for position, term in enumerate([*residuals, *seeds])
    }

    def given(call: Call, args: Sequence[Operand], build: Builder) -> Sequence[Term]:
        return build.again(call, [sources.get(a, a) if isinstance(a, Term) else a for a in args])

    return Gradient(
        program=rewrite(program, given),
        leaves=[wanted[tensor] for tensor in arrived],
        residuals=residuals,
        outputs=[slot for slot, _ in outputs],
        reached=_reached(program, seeds),
    )


@contextmanager
def _unchanged(tracer: Tracer) -> Iterator[None]:
    """Keep captured memory as the function left it: what the walk computes is not part of the first
    program. A checkpointed region draws its random numbers again, and then puts the generator back.
    """
    before = [(s.traced, s.traced._term) for s in tracer.storages.values()]
    streams = [(stream, stream.blocks) for stream in tracer.streams.values()]
    try:
        yield
    finally:  # the walk may fail in the middle, and then another one is tried
        states = {id(stream.state) for stream, _ in streams}
        changed = [t for t, term in before if t._term is not term and id(t) not in states]
        for traced, term in before:
            traced._term = term
        for stream, blocks in streams:
            stream.blocks = blocks
    if changed:
        raise AutogradError(
            f"backward of a compiled function would change {changed[0]!r}: it runs a checkpointed "
            "region again, which changes that tensor in place.\n"
            "Fix: call backward inside the compiled function, or take the change out of checkpoint."
        )


def _reached(program: Program, seeds: list[Term]) -> list[frozenset[int]]:
    """For each result, the seeds that it is computed from."""
    behind: dict[Term, frozenset[int]] = {s: frozenset([i]) for i, s in enumerate(seeds)}
    for call in program.calls:
        found = frozenset[int]().union(*(behind.get(t, frozenset()) for t in call.terms))
        behind.update(dict.fromkeys(call.outputs, found))
    return [behind.get(term, frozenset()) for term in program.results]


def _given(program: Program) -> list[Term]:
    """What the calls use and none of them makes, except constants."""
    made = {t for call in program.calls for t in call.outputs}
    used = dict.fromkeys(t for call in program.calls for t in call.terms if t not in made)
    return [t for t in used if not isinstance(t.source, Constant)]
