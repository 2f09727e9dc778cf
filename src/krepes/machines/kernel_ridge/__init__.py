"""Kernel ridge machines: regression and classification in one pass, with everything chosen by held-out errors."""

from krepes.machines.kernel_ridge.classifier import KernelRidgeClassifier
from krepes.machines.kernel_ridge.regressor import KernelRidgeRegressor

__all__ = ["KernelRidgeClassifier", "KernelRidgeRegressor"]
