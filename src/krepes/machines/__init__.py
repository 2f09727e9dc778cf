"""Kernel machines on features: ridge regression with leave-one-out choice, calibrated probabilities."""

from krepes.machines.calibration import expected_calibration_error, temperature
from krepes.machines.ridge import LeaveOneOutRidge, transductive_coefficients

__all__ = ["LeaveOneOutRidge", "expected_calibration_error", "temperature", "transductive_coefficients"]
