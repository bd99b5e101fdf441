"""Operators of `ai.onnx.ml` that scikit-learn's converter puts around a network: scaling, filling
in and linear models. Their numbers are attributes, and no parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.operators.table import OnnxNode, constant, operator

ML = "ai.onnx.ml"


def _floats(node: OnnxNode, name: str) -> Any:
    return constant(np.asarray(node.get(name), np.float32))


@operator("Scaler", domain=ML)
def scaler(node: OnnxNode, x: Any) -> Any:
    return (x.float() - _floats(node, "offset")) * _floats(node, "scale")


@operator("Imputer", domain=ML)
def imputer(node: OnnxNode, x: Any) -> Any:
    """A value for each column, or for all, in place of one that means that it is missing."""
    kind = "float" if x.is_floating_point() else "int64"
    values = node.get(f"imputed_value_{kind}s")
    missing = node.get(f"replaced_value_{kind}", 0)
    there = gw.isnan(x) if missing != missing else x == missing
    return gw.where(there, constant(np.asarray(values, x.dtype)), x)


@operator("Normalizer", domain=ML)
def normalizer(node: OnnxNode, x: Any) -> Any:
    """Rows divided by their largest element, sum of sizes, or length; zeros stay zeros."""
    x, norm = x.float(), node.get("norm", "MAX")
    if norm == "MAX":
        size = x.amax(-1, keepdim=True)
    else:
        size = x.norm(1 if norm == "L1" else 2, dim=-1, keepdim=True)
    return x / gw.where(size == 0, 1.0, size)


# -- linear models ---------------------------------------------------------------------------------

_AFTER: dict[str, Callable[[Any], Any]] = {
    "NONE": lambda scores: scores,
    "LOGISTIC": gw.sigmoid,
    "SOFTMAX": lambda scores: gw.softmax(scores, -1),
    "PROBIT": lambda scores: gw.special.ndtri(scores),
}


def _scores(node: OnnxNode, x: Any, count: int) -> Any:
    """x Wᵀ + b, for so many results."""
    weight = _floats(node, "coefficients").reshape(count, -1)
    out = gw.matmul(x.float().reshape(-1, weight.shape[1]), weight.mT)
    return out + _floats(node, "intercepts") if node.get("intercepts") else out


def _after(node: OnnxNode, scores: Any) -> Any:
    name = node.get("post_transform", "NONE")
    if name not in _AFTER:
        raise NotImplementedError(f"{node.where()}: post_transform {name} is not supported")
    return _AFTER[name](scores)


@operator("LinearRegressor", domain=ML)
def linear_regressor(node: OnnxNode, x: Any) -> Any:
    return _after(node, _scores(node, x, int(node.get("targets", 1))))


@operator("LinearClassifier", domain=ML)
def linear_classifier(node: OnnxNode, x: Any) -> Any:
    """The label of the largest score, and all scores; of two classes one score may be given."""
    labels = node.get("classlabels_ints")
    if not labels:
        raise NotImplementedError(f"{node.where()}: labels are integers here, not strings")
    width = len(node.get("coefficients")) // x.shape[-1]
    scores = _scores(node, x, width)
    if width == 1 and len(labels) == 2:
        likely = (scores[:, 0] > 0).long()
        one = _after(node, scores)
        both = [1 - one if node.get("post_transform") == "LOGISTIC" else -one, one]
        return constant(np.asarray(labels, np.int64))[likely], gw.cat(both, 1)
    return constant(np.asarray(labels, np.int64))[scores.argmax(1)], _after(node, scores)
