"""PyTorch's database of functions for its tests: each entry with our function and our tensors."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch.testing._internal.common_device_type import OpDTypes

import gradwalk as gw
from tests.ops import test_pytorch_samples as samples
from tools.pytorch_tests import alias, loading

MOST = 8  # samples of one function, evenly spread; some have thousands
EXCLUDED: set[tuple[str, str, str]] = set()  # case, test and function that PyTorch fails as well


class Sample:
    """Arguments of one call, in the form of PyTorch's `SampleInput`."""

    def __init__(self, input: Any, args: Any = (), kwargs: Any = None, finish: Any = None) -> None:
        self.input, self.args, self.kwargs = input, tuple(args), dict(kwargs or {})
        self.output_process_fn_grad = finish or (lambda out: out)
        self.broadcasts_input = False
        self.name = ""

    def transform(self, change: Callable[[Any], Any]) -> Sample:
        def changed(thing: Any) -> Any:
            if isinstance(thing, list | tuple):
                return type(thing)(map(changed, thing))
            if isinstance(thing, dict):
                return {key: changed(value) for key, value in thing.items()}
            return change(thing) if isinstance(thing, gw.Tensor) else thing

        parts = changed((self.input, self.args, self.kwargs))
        made = Sample(*parts, self.output_process_fn_grad)
        made.broadcasts_input = self.broadcasts_input
        return made

    def noncontiguous(self) -> Sample:
        return self.transform(alias.noncontiguous_like)


def ours(sample: Any) -> Sample | None:
    """A sample of PyTorch's with our tensors; None if it has what gradwalk does not."""
    try:
        parts = samples.translated([sample.input, list(sample.args), sample.kwargs], [])
    except samples.NotOurs:
        return None
    made = Sample(*parts, sample.output_process_fn_grad)
    made.broadcasts_input = sample.broadcasts_input
    return made


class Other:
    """A function under another of its names."""

    inplace_variant = method_variant = None

    def __init__(self, name: str, function: Any) -> None:
        self.name = name
        self._function = function
        self.op = self

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if self._function is None:
            raise alias.MissingName(self.name)
        return self._function(*args, **keywords)

    def get_op(self) -> Any:
        return self


class Described:
    """An entry of the database; what is not said here is PyTorch's description."""

    def __init__(self, description: Any) -> None:
        self._description = description
        self.op = samples.our_function(description)
        known = samples.KNOWN.get(samples.full_name(description))
        self.draws = known is not None and known.why == samples.RANDOM
        self.aliases = [
            Other(other.name, samples.by_name(other.name.removeprefix("torch.")))
            for other in getattr(description, "aliases", ())
        ]

    def __getattr__(self, name: str) -> Any:
        if name == "_description":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._description, name)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if self.op is None:
            raise alias.MissingName(f"torch.{self._description.name}")
        if self.draws:
            gw.manual_seed(42)
        return self.op(*args, **keywords)

    def get_op(self) -> Any:
        return self

    def get_inplace(self) -> Any:
        theirs = self._description.get_inplace()
        name = getattr(theirs, "__name__", "")
        if theirs is None or name in samples.NO_METHODS:
            return None
        found = samples.in_gradwalk(theirs) or samples.method_named(name)
        found.__name__ = name
        return found

    inplace_variant = property(get_inplace)

    def sample_inputs(
        self,
        device: Any,
        dtype: Any,
        requires_grad: bool = False,
        *,
        use_subtests: bool = False,
        **_: Any,
    ) -> list[Any]:
        drawn = samples.quietly(
            samples.drawn, self._description, alias.dtype_of_torch(dtype), requires_grad
        )
        found = drawn[:: -(-len(drawn) // MOST) or 1]
        made = [one for sample in found if (one := ours(sample)) is not None]
        return (
            [(one, lambda test: contextlib.nullcontext()) for one in made] if use_subtests else made
        )

    reference_inputs = sample_inputs

    def error_inputs(self, device: Any, **_: Any) -> Iterator[Any]:
        for mistake in samples.quietly(samples.mistakes, self._description):
            sample = ours(mistake.sample_input)
            if sample is not None:
                mistake.sample_input = sample
                yield mistake

    def supports_dtype(self, dtype: Any, device: Any) -> bool:
        return bool(self._description.supports_dtype(alias.dtype_of_torch(dtype), "cpu"))

    def supported_backward_dtypes(self, device: Any) -> set[Any]:
        return set(map(alias.dtype_of_ours, self._description.supported_backward_dtypes("cpu")))


def ops(
    infos: Iterable[Any], *, dtypes: Any = OpDTypes.supported, allowed_dtypes: Any = None, **_: Any
) -> Callable[[Any], Any]:
    """PyTorch's decorator of a test that runs over its database of functions."""
    listed = [info for info in infos if isinstance(info, Described)]

    def wanted(info: Described) -> list[Any]:
        if dtypes is OpDTypes.none:
            return [None]
        found = sorted(map(str, info._description.supported_dtypes("cpu")))
        known = [alias.dtype_of_ours(name) for name in found]
        if allowed_dtypes is not None:
            known = [d for d in known if any(d is allowed for allowed in allowed_dtypes)]
        known = [d for d in known if not isinstance(d, alias.Missing)]
        if isinstance(dtypes, list | tuple | set):
            return [d for d in known if any(d is one for one in dtypes)]
        if "one" in dtypes.name:
            float32 = [d for d in known if d is gw.float32]
            return (float32 or known)[:1]
        return known

    def rows(owner: str, test: str) -> Iterator[dict[str, Any]]:
        for info in listed:
            name = samples.full_name(info._description)
            for dtype in wanted(info):
                theirs = alias.dtype_of_torch(dtype)
                decorators = info._description.get_decorators(owner, test, "cpu", theirs, {})
                if (owner, test, name) in EXCLUDED or loading._refused(decorators):
                    continue
                row = {"op": info}
                yield row if dtype is None else row | {"dtype": dtype}

    return loading._entries(rows)


def skip_ops(case: str, test: str, to_skip: Iterable[Any]) -> Callable[[Any], Any]:
    """PyTorch's list of functions that fail a test, or take too long for it, in PyTorch."""
    for each in to_skip:
        if loading._refused([each.decorator]) and each.device_type in (None, "cpu"):
            EXCLUDED.add((case, test, f"{each.op_name}.{each.variant_name}".rstrip(".")))
    return alias.identity


class GradientCase(alias.TestCase):
    """In place of the helper class of PyTorch's tests of derivatives."""

    def _skip_helper(self, op: Any, device: Any, dtype: Any) -> None:
        if not op.supports_autograd or dtype not in op.supported_backward_dtypes(device):
            self.skipTest("it has no derivative")

    def _get_safe_inplace(self, inplace: Any) -> Any:
        return lambda x, *args, **keywords: inplace(x.clone(), *args, **keywords)

    def _check_helper(
        self, device: Any, dtype: Any, op: Any, variant: Any, check: str, **_: Any
    ) -> None:
        in_place = variant is not op
        for sample in op.sample_inputs(device, dtype, requires_grad=True):
            if in_place and sample.broadcasts_input:
                continue
            call, leaves = _of_leaves(sample, variant, op)
            tolerance = {"atol": 1e-5, "rtol": 1e-3}
            if check == "fwgrad_bwgrad":
                self._forward_over_reverse(call, leaves)
            else:
                self.assertTrue(gw.autograd.gradgradcheck(call, leaves, **tolerance))

    def _forward_over_reverse(self, call: Any, leaves: list[Any]) -> None:
        """The push of the gradient is the pull of the gradient, transposed."""

        def gradient(*given: Any) -> Any:
            return gw.vjp(call, *given)[1](cotangent)

        out = call(*leaves)
        cotangent = _like_each(out)
        along = tuple(_like(leaf) for leaf in leaves)
        plain = tuple(leaf.detach() for leaf in leaves)
        _, moved = gw.jvp(gradient, plain, along)
        against = tuple(_like(leaf) for leaf in leaves)
        _, pull = gw.vjp(gradient, *plain)
        self.assertEqual(_dot(moved, against), _dot(pull(against), along), atol=1e-6, rtol=1e-5)

    def _grad_test_helper(
        self, device: Any, dtype: Any, op: Any, variant: Any, **options: Any
    ) -> None:
        for sample in op.sample_inputs(device, dtype, requires_grad=True):
            if variant is not op and sample.broadcasts_input:
                continue
            call, leaves = _of_leaves(sample, variant, op)
            if options.get("check_forward_ad"):
                self._forward(call, leaves)
            else:
                self.assertTrue(gw.autograd.gradcheck(call, leaves))

    def _forward(self, call: Any, leaves: list[Any]) -> None:
        plain = tuple(leaf.detach() for leaf in leaves)
        along = tuple(_like(leaf) for leaf in leaves)
        out, moved = gw.jvp(call, plain, along)
        against = _like_each(out)
        _, pull = gw.vjp(call, *plain)
        self.assertEqual(_dot(moved, against), _dot(pull(against), along), atol=1e-6, rtol=1e-5)


def _like(tensor: Any) -> Any:
    return gw.randn_like(tensor.detach())


def _like_each(out: Any) -> Any:
    return tuple(map(_like, out)) if isinstance(out, tuple | list) else _like(out)


def _dot(one: Any, other: Any) -> Any:
    pairs = zip(_each(one), _each(other), strict=True)
    return sum((a * b.conj()).sum().real if a.is_complex() else (a * b).sum() for a, b in pairs)


def _each(thing: Any) -> list[Any]:
    return list(thing) if isinstance(thing, tuple | list) else [thing]


def _of_leaves(sample: Sample, variant: Any, op: Any) -> tuple[Any, list[Any]]:
    """The call as a function of the tensors that need a gradient, and these."""
    leaves: list[Any] = []

    def noted(tensor: Any) -> Any:
        if tensor.requires_grad:
            leaves.append(tensor)
        return tensor

    sample.transform(noted)

    def call(*given: Any) -> Any:
        left = iter(given)
        changed = sample.transform(lambda t: next(left) if t.requires_grad else t)
        wrapper = op._description.gradcheck_wrapper
        wrapper = samples.in_gradwalk(wrapper) or wrapper
        out = wrapper(variant, changed.input, *changed.args, **changed.kwargs)
        out = changed.output_process_fn_grad(out)
        if isinstance(out, tuple | list):
            return tuple(
                t
                for t in out
                if isinstance(t, gw.Tensor) and (t.is_floating_point() or t.is_complex())
            )
        return out

    return call, leaves


def _database() -> list[Described]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [Described(d) for found in samples.database().values() for d in found]


FOUND = _database()
SHIMS: dict[str, Any] = {
    "ops": ops,
    "op_db": FOUND,
    "ops_and_refs": FOUND,
    "python_ref_db": [],
    "custom_op_db": [],
    "hop_db": [],
    "autograd_function_db": [],
    "TestGradients": GradientCase,
}
# Of the helpers beside the tests of functorch.
BESIDE = {"skipOps": skip_ops, "opsToleranceOverride": lambda *_, **__: alias.identity}
