"""The predictor that pruning leaves: a weighted sum of the kept members, without the others."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from krepes.alignment.pruning.ensemble_members import (
    Ensemble,
    Member,
    MemberOutputs,
    StageMember,
    member_outputs,
)
from krepes.alignment.pruning.member_selection import Selection, select_members
from krepes.alignment.pruning.prediction_matrices import (
    Classes,
    ColumnMember,
    as_predictions,
    as_target,
    check_member_outputs,
    target_columns,
)
from krepes.base.estimators import FittedEnsemble
from krepes.base.validation import as_array, check_same_rows


@dataclass(frozen=True)
class MemberRow:
    """One member: whether it was kept, with which weight, and why.

    Attributes
    ----------
    index : its position in the ensemble.
    name : its name in the ensemble: a number, "stage 3", the name given in voting and stacking, or a frame's column.
    kept : bool
    weight : the weight of its predictions in the pruned ensemble.
    score : R^2, or accuracy, of the pruned ensemble that would keep it alone, on the rows of the choice; NaN if it has
        none.
    alignment : centred alignment with the target, alone; NaN if it is constant. For regression this is `score`.
    reason : why it was kept or dropped.
    """

    index: int
    name: str
    kept: bool
    weight: float
    score: float
    alignment: float
    reason: str


@dataclass(frozen=True)
class Savings:
    """What the members take before and after, in bytes as pickled."""

    bytes_before: int
    bytes_after: int

    @classmethod
    def of(cls, members: Sequence[Member], kept: np.ndarray) -> Savings | None:
        """None if the members cannot be pickled."""
        try:
            sizes = np.array([len(pickle.dumps(member, protocol=5)) for member in members])
        except (pickle.PicklingError, AttributeError, TypeError):
            return None
        return cls(int(sizes.sum()), int(sizes[kept].sum()))

    def __str__(self) -> str:
        return f"{1 - self.bytes_after / max(self.bytes_before, 1):.0%} of the memory saved"


class PrunedEnsemble(BaseEstimator):
    """A weighted sum of a few members of an ensemble, regressor or classifier.

        f(x) = intercept_ + sum_k weights_[k] f_k(x)

    For classes f is the least-squares estimate of their probabilities, and the largest is predicted. `prune_ensemble`
    makes one; `fit` weighs the same members again on other rows.

    Parameters
    ----------
    members : list
        The kept members, each with a method `outputs(X)`.
    classes : array, optional
        The classes of a classifier; None for regression.
    whole : bool, default=False
        Give members X as it is, not as an array.

    Attributes
    ----------
    weights_ : array of shape (size_,)
        Not negative. A member whose weight becomes zero in `fit` is not called.
    intercept_ : array of shape (1,) or (n_classes,)
    size_ : int
        Members kept.
    n_members_ : int
        Members of the ensemble.
    table_ : list of MemberRow
        For every member: index, name, whether it was kept, weight, score and alignment alone, and the reason.
    method_, predictions_ : str
        How members were chosen, and from which predictions ("out_of_bag" or "given").
    optimality_ : float
        Largest violation of the optimality conditions.
    score_, score_of_all_ : float
        R^2 or accuracy of the pruned ensemble and of all members. `score_` is found by cross-validation: each fifth
        of the rows is predicted by members chosen and weighed on the others. `score_of_all_` is that of the ensemble
        itself; out of bag and for arrays, that of the members' mean or vote. Out of bag, R^2 is estimated for the
        whole sums, and accuracy counts only members that have not seen a row, which is too low if few are kept. NaN
        if rows are too few to leave some out; with fewer than a few hundred rows it is rough.
    strength_ : float
        How strongly weights were shrunk towards equal ones: 0 is least squares, infinity the plain mean.
    errors_by_size_ : dict
        {members: squared error on rows left out, relative to the mean of all members}; empty for "alignment",
        "stacking" and "r2".
    forest_ : estimator or None
        A copy of the forest with the kept trees alone, if they are weighted equally: a scikit-learn forest.
    savings_ : Savings or None
        Memory, before and after; None for arrays of predictions.
    classes_ : array
        Only for a classifier.
    n_features_in_, feature_names_in_ : as of the ensemble; of an array of predictions the number of its members.

    Examples
    --------
    The first member is half the target and the second a constant, which is not read again:

    >>> from krepes.alignment import prune_ensemble
    >>> pruned = prune_ensemble([[1.0, 9.0], [2.0, 9.0], [4.0, 9.0]], y=[2.0, 4.0, 8.0])
    >>> pruned, pruned.predict([[3.0, np.nan]]).round(12).tolist()
    (<PrunedEnsemble: 1 of 2 members, regression>, [6.0])
    """

    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(self, members: Sequence[Member] = (), classes: Classes | None = None, whole: bool = False):
        self.members = members
        self.classes = classes
        self.whole = whole

    def fit(self, X: Any, y: Any) -> PrunedEnsemble:
        """Weigh the members by non-negative least squares on these rows; none is added."""
        if not len(self.members):
            raise ValueError("There are no members: prune_ensemble(ensemble, X, y) finds them.")
        classes = None if self.classes is None else np.asarray(self.classes)
        X = self.checked(X, reset=True)
        outputs = member_outputs(self.members, X)
        y = as_target(y, numbers=classes is None)
        check_same_rows(len(y), len(outputs), "y")
        names = [member.name for member in self.members]
        given = MemberOutputs(outputs, target_columns(y, classes), names=names)
        check_member_outputs(given)
        found = select_members(given, "stacking")
        return self.with_weights(found.weights, found.intercept)

    @classmethod
    def of_members(cls, parts: Ensemble, kept: np.ndarray) -> PrunedEnsemble:
        """Some members of an ensemble, without weights; takes the same X as the ensemble."""
        found = cls([m for m, keep in zip(parts.members, kept) if keep], parts.classes, parts.whole)
        if parts.n_features is not None:
            found.n_features_in_ = parts.n_features
        if parts.feature_names is not None:
            found.feature_names_in_ = parts.feature_names
        return found

    def chosen(
        self,
        names: list[str],  # of all members
        selection: Selection,
        alone: np.ndarray,  # (p,), the score of each member alone
        scores: tuple[float, float],
        method: str,
        predictions: str,
        savings: Savings | None,
        forest: FittedEnsemble | None = None,
    ) -> PrunedEnsemble:
        """Set the weights, and what is known of the choice; returns self."""
        weights = selection.weights
        kept = weights > 0
        self.n_members_, self.optimality_ = len(kept), selection.optimality
        self.method_, self.predictions_, self.savings_ = method, predictions, savings
        self.score_, self.score_of_all_ = scores
        self.strength_, self.errors_by_size_, self.forest_ = selection.strength, selection.errors, forest
        columns = (kept, weights, alone, selection.alignment)
        numbers = zip(range(len(kept)), names, *(column.tolist() for column in columns), selection.reasons)
        self.table_ = [MemberRow(*row) for row in numbers]
        return self.with_weights(weights[kept], selection.intercept)

    def with_weights(self, weights: np.ndarray, intercept: np.ndarray) -> PrunedEnsemble:
        """Set what `fit` would find; returns self."""
        self.weights_, self.intercept_, self.size_ = weights, intercept, int((weights > 0).sum())
        if self.classes is not None:
            self.classes_ = np.asarray(self.classes)
        return self

    def checked(self, X: Any, reset: bool = False) -> Any:
        """X as the members take it. Its features must be the ensemble's, unless `reset`."""
        if isinstance(self.members[0], ColumnMember):
            P = as_predictions(X)
            validate_data(self, X if hasattr(X, "columns") else P, reset=reset, skip_check_array=True)
            return P
        X = as_array(X) if isinstance(X, Tensor) else X
        if self.whole:
            return validate_data(self, X, reset=reset, skip_check_array=True)
        if isinstance(self.members[-1], StageMember):
            return validate_data(self, X, reset=reset, dtype=np.float32, order="C", accept_sparse="csr")
        return validate_data(
            self, X, reset=reset, dtype=None, ensure_all_finite=False, accept_sparse=("csr", "csc")
        )

    def _sum(self, X: Any) -> np.ndarray:
        """The weighted sum (n, c); members are called one after the other."""
        check_is_fitted(self, "weights_")
        X = self.checked(X)
        total = self.intercept_
        with np.errstate(over="ignore", invalid="ignore"):
            for member, weight in zip(self.members, self.weights_):
                if weight > 0:
                    total = total + weight * member.outputs(X)
        if not np.isfinite(total).all():
            raise ValueError("Some predictions of kept members are missing or infinite.")
        return total

    def predict(self, X: Any) -> np.ndarray:
        """Numbers (n,), or labels (n,)."""
        total = self._sum(X)
        if self.classes is None:
            return total[:, 0]
        return np.asarray(self.classes)[np.argmax(total, axis=1)]

    @available_if(lambda model: model.classes is not None)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes (n, n_classes): the sum, clipped at zero and scaled to one."""
        positive = np.maximum(self._sum(X), 0.0)
        sums = positive.sum(axis=1, keepdims=True)
        return np.where(sums > 0, positive / np.where(sums > 0, sums, 1.0), 1 / positive.shape[1])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, or accuracy."""
        predicted = self.predict(X)
        measure = r2_score if self.classes is None else accuracy_score
        return float(measure(y, predicted, sample_weight=sample_weight))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        kind = "regression" if self.classes is None else f"{len(self.classes)} classes"
        size = getattr(self, "size_", len(self.members))
        return f"<PrunedEnsemble: {size} of {getattr(self, 'n_members_', len(self.members))} members, {kind}>"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self.classes is None:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        else:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags
