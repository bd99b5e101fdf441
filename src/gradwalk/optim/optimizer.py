"""What all optimizers share: parameter groups with their options, and state per parameter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import KW_ONLY
from dataclasses import InitVar as Option
from typing import Any, ClassVar

import numpy as np

from gradwalk.engine.modes import enable_grad, quietly
from gradwalk.engine.modes import state as modes
from gradwalk.graph.source import caller, source_line
from gradwalk.graph.versions import touch
from gradwalk.nn.constructors import declared
from gradwalk.ops.core.dtypes import LAST_PLAIN, float32, is_complex_dtype, is_half
from gradwalk.ops.elementwise.complex_numbers import as_pairs
from gradwalk.optim.hooks import OptimizerHooks, watched
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.devices import device_of, placed
from gradwalk.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]
Group = dict[str, Any]
ParamsT = Iterable[Tensor] | Iterable[Group] | Iterable[tuple[str, Tensor]]  # in annotations

# PyTorch's choices of how a step runs on a device. They change no result and are ignored here;
# state dicts contain them, as PyTorch's do.
IGNORED = frozenset({"foreach", "differentiable", "capturable", "fused"})


class _Required:
    """What a default is that every group must give: PyTorch's `required`."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer(OptimizerHooks):
    """Parameter groups with their options, and state per parameter; subclasses write `update`.

    `state[parameter]` and `state_dict()` have PyTorch's names and layout.

    >>> import gradwalk as gw
    >>> class SignDescent(gw.optim.Optimizer):
    ...     def update(self, parameters, group):
    ...         for p in parameters:
    ...             p._array -= group["lr"] * np.sign(p._grad._array)
    >>> w = gw.tensor([3.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> SignDescent([w], {"lr": 0.5}).step()
    >>> w
    tensor([2.5000], requires_grad=True)
    """

    _flat_state = False  # whether state is kept for all parameters together, as one vector
    _own_shapes = False  # whether state has other shapes than its parameter
    _was_on_device = False  # whether a parameter was once elsewhere than on the CPU

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "step" in vars(cls):
            cls.step = watched(cls.step)  # type: ignore[method-assign]

    def __init__(self, params: Iterable[Any], defaults: Group) -> None:
        if defaults.get("differentiable"):
            raise NotImplementedError(
                "differentiable=True is not supported. Write the update with tensor operations."
            )
        if isinstance(params, (Tensor, dict)):
            raise TypeError(
                f"an optimizer takes a list of parameters or of groups, not one "
                f"{type(params).__name__}. Fix: put it in a list."
            )
        self.made_at = source_line(*caller())  # for tools that report where a rate was set
        self.defaults = self._options(defaults)
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        listed = list(params)
        if not listed:
            raise ValueError("the optimizer got no parameters")
        for group in listed if isinstance(listed[0], dict) else [{"params": listed}]:
            self.add_param_group(group)

    def _patch_step_function(self) -> None:
        """Called by wrappers that do not construct their base; a class watches its own steps."""

    def _construct(self, *, params: Iterable[Any], **options: Any) -> None:
        Optimizer.__init__(self, params, options)

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with their own options.

        >>> import gradwalk as gw
        >>> a, b = gw.zeros(1, requires_grad=True), gw.zeros(1, requires_grad=True)
        >>> optimizer = gw.optim.SGD([a], lr=0.1)
        >>> optimizer.add_param_group({"params": [b], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError("a set has no order, and state is saved by order. Fix: give a list.")
        parameters = [given] if isinstance(given, Tensor) else list(given)
        group = {**self.defaults, **param_group}
        if missing := [name for name, value in group.items() if value is required]:
            raise ValueError(f"every group of parameters must give {', '.join(missing)}")
        if parameters and isinstance(parameters[0], tuple):  # named_parameters()
            group["param_names"] = [name for name, _ in parameters]
            parameters = [parameter for _, parameter in parameters]
        taken = {id(p) for other in self.param_groups for p in other["params"]}
        for parameter in parameters:
            if not isinstance(parameter, Tensor) or not parameter.is_leaf:
                raise TypeError(f"an optimizer takes leaf tensors, not {type(parameter).__name__}")
            if id(parameter) in taken:
                raise ValueError("a parameter is in the optimizer twice: it would be moved twice")
            taken.add(id(parameter))
        group["params"] = parameters
        self.param_groups.append(self._options(group))

    def _is_foreign(self) -> bool:
        """Whether a program defines this optimizer: ours write `update`, or keep a flat state."""
        return type(self).update is Optimizer.update and not self._flat_state

    def _options(self, options: Group) -> Group:
        """Options as they are kept: of our optimizers numbers, which must make sense."""
        if self._is_foreign():
            return dict(options)
        options = {name: _number(value) for name, value in options.items()}
        _check(options)
        return options

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear all gradients."""
        tracer = modes.here.tracer
        for group in self.param_groups:
            for parameter in group["params"]:
                if tracer is not None:
                    tracer.writes_grad(parameter) if set_to_none else tracer.reads_grad(parameter)
                if set_to_none:
                    parameter._grad = None
                elif parameter._grad is not None:
                    parameter._grad.zero_()

    @watched
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient; return the result of `closure`.

        `closure`, if given, computes the loss again and calls its backward.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        code, position = caller()
        if modes.here.tracer is not None:
            modes.here.tracer.steps(self)
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter._grad is not None]
            if moved:
                quietly(self._update, moved, group)
                for parameter in moved:
                    touch(parameter._array, code, position)
        return loss

    def _update(self, parameters: list[Tensor], group: Group) -> None:
        """`update`; of half parameters in float32, so that a step rounds each of them once, and of
        complex ones as pairs of real numbers, as in PyTorch."""
        self._follow(parameters)
        unusual = [p for p in parameters if p._array.dtype.num > LAST_PLAIN]
        if not unusual:
            self.update(parameters, group)
            return
        tensors: list[Any] = [
            t for p in unusual for t in (p, p._grad, *self._state_tensors(p, group))
        ]
        kept = [(t, t._array) for t in tensors if t._array.dtype.num > LAST_PLAIN]
        try:
            for tensor, array in kept:
                tensor._array = array.astype(float32) if is_half(array.dtype) else as_pairs(array)
            self.update(parameters, group)
        finally:
            for tensor, array in kept:
                if tensor._array is not array:
                    as_pairs(array)[...] = tensor._array
                    tensor._array = array
            for p in unusual:  # state that this step made
                for made in self._state_tensors(p, group):
                    if is_complex_dtype(p.dtype) and made.shape == (*p.shape, 2):
                        made._array = made._array.view(p.dtype)[..., 0]

    def _follow(self, parameters: list[Tensor]) -> None:
        """Bring state to parameters that were moved to another device since the last step."""
        if not self._was_on_device:
            if all(type(p._array) is np.ndarray for p in parameters):
                return
            self._was_on_device = True
        if modes.here.tracer is not None:
            return  # a compiled function brings what it uses to its device
        for p in parameters:
            kept = self.state.get(p, {})
            for name, value in kept.items():
                first = value[0] if isinstance(value, list) and value else value
                if isinstance(first, Tensor) and first.device != p.device:
                    kept[name] = self._loaded(value, p, name)

    def _state_tensors(self, parameter: Tensor, group: Group) -> list[Tensor]:
        """The tensors in the state of a parameter."""
        values = self.state_of(parameter, group).values()
        return [v for v in values if isinstance(v, Tensor)]

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """Move these parameters of one group in place; all have a gradient."""
        raise NotImplementedError

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        return {}

    def state_of(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """The state of a parameter, made if this is its first step."""
        state = self.state.get(parameter)
        if not state:  # a wrapper may have put an entry of its own there, and taken it back
            if state is None:
                self.state[parameter] = state = {}
            state.update(self.fresh_state(parameter, group))
        return state

    def __repr__(self) -> str:
        groups = []
        for i, group in enumerate(self.param_groups):
            options = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            groups.append(f"Parameter Group {i}\n" + "".join(options))
        return f"{type(self).__name__} (\n" + "\n".join(groups) + ")"

    # -- saving and loading ------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state of every parameter, by its position, and the options of every group.

        >>> import gradwalk as gw
        >>> gw.optim.SGD([gw.zeros(1)], lr=0.5, momentum=0.9).state_dict()["param_groups"][0]["lr"]
        0.5
        """
        self._run_hooks("before_state")
        positions: dict[int, int] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                positions.setdefault(id(parameter), len(positions))
        state_dict = {
            "state": {  # a hook may add entries of its own
                positions.get(id(p), p): dict(kept) if isinstance(p, Tensor) else kept
                for p, kept in self.state.items()
            },
            "param_groups": [
                {**group, "params": [positions[id(p)] for p in group["params"]]}
                for group in self.param_groups
            ],
        }
        return self._run_hooks("after_state", state_dict)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a copy of a `state_dict`, ours or PyTorch's.

        Everything is checked before anything changes.
        """
        state_dict = self._run_hooks("before_load", dict(state_dict))
        saved_groups = deepcopy(state_dict["param_groups"])  # groups that share a list keep sharing
        if len(saved_groups) != len(self.param_groups):
            raise ValueError(
                f"the saved state has {len(saved_groups)} parameter groups, this optimizer has "
                f"{len(self.param_groups)}"
            )
        parameters: dict[Any, Tensor] = {}
        groups = []
        for i, (saved, group) in enumerate(zip(saved_groups, self.param_groups)):
            if len(saved["params"]) != len(group["params"]):
                raise ValueError(
                    f"parameter group {i}: the saved state has {len(saved['params'])} parameters, "
                    f"this optimizer has {len(group['params'])}"
                )
            parameters |= {str(k): p for k, p in zip(saved["params"], group["params"])}
            options = {k: _like(group.get(k), v) for k, v in saved.items() if k != "params"}
            groups.append(self._options({**group, **options}))
        state: defaultdict[Any, Any] = defaultdict(dict)
        loaded = self._as_saved if self._is_foreign() else self._loaded
        for key, kept in state_dict["state"].items():
            parameter = parameters.get(str(key))  # JSON turns the positions into text
            if parameter is None and not str(key).isdigit():  # an entry of the program's own
                state[key] = kept
                continue
            if parameter is None:
                raise ValueError(f"the saved state has an entry {key!r} that no group lists")
            state[parameter] = {name: loaded(v, parameter, name) for name, v in kept.items()}
        self.__setstate__({"state": state, "param_groups": groups})
        self._run_hooks("after_load")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was loaded, copied or unpickled. A subclass may override it, to add the
        options that older versions of itself did not save.
        """
        self.__dict__.update(state)

    def _as_saved(self, value: Any, parameter: Tensor, name: str) -> Any:
        """One saved entry for an optimizer that a program defines: tensors in the parameter's
        dtype, but steps, whatever their shape, also in containers."""
        if isinstance(value, dict):
            return {k: self._as_saved(v, parameter, k) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([self._as_saved(v, parameter, name) for v in value])
        if not (isinstance(value, np.ndarray) or hasattr(value, "detach")):
            return value
        array = as_array(value)
        if name != "step" and parameter.is_floating_point():
            array = array.astype(parameter.dtype)
        return wrap(np.array(array)).to(parameter.device)

    def _loaded(self, value: Any, parameter: Tensor, name: str) -> Any:
        """One saved entry as this optimizer keeps it: steps as numbers, the rest as tensors."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, list):
            return [self._loaded(v, parameter, name) for v in value]
        array = as_array(value)
        if array.ndim == 0 and (parameter.ndim or name in ("step", "mu_product", "eta", "mu")):
            return array.item()
        if array.shape != parameter.shape and not (self._flat_state or self._own_shapes):
            raise ValueError(f"{name} has the shape {array.shape}, its parameter {parameter.shape}")
        if parameter.is_cpu:
            return wrap(np.array(array, parameter.dtype))
        if array.shape != parameter.shape:
            return wrap(placed(np.array(array, parameter.dtype), parameter.device))
        made = new_state(parameter)  # divided as its parameter is
        made._array[...] = array if device_of(array) == parameter.device else placed(array, "cpu")
        return made


@declared
class PerParameter(Optimizer):
    """An optimizer that moves one parameter at a time; subclasses write `move`."""

    # Zeros like a parameter that `state` begins with, each with the option that it is for.
    _zeros: ClassVar[dict[str, str | None]] = {}
    params: Option[Iterable[Any]]
    _: KW_ONLY
    maximize: Option[bool] = False
    foreach: Option[bool | None] = None
    differentiable: Option[bool] = False

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, and zeros."""
        names = [name for name, option in self._zeros.items() if option is None or group[option]]
        return {"step": 0} | {name: new_state(parameter) for name in names}

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """One step of each parameter, in place."""
        move, plain = self.move, not group["maximize"] and not group.get("weight_decay")
        for p in parameters:
            state = self.state_of(p, group)
            state["step"] += 1
            parameter, gradient = p._array, p._grad._array  # type: ignore[union-attr]
            if not plain:
                gradient = descent(parameter, gradient, group)
            move(parameter, gradient, state, group)

    def move(self, parameter: Array, gradient: Array, state: dict[str, Any], group: Group) -> None:
        """Change `parameter` and its state in place."""
        raise NotImplementedError


def as_array(value: Any) -> Array:
    """The elements of a tensor, ours or PyTorch's, or of an array."""
    if isinstance(value, Tensor):
        return value._array
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def new_state(parameter: Tensor, fill: float = 0.0) -> Tensor:
    """Zeros (or `fill`) like a parameter, for an optimizer's state."""
    if not fill:
        return wrap(np.zeros_like(parameter._array))
    each = complex(fill, fill) if is_complex_dtype(parameter.dtype) else fill  # a pair of numbers
    return wrap(np.full_like(parameter._array, each))


def refuse_complex(optimizer: Optimizer) -> None:
    """Raise an error if a parameter is complex, for optimizers of matrices."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if is_complex_dtype(parameter.dtype):
                raise TypeError(
                    f"{type(optimizer).__name__} does not move complex parameters. Fix: use Adam, "
                    "or parameters of gradwalk.view_as_real(...)."
                )


def descent(parameter: Array, gradient: Array, group: Group) -> Array:
    """The gradient, negated for `maximize` and with weight decay; a new array if it changed.

    Decoupled weight decay shrinks the parameter instead.
    """
    if group["maximize"]:
        gradient = np.negative(gradient)
    decay = group.get("weight_decay")
    if not decay:
        return gradient
    if group.get("decoupled_weight_decay"):
        parameter *= 1 - group["lr"] * decay
        return gradient
    return decayed(parameter, gradient, decay)


def decayed(parameter: Array, gradient: Array, decay: Any) -> Array:
    """gradient + decay × parameter, a new array."""
    total = np.empty_like(parameter)
    np.multiply(parameter, decay, out=total)
    total += gradient
    return total


def follow(average: Array, values: Array, rate: float, scratch: Array) -> None:
    """Move a running average of squares: average × rate + values² × (1 − rate), in place."""
    average *= rate
    np.multiply(values, values, out=scratch)
    scratch *= 1 - rate
    average += scratch


def _number(value: Any) -> Any:
    """Convert a one-element tensor, ours or PyTorch's, to a Python number; keep anything else."""
    if isinstance(value, tuple):
        return tuple(_number(v) for v in value)
    if hasattr(value, "item") and not isinstance(value, (bool, int, float, str)):
        return value.item()
    return value


def _like(own: Any, saved: Any) -> Any:
    """Turn a list from JSON back into a tuple."""
    return tuple(saved) if isinstance(own, tuple) and isinstance(saved, list) else saved


def _check(group: Group) -> None:
    """Reject options that make no sense, as PyTorch does."""
    for name in ("lr", "eps", "weight_decay", "momentum", "lr_decay", "momentum_decay", "alpha"):
        value = group.get(name, 0)
        if not isinstance(value, (tuple, _Required, type(None))) and not value >= 0:
            raise ValueError(f"{name} must be at least 0, not {value}")
    for i, beta in enumerate(group.get("betas", ())):
        if not 0 <= beta < 1:
            raise ValueError(f"betas[{i}] must be at least 0 and below 1, not {beta}")
    if not 0 <= group.get("rho", 0) <= 1:
        raise ValueError(f"rho must be from 0 to 1, not {group['rho']}")
