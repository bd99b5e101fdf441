"""Module: the base class of layers and models."""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from gradwalk.engine.allocator import keep_freed_memory
from gradwalk.engine.guest_loaders import loaders
from gradwalk.engine.hooks import changes as changes
from gradwalk.engine.modes import state
from gradwalk.nn import hooks as _hooks
from gradwalk.nn import state as _state
from gradwalk.nn.conversions import ModuleConversions
from gradwalk.nn.parameter import BUFFERS, Buffer
from gradwalk.nn.parameter import Parameter as Parameter
from gradwalk.nn.registers import REGISTERS, Register, install
from gradwalk.tensors.tensor import Tensor


class Module(ModuleConversions, _hooks.ModuleHooks):
    """A part of a model: parameters, buffers and submodules, registered on assignment.

    A subclass calls `super().__init__()` first, assigns its pieces, and writes `forward`.

    >>> import gradwalk as gw
    >>> class Net(gw.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = gw.nn.Linear(2, 3)
    ...         self.scale = gw.nn.Parameter(gw.ones(1))
    ...
    ...     def forward(self, x):
    ...         return self.hidden(x).relu() * self.scale
    >>> net = Net()
    >>> [name for name, _ in net.named_parameters()]
    ['scale', 'hidden.weight', 'hidden.bias']
    >>> net(gw.zeros(5, 2)).shape
    (5, 3)
    """

    # A registered value is an ordinary attribute as well, in `__dict__`, so reading it costs
    # nothing extra. These registers keep kinds and order, and write both.
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    training: bool
    _version: int = 1  # of the format of a state dict; a subclass counts it up
    # Whether `__init__` hands its arguments on to the class behind Module, of several bases.
    call_super_init: bool = False

    def __init__(self, *args: Any, **keywords: Any) -> None:
        if (args or keywords) and not self.call_super_init:
            given = ", ".join([*(type(arg).__name__ for arg in args), *keywords])
            raise TypeError(
                f"Module.__init__() takes no arguments, but {type(self).__name__} passes {given}. "
                "Fix: call super().__init__() without them."
            )
        if state.here.tracer is not None:
            state.here.tracer.makes_module(self)
        keep_freed_memory()  # a network that only predicts asks for its arrays again and again too
        if "einops" in sys.modules:  # a program of PyTorch's that uses it does not tell it of us
            loaders["einops"]()
        methods = _methods(type(self))
        registers = {name: Register(self, methods) for name in REGISTERS}
        self.__dict__.update(registers, training=True, _non_persistent_buffers_set=set())
        if self.call_super_init:
            super().__init__(*args, **keywords)

    def forward(self, *args: Any, **keywords: Any) -> Any:
        """Compute the result; subclasses write it."""
        raise NotImplementedError(
            f"{type(self).__name__} defines no forward(): write what it computes"
        )

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        watcher = state.here.watcher
        if watcher is not None:
            watcher.entered_module(self)
        try:
            if self._hooks is None:
                return self.forward(*args, **keywords)
            return _hooks.call(self, args, keywords)
        finally:
            if watcher is not None:
                watcher.left()

    # -- attributes --------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        changes.now += 1
        if state.here.tracer is not None:
            state.here.tracer.sets_attribute(self, name)
        known = self.__dict__
        if "_parameters" not in known:
            if isinstance(value, (Parameter, Module)):
                raise AttributeError(
                    f"cannot assign {type(value).__name__} '{name}' before Module.__init__() "
                    f"was called. Fix: begin {type(self).__name__}.__init__ with "
                    "super().__init__()."
                )
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            if name not in self._parameters:
                self._forget(name)
            self.register_parameter(name, value)
        elif name in self._parameters:
            self._refuse(name, value, "parameter", "Parameter")
            self._parameters[name] = None
        elif isinstance(value, Module):
            if name not in self._modules:
                self._forget(name)
            self._modules[name] = value
        elif name in self._modules:
            self._refuse(name, value, "module", "Module")
            self._modules[name] = None
        elif isinstance(value, Buffer):
            if name not in self._buffers:
                self._forget(name)
            self._register_declared(name, value)
        elif name in self._buffers:
            if not isinstance(value, BUFFERS):
                self._refuse(name, value, "buffer", "Tensor")
            self._buffers[name] = value
        elif name in REGISTERS:
            install(self, name, value, _methods(type(self)))
        else:
            object.__setattr__(self, name, value)
            if name == "__class__":
                self._install(self.__dict__)

    def _register_declared(self, name: str, buffer: Buffer) -> None:
        """Register an assigned Buffer; a `register_buffer` from before there were Buffers does not
        say whether it persists."""
        own = type(self).register_buffer
        if own is Module.register_buffer or "persistent" in inspect.signature(own).parameters:
            self.register_buffer(name, buffer, buffer.persistent)
            return
        if not buffer.persistent:
            raise TypeError(
                f"{type(self).__name__}.register_buffer takes no `persistent`, so '{name}' cannot "
                "be a Buffer that is not part of the state. Fix: add the argument."
            )
        self.register_buffer(name, buffer)

    def _refuse(self, name: str, value: Any, kind: str, wanted: str) -> None:
        if value is not None:
            raise TypeError(
                f"cannot assign {type(value).__name__} as {kind} '{name}' of "
                f"{type(self).__name__} ({wanted} or None expected). Fix: `del` it first, or, "
                "to change its elements, use copy_() under no_grad()."
            )

    def _forget(self, name: str) -> None:
        """Remove a name from every register and from the attributes."""
        for register in (self._parameters, self._buffers, self._modules, self.__dict__):
            register.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        changes.now += 1
        if any(name in r for r in (self._parameters, self._buffers, self._modules)):
            self._forget(name)
        else:
            object.__delattr__(self, name)

    def __getattr__(self, name: str) -> Any:
        # Called for missing attributes only.
        if name in ("_parameters", "_buffers", "_modules", "training"):
            raise AttributeError(
                f"{type(self).__name__} is not initialised yet. Fix: begin its __init__ with "
                "super().__init__()."
            )
        for register in REGISTERS:  # of a subclass whose entries are nowhere else
            if name in self.__dict__.get(register, ()):
                return self.__dict__[register][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was copied or unpickled. A subclass may override it, to add the attributes
        that older versions of itself did not have.
        """
        self.__dict__.update(state)
        self._install(state)

    def _install(self, state: dict[str, Any]) -> None:
        for name in REGISTERS:
            if name in state:
                install(self, name, state[name], _methods(type(self)))

    def __dir__(self) -> list[str]:
        # Without the numbers that the modules of a Sequential have as names.
        return [name for name in super().__dir__() if not name[:1].isdigit()]

    def _register(
        self, register: dict[str, Any], kind: str, wanted: Any, name: Any, value: Any
    ) -> None:
        """Check a name and a value, and set both the register and the attribute."""
        if value is not None and not isinstance(value, wanted):
            fix = " Fix: wrap it, nn.Parameter(...)." if wanted is Parameter else ""
            raise TypeError(
                f"cannot register {type(value).__name__} as {kind} '{name}': it is not a "
                f"{'Tensor' if kind == 'buffer' else wanted.__name__} (or None).{fix}"
            )
        if not isinstance(name, str):
            raise TypeError(f"the name of a {kind} must be a string, not {type(name).__name__}")
        if "." in name or not name:
            raise KeyError(f"'{name}' cannot be the name of a {kind}: it is empty or has a dot")
        if name not in register and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} already has an attribute '{name}'")
        register[name] = value

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None reserves the name of an omitted one, such as a bias."""
        self._register(self._parameters, "parameter", Parameter, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the state but is not learned (running means, masks).

        A buffer that is not `persistent` is omitted from `state_dict`.
        """
        self._register(self._buffers, "buffer", BUFFERS, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a module under a name."""
        self._register(self._modules, "module", Module, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def get_submodule(self, target: str) -> Module:
        """The module with a dotted name; "" is this one."""
        module = self
        for name in target.split(".") if target else ():
            inner = module._modules.get(name)
            if inner is None:
                raise AttributeError(
                    f"{type(module).__name__} has no module '{name}' (looking for '{target}'); "
                    f"it has {', '.join(module._modules) or 'none'}"
                )
            module = inner
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the module with a dotted name.

        With `strict` it must exist already.
        """
        if not target or not isinstance(module, Module):
            raise ValueError(f"set_submodule takes a name and a Module, not {target!r}, {module!r}")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if name not in owner._modules and hasattr(owner, name):
            raise AttributeError(f"'{target}' is not a Module")
        if strict and name not in owner._modules:
            raise AttributeError(f"{type(owner).__name__} has no module '{name}'")
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with a dotted name."""
        return self._entry(target, "_parameters", "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with a dotted name."""
        return self._entry(target, "_buffers", "buffer")

    def _entry(self, target: str, register: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        value = getattr(self.get_submodule(path), register).get(name)
        if value is None:
            raise AttributeError(f"there is no {kind} '{target}' in {type(self).__name__}")
        return value

    # -- contents ----------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all inside it, with dotted names; a shared one is listed once."""
        seen = set() if memo is None else memo
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if remove_duplicate:
                if module in seen:
                    continue
                seen.add(module)
            yield name, module
            start = f"{name}." if name else ""
            inner = [(start + k, m) for k, m in module._modules.items() if m is not None]
            stack += reversed(inner)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all inside it, each once."""
        named = self.named_modules(remove_duplicate=remove_duplicate)
        return (module for _, module in named)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly inside, with their names, each once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly inside, each once."""
        return (module for _, module in self.named_children())

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules if recurse else [(prefix, self)]:
            start = f"{path}." if path else ""
            for name, value in get_members_fn(module):
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield start + name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its dotted name; a tied one is listed once."""
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Every parameter once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Every buffer with its dotted name; a shared one is listed once."""
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every buffer once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    # -- changing everything -----------------------------------------------------------------------

    def _tensors(self) -> list[Tensor]:
        """All parameters and buffers, also if an attribute has the name of a method for them."""
        return [*Module.parameters(self), *Module.buffers(self)]

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` with every module inside, then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and in all modules inside."""
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is True or False, not {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether gradients flow to the parameters; off freezes the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach()
                parameter.grad.zero_()

    def share_memory(self) -> Self:
        """Move all to memory that processes share; see `gradwalk.multiprocessing`."""
        for tensor in self._tensors():
            tensor.share_memory_()
        return self

    # -- state -------------------------------------------------------------------------------------

    def state_dict(
        self,
        *args: Any,
        destination: OrderedDict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> OrderedDict[str, Any]:
        """Every parameter and persistent buffer by its dotted name, on the same memory.

        >>> import gradwalk as gw
        >>> {name: t.shape for name, t in gw.nn.Linear(2, 3).state_dict().items()}
        {'weight': (3, 2), 'bias': (3,)}
        """
        if args:  # PyTorch's deprecated order, which overriding methods may still use
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination = given.get("destination", destination)
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        state = OrderedDict() if destination is None else destination
        if destination is None:  # where PyTorch keeps the version of each module's format
            state._metadata = OrderedDict()  # type: ignore[attr-defined]
        return _state.collect(self, state, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _state.IncompatibleKeys:
        """Copy tensors (or arrays) into the parameters and buffers with the same names.

        If any name is missing or unexpected (unless `strict` is off) or has another shape, the
        error lists them all and nothing is changed. `assign` replaces the old tensors instead of
        copying.
        """
        return _state.load(self, state_dict, strict, assign)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Add what the module itself holds to `destination`. A subclass may add more."""
        _state.save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Read what is this module's own. A subclass may override it, to rename old keys first."""
        lists = (missing_keys, unexpected_keys, error_msgs)
        self._run_hooks("before_load", self, state_dict, prefix, local_metadata, strict, *lists)
        _state.read(self, state_dict, prefix, missing_keys, error_msgs)

    def get_extra_state(self) -> Any:
        """An object that a subclass adds to its `state_dict`; it writes `set_extra_state` too."""
        raise NotImplementedError(f"{type(self).__name__} has no extra state")

    def set_extra_state(self, state: Any) -> None:
        """Restore the result of `get_extra_state`."""
        raise NotImplementedError(
            f"{type(self).__name__} has no set_extra_state, and the state dict has extra state for "
            "it. Fix: write the method, beside get_extra_state."
        )

    # -- text --------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text inside the parentheses of `repr`."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        inner = [f"({name}): {module!r}" for name, module in self._modules.items()]
        if len(lines) <= 1 and not inner:
            return f"{self._get_name()}({extra})"
        text = "\n".join([*lines, *inner]).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {text}\n)"


_METHODS = frozenset(dir(Module))  # a module of such a name leaves it to the method


def _methods(cls: type[Module]) -> frozenset[str] | None:
    return _METHODS if cls.__getattr__ is Module.__getattr__ else None
