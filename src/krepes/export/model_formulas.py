"""Fitted models as programs: which outputs each kind has, and their formulas.

    KernelEmbedding              embedding
    KernelRidgeRegressor         prediction [lower, upper]                  GaussianProcessRegressor adds deviation
    KernelRidgeClassifier        label, probabilities [in_set]
    GaussianProcessClassifier    label, probabilities
    NoveltyDetector              score, p_value, label
    KernelAutoencoder            embedding, reconstruction, of encoded rows for tables; decoder: from embedding

Outputs in brackets are there with `confidence`.
"""

from __future__ import annotations

from functools import reduce, singledispatch
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax
from torch import Tensor

from krepes._version import __version__
from krepes.autoencoder import KernelAutoencoder
from krepes.base.validation import check_share
from krepes.embedding import KernelEmbedding
from krepes.export.input_formulas import inputs_of, rare_values
from krepes.export.kernel_formulas import ExportError, diagonal, values
from krepes.export.program import Operand, Port, Program, concat
from krepes.kernels import Kernel
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.machines.cells.cell_model import SolvedPartition
from krepes.machines.gaussian_process.few_rows import reach
from krepes.machines.gaussian_process.machine import LOGISTIC, NORMAL, WIDE, GaussianProcess
from krepes.machines.kernel_ridge.conformal import HeldRows
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.novelty.scores import Variance
from krepes.one_pass import OnePassEstimator

MAIN = {
    "KernelEmbedding": "embedding",
    "KernelAutoencoder": "embedding",
    "KernelRidgeRegressor": "prediction",
    "GaussianProcessRegressor": "prediction",
    "KernelRidgeClassifier": "probabilities",
    "GaussianProcessClassifier": "probabilities",
    "NoveltyDetector": "score",
}  # the output that a module gives, where none is named


def program_of(
    model: OnePassEstimator,
    *,
    encoded: bool = False,
    confidence: float | None = None,
    decoder: bool = False,
    data: Any = None,
    dtype: str | None = None,
) -> Program:
    """The program of a fitted model.

    Parameters
    ----------
    model : fitted estimator
    encoded : bool, default=False
        Whether rows of a table come encoded, as numbers.
    confidence : float, default=None
        Of intervals, or sets of classes, as outputs.
    decoder : bool, default=False
        Of an autoencoder: from its representation to rows.
    data : table, default=None
        Rows whose rare values the program should know.
    dtype : "float32" or "float64", default=None
        Of kernel values; None is that of the model.
    """
    model._solved()
    if confidence is not None:
        check_share("confidence", confidence)
        if not isinstance(model, RidgeMachine | GaussianProcessRegressor):
            raise ValueError(f"confidence= is for intervals and sets; {type(model).__name__} gives neither.")
    if decoder and not isinstance(model, KernelAutoencoder):
        raise ValueError(f"decoder=True is for a KernelAutoencoder, not {type(model).__name__}.")
    program, space = Program(), model.space_
    program.facts = {
        "krepes": __version__,
        "model": type(model).__name__,
        "sha256": model.identity()["model"],
        "confidence": confidence,
    }
    classes = getattr(model, "classes_", None)
    if classes is not None:
        program.facts["classes"] = np.asarray(classes).tolist()
    if decoder and isinstance(model, KernelAutoencoder):
        h = model._bottleneck.Z.shape[1]
        _decode(model, program.input(Port("Z", "float64", (h,), "points of the representation")))
    else:
        rare = {} if encoded else rare_values(space.inputs.encoder, data)
        dtype = dtype or str(space.dtype).removeprefix("torch.")
        formulate(model, inputs_of(program, space.inputs, dtype, encoded, rare), confidence)
    return program.only(list(program.outputs))


@singledispatch
def formulate(model: OnePassEstimator, x: Operand, confidence: float | None) -> None:
    """Add the outputs of a model to the program of its rows x (b, d)."""
    raise ExportError(f"{type(model).__name__} is not written as a program.")


def _numbers(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def _landmark_values(model: OnePassEstimator, x: Operand) -> Operand:
    """k_x, (b, m)."""
    landmarks = model.landmarks_
    if not isinstance(landmarks, Tensor):
        raise ExportError("The landmarks of this model are objects, which a program cannot hold.")
    return values(model.kernel_, x, _numbers(landmarks.reshape(len(landmarks), -1)))


@formulate.register
def _(model: KernelEmbedding, x: Operand, confidence: float | None) -> None:
    found = model._solved()
    x.program.output("embedding", _landmark_values(model, x) @ _numbers(found.A) + _numbers(found.gamma))


# Kernel ridge


def _scores(model: RidgeMachine, x: Operand) -> Operand:
    """f(x) in the units of the encoded targets, (b, c), double."""
    found = model._solved()
    if found.cells is None:
        return (_landmark_values(model, x) @ _numbers(found.A) + _numbers(found.b)).cast("float64")
    cells, plan, inputs = model._cells()
    parts = [_cell_scores(part, plan.kernel, inputs, x) for part in cells.partitions]
    total = (reduce(lambda a, b: a + b, parts) * (1 / len(parts))).cast("float64") + _numbers(found.b)
    if plan.uses_landmarks:
        total = total + _landmark_values(model, x).cast("float64") @ _numbers(found.A)
    return total


def _cell_scores(part: SolvedPartition, kernel: Kernel, inputs: Tensor, x: Operand) -> Operand:
    """g(x) of one partition, (b, c): every row is compared with the rows of its cell, padded to the largest cell."""
    tree, program = part.tree, x.program
    counts = part.starts.diff().tolist()
    size, c = max(2, *counts), part.A.shape[1]  # at least 2, because indices (b, 1) are of rows
    places = np.zeros((len(counts), size), dtype=np.int64)
    A = np.zeros((len(counts), size, c))
    for cell, count in enumerate(counts):
        places[cell, :count] = part.places(cell).numpy()
        A[cell, :count] = _numbers(part.A[part.starts[cell] : part.starts[cell + 1]])
    if len(counts) == 1:
        cell_of = (x.columns([0]) * 0.0).cast("int64")
    else:
        above = (x.cast("float64") @ _numbers(tree.directions).T > _numbers(tree.thresholds)).where(
            1.0, 0.0, "float64"
        )
        turns, lefts = _turns(tree.children.numpy(), len(counts))
        # a cell has all its turns right, and every other cell has one wrong
        cell_of = (above @ turns + lefts).argmax()
    rows = program.step("rows", cell_of, program.constant(places, "int64"), dtype="int64")
    table = program.constant(inputs.numpy(), x.dtype)
    Y = program.step("rows", rows, table, dtype=x.dtype)
    K = values(kernel, x, Y)
    return (K.expand() @ cell_of.rows_of(A, x.dtype)).flatten() + cell_of.rows_of(_numbers(part.b), x.dtype)


def _turns(children: np.ndarray, n_cells: int) -> tuple[np.ndarray, np.ndarray]:
    """(s, cells) and (cells,): right turns minus left turns, and left turns minus all, on the way to each cell."""
    turns, lefts = np.zeros((len(children), n_cells)), np.zeros(n_cells)
    waiting: list[tuple[int, list[tuple[int, int]]]] = [(0, [])]
    while waiting:
        node, way = waiting.pop()
        if node < 0:
            for split, side in way:
                turns[split, -1 - node] = 1.0 if side else -1.0
            lefts[-1 - node] = -sum(side for _, side in way)
            continue
        waiting += [(int(below), [*way, (node, side)]) for side, below in enumerate(children[node])]
    return turns, lefts


@formulate.register
def _(model: KernelRidgeRegressor, x: Operand, confidence: float | None) -> None:
    scores, targets = _scores(model, x), model.targets_
    x.program.output("prediction", _flat(scores * targets.scale + targets.shift, targets.flat))
    if confidence is None:
        return
    held = HeldRows.of(model, None)
    lower: list[Operand] = []
    upper: list[Operand] = []
    fits = _fits(model, held, x, scores)
    for c, residuals in enumerate(np.abs(held.y - held.predictions).T):
        kept = held.scores(residuals)
        rank = kept.rank(confidence)
        if rank > kept.n:
            raise ExportError(
                f"confidence={confidence:g} needs more held-out rows than the {kept.n} of this model."
            )
        centres = [fit.columns([c]) for fit in fits]
        for sign, ends in ((-1.0, lower), (1.0, upper)):
            if len(fits) == 1:
                ends.append(centres[0] + sign * float(np.sort(residuals)[rank - 1]))
            else:
                sums = [each * sign + held_by for each, held_by in zip(centres, kept.by_fit) if len(held_by)]
                ends.append(concat(sums).smallest(rank) * sign)
    for name, ends in (("lower", lower), ("upper", upper)):
        x.program.output(name, _flat(concat(ends) * targets.scale + targets.shift, targets.flat))


def _flat(value: Operand, flat: bool) -> Operand:
    return value.squeeze() if flat else value


def _fits(model: RidgeMachine, held: HeldRows, x: Operand, scores: Operand) -> list[Operand]:
    """f(x) of every fit without a fold, each (b, c), double."""
    if len(held.b) == 1:
        return [scores]
    K = _landmark_values(model, x)
    return [(K @ _numbers(A)).cast("float64") + _numbers(b) for A, b in zip(held.A, held.b)]


def _label(labels: np.ndarray, index: Operand) -> Operand:
    classes = np.asarray(labels)
    kind = {"i": "int64", "u": "int64", "b": "bool", "f": "float64"}.get(classes.dtype.kind, "string")
    return index.rows_of(classes.astype(str).astype(object) if kind == "string" else classes, kind)


@formulate.register
def _(model: KernelRidgeClassifier, x: Operand, confidence: float | None) -> None:
    scores, program = _scores(model, x), x.program
    program.output("label", _label(model.classes_, scores.argmax()))
    program.output("probabilities", (scores * (1 / model.temperature_)).softmax())
    if confidence is None:
        return
    held = HeldRows.of(model, None)
    surprise = -log_softmax(held.predictions / model.temperature_, axis=1)
    kept = held.scores(surprise[np.arange(len(held.y)), held.y])
    fits = [(fit * (1 / model.temperature_)).softmax().log().neg() for fit in _fits(model, held, x, scores)]
    below = []
    for c in range(model.targets_.n_outputs):
        counts = [
            _count_below(fit.columns([c]), held_by) for fit, held_by in zip(fits, kept.by_fit) if len(held_by)
        ]
        below.append(reduce(lambda a, b: a + b, counts))
    program.output("in_set", (concat(below) * -1.0) > -float(kept.rank(confidence)))


def _count_below(score: Operand, held: np.ndarray) -> Operand:
    """How many of some numbers are below a score, (b, 1)."""
    return (score > held).where(1.0, 0.0, "float64").sum()


# Gaussian processes


def _posterior(model: GaussianProcess, x: Operand) -> tuple[Operand, Operand]:
    """Means (b, c) and variances (b, k) of f, double, in units of the encoded targets."""
    found, F = model._solved(), _numbers(model.features_.F)
    K = _landmark_values(model, x)
    Phi = K @ F
    mean = (K @ _numbers(found.A) + _numbers(found.b)).cast("float64")
    of_row = diagonal(model.kernel_, x).cast("float64")
    unspanned = (of_row - Phi.cast("float64").square().sum()).least(0.0) * found.amplitude
    variances = [unspanned + (Phi @ _numbers(R)).cast("float64").square().sum() for R in found.roots]
    return mean, concat(variances)


@formulate.register
def _(model: GaussianProcessRegressor, x: Operand, confidence: float | None) -> None:
    targets, (mean, variance) = model.targets_, _posterior(model, x)
    program, flat = x.program, targets.flat
    program.output("prediction", _flat(mean * targets.scale + targets.shift, flat))
    program.output("deviation", _flat(variance.sqrt() * targets.scale, flat))
    if confidence is None:
        return
    model._nest()
    held = model._solved().deviations
    ends = (variance + model.noise_).sqrt() * reach(confidence, None if held is None else held.numpy())
    program.output("lower", _flat((mean - ends) * targets.scale + targets.shift, flat))
    program.output("upper", _flat((mean + ends) * targets.scale + targets.shift, flat))


@formulate.register
def _(model: GaussianProcessClassifier, x: Operand, confidence: float | None) -> None:
    means, variances = _posterior(model, x)
    deviations, c = variances.sqrt(), model._n_processes
    normal = np.exp(-(NORMAL**2) / 2)
    logistic = expit(LOGISTIC) * expit(-LOGISTIC)
    parts = []
    for j in range(c):
        m, s = means.columns([j]), deviations.columns([j])
        narrow = (s.most(WIDE) * NORMAL + m).sigmoid() @ (normal / normal.sum())[:, None]
        z = (m + LOGISTIC) / (s.least(WIDE) * np.sqrt(2.0))
        wide = (z.erf() * 0.5 + 0.5) @ (logistic / logistic.sum())[:, None]
        parts.append((s > WIDE).where(wide, narrow).least(0.0).most(1.0))
    P = concat([1.0 - parts[0], parts[0]]) if c == 1 else concat(parts)
    P = P if c == 1 else P / P.sum().least(1e-300)
    x.program.output("label", _label(model.classes_, P.argmax()))
    x.program.output("probabilities", P)


# Novelty, autoencoder


@formulate.register
def _(model: NoveltyDetector, x: Operand, confidence: float | None) -> None:
    found, program = model._solved(), x.program
    of_row = diagonal(model.kernel_, x)
    inverse = (of_row > 0.0).where(1.0 / of_row.least(np.finfo(x.dtype).tiny).sqrt(), 0.0)
    Phi = (_landmark_values(model, x) @ _numbers(model.features_.F)) * inverse
    if isinstance(found.score, Variance):
        score = ((Phi @ _numbers(found.score.R)).cast("float64").square().sum() - 1.0).least(-1.0).most(0.0)
    else:
        score = (Phi @ _numbers(found.score.w)[:, None]).cast("float64")  # type: ignore[attr-defined]
    held = found.calibration.scores
    not_above = _count_below(score, np.nextafter(held, -np.inf))
    program.output("score", score.squeeze())
    program.output("p_value", ((not_above + 1.0) * (1 / (len(held) + 1))).squeeze())
    label = (score.neg() > -model.offset_).where(-1.0, 1.0, "float64").cast("int64")
    program.output("label", label.squeeze())


@formulate.register
def _(model: KernelAutoencoder, x: Operand, confidence: float | None) -> None:
    f = _landmark_values(model, x).cast("float64") @ _numbers(model._bottleneck.coefficients)
    norms = f.square().sum()
    tiny = float(np.finfo(np.float64).tiny)
    z = f * (norms > tiny).where(1.0 / norms.least(tiny).sqrt(), 0.0)
    x.program.output("embedding", z)
    _decode(model, z)


def _decode(model: KernelAutoencoder, z: Operand) -> None:
    decoder, inputs = model._solved(), model.input_space_
    psi = values(decoder.features.kernel, z, _numbers(decoder.features.landmarks)) @ _numbers(
        decoder.features.F
    )
    rows = psi @ _numbers(decoder.W) + _numbers(decoder.mean)
    if inputs.encoder is None:
        if inputs.normalize is not None:
            raise ExportError("The reconstruction of standardised channels is not written as a program.")
        if inputs.shift_ is not None:
            rows = rows + _numbers(inputs.shift_)
        rows = rows * float(inputs.divide)
    z.program.output("reconstruction", rows)
