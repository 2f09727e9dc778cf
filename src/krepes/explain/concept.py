"""Concepts: a direction in the space of representations, from examples of something and of its absence.

    v_c = w / |w|,   w the normal of a linear support vector machine between Z(positives) and Z(negatives)     [kim]

as in [krepes, App. E].
The concept is the positive side, whatever the labels are called. Representations are centred first, because the machine
penalises its intercept, and classes are weighted alike. `method="mean_difference"` is the line between the two means:
another object, which needs no fit and keeps the shift, not the discriminant. A direction exists for any two sets of
rows; whether it is one of the data says the accuracy on rows left out, its p-value under permuted labels, and how
stable the direction is under resampling.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from krepes.embedding import KernelEmbedding

METHODS = ("svm", "mean_difference")
LEAST = 4  # rows of either kind


class Concept(BaseEstimator):
    """A concept given by examples.

    Parameters
    ----------
    positives, negatives : rows, in any form that the model takes
        Examples that have the concept, and examples that do not.
    name : str, default="concept"
    method : "svm" or "mean_difference", default="svm"
    C : float, default=0.1
        Of the machine, for representations of mean column variance 1.
    n_folds : int, default=5
    n_permutations : int, default=100
        For the p-value, which cannot be below 1 / (n_permutations + 1); 0 leaves it out.
    n_resamples : int, default=20
    random_state : int, default=0

    Attributes
    ----------
    direction_ : ndarray of shape (h,)
        v_c, of unit length.
    origin_ : ndarray of shape (h,)
        The mean of the negatives: (z - origin) . v_c > 0 is more of the concept than they have.
    accuracy_ : float
        Balanced accuracy on rows left out, mean over folds.
    p_value_ : float or None
    stability_ : float
        The mean cosine between the direction and those of bootstrap samples.
    n_positives_, n_negatives_ : int

    Examples
    --------
    >>> from krepes import KernelEmbedding
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 2)); X[:150, 0] += 6
    >>> model = KernelEmbedding(4, n_landmarks=50, random_state=0).fit(X)
    >>> right = Concept(X[:40], X[150:190], name="right").fit(model)
    >>> right.accuracy_ > 0.95, right.p_value_ < 0.02, bool(right.scores(model.transform(X))[:150].min() > 0)
    (True, True, True)
    """

    def __init__(
        self,
        positives: Any = None,
        negatives: Any = None,
        *,
        name: str = "concept",
        method: str = "svm",
        C: float = 0.1,
        n_folds: int = 5,
        n_permutations: int = 100,
        n_resamples: int = 20,
        random_state: int = 0,
    ):
        self.positives = positives
        self.negatives = negatives
        self.name = name
        self.method = method
        self.C = C
        self.n_folds = n_folds
        self.n_permutations = n_permutations
        self.n_resamples = n_resamples
        self.random_state = random_state

    def fit(self, model: KernelEmbedding) -> Concept:
        """Find the direction in the representation of a fitted model."""
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r}: expected one of {', '.join(METHODS)}.")
        if self.positives is None or self.negatives is None:
            raise ValueError(
                "A concept needs positives= and negatives=: rows that have it and rows that do not."
            )
        return self.fit_representation(model.transform(self.positives), model.transform(self.negatives))

    def fit_representation(self, positive: ArrayLike, negative: ArrayLike) -> Concept:
        """The same from representations, (n, h) each."""
        parts = [np.asarray(Z, dtype=np.float64) for Z in (positive, negative)]
        for kind, Z in zip(("positives", "negatives"), parts):
            if Z.ndim != 2 or len(Z) < LEAST:
                raise ValueError(
                    f"{kind}: got {len(Z)} rows; a concept needs at least {LEAST} of either kind."
                )
        Z = np.concatenate(parts)
        y = np.repeat([1, 0], [len(part) for part in parts])
        generator = np.random.default_rng(self.random_state)
        self.n_positives_, self.n_negatives_ = map(len, parts)
        self.origin_ = parts[1].mean(0)
        self.direction_ = self._direction(Z, y)
        n_folds = min(self.n_folds, *map(len, parts))
        folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=self.random_state).split(Z, y))
        self.accuracy_ = self._accuracy(Z, y, folds)
        self.p_value_ = self._p_value(Z, y, folds, generator)
        self.stability_ = self._stability(Z, y, generator)
        return self

    def scores(self, Z: Any) -> np.ndarray:
        """(z - origin) . v_c of representations (n, h): positive is the concept's side."""
        check_is_fitted(self, "direction_")
        return (np.asarray(Z, dtype=np.float64) - self.origin_) @ self.direction_

    def _direction(self, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
        if self.method == "mean_difference":
            w = Z[y == 1].mean(0) - Z[y == 0].mean(0)
        else:
            centred = Z - Z.mean(0)
            scale = np.sqrt(centred.var(0).mean()) or 1.0
            machine = LinearSVC(C=self.C, dual=False, class_weight="balanced")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                w = machine.fit(centred / scale, y).coef_[0]
        length = np.linalg.norm(w)
        if not length > 0:
            raise ValueError(
                f"The concept {self.name!r} has no direction: positives and negatives have the same representation."
            )
        return w / length

    def _accuracy(self, Z: np.ndarray, y: np.ndarray, folds: list) -> float:
        """Balanced, over folds; the threshold is half-way between the class means along the direction."""
        found = []
        for train, test in folds:
            v = self._direction(Z[train], y[train])
            along = Z @ v
            middle = (along[train][y[train] == 1].mean() + along[train][y[train] == 0].mean()) / 2
            found.append(balanced_accuracy_score(y[test], along[test] > middle))
        return float(np.mean(found))

    def _p_value(
        self, Z: np.ndarray, y: np.ndarray, folds: list, generator: np.random.Generator
    ) -> float | None:
        if not self.n_permutations:
            return None
        as_good = 0
        for _ in range(self.n_permutations):
            as_good += self._accuracy(Z, generator.permutation(y), folds) >= self.accuracy_
        return (1 + as_good) / (1 + self.n_permutations)

    def _stability(self, Z: np.ndarray, y: np.ndarray, generator: np.random.Generator) -> float:
        cosines = []
        for _ in range(self.n_resamples):
            rows = np.concatenate([generator.choice(np.flatnonzero(y == c), (y == c).sum()) for c in (0, 1)])
            cosines.append(self._direction(Z[rows], y[rows]) @ self.direction_)
        return float(np.mean(cosines)) if cosines else 1.0
