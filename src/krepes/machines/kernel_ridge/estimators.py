"""KernelRidgeRegressor and KernelRidgeClassifier: quantities and classes from rows, images or objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import softmax
from torch import Tensor

from krepes.base.validation import check_choice
from krepes.features.fit_data import as_weights
from krepes.machines.kernel_ridge.conformal import Calibration, intervals, sets
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.kernel_ridge.other_losses import (
    LOSSES,
    Coefficients,
    LossProblem,
    as_columns,
    chosen_fits,
)
from krepes.machines.kernel_ridge.solution import Fits, RidgeSolution, RidgeTotal, kept_features
from krepes.machines.labelled_machine import ClassMachine, QuantityMachine
from krepes.machines.targets import checked_predictions
from krepes.regression.transductive import TransductiveRidge
from krepes.sources import reservoir

MOST_UNLABELLED = 5000


class KernelRidgeRegressor(QuantityMachine[RidgeTotal, RidgeSolution], RidgeMachine):
    """Predict numbers by kernel ridge regression, in one pass over the data.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeRegressor(random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.45)
    True
    """

    def predict(self, X: Any) -> np.ndarray:
        """The predicted targets, (n,) or (n, c)."""
        scores = self._scores(X)
        return self.targets_.decoded(scores)

    # Conformal prediction

    @property
    def held_out_predictions_(self) -> np.ndarray:
        """What was predicted for the rows `held_out_rows_` without them, (k,) or (k, c).

        Single rows were left out where all rows are kept, folds elsewhere. Kernel, metric and penalty have seen them.
        """
        return self.targets_.decoded(self._solved().held_out.predictions.numpy())

    def predict_interval(
        self, X: Any, confidence: float = 0.9, *, calibration: Calibration | None = None
    ) -> np.ndarray:
        """Intervals that hold the target, (n, 2): lower and upper bounds; (n, c, 2) for several targets.

        By CV+ [barber], from the residuals of the rows kept with the model under the fits without their folds. If new
        rows come from where the others came from, more than 2 confidence - 1 of the targets are covered, about, and
        usually about `confidence`. That kernel, metric and penalty were chosen on the same rows is outside the
        guarantee; up to 100 rows, each of ten folds is therefore predicted by a machine that chose them from the
        other rows, when this is first called. Each of several targets is covered so; all of them together less often.

        Parameters
        ----------
        X : rows, as for `predict`
        confidence : float, default=0.9
        calibration : (X, y), optional
            Rows that the model has not seen, nor were used to choose anything. Split conformal prediction with them
            covers at least `confidence`, on average over calibration rows, whatever was chosen before.

        Notes
        -----
        Rows count once, whatever their `sample_weight`. With too few held-out rows for the confidence (fewer than 9
        for 0.9, 19 for 0.95), intervals are infinite, and a warning says so.
        """
        self._fit()
        found = intervals(self, X, confidence, calibration)
        return found[:, 0] if self.targets_.flat else found


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRidgeClassifier(ClassMachine[RidgeTotal, RidgeSolution], RidgeMachine):
    """Predict classes by kernel ridge regression on indicators, in one pass over the data; see `RidgeMachine.fit`.

    Probabilities are the softmax of the scores at a temperature that predictions of rows left out have chosen. Other
    losses than the squared one are fitted to a sample of the rows.

    Parameters
    ----------
    {parameters}
    loss : "squared", "logistic" or "squared_hinge", default="squared"
        What is minimised. "squared" is ridge regression on the indicators of the classes, from sums over all rows.
        "logistic" gives probabilities directly, "squared_hinge" is a support vector machine for every class. These two
        are fitted to the kept rows, at most `n_kept`: a sample where there are more. Their penalty stands beside the
        sum of the losses as penalty / 2 |W|^2, so that C = 1 / penalty, and they have an intercept.
    class_weight : None, "balanced" or dict of class -> weight, default=None
        How much the rows of each class count. "balanced" makes all classes weigh the same; sums are then kept by
        class, which takes as many times the memory.
    transductive : bool, default=False
        Whether rows of `fit(X_unlabelled=...)`, at most 5000 of them, take part with the class that a first fit gives
        them; how much they count is chosen by rows left out. All labelled rows must be kept, without weights. Rows that
        are added later end it.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
    temperature_ : float
        What scores are divided by before the softmax; 1 for the logistic loss.
    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelRidgeClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9), model.predict_proba(X[:2]).shape
    (True, (2, 3))
    """

    loss: str = "squared"
    class_weight: Mapping[Any, float] | str | None = None
    transductive: bool = False

    # Fitting

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
        first_row: int | None = None,
        half_life: float | None = None,
    ) -> Self:
        """Add rows; see `KernelRidgeRegressor.partial_fit`. The first call gives all `classes`, if y lacks some."""
        given = {"y": y, "weight": sample_weight, "classes": classes}
        return self._add_rows(X, first_row, half_life, groups, **given)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("loss", self.loss, LOSSES)
        if self.loss != "squared" and not self.fit_intercept:
            raise ValueError(
                f"loss={self.loss!r} has an intercept: fit_intercept=False needs loss='squared'."
            )
        if self.loss != "squared" and self.solver == "conjugate_gradients":
            raise ValueError(f"solver='conjugate_gradients' is for loss='squared', not {self.loss!r}.")
        given = self.class_weight
        if isinstance(given, Mapping):
            bad = {
                name: w for name, w in given.items() if not (isinstance(w, int | float) and 0 < w < np.inf)
            }
            if bad:
                raise ValueError(f"class_weight has the weights {bad}; expected positive numbers.")
        elif given not in (None, "balanced"):
            raise ValueError(
                f"class_weight={given!r}: expected None, 'balanced' or a dict of class -> weight."
            )

    @property
    def _by_class(self) -> bool:
        return self.class_weight == "balanced"

    def _class_weight(self, total: RidgeTotal) -> np.ndarray | None:
        if not self._by_class:
            return None
        return _balance(total.class_counts(self.targets_.n_outputs))

    def _balanced(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        if not self._by_class:
            return weight
        weight = np.ones(len(y)) if weight is None else weight
        return weight * _balance(np.bincount(y, weight, self.targets_.n_outputs))[y]

    def _iterates(self, m: int) -> bool:
        return self.loss == "squared" and super()._iterates(m)

    def _weighted(self, y: np.ndarray, weight: ArrayLike | None) -> ArrayLike | None:
        if not isinstance(self.class_weight, Mapping):
            return weight
        unknown = [name for name in self.class_weight if name not in self.targets_.values.tolist()]
        if unknown:
            raise ValueError(f"class_weight names {unknown[0]!r}, which is not a class of y.")
        of_class = np.array(
            [self.class_weight.get(name, 1.0) for name in self.targets_.values.tolist()], float
        )
        given = as_weights(weight, len(y))
        return of_class[y] * (1.0 if given is None else given)

    def _take_unlabelled(self, X: Any) -> None:
        if not self.transductive:
            return
        total, space = self.total_, self.space_
        assert total is not None
        if not total.kept.complete or self.class_weight is not None or bool((total.kept.weight != 1).any()):
            raise ValueError(
                "transductive=True needs all labelled rows in memory and no weights: raise n_kept, or leave "
                "sample_weight and class_weight out."
            )
        source = space.inputs.open(X)
        rows, _ = reservoir(source, MOST_UNLABELLED, space.seed)
        free = space.features(space.inputs.tensor(rows, space.dtype, space.device)).double()
        Phi, Y = kept_features(space, total.kept).cpu().numpy(), self.targets_.matrix(total.kept.y).numpy()
        fit, found, F = TransductiveRidge().fit(Phi, Y, free.cpu().numpy()), self._solved(), self.features_.F
        self._solution = replace(
            found,
            A=F @ torch.from_numpy(fit.coef_).to(F),
            b=torch.from_numpy(fit.intercept_).to(F),
            penalty=float(fit.alpha_ * fit.unit_),
            # without their label, and without the guesses that it has helped to make
            held_out=replace(found.held_out, predictions=torch.from_numpy(fit.loo_predictions_)),
        )

    def _nest(self) -> None:
        if not self.transductive:  # whose predictions unlabelled rows have helped to make
            super()._nest()

    def _fits_of_rows(self, Phi: Tensor, y: np.ndarray, weight: Tensor, folds: np.ndarray) -> Fits | None:
        if self.loss == "squared":
            return None
        problem = LossProblem(self.loss, Phi.cpu().numpy(), y, weight.numpy(), self.targets_.n_outputs)
        penalty = None if self.penalty == "auto" else float(self.penalty)
        errors, fit, without = chosen_fits(problem, folds, penalty)

        def on_device(found: Coefficients) -> tuple[Tensor, Tensor]:
            W, b = as_columns(found)
            return torch.from_numpy(W).to(Phi), torch.from_numpy(b).to(Phi)

        return Fits(errors, *on_device(fit), {key: on_device(found) for key, found in without.items()})

    def _against_cells(self) -> str | None:
        if self.loss != "squared":
            return f"loss={self.loss!r} is for landmarks"
        return "transductive=True is for landmarks" if self.transductive else super()._against_cells()

    # Using

    @property
    def temperature_(self) -> float:
        return 1.0 if self.loss == "logistic" else self._solved().temperature

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, (n, c); of two classes, how far the second is ahead of the first, (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest score, (n,)."""
        scores = self._scores(X)
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities of the classes, (n, c)."""
        with np.errstate(over="ignore"):
            scores = checked_predictions(self._scores(X) / self.temperature_)
        return softmax(scores, axis=1)

    # Conformal prediction

    @property
    def held_out_probabilities_(self) -> np.ndarray:
        """Probabilities of the rows `held_out_rows_` without them, (k, c).

        Single rows were left out where all rows are kept, folds elsewhere. Kernel, metric, penalty and temperature have
        seen them.
        """
        return softmax(self._solved().held_out.predictions.numpy() / self.temperature_, axis=1)

    @property
    def held_out_predictions_(self) -> np.ndarray:
        """The class that was predicted for the rows `held_out_rows_` without them, (k,)."""
        return self.classes_[self._solved().held_out.predictions.numpy().argmax(axis=1)]

    def predict_set(
        self, X: Any, confidence: float = 0.9, *, calibration: Calibration | None = None
    ) -> np.ndarray:
        """Sets that hold the class of a row, (n, c): whether each of `classes_` is in the set.

        By cross-conformal prediction [vovk]: a class is in the set unless it is less likely than the classes of kept
        rows were under the fits without their folds. If new rows come from where the others came from, more
        than 2 confidence - 1 of the classes are covered, about, and usually about `confidence`. That kernel, metric,
        penalty and temperature were chosen on the same rows is outside the guarantee; up to 100 rows, each of ten
        folds is therefore predicted by a machine that chose them from the other rows, when this is first called.

        Parameters
        ----------
        X : rows, as for `predict`
        confidence : float, default=0.9
        calibration : (X, y), optional
            Rows that the model has not seen, nor were used to choose anything. Split conformal prediction with them
            covers at least `confidence`, on average over calibration rows, whatever was chosen before.

        Notes
        -----
        A set is empty where every class is unlikely, which happens where the model is right more often than the
        confidence asks for. Rows count once, whatever their `sample_weight`; coverage is that of all classes together.
        With too few held-out rows for the confidence (fewer than 9 for 0.9, 19 for 0.95), sets have all classes, and a
        warning says so.
        """
        self._fit()
        return sets(self, X, confidence, calibration, self.temperature_)


def _balance(counts: np.ndarray) -> np.ndarray:
    """Balanced class weights, (c,); empty classes get 1."""
    present = counts > 0
    return np.where(present, counts.sum() / (present.sum() * np.where(present, counts, 1.0)), 1.0)
