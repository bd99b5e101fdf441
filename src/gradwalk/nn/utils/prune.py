"""Pruning: a mask holds parts of a parameter at zero.

The parameter `weight` becomes `weight_orig`, which learns, and the buffer `weight_mask`. A hook
multiplies them before every forward, and `weight` is their product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from gradwalk.engine.hooks import RemovableHandle
from gradwalk.engine.modes import no_grad
from gradwalk.nn.module import Module
from gradwalk.ops.reduce.sorting import kthvalue, topk
from gradwalk.ops.shape.reshaping import cat
from gradwalk.random.alike import rand_like
from gradwalk.random.sampling import rand
from gradwalk.tensors.creation import ones_like, zeros_like

M = TypeVar("M", bound=Module)


class BasePruningMethod(ABC):
    """A way to choose what is pruned; a subclass writes `compute_mask` and says its type.

    `PRUNING_TYPE` says what a second method sees of a tensor that is pruned already: the elements
    that are left ("unstructured"), the channels that are left ("structured"), or all ("global").
    """

    PRUNING_TYPE: str
    _tensor_name: str
    _handle: RemovableHandle

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """A mask like `default_mask`, with 0 for what is pruned of `t`, by size or otherwise."""

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Any:
        """The pruned tensor."""
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prune `name` of a module; return the method, or the container of all methods there.

        `importance_scores` are what the method judges instead of the parameter.
        """
        added = cls(*args, **kwargs)
        added._tensor_name = name
        tensor = getattr(module, name)
        scores = tensor if importance_scores is None else importance_scores
        if tuple(scores.shape) != tuple(tensor.shape):
            raise ValueError(
                f"importance_scores of shape {tuple(scores.shape)} for {name} of shape "
                f"{tuple(tensor.shape)}; they must be equal"
            )
        earlier = next((m for m in methods(module) if m._tensor_name == name), None)
        mask = ones_like(tensor) if earlier is None else getattr(module, name + "_mask")
        method: Any = added
        if earlier is not None:
            method = PruningContainer()
            method._tensor_name = name
            for one in (*(earlier if isinstance(earlier, PruningContainer) else [earlier]), added):
                method.add_pruning_method(one)
        with no_grad():
            mask = method.compute_mask(scores.detach(), mask.detach().clone()).to(tensor.dtype)
        if earlier is None:
            delattr(module, name)
            module.register_parameter(name + "_orig", tensor)
        else:
            earlier._handle.remove()
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        method._handle = module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A pruned copy of a tensor that belongs to no module."""
        scores = t if importance_scores is None else importance_scores
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask.detach().clone())

    def remove(self, module: Module) -> None:
        """Make the pruned tensor the parameter again."""
        name = self._tensor_name
        pruned = self.apply_mask(module).detach()
        parameter = getattr(module, name + "_orig")
        with no_grad():
            parameter.copy_(pruned)
        for part in (name, name + "_orig", name + "_mask"):
            delattr(module, part)
        module.register_parameter(name, parameter)
        self._handle.remove()


class PruningContainer(BasePruningMethod):
    """Methods one after the other: each one prunes what the earlier ones left."""

    PRUNING_TYPE = "container"

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method).__name__} is not a BasePruningMethod")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"a method for {method._tensor_name!r} in a container for {self._tensor_name!r}"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The default mask, with what the last method prunes of the rest."""
        method = self._pruning_methods[-1]
        if method.PRUNING_TYPE == "unstructured":
            left: Any = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim  # type: ignore[attr-defined]
            others = [axis for axis in range(t.ndim) if axis != dim]
            left = (slice(None),) * dim + (default_mask.sum(dim=others) != 0,)
        elif method.PRUNING_TYPE == "global":
            left = (slice(None),) * t.ndim
        else:
            raise ValueError(f"unknown PRUNING_TYPE {method.PRUNING_TYPE!r}")
        mask = default_mask.detach().clone().to(t.dtype)
        mask[left] = method.compute_mask(t[left], default_mask=mask[left]).to(mask.dtype)
        return mask


class PruneNothing(BasePruningMethod):
    """A mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The default mask."""
        return default_mask


class CustomFromMask(BasePruningMethod):
    """A mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The given mask, within the default one."""
        return default_mask * self.mask.to(default_mask.dtype)


class _Amount(BasePruningMethod):
    """A method that prunes a number of elements or channels, or a share of them."""

    amount: float
    whole: bool  # whether it is a number of them

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, Real):
            raise TypeError(f"an amount to prune is a number, not {type(amount).__name__}")
        self.amount = float(amount)
        self.whole = isinstance(amount, Integral)
        if amount < 0 or (not self.whole and not amount <= 1):
            raise ValueError(f"an amount to prune is a count, or a share from 0 to 1, not {amount}")

    def count(self, size: int) -> int:
        """How many of `size` elements or channels to prune."""
        if not self.whole:
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(
                f"{int(self.amount)} to prune, of {size} elements or channels.\n"
                f"Fix: at most {size}, or a share of them from 0.0 to 1.0"
            )
        return int(self.amount)


class _Elements(_Amount):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The default mask, with 0 for the chosen elements."""
        count = self.count(t.numel())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[self.chosen(t, count)] = 0
        return mask

    def chosen(self, t: Any, count: int) -> Any:
        """The places of the elements to prune."""
        raise NotImplementedError


class RandomUnstructured(_Elements):
    """Random elements."""

    def chosen(self, t: Any, count: int) -> Any:
        """Random places, by the numbers that PyTorch draws for them."""
        return topk(rand_like(t).view(-1), count).indices


class L1Unstructured(_Elements):
    """The smallest elements."""

    def chosen(self, t: Any, count: int) -> Any:
        """The places of the smallest elements."""
        return topk(t.abs().reshape(-1), count, largest=False).indices


class _Channels(_Amount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The default mask, with 0 in the chosen channels."""
        if t.ndim < 2:
            raise ValueError(f"channels of a tensor of shape {tuple(t.shape)} cannot be pruned")
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"dimension {self.dim} of a tensor of shape {tuple(t.shape)}")
        count = self.count(t.shape[self.dim])
        if not count:
            return default_mask
        kept = zeros_like(t)
        kept[(slice(None),) * (self.dim % t.ndim) + (self.kept(t, count),)] = 1
        return kept * default_mask

    def kept(self, t: Any, count: int) -> Any:
        """Which channels stay."""
        raise NotImplementedError


class RandomStructured(_Channels):
    """Random channels of a dimension."""

    def kept(self, t: Any, count: int) -> Any:
        """A mask of channels, by the numbers that PyTorch draws for them."""
        drawn = rand(t.shape[self.dim])
        return drawn > kthvalue(drawn, count).values


class LnStructured(_Channels):
    """The channels of a dimension with the smallest n-norm."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def kept(self, t: Any, count: int) -> Any:
        """The places of the largest channels."""
        others = [axis for axis in range(t.ndim) if axis != self.dim % t.ndim]
        return topk(t.norm(self.n, dim=others), t.shape[self.dim] - count).indices


def methods(module: Module) -> list[Any]:
    """The pruning methods of a module's own parameters."""
    hooks = (entry.hook for entry in module._hooks_of("before"))
    return [hook for hook in hooks if isinstance(hook, BasePruningMethod)]


def identity(module: M, name: str) -> M:
    """Prepare a parameter for pruning, and prune nothing."""
    PruneNothing.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Prune random elements: a number of them (an integer), or a share (a float)."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: float, importance_scores: Any = None) -> M:
    """Prune the smallest elements: a number of them (an integer), or a share (a float).

    >>> import gradwalk as gw
    >>> layer = gw.nn.Linear(2, 3)
    >>> _ = gw.nn.utils.prune.l1_unstructured(layer, "weight", amount=0.5)
    >>> int((layer.weight == 0).sum()), list(layer.state_dict())
    (3, ['bias', 'weight_orig', 'weight_mask'])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Prune random channels of a dimension."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> M:
    """Prune the channels of a dimension with the smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Any) -> M:
    """Prune where a mask is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Any] | None = None,
    **kwargs: Any,
) -> None:
    """Prune `(module, name)` pairs together, as if they were one parameter."""
    pairs = list(parameters)
    if not all(isinstance(pair, tuple) for pair in pairs):
        raise TypeError("global_unstructured takes pairs (module, name)")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"{pruning_method.__name__} is {method.PRUNING_TYPE}; only unstructured methods prune "
            "several parameters together"
        )
    tensors = [getattr(*pair) for pair in pairs]
    given = importance_scores or {}
    scores = [given.get(pair, tensor) for pair, tensor in zip(pairs, tensors, strict=True)]
    masks = [
        getattr(module, name + "_mask", ones_like(tensor))
        for (module, name), tensor in zip(pairs, tensors, strict=True)
    ]
    method._tensor_name = "all"
    with no_grad():
        mask = PruningContainer(method).compute_mask(_flat(scores), _flat(masks))
    start = 0
    for (module, name), tensor in zip(pairs, tensors, strict=True):
        end = start + tensor.numel()
        custom_from_mask(module, name, mask[start:end].view(tensor.shape))
        start = end


def _flat(tensors: Iterable[Any]) -> Any:
    return cat([tensor.detach().reshape(-1) for tensor in tensors])


def remove(module: M, name: str) -> M:
    """Make a pruning permanent: `name` is a parameter again, with zeros where it was pruned."""
    for method in methods(module):
        if method._tensor_name == name:
            method.remove(module)
            return module
    raise ValueError(f"'{name}' of {type(module).__name__} is not pruned")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module or of a module inside is pruned."""
    return any(methods(inner) for inner in module.modules())


Identity = PruneNothing
