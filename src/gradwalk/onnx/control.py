"""If, Loop and Scan, whose graphs are functions here; sequences, which are lists; and what is
optional, which may be None."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.operators.table import OnnxNode, operator
from gradwalk.onnx.values import numbers_of, tensor_of


def _truth(value: Any) -> bool:
    return bool(numbers_of(value).reshape(-1)[0])


@operator("If", values=True)
def if_(node: OnnxNode, condition: Any) -> Any:
    return node.get("then_branch" if _truth(condition) else "else_branch")()


@operator("Loop", values=True)
def loop(node: OnnxNode, most: Any = None, condition: Any = None, *state: Any) -> Any:
    body, count = node.get("body"), len(state)
    limit = None if most is None else int(numbers_of(most).reshape(-1)[0])
    going = condition is None or _truth(condition)
    collected: list[list[Any]] = []
    while going and (limit is None or len(collected) < limit):
        on, *results = body(np.array(len(collected), np.int64), np.array(True), *state)
        going, state = _truth(on), tuple(results[:count])
        collected.append(results[count:])
    return [*state, *_stacked(node, collected, len(node.outputs) - count)]


def _stacked(node: OnnxNode, rows: list[list[Any]], count: int) -> list[Any]:
    """What the body returned in each turn, as one tensor per output."""
    if not rows and count:
        raise ValueError(
            f"{node.where()} runs no turn, so the shape of what it collects is unknown"
        )
    return [gw.stack([tensor_of(row[i]) for row in rows]) for i in range(count)]


@operator("Scan", values=True)
def scan(node: OnnxNode, *given: Any) -> Any:
    if node.version < 9:
        return _batched_scan(node, *given)
    count = int(node.get("num_scan_inputs"))
    state, inputs = list(given[:-count]), [tensor_of(x) for x in given[-count:]]
    axes = node.get("scan_input_axes", (0,) * count)
    backwards = node.get("scan_input_directions", (0,) * count)
    parts = [
        list(gw.unbind(gw.flip(x, (axis,)) if back else x, axis))
        for x, axis, back in zip(inputs, axes, backwards, strict=True)
    ]
    collected = []
    for now in zip(*parts, strict=True):
        results = node.get("body")(*state, *now)
        state = results[: len(state)]
        collected.append(results[len(state) :])
    out = _stacked(node, collected, len(node.outputs) - len(state))
    directions = node.get("scan_output_directions", (0,) * len(out))
    places = node.get("scan_output_axes", (0,) * len(out))
    out = [gw.flip(x, (0,)) if back else x for x, back in zip(out, directions, strict=True)]
    return [*state, *(gw.movedim(x, 0, axis) for x, axis in zip(out, places, strict=True))]


def _batched_scan(node: OnnxNode, lengths: Any, *given: Any) -> Any:
    """Version 8: every input has a batch dimension before that of time."""
    body = OnnxNode(**{**vars(node), "version": 9})
    rows = [
        scan(body, *(tensor_of(x)[i] for x in given)) for i in range(tensor_of(given[0]).shape[0])
    ]
    return [gw.stack([tensor_of(part) for part in parts]) for parts in zip(*rows, strict=True)]


# -- sequences -------------------------------------------------------------------------------------


def _position(value: Any) -> int:
    return int(numbers_of(value).reshape(-1)[0])


@operator("SequenceConstruct", values=True)
def sequence(node: OnnxNode, *items: Any) -> Any:
    return [list(items)]


@operator("SequenceEmpty", values=True)
def sequence_empty(node: OnnxNode) -> Any:
    return [[]]


@operator("SequenceInsert", values=True)
def sequence_insert(node: OnnxNode, items: list[Any], item: Any, position: Any = None) -> Any:
    at = len(items) if position is None else _position(position)
    return [[*items[:at], item, *items[at:]]]


@operator("SequenceErase", values=True)
def sequence_erase(node: OnnxNode, items: list[Any], position: Any = None) -> Any:
    at = (len(items) - 1) if position is None else _position(position) % len(items)
    return [[*items[:at], *items[at + 1 :]]]


@operator("SequenceAt", values=True)
def sequence_at(node: OnnxNode, items: list[Any], position: Any) -> Any:
    return [items[_position(position)]]


@operator("SequenceLength", values=True)
def sequence_length(node: OnnxNode, items: list[Any]) -> Any:
    return [np.array(len(items), np.int64)]


@operator("ConcatFromSequence", values=True)
def concat_from_sequence(node: OnnxNode, items: list[Any]) -> Any:
    join = gw.stack if node.get("new_axis", 0) else gw.cat
    return [join([tensor_of(item) for item in items], node.get("axis"))]


@operator("SplitToSequence", values=True)
def split_to_sequence(node: OnnxNode, x: Any, split: Any = None) -> Any:
    x, axis = tensor_of(x), node.get("axis", 0)
    if split is None:
        parts = list(gw.split(x, 1, axis))
        return [parts if node.get("keepdims", 1) else [gw.squeeze(p, axis) for p in parts]]
    sizes = numbers_of(split)
    return [list(gw.split(x, sizes.tolist() if sizes.ndim else int(sizes), axis))]


@operator("Optional", values=True)
def optional(node: OnnxNode, value: Any = None) -> Any:
    return [value]


@operator("OptionalGetElement", values=True)
def optional_get_element(node: OnnxNode, value: Any) -> Any:
    if value is None:
        raise ValueError(f"{node.where()} reads an optional value that is not there")
    return [value]


@operator("OptionalHasElement", values=True)
def optional_has_element(node: OnnxNode, value: Any = None) -> Any:
    return [np.array(value is not None)]
