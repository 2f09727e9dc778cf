"""The estimators of alignment and the ridge machine keep scikit-learn's contract."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from krepes.alignment import AlignmentSelector, LayerTransferClassifier
from krepes.machines import LeaveOneOutRidge


@parametrize_with_checks([LeaveOneOutRidge(), AlignmentSelector(), LayerTransferClassifier(n_landmarks=50)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
