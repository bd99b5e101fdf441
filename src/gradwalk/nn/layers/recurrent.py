"""Recurrent layers: RNN, LSTM, GRU, and one step of each.

A layer takes a whole sequence through one op (ops/network/recurrent.py).
"""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import InitVar
from functools import partial
from typing import Any

from gradwalk.nn import functional, init
from gradwalk.nn.constructors import declared
from gradwalk.nn.functional.dropout import check_probability
from gradwalk.nn.layers.options import changed, store
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter, empty_parameter
from gradwalk.nn.utils.rnn import PackedSequence
from gradwalk.ops.core.signature import OperandError
from gradwalk.ops.network.recurrent import gru_op, lstm_op, lstm_step, rnn_op, scan
from gradwalk.ops.shape.reshaping import cat, split, stack
from gradwalk.tensors import creation
from gradwalk.tensors.autocast import in_half

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell"]

State = tuple[Any, ...]  # (h,), or (h, c) of an LSTM


def _sequence(
    mode: str, x: Any, state: State, weights: tuple[Any, Any], biases: Any, reverse: bool
) -> tuple[Any, State]:
    """All outputs and the last state (ops/network/recurrent.py).

    Only a GRU multiplies its second bias by a gate; elsewhere both are added, at all times.
    """
    if biases is None:
        biases = (x.new_zeros(weights[0].shape[0]),) * 2
    last = 0 if reverse else -1
    if mode == "GRU":
        out = gru_op(x, *state, *weights, *biases, reverse=reverse)
        return out, (out[last],)
    bias = biases[0] + biases[1]
    if mode == "LSTM":
        out, c = lstm_op(x, *state, *weights, bias, reverse=reverse)
        return out, (out[last], c)
    nonlinearity = "tanh" if mode == "RNN_TANH" else "relu"
    out = rnn_op(x, *state, *weights, bias, reverse=reverse, nonlinearity=nonlinearity)
    return out, (out[last],)


def _projected(
    x: Any, state: State, weights: tuple[Any, Any], biases: Any, projection: Any, reverse: bool
) -> tuple[Any, State]:
    """An LSTM whose state is made smaller at every step."""
    bias = None if biases is None else biases[0] + biases[1]
    x = functional.linear(x, weights[0], bias)
    return scan(_projected_step, x, state, (weights[1], projection), reverse)


def _projected_step(x: Any, h: Any, c: Any, weight_h: Any, projection: Any) -> State:
    h, c = lstm_step(x, h, c, weight_h)
    return functional.linear(h, projection), c


_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
_MODES = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}


class _Gated(Module):
    """What layers and cells share: a mode, and weights that start uniform in ±1 / √hidden_size."""

    mode: str
    input_size: int
    hidden_size: int
    bias: bool

    def _store(self, options: dict[str, Any]) -> None:
        """Set the options, and the mode of an RNN."""
        store(self, options)
        nonlinearity = options.get("nonlinearity")
        if nonlinearity is not None:
            if nonlinearity not in _MODES:
                raise ValueError(f"nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
            self.mode = _MODES[nonlinearity]

    def reset_parameters(self) -> None:
        """Initialize all weights and biases anew."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        init.fill(init.uniform_, *self.parameters(), a=-bound, b=bound)


_KINDS = {"input_size": int, "hidden_size": int, "bias": bool, "batch_first": bool}


class _Recurrent(_Gated):
    """What LSTM, GRU and RNN have in common; `nn.RNNBase`, for `isinstance`."""

    num_layers: int
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def _construct(self, *, device: Any, dtype: Any, proj_size: int = 0, **options: Any) -> None:
        self._store(options | {"dropout": float(options["dropout"]), "proj_size": proj_size})
        input_size, hidden_size, num_layers = self.input_size, self.hidden_size, self.num_layers
        for name, kind in _KINDS.items():  # LSTM(10, 20, 2, 0.5) gives dropout to bias
            given = getattr(self, name)
            if not isinstance(given, kind):
                raise TypeError(
                    f"{name} is {kind.__name__}, not {given!r}. Fix: give the options by name."
                )
        if input_size <= 0 or hidden_size <= 0 or num_layers <= 0:
            raise ValueError("input_size, hidden_size and num_layers must be positive")
        check_probability(self.dropout)
        if not 0 <= proj_size < hidden_size:
            raise ValueError(f"proj_size {proj_size} must be smaller than hidden_size")
        if self.dropout and num_layers == 1:
            warnings.warn(
                "dropout acts between recurrent layers, and there is only one: it has no effect",
                stacklevel=3,
            )
        gates = _GATES[self.mode] * hidden_size
        state_size = proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else state_size * len(self._directions())
            shapes: dict[str, tuple[int, ...]]
            shapes = {"weight_ih": (gates, width), "weight_hh": (gates, state_size)}
            if self.bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in self._directions():
                for name, shape in shapes.items():
                    parameter = Parameter(creation.empty(shape, dtype=dtype))
                    setattr(self, f"{name}_l{layer}{suffix}", parameter)
        self.reset_parameters()

    def flatten_parameters(self) -> None:
        """Nothing: PyTorch puts the weights in one piece of a GPU's memory."""

    @property
    def _flat_weights_names(self) -> list[str]:
        return list(self._parameters)

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [parameter for parameter in self._parameters.values() if parameter is not None]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        each = len(self._flat_weights) // (self.num_layers * len(self._directions()))
        return [self._flat_weights[i : i + each] for i in range(0, len(self._flat_weights), each)]

    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """All outputs of the last layer, and the last state of every layer and direction.

        Of a PackedSequence, the outputs are one too, and a state is that after the last step of
        its own sequence.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise OperandError(
                f"{type(self).__name__}({self.extra_repr()}) takes (time, batch, "
                f"{self.input_size}), (batch, time, …) with batch_first, or (time, …); got "
                f"{tuple(input.shape)}"
            )
        batched = input.ndim == 3
        x = input if batched else input.unsqueeze(1)
        if batched and self.batch_first:
            x = x.transpose(0, 1)
        if not x.shape[0]:
            raise ValueError("the sequence is empty")
        x, final = self._layers(x, self._initial(x, x.shape[1], hx, batched), self._run)
        if batched and self.batch_first:
            x = x.transpose(0, 1)
        if not batched:
            x, final = x.squeeze(1), tuple(s.squeeze(1) for s in final)
        return x, (final if len(final) > 1 else final[0])

    def _layers(self, x: Any, states: list[State], run: Any) -> tuple[Any, State]:
        """All layers, each of them run in its directions: the outputs and the last states."""
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                x = functional.dropout(x, self.dropout, True)
            outputs = []
            for suffix in self._directions():
                out, state = run(x, states[len(last)], f"_l{layer}{suffix}", bool(suffix))
                outputs.append(out)
                last.append(state)
            x = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
        return x, tuple(stack(list(parts)) for parts in zip(*last))

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> Any:
        sizes = [int(size) for size in packed.batch_sizes]
        order, back = packed.sorted_indices, packed.unsorted_indices
        if hx is not None and order is not None:
            hx = tuple(h[:, order] for h in hx) if isinstance(hx, tuple) else hx[:, order]
        states = self._initial(packed.data, sizes[0], hx, True)
        # Times at which the same sequences are there are one run of the op.
        groups = [(size, len(list(same))) for size, same in itertools.groupby(sizes)]
        run = partial(self._run_packed, groups)
        x, final = self._layers(packed.data, states, run)
        if back is not None:
            final = tuple(state[:, back] for state in final)
        return packed._replace(data=x), (final if len(final) > 1 else final[0])

    def _run_packed(
        self, groups: list[tuple[int, int]], x: Any, state: State, suffix: str, reverse: bool
    ) -> tuple[Any, State]:
        """One layer in one direction of packed data: (elements, features) to (elements, state).

        Forward, sequences end one after the other; in reverse, they begin so.
        """
        parts = split(x, [size * times for size, times in groups], 0)
        first, ended, outputs = state, [], []
        running = tuple(s[:0] for s in state) if reverse else state
        for part, (size, times) in list(zip(parts, groups))[:: -1 if reverse else 1]:
            have = running[0].shape[0]
            if reverse:
                running = tuple(cat([r, f[have:size]]) for r, f in zip(running, first))
            elif have > size:
                ended.append(tuple(r[size:] for r in running))
                running = tuple(r[:size] for r in running)
            steps = part.reshape(times, size, part.shape[-1])
            out, running = self._run(steps, running, suffix, reverse)
            outputs.append(out.reshape(times * size, out.shape[-1]))
        last = tuple(cat([r, *reversed(e)]) for r, *e in zip(running, *ended))
        return cat(outputs[:: -1 if reverse else 1]), last

    def _run(self, x: Any, state: State, suffix: str, reverse: bool) -> tuple[Any, State]:
        """One layer in one direction: (time, batch, features) to (time, batch, state)."""

        def part(name: str) -> Any:
            return getattr(self, name + suffix, None)

        weights = part("weight_ih"), part("weight_hh")
        biases = (part("bias_ih"), part("bias_hh")) if self.bias else None
        if self.proj_size:
            return _projected(x, state, weights, biases, part("weight_hr"), reverse)
        if self.mode == "LSTM":  # of its steps, which cells are, PyTorch's autocast keeps the state
            state = tuple(map(in_half, state))
        return _sequence(self.mode, x, state, weights, biases, reverse)

    def _initial(self, x: Any, batch: int, hx: Any, batched: bool) -> list[State]:
        """The state of every layer and direction before the first step."""
        lstm = self.mode == "LSTM"
        count = self.num_layers * len(self._directions())
        sizes = [self.proj_size or self.hidden_size] + ([self.hidden_size] if lstm else [])
        if hx is None:
            zeros = [x.new_zeros(batch, size) for size in sizes]
            return [tuple(zeros)] * count
        given = tuple(hx) if lstm else (hx,)
        if len(given) != len(sizes):
            raise ValueError(f"the state of an LSTM is (h, c), not {len(given)} tensors")
        parts = []
        for state, size in zip(given, sizes):
            wanted = (count, batch, size) if batched else (count, size)
            if tuple(state.shape) != wanted:
                raise OperandError(f"an initial state has shape {tuple(state.shape)}, not {wanted}")
            state = state if batched else state.unsqueeze(1)
            parts.append([s.squeeze(0) for s in split(state, 1, 0)])
        return list(zip(*parts))

    def extra_repr(self) -> str:
        """The sizes and options; defaults are omitted."""
        defaults = dict(proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0)
        return f"{self.input_size}, {self.hidden_size}" + changed(
            self, **defaults, bidirectional=False
        )


RNNBase = _Recurrent  # PyTorch's name, for `isinstance(layer, nn.RNNBase)`


@declared
class RNN(_Recurrent):
    r"""$h_t = \tanh(W_{ih} x_t + b_{ih} + W_{hh} h_{t-1} + b_{hh})$.

    >>> import gradwalk as gw
    >>> out, h = gw.nn.RNN(3, 5, num_layers=2)(gw.zeros(7, 2, 3))
    >>> out.shape, h.shape
    ((7, 2, 5), (2, 2, 5))
    """

    input_size: int
    hidden_size: int
    num_layers: int = 1
    nonlinearity: str = "tanh"
    bias: bool = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None


@declared
class LSTM(_Recurrent):
    r"""A long short-term memory; gates in PyTorch's order $i, f, g, o$.

    $$ i, f, o = \sigma(\cdot), \quad g = \tanh(\cdot), \quad
       c_t = f c_{t-1} + i g, \quad h_t = o \tanh(c_t) $$

    >>> import gradwalk as gw
    >>> out, (h, c) = gw.nn.LSTM(3, 5, bidirectional=True)(gw.zeros(7, 2, 3))
    >>> out.shape, h.shape
    ((7, 2, 10), (2, 2, 5))
    """

    mode = "LSTM"
    input_size: int
    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False
    proj_size: int = 0
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None


@declared
class GRU(_Recurrent):
    r"""A gated recurrent unit; gates in PyTorch's order $r, z, n$.

    $$ n = \tanh(W_{in} x_t + b_{in} + r (W_{hn} h_{t-1} + b_{hn})), \quad
       h_t = (1 - z) n + z h_{t-1} $$
    """

    mode = "GRU"
    input_size: int
    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None


class _Cell(_Gated):
    """One step of a recurrent layer."""

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def _construct(self, *, device: Any, dtype: Any, **options: Any) -> None:
        self._store(options)
        gates = _GATES[self.mode] * self.hidden_size
        self.weight_ih = Parameter(creation.empty(gates, self.input_size, dtype=dtype))
        self.weight_hh = Parameter(creation.empty(gates, self.hidden_size, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, empty_parameter(gates, dtype, self.bias))
        self.reset_parameters()

    def _step(self, x: Any, state: State | None) -> State:
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise OperandError(
                f"{type(self).__name__}({self.extra_repr()}) takes (batch, {self.input_size}) or "
                f"({self.input_size},), got {tuple(x.shape)}"
            )
        if state is None:
            zeros = x.new_zeros(*x.shape[:-1], self.hidden_size)
            state = (zeros,) * (2 if self.mode == "LSTM" else 1)
        expected = (*x.shape[:-1], self.hidden_size)
        for part in state:
            if tuple(part.shape) != expected:
                raise OperandError(
                    f"{type(self).__name__}({self.extra_repr()}): an input of shape "
                    f"{tuple(x.shape)} needs a state of shape {expected}, got {tuple(part.shape)}"
                )
        single = x.ndim == 1  # no batch
        if single:
            x, state = x.unsqueeze(0), tuple(s.unsqueeze(0) for s in state)
        weights = self.weight_ih, self.weight_hh
        biases = (self.bias_ih, self.bias_hh) if self.bias else None
        one = x.unsqueeze(0)  # a sequence of one
        _, state = _sequence(self.mode, one, state, weights, biases, reverse=False)
        return tuple(s.squeeze(0) for s in state) if single else state

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next hidden state."""
        return self._step(input, None if hx is None else (hx,))[0]

    def extra_repr(self) -> str:
        """The sizes and options; defaults are omitted."""
        relu = ", nonlinearity=relu" if self.mode == "RNN_RELU" else ""
        return f"{self.input_size}, {self.hidden_size}" + changed(self, bias=True) + relu


@declared
class RNNCell(_Cell):
    """One step of `RNN`."""

    input_size: int
    hidden_size: int
    bias: bool = True
    nonlinearity: str = "tanh"
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None


@declared
class _GatedCell(_Cell):
    input_size: int
    hidden_size: int
    bias: bool = True
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None


class GRUCell(_GatedCell):
    """One step of `GRU`."""

    mode = "GRU"


class LSTMCell(_GatedCell):
    """One step of `LSTM`."""

    mode = "LSTM"

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next (h, c)."""
        return self._step(input, None if hx is None else tuple(hx))
