"""The linear probe: a linear classifier on a fixed representation.

Multinomial logistic regression by default; `classifier="svm"` is the one-against-rest machine of LIBLINEAR, which
[krepes, App. B] uses. Differs from [krepes] in that default: logistic regression was the better one on CoverType
(75.4 against 74.4 %, kernel PCA, 50,000 labels) and on MNIST with the default loss (96.6 against 96.3 %), and the
worse one on MNIST with kernel PCA (94.5 against 94.8 %). It took from half to ten times the machine's time, most where
columns differ much in scale.

The representation is centred and divided by one number, the root of its mean column variance, so that the
grid of C means the same for every representation. Columns are not brought to unit variance one by one:
their scale carries what the loss has learned. C is chosen on a part of the labels, never on the test rows, from
small to large, and the search ends after four values that are worse than the best. Then all labels are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.utils.metaestimators import available_if

from krepes.base.validation import as_array, check_choice, check_share, generator_of
from krepes.evaluation.budget import Budget, as_budget
from krepes.evaluation.probe_inputs import check_inputs, draw_stratified, few_threads, validation_splits
from krepes.evaluation.probe_result import FittedClassifier, ProbeResult
from krepes.regression.logistic import logistic_path
from krepes.regression.ridge import checked_alphas
from krepes.regression.squared_hinge import svm_path

Weights = tuple[np.ndarray, np.ndarray]  # (K, d), and intercepts (K,)
Path = Iterator[Weights]  # for one C after the other

C_GRID = tuple(float(f"{10 ** (e / 2):.3g}") for e in range(-8, 7))  # 1e-4 .. 1e3, two per decade
DEFAULT_C = 0.1
PATIENCE = 4  # values of C that are worse than the best so far, before the search ends
SEARCH_ROWS = 20_000
LEAST_SEARCH_ROWS, SEARCH_CELLS = 2000, 1 << 23  # labels x columns x classes, where seconds are limited
_BLOCK_CELLS = 1 << 24


PATHS: dict[str, Callable[..., Path]] = {"logistic": logistic_path, "svm": svm_path}


@dataclass(frozen=True)
class LinearClassifier(FittedClassifier):
    """Linear scores of raw representations: Z coef^T + intercept, the largest wins (the sign, for two classes).

    scikit-learn's scorers take it: `get_scorer("roc_auc")(classifier, Z, y)`.
    """

    coef: np.ndarray  # shape: (K, h), or (1, h) for two classes
    intercept: np.ndarray
    classes: np.ndarray
    logistic: bool = False  # whether the scores are log-odds

    def decision_function(self, Z: Any) -> np.ndarray:
        return np.asarray(Z, dtype=np.float64) @ self.coef.T + self.intercept

    def predict(self, Z: Any) -> np.ndarray:
        """The class of every row."""
        return self.classes[self.codes(as_array(Z, "Z"))]

    @available_if(lambda self: self.logistic)
    def predict_proba(self, Z: Any) -> np.ndarray:
        """The probability of every class, shape (n, K); of logistic regression only."""
        scores = self.decision_function(Z)
        if scores.shape[1] > 1:
            return softmax(scores, axis=1)
        return np.hstack([expit(-scores), expit(scores)])

    def codes(self, Z: np.ndarray) -> np.ndarray:
        """The index of every row's class, in blocks of bounded memory."""
        rows = max(1, _BLOCK_CELLS // max(Z.shape[1], len(self.classes)))
        parts = [self._codes(Z[start : start + rows]) for start in range(0, len(Z), rows)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def _codes(self, Z: np.ndarray) -> np.ndarray:
        values = self.decision_function(Z)
        return (values[:, 0] > 0).astype(np.int64) if values.shape[1] == 1 else values.argmax(1)


def linear_probe(
    Z_train: Any,  # shape: (n, h)
    y_train: Any,
    Z_test: Any,
    y_test: Any,
    *,
    classifier: str = "logistic",
    C_grid: Sequence[float] = C_GRID,
    validation: float = 0.2,
    random_state: int | np.random.Generator | None = 0,
    search_rows: int = SEARCH_ROWS,
    budget: Budget | float | None = None,
) -> ProbeResult[LinearClassifier]:
    """Fit a linear classifier on labelled rows of a representation and test it.

    Parameters
    ----------
    Z_train, y_train : representation and labels to learn from. Rows whose label is None or NaN are left out.
    Z_test, y_test : rows to test on; they take no part in any choice.
    classifier : "logistic" (multinomial logistic regression) or "svm" (LIBLINEAR's squared hinge, one against rest).
    C_grid : values of C to choose from, for a representation of mean column variance 1.
    validation : share of the labels that C is chosen on. Where that is few rows, the accuracy is averaged over up to
        five such parts.
    random_state : seed or generator of the split.
    search_rows : C is chosen with at most this many labels (a note says so); the final fit uses all.
    budget : seconds for the choice of C. Where labels, columns and classes are many, it is then among decades and with
        fewer labels. A note says so, and where it ended early.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> result = linear_probe(X[::2], y[::2], X[1::2], y[1::2])
    >>> result.accuracy > 0.9
    True
    """
    data = check_inputs(Z_train, y_train, Z_test, y_test)
    check_choice("classifier", classifier, PATHS)
    checked_alphas(C_grid, "C_grid")
    check_share("validation", validation, " of the labels")
    path, generator = PATHS[classifier], generator_of(random_state)
    mean, scale = centre_and_scale(data.Z_train)
    X = (data.Z_train - mean) / scale
    classes, codes = np.unique(data.train, return_inverse=True)
    grid, limit = sorted(set(map(float, C_grid))), as_budget(budget)
    if limit.limited and X.size * len(classes) > SEARCH_CELLS:
        grid = grid[::2] if tuple(grid) == C_GRID else grid  # decades
        search_rows = min(search_rows, max(LEAST_SEARCH_ROWS, SEARCH_CELLS // (X.shape[1] * len(classes))))
    with few_threads(X):
        C, accuracy, notes, start = _choose_C(path, X, codes, grid, validation, generator, search_rows, limit)
        ((W, b),) = path(X, codes, len(classes), [C], start)
    coef = W / scale
    fitted = LinearClassifier(coef, b - coef @ mean, data.classes[classes], classifier == "logistic")
    return data.result(fitted, classes[fitted.codes(data.Z_test)], {"C": C}, accuracy, notes)


def centre_and_scale(Z: np.ndarray) -> tuple[np.ndarray, float]:
    """The column means, and the root of the mean column variance (1 where all rows are equal)."""
    mean = Z.mean(0, dtype=np.float64)
    scale = float(np.sqrt(Z.var(0, dtype=np.float64).mean()))
    return mean, scale if np.isfinite(scale) and scale > 0 else 1.0


def _usual_C(grid: list[float]) -> float:
    return min(grid, key=lambda value: abs(np.log(value / DEFAULT_C)))


def _choose_C(
    path: Callable[..., Path],
    X: np.ndarray,
    codes: np.ndarray,
    grid: list[float],
    validation: float,
    generator: np.random.Generator,
    search_rows: int,
    budget: Budget,
) -> tuple[float, float, list[str], Weights | None]:
    """The C with the best accuracy on validation parts of the labels, among equals the smallest; its accuracy, notes,
    and weights that were found with it."""
    if len(grid) == 1:
        return grid[0], float("nan"), [], None
    splits = validation_splits(codes, validation, generator)
    if not splits:
        C = _usual_C(grid)
        return C, float("nan"), [f"too few labels to choose C on a validation part; C={C:g} was taken"], None
    notes = []
    if len(splits[0][0]) > search_rows:
        notes.append(f"C was chosen with {search_rows:,} of the {len(codes):,} labels")
        share = search_rows / len(splits[0][0])
        splits = [
            tuple(part[draw_stratified(codes[part], share, generator)[0]] for part in split)
            for split in splits
        ]
    classes = np.arange(codes.max() + 1)
    truth = np.concatenate([codes[held] for _, held in splits])
    chance = np.bincount(truth).max() / len(truth) + 1 / np.sqrt(len(truth))
    best, best_C, worse, start = -1.0, grid[0], 0, None
    paths = [path(X[fit], codes[fit], len(classes), grid) for fit, _ in splits]
    before, longest = budget.clock(), 0.0
    for C, weights in zip(grid, zip(*paths)):
        fitted = [LinearClassifier(W, b, classes) for W, b in weights]
        told = [each.codes(X[held]) for each, (_, held) in zip(fitted, splits)]
        accuracy = float((np.concatenate(told) == truth).mean())
        if accuracy > best:
            best, best_C, worse, start = accuracy, C, 0, weights[0]
        elif best > max(accuracy, chance):  # small values of C may all do no better than the largest class
            worse += 1
            if worse == PATIENCE:
                break
        now = budget.clock()
        before, longest = now, max(longest, now - before)
        if grid[-1] > C and not budget.allows(longest):
            if worse == 0:  # it may still have grown: a verdict would rest on a C that is far too small
                best_C, best, start = _usual_C(grid), float("nan"), None
            notes.append(
                f"to keep the budget, values of C above {C:g} were not tried; C={best_C:g} was taken"
            )
            break
    return best_C, best, notes, start
