"""Pruning: parameters of which a mask sets elements to 0, in training too.

A pruned parameter `weight` is a parameter `weight_orig`, a buffer `weight_mask`, and their product,
which a hook computes again before every forward.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from gradwalk.engine.hooks import RemovableHandle
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter
from gradwalk.nn.utils.vectors import parameters_to_vector
from gradwalk.random.sampling import rand, rand_like
from gradwalk.tensors.creation import ones_like, zeros_like
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip

M = TypeVar("M", bound=Module)


class BasePruningMethod(ABC):
    """A way to choose what is pruned. A subclass has a `PRUNING_TYPE` and `compute_mask`.

    The type says what `compute_mask` sees of a tensor that is pruned already: "unstructured", the
    elements that are left, in a row; "structured", the slices that are left; "global", everything.
    """

    PRUNING_TYPE: str
    _tensor_name: str
    _handle: RemovableHandle | None = None

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of a tensor, of which `default_mask` is pruned already."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter with zeros where the mask has them."""
        original = getattr(module, self._tensor_name + "_orig")
        pruned: Tensor = getattr(module, self._tensor_name + "_mask").to(original.dtype) * original
        return pruned

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter; one that is pruned already keeps its zeros and gets more."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        earlier = [hook for hook in _methods(module) if hook._tensor_name == name]
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise ValueError(
                f"importance_scores of shape {tuple(scores.shape)} for '{name}' of shape "
                f"{tuple(original.shape)}: there is one score for each element"
            )
        whole: BasePruningMethod = method
        if earlier:
            whole = PruningContainer(*earlier)
            whole.add_pruning_method(method)
            before = getattr(module, name + "_mask").detach().clone()
        else:
            before = ones_like(original.detach())
        mask = whole.compute_mask(scores.detach(), before)  # which may refuse: nothing changed yet
        for hook in earlier:
            hook._detach()
        if not earlier:
            delattr(module, name)
            module.register_parameter(name + "_orig", original)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, whole.apply_mask(module))
        whole._handle = module.register_forward_pre_hook(whole)
        return whole

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Tensor:
        """A tensor with the zeros that this method would choose; no module has a part in it."""
        scores = t if importance_scores is None else importance_scores
        before = ones_like(t) if default_mask is None else default_mask
        pruned: Tensor = t * self.compute_mask(scores, before)
        return pruned

    def remove(self, module: Module) -> None:
        """Make the zeros ordinary values of an ordinary parameter."""
        name = self._tensor_name
        values = self.apply_mask(module).detach()
        original: Parameter = getattr(module, name + "_orig")
        original.data = values
        for part in (name, name + "_orig", name + "_mask"):
            delattr(module, part)
        setattr(module, name, original)
        self._detach()

    def _detach(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None


class PruningContainer(BasePruningMethod):
    """Methods that pruned one parameter, one after the other."""

    PRUNING_TYPE = "global"

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: list[BasePruningMethod] = []
        for given in args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args:
            self._tensor_name = given._tensor_name
            self.add_pruning_method(given)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Another method, for the same parameter."""
        if method is None:
            return
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method).__name__} is not a pruning method")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"the container prunes '{self._tensor_name}', this method '{method._tensor_name}'"
            )
        inner = isinstance(method, PruningContainer)
        self._pruning_methods += list(method) if inner else [method]  # type: ignore[call-overload]

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The zeros there were, and those that the last method chooses among what is left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        seen = _left(method, mask)
        new = mask.clone()
        new[seen] = method.compute_mask(t[seen], default_mask=mask[seen]).to(mask.dtype)
        return new


def _left(method: BasePruningMethod, mask: Any) -> Any:
    """The index of what a method sees of a tensor that is pruned already."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "structured":
        if not hasattr(method, "dim"):
            raise AttributeError("a pruning method that is structured has an attribute dim")
        dim = method.dim % mask.ndim
        others = [d for d in range(mask.ndim) if d != dim]
        return (slice(None),) * dim + ((mask.sum(others) != 0).nonzero().flatten(),)
    if method.PRUNING_TYPE == "global":
        return ...
    raise ValueError(
        f"PRUNING_TYPE is 'unstructured', 'structured' or 'global', not {method.PRUNING_TYPE!r}"
    )


class PruneNothing(BasePruningMethod):
    """Prunes nothing: a mask of ones, to fill in later."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """What was pruned before."""
        return default_mask


Identity = PruneNothing  # PyTorch's name


class _Amount(BasePruningMethod):
    """A method that prunes a number of elements or slices, or a fraction of them."""

    def __init__(self, amount: Any) -> None:
        self.is_count = isinstance(amount, Integral)
        if not self.is_count and not isinstance(amount, Real):
            raise TypeError(f"amount is a number, not {amount!r}")
        self.amount: Any = amount
        if self.amount < 0 or (self.amount > 1 and not self.is_count):
            raise ValueError(f"amount is a fraction from 0 to 1, or a count, not {amount}")

    def _count(self, there: int) -> int:
        """How many of `there` to prune."""
        if not self.is_count:
            return round(self.amount * there)
        if self.amount > there:
            raise ValueError(f"amount={self.amount} of {there}: there are not so many to prune")
        return int(self.amount)


class _Elements(_Amount):
    """Prunes the elements that `_chosen` gives."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """What was pruned before, and more elements."""
        count = self._count(t.numel())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[self._chosen(t, count)] = 0
        return mask

    def _chosen(self, t: Any, count: int) -> Any:
        raise NotImplementedError


class RandomUnstructured(_Elements):
    """Prunes elements at random."""

    def _chosen(self, t: Any, count: int) -> Any:
        return rand_like(t).view(-1).topk(count).indices


class L1Unstructured(_Elements):
    """Prunes the elements that are nearest to 0."""

    def _chosen(self, t: Any, count: int) -> Any:
        return t.abs().reshape(-1).topk(count, largest=False).indices


class _Slices(_Amount):
    """Prunes all slices along a dimension but those that `_kept` gives."""

    PRUNING_TYPE = "structured"
    dim: int

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """What was pruned before, and more slices."""
        if t.ndim < 2:
            raise ValueError(f"shape {tuple(t.shape)} has no slices to prune: 2 dimensions or more")
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"dim {self.dim} of a tensor of shape {tuple(t.shape)}")
        there = t.shape[self.dim]
        count = self._count(there)
        if not count:
            return default_mask
        mask = zeros_like(t)
        kept = self._kept(t, there, count)
        mask[(slice(None),) * (self.dim % t.ndim) + (kept,)] = 1
        return mask * default_mask.to(mask.dtype)

    def _kept(self, t: Any, there: int, count: int) -> Any:
        raise NotImplementedError


class RandomStructured(_Slices):
    """Prunes slices along `dim` at random."""

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _kept(self, t: Any, there: int, count: int) -> Any:
        drawn = rand(there)
        return drawn > drawn.kthvalue(count).values


class LnStructured(_Slices):
    """Prunes the slices along `dim` whose norms of order `n` are the least."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def _kept(self, t: Any, there: int, count: int) -> Any:
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        return t.norm(p=self.n, dim=others).topk(there - count).indices


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask has zeros for."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """What was pruned before, and the zeros of the mask."""
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: M, name: str) -> M:
    """Give a parameter a mask of ones, and prune nothing."""
    PruneNothing.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Prune elements of a parameter at random: a fraction of them, or a count."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: float, importance_scores: Any = None) -> M:
    """Prune the elements of a parameter that are nearest to 0: a fraction of them, or a count.

    >>> import gradwalk as gw
    >>> from gradwalk.nn.utils import prune
    >>> layer = prune.l1_unstructured(gw.nn.Linear(4, 1), "weight", amount=0.5)
    >>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
    (2, ['bias', 'weight_mask', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Prune slices along `dim` at random: a fraction of them, or a count."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> M:
    """Prune the slices along `dim` whose norms of order `n` are the least."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Any) -> M:
    """Prune what a mask of the parameter's shape has zeros for."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Any] | None = None,
    **kwargs: Any,
) -> None:
    """Prune many parameters as if they were one: `amount` counts the elements of all."""
    places = list(parameters)
    given = importance_scores or {}
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"global_unstructured takes an unstructured method, and {pruning_method.__name__} is "
            f"{pruning_method.PRUNING_TYPE}"
        )
    now = [getattr(module, name).detach() for module, name in places]
    scores = [given.get(place, value) for place, value in zip(places, now, strict=True)]
    masks = [
        getattr(module, name + "_mask", ones_like(value))
        for (module, name), value in zip(places, now, strict=True)
    ]
    method = pruning_method(**kwargs)
    method._tensor_name = "all"
    container = PruningContainer(method)
    mask = container.compute_mask(parameters_to_vector(scores), parameters_to_vector(masks))
    parts = mask.split([value.numel() for value in now])
    for (module, name), value, part in zip(places, now, parts, strict=True):
        custom_from_mask(module, name, part.view_as(value))


def remove(module: M, name: str) -> M:
    """Make the zeros of a pruned parameter ordinary values of an ordinary parameter."""
    for method in _methods(module):
        if method._tensor_name == name:
            method.remove(module)
            return module
    raise ValueError(f"'{name}' of {type(module).__name__} is not pruned")


def is_pruned(module: Module) -> bool:
    """Whether any parameter of a module, or of one inside it, is pruned."""
    return any(_methods(inner) for inner in module.modules())


def _methods(module: Module) -> list[BasePruningMethod]:
    entries = module._hooks_of("before")
    return [entry.hook for entry in entries if isinstance(entry.hook, BasePruningMethod)]
