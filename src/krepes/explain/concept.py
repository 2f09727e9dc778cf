"""Concepts: a direction in the space of representations, from examples of something and of its absence.

    v_c = w / |w|,   w the normal of a linear support vector machine between Z(positives) and Z(negatives)     [kim]

as in [krepes, App. E].
The concept is the positive side, whatever the labels are called. Representations are centred first, because the machine
penalises its intercept, and classes are weighted alike. `method="mean_difference"` is the line between the two means:
a different direction, which needs no fit: it shows how the means differ, not what tells the two sets apart. A
direction exists for any two sets of rows. Whether it means something is asked of rows left out and of chance:

    statistic = (mean of held-out scores of positives - that of negatives) / their standard deviation
    p = (1 + number of permuted labels whose statistic is at least as large) / (1 + number of permutations)

Folds are stratified by the labels, also by every permuted set of labels, so that the statistic is one function of the
labels and the p-value is exact; it is continuous, so that ties do not make it too large. The stability of the direction
under resampling is compared with that under permuted labels, because resamples of the same noise agree, too.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from krepes.base.validation import as_matrix, check_choice, check_count, generator_of
from krepes.embedding import KernelEmbedding
from krepes.explain.concept_rule import rows_by_rule
from krepes.sources import open_source
from krepes.sources.row_subset import subset

METHODS = ("svm", "mean_difference")
LEAST = 4  # rows of either kind
C, N_FOLDS = 0.1, 5  # of the machine, for representations of mean column variance 1
N_STABILITIES = 19  # permuted labels whose stability is computed, which takes many fits
ROUNDING = 1e-14  # relative to the largest number: what differs by less is the same


class Concept(BaseEstimator):
    """A concept given by examples.

    Parameters
    ----------
    positives, negatives : rows, in any form that the model takes
        Examples that have the concept, and examples that do not.
    name : str, default="concept"
    method : "svm" or "mean_difference", default="svm"
    n_permutations : int, default=100
        For the p-value, which cannot be below 1 / (n_permutations + 1); 0 leaves it out.
    n_resamples : int, default=20
        For the stability.
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
        Of the difference between held-out scores, under permuted labels.
    stability_ : float
        The mean cosine between the direction and directions of bootstrap samples.
    stability_by_chance_, stability_p_value_ : float or None
        The mean of the same for permuted labels, and the share of these that are at least as stable.
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
        n_permutations: int = 100,
        n_resamples: int = 20,
        random_state: int = 0,
    ):
        self.positives = positives
        self.negatives = negatives
        self.name = name
        self.method = method
        self.n_permutations = n_permutations
        self.n_resamples = n_resamples
        self.random_state = random_state

    @classmethod
    def from_rule(cls, table: Any, rule: str, **settings: Any) -> Concept:
        """The concept that a rule about the columns of a table names, such as "age > 60".

        Rows for which the rule holds are the positives, the others the negatives; rows in which a column of the rule is
        missing are neither. Rules compare columns with numbers or words (`age > 60`, `job == "cook"`,
        `job in ("cook", "baker")`) and join comparisons with and, or, not. A column whose name is not a word stands in
        backticks.

        Parameters
        ----------
        table : frame, the path of a CSV or Parquet file, or a source of one
        rule : str
        settings : other parameters of Concept; `name` is the rule by default

        Examples
        --------
        >>> import pandas as pd
        >>> table = pd.DataFrame({"age": [70, 20, 65, 30, None], "job": ["cook", "cook", "baker", "cook", "cook"]})
        >>> concept = Concept.from_rule(table, "age > 60 and job == cook")
        >>> concept.positives.n_rows, concept.negatives.n_rows, concept.name
        (1, 3, 'age > 60 and job == cook')
        """
        source = open_source(table)
        with_it, without = rows_by_rule(source, rule)
        return cls(subset(source, with_it), subset(source, without), **({"name": rule} | settings))

    def fit(self, model: KernelEmbedding) -> Concept:
        """Find the direction in the representation of a fitted model."""
        if self.positives is None or self.negatives is None:
            raise ValueError(
                "A concept needs positives= and negatives=: rows that have it and rows that do not."
            )
        if not hasattr(model, "transform"):
            raise TypeError(f"model is a {type(model).__name__}; expected a fitted KernelEmbedding.")
        return self.fit_representation(model.transform(self.positives), model.transform(self.negatives))

    def fit_representation(self, positive: ArrayLike, negative: ArrayLike) -> Concept:
        """Find the direction from representations of the positives and the negatives, (n, h) each."""
        check_choice("method", self.method, METHODS)
        check_count("n_permutations", self.n_permutations, 0)
        check_count("n_resamples", self.n_resamples, 0)
        given = {"positives": positive, "negatives": negative}
        parts = [as_matrix(Z, kind).astype(np.float64) for kind, Z in given.items()]
        for kind, part in zip(given, parts):
            if len(part) < LEAST:
                raise ValueError(f"{kind}: got {len(part)} rows; expected at least {LEAST} of either kind.")
        if parts[0].shape[1] != parts[1].shape[1]:
            widths = f"{parts[0].shape[1]} and {parts[1].shape[1]}"
            raise ValueError(f"positives and negatives have {widths} components: expected one model's.")
        Z = np.concatenate(parts)
        y = np.repeat([1, 0], [len(part) for part in parts])
        generator = generator_of(self.random_state)
        self.n_positives_, self.n_negatives_ = map(len, parts)
        self.origin_ = parts[1].mean(0)
        found = self._direction(Z, y)
        if found is None:
            raise ValueError(
                f"The concept {self.name!r} has no direction: positives and negatives have the same representation."
            )
        self.direction_ = found
        self.accuracy_, statistic = self._held_out(Z, y)
        self._compare_with_chance(Z, y, statistic, generator)
        return self

    def scores(self, Z: Any) -> np.ndarray:
        """(z - origin) . v_c of representations (n, h): positive is the concept's side."""
        check_is_fitted(self, "direction_")
        Z = as_matrix(Z, "Z").astype(np.float64)
        if Z.shape[1] != len(self.direction_):
            raise ValueError(f"Z has {Z.shape[1]} components and the concept {len(self.direction_)}.")
        return (Z - self.origin_) @ self.direction_

    def _direction(self, Z: np.ndarray, y: np.ndarray) -> np.ndarray | None:
        """v_c; None if the two kinds do not differ."""
        centred = Z - Z.mean(0)
        largest = np.abs(centred).max()
        if not largest > ROUNDING * np.abs(Z).max():
            return None
        centred /= largest  # because squares of 1e200 overflow
        if self.method == "mean_difference":
            w = centred[y == 1].mean(0) - centred[y == 0].mean(0)
        else:
            scale = np.sqrt(centred.var(0).mean())
            machine = LinearSVC(C=C, dual=False, class_weight="balanced")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                w = machine.fit(centred / scale, y).coef_[0]
        length = np.linalg.norm(w)
        return w / length if length > ROUNDING else None

    def _held_out(self, Z: np.ndarray, y: np.ndarray) -> tuple[float, float]:
        """Balanced accuracy over folds, and the standardised difference between the scores of rows left out.

        Scores are from half-way between the class means along the direction of the other folds, in units of that
        distance.
        """
        fold = self._folds(y)
        scores, accuracies = np.zeros(len(y)), []
        for k in range(fold.max() + 1):
            test, train = fold == k, fold != k
            v = self._direction(Z[train], y[train])
            if v is None:  # then it is a guess
                accuracies.append(0.5)
                continue
            along = Z @ v
            high, low = along[train & (y == 1)].mean(), along[train & (y == 0)].mean()
            scores[test] = (along[test] - (high + low) / 2) / max(high - low, ROUNDING * abs(high), 1e-300)
            right = (scores[test] > 0) == y[test]
            accuracies.append((right[y[test] == 1].mean() + right[y[test] == 0].mean()) / 2)
        positive, negative = scores[y == 1], scores[y == 0]
        spread = np.sqrt((positive.var() * len(positive) + negative.var() * len(negative)) / len(y))
        return float(np.mean(accuracies)), float((positive.mean() - negative.mean()) / max(spread, 1e-300))

    def _folds(self, y: np.ndarray) -> np.ndarray:
        """The fold of every row; each fold has rows of both kinds. A function of the labels alone."""
        generator = generator_of(self.random_state)
        n_folds = min(N_FOLDS, self.n_positives_, self.n_negatives_)
        fold, first = np.empty(len(y), int), 0
        for kind in (0, 1):
            rows = generator.permutation(np.flatnonzero(y == kind))
            fold[rows] = (first + np.arange(len(rows))) % n_folds
            first += len(rows)
        return fold

    def _compare_with_chance(
        self, Z: np.ndarray, y: np.ndarray, statistic: float, generator: np.random.Generator
    ) -> None:
        """What permuted labels give instead: p-values, directions, stability."""
        self.stability_ = self._stability(Z, y, self.direction_, generator)
        permuted = [generator.permutation(y) for _ in range(self.n_permutations)]
        self.p_value_ = self.stability_by_chance_ = self.stability_p_value_ = None
        if not self.n_permutations:
            return
        as_good = sum(self._held_out(Z, labels)[1] >= statistic for labels in permuted)
        self.p_value_ = (1 + as_good) / (1 + self.n_permutations)
        some = [(labels, self._direction(Z, labels)) for labels in permuted[:N_STABILITIES]]
        found = [self._stability(Z, labels, v, generator) for labels, v in some if v is not None]
        chance = np.array(found)
        if self.n_resamples and len(chance):
            self.stability_by_chance_ = float(chance.mean())
            self.stability_p_value_ = float((1 + (chance >= self.stability_).sum()) / (1 + len(chance)))

    def _stability(
        self, Z: np.ndarray, y: np.ndarray, direction: np.ndarray, generator: np.random.Generator
    ) -> float:
        cosines = []
        for _ in range(self.n_resamples):
            rows = np.concatenate([generator.choice(np.flatnonzero(y == c), (y == c).sum()) for c in (0, 1)])
            v = self._direction(Z[rows], y[rows])
            cosines.append(0.0 if v is None else v @ direction)
        return float(np.mean(cosines)) if cosines else 1.0
