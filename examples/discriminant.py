"""
Write your own one-pass model
=============================

Two hooks make a model: what is summed in the pass, and what is solved from the sums. Everything else comes from the
base: reading of arrays, frames, files and objects, checkpoints, weights, ``partial_fit``, ``merge``, ``save``. Here
they make linear discriminants in the feature space of a kernel [Fisher 1936, regularised]::

    mu_c = mean of phi(x) over class c,      S = mean over all rows of (phi - mu_c)(phi - mu_c)^T
    score_c(x) = mu_c^T (S + lam I)^-1 (phi(x) - mu_c / 2) + log p_c
"""

from __future__ import annotations

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from krepes.base.split import Parts, Split, by_target
from krepes.features import FeatureSpace, MomentPass
from krepes.moments import Moments
from krepes.one_pass import OnePassEstimator

RIDGE = 0.01  # of the mean eigenvalue of S

# %%
# The sums are the moments of the features, split by class. ``_solve`` makes discriminants of them.


class Discriminants(NamedTuple):
    """Scores phi(x) W + b, one column per class."""

    classes: np.ndarray
    W: torch.Tensor  # shape: (r, C)
    b: torch.Tensor  # shape: (C,)


class KernelDiscriminant(ClassifierMixin, OnePassEstimator[Parts[Moments], Discriminants]):
    """A classifier from class means and the pooled covariance; parameters as in OnePassEstimator."""

    def _accumulator(self, space: FeatureSpace) -> Split:
        return Split(MomentPass(space), by=by_target)

    def _solve(self, value: Parts[Moments]) -> Discriminants:
        classes = sorted(value)
        share = torch.tensor([value[c].n / value.n for c in classes], dtype=torch.float64)
        means = torch.stack([value[c].mean for c in classes]).cpu()  # (C, r)
        S = torch.stack([p * value[c].covariance.cpu() for c, p in zip(classes, share)]).sum(0)
        S.diagonal().add_(RIDGE * S.trace() / len(S))
        W = torch.linalg.solve(S, means.mT)
        return Discriminants(np.array(classes), W, share.log() - (means.mT * W).sum(0) / 2)

    @property
    def classes_(self) -> np.ndarray:
        return self._solved().classes

    def decision_function(self, X) -> np.ndarray:  # shape: (n, C)
        W, b = (part.to(self.space_.device) for part in self._solved()[1:])
        return self._mapped(lambda rows: self.features_(rows).double() @ W + b, X)

    def predict(self, X) -> np.ndarray:  # shape: (n,)
        return self.classes_[self.decision_function(X).argmax(axis=1)]


# %%
# Rows come in parts of 100. The model is ready after each of them, and no row is read twice.
if __name__ == "__main__":
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    model = KernelDiscriminant(n_landmarks=300, random_state=0)
    seen, accuracy = [], []
    for start in range(0, len(X_train), 100):
        model.partial_fit(X_train[start : start + 100], y_train[start : start + 100])
        seen.append(model.n_samples_seen_)
        accuracy.append(100 * model.score(X_test, y_test))
    print(f"{seen[-1]} rows seen, {accuracy[-1]:.1f} % of other rows right")

    figure, axis = plt.subplots(figsize=(5.5, 3.5), layout="constrained")
    axis.plot(seen, accuracy, "o-", color="tab:blue", linewidth=2)
    axis.set(xlabel="rows seen", ylabel="accuracy on other rows, %")
    plt.show()
