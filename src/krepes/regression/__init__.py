"""Linear models of given features, and the algebra of ridge regression that machines, pre-images and probes share."""

from krepes.regression.calibration import expected_calibration_error, temperature
from krepes.regression.ridge import LeaveOneOutRidge
from krepes.regression.transductive import TransductiveRidge

__all__ = [
    "LeaveOneOutRidge",
    "TransductiveRidge",
    "expected_calibration_error",
    "temperature",
]
