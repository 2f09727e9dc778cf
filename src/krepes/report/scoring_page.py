"""A page that scores rows in the browser: the program of a model, a small interpreter, and controls for every column.

It is one file that works from a disk and sends nothing anywhere: its content security policy allows no connection.
The page holds the landmarks, which are real rows of the training data: treat it like them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from krepes.base.storage.files import readable_bytes
from krepes.export import ExportError, program_of
from krepes.export.program import Port, Program
from krepes.one_pass import OnePassEstimator
from krepes.report.page import WrittenReport, _filled, _template, packed_as, safe_json, write_page

LARGEST = 20_000_000  # bytes of numbers that a page may hold


def scoring_page(model: OnePassEstimator, data: Any = None) -> str:
    """The page of a fitted model; `data` list rare values, as in `to_onnx`."""
    program = program_of(model, data=data)
    size = sum(value.nbytes for value in program.constants.values() if value.dtype != object)
    if size > LARGEST:
        raise ExportError(
            f"This model has {readable_bytes(size)} of numbers, too many for a page: fit it with fewer landmarks, or "
            "write an ONNX file."
        )
    title = f"{type(model).__name__}: score a row"
    return _filled("scoring", title, data=safe_json(_content(model, program)), script=_template("scoring.js"))


def write_scoring_page(
    model: OnePassEstimator, path: Path, data: Any = None, overwrite: bool = False
) -> WrittenReport:
    """Write the page."""
    return write_page(scoring_page(model, data), path, overwrite)


def _content(model: OnePassEstimator, program: Program) -> dict[str, Any]:
    inputs = program.inputs
    picture = len(inputs) == 1 and len(inputs[0].shape) == 2 and model.input_space_.kind == "images"
    ports = [_with_range(port, model) for port in inputs]
    kernel_values, coefficients = _explained(model, program)
    outputs = program.outputs | ({"kernel_values": kernel_values} if coefficients else {})
    numbers = None if model.landmark_indices_ is None else model.landmark_indices_.tolist()
    return {
        "inputs": ports,
        "constants": {name: _packed(value) for name, value in program.constants.items()},
        "steps": program.steps,
        "outputs": outputs,
        "coefficients": coefficients,
        "rows": numbers,
        "classes": program.facts.get("classes"),
        "picture": picture,
        "start": {port.name: _start(model, port) for port in ports},
    }


def _explained(model: OnePassEstimator, program: Program) -> tuple[str, str | None]:
    """The values k_x and the constant A whose product is what the model says; none where there are cells."""
    m = len(model.landmarks_)
    for step in program.steps:
        A = program.constants.get(step.inputs[-1])
        if step.op == "matmul" and A is not None and A.ndim == 2 and len(A) == m and _is_last(model, A):
            return step.inputs[0], step.inputs[1]
    return "", None


def _is_last(model: OnePassEstimator, A: np.ndarray) -> bool:
    found = getattr(model._solved(), "A", None)
    return (
        found is not None and A.shape == tuple(found.shape) and np.allclose(A, found.cpu().numpy(), rtol=1e-4)
    )


def _with_range(port: Port, model: OnePassEstimator) -> Port:
    """With ends of a slider for arrays, which have none, from the landmarks."""
    if port.low is not None or port.dtype == "string":
        return port
    landmarks: Any = model.landmarks_
    divide = model.input_space_.divide
    return replace(port, low=float(landmarks.min()) * divide, high=float(landmarks.max()) * divide)


def _start(model: OnePassEstimator, port: Port) -> object:
    """The first row that is shown: usual values, or the first landmark."""
    if port.dtype == "string":
        return (port.levels or [""])[0]
    if port.usual is not None:
        return port.usual
    inputs = model.input_space_
    first: Any = inputs.restored(model.landmarks_[:1])  # type: ignore[arg-type]
    flat = np.asarray(first, dtype=np.float64).ravel()
    return (flat.round() if port.dtype == "uint8" else flat).tolist()


def _packed(value: np.ndarray) -> dict[str, Any]:
    """A constant, exactly."""
    if value.dtype == object:
        return {"shape": list(value.shape), "words": [str(word) for word in value.ravel()]}
    kind = {"float32": "float32", "float64": "float64"}.get(value.dtype.name, "int32")
    return {"shape": list(value.shape), **packed_as(kind, value)}
