"""Subspace clusters of new rows as a program: the cluster with most of the coefficients.

    c(y) = (K + lam I)^-1 k_y, cut to its t largest;   label = argmax over clusters of sum |c_j|        [zou, Eq. 4]

A file holds the projected rows of the fit, and (K + lam I)^-1, n x n, or its form in Nyström features. krepes cuts
coefficients that are equal by their order; a program keeps all of them. Codings by neighbours, and clusters of pictures
by their patches, are refused.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from krepes._version import __version__
from krepes.base.storage.packing import digest
from krepes.clustering import SubspaceClustering
from krepes.clustering.codings import Coding
from krepes.clustering.self_expression import DualExpression, PrimalExpression
from krepes.export.input_formulas import RareValues, inputs_of
from krepes.export.kernel_formulas import values
from krepes.export.program import Operand, Port, Program
from krepes.preprocessing.input_space import InputSpace

NOISE = 1e-12  # of a row's length: a projection this short is rounding


def program_of_clusters(
    model: SubspaceClustering, inputs: InputSpace | None = None, rare: RareValues | None = None
) -> Program:
    """The program of a fitted clustering; `inputs` is what made its rows from a table or images."""
    check_is_fitted(model, "labels_")
    coding = model._kept.settings.coding
    if model._found.patches is not None or not has_coefficients(coding):
        chosen = "patches of pictures" if model._found.patches is not None else type(coding).__name__
        raise ValueError(
            f"These clusters were found by {chosen}, which ONNX files do not hold; expected a coding by ridge "
            "regression. Give SubspaceClustering(coding='ridge')."
        )
    program = Program()
    program.facts = {
        "krepes": __version__,
        "model": "SubspaceClustering",
        "sha256": digest(
            {"projection": model.projection_, "rows": model._kept.X, "labels": model._kept_labels}
        ),
        "classes": list(range(model.n_clusters_)),
    }
    if inputs is None:
        x = program.input(Port("X", "float64", (model.n_features_in_,), "rows as they were given to fit"))
    else:
        x = inputs_of(program, inputs, "float64", False, rare or {})
    coefficients = _coefficients(model, _projected(model, x)).abs()
    n, k = len(model._kept_labels), model.n_clusters_
    t = min(model._kept.settings.truncation or n, n)
    if t < n:
        last = coefficients.neg().smallest(t).neg()
        coefficients = (last > coefficients).where(0.0, coefficients)
    votes = coefficients @ np.eye(k)[model._kept_labels]
    largest = int(np.bincount(model._kept_labels, minlength=k).argmax())  # where every coefficient is zero
    label = (votes.sum() > 0.0).where(votes.argmax(), largest)
    program.output("label", label.squeeze())
    return program.only(["label"])


def has_coefficients(coding: Coding) -> bool:
    """Whether new rows get the coefficients of a ridge regression."""
    return type(coding).new_rows is Coding.new_rows


def _projected(model: SubspaceClustering, x: Operand) -> Operand:
    """Rows in the metric found, normalised."""
    kept, P = model._kept, model.projection_
    name = kept.settings.normalization
    if name in ("global", "none"):
        return (x @ P) * (1 / kept.scale)
    if name == "affine":  # one more column, of ones
        width = P.shape[1]
        rows = x @ np.hstack([P / kept.scale, np.zeros((len(P), 1))]) + np.eye(width + 1)[width]
        return rows * (1.0 / rows.square().sum().sqrt())
    rows = x @ P
    length, limit = rows.square().sum().sqrt(), NOISE * float(np.linalg.norm(P, 2))
    shortest = x.square().sum().sqrt() * limit + float(np.finfo(np.float64).tiny)
    return rows * (length > shortest).where(1.0 / length.least(shortest), 0.0)


def _coefficients(model: SubspaceClustering, y: Operand) -> Operand:
    """c(y), (b, n)."""
    expression = model._kept.expression
    if isinstance(expression, DualExpression):
        return values(expression.kernel, y, expression.X) @ expression.B.numpy()
    assert isinstance(expression, PrimalExpression)  # because there is no third form
    phi = values(expression.kernel, y, expression.landmarks) @ expression.features.F.numpy()
    # (L^-1 phi^T)^T Z^T = phi L^-T Z^T
    return phi @ torch.linalg.solve_triangular(expression.L.mT, expression.Z.mT, upper=True).numpy()
