"""The training step of an LSTM that classifies sequences, by hand.

Features come first and the batch last, so that each gate is contiguous in memory. The two loops
contain only what depends on the previous step; everything else is computed for all steps at once.
"""

from __future__ import annotations

import numpy as np

from .shared import AdamW, Array, Arrays, Buffers, Floor, cross_entropy


class LstmFloor(Floor):
    """An LSTM, a linear layer on its last state; cross-entropy; Adam."""

    def __init__(self, parameters: Arrays, rate: float) -> None:
        super().__init__(parameters)
        self.optimizer = AdamW(parameters, rate, decay=0)
        self.buffer = Buffers()

    def gradients(self, inputs: Array, labels: Array) -> tuple[float, Arrays]:
        p = self.parameters
        by_step = np.ascontiguousarray(inputs.transpose(1, 2, 0))  # (time, features, batch)
        gates, hidden, cell, cell_tanh = self.forward(by_step)
        last = hidden[-1]  # (width, batch)
        logits = last.T @ p["head.weight"].T  # (batch, classes)
        logits += p["head.bias"]
        loss, g = cross_entropy(logits, labels)

        to_gates = self.backward(p["head.weight"].T @ g.T, gates, cell, cell_tanh)
        time, _, width, batch = to_gates.shape
        rows = self.buffer("rows", (4 * width, time, batch), g.dtype)
        rows[...] = to_gates.reshape(time, 4 * width, batch).transpose(1, 0, 2)
        rows = rows.reshape(4 * width, -1)
        bias = rows.sum(1)
        return loss, {
            "lstm.weight_ih_l0": rows @ over_time(by_step),
            "lstm.weight_hh_l0": rows @ over_time(hidden[:time]),
            "lstm.bias_ih_l0": bias,
            "lstm.bias_hh_l0": bias,
            "head.weight": g.T @ last.T,
            "head.bias": g.sum(0),
        }

    def forward(self, by_step: Array) -> tuple[Array, Array, Array, Array]:
        """The gates i, f, g, o after their nonlinearities, the states before each step and after
        the last one, and the cells' tanh."""
        p = self.parameters
        weight = p["lstm.weight_hh_l0"]
        time, _, batch = by_step.shape
        width, dtype = weight.shape[1], by_step.dtype
        gates = self.buffer("gates", (time, 4 * width, batch), dtype)
        np.matmul(p["lstm.weight_ih_l0"], by_step, out=gates)
        gates += (p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"])[:, None]
        hidden = self.buffer("hidden", (time + 1, width, batch), dtype)  # the first remain 0
        cell = self.buffer("cell", (time + 1, width, batch), dtype)
        cell_tanh = self.buffer("cell tanh", (time, width, batch), dtype)
        for t in range(time):
            gate = gates[t]
            gate += weight @ hidden[t]
            new, out = gate[2 * width : 3 * width], gate[3 * width :]
            sigmoid(gate[: 2 * width])
            np.tanh(new, out=new)
            sigmoid(out)
            np.multiply(gate[width : 2 * width], cell[t], out=cell[t + 1])
            cell[t + 1] += gate[:width] * new
            np.tanh(cell[t + 1], out=cell_tanh[t])
            np.multiply(out, cell_tanh[t], out=hidden[t + 1])
        return gates.reshape(time, 4, width, batch), hidden, cell, cell_tanh

    def backward(self, to_hidden: Array, gates: Array, cell: Array, cell_tanh: Array) -> Array:
        """The gradients of all gates before their nonlinearities, (time, 4, width, batch)."""
        time, _, width, batch = gates.shape
        slopes, cell_slope = self.slopes(gates, cell, cell_tanh)
        to_gates = self.buffer("to gates", gates.shape, gates.dtype)
        to_cell = np.zeros_like(to_hidden)  # (width, batch)
        weight = np.ascontiguousarray(self.parameters["lstm.weight_hh_l0"].T)
        for t in reversed(range(time)):
            to_cell += to_hidden * cell_slope[t]
            np.multiply(slopes[t, :3], to_cell, out=to_gates[t, :3])
            np.multiply(slopes[t, 3], to_hidden, out=to_gates[t, 3])
            to_cell *= gates[t, 1]
            to_hidden = weight @ to_gates[t].reshape(4 * width, batch)
        return to_gates

    def slopes(self, gates: Array, cell: Array, cell_tanh: Array) -> tuple[Array, Array]:
        """The derivatives of cell and hidden state by the gates, and of hidden state by cell.

        The gates i, f and g act on the cell, o on the hidden state.
        """
        enter, _, new, out = (gates[:, gate] for gate in range(4))
        slopes = self.buffer("slopes", gates.shape, gates.dtype)
        np.subtract(1, gates, out=slopes)
        slopes *= gates  # correct for the three sigmoids
        slopes[:, 0] *= new
        slopes[:, 1] *= cell[:-1]
        np.multiply(new, new, out=slopes[:, 2])
        np.subtract(1, slopes[:, 2], out=slopes[:, 2])
        slopes[:, 2] *= enter
        slopes[:, 3] *= cell_tanh
        cell_slope = cell_tanh * cell_tanh
        np.subtract(1, cell_slope, out=cell_slope)
        cell_slope *= out
        return slopes, cell_slope


def over_time(x: Array) -> Array:
    """(time, features, batch) as (time × batch, features)."""
    return x.transpose(0, 2, 1).reshape(-1, x.shape[1])


def sigmoid(x: Array) -> None:
    """Apply the sigmoid in place. tanh is faster than exp and cannot overflow."""
    x *= 0.5
    np.tanh(x, out=x)
    x *= 0.5
    x += 0.5
