"""Compare an imported graph with PyTorch: each step by itself, then the whole.

Each step is compared on the operands of PyTorch's own run, so that an error names the wrong step
and not a later one. What differs in float32 is compared again in float64: a difference that shrinks
with the precision is rounding, as where a gradient is a small sum of large numbers, or where a relu
meets a number that rounding alone takes across 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from gradwalk.engine.gradients import grad
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.torch import private
from gradwalk.torch.imports.graph_steps import Drawn, GraphStep, ValueSource, tensor_of
from gradwalk.torch.imports.torch_export import STOP, learned
from gradwalk.torch.translate import Made
from gradwalk.torch.values import array_of

if TYPE_CHECKING:
    from gradwalk.torch.imports.import_graph import Imported

TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}  # relative to the largest element
HALF = 2e-2  # for float16 and bfloat16


# Float64 has 5e8 times the precision of float32; a mistake differs by the same amount in both.
SHRINKS = 1e-5


class Mismatch(ValueError):
    """The value or gradient of an imported operation differs from PyTorch's."""

    def __init__(self, message: str, apart: float = math.inf) -> None:
        super().__init__(message)
        self.apart = apart  # the largest difference


class Allowance(NamedTuple):
    """How far two arrays may be apart."""

    relative: float | None = None  # × the largest element; None for that of the dtype
    absolute: float = 0.0

    def of_float64(self, mismatch: Mismatch) -> Allowance:
        """The tolerance for the same in float64; raise the mismatch if there is none."""
        if self.relative is not None or not math.isfinite(mismatch.apart):
            raise mismatch
        return Allowance(None, SHRINKS * mismatch.apart)


def check_steps(imported: Imported, tolerance: float | None) -> Drawn:
    """Compare every step; return the random numbers that PyTorch drew."""
    drawn: Drawn = {}
    values = dict(_inputs(imported))
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        for step in imported._steps:
            args, kwargs = _filled(step.given, values)
            with torch.no_grad():
                outputs = _tensors(step.func(*args, **kwargs))
            for k, output in enumerate(outputs):
                values[ValueSource(step.name, k)] = output
            if step.draws is not None:
                drawn[step.name] = tensor_of(outputs[0])
            for made in step.args:
                if isinstance(made, Made):
                    drawn[step.name] = tensor_of(outputs[made.output])
            if step.op is not None:
                allowed = Allowance(tolerance)
                try:
                    _check_step(step, values, drawn, generator, allowed)
                except Mismatch as mismatch:
                    allowed = allowed.of_float64(mismatch)
                    _check_in_float64(step, values, generator, allowed, mismatch)
    return drawn


def _check_in_float64(
    step: GraphStep,
    values: dict[ValueSource, Any],
    generator: torch.Generator,
    tolerance: Allowance,
    mismatch: Mismatch,
) -> None:
    """Compare a step once more, on the same operands in float64; raise what float32 gave."""
    operands = {place: _double(value) for place, value in values.items() if place in step.args}
    try:
        args, kwargs = _filled(step.given, {**values, **operands})
        with torch.no_grad():
            outputs = _tensors(step.func(*args, **kwargs))
        operands |= {ValueSource(step.name, k): output for k, output in enumerate(outputs)}
        _check_step(step, operands, {}, generator, tolerance)
    except (Mismatch, RuntimeError, KeyError):  # the operation may not take these dtypes
        raise mismatch from None


def _double(value: Any) -> Any:
    is_float32 = isinstance(value, torch.Tensor) and value.dtype == torch.float32
    return value.double() if is_float32 else value


def _inputs(imported: Imported) -> Iterator[tuple[ValueSource, Any]]:
    """The inputs of the graph as PyTorch tensors."""
    for place, example in imported._arguments:
        if place is not None:
            yield place, example.detach()
    held = {place: getattr(part, name) for place, (part, name) in imported._held.items()}
    for place, tensor in {**held, **imported._constants}.items():
        copied = torch.from_numpy(tensor.detach().numpy().copy())
        yield place, torch.view_as_complex(copied) if place in imported._complex else copied


def _filled(given: Any, values: dict[ValueSource, Any]) -> Any:
    """Arguments with sources replaced by values."""
    if isinstance(given, ValueSource):
        return values[given]
    if isinstance(given, dict):
        return {name: _filled(item, values) for name, item in given.items()}
    if isinstance(given, (list, tuple)):
        return type(given)(_filled(item, values) for item in given)
    return given


def _check_step(
    step: GraphStep,
    values: dict[ValueSource, Any],
    drawn: Drawn,
    generator: torch.Generator,
    tolerance: Allowance,
) -> None:
    places = [a for a in dict.fromkeys(step.args) if isinstance(a, ValueSource)]
    ours = {place: tensor_of(values[place]) for place in places}
    leaves = {}
    for place in places:
        if _is_differentiable(values[place]):
            ours[place].requires_grad = True
            leaves[place] = values[place].clone().requires_grad_()
    step.run(ours, drawn)
    ours_out = [ours[ValueSource(step.name, k)] for k in step.outputs]
    expected = [values[ValueSource(step.name, k)] for k in step.outputs]
    for k, (mine, theirs) in enumerate(zip(ours_out, expected, strict=True)):
        what = "value" if len(ours_out) == 1 else f"value of output {k}"
        _compare(mine.detach().numpy(), theirs, f"the {what} of {step.where()}", tolerance)
    if any(isinstance(a, Made) for a in step.args):
        return  # a new draw would differ: its gradient is checked with the whole
    if not any(map(_is_differentiable, expected)):
        return  # integers have no gradients
    outputs = _with_graph(step, values, leaves)
    seeds = [_seed(t, generator) for t in outputs]
    operands = [(f"operand {place.name}", ours[place], leaf) for place, leaf in leaves.items()]
    _compare_gradients(ours_out, outputs, seeds, operands, step.where(), tolerance)


def _with_graph(
    step: GraphStep, values: dict[ValueSource, Any], leaves: dict[ValueSource, Any]
) -> list[Any]:
    """Recompute our outputs with a graph to the operands that can have gradients."""
    while True:
        try:
            args, kwargs = _filled(step.given, {**values, **leaves})
            outputs = _tensors(step.func(*args, **kwargs))
            return [outputs[k] for k in step.outputs]
        except RuntimeError as error:
            refused = re.search(r"with respect to argument '(\w+)'", str(error))
            if refused is None:
                raise
            names = [a.name for a in step.func._schema.arguments]
            given = dict(zip(names, step.given[0], strict=False)) | step.given[1]
            del leaves[given[refused[1]]]


def _compare_gradients(
    mine: Sequence[Any],
    theirs: Sequence[Any],
    seeds: Sequence[Any],
    leaves: Sequence[tuple[str, Any, Any]],
    where: str,
    tolerance: Allowance,
    to_the_largest: bool = False,
) -> None:
    """Compare the gradients of leaves (name, ours, PyTorch's) of the outputs that have a graph."""
    graphs = [
        (one, other, seed)
        for one, other, seed in zip(mine, theirs, seeds, strict=True)
        if one.requires_grad and other.requires_grad
    ]
    if not graphs or not leaves:
        return
    my_roots, their_roots, kept_seeds = zip(*graphs)
    names, my_leaves, their_leaves = zip(*leaves)
    try:
        gradients = torch.autograd.grad(their_roots, their_leaves, kept_seeds, allow_unused=True)
    except (RuntimeError, NotImplementedError) as error:
        if "derivative for" not in str(error):
            raise
        return  # PyTorch has no rule
    expected = [
        torch.zeros_like(leaf) if g is None else g.to_dense() if g.is_sparse else g
        for leaf, g in zip(their_leaves, gradients, strict=True)
    ]
    ours = grad(my_roots, my_leaves, list(map(tensor_of, kept_seeds)), materialize_grads=True)
    largest = max(map(_largest, expected)) if to_the_largest else 0.0
    for name, one, other in zip(names, ours, expected, strict=True):
        _compare(one.numpy(), other, f"the gradient of {name} of {where}", tolerance, largest)


# -- the whole -------------------------------------------------------------------------------------


def check_whole(
    imported: Imported, module: torch.nn.Module, drawn: Drawn, tolerance: float | None
) -> None:
    """Compare outputs and gradients with the module; if it draws random numbers, with its graph."""
    allowed = Allowance(tolerance)
    try:
        _check_whole(imported, module, imported._example, drawn, allowed)
    except Mismatch as mismatch:
        allowed = allowed.of_float64(mismatch)
        held = [*imported.parameters(), *imported.buffers()]
        if any(is_floating(t.dtype) and t.dtype != np.float32 for t in held):
            raise
        leaves, spec = private.flattened(imported._example)
        example = private.rebuilt([_double(leaf) for leaf in leaves], spec)
        imported.double()
        try:
            _check_whole(imported, None, example, drawn, allowed)
        except (Mismatch, RuntimeError):
            raise mismatch from None
        finally:
            imported.float()


def _check_whole(
    imported: Imported,
    module: torch.nn.Module | None,
    example: tuple[Any, Any],
    drawn: Drawn,
    tolerance: Allowance,
) -> None:
    """Compare with the module; without one, or if it draws random numbers, with its graph."""
    given, spec = private.flattened(example)
    made: dict[int, tuple[Any, Any]] = {}  # an argument given twice stays one tensor
    for thing in given:
        if id(thing) not in made:
            made[id(thing)] = _twins(thing) if isinstance(thing, torch.Tensor) else (thing, thing)
    twins = [made[id(thing)][0] for thing in given]
    ours_given = [made[id(thing)][1] for thing in given]
    with torch.enable_grad(), torch.random.fork_rng():
        if drawn or module is None:
            theirs, sources = _run_graph(imported, twins, drawn)
        else:
            # On copies of the buffers, so that running statistics stay unchanged.
            buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
            args, kwargs = private.rebuilt(twins, spec)
            output = torch.func.functional_call(module, buffers, args, kwargs)
            theirs = private.flattened(output)[0]
            sources = learned(module)
    values = imported._run(private.rebuilt(ours_given, spec), drawn)
    mine = [values[r] if isinstance(r, ValueSource) else r for r in imported._results]
    graphs = []
    for k, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if isinstance(other, torch.Tensor):
            _compare(one.detach().numpy(), other, f"output {k} of {imported._name}", tolerance)
            if other.requires_grad and not one.requires_grad:
                raise Mismatch(f"output {k} of {imported._name} has a graph in PyTorch, not here")
            if other.requires_grad:
                graphs.append((one, other))
    leaves = _leaves_of_whole(imported, ours_given, twins, sources)
    generator = torch.Generator().manual_seed(1)
    seeds = [_seed(t, generator) for _, t in graphs]
    ours, expected = [one for one, _ in graphs], [other for _, other in graphs]
    _compare_gradients(ours, expected, seeds, leaves, imported._name, tolerance, True)


def _leaves_of_whole(
    imported: Imported, ours_given: Sequence[Any], twins: Sequence[Any], sources: dict[str, Any]
) -> list[tuple[str, Any, Any]]:
    """The arguments and parameters with gradients: name, ours, PyTorch's."""
    leaves: list[tuple[str, Any, Any]] = []
    for k, (one, twin) in enumerate(zip(ours_given, twins, strict=True)):
        given_before = any(twin is known for _, _, known in leaves)
        if isinstance(twin, torch.Tensor) and twin.requires_grad and not given_before:
            leaves.append((f"argument {k}", one, twin))
    for name, parameter in imported.named_parameters():
        source = sources.get(name)
        if parameter.requires_grad and source is not None and source.requires_grad:
            leaves.append((name, parameter, source))
    return leaves


def _run_graph(
    imported: Imported, twins: list[Any], drawn: Drawn
) -> tuple[list[Any], dict[str, Any]]:
    """Run the graph in PyTorch with the random numbers drawn before."""
    values = dict(_inputs(imported))
    places = [place for place, _ in imported._arguments]
    values |= {p: t for p, t in zip(places, twins, strict=True) if p is not None}
    sources: dict[str, Any] = {}
    names = {id(p): name for name, p in imported.named_parameters()}
    for place, (part, name) in imported._held.items():
        parameter = getattr(part, name)
        if id(parameter) in names and parameter.requires_grad:
            known = sources.setdefault(names[id(parameter)], values[place].requires_grad_())
            values[place] = known
    for step in imported._steps:
        args, kwargs = _filled(step.given, values)
        if step.draws is not None:
            outputs = [torch.from_numpy(drawn[step.name].numpy())]
        elif any(isinstance(a, Made) for a in step.args):
            mask, p = torch.from_numpy(drawn[step.name].numpy()), step.attrs["p"]
            outputs = [args[0] * mask * (1 / (1 - p) if p < 1 else 0.0), mask]
        else:
            outputs = (
                [args[0].detach()] if step.func is STOP else _tensors(step.func(*args, **kwargs))
            )
        for k, output in enumerate(outputs):
            values[ValueSource(step.name, k)] = output
    return [values[r] if isinstance(r, ValueSource) else r for r in imported._results], sources


# -- comparing -------------------------------------------------------------------------------------


def _twins(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """A copy that requires a gradient if possible, and our twin of it."""
    twin, ours = tensor.detach().clone(), tensor_of(tensor)
    if _is_differentiable(twin):
        twin.requires_grad_()
        ours.requires_grad = True
    return twin, ours


def _is_differentiable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _seed(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A random gradient for a tensor."""
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    return torch.randn(tensor.shape, generator=generator, dtype=wide).to(tensor)


def _tensors(result: Any) -> list[Any]:
    return [t for t in private.flattened(result)[0] if isinstance(t, torch.Tensor)]


def _largest(tensor: torch.Tensor) -> float:
    finite = tensor.detach()[torch.isfinite(tensor)]  # of complex numbers, their size
    return float(finite.abs().max()) if finite.numel() else 0.0


def _compare(
    mine: Any, expected: torch.Tensor, what: str, tolerance: Allowance, at_least: float = 0.0
) -> None:
    """Raise if two arrays differ by more than the tolerance × the largest element."""
    wanted = np.asarray(array_of(expected))
    if mine.shape != wanted.shape:
        raise Mismatch(f"{what} has shape {mine.shape}, in PyTorch {wanted.shape}")
    if not is_floating(wanted.dtype):
        if not np.array_equal(mine, wanted):
            raise Mismatch(f"{what} differs from PyTorch's in {np.sum(mine != wanted)} elements")
        return
    limit = tolerance.relative
    limit = TOLERANCES.get(expected.dtype, HALF) if limit is None else limit
    scale = max(_largest(expected), at_least)
    with np.errstate(all="ignore"):
        apart = np.where(
            (mine == wanted) | (np.isnan(mine) & np.isnan(wanted)), 0, np.abs(mine - wanted)
        )
    furthest = float(np.max(apart, initial=0.0))
    if not furthest <= max(limit * scale, tolerance.absolute):
        raise Mismatch(
            f"{what} differs from PyTorch's by up to {furthest:.3g}; the largest element is "
            f"{scale:.3g} and the tolerance {limit:g} of it. Fix: if this is rounding, pass a "
            "larger tolerance= to import_graph; otherwise it is a bug in gradwalk's translation.",
            furthest,
        )
