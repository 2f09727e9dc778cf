"""The estimators of alignment and the ridge machine keep scikit-learn's contract."""

from __future__ import annotations

import sklearn
from sklearn.utils.estimator_checks import parametrize_with_checks

from krepes.alignment import AlignmentSelector, LayerTransferClassifier
from krepes.regression import LeaveOneOutRidge

OLD_CHECKS = sklearn.__version__.startswith("1.7.")


def not_met(estimator):
    """What is known to fail, and why."""
    if isinstance(estimator, AlignmentSelector) and OLD_CHECKS:
        noise = "scikit-learn 1.7 fits it on noise, and a selector that would keep nothing raises an error"
        return {"check_n_features_in_after_fitting": noise}
    return {}


@parametrize_with_checks(
    [LeaveOneOutRidge(), AlignmentSelector(), LayerTransferClassifier(n_landmarks=50)],
    expected_failed_checks=not_met,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
