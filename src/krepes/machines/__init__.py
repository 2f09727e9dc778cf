"""Kernel machines on features: ridge regression with leave-one-out choice, Gaussian processes, calibration."""

from krepes.machines.calibration import expected_calibration_error, temperature
from krepes.machines.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from krepes.machines.kernel_ridge import KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.ridge import LeaveOneOutRidge
from krepes.machines.transductive import TransductiveRidge, transductive_coefficients

__all__ = [
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "LeaveOneOutRidge",
    "TransductiveRidge",
    "expected_calibration_error",
    "temperature",
    "transductive_coefficients",
]
