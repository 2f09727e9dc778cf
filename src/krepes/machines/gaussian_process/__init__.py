"""Gaussian processes: predictions with their uncertainty, and everything chosen by evidence."""

from krepes.machines.gaussian_process.classifier import GaussianProcessClassifier
from krepes.machines.gaussian_process.regressor import GaussianProcessRegressor

__all__ = ["GaussianProcessClassifier", "GaussianProcessRegressor"]
