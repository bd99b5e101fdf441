"""Python's answers to the page: questions about a trace, and expressions computed here.

Input is untrusted JSON and checked; output is JSON, with the texts "NaN", "Infinity" and
"-Infinity" for numbers that JSON lacks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradwalk.course.checker.grading import check_source
from gradwalk.course.checker.grading import starter as starter_file
from gradwalk.course.checker.process import ProcessLimits, supported
from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.open.element import element as element_of
from gradwalk.inspect.open.open_op import open_op
from gradwalk.inspect.order.lab import run_order
from gradwalk.inspect.trace.file import describe
from gradwalk.inspect.trace.trace import Edge, Trace
from gradwalk.inspect.why.why import why as why_of
from gradwalk.io.nested_state import converted
from gradwalk.printers.graphs.plain_data import jsonable
from gradwalk.studio.problems import no_gradient

MOST_NODES_SENT = 20_000  # of a graph that is made for an answer
MOST_VISITS = 10_000  # of an order
WINDOW = 128  # the most rows and columns of an array in one answer
_EXACT = 2**53  # JavaScript's numbers represent integers exactly up to here
_TEXTS = {
    "NaN": math.nan, "nan": math.nan, "Infinity": math.inf, "inf": math.inf,
    "-Infinity": -math.inf, "-inf": -math.inf,
}  # fmt: skip
_RANGE = re.compile(r"(\d{1,12}):(\d{1,12})")
_PLACE = re.compile(r"\d{1,12}(,\d{1,12})*")


class BadQuestion(ValueError):
    """A question that cannot be answered; the message says why."""


class AnswerTooLarge(ValueError):
    """The answer would be too large for a page."""


# -- arrays ----------------------------------------------------------------------------------------


def window(array: Any, query: Mapping[str, str]) -> dict[str, Any]:
    """Some rows and columns of the last two dimensions, at an index of the others."""
    unknown = set(query) - {"at", "rows", "columns"}
    if unknown:
        raise BadQuestion(f"a window has at, rows and columns, not {', '.join(sorted(unknown))}")
    grid = np.atleast_2d(array)
    at = _place(query.get("at", ""), grid.shape[:-2])
    rows = _range("rows", query.get("rows"), grid.shape[-2])
    columns = _range("columns", query.get("columns"), grid.shape[-1])
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "at": list(at),
        "rows": [rows.start, rows.stop],
        "columns": [columns.start, columns.stop],
        "values": jsonable(grid[at][rows, columns].tolist()),
    }


def _place(text: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if text and not _PLACE.fullmatch(text):
        raise BadQuestion("at is whole numbers with commas between, such as 0,3")
    place = tuple(int(part) for part in text.split(",")) if text else (0,) * len(shape)
    if len(place) != len(shape) or any(i >= size for i, size in zip(place, shape)):
        raise BadQuestion(f"there is no place {list(place)} in the outer dimensions {list(shape)}")
    return place


def _range(name: str, text: str | None, size: int) -> slice:
    match = _RANGE.fullmatch(f"0:{WINDOW}" if text is None else text)
    if match is None:
        raise BadQuestion(f"{name} is start:stop, such as 0:64")
    start, stop = int(match[1]), int(match[2])
    if stop - start > WINDOW:
        raise BadQuestion(f"at most {WINDOW} {name} at once")
    start = min(start, size)
    return slice(start, max(start, min(stop, size)))


# -- questions about a trace -----------------------------------------------------------------------


def why(trace: Trace, question: dict[str, Any]) -> dict[str, Any]:
    """The gradient of a node, or of one of its elements, split by edge and path."""
    _known_keys(question, "node", "output", "element")
    edge = _output(trace, question)
    nothing = no_gradient(trace, edge)
    if nothing is not None:
        raise BadQuestion(nothing)
    element = None if question.get("element") is None else _element(trace, edge, question)
    return _plain(why_of(edge, trace, element=None if trace.scalar else element).to_dict())


def element(trace: Trace, question: dict[str, Any]) -> dict[str, Any]:
    """One element of a tensor as a graph of numbers."""
    _known_keys(question, "node", "output", "element")
    edge = _output(trace, question)
    place = _element(trace, edge, question)
    element = element_of(trace, edge.node, place, output=edge.output)
    return _plain(element.to_dict()) | {"trace": _described(element.trace)}


def opened(trace: Trace, question: dict[str, Any]) -> dict[str, Any]:
    """The operations inside a composite op."""
    _known_keys(question, "node")
    opened_op = open_op(trace, _output(trace, question).node)
    answer = opened_op.to_dict()
    for name in ("gradient", "contributions", "closed"):  # they are in the trace
        answer.pop(name)
    return _plain(answer) | {"equal": opened_op.equal, "trace": _described(opened_op.trace)}


def _output(trace: Trace, question: dict[str, Any]) -> Edge:
    node = _whole("node", question.get("node"))
    output = _whole("output", question.get("output", 0))
    if node >= len(trace):
        raise BadQuestion(f"there is no node {node}: the trace has {len(trace)}")
    if output >= len(trace.nodes[node].metas):
        raise BadQuestion(f"{trace.name(node)} has no output {output}")
    return Edge(node, output)


def _element(trace: Trace, edge: Edge, question: dict[str, Any]) -> tuple[int, ...]:
    given = question.get("element")
    shape = trace.nodes[edge.node].metas[edge.output][0]
    if not isinstance(given, list):
        raise BadQuestion("element is a list of whole numbers, one for every dimension")
    place = tuple(_whole("element", index) for index in given)
    if len(place) != len(shape) or any(i >= size for i, size in zip(place, shape)):
        raise BadQuestion(
            f"{trace.name(edge.node)} has shape {list(shape)}: {given} is not one of its elements"
        )
    return place


# -- expressions -----------------------------------------------------------------------------------


def walk(question: dict[str, Any]) -> dict[str, Any]:
    """An expression computed here; with an order, also the gradients of that order."""
    _known_keys(question, "source", "values", "order", "overwrite")
    source, values = question.get("source"), question.get("values", {})
    if not isinstance(source, str):
        raise BadQuestion("source is the text of an expression")
    if not isinstance(values, dict):
        raise BadQuestion("values is an object: the number of each leaf")
    numbers = {name: _number(name, value) for name, value in values.items()}
    built = parse(source).build(numbers)
    trace = built.trace()
    answer: dict[str, Any] = {
        "trace": describe(trace)[0],
        "assumed": list(built.assumed),
        "unused": list(built.unused),
        "order": None,
    }
    if question.get("order") is not None:
        overwrite = question.get("overwrite", False)
        if not isinstance(overwrite, bool):
            raise BadQuestion("overwrite is true or false")
        run = run_order(trace, _order(question["order"]), overwrite=overwrite)
        answer["order"] = _plain(run.to_dict())
    return answer


def _order(given: Any) -> Any:
    """A recipe, names separated by blanks, a list of nodes, or one list for each backward pass."""
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise BadQuestion("order is a list of nodes, or the name of a recipe")
    passes = given if given and all(isinstance(part, list) for part in given) else [given]
    nodes = [node for part in passes for node in part]
    if len(nodes) > MOST_VISITS:
        raise BadQuestion(f"an order has at most {MOST_VISITS} visits")
    for node in nodes:
        if not isinstance(node, str):
            _whole("order", node)
    return given


# -- numbers in and out ----------------------------------------------------------------------------


def _known_keys(question: dict[str, Any], *names: str) -> None:
    unknown = sorted(set(question) - set(names))
    if unknown:
        raise BadQuestion(f"{unknown[0][:40]!r} is unknown here; known are {', '.join(names)}")


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _EXACT:
        raise BadQuestion(f"{name} must be a whole number, 0 or larger")
    return value


def _number(name: str, value: Any) -> float:
    """A JSON number, or the text of a number that JSON lacks."""
    if isinstance(value, dict) and len(value) == 1:
        value = value.get("float")
    if isinstance(value, str) and value in _TEXTS:
        return _TEXTS[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadQuestion(f"the value of {name[:40]!r} must be a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


# -- a learner's engine ----------------------------------------------------------------------------


def starter() -> dict[str, str]:
    """The file that a learner begins with."""
    return {"starter": starter_file()}


def check(question: Mapping[str, Any]) -> dict[str, Any]:
    """The grade of an engine, as `gradwalk course check --json` gives it for a file."""
    source = question.get("source")
    if set(question) != {"source"} or not isinstance(source, str):
        raise BadQuestion("an engine is checked by its text: {source}")
    missing = supported()
    if missing:
        raise BadQuestion(missing)
    limits = ProcessLimits(seconds=1)  # several graphs may wait for theirs, in one answer
    encoded = source.encode(errors="replace")
    return check_source(encoded, limits=limits, only_enforced=True).to_dict()


def _described(trace: Trace) -> dict[str, Any]:
    """A trace for the page alone: larger arrays are reduced to statistics."""
    if len(trace) > MOST_NODES_SENT:
        raise AnswerTooLarge(
            f"it has {len(trace):,} operations on numbers, too many to be drawn (at most "
            f"{MOST_NODES_SENT:,})"
        )
    described, arrays = describe(trace)
    return without_arrays(described, set(arrays))


def without_arrays(described: Any, names: set[str]) -> Any:
    """A description with only the statistics and thumbnail of these arrays."""
    if isinstance(described, dict):
        if described.get("array") in names and "statistics" in described:
            return {key: value for key, value in described.items() if key != "array"}
        return {key: without_arrays(value, names) for key, value in described.items()}
    if isinstance(described, list):
        return [without_arrays(item, names) for item in described]
    return described


def _plain(report: Any) -> Any:
    """A report as JSON; counts beyond JavaScript's integers are text."""
    return converted(jsonable(report), _countable)


def _countable(value: Any) -> Any:
    if isinstance(value, int) and abs(value) >= _EXACT:
        digits = int(value.bit_length() * math.log10(2))
        return str(value) if digits <= 40 else f"≈ 10^{digits}"
    return value
