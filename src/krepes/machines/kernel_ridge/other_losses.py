"""Other losses than the squared one: by the representer theorem the minimiser has the same form.

    min over W, b of  sum_i w_i loss(y_i, W^T phi_i + b) + penalty / 2 |W|^2,      f(x) = A^T k_x + b,  A = F W

    logistic         -log softmax_(y_i)(f(x_i)), over all classes at once          two classes: of f_2 - f_1
    squared_hinge    sum over classes k of max(0, 1 - s_ik f_k(x_i))^2, s_ik = 1 for the row's class, else -1

The intercept is not penalised. There are no sums that every penalty follows from, so the rows themselves are needed:
the kept ones, which are a uniform sample where there are more. The penalty has the lowest loss on rows that were not
fitted: all folds walk down a path of penalties together, each fit started from the last, until the loss has risen
twice. Cost: that of `logistic_path` or `svm_path`, for every fold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from krepes.regression.logistic import logistic_path
from krepes.regression.ridge_algebra import PenaltyErrors
from krepes.regression.squared_hinge import svm_path

LOSSES = ("squared", "logistic", "squared_hinge")
# Penalties, of the variance of all rows together in the kernel's space.
PATH = 10.0 ** np.arange(0.0, -7.5, -1.0)
PATIENCE = 2  # penalties that are worse than the best so far, before the path ends
# Tolerances of what is kept; along the path they are the probes'.
EXACT = {"logistic": 1e-13, "squared_hinge": 1e-9}

Coefficients = tuple[np.ndarray, np.ndarray]  # (K, r), and intercepts (K,): K = 1 for two classes


@dataclass(frozen=True, eq=False)
class LossProblem:
    """Features of rows and their classes.

    Attributes
    ----------
    loss : "logistic" or "squared_hinge"
    Phi : ndarray of shape (n, r)
    codes : ndarray of shape (n,)
    weight : ndarray of shape (n,)
    n_classes : int

    Examples
    --------
    >>> problem = LossProblem("squared_hinge", np.array([[-1.0], [1.0]]), np.array([0, 1]), np.ones(2), 2)
    >>> W, b = as_columns(problem.solved(1.0))  # f_2 - f_1 = w x is least at w = 4 / (1 + 4)
    >>> W.round(6).tolist(), abs(b).round(6).tolist()
    ([[-0.4, 0.4]], [0.0, 0.0])
    """

    loss: str
    Phi: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    n_classes: int

    @property
    def unit(self) -> float:
        """The variance of all rows together."""
        mean = self.weight @ self.Phi / self.weight.sum()
        return max(float(self.weight @ np.square(self.Phi - mean).sum(1)), 1e-300)

    def part(self, which: np.ndarray) -> LossProblem:
        return LossProblem(self.loss, self.Phi[which], self.codes[which], self.weight[which], self.n_classes)

    def path(self, penalties: np.ndarray) -> Iterator[Coefficients]:
        """The fits of one penalty after the other."""
        given = (self.Phi, self.codes, self.n_classes, 1 / penalties)
        if self.loss == "logistic":
            return logistic_path(*given, sample_weight=self.weight)
        return svm_path(*given, sample_weight=self.weight, penalise_intercept=False)

    def solved(self, penalty: float, start: Coefficients | None = None) -> Coefficients:
        """The fit of one penalty, to many digits."""
        given = (self.Phi, self.codes, self.n_classes, [1 / penalty], start, self.weight, EXACT[self.loss])
        if self.loss != "logistic":
            return next(svm_path(*given, penalise_intercept=False))
        W, b = next(logistic_path(*given))
        return W, b - b.mean() if len(b) > 1 else b  # because a shift of all scores changes nothing

    def losses(self, found: Coefficients) -> float:
        """The weighted sum of the losses of these rows."""
        W, b = as_columns(found)
        scores, rows = self.Phi @ W + b, np.arange(len(self.Phi))
        if self.loss == "logistic":
            each = -log_softmax(scores, axis=1)[rows, self.codes]
        else:
            signs = 2 * np.eye(self.n_classes)[self.codes] - 1
            if self.n_classes == 2:
                scores, signs = scores[:, 1:] - scores[:, :1], signs[:, 1:]
            each = np.square(np.maximum(1 - signs * scores, 0)).sum(1)
        return float(self.weight @ each)


def as_columns(found: Coefficients) -> Coefficients:
    """W (r, c) and b (c,); the one score of two classes is shared by both, so that f_2 - f_1 is what it was."""
    W, b = found
    return (np.concatenate([-W, W]).T / 2, np.concatenate([-b, b]) / 2) if len(W) == 1 else (W.T, b)


def chosen_fits(
    problem: LossProblem,
    folds: np.ndarray,  # (n,)
    penalty: float | None,
) -> tuple[PenaltyErrors, Coefficients, dict[int, Coefficients]]:
    """The errors of penalties, the fit with the best or the given one, and those without each fold.

    With rows of a single fold, that fold's fit is that of all rows.
    """
    keys = np.unique(folds)
    inside = {int(key): folds == key if len(keys) > 1 else np.zeros(len(folds), dtype=bool) for key in keys}
    training = {key: problem.part(~which) for key, which in inside.items()}
    held_out = {key: problem.part(which if which.any() else ~which) for key, which in inside.items()}
    penalties = PATH * problem.unit if penalty is None else np.array([penalty])
    errors: list[float] = []
    best: dict[int, Coefficients] = {}
    for fits in zip(*(part.path(penalties) for part in training.values())):
        found = dict(zip(training, fits))
        total = sum(held_out[key].losses(fit) for key, fit in found.items())
        errors.append(total / sum(part.weight.sum() for part in held_out.values()))
        if errors[-1] <= min(errors):
            best = found
        elif len(errors) - 1 - int(np.argmin(errors)) >= PATIENCE:
            break
    tried = PenaltyErrors.of(penalties[: len(errors)], np.array(errors), "folds")
    exact = {key: part.solved(tried.best, best[key]) for key, part in training.items()}
    return tried, problem.solved(tried.best, next(iter(exact.values()))), exact
