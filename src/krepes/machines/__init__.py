"""Kernel machines on features: ridge regression, Gaussian processes, novelty detection, calibration."""

from krepes.machines.calibration import expected_calibration_error, temperature
from krepes.machines.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from krepes.machines.kernel_ridge import KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.novelty import NoveltyDetector
from krepes.machines.ridge import LeaveOneOutRidge
from krepes.machines.transductive import TransductiveRidge, transductive_coefficients

__all__ = [
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "LeaveOneOutRidge",
    "NoveltyDetector",
    "TransductiveRidge",
    "expected_calibration_error",
    "temperature",
    "transductive_coefficients",
]
